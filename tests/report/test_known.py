"""Known issues: a match is shown and never established; all else stays as red as it was."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.known import KnownIssuesError, State, load, match
from harness.report.ledger import Ledger, read
from harness.report.outcome import ALL_KNOWN, Standing, Summary, exit_status, summarise
from harness.report.table import render

CLAIMS = ("uptime", "node-joins", "modules-live")
DAY = datetime(2026, 11, 30, 12, tzinfo=UTC).timestamp()
FACT = Fact(Origin(0.0, "a place", "text"))

ENTRY = """
  - claim: uptime
    signature: 'rebooted after \\d+ s'
    owner: gpu-team
    link: https://issues.example.org/1
    expires: 2026-11-30
"""


def known(tmp_path: Path, entries: str = ENTRY) -> Path:
    path = tmp_path / "known.yaml"
    path.write_text(f"schema: hil.known-issues/1\nissues:{entries or ' []'}\n")
    return path


def ledger(tmp_path: Path, *said: tuple[str, Outcome, str], pool: str = "gpu") -> Path:
    run = tmp_path / "run"
    with Ledger(run, "pool-gpu") as shard:
        for claim, outcome, because in said:
            scenario = f"test_{claim}"
            shard.planned(scenario, pool, [claim], hardware="L40S")
            verdict = Verdict(claim, "node n", outcome, because, (FACT,))
            shard.verdict(verdict, scenario=scenario, pool=pool, at=0.0)
            shard.end(scenario, "passed" if outcome is Outcome.HOLDS else "failed", pool=pool)
    return run


def noted(tmp_path: Path, run: Path, entries: str = ENTRY, at: float = DAY) -> Summary:
    """The run's summary once its known issues are written into its ledger."""
    found = match(load(known(tmp_path, entries), CLAIMS, at), summarise(read(run)), at)
    with Ledger(run, "known") as shard:
        for one in found:
            shard.known_issue(**one.fields())
    return summarise(read(run))


BROKEN = ("uptime", Outcome.BROKEN, "the node rebooted after 4210 s")
HOLDS = ("node-joins", Outcome.HOLDS, "2 of 2 joined")


def test_a_match_is_known_and_not_established(tmp_path: Path) -> None:
    summary = noted(tmp_path, ledger(tmp_path, BROKEN, HOLDS))
    row = summary.row("uptime", "gpu")
    assert row is not None
    assert row.outcome is Standing.BROKEN
    assert [one.state for one in row.known] == ["matched"]
    assert exit_status(summary) == ALL_KNOWN
    table = render(summary)
    assert "BROKEN known" in table
    assert "known issue: gpu-team, https://issues.example.org/1, till 2026-11-30" in table
    assert "of these 1 known issues" in table


@pytest.mark.parametrize(
    ("because", "at", "state", "told"),
    [
        ("the node rebooted after 4210 s", DAY + 86400, "expired", "that has expired"),
        ("the node is gone", DAY, "differs", "another failure than the known issue"),
    ],
)
def test_past_its_day_or_with_another_signature_it_is_red(
    tmp_path: Path, because: str, at: float, state: str, told: str
) -> None:
    run = ledger(tmp_path, ("uptime", Outcome.BROKEN, because))
    summary = noted(tmp_path, run, at=at)
    assert [one.state for row in summary.rows for one in row.known] == [state]
    assert exit_status(summary) == 1
    assert told in render(summary)
    assert "BROKEN known" not in render(summary)


def test_a_known_failure_does_not_hide_another_of_the_same_claim(tmp_path: Path) -> None:
    other = ("uptime", Outcome.BROKEN, "the node is gone")
    summary = noted(tmp_path, ledger(tmp_path, BROKEN, other))
    assert exit_status(summary) == 1


def test_one_that_holds_by_now_is_told(tmp_path: Path) -> None:
    run = ledger(tmp_path, ("uptime", Outcome.HOLDS, "5600 s on one boot"))
    summary = noted(tmp_path, run)
    assert exit_status(summary) == 0
    assert "uptime on gpu (L40S) holds: its known issue (gpu-team" in render(summary)


@pytest.mark.parametrize(
    ("where", "exit_"), [("pool: gpu", 6), ("hardware: l40s", 6), ("pool: other", 1)]
)
def test_an_entry_may_be_of_one_pool_or_card(tmp_path: Path, where: str, exit_: int) -> None:
    summary = noted(tmp_path, ledger(tmp_path, BROKEN), f"{ENTRY.rstrip()}\n    {where}\n")
    assert exit_status(summary) == exit_


