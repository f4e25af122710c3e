"""What an administrator asks of a DRBD 9 resource on one node, and how DRBD says no.

Numbers and words of refusals: LINBIT drbd-headers (drbd_strings.c, linux/drbd.h), which the
captures bear out where they have one; exit statuses: lab/qemu_drbd.md, trap 7.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from harness.twin.world.drbd_state import (
    ATTACHING,
    CONSISTENT,
    DISKLESS,
    ESTABLISHED,
    FAILED,
    INCONSISTENT,
    OUTDATED,
    PRIMARY,
    STANDALONE,
    UP_TO_DATE,
    Peer,
    Replica,
)

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource

_STATE_ERRORS: Mapping[int, str] = {
    -1: "Multiple primaries not allowed by config",
    -2: "Need access to UpToDate data",
    -6: "Refusing to be Outdated while Connected",
    -7: "Refusing to be Primary while peer is not outdated",
    -8: "Can not start OV/resync since it is already active",
    -10: "State change was refused by peer node",
    -11: "Device is diskless, the requested operation requires a disk",
    -12: "Device is held open by someone",
    -15: "Need a connection to start verify or resync",
    -16: "Disk state is lower than outdated",
    -25: "No quorum",
}
_EXITS = {-2: 17, -16: 5}
_REFUSED = 11
_CONFIGURATION = 10


class Refused(Exception):
    """DRBD said no. ``str()`` is what drbdsetup prints, with lines' ends; ``status`` its exit."""

    def __init__(self, text: str, status: int) -> None:
        super().__init__(text)
        self.status = status


def refuse(name: str, error: int, more: str = "") -> Refused:
    """A state change that is refused."""
    text = f"{name}: State change failed: ({error}) {_STATE_ERRORS[error]}\n"
    text += f"additional info from kernel:\n{more}\n" if more else ""
    return Refused(text, _EXITS.get(error, _REFUSED))


def misconfigured(what: str, number: int, words: str, more: str = "") -> Refused:
    """A request that does not fit how things are configured."""
    text = f"{what}: Failure: ({number}) {words}\n"
    text += f"additional info from kernel:\n{more}\n" if more else ""
    return Refused(text, _CONFIGURATION)


def chosen(replica: Replica, peer: str) -> list[Peer]:
    """The peers meant by a name, all for ""; none for a name that no peer has."""
    return [one for one in replica.peers.values() if peer in ("", one.name)]


