"""The plan in words: what would run, what it needs, what this lab lacks."""

from __future__ import annotations

from collections.abc import Sequence

from harness.claims.catalogue import get as claim_of
from harness.claims.catalogue import load as load_claims
from harness.session.apart import Turns
from harness.session.choice import NO_RECORD, Choice
from harness.session.plan import Plan


def describe(choice: Choice, plan: Plan, turns: Sequence[Turns] = (), at_once: int = 1) -> str:
    """What `hil run --plan` prints. ``at_once``: how many pools are driven at the same time."""
    lab = choice.inventory
    lines = [f"lab {lab.name}" + (f", lane {choice.lane}" if choice.lane else "")]
    for pool in plan.pools():
        hardware = choice.hardware(pool) or "no GPU"
        workers = lab.sets[pool].replicas
        lines += ["", f"pool {pool}: {workers} worker{'s' * (workers != 1)}, {hardware}"]
        for item in plan.planned:
            if item.pool == pool:
                lines += [f"  {item.title}", f"      claims  {', '.join(item.claims)}"]
                needs = sorted({need for claim in item.claims for need in claim_of(claim).needs})
                lines += [f"      needs   {', '.join(needs)}"] if needs else []
    if plan.lacking:
        lines += ["", "not to be established here:"]
        for why in dict.fromkeys(lack.why for lack in plan.lacking):
            claims = [c for lack in plan.lacking if lack.why == why for c in lack.claims]
            lines += [f"  {', '.join(claims)}", f"      {why}"]
    lines += _order(plan, turns, at_once)
    lines += _left_out(choice)
    lines += ["", f"{plan.counts()}; nothing was run"]
    return "\n".join(lines) + "\n"


def _order(plan: Plan, turns: Sequence[Turns], at_once: int) -> list[str]:
    """Which pools run at the same time, and which take turns and why."""
    used = plan.pools()
    sets = [(some, one.why) for one in turns if (some := [p for p in one.pools if p in used])]
    if len(used) < 2 or not sets:
        return []
    waiting = [
        f"  {', '.join(some)}: one after the other ({why})" for some, why in sets if len(some) > 1
    ]
    many = min(at_once, len(sets))
    names = ", ".join(" or ".join(some) for some, _ in sets)
    if many < 2:
        return ["", "pools run one after the other", *waiting]
    return ["", f"{many} pools run at the same time, of {names}", *waiting]


def _left_out(choice: Choice) -> list[str]:
    """What this run does not ask, by choice or for want of a record."""
    left_out = [claim for claim in load_claims() if not choice.asks(claim)]
    chosen = [claim for claim in left_out if not choice.lacks_record(claim)]
    lines = ["", f"not asked by this run: {', '.join(chosen)}"] if chosen else []
    unrecorded = [claim for claim in left_out if choice.lacks_record(claim)]
    return lines + [line for one in unrecorded for line in ("", f"not asked: {one}: {NO_RECORD}")]
