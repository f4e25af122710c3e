"""LINSTOR's view of a few resources beside what each kernel says of them, point by point.

A view moves on while the kernels are asked, so LINSTOR is asked before and after. The words are
DRBD's own on both sides (objects.md section 8); a point that one side does not mention is "".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.facts.drbd import (
    CONNECTED,
    DISKLESS,
    PRIMARY,
    DrbdAbsent,
    DrbdResource,
    DrbdStatus,
)
from harness.facts.fact import Fact, Unread
from harness.facts.linstor import (
    ONLINE,
    LinstorConnection,
    LinstorNodes,
    LinstorReplica,
    LinstorResources,
)

THERE, MISSING = "there", "missing"
IN_USE, UNUSED = "in use", "not in use"
ON_PURPOSE, LOST = "on purpose", "not on purpose"
"""The words for what DRBD and LINSTOR say in different ways."""

REPLICA = "replica"
"""The point whether there is one at all."""

_TIE_BREAKER = "TieBreaker"
"""LINSTOR's word for the disk of a replica that only votes: the kernel's is Diskless."""


@dataclass(frozen=True, slots=True)
class LinstorLook:
    """LINSTOR's view before and after the kernels were asked, and what each of them said.

    ``kernels`` are one for each storage node that could be found.
    """

    nodes: LinstorNodes | Unread
    before: LinstorResources | Unread
    kernels: tuple[DrbdStatus | DrbdAbsent | Unread, ...]
    after: LinstorResources | Unread

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All of it, in the order in which it was asked for."""
        return (self.nodes, self.before, *self.kernels, self.after)

    @property
    def unread(self) -> tuple[Unread, ...]:
        """What of it could not be read."""
        return tuple(one for one in self.facts if isinstance(one, Unread))

    @property
    def lost(self) -> dict[str, str]:
        """Nodes whose kernel answered and that LINSTOR does not call ONLINE, with its word for it.

        Of what is on such a node the controller knows nothing.
        """
        if isinstance(self.nodes, Unread):
            return {}
        answered = [one.node for one in self.kernels if not isinstance(one, Unread)]
        said = {one.name: one.connection or "in a state not said" for one in self.nodes.nodes}
        states = {node: said.get(node, "not one of its nodes") for node in answered}
        return {node: state for node, state in states.items() if state != ONLINE}


@dataclass(frozen=True, slots=True, order=True)
class Point:
    """One thing of a replica that both sides may speak of."""

    resource: str
    node: str
    what: str

    def __str__(self) -> str:
        """As a sentence names it."""
        return f"{self.what} of {self.resource} on {self.node}"


@dataclass(frozen=True, slots=True)
class Compared:
    """A point, what the kernel says of it, and LINSTOR before and after; "" for nothing.

    ``optional``: older controllers do not speak of it.
    """

    point: Point
    kernel: str
    before: str
    after: str
    optional: bool

    @property
    def agrees(self) -> bool:
        """Whether LINSTOR said the kernel's word, before it or after it."""
        return bool(self.kernel) and self.kernel in (self.before, self.after)

    @property
    def silent(self) -> bool:
        """Whether LINSTOR says nothing of it now."""
        return not self.after


@dataclass(frozen=True, slots=True)
class Resync:
    """A resync or a verify that a node's kernel tells of; percentages None where not said."""

    resource: str
    node: str
    peer: str
    state: str
    done: float | None
    linstor: float | None


_Said = dict[Point, str]


def compared(look: LinstorLook, resources: Sequence[str]) -> tuple[Compared, ...]:
    """Every point of these resources of which one of the two sides speaks, in order.

    Where only one of them knows a replica at all, that is the one point about it.
    """
    kernel = _kernels(look, resources)
    before, after = _linstor(look.before, resources), _linstor(look.after, resources)
    _say_what_is_missing(look, kernel, before, after)
    points = sorted({*kernel, *before, *after})
    found = (
        Compared(
            point,
            kernel.get(point, ""),
            before.get(point, ""),
            after.get(point, ""),
            optional=point.what.startswith("replication"),
        )
        for point in points
        if _concerns(point, kernel, before, after)
    )
    return tuple(one for one in found if not (one.optional and not (one.before or one.after)))


