"""What a scenario says, written down the moment it is said: verdicts, facts, how it ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

from harness.judge.verdict import Outcome, Verdict
from harness.report.allure_writer import message
from harness.session.plan import Planned
from harness.session.shard import Shard


class NotAllHold(AssertionError):
    """Some claim of a scenario is broken or unknown. The message says which and why."""


class Misuse(Exception):
    """A scenario misuses the harness: it judged what it did not plan, or did not judge at all."""


class Recorder:
    """The record of one scenario on one pool. Scenarios call it with each verdict."""

    def __init__(
        self,
        planned: Planned,
        ledger: Callable[[], Shard],
        now: Callable[[], float],
        show: Callable[[Verdict], None],
        declared: Sequence[str] = (),
        failing: Callable[[Planned, Verdict], None] = lambda _planned, _verdict: None,
    ) -> None:
        self.planned = planned
        self._declared = tuple(declared) or planned.claims
        self.verdicts: list[Verdict] = []
        self.lab_lost = False
        """Whether the lab went away, and nothing else is wrong."""
        self._ledger = ledger
        self._now = now
        self._show = show
        self._failing = failing

    def __call__(self, verdict: Verdict) -> Verdict:
        """Keep a verdict. A claim that the scenario's mark does not name is its misuse; one that
        this run does not ask is passed over.
        """
        if verdict.claim not in self._declared:
            raise Misuse(
                f"{self.planned.scenario} judged {verdict.claim}, which its mark "
                f"claims({', '.join(self._declared)}) does not name"
            )
        if verdict.claim not in self.planned.claims:
            return verdict
        self.verdicts.append(verdict)
        self._ledger().verdict(
            verdict, scenario=self.planned.scenario, pool=self.planned.pool, at=self._now()
        )
        self._show(verdict)
        if self.failed() == [verdict]:
            self._failing(self.planned, verdict)  # the first one: all of it still stands
        return verdict

    def begin(self) -> None:
        """Write down that the scenario starts, before its pool is had."""
        self._ledger().begin(self.planned.scenario, pool=self.planned.pool, at=self._now())

    def called(self) -> AbstractContextManager[None]:
        """What the scenario itself does lies in here; what its pool is brought up with, before."""
        return self._ledger().called(self.planned.scenario)

    def traceback(self, text: str) -> None:
        """Keep where a fault of the harness's own struck."""
        self._ledger().note("traceback", text, at=self._now())

    def unjudged(self) -> list[str]:
        """Claims that have no verdict yet."""
        judged = {verdict.claim for verdict in self.verdicts}
        return [claim for claim in self.planned.claims if claim not in judged]

    def unknown(self, because: str) -> None:
        """What stopped the scenario leaves each of its claims unknown, for this reason.

        Those with a verdict too: it may be of the first of several workers only.
        """
        for claim in self.planned.claims:
            self(Verdict(claim, f"pool {self.planned.pool}", Outcome.UNKNOWN, because))

    def refused(self, verdict: Verdict) -> None:
        """Why its pool was refused, where the scenario judges that very claim."""
        if verdict.claim in self._declared:
            self(verdict)

    def check(self) -> None:
        """Raise unless every planned claim was judged and holds."""
        unjudged = self.unjudged()
        if unjudged:
            raise Misuse(f"{self.planned.scenario} ended without a verdict on {unjudged}")
        failed = self.failed()
        if failed:
            raise NotAllHold("\n".join(message(verdict) for verdict in failed))

    def failed(self) -> list[Verdict]:
        """The verdicts so far that do not say holds."""
        return [verdict for verdict in self.verdicts if verdict.outcome is not Outcome.HOLDS]

    def end(self, outcome: str) -> None:
        """Write down how the scenario ended."""
        at = self._now()
        self._ledger().end(self.planned.scenario, outcome, pool=self.planned.pool, at=at)
