"""How DRBD 9 tells of states and their changes: events2's lines, and the kernel's.

Words, order and grouping: the captures of 9.2.14 with drbd-utils 9.22 (lab/qemu_drbd.md), and
where those are silent LINBIT drbd-utils, user/v9/drbdsetup_events2.c.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.world import drbd_state as names
from harness.twin.world.drbd_state import Peer, Replica

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource

Key = tuple[str, int]  # object, and the peer's node id, -1 where it is about none
Fields = dict[str, str]
Snapshot = dict[Key, Fields]
_GROUPS = (
    {"may_promote", "promotion_score"},
    {"backing_dev", "disk", "client", "quorum"},
    {"peer-disk", "peer-client"},
)
"""What is told together as soon as one of it changes."""
_PROMOTION = {"may_promote", "promotion_score"}


@dataclass(frozen=True, slots=True)
class Event:
    """One line of events2, without its time. ``statistics`` are told only when asked for."""

    action: str
    subject: str
    fields: tuple[str, ...]
    statistics: str = ""

    def line(self, *, statistics: bool = False) -> str:
        """The line."""
        told = [self.subject, *self.fields]
        if statistics and self.statistics:
            # what a resource may be promoted for comes after its statistics
            at = next((i for i, one in enumerate(told) if one.startswith("may_promote")), len(told))
            told.insert(at, self.statistics)
        return " ".join([self.action, *told])


LIST_ENDS = Event("exists", "-", ())


def snapshot(resource: Resource, replica: Replica) -> Snapshot:
    """What a node tells now: resource, connections, device, and each peer's device and path.

    Later nodes come before earlier ones, as the kernel lists them.
    """
    found: Snapshot = {("resource", -1): _resource(resource, replica)}
    peers = sorted(replica.peers.values(), key=lambda peer: -peer.node_id)
    for peer in peers:
        states = {"connection": peer.connection, "role": peer.role}
        found["connection", peer.node_id] = states
    found["device", -1] = {
        "backing_dev": backing(replica),
        "disk": replica.disk,
        "client": "no",
        "quorum": yes(replica.quorum),
    }
    for peer in peers:
        found["peer-device", peer.node_id] = _peer_device(resource, replica, peer)
        found["path", peer.node_id] = {"established": yes(peer.connected)}
    return found


def listed(resource: Resource, replica: Replica, action: str = "exists") -> list[Event]:
    """One event for each object that there is."""
    now = snapshot(resource, replica)
    return [_event(resource, replica, action, key, fields) for key, fields in now.items()]


def changes(resource: Resource, replica: Replica, old: Snapshot, new: Snapshot) -> Iterator[Event]:
    """One event for each object that changed, with what changed of it."""
    for key, fields in new.items():
        before = old.get(key, {})
        changed = {name for name, value in fields.items() if before.get(name) != value}
        for group in _GROUPS:
            changed |= group & fields.keys() if changed & group else set()
        if changed:
            told = {name: value for name, value in fields.items() if name in changed}
            yield _event(resource, replica, "change", key, told)


def helper(
    resource: Resource, name: str, peer: Peer | None, *, device: bool, status: int | None
) -> Event:
    """The kernel calls a helper program, or the program has ended with ``status``."""
    fields = [f"name:{resource.name}"]
    fields += [f"peer-node-id:{peer.node_id}", f"conn-name:{peer.name}"] if peer else []
    fields += ["volume:0", f"minor:{resource.minor}"] if device else []
    fields += [f"helper:{name}"] + ([] if status is None else [f"status:{status}"])
    return Event("call" if status is None else "response", "helper", tuple(fields))


def stamp(moment: float) -> str:
    """The time in front of a line, as --timestamps has it."""
    when = datetime.datetime.fromtimestamp(moment, datetime.UTC)
    return when.isoformat(timespec="microseconds")


def render(events: Iterable[Event], moment: float, *, timestamps: bool, statistics: bool) -> bytes:
    """Lines of events2."""
    head = f"{stamp(moment)} " if timestamps else ""
    return "".join(f"{head}{one.line(statistics=statistics)}\n" for one in events).encode()


# -- objects -----------------------------------------------------------------------------------


def _event(resource: Resource, replica: Replica, action: str, key: Key, fields: Fields) -> Event:
    kind, node = key
    identity = [f"name:{resource.name}"]
    if node >= 0:
        peer = replica.peers[node]
        identity += [f"peer-node-id:{node}", f"conn-name:{peer.name}"]
    if kind == "device":
        identity += ["volume:0", f"minor:{resource.minor}"]
    if kind == "peer-device":
        identity += ["volume:0"]
    if kind == "path":
        mine, other = replica.address, resource.replica(node).address
        identity += [f"local:{mine}", f"peer:{other}"]
    told = [f"{name}:{value}" for name, value in fields.items()]
    return Event(
        action, " ".join([kind, *identity]), tuple(told), _statistics(resource, replica, key)
    )


def _statistics(resource: Resource, replica: Replica, key: Key) -> str:
    kind, node = key
    if kind == "resource":
        return "write-ordering:flush"
    if kind == "device":
        return " ".join(device_statistics(resource, replica))
    if kind == "connection":
        return " ".join(connection_statistics(replica.peers[node]))
    if kind == "peer-device":
        return " ".join(peer_statistics(replica.peers[node]))
    return ""


def _resource(resource: Resource, replica: Replica) -> Fields:
    may, score = promotion(resource, replica)
    return {
        "role": replica.role,
        "suspended": suspended(replica),
        "force-io-failures": yes(replica.failing),
        "may_promote": yes(may),
        "promotion_score": str(score),
    }


def _peer_device(resource: Resource, replica: Replica, peer: Peer) -> Fields:
    fields = {
        "replication": peer.replication,
        "peer-disk": peer.disk,
        "peer-client": "no",
        "resync-suspended": resource.held_back(replica, peer),
    }
    if peer.sync is not None:
        fields["done"] = f"{resource.done(peer):.2f}"
    return fields


def promotion(resource: Resource, replica: Replica) -> tuple[bool, int]:
    """Whether a node may be promoted, and how good a place it would be.

    Good data elsewhere count only where no Primary changes them.
    """
    disks = [replica.disk, *(peer.disk for peer in replica.peers.values())]
    good = disks.count(names.UP_TO_DATE)
    if replica.failing or not replica.quorum or not good:
        return False, 0
    has_disk = replica.disk in (names.UP_TO_DATE, names.CONSISTENT, names.INCONSISTENT)
    roles = [replica.role, *(peer.role for peer in replica.peers.values())]
    mine = replica.disk == names.UP_TO_DATE
    steady = mine or any(
        peer.disk == names.UP_TO_DATE and resource.steady(peer) for peer in replica.connected()
    )
    may = names.PRIMARY not in roles and steady
    return may, 10_000 * has_disk + 100 * mine + good


def suspended(replica: Replica) -> str:
    """Why I/O stands still, in one word or several; "no" where it does not."""
    told = [why for why in ("user", "no-data", "fencing", "quorum") if why in replica.suspended]
    return ",".join(told) or "no"


def backing(replica: Replica) -> str:
    """The device below; none while nothing is attached."""
    return "none" if replica.disk == names.DISKLESS else replica.backing


def device_statistics(resource: Resource, replica: Replica) -> list[str]:
    """Words about a device, as the text of a status and events2 have them."""
    counts = {
        "size": resource.size,
        "read": replica.read,
        "written": replica.written,
        "al-writes": replica.al_writes,
        "bm-writes": replica.bm_writes,
        "upper-pending": resource.upper_pending(replica),
        "lower-pending": resource.lower_pending(replica),
    }
    blocked = "upper" if replica.frozen else "no"
    return [*(f"{n}:{v}" for n, v in counts.items()), "al-suspended:no", f"blocked:{blocked}"]


def connection_statistics(peer: Peer) -> list[str]:
    """Words about a connection."""
    busy = peer.replication == names.SYNC_SOURCE
    return [f"congested:{yes(busy)}", "ap-in-flight:0", f"rs-in-flight:{2048 * busy}"]


def peer_statistics(peer: Peer) -> list[str]:
    """Words about a peer's device."""
    pending, unacked = in_flight(peer)
    return [
        f"received:{peer.received}",
        f"sent:{peer.sent}",
        f"out-of-sync:{peer.out_of_sync}",
        f"pending:{pending}",
        f"unacked:{unacked}",
    ]


