"""`hil trend`: kept runs side by side, and whose failures theirs were."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.report.history import Cell, Ending, history
from tests.report.releases import A, B, run
from tests.report.runs import CLUSTER, Run
from tests.report.test_signoff import Page

LOST = {"record": "end", "scenario": "s", "pool": "gpu", "outcome": "lab unfit"}
EVIDENCE = {"record": "evidence", "scenario": "s", "pool": "gpu", "folder": "f"}
ISSUE = {"record": "known-issue", "claim": A, "pool": "gpu", "state": "matched"}


@pytest.mark.parametrize(
    ("made", "ending"),
    [
        ({"says": {A: "holds"}}, Ending.CLEAN),
        ({"says": {A: "holds", B: "not-established"}}, Ending.CLEAN),
        ({"says": {A: "broken"}, "exit": 1}, Ending.PRODUCT),
        ({"says": {A: "unknown"}, "exit": 1}, Ending.PRODUCT),
        ({"says": {A: "holds"}, "exit": 1}, Ending.PRODUCT),
        ({"says": {A: "unknown"}, "exit": 3, "more": [LOST]}, Ending.LAB),
        ({"says": {A: "unknown"}, "exit": 1, "more": [LOST]}, Ending.LAB),
        ({"says": {A: "broken"}, "exit": 3}, Ending.PRODUCT),
        ({"says": {A: "not-run"}, "exit": 3}, Ending.LAB),
        ({"says": {A: "broken"}, "exit": 6, "more": [ISSUE]}, Ending.KNOWN),
        ({"says": {A: "broken", B: "broken"}, "exit": 1, "more": [ISSUE]}, Ending.PRODUCT),
        ({"says": {A: "unknown"}, "exit": 70}, Ending.HARNESS),
        ({"says": {A: "holds"}, "exit": None}, Ending.CUT),
        ({"says": {A: "holds"}, "exit": 130}, Ending.CUT),
        ({"says": {A: "holds"}, "merged": False}, Ending.CUT),
        ({"says": {A: "broken"}, "exit": 1, "fault": "planted"}, Ending.FAULT),
    ],
)
def test_whose_the_end_of_a_run_was(made: dict[str, Any], ending: Ending) -> None:
    (past,) = history([run("r", **made)]).past
    assert past.ending is ending


def test_a_claim_fails_by_the_product_and_not_by_the_lab_or_on_purpose() -> None:
    found = history(
        [
            run("r1", {A: "holds"}, days_ago=5),
            run("r4", {A: "unknown"}, more=[LOST], exit=3, days_ago=2),
            run("r3", {A: "holds", B: "holds"}, days_ago=3),
            run("r2", {A: "broken"}, exit=1, days_ago=4),
            run("r5", {A: "broken"}, exit=1, fault="planted", days_ago=1),
        ]
    )
    assert [one.run.id for one in found.past] == ["r1", "r2", "r3", "r4", "r5"]
    course = found.courses[0]
    assert course.claim == A
    assert course.cells == (Cell.HOLDS, Cell.BROKEN, Cell.HOLDS, Cell.LAB, Cell.BROKEN)
    assert (course.failed, course.turns) == (1, 2)
    assert found.courses[1].cells[0] is Cell.NOT_ASKED


def test_failures_without_a_cause_and_what_was_kept_of_them() -> None:
    score = {"planned": 10, "taken": 8}
    named = EVIDENCE | {"status": "named", "score": score}
    open_ = EVIDENCE | {"status": "undecided", "score": score | {"taken": 4}}
    found = history(
        [
            run("r1", {A: "broken", B: "broken"}, more=[named], exit=1),
            run("r2", {A: "broken"}, more=[open_], exit=1),
            run("r3", {A: "unknown"}, exit=1),
            run("r4", {A: "holds"}),
            run("r5", {A: "broken"}, exit=1, fault="planted"),
        ]
    )
    assert found.failures == 3
    assert found.undiagnosed == pytest.approx(2 / 3)
    assert found.complete == pytest.approx(12 / 20)
    shares = [(one.undiagnosed_share, one.evidence_share) for one in found.past]
    assert shares[1:4] == [(1.0, 0.4), (1.0, None), (None, None)]
    assert shares[0] == (0.0, 0.8)
    assert history([run("r", {A: "holds"})]).undiagnosed is None


def kept(out: Path) -> None:
    more = {"exit": 0, "lab": "lab"}
    Run(out, CLUSTER, run_id="r1", ended=11.0, **more).says("node-joins").says("uptime").end()
    Run(out, CLUSTER, run_id="r2", ended=22.0, **more | {"exit": 1}).says(
        "node-joins", "broken"
    ).lacks("cuda-runs", "no card").end()
    Run(out, CLUSTER, run_id="r3", ended=33.0, lane="night", **more).says("node-joins").end()
    Run(out, CLUSTER, run_id="x1", ended=44.0, exit=0, lab="other").says("uptime").end()
    (out / "latest").symlink_to("x1")


def ask(out: Path, *argv: str) -> int:
    return cli.main(["trend", "--kept", str(out), *argv])


def test_the_table_has_what_failed_by_runs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path)
    assert ask(tmp_path, "--lab", "lab") == 0
    said = capsys.readouterr().out
    assert "x1" not in said
    of_r2 = "   2  1970-01-01T00:00:22Z product               21 s      -"
    assert f"{of_r2}        1     100%        -  r2\n" in said
    assert "            123  failed  turns\nnode-joins  .B.       1      2\n" in said
    assert "1 claim held in every run that asked\n1 claim could be put to none" in said
    assert "3 runs: 2 clean, 1 product\n" in said
    assert "failures: 1, 100% without a cause named; evidence: none planned" in said


@pytest.mark.parametrize(
    ("argv", "runs"),
    [
        ([], ["r1", "r2", "r3", "x1"]),
        (["--last", "2"], ["r3", "x1"]),
        (["--lab", "lab", "--last", "1"], ["r3"]),
        (["--lane", "night"], ["r3"]),
    ],
)
def test_which_runs_are_told_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], runs: list[str]
) -> None:
    kept(tmp_path)
    assert ask(tmp_path, *argv, "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["schema"] == "hil.trend/1"
    assert [one["run_id"] for one in shown["runs"]] == runs


def test_a_lab_without_runs_is_a_mistake_that_names_those_with(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path)
    assert ask(tmp_path, "--lab", "nolab") == 2
    assert "labs with runs there: lab, other" in capsys.readouterr().err


def test_what_cannot_be_read_is_told_and_the_rest_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept(tmp_path)
    (tmp_path / "r1" / "run.json").write_text("{")
    ledger = tmp_path / "r2" / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace('"record": "fact"', '"record": "fac'))
    (tmp_path / "early" / "ledger.d").mkdir(parents=True)  # ended before it wrote anything
    (tmp_path / "early" / "run.json").write_text((tmp_path / "x1" / "run.json").read_text())
    assert ask(tmp_path) == 3
    said = capsys.readouterr()
    assert "r1/run.json" in said.err and "r2: unreadable: pool-p:2: not JSON" in said.err
    assert "early" not in said.err and "x1\n" in said.out and "r3\n" in said.out


def test_the_page_has_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept(tmp_path)
    page = tmp_path / "t" / "trend.html"
    assert ask(tmp_path, "--html", str(page)) == 0
    html = page.read_text()
    parsed = Page(html)
    assert parsed.open == [] and "http:" not in html and "https:" not in html
    assert "node-joins holds BROKEN holds" in parsed.text
    assert ask(tmp_path, "--html", str(page / "below")) == 2
    assert "cannot write there" in capsys.readouterr().err
