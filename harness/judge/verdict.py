"""The verdict type: what a judge says of a claim, and what it rests on."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from harness.facts.fact import Fact


class Outcome(StrEnum):
    """How a claim came out. ``unknown`` is never a pass."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Verdict:
    """One claim about one subject.

    ``claim`` is an id of the catalogue; ``subject`` names the thing judged ("pool gpu-l40s",
    "node hil-gpu-x7k2p"); ``because`` is one sentence a release manager can read; ``facts`` are
    the facts the outcome rests on, never empty for ``holds``.
    """

    claim: str
    subject: str
    outcome: Outcome
    because: str
    facts: tuple[Fact, ...] = ()

    def __post_init__(self) -> None:
        if self.outcome is Outcome.HOLDS and not self.facts:
            raise ValueError(f"{self.claim}: 'holds' without a fact to rest on")
        if not self.because:
            raise ValueError(f"{self.claim}: a verdict says because of what")
