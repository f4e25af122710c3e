"""``drbdsetup status`` of DRBD 9: text, as it is wrapped, and JSON in drbdsetup's own layout.

Fields, order, wrapping and numbers: captures drbd9_01 to drbd9_10 (drbd-utils 9.22).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.twin.world import drbd_events
from harness.twin.world.drbd_state import (
    ESTABLISHED,
    OFF,
    SYNC_TARGET,
    VERIFY_SOURCE,
    VERIFY_TARGET,
    Peer,
    Replica,
)

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource

_COLUMNS = 80  # drbdsetup's width where there is no terminal
_NEVER = 987654321  # seconds to the end of what does not move


@dataclass(slots=True)
class _Lines:
    """Words laid out as drbdsetup lays them out: a line is broken before it reaches the width."""

    text: str = ""
    column: int = field(default=0)

    def put(self, indent: int, *words: str) -> None:
        for word in words:
            if self.column and self.column + 1 + len(word) >= _COLUMNS:
                self.end()
            lead = " " if self.column else " " * indent
            self.text += lead + word
            self.column += len(lead) + len(word)

    def end(self) -> None:
        self.text += "\n"
        self.column = 0


# -- text --------------------------------------------------------------------------------------


def text(resource: Resource, replica: Replica, *, verbose: bool, statistics: bool) -> str:
    """The status of one resource, ended by an empty line."""
    resource.catch_up()
    lines = _Lines()
    _resource(lines, resource, replica, verbose=verbose, statistics=statistics)
    _device(lines, resource, replica, verbose=verbose, statistics=statistics)
    for peer in replica.peers.values():
        _connection(lines, resource, replica, peer, verbose=verbose, statistics=statistics)
    lines.end()
    return lines.text


def _resource(
    lines: _Lines, resource: Resource, replica: Replica, *, verbose: bool, statistics: bool
) -> None:
    lines.put(0, resource.name)
    if verbose:
        lines.put(4, f"node-id:{replica.node_id}")
    lines.put(4, f"role:{replica.role}")
    if verbose or replica.suspended:
        lines.put(4, f"suspended:{drbd_events.suspended(replica)}")
    if verbose or replica.failing:
        lines.put(4, f"force-io-failures:{drbd_events.yes(replica.failing)}")
    if statistics:
        lines.end()
        lines.put(4, "write-ordering:flush")
    lines.end()


def _device(
    lines: _Lines, resource: Resource, replica: Replica, *, verbose: bool, statistics: bool
) -> None:
    if verbose:
        lines.put(2, "volume:0", f"minor:{resource.minor}")
    lines.put(2 if not verbose else 6, f"disk:{replica.disk}")
    if verbose:
        lines.put(6, f"backing_dev:{drbd_events.backing(replica)}")
    if verbose or not replica.quorum:
        lines.put(6, f"quorum:{drbd_events.yes(replica.quorum)}")
    if statistics:
        lines.end()
        lines.put(6, *drbd_events.device_statistics(resource, replica))
    elif replica.frozen:
        lines.put(6, "blocked:upper")
    lines.end()


def _connection(
    lines: _Lines,
    resource: Resource,
    replica: Replica,
    peer: Peer,
    *,
    verbose: bool,
    statistics: bool,
) -> None:
    lines.put(2, peer.name)
    if verbose:
        lines.put(6, f"node-id:{peer.node_id}")
    if verbose or not peer.connected:
        lines.put(6, f"connection:{peer.connection}")
    if verbose or peer.connected:
        lines.put(6, f"role:{peer.role}")
    words = drbd_events.connection_statistics(peer)
    if statistics or words[0] == "congested:yes":
        lines.put(6, *words)
    lines.end()
    if verbose or peer.connected:
        _peer_device(lines, resource, replica, peer, verbose=verbose, statistics=statistics)


def _peer_device(
    lines: _Lines,
    resource: Resource,
    replica: Replica,
    peer: Peer,
    *,
    verbose: bool,
    statistics: bool,
) -> None:
    if verbose:
        lines.put(4, "volume:0")
    if verbose or peer.replication not in (OFF, ESTABLISHED):
        lines.put(4, f"replication:{peer.replication}")
    lines.put(4 if not lines.column else 8, f"peer-disk:{peer.disk}")
    if peer.sync is not None:
        lines.put(8, f"done:{resource.done(peer):.2f}")
    held = resource.held_back(replica, peer)
    if verbose or held != "no":
        lines.put(8, f"resync-suspended:{held}")
    if statistics:
        lines.end()
        lines.put(8, *drbd_events.peer_statistics(peer), *_speed(resource, peer))
    lines.end()


def _speed(resource: Resource, peer: Peer) -> list[str]:
    if peer.sync is None:
        return []
    progress = _progress(resource, peer)
    eta = "nan" if progress.ends_in is None else str(progress.ends_in)
    return [f"dbdt1:{progress.speed:.2f}", f"eta:{eta}"]


# -- JSON --------------------------------------------------------------------------------------


def json_text(found: Iterable[tuple[Resource, Replica]]) -> str:
    """The status of resources as drbdsetup writes JSON."""
    told = ",\n".join(_json_resource(resource, replica) for resource, replica in found)
    return f"[\n{told}]\n"


def _json_resource(resource: Resource, replica: Replica) -> str:
    resource.catch_up()
    connections = ",\n".join(
        _json_connection(resource, replica, peer) for peer in replica.peers.values()
    )
    rows: dict[str, str] = {
        "name": _quoted(resource.name),
        "node-id": str(replica.node_id),
        "role": _quoted(replica.role),
        "suspended": _bool(bool(replica.suspended)),
        "suspended-user": _bool("user" in replica.suspended),
        "suspended-no-data": _bool("no-data" in replica.suspended),
        "suspended-fencing": _bool("fencing" in replica.suspended),
        "suspended-quorum": _bool("quorum" in replica.suspended),
        "force-io-failures": _bool(replica.failing),
        "write-ordering": _quoted("flush"),
    }
    head = "".join(f'  "{name}": {value},\n' for name, value in rows.items())
    device = _rows(6, _json_device(resource, replica))
    return (
        f'{{\n{head}  "devices": [\n    {{\n{device}    }} ],\n'
        f'  "connections": [\n{connections} ]\n}}\n'
    )


def _json_device(resource: Resource, replica: Replica) -> dict[str, str]:
    return {
        "volume": "0",
        "minor": str(resource.minor),
        "disk-state": _quoted(replica.disk),
        "client": "false",
        "quorum": _bool(replica.quorum),
        "size": str(resource.size),
        "read": str(replica.read),
        "written": str(replica.written),
        "al-writes": str(replica.al_writes),
        "bm-writes": str(replica.bm_writes),
        "upper-pending": str(resource.upper_pending(replica)),
        "lower-pending": str(resource.lower_pending(replica)),
    }


def _json_connection(resource: Resource, replica: Replica, peer: Peer) -> str:
    busy, _, flying = drbd_events.connection_statistics(peer)
    rows = [
        f'"peer-node-id": {peer.node_id},',
        f'"name": {_quoted(peer.name)},',
        f'"connection-state": {_quoted(peer.connection)}, ',
        f'"congested": {_bool(busy == "congested:yes")},',
        f'"peer-role": {_quoted(peer.role)},',
        '"ap-in-flight": 0,',
        f'"rs-in-flight": {flying.partition(":")[2]},',
        '"peer_devices": [',
    ]
    head = "".join(f"      {row}\n" for row in rows)
    device = _rows(10, _json_peer(resource, replica, peer))
    return f"    {{\n{head}        {{\n{device}        }} ]\n    }}"


def _json_peer(resource: Resource, replica: Replica, peer: Peer) -> dict[str, str]:
    pending, unacked = drbd_events.in_flight(peer)
    verifies = peer.replication in (VERIFY_SOURCE, VERIFY_TARGET)
    rows = {
        "volume": "0",
        "replication-state": _quoted(peer.replication),
        "peer-disk-state": _quoted(peer.disk),
        "peer-client": "false",
        "resync-suspended": _quoted(resource.held_back(replica, peer)),
        "received": str(peer.received),
        "sent": str(peer.sent),
        "out-of-sync": str(peer.out_of_sync),
        "pending": str(pending),
        "unacked": str(unacked),
        "has-sync-details": _bool(peer.sync is not None),
        "has-online-verify-details": _bool(verifies),
        "percent-in-sync": f"{100 * (1 - peer.out_of_sync / resource.size):.2f}",
    }
    return rows if peer.sync is None else rows | _json_sync(resource, peer)


@dataclass(frozen=True, slots=True)
class _Progress:
    """How a resync goes: KiB in all and still to do, ms since it began, MiB/s, seconds left."""

    total: int
    left: int
    passed: int
    speed: float
    ends_in: int | None


def _progress(resource: Resource, peer: Peer) -> _Progress:
    assert peer.sync is not None
    total = peer.sync.total
    left = round(total * (1 - resource.done(peer) / 100))
    seconds = resource.engine.now - peer.sync.began
    speed = (total - left) / 1024 / seconds if seconds else 0.0
    ends = int(left / 1024 / speed) if speed else None
    return _Progress(total, left, int(seconds * 1000), speed, ends)


def _json_sync(resource: Resource, peer: Peer) -> dict[str, str]:
    one = _progress(resource, peer)
    done, speed = 2 * (one.total - one.left), f"{one.speed:.2f}"
    wanted = resource.settings.rate / 1024 if peer.replication == SYNC_TARGET else 0.0
    return {
        "rs-total": str(2 * one.total),
        "rs-dt-start-ms": str(one.passed),
        "rs-paused-ms": "0",
        "rs-dt0-ms": str(one.passed),
        "rs-db0-sectors": str(done),
        "rs-dt1-ms": str(one.passed),
        "rs-db1-sectors": str(done),
        "rs-failed": "0",
        "rs-same-csum": "0",
        "want": f"{wanted:.2f}",
        "db0/dt0 [MiB/s]": speed,
        "db1/dt1 [MiB/s]": speed,
        "estimated-seconds-to-finish": str(_NEVER if one.ends_in is None else one.ends_in),
        "db/dt [MiB/s]": speed,
        "percent-resync-done": f"{resource.done(peer):.2f}",
    }


def _rows(indent: int, rows: dict[str, str]) -> str:
    last = len(rows) - 1
    return "".join(
        f'{" " * indent}"{name}": {value}{"" if index == last else ","}\n'
        for index, (name, value) in enumerate(rows.items())
    )


def _quoted(word: str) -> str:
    return f'"{word}"'


def _bool(value: bool) -> str:  # noqa: FBT001 - it is what is said
    return "true" if value else "false"
