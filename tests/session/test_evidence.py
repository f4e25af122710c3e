"""A failure's evidence is taken once, at its first verdict, and changes no verdict."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from harness.evidence.keeping import Keeper
from harness.evidence.manifest import Manifest
from harness.evidence.taking import Budget, Got, Part, PoolEvidence
from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.session.evidence import Evidence
from harness.session.plan import Planned
from harness.session.recorder import Recorder
from harness.session.shard import Refusals, Shard
from tests.session.test_recorder import Kept

PLANNED = Planned("test_it", "plain", ("node-joins", "passthrough"))


def verdict(claim: str, outcome: Outcome) -> Verdict:
    return Verdict(claim, "node n", outcome, "because so", (Fact(Origin(0.0, "n", "t")),))


def test_evidence_is_taken_at_the_first_verdict_that_does_not_hold_and_once() -> None:
    kept, failing = Kept(), []
    record = Recorder(
        PLANNED,
        lambda: cast("Shard", kept),
        lambda: 0.0,
        lambda _: None,
        failing=lambda planned, one: failing.append((planned.scenario, one.claim)),
    )
    record(verdict("node-joins", Outcome.HOLDS))
    assert failing == []
    record(verdict("passthrough", Outcome.BROKEN))
    record.unknown("the lab went away")
    assert failing == [("test_it", "passthrough")]


@dataclass
class Ledger:
    """A shard that remembers what it was told."""

    evidences: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def evidence(self, scenario: str, pool: str, **fields: Any) -> None:
        self.evidences.append({"scenario": scenario, "pool": pool, **fields})

    def note(self, kind: str, text: str, *, at: float) -> None:
        self.notes.append(text)


class Still:
    """A clock that stands."""

    def now(self) -> float:
        return 1000.0

    def monotonic(self) -> float:
        return 0.0


@dataclass
class Plan:
    """One part, or whatever goes wrong in its place."""

    error: BaseException | None = None
    closed: bool = False

    def parts(self) -> list[Part]:
        return [Part("log", "log.txt", "c", self._take), Part("late", "late.txt", "c", self._take)]

    def close(self) -> None:
        self.closed = True

    def _take(self) -> Got:
        if self.error is not None:
            raise self.error
        return Got("said")


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


def evidence_of(root: Path, ledger: Ledger, plan: Plan | None) -> tuple[Evidence, Refusals]:
    refusals = Refusals()
    inventory: Any = type("Inventory", (), {"schematics": {}})()
    shard = cast("Shard", ledger)
    found = Evidence(root, inventory, lambda _: shard, lambda *_: None, refusals, 90.0)
    if plan is not None:
        clock: Any = Still()
        found._keeper = Keeper(PoolEvidence(root, clock, Budget()), plan)
        found._clock = clock
    return found, refusals


def test_the_ledger_says_where_it_is_and_how_complete(tmp_path: Path, ledger: Ledger) -> None:
    plan = Plan()
    root = tmp_path / "evidence"
    evidence_of(root, ledger, plan)[0].failing(PLANNED, verdict("passthrough", Outcome.BROKEN))
    (kept,) = ledger.evidences
    assert kept["folder"] == "evidence/test_it--plain"
    assert kept["score"] == {
        "planned": 2, "taken": 2, "truncated": 0, "empty": 0, "failed": 0, "skipped": 0,
        "share": 1.0,
    }  # fmt: skip
    assert (kept["status"], kept["causes"]) == ("none", ())
    manifest = json.loads((tmp_path / kept["folder"] / "manifest.json").read_text())
    assert manifest["reason"] == "passthrough broken: because so [node n]"
    assert plan.closed


def test_a_fault_of_its_own_is_told_and_becomes_no_verdict(tmp_path: Path, ledger: Ledger) -> None:
    taking, _ = evidence_of(tmp_path, ledger, Plan(error=KeyError("a bug")))
    taking.failing(PLANNED, verdict("passthrough", Outcome.BROKEN))
    (note,) = ledger.notes
    assert "the harness failed" in note
    assert "KeyError: 'a bug'" in note


def test_an_interrupt_goes_on_and_what_is_there_is_kept(tmp_path: Path, ledger: Ledger) -> None:
    plan = Plan(error=KeyboardInterrupt())
    taking, _ = evidence_of(tmp_path, ledger, plan)
    with pytest.raises(KeyboardInterrupt):
        taking.failing(PLANNED, verdict("passthrough", Outcome.BROKEN))
    assert ledger.evidences[0]["score"]["skipped"] == 2
    assert plan.closed


def test_a_disk_that_refuses_is_told_once(tmp_path: Path, ledger: Ledger) -> None:
    (tmp_path / "evidence").write_text("a file in the place of the folder")
    taking, refusals = evidence_of(tmp_path / "evidence", ledger, Plan())
    taking.failing(PLANNED, verdict("passthrough", Outcome.BROKEN))
    assert "cannot write" in refusals.sentence


def test_a_failure_without_a_lab_has_a_manifest_that_says_so(
    tmp_path: Path, ledger: Ledger
) -> None:
    evidence_of(tmp_path, ledger, None)[0].failing(PLANNED, verdict("node-joins", Outcome.UNKNOWN))
    assert ledger.evidences[0]["score"]["failed"] == 1


def test_failures_of_a_pool_that_was_refused_refer_to_what_was_taken_then(
    tmp_path: Path, ledger: Ledger
) -> None:
    taking, _ = evidence_of(tmp_path, ledger, None)
    clock: Any = Still()
    keeper = Keeper(PoolEvidence(tmp_path, clock, Budget()), Plan())
    refused = Manifest("bring-up", "plain", 1000.0, "no room", 90.0)
    taking._refused["plain"] = keeper.take(refused, anew=True, done=lambda _: None)
    taking.failing(PLANNED, verdict("node-joins", Outcome.UNKNOWN))
    manifest = json.loads((tmp_path / "test_it--plain" / "manifest.json").read_text())
    assert [one["file"] for one in manifest["items"]] == [
        "../bring-up--plain/log.txt",
        "../bring-up--plain/late.txt",
    ]


def test_none_is_taken_where_none_is_asked_for(tmp_path: Path, ledger: Ledger) -> None:
    inventory: Any = None
    shard = cast("Shard", ledger)
    taking = Evidence(tmp_path, inventory, lambda _: shard, lambda *_: None, Refusals(), 0.0)
    taking.failing(PLANNED, verdict("passthrough", Outcome.BROKEN))
    assert ledger.evidences == []
    assert list(tmp_path.iterdir()) == []
