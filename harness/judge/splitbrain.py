"""Why a DRBD connection is StandAlone: a split brain, a refusal, or somebody's command.

The state does not tell; the kernel log does, as far back as it reaches (lab/qemu_drbd.md, trap 1;
objects.md section 8). It is a reading, not a claim: no id, no Verdict.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.facts.drbd import (
    CONNECTED,
    STANDALONE,
    UNNAMED_PEER,
    DrbdAbsent,
    DrbdLog,
    DrbdLogEntry,
    DrbdPeer,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.fact import Fact, Unread

SPLIT, COMMAND, REFUSED, NONE, UNKNOWN = (
    "split brain",
    "disconnected on command",
    "refused",
    "not StandAlone",
    "unknown",
)
"""The causes of `Standing`."""

_REFUSALS = ("unrelated data", "connection refused")


@dataclass(frozen=True, slots=True)
class Standing:
    """Whether a resource's StandAlone connections are a split brain.

    ``split_brain`` is None where that is not known; ``cause`` is SPLIT, COMMAND, REFUSED, NONE (no
    connection is StandAlone) or UNKNOWN; ``because`` one sentence that quotes the log.
    """

    split_brain: bool | None
    cause: str
    because: str
    facts: tuple[Fact, ...]


@dataclass(frozen=True, slots=True)
class _End:
    """One StandAlone end of a connection, and what its own log says of how it came to be."""

    node: str
    peer: str
    cause: str
    quoted: str

    def __str__(self) -> str:
        return f"{self.node} towards {self.peer}: {self.cause}: {self.quoted.strip()}"


def split_brain(
    statuses: Sequence[DrbdStatus | DrbdAbsent | Unread],
    logs: Sequence[DrbdLog | Unread],
    resource: str,
) -> Standing:
    """Whether the resource is in split brain now.

    A status and the log of the same ``node`` belong together. One end whose log says so since it
    last connected is enough: DRBD finds a split brain on both sides, and the other log may have
    wrapped. That it is none needs the cause of every end that is StandAlone, and every status.
    """
    facts = (*statuses, *logs)
    ends = [
        _end(status, found, peer, logs)
        for status in statuses
        if isinstance(status, DrbdStatus)
        for found in status.resources
        if found.name == resource
        for peer in found.peers
        if peer.connection == STANDALONE
    ]
    because = "; ".join(map(str, ends))
    if any(end.cause == SPLIT for end in ends):
        return Standing(True, SPLIT, because, facts)
    unsure = _unsure(statuses, resource)
    if unsure or any(end.cause == UNKNOWN for end in ends):
        return Standing(None, UNKNOWN, "; ".join([*map(str, ends), *unsure]), facts)
    if not ends:
        return Standing(False, NONE, f"no connection of {resource} is StandAlone", facts)
    causes = {end.cause for end in ends}
    return Standing(False, REFUSED if REFUSED in causes else COMMAND, because, facts)


def _unsure(statuses: Sequence[DrbdStatus | DrbdAbsent | Unread], resource: str) -> list[str]:
    """Why a StandAlone connection may be there without having been seen."""
    if not statuses:
        return ["no machine was asked"]
    said = [f"{one.asked}: {one.reason}" for one in statuses if isinstance(one, Unread)]
    for status in statuses:
        if not isinstance(status, DrbdStatus):
            continue
        found = status.find(resource)
        if not status.whole or status.disagreements:
            said.append(f"what {status.node} said is not whole or contradicts itself")
        elif found is not None and not found.peers:
            said.append(f"{status.node} lists no peer, and /proc/drbd was not read beside it")
    listed = any(isinstance(one, DrbdStatus) and one.find(resource) for one in statuses)
    if not listed:
        said.append(f"no machine lists {resource}")
    return said


def _end(
    status: DrbdStatus, resource: DrbdResource, peer: DrbdPeer, logs: Sequence[DrbdLog | Unread]
) -> _End:
    log = next((one for one in logs if isinstance(one, DrbdLog) and one.node == status.node), None)
    if log is None:
        return _End(status.node, peer.name, UNKNOWN, "its kernel log was not read")
    minors = {one.minor for one in resource.devices}
    last: DrbdLogEntry | None = None
    for entry in log.entries:
        if entry.resource not in ("", resource.name):
            continue
        if not entry.resource and entry.minor not in minors:
            continue
        if entry.peer not in ("", peer.name) and peer.name != UNNAMED_PEER:
            continue
        last = _after(entry, last)
    if last is None:
        return _End(status.node, peer.name, UNKNOWN, "its kernel log does not say why")
    return _End(status.node, peer.name, _cause(last), last.line)


def _after(entry: DrbdLogEntry, last: DrbdLogEntry | None) -> DrbdLogEntry | None:
    """The line that explains the connection's end, once this one is read as well.

    The first since the last connection counts: after a refusal DRBD lets go by itself.
    """
    if _begins(entry):
        return None
    if last is None and _cause(entry) != UNKNOWN:
        return entry
    return last


def _begins(entry: DrbdLogEntry) -> bool:
    """Whether a connection was made here, or asked for anew."""
    return any(
        what == "conn" and (new in (CONNECTED, "WFReportParams") or old == STANDALONE)
        for what, old, new in entry.states
    )


def _cause(entry: DrbdLogEntry) -> str:
    if entry.what == SPLIT:
        return SPLIT
    if entry.what in _REFUSALS:
        return REFUSED
    return COMMAND if entry.what == "disconnected" else UNKNOWN
