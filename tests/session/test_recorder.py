"""A scenario is held to what it declares, and a verdict is down before the call returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.session.plan import Planned
from harness.session.recorder import Misuse, NotAllHold, Recorder
from harness.session.shard import Shard

FACT = Fact(Origin(0.0, "guest n", "text"))


@dataclass
class Kept:
    """A ledger that remembers what it was told."""

    verdicts: list[Verdict] = field(default_factory=list)
    ends: list[str] = field(default_factory=list)

    def verdict(self, verdict: Verdict, **_: Any) -> None:
        self.verdicts.append(verdict)

    def end(self, scenario: str, outcome: str, **_: Any) -> None:
        self.ends.append(outcome)


@pytest.fixture
def kept() -> Kept:
    return Kept()


def recorder(kept: Kept, *claims: str, declared: tuple[str, ...] = ()) -> Recorder:
    planned = Planned("test_it", "plain", claims)
    ledger = cast("Shard", kept)
    return Recorder(planned, lambda: ledger, lambda: 0.0, lambda _: None, declared)


def verdict(claim: str, outcome: Outcome = Outcome.HOLDS) -> Verdict:
    return Verdict(claim, "node n", outcome, "because so", (FACT,))


def test_a_verdict_is_kept_at_once(kept: Kept) -> None:
    said = recorder(kept, "node-joins")(verdict("node-joins"))
    assert kept.verdicts == [said]


def test_a_claim_that_the_mark_does_not_name_is_misuse(kept: Kept) -> None:
    with pytest.raises(Misuse, match="test_it judged passthrough, which its mark"):
        recorder(kept, "node-joins")(verdict("passthrough"))
    assert kept.verdicts == []


def test_a_declared_claim_that_this_run_does_not_ask_is_passed_over(kept: Kept) -> None:
    record = recorder(kept, "node-joins", declared=("node-joins", "passthrough"))
    record(verdict("passthrough", Outcome.BROKEN))
    record(verdict("node-joins"))
    record.check()
    assert [v.claim for v in kept.verdicts] == ["node-joins"]


def test_ending_without_a_verdict_is_misuse(kept: Kept) -> None:
    record = recorder(kept, "node-joins", "passthrough")
    record(verdict("node-joins"))
    with pytest.raises(Misuse, match="passthrough"):
        record.check()


@pytest.mark.parametrize("outcome", [Outcome.BROKEN, Outcome.UNKNOWN])
def test_what_does_not_hold_fails_the_scenario_whatever_follows(
    kept: Kept, outcome: Outcome
) -> None:
    record = recorder(kept, "node-joins")
    record(verdict("node-joins", outcome))
    record(verdict("node-joins"))
    with pytest.raises(NotAllHold, match=rf"node-joins {outcome}: because so \[node n\]"):
        record.check()


def test_what_stopped_it_leaves_unknown_what_was_judged_in_part_too(kept: Kept) -> None:
    record = recorder(kept, "node-joins", "passthrough")
    record(verdict("node-joins"))
    record.unknown("the API went away")
    assert [(v.claim, v.outcome) for v in kept.verdicts] == [
        ("node-joins", Outcome.HOLDS),  # of the first of two workers, say
        ("node-joins", Outcome.UNKNOWN),
        ("passthrough", Outcome.UNKNOWN),
    ]
    with pytest.raises(NotAllHold, match="the API went away"):
        record.check()