def without_drbd(look: LinstorLook, resources: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Those of these resources that LINSTOR has without DRBD, with their nodes: no kernel that was
    asked lists one, so there is nothing to compare.
    """
    listed = {found.name for _, found in _found(look, resources)}
    nodes: dict[str, list[str]] = {}
    for one in look.after.replicas if isinstance(look.after, LinstorResources) else ():
        if one.name in resources and one.name not in listed and not one.drbd:
            nodes.setdefault(one.name, []).append(one.node)
    return {name: tuple(sorted(on)) for name, on in nodes.items()}


def resyncs(look: LinstorLook, resources: Sequence[str]) -> tuple[Resync, ...]:
    """Every resync and verify of these resources that a kernel tells of, each from both ends."""
    return tuple(
        Resync(found.name, status.node, peer.name, one.replication, one.done, told)
        for status, found in _found(look, resources)
        for peer in found.peers
        for one in peer.devices
        if one.replication.startswith(("Sync", "PausedSync", "Verify"))
        for told in (_percentage(look, found.name, status.node, peer.name, one.volume),)
    )


def _found(
    look: LinstorLook, resources: Sequence[str]
) -> Iterator[tuple[DrbdStatus, DrbdResource]]:
    for status in look.kernels:
        if isinstance(status, DrbdStatus):
            yield from ((status, one) for one in status.resources if one.name in resources)


def _kernels(look: LinstorLook, resources: Sequence[str]) -> _Said:
    said: _Said = {}
    for status, found in _found(look, resources):
        said[Point(found.name, status.node, REPLICA)] = THERE
        if found.whole:
            said |= _kernel(found, status.node)
    return said


def _kernel(found: DrbdResource, node: str) -> _Said:
    name = found.name
    said = {}
    if found.role:
        said[Point(name, node, "use")] = IN_USE if found.role == PRIMARY else UNUSED
    for device in found.devices:
        said[Point(name, node, f"disk {device.volume}")] = device.disk_state
        if device.disk_state == DISKLESS and device.client is not None:
            why = ON_PURPOSE if device.client else LOST
            said[Point(name, node, f"missing disk {device.volume}")] = why
    for peer in found.peers:
        said[Point(name, node, f"connection to {peer.name}")] = peer.connection
        for one in peer.devices:
            what = f"replication {one.volume} towards {peer.name}"
            said[Point(name, node, what)] = one.replication
    return {point: word for point, word in said.items() if word}


def _linstor(view: LinstorResources | Unread, resources: Sequence[str]) -> _Said:
    said: _Said = {}
    if isinstance(view, Unread):
        return said
    for one in view.replicas:
        if one.name in resources:
            said[Point(one.name, one.node, REPLICA)] = THERE
            said |= _replica(one)
    return said


def _replica(one: LinstorReplica) -> _Said:
    name, node = one.name, one.node
    said = {}
    if one.in_use is not None:
        said[Point(name, node, "use")] = IN_USE if one.in_use else UNUSED
    for volume in one.volumes:
        state = DISKLESS if volume.disk_state == _TIE_BREAKER else volume.disk_state
        said[Point(name, node, f"disk {volume.number}")] = state
        if state == DISKLESS:
            why = ON_PURPOSE if one.diskless else LOST
            said[Point(name, node, f"missing disk {volume.number}")] = why
        for towards in volume.replications:
            what = f"replication {volume.number} towards {towards.peer}"
            said[Point(name, node, what)] = towards.state
    for peer in one.connections:
        said[Point(name, node, f"connection to {peer.peer}")] = _connection(peer)
    return {point: word for point, word in said.items() if word}


def _connection(said: LinstorConnection) -> str:
    """DRBD's word for it; where its two halves contradict each other, both of them."""
    if said.connected is None or not said.message:
        return said.message or (CONNECTED if said.connected else "")
    if said.connected is not (said.message == CONNECTED):
        return f"{'connected' if said.connected else 'not connected'} and {said.message}"
    return said.message


def _say_what_is_missing(look: LinstorLook, kernel: _Said, before: _Said, after: _Said) -> None:
    """Where one side knows a replica and the other, all of which was understood, lists none."""
    answered = {
        one.node
        for one in look.kernels
        if isinstance(one, DrbdAbsent) or (isinstance(one, DrbdStatus) and not one.strange)
    }
    views = ((look.before, before), (look.after, after))
    for point in {one for said in (kernel, before, after) for one in said}:
        if point.what != REPLICA:
            continue
        if point.node in answered:
            kernel.setdefault(point, MISSING)
        for view, said in views:
            if isinstance(view, LinstorResources) and not view.strange:
                said.setdefault(point, MISSING)


def _concerns(point: Point, kernel: _Said, before: _Said, after: _Said) -> bool:
    """Whether a point is about something that both sides know, or is that question itself."""
    if point.what == REPLICA:
        return True
    replica = Point(point.resource, point.node, REPLICA)
    known = [before.get(replica), after.get(replica)]
    return kernel.get(replica) == THERE and THERE in known


def _percentage(
    look: LinstorLook, resource: str, node: str, peer: str, volume: int
) -> float | None:
    """How much of a resync LINSTOR says is done, as it said last."""
    if isinstance(look.after, Unread):
        return None
    for replica in look.after.of(resource):
        found = replica.volume(volume) if replica.node == node else None
        for one in found.replications if found else ():
            if one.peer == peer:
                return one.done
    return None
