"""The lab's failures are told from the product's, and never in the product's favour."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.environment import CARDS_TAKEN, HOST_LOST, NEEDS_CARDS, NO_LAB, OF_THE_LAB
from harness.report.ledger import Ledger, LedgerView, read
from harness.report.outcome import Standing, summarise
from harness.report.table import render
from harness.session.finish import only_the_lab_failed, status_of

FACT = Fact(Origin(0.0, "a place", "text"))
Said = tuple[str, Outcome, str, str]
"""claim, outcome, reason, how its scenario ended."""


def run(tmp_path: Path, *said: Said, notes: tuple[tuple[str, str], ...] = ()) -> LedgerView:
    with Ledger(tmp_path, "pool-gpu") as shard:
        for kind, text in notes:
            shard.note(kind, text, at=0.0)
        for number, (claim, outcome, because, ended) in enumerate(said):
            scenario = f"test_{number}"
            shard.planned(scenario, "gpu", [claim])
            verdict = Verdict(claim, "pool gpu", outcome, because, (FACT,))
            shard.verdict(verdict, scenario=scenario, pool="gpu", at=0.0)
            shard.end(scenario, ended, pool="gpu")
    return read(tmp_path)


def status(view: LedgerView) -> int:
    return status_of(view, summarise(view))


LOST: Said = ("uptime", Outcome.UNKNOWN, "tried to ask, saw nothing: look", NO_LAB)
WELL: Said = ("modules-live", Outcome.HOLDS, "all Live", "passed")
TAKEN = ((CARDS_TAKEN, "0 of 4 cards free, 1 needed; taken by tenant-root/trainer"),)
UNPLACED = "0/3 nodes are available: 1 Insufficient memory, 2 Insufficient nvidia.com/L40S."
STUCK = f"m-0 got to VM made in 1740 s, stuck on Pod p: phase Pending; Unschedulable: {UNPLACED}"
NO_CARD: tuple[Said, ...] = (
    ("node-joins", Outcome.BROKEN, f"0 of 1 Ready within 1740 s: {STUCK}", "failed"),
    ("passthrough", Outcome.BROKEN, f"no host has nvidia.com/L40S left: {UNPLACED}", "failed"),
    ("uptime", Outcome.UNKNOWN, "no worker joined: m stands at Pod p", "failed"),
)
AWAY = ((HOST_LOST, "host hv-1, on which pool gpu ran, is not Ready: NodeStatusUnknown"),)


def test_a_lab_that_was_lost_is_the_labs(tmp_path: Path) -> None:
    view = run(tmp_path, WELL, LOST)
    assert status(view) == 3
    table = render(summarise(view))
    assert "unknown (lab)" in table
    assert "the lab's, not the product's: tried to ask, saw nothing" in table
    assert "of these 1 the lab's" in table


def test_cards_that_others_have_are_the_labs(tmp_path: Path) -> None:
    view = run(tmp_path, *NO_CARD, notes=TAKEN)
    assert status(view) == 3
    assert {row.environment for row in summarise(view).rows} == {TAKEN[0][1]}


def test_without_the_note_they_are_the_products(tmp_path: Path) -> None:
    assert status(run(tmp_path, *NO_CARD)) == 1


@pytest.mark.parametrize(
    ("claim", "because"),
    [
        ("node-joins", "0 of 1 Ready within 1740 s: m-0 got to VM made in 9 s, stuck on Pod p: x"),
        (
            "node-joins",
            f"0 of 2 Ready within 1740 s: {STUCK}; m-1 got to guest running in 1740 s, stuck on "
            "Machine m-1: no bootstrap data",
        ),
        ("node-joins", f"0 of 2 Ready within 9 s: {STUCK}; m-1 became Ready after 1800 s"),
        ("node-joins", "0 of 1 Ready within 9 s, no other worker exists"),
        ("passthrough", "the guest has 10de:2bb5 and not 10de:26b9"),
    ],
)
def test_that_others_have_cards_excuses_only_the_want_of_them(
    tmp_path: Path, claim: str, because: str
) -> None:
    view = run(tmp_path, *NO_CARD, (claim, Outcome.BROKEN, because, "failed"), notes=TAKEN)
    assert status(view) == 1
    row = summarise(view).row(claim, "gpu")
    assert row is not None and not row.environment


def test_a_host_that_went_away_leaves_claims_unknown(tmp_path: Path) -> None:
    gone = ("uptime", Outcome.UNKNOWN, "the shell does not answer", "failed")
    assert status(run(tmp_path, WELL, gone, notes=AWAY)) == 3


@pytest.mark.parametrize(
    "other",
    [
        ("uptime", Outcome.BROKEN, "the node rebooted after 4210 s", "failed"),
        ("modules-live", Outcome.BROKEN, "nvidia is not Live", NO_LAB),
        ("uptime", Outcome.UNKNOWN, "the harness failed: KeyError: 'x'", "failed"),
        ("uptime", Outcome.UNKNOWN, "the scenario skipped itself: no time", "skipped"),
        ("headroom", Outcome.BROKEN, "61 GiB wanted, 3 free", "failed"),
    ],
)
@pytest.mark.parametrize("notes", [(), TAKEN, AWAY])
def test_what_else_is_wrong_stays_red(
    tmp_path: Path, other: Said, notes: tuple[tuple[str, str], ...]
) -> None:
    assert status(run(tmp_path, LOST, other, notes=notes)) == 1


CLAIMS = st.sampled_from(["uptime", "modules-live", *NEEDS_CARDS, *OF_THE_LAB])
ENDS = st.sampled_from(["passed", "failed", "skipped", "error in call", NO_LAB])
REASONS = st.sampled_from(["no worker joined: x", "wrong", "the harness failed: KeyError"])


@given(
    said=st.lists(
        st.tuples(CLAIMS, st.sampled_from(list(Outcome)), REASONS, ENDS), min_size=1, max_size=6
    ),
    notes=st.sampled_from([(), TAKEN, AWAY, TAKEN + AWAY]),
)
def test_a_product_that_is_broken_is_never_the_labs(
    said: list[Said], notes: tuple[tuple[str, str], ...], tmp_path_factory: Any
) -> None:
    view = run(tmp_path_factory.mktemp("lab"), *said, notes=notes)
    summary = summarise(view)
    for row in summary.rows:
        if row.environment:
            broken = any(one.outcome is Standing.BROKEN for one in row.findings)
            excused = (*OF_THE_LAB, *NEEDS_CARDS) if notes else OF_THE_LAB
            assert not broken or row.claim in excused
            unknown = [one for one in row.findings if one.outcome is Standing.UNKNOWN]
            assert not any("the harness failed" in one.because for one in unknown)
            assert row.outcome is not Standing.HOLDS
    if status(view) == 3:
        assert only_the_lab_failed(view)
        assert not any(
            claim not in (*OF_THE_LAB, *NEEDS_CARDS) and outcome is Outcome.BROKEN
            for claim, outcome, _, _ in said
        )
