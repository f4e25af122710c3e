"""A claim that takes several proofs: each is there, contradicted, or not established."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.facts.fact import Fact, Unread
from harness.judge.verdict import Outcome, Verdict


@dataclass(slots=True)
class Proofs:
    """Sentences: ``broken`` contradicts the claim, ``open`` is what was not established and would
    have to be, ``shown`` is what was; ``aside`` is told with what holds and decides nothing."""

    broken: list[str] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    aside: list[str] = field(default_factory=list)

    def unread(self, *facts: Fact) -> bool:
        """Leave open what could not be read; whether any of them was not."""
        missing = [one for one in facts if isinstance(one, Unread)]
        self.open += [f"{one.asked} could not be read: {one.reason}" for one in missing]
        return bool(missing)

    def verdict(self, claim: str, subject: str, *facts: Fact) -> Verdict:
        """Broken on any contradiction, unknown where something is open, holds on all the rest."""
        for reasons, came in ((self.broken, Outcome.BROKEN), (self.open, Outcome.UNKNOWN)):
            if reasons:
                return Verdict(claim, subject, came, "; ".join(dict.fromkeys(reasons)), facts)
        if not self.shown:
            return Verdict(claim, subject, Outcome.UNKNOWN, "nothing was shown of it", facts)
        told = "; ".join((*self.shown, *self.aside))
        return Verdict(claim, subject, Outcome.HOLDS, told, facts)
