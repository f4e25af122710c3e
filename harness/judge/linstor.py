"""The claim that LINSTOR's view of a pool's disks is what the kernels themselves say of them.

The view can be stale, and then the kernel is right (objects.md section 8). What merely moved on
between two looks is no disagreement: LINSTOR is asked before and after the kernels, and again after
a pause where the two differed.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.facts.drbd import DrbdStatus
from harness.facts.fact import Fact
from harness.facts.linstor import LinstorResources
from harness.facts.linstorlooks import (
    IN_USE,
    THERE,
    Compared,
    LinstorLook,
    Point,
    compared,
    resyncs,
    without_drbd,
)
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import counted, named

CLAIM = "linstor-agrees"
_STALE = "LINSTOR's view is stale and the kernel right"
_TOLD = 8
"""Findings that a sentence lists; more are counted."""


def linstor_agrees(
    looks: Sequence[LinstorLook], subject: str, *, resources: Sequence[str]
) -> Verdict:
    """linstor-agrees: LINSTOR says of each replica what the kernel of its node says.

    ``looks`` in the order in which they were taken, the last one counts; ``resources`` are the
    disks' by name. Broken where LINSTOR said another word than the kernel in every look while the
    kernel's stayed the same: that view is stale. Unknown where a side could not be asked, does not
    say, where the two differ in the last look and one of them was moving, and of a disk that
    LINSTOR keeps without DRBD.
    """
    facts: tuple[Fact, ...] = tuple(fact for look in looks for fact in look.facts)
    if not looks or not resources:
        why = "nothing was looked at" if not looks else "the pool has no disk to compare"
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, why, facts)
    bare = without_drbd(looks[-1], resources)
    resources = [name for name in resources if name not in bare]
    rounds = [{one.point: one for one in compared(look, resources)} for look in looks]
    stale: list[str] = []
    unknown = [f"{one.asked} could not be read: {one.reason}" for one in looks[-1].unread]
    unknown += _unfinished(looks[-1], resources)
    unknown += [
        f"{name} is on {named(nodes)} without DRBD, so no kernel has a word for it"
        for name, nodes in bare.items()
    ]
    lost = looks[-1].lost
    unknown += [
        f"LINSTOR calls {node} {state}, whose kernel answered" for node, state in lost.items()
    ]
    for point, one in rounds[-1].items():
        if not one.agrees and not (one.silent and point.node in lost):
            _differing(one, [each[point] for each in rounds if point in each], stale, unknown)
    unknown += _unseen(rounds[-1], resources)
    told = _resyncs(looks[-1], resources)
    if stale:
        because = f"{_STALE}: {_listed(stale)}{told}"
        return Verdict(CLAIM, subject, Outcome.BROKEN, because, facts)
    if unknown:
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, _listed(unknown) + told, facts)
    because = f"{_agreement(rounds[-1], resources)}{told}"
    return Verdict(CLAIM, subject, Outcome.HOLDS, because, facts)


def _differing(
    last: Compared, seen: Sequence[Compared], stale: list[str], unknown: list[str]
) -> None:
    """What a point comes to on which LINSTOR did not say the kernel's word."""
    point = last.point
    if not last.kernel:
        unknown.append(f"{point}: LINSTOR says {last.after or last.before}, its kernel nothing")
    elif last.silent:
        unknown.append(f"{point}: the kernel says {last.kernel}, LINSTOR nothing")
    elif any(one.agrees or one.kernel != last.kernel for one in seen):
        unknown.append(
            f"{point} was moving: the kernel says {last.kernel}, LINSTOR {last.after}, and it was"
            f" not so in each of {counted(len(seen), 'look')}"
        )
    elif last.before != last.after and len(seen) == 1:
        unknown.append(
            f"{point} was moving: the kernel says {last.kernel}, LINSTOR"
            f" {last.before or 'nothing'} before it"
            f" and {last.after} after it"
        )
    else:
        stale.append(f"{point}: LINSTOR says {last.after}, the kernel {last.kernel}")


def _unfinished(look: LinstorLook, resources: Sequence[str]) -> list[str]:
    """Where an answer was cut or not understood, so that more may have been said of these."""
    said = []
    for view in (look.before, look.after):
        if isinstance(view, LinstorResources):
            cut = [one for one in view.replicas if one.name in resources and not one.whole]
            where = [*view.strange, *(f"{one.name} on {one.node}" for one in cut)]
            said += [f"LINSTOR's list of resources is not understood: {one}" for one in where]
    for status in look.kernels:
        if isinstance(status, DrbdStatus):
            broken = [one for one in status.resources if one.name in resources and not one.whole]
            where = [*status.strange, *(f"{one.name} is cut short" for one in broken)]
            said += [f"what the kernel of {status.node} says is not whole: {one}" for one in where]
    return list(dict.fromkeys(said))


def _unseen(points: dict[Point, Compared], resources: Sequence[str]) -> list[str]:
    """Resources of which neither side knows a single replica."""
    known = {point.resource for point, one in points.items() if one.kernel == THERE}
    return [f"no kernel that was asked has {name}" for name in resources if name not in known]


def _agreement(points: dict[Point, Compared], resources: Sequence[str]) -> str:
    nodes = sorted({point.node for point in points})
    used = [point.node for point, one in points.items() if one.kernel == IN_USE]
    disks = sorted({one.kernel for point, one in points.items() if point.what.startswith("disk")})
    silent = "" if any(one.optional for one in points.values()) else _NO_REPLICATION
    return (
        f"LINSTOR and the kernels of {named(nodes)} say the same of {named(resources)} in"
        f" {counted(len(points), 'point')}: disks {named(disks)}, in use on"
        f" {named(dict.fromkeys(used))}{silent}"
    )


_NO_REPLICATION = "; this LINSTOR says nothing of replication"


def _resyncs(look: LinstorLook, resources: Sequence[str]) -> str:
    """A clause for each resync, as its target's kernel tells it and as LINSTOR does."""
    ends = resyncs(look, resources)
    told = [one for one in ends if not one.state.endswith(("Source", "S"))] or list(ends)
    return "".join(
        f"; {one.resource} on {one.node} is in {one.state} with {one.peer},"
        f" {_percent(one.done)} done (LINSTOR: {_percent(one.linstor)})"
        for one in told
    )


def _percent(share: float | None) -> str:
    return "an untold part" if share is None else f"{share:g}%"


def _listed(findings: list[str]) -> str:
    more = len(findings) - _TOLD
    return "; ".join(findings[:_TOLD]) + (f"; and {more} more" if more > 0 else "")
