"""The claim that a run leaves nothing behind: before it, after it, and what stayed."""

from __future__ import annotations

from harness.facts.fact import Unread
from harness.facts.remains import Remains, left_over
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named

CLAIM = "nothing-left"
_SHOWN = 12


def nothing_left(
    before: Remains | Unread, after: Remains | Unread, subject: str, *, kept: bool = False
) -> Verdict:
    """nothing-left: once the pool is gone, nothing of it is there and what it took is given back.

    ``before`` as it was before the pool was asked for, ``after`` when nothing went any more.
    ``kept``: it was somebody else's and stands on purpose, so only what the run put beside it
    counts, which is what ``after`` holds then. Broken where something stayed; unknown where a part
    could not be looked at.
    """
    if isinstance(before, Unread) or isinstance(after, Unread):
        why = "; ".join(one.reason for one in (before, after) if isinstance(one, Unread))
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, f"it was not looked at: {why}")
    facts = (before, after)
    left = left_over(before, after, kept=kept)
    if left:
        more = f" and {len(left) - _SHOWN} more" if len(left) > _SHOWN else ""
        said = f"still there after the pool was taken down: {'; '.join(left[:_SHOWN])}{more}"
        return Verdict(CLAIM, subject, Outcome.BROKEN, said, facts)
    blind = tuple(dict.fromkeys((*before.unread, *after.unread)))
    if blind:
        said = f"nothing was seen, and this could not be looked at: {'; '.join(blind)}"
        return Verdict(CLAIM, subject, Outcome.UNKNOWN, said, facts)
    return Verdict(CLAIM, subject, Outcome.HOLDS, _well(before, after, kept=kept), facts)


def _well(before: Remains, after: Remains, *, kept: bool) -> str:
    if kept:
        return "the pool was there before the run and stands; nothing of the run stands beside it"
    parts = ["no object of the pool is left"]
    if after.spaces:
        others = set(before.volumes) != set(after.volumes)
        space = "not compared, others' volumes came or went" if others else "as it was"
        if after.beside:
            space = f"not compared, it was {named(after.beside)}'s too"
        parts.append(f"the free space of {len(after.spaces)} storage pools is {space}")
    if after.cards:
        free = sum(one.free for one in after.cards)
        parts.append(f"{free} of {sum(one.offered for one in after.cards)} cards are free")
    return ", ".join(parts)
