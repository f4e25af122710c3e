from __future__ import annotations

from collections.abc import Callable
from itertools import permutations
from pathlib import Path

import pytest

from harness.judge.verdict import Verdict
from harness.report.ledger import Ledger, read
from harness.report.outcome import Standing, exit_status, summarise

Verdicts = Callable[..., Verdict]


def record(run: Path, verdict: Verdicts, standings: tuple[str, ...]) -> None:
    with Ledger(run, "pool") as ledger:
        for number, standing in enumerate(standings):
            scenario = f"s{number}"
            if standing == "not-established":
                ledger.not_established("c", "p", "not-established it is")
                continue
            ledger.planned(scenario, "p", ["c"])
            if standing == "not-run":
                ledger.not_run(scenario, "p", ["c"], "not-run it is")
            else:
                given = verdict("c", standing, f"{standing} it is", subject=f"node {number}")
                ledger.verdict(given, scenario=scenario, pool="p", at=0.0)


WORST_FIRST = ("broken", "unknown", "not-run", "not-established", "holds")


@pytest.mark.parametrize("worst", range(len(WORST_FIRST)))
def test_the_worst_finding_names_the_row_in_any_order(
    tmp_path: Path, verdict: Verdicts, worst: int
) -> None:
    for number, order in enumerate(permutations(WORST_FIRST[worst:])):
        run = tmp_path / str(number)
        record(run, verdict, order)
        (row,) = summarise(read(run)).rows
        assert row.outcome is Standing(WORST_FIRST[worst])
        assert row.because == f"{WORST_FIRST[worst]} it is"
        assert len(row.findings) == len(order)
        if number == 23:
            break


@pytest.mark.parametrize(
    ("standings", "status"),
    [
        (("holds",), 0),
        (("holds", "not-established"), 0),
        (("not-established",), 0),
        (("holds", "broken"), 1),
        (("unknown",), 1),
        (("not-run",), 1),
        ((), 5),
    ],
)
def test_exit_status(
    tmp_path: Path, verdict: Verdicts, standings: tuple[str, ...], status: int
) -> None:
    record(tmp_path, verdict, standings)
    assert exit_status(summarise(read(tmp_path))) == status


def test_a_planned_scenario_without_a_word_is_not_run(tmp_path: Path) -> None:
    with Ledger(tmp_path, "plan") as plan:
        plan.planned("silent", "p", ["c"])
        plan.planned("ended", "p", ["d"])
        plan.end("ended", "error", pool="p")
    summary = summarise(read(tmp_path))
    assert [(row.claim, row.outcome, row.because) for row in summary.rows] == [
        ("c", Standing.NOT_RUN, "ended without a verdict"),
        ("d", Standing.NOT_RUN, "ended without a verdict (error)"),
    ]
    assert (summary.planned, summary.reported, len(summary.missing)) == (2, 0, 2)
    assert exit_status(summary) == 1


def test_one_claim_of_two_judged_leaves_the_other_not_run(
    tmp_path: Path, verdict: Verdicts
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("s", "p", ["c", "d"])
        ledger.verdict(verdict("c"), scenario="s", pool="p", at=0.0)
    summary = summarise(read(tmp_path))
    assert {row.claim: row.outcome.value for row in summary.rows} == {"c": "holds", "d": "not-run"}
    assert [lost.claims for lost in summary.missing] == [("d",)]


def test_a_verdict_on_one_pool_says_nothing_of_another(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        for pool in ("p", "q"):
            ledger.planned("s", pool, ["c"])
        ledger.verdict(verdict("c"), scenario="s", pool="p", at=0.0)
    summary = summarise(read(tmp_path))
    assert {row.pool: row.outcome.value for row in summary.rows} == {"p": "holds", "q": "not-run"}


def test_a_scenario_that_judges_nothing_is_missing(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("real", "p", ["c"])
        ledger.verdict(verdict("c"), scenario="real", pool="p", at=0.0)
        ledger.planned("vacuous", "p", [])
        ledger.end("vacuous", "passed")
    summary = summarise(read(tmp_path))
    assert [lost.why for lost in summary.missing] == ["ended without a verdict (passed)"]
    assert exit_status(summary) == 1


def test_a_later_pass_does_not_hide_an_earlier_failure(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("s", "p", ["c"])
        for outcome in ("broken", "holds"):
            ledger.verdict(verdict("c", outcome), scenario="s", pool="p", at=0.0)
    (row,) = summarise(read(tmp_path)).rows
    assert row.outcome is Standing.BROKEN


def test_each_reason_for_not_running_stays_with_its_claims(tmp_path: Path) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("s", "p", ["c", "d", "e"])
        ledger.not_run("s", "p", ["c"], "no card free")
        ledger.not_run("s", "p", ["d"], "the lease was lost")
    summary = summarise(read(tmp_path))
    assert {row.claim: row.because for row in summary.rows} == {
        "c": "no card free",
        "d": "the lease was lost",
        "e": "ended without a verdict",
    }
    assert (summary.planned, summary.reported) == (1, 0)


def test_holds_without_its_facts_in_the_ledger_is_unknown(
    tmp_path: Path, verdict: Verdicts
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("s", "p", ["c"])
        ledger.verdict(verdict("c"), scenario="s", pool="p", at=0.0)
    lines = ledger.path.read_text().splitlines()
    ledger.path.write_text("\n".join(line for line in lines if '"fact"' not in line) + "\n")
    (row,) = summarise(read(tmp_path)).rows
    assert row.outcome is Standing.UNKNOWN
    assert "not in the ledger" in row.because


def test_an_outcome_that_no_judge_gives_is_unknown(tmp_path: Path, verdict: Verdicts) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.verdict(verdict("c"), scenario="s", pool="p", at=0.0)
    text = ledger.path.read_text()
    ledger.path.write_text(text.replace('"outcome": "holds"', '"outcome": "fine"'))
    assert summarise(read(tmp_path)).rows[0].outcome is Standing.UNKNOWN


def test_an_unreadable_line_fails_a_run_in_which_all_holds(
    tmp_path: Path, verdict: Verdicts
) -> None:
    record(tmp_path, verdict, ("holds",))
    shard = tmp_path / "ledger.d" / "pool.jsonl"
    shard.write_text(shard.read_text() + '{"record": "verd')
    summary = summarise(read(tmp_path))
    assert summary.counts[Standing.HOLDS] == 1
    assert exit_status(summary) == 1


def test_hardware_comes_with_the_pool(written: Path) -> None:
    summary = summarise(read(written))
    assert set(summary.pools) == {
        ("gpu-l40s", "L40S"),
        ("gpu-gb202", "GB202"),
        ("gpu-h100", "H100"),
    }
    row = summary.row("nvlink-param", "gpu-l40s")
    assert row is not None
    assert (row.outcome, row.subjects) == (Standing.BROKEN, ("node hil-gpu-x7k2p",))
    assert summary.row("node-joins", "gpu-gb202") is None
    assert sum(summary.counts.values()) == len(summary.rows)
