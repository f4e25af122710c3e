"""A scenario that is stopped, skips itself or loses its lab never counts as one that holds."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Run = Callable[..., Any]

HEAD = """
import os, resource, signal
import pytest
from harness import judge
from harness.bringup.errors import PoolNotReady
from harness.reach.errors import ApiRefused, LabError, Unreachable

@pytest.mark.claims("spec-read-back")
def test_it(pool, record):
    record(judge.spec_read_back(pool.stored_request(), pool.written_modules, pool.subject))
"""


def ledger(tmp_path: Path, kind: str) -> list[dict[str, Any]]:
    lines = (tmp_path / "out" / "own" / "ledger.jsonl").read_text().splitlines()
    return [record for line in lines if (record := json.loads(line))["record"] == kind]


def standing(tmp_path: Path) -> tuple[list[str], str, str]:
    """The outcomes recorded in order, the last reason, and how the scenario ended."""
    verdicts = ledger(tmp_path, "verdict")
    (end,) = ledger(tmp_path, "end")
    return [v["outcome"] for v in verdicts], verdicts[-1]["because"], end["outcome"]


@pytest.mark.parametrize(
    ("stop", "because", "status", "ended"),
    [
        ("raise PoolNotReady('the second worker is gone')", "the second worker", 1, "failed"),
        ("raise ApiRefused(422, 'Invalid', 'no')", "422 Invalid", 1, "failed"),
        ("raise Unreachable('ask', 'nothing', 'look')", "tried to ask", 3, "lab unfit"),
        ("raise ValueError('a bug')", "ValueError: a bug", 1, "failed"),
        ("pytest.fail('by hand')", "by hand", 1, "failed"),
        ("pytest.skip('no time')", "the scenario skipped itself: no time", 1, "skipped"),
        ("pytest.xfail('known')", "skipped itself: it expected to fail", 1, "skipped"),
    ],
)
def test_what_stops_a_scenario_after_it_recorded_holds(
    own: Run, tmp_path: Path, stop: str, because: str, status: int, ended: str
) -> None:
    run = own(f"{HEAD}    {stop}\n", "--pool", "plain")
    outcomes, reason, how = standing(tmp_path)
    assert outcomes == ["holds", "unknown"], run.said
    assert because in reason
    assert how == ended
    assert run.status == status, run.said
    assert "UnboundLocalError" not in run.said
    signed = json.loads((tmp_path / "out" / "own" / "signoff.json").read_text())
    assert signed["counts"]["unknown"] == 1
    assert signed["run"]["exit"] == status


@pytest.mark.parametrize(
    ("mark", "because"),
    [
        ('skip(reason="flaky")', "the scenario skipped itself: flaky"),
        ('xfail(reason="known", run=False)', "skipped itself: it expected to fail"),
    ],
)
def test_a_mark_that_skips(own: Run, tmp_path: Path, mark: str, because: str) -> None:
    text = HEAD.replace("@pytest.mark.claims", f"@pytest.mark.{mark}\n@pytest.mark.claims")
    assert own(text, "--pool", "plain").status == 1
    outcomes, reason, how = standing(tmp_path)
    assert (outcomes, how) == (["unknown"], "skipped")
    assert because in reason


def test_a_lab_lost_beside_a_claim_that_is_no_lab_matter_is_1(own: Run, tmp_path: Path) -> None:
    other = HEAD.replace("test_it", "test_other").replace("spec-read-back", "node-joins")
    other = other[other.index("@pytest") : other.index("    record(")]
    text = f"{HEAD}    raise Unreachable('ask', 'nothing', 'look')\n{other}    assert False\n"
    assert own(text, "--pool", "plain").status == 1
    assert [r["outcome"] for r in ledger(tmp_path, "end")] == ["lab unfit", "failed"]


def test_times_after_a_pool_failed_are_the_labs(own: Run, tmp_path: Path) -> None:
    lost = """