def test_what_never_ran_is_no_known_issue(tmp_path: Path) -> None:
    run = ledger(tmp_path, HOLDS)
    with Ledger(run, "plan") as shard:
        shard.planned("test_uptime", "gpu", ["uptime"])
    summary = noted(tmp_path, run)
    assert exit_status(summary) == 1
    assert all(not row.known for row in summary.rows)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        (ENTRY.replace("uptime", "uptme"), "no claim 'uptme'; did you mean 'uptime'?"),
        (ENTRY.replace("'rebooted after \\d+ s'", "'('"), "no regular expression"),
        (ENTRY.replace("'rebooted after \\d+ s'", "'.*'"), "it fits every reason"),
        (ENTRY.replace("'rebooted after \\d+ s'", "'.'"), "it fits every reason"),
        (ENTRY.replace("'rebooted after \\d+ s'", "'[a-z]+'"), "it fits every reason"),
        (ENTRY.replace("2026-11-30", "2027-02-30"), "a day is written as 2027-01-31"),
        (f" {'[' * 5000}", "nested too deep"),
        (ENTRY.replace("2026-11-30", "soon"), "'soon' is no day (2027-01-31)"),
        (ENTRY.replace("    owner: gpu-team\n", ""), "owner: missing"),
        (ENTRY.replace("owner", "ownr"), "ownr: no such field"),
        (
            ENTRY.replace("2026-11-30", "2027-05-30"),
            "2027-05-30 is 181 days ahead, and 180 are allowed: until 2027-05-29",
        ),
        (ENTRY.replace("2026-11-30", "9999-12-31"), "and 180 are allowed"),
        (ENTRY.replace("rebooted after \\d+ s", "(a+)+$"), "more than 0.5 s to search it"),
        (ENTRY.replace("rebooted after \\d+ s", "(\\w+\\s?)*x"), "more than 0.5 s to search it"),
        (ENTRY.replace("rebooted after \\d+ s", "a{99999999999}"), "no regular expression"),
        ("\n  - just text\n", "a mapping was expected"),
        (" 5", "a list was expected"),
    ],
    ids=map(str, range(17)),
)
def test_every_mistake_is_told(tmp_path: Path, entries: str, said: str) -> None:
    with pytest.raises(KnownIssuesError) as wrong:
        load(known(tmp_path, entries), CLAIMS, DAY)
    assert said in str(wrong.value)


def test_the_last_day_that_is_allowed(tmp_path: Path) -> None:
    (one,) = load(known(tmp_path, ENTRY.replace("2026-11-30", "2027-05-29")), CLAIMS, DAY)
    assert one.expires.isoformat() == "2027-05-29"


def test_a_reason_on_which_a_signature_would_hang_differs(tmp_path: Path) -> None:
    """It was quick on all that it was tried on."""
    entries = ENTRY.replace("rebooted after \\d+ s", "(?:b+)+ rebooted")
    run = ledger(tmp_path, ("uptime", Outcome.BROKEN, "b" * 60))
    summary = noted(tmp_path, run, entries)
    assert [one.state for row in summary.rows for one in row.known] == ["differs"]
    assert exit_status(summary) == 1


def test_a_file_that_is_none(tmp_path: Path) -> None:
    with pytest.raises(KnownIssuesError, match="cannot be read"):
        load(tmp_path / "absent.yaml", CLAIMS, DAY)
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(KnownIssuesError, match="no YAML"):
        load(tmp_path / "bad.yaml", CLAIMS, DAY)
    (tmp_path / "old.yaml").write_text("schema: hil.known-issues/9\nissues: []\n")
    with pytest.raises(KnownIssuesError, match="schema: hil"):
        load(tmp_path / "old.yaml", CLAIMS, DAY)


OUTCOMES = st.sampled_from(list(Outcome))
REASONS = st.sampled_from(["the node rebooted after 9 s", "the node is gone", "no answer"])


@given(said=st.lists(st.tuples(st.sampled_from(CLAIMS), OUTCOMES, REASONS), min_size=1, max_size=6))
def test_nothing_that_is_known_makes_a_run_green(
    said: list[tuple[str, Outcome, str]], tmp_path_factory: Any
) -> None:
    tmp_path = tmp_path_factory.mktemp("known")
    run = ledger(tmp_path, *said)
    before = summarise(read(run))
    after = noted(tmp_path, run)
    assert [row.outcome for row in before.rows] == [row.outcome for row in after.rows]
    assert (exit_status(before) == 0) == (exit_status(after) == 0)
    if exit_status(after) == ALL_KNOWN:
        bad = [one for _, outcome, one in said if outcome is not Outcome.HOLDS]
        assert all("rebooted after" in text for text in bad)


def test_states_are_those_of_the_ledger() -> None:
    assert {one.value for one in State} == {"matched", "expired", "differs", "obsolete"}
