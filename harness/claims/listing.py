"""`hil claims`: the catalogue for people."""

from __future__ import annotations

import sys

from harness import pages
from harness.claims.catalogue import Claim, UnknownClaim, get, load

USER_MISTAKE = 2


def show(name: str) -> int:
    """Print the catalogue, or one claim whole. 2 for a claim that it does not have."""
    if not name:
        sys.stdout.write(pages.index({claim.id: claim.sentence for claim in load().values()}))
        return 0
    try:
        claim = get(name)
    except UnknownClaim as unknown:
        sys.stderr.write(f"hil: {unknown}\n")
        return USER_MISTAKE
    sys.stdout.write(pages.entry(claim.id, described(claim)))
    return 0


def described(claim: Claim) -> dict[str, str]:
    """What there is to say of a claim, by label, in the order to be shown."""
    return {
        "claim": claim.sentence,
        "severity": claim.severity,
        "needs": ", ".join(claim.needs) or "any pool",
        "proof": claim.proof,
        "not proof": claim.not_proof,
        "not shown": claim.not_shown,
    }
