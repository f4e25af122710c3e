"""`hil claims`: the catalogue for people."""

from __future__ import annotations

from harness import pages
from harness.claims.catalogue import Claim, UnknownClaim, get, load


def show(name: str) -> int:
    """Print the catalogue, or one claim whole. 2 for a claim that it does not have."""
    sentences = {claim.id: claim.sentence for claim in load().values()}
    return pages.show(name, sentences, lambda one: described(get(one)), UnknownClaim)


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