def in_flight(peer: Peer) -> tuple[int, int]:
    """Requests of a resync that are under way: pending, not acknowledged."""
    if peer.replication == names.SYNC_SOURCE:
        return 1, 8
    return (8, 0) if peer.replication == names.SYNC_TARGET else (0, 0)


def yes(value: bool) -> str:  # noqa: FBT001 - it is what is said
    """DRBD's word for a truth."""
    return "yes" if value else "no"


# -- the kernel's lines ------------------------------------------------------------------------

_KERNEL_NAMES = {
    "connection": "conn",
    "role": "role",
    "suspended": "susp-io",
    "force-io-failures": "force-io-failures",
    "disk": "disk",
    "quorum": "quorum",
    "peer-disk": "pdsk",
    "replication": "repl",
    "resync-suspended": "resync-susp",
}


def kernel_lines(
    resource: Resource, replica: Replica, old: Snapshot, new: Snapshot, why: str
) -> Iterator[str]:
    """What the kernel prints of the same changes: one line for each object."""
    for key, fields in new.items():
        kind, node = key
        before = old.get(key, fields)
        changed = []
        for name, plain in _KERNEL_NAMES.items():
            label = "peer" if (kind, name) == ("connection", "role") else plain
            if name in fields and before[name] != fields[name]:
                changed.append(f"{label}( {before[name]} -> {fields[name]} )")
        if changed:
            where = resource.label(kind, replica.peers[node].name if node >= 0 else "")
            yield f"{where}: {' '.join(changed)}{f' [{why}]' if why else ''}"


Heard = Callable[[list[Event]], None]