@pytest.fixture(scope="session", autouse=True)
def lost():
    from harness.bringup import keeper
    def wait(held, log):
        held.lab.clock.sleep(60)
        raise Unreachable("ask", "nothing", "look")
    keeper._wait_until_joined = wait
"""
    run = own(HEAD + lost, "--pool", "plain")
    assert run.status == 3, run.said
    (verdict,) = ledger(tmp_path, "verdict")
    assert verdict["outcome"] == "unknown"
    assert verdict["at"] > "2026-01-01T00:01:00"


FULL = "    resource.setrlimit(resource.RLIMIT_FSIZE, ({size}, resource.RLIM_INFINITY))\n"


@pytest.mark.parametrize("workers", [(), ("-n", "2", "--dist", "loadgroup")])
def test_a_disk_that_is_full(own: Run, tmp_path: Path, workers: tuple[str, ...]) -> None:
    head, record = HEAD.split("    record(")
    more = "\n@pytest.mark.claims('node-joins')\ndef test_more(pool, record):\n    assert False\n"
    text = f"{head}{FULL.format(size=2000)}    record({record}{more}"
    run = own(text, "--pool", "plain", *workers)
    run.assert_sentence(3, "hil: cannot write ", "pool-plain.jsonl: File too large")
    assert len([line for line in run.err.splitlines() if line.startswith("hil: ")]) == 1


def test_reports_that_cannot_be_written(own: Run, tmp_path: Path) -> None:
    block = "    os.mkdir('out/own/ledger.jsonl')\n"
    run = own(HEAD + block, "--pool", "plain")
    run.assert_sentence(3, "hil: cannot write ", "ledger.jsonl", "Is a directory")


def test_allures_files_that_cannot_be_written(own: Run, tmp_path: Path) -> None:
    block = "    os.rename('out/own/allure-results', 'out/own/moved')\n"
    block += "    open('out/own/allure-results', 'w').close()\n"
    run = own(HEAD + block, "--pool", "plain")
    run.assert_sentence(3, "hil: cannot write ", "allure-results", "File exists")


def test_a_table_of_letters_that_the_terminal_lacks(hil: Run, tmp_path: Path) -> None:
    out = tmp_path / "läufe"
    run = hil(
        *("run", "--pool", "plain", "--claim", "spec-read-back", "--out", out),
        **{"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"},
    )
    run.assert_sentence(0, "Claims: 1 holds")


@pytest.mark.parametrize(
    "narrow", [("-k", "it"), ("--deselect", "test_own.py::test_other[plain]"), ("-m", "kept")]
)
def test_scenarios_that_pytest_deselects_are_told(
    own: Run, tmp_path: Path, narrow: tuple[str, ...]
) -> None:
    other = HEAD[HEAD.index("@pytest") :].replace("test_it", "test_other")
    text = HEAD.replace("@pytest.mark.claims", "@pytest.mark.kept\n@pytest.mark.claims")
    run = own(text + other, "--pool", "plain", "-o", "markers=kept", *narrow)
    sentence = "1 scenario was deselected by pytest options and is not part of this run"
    assert run.status == 0, run.said
    assert sentence in run.out
    signed = json.loads((tmp_path / "out" / "own" / "signoff.json").read_text())
    assert sentence in signed["obstacles"]


def test_what_no_pool_serves_is_not_called_deselected(own: Run) -> None:
    other = HEAD[HEAD.index("@pytest") :].replace("test_it", "test_other")
    run = own(HEAD + other.replace("spec-read-back", "passthrough"), "--pool", "plain")
    assert "deselected by pytest options" not in run.said


def test_an_interrupt_before_there_is_a_plan(own: Run, tmp_path: Path) -> None:
    run = own(HEAD + "os.kill(os.getpid(), signal.SIGINT)\n", "--pool", "plain")
    assert run.status == 130, run.said
    assert "hil: interrupted before anything was planned" in run.err
    assert json.loads((tmp_path / "out" / "own" / "run.json").read_text())["exit"] == 130
