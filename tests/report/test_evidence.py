"""The numbers of a run's evidence, and the line of each pool."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.evidence import block, evidence, lines
from harness.report.ledger import Ledger, LedgerView, read
from harness.report.outcome import summarise
from harness.report.table import render

SCORE = {"planned": 4, "taken": 2, "truncated": 1, "empty": 0, "failed": 1, "skipped": 0}


def run(tmp_path: Path, **statuses: str | None) -> LedgerView:
    """A run whose scenarios fail; each with a diagnosis of that status, None for no evidence."""
    with Ledger(tmp_path, "pool-p") as ledger:
        for scenario, status in statuses.items():
            fact = Fact(Origin(0.0, "n", "t"))
            broken = Verdict("c", "node n", Outcome.BROKEN, "because", (fact,))
            ledger.planned(scenario, "p", ["c"])
            ledger.verdict(broken, scenario=scenario, pool="p", at=1.0)
            if status is not None:
                fields: dict[str, Any] = {"score": SCORE, "status": status, "causes": ["x"]}
                ledger.evidence(
                    scenario, "p", at=1.0, folder=f"evidence/{scenario}--p",
                    diagnosis=f"it is {status}", **fields,
                )  # fmt: skip
    return read(tmp_path)


def test_failures_without_a_named_cause_are_a_share(tmp_path: Path) -> None:
    view = run(tmp_path, a="named", b="undecided", c="nothing", d=None)
    found = block(view, summarise(view))
    assert (found["failures"], found["with_evidence"], found["without"]) == (4, 3, 1)
    assert (found["decided"], found["undecided"], found["nothing"]) == (1, 1, 1)
    assert found["undiagnosable_share"] == 0.75
    assert (found["planned"], found["taken"], found["share"]) == (12, 9, 0.75)


def test_a_run_without_failures_has_no_share(tmp_path: Path) -> None:
    with Ledger(tmp_path, "pool-p"):
        pass
    view = read(tmp_path)
    found = block(view, summarise(view))
    assert (found["failures"], found["undiagnosable_share"], found["share"]) == (0, None, None)


def test_the_same_diagnosis_of_several_failures_is_one_line(tmp_path: Path) -> None:
    view = run(tmp_path, a="named", b="named", c="undecided")
    assert lines(view) == ("p: it is named (2 failures)", "p: it is undecided (1 failure)")
    told = render(summarise(view), diagnoses=lines(view))
    assert "Diagnosis of what failed, which changes no verdict:" in told
    assert "p: it is named (2 failures)" in told


@pytest.mark.parametrize("status", ["named", "undecided", "nothing", "none"])
def test_no_diagnosis_changes_a_verdict(tmp_path: Path, status: str) -> None:
    view = run(tmp_path, a=status)
    assert [row.outcome for row in summarise(view).rows] == ["broken"]
    assert [one.causes for one in evidence(view)] == [("x",)]
