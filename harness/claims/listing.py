"""`hil claims`: the catalogue for people."""

from __future__ import annotations

import sys
import textwrap

from harness.claims.catalogue import UnknownClaim, get, load

USER_MISTAKE = 2


def show(name: str) -> int:
    """Print the catalogue, or one claim whole. 2 for a claim that it does not have."""
    if not name:
        width = max(map(len, load()))
        lines = [f"{claim.id:<{width}}  {claim.sentence}" for claim in load().values()]
        sys.stdout.write("\n".join(lines) + "\n")
        return 0
    try:
        claim = get(name)
    except UnknownClaim as unknown:
        sys.stderr.write(f"hil: {unknown}\n")
        return USER_MISTAKE
    fields = {
        "claim": claim.sentence,
        "severity": claim.severity,
        "needs": ", ".join(claim.needs) or "any pool",
        "proof": claim.proof,
        "not proof": claim.not_proof,
    }
    sys.stdout.write(claim.id + "\n")
    for label, text in fields.items():
        indent = " " * 13
        wrapped = textwrap.fill(text, 96, initial_indent=f"  {label:<11}", subsequent_indent=indent)
        sys.stdout.write(wrapped + "\n")
    return 0
