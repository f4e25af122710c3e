"""The plan in words: what would run, what it needs, what this lab lacks."""

from __future__ import annotations

from harness.claims.catalogue import get as claim_of
from harness.claims.catalogue import load as load_claims
from harness.session.choice import Choice
from harness.session.plan import Plan


def describe(choice: Choice, plan: Plan) -> str:
    """What `hil run --plan` prints."""
    lab = choice.inventory
    lines = [f"lab {lab.name}" + (f", lane {choice.lane}" if choice.lane else "")]
    for pool in plan.pools():
        hardware = choice.hardware(pool) or "no GPU"
        workers = lab.pools[pool].replicas
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
    left_out = [claim for claim in load_claims() if not choice.asks(claim)]
    if left_out:
        lines += ["", f"not asked by this run: {', '.join(left_out)}"]
    lines += ["", f"{plan.counts()}; nothing was run"]
    return "\n".join(lines) + "\n"
