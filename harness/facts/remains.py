"""What is there of a pool, and of what it draws on: looked at before it is asked for and after.

The difference is what a run left behind. An object is the pool's by a reference, an owner's name or
a mark of ours, never by the beginning of its name.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harness.facts.fact import Fact
from harness.facts.linstor import LinstorPools, LinstorReplica

SLACK = 64 * 1024
"""KiB that a storage pool's free space may be less by, on a node, without anybody's volume: what a
file system keeps of its own (ZFS' metadata moves by some MiB)."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something of the pool that is there. ``what`` names it ("PersistentVolume pvc-1"), ``how`` is
    how it stands ("Released", "being deleted, finalizers: x").
    """

    what: str
    how: str = ""

    def __str__(self) -> str:
        return f"{self.what} ({self.how})" if self.how else self.what


@dataclass(frozen=True, slots=True)
class Space:
    """Free space of a storage pool on a node, in KiB; None where the controller does not say."""

    node: str
    pool: str
    free: int | None


@dataclass(frozen=True, slots=True)
class HostCards:
    """Cards of one kind on a host: how many it offers, and the pods that have some."""

    host: str
    resource: str
    offered: int
    users: tuple[str, ...]

    @property
    def free(self) -> int:
        """How many nobody has."""
        return self.offered - len(self.users)


@dataclass(frozen=True, slots=True)
class Remains(Fact):
    """One look. ``things`` are of the pool alone; ``volumes`` are the DRBD resources of everybody,
    by name; ``unread`` says what could not be looked at, and why; ``beside`` names who held other
    pools of the lab between an earlier look and this one, or says that nobody can tell.
    """

    things: tuple[Thing, ...]
    volumes: tuple[str, ...] = ()
    spaces: tuple[Space, ...] = ()
    cards: tuple[HostCards, ...] = ()
    unread: tuple[str, ...] = ()
    beside: tuple[str, ...] = ()


def replicas_as_things(found: Iterable[LinstorReplica], own: Iterable[str]) -> list[Thing]:
    """The replicas that LINSTOR still lists of these resources."""
    names = set(own)
    listed = [one for one in found if one.name in names]
    return [
        Thing(f"DRBD resource {name}", _where([one for one in listed if one.name == name]))
        for name in dict.fromkeys(one.name for one in listed)
    ]


def _where(replicas: Sequence[LinstorReplica]) -> str:
    flags = ", ".join(dict.fromkeys(flag for one in replicas for flag in one.flags))
    return f"on {', '.join(one.node for one in replicas)}, {flags or 'not being deleted'}"


def spaces_of(found: LinstorPools) -> tuple[Space, ...]:
    """What each pool that holds storage has free."""
    return tuple(Space(one.node, one.name, one.free) for one in found.pools if not one.diskless)


def left_over(before: Remains, after: Remains, *, kept: bool) -> Sequence[str]:
    """What is there after and was not before, and what is less than it was, a phrase each.

    ``kept``: the pool itself stands on purpose, and ``after`` holds only what was put beside it.
    """
    if kept:
        return [str(one) for one in after.things]
    return [*_new_things(before, after), *_cards_kept(before, after), *_space_kept(before, after)]


def _new_things(before: Remains, after: Remains) -> list[str]:
    there = {one.what for one in before.things}
    return [str(one) for one in after.things if one.what not in there]


def _cards_kept(before: Remains, after: Remains) -> list[str]:
    """Cards that nobody offers any more. One that a launcher has is told by its launcher."""
    now = {one.host: one for one in after.cards}
    return [
        f"host {was.host} offers {now[was.host].offered if was.host in now else 0} of "
        f"{was.offered} cards {was.resource}"
        for was in before.cards
        if was.host not in now or now[was.host].offered < was.offered
    ]


def _space_kept(before: Remains, after: Remains) -> list[str]:
    """Space that was not given back. Where others made, lost or filled volumes meanwhile, or a node
    does not say, the sum says nothing.
    """
    if after.beside or set(before.volumes) != set(after.volumes):
        return []
    now = {(one.node, one.pool): one.free for one in after.spaces}
    kept = []
    for was in before.spaces:
        free = now.get((was.node, was.pool))
        if was.free is not None and free is not None and was.free - free > SLACK:
            gone = (was.free - free) // 1024
            kept.append(f"{gone} MiB of storage pool {was.pool} on {was.node} not given back")
    return kept