def primary(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Promote; ``--force`` makes the node's own data good if nobody has better."""
    del peer
    error = resource.io.refusal(replica)
    forced = "--force" in flags and error == -2 and replica.disk not in (DISKLESS, FAILED)
    if replica.role == PRIMARY:
        replica.promoted = False
        return
    if error and not forced:
        raise refuse(resource.name, error, _declined(replica) if error == -10 else "")
    if forced:
        resource.set_disk(replica, UP_TO_DATE)
        resource.say(replica, "resource", None, "Forced to consider local data as UpToDate!")
        resource.syncs.forced(replica)
    resource.io.promote(replica)
    if forced:
        resource.syncs.spread(replica)


def _declined(replica: Replica) -> str:
    peer = replica.connected()[0]
    return f"Declined by peer {peer.name} (id: {peer.node_id}), see the kernel log there"


def secondary(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Demote; ``--force`` fails the I/O of whoever has the device open."""
    del peer
    if replica.openers and "--force" in flags:
        resource.io.force_secondary(replica)
        return
    if replica.openers:
        raise refuse(resource.name, -12)
    if replica.role == PRIMARY:
        resource.io.demote(replica, "secondary")


def connect(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Look for peers that the node stands alone without."""
    wanted = chosen(replica, peer)
    alone = [one for one in wanted if one.connection == STANDALONE]
    if not alone:
        raise misconfigured(resource.name, 125, "Device has a net-config (use disconnect first)")
    for one in alone:
        resource.links.connect(replica, one, discards="--discard-my-data" in flags)


def disconnect(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """End connections; one that is ended is fine."""
    del flags
    for one in chosen(replica, peer):
        if one.connection != STANDALONE:
            resource.links.disconnect(replica, one)


def detach(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Let go of the disk, which a Primary may not whose disk is the only good one."""
    del peer
    if replica.disk == DISKLESS:
        return
    others = any(one.disk == UP_TO_DATE for one in replica.connected())
    if replica.role == PRIMARY and not others and "--force" not in flags:
        raise refuse(resource.name, -2)
    resource.io.detach(replica)


def attach(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Take the disk below, and bring it up from peers that went on without it."""
    del flags, peer
    device = str(resource.minor)
    if replica.disk != DISKLESS:
        raise misconfigured(device, 124, "Device is attached to a disk (use detach first)")
    if replica.lost_disk:
        raise misconfigured(
            device, 104, "Can not open backing device.", f"{replica.backing}: No such device"
        )
    replica.disk = ATTACHING
    resource.commit("attach")
    resource.set_disk(replica, replica.marked if replica.marked != UP_TO_DATE else CONSISTENT)
    resource.commit("attach")
    resource.links.compare_attached(replica)


def outdate(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Call the node's data outdated, which only a node may that talks to nobody."""
    del flags, peer
    if replica.disk in (INCONSISTENT, DISKLESS):
        raise refuse(resource.name, -16)
    if replica.connected():
        raise refuse(resource.name, -6)
    if replica.role == PRIMARY:
        raise refuse(resource.name, -2)
    resource.set_disk(replica, OUTDATED)
    resource.commit("outdate")


def invalidate(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Give the node's data up, and bring them up whole from a peer."""
    del flags
    sources = [one for one in chosen(replica, peer) if one.connected and one.disk == UP_TO_DATE]
    if replica.role == PRIMARY or not sources:
        raise refuse(resource.name, -2)
    if replica.disk == DISKLESS:
        raise refuse(resource.name, -11)
    resource.links.resync(_best(resource, sources), replica)


def verify(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Compare the node's data with those of connected peers."""
    del flags
    here = [one for one in chosen(replica, peer) if one.connected]
    if not here:
        raise refuse(resource.name, -15)
    if replica.disk == DISKLESS:
        raise refuse(resource.name, -11)
    if any(one.replication != ESTABLISHED for one in here):
        raise refuse(resource.name, -8)
    for one in here:
        if one.disk not in (DISKLESS, FAILED):
            resource.syncs.verify(replica, one)


def up(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Configure the resource in the kernel; what is configured is fine."""
    del flags, peer
    if not replica.up:
        start(resource, replica)


def down(resource: Resource, replica: Replica, flags: Sequence[str], peer: str) -> None:
    """Take the resource out of the kernel."""
    del flags, peer
    if not replica.up:
        return
    if replica.openers:
        raise refuse(resource.name, -12)
    for one in replica.peers.values():
        if one.connection != STANDALONE:
            resource.links.disconnect(replica, one)
    resource.forget(replica)
    resource.commit("down")


def start(resource: Resource, replica: Replica) -> None:
    """Bring a node's replica up: attach what the metadata say it is, then look for the peers.

    Data that were good are only consistent until somebody says that nobody has newer ones.
    """
    replica.up, replica.role, replica.disk = True, "Secondary", ATTACHING
    text = f"Starting worker thread (node-id {replica.node_id})"
    resource.say(replica, "resource", None, text)
    resource.commit("attach")
    bits = sum(len(one.bits) for one in replica.peers.values())
    if bits:
        text = f"{bits * 4} KB ({bits} bits) marked out-of-sync by on disk bit-map."
        resource.say(replica, "device", None, text)
    good = replica.marked == UP_TO_DATE
    replica.disk = DISKLESS if replica.lost_disk else CONSISTENT if good else replica.marked
    resource.commit("attach")
    text = f"attached to current UUID: {replica.current:016X}"
    resource.say(replica, "device", None, text)
    for one in replica.peers.values():
        resource.links.connect(replica, one)


def cstate(replica: Replica) -> str:
    """One line for each connection, in the order of node ids."""
    return "".join(f"{one.connection}\n" for one in replica.peers.values())


def dstate(replica: Replica) -> str:
    """The node's own disk, then the peers', the last node first."""
    peers = sorted(replica.peers.values(), key=lambda one: -one.node_id)
    return "/".join([replica.disk, *(one.disk for one in peers)]) + "\n"


def _best(resource: Resource, sources: Sequence[Peer]) -> Replica:
    """Whom to take data from: a Primary before others."""
    first = sorted(sources, key=lambda one: (one.role != PRIMARY, one.node_id))[0]
    return resource.replica(first.node_id)


Verb = Callable[["Resource", Replica, Sequence[str], str], None]
VERBS: Mapping[str, tuple[Verb, tuple[str, ...]]] = {
    "up": (up, ()),
    "down": (down, ()),
    "primary": (primary, ("--force",)),
    "secondary": (secondary, ("--force",)),
    "connect": (connect, ("--discard-my-data",)),
    "disconnect": (disconnect, ()),
    "attach": (attach, ()),
    "detach": (detach, ("--force",)),
    "verify": (verify, ()),
    "outdate": (outdate, ()),
    "invalidate": (invalidate, ()),
}
"""What drbdadm does to a resource, and the options that it takes with each."""
