"""The catalogue of claims: what each says, what it needs, and what proves it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

SEVERITIES = ("blocker", "critical", "normal")


class UnknownClaim(LookupError):
    """No claim of this id. ``nearest`` is the id most like it, "" where none is alike."""

    def __init__(self, claim: str, nearest: str) -> None:
        meant = f": did you mean {nearest!r}?" if nearest else ""
        super().__init__(f"no claim {claim!r} in the catalogue{meant}")
        self.claim = claim
        self.nearest = nearest


@dataclass(frozen=True, slots=True)
class Claim:
    """One claim.

    ``sentence`` is what a release manager signs; ``severity`` is one of SEVERITIES; ``needs`` are
    capability terms that a pool must meet ("gpu", "gpu=gb202", "no-gpu", "storage=drbd"), empty
    for any pool; ``proof`` and ``not_proof`` say what establishes it and what only seems to
    (gpu_path section 7); ``not_shown`` is what stays open where it holds ("That ..."), for every
    sign-off (gpu_path sections 4 and 7, lanes section 4); ``page`` is the page and anchor that
    explain it.
    """

    id: str
    sentence: str
    severity: str
    needs: tuple[str, ...]
    proof: str
    not_proof: str
    not_shown: str
    page: str


@cache
def load() -> Mapping[str, Claim]:
    """Every claim by id, in the catalogue's order; read once.

    Raises ValueError, naming the claim, where the catalogue itself is wrong.
    """
    # here, not at the top: most runs of the command line never need a claim's text
    import tomllib
    from pathlib import Path

    text = Path(__file__).with_name("catalogue.toml").read_text(encoding="utf-8")
    return MappingProxyType({key: _claim(key, table) for key, table in tomllib.loads(text).items()})


def get(claim: str) -> Claim:
    """The claim of this id. Raises UnknownClaim with the nearest id there is."""
    known = load()
    found = known.get(claim)
    if found is None:
        raise UnknownClaim(claim, _nearest(claim, known))
    return found


def _nearest(claim: str, known: Mapping[str, Claim]) -> str:
    import difflib

    close = difflib.get_close_matches(claim.lower().replace("_", "-"), known, n=1)
    return close[0] if close else ""


def _claim(key: str, table: Mapping[str, Any]) -> Claim:
    try:
        claim = Claim(id=key, **{**table, "needs": tuple(table["needs"])})
    except (TypeError, KeyError) as error:
        raise ValueError(f"claim {key!r}: {error}") from error
    if claim.severity not in SEVERITIES:
        raise ValueError(f"claim {key!r}: severity {claim.severity!r} is none of {SEVERITIES}")
    return claim
