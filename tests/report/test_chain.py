from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from harness.judge.verdict import Verdict
from harness.report.chain import LINKS, chains
from harness.report.ledger import Ledger, read
from harness.report.outcome import Summary, summarise
from harness.report.table import render

Verdicts = Callable[..., Verdict]
Run = Callable[..., Summary]


@pytest.fixture
def run(tmp_path: Path, verdict: Verdicts) -> Run:
    """A run in which these claims hold on a pool, and vfio-bound is not to be established."""

    def made(claims: Sequence[str], hardware: str = "L40S", because: str = "as seen") -> Summary:
        with Ledger(tmp_path, "plan") as plan:
            plan.planned("s", "gpu-l40s", claims, hardware=hardware)
            plan.not_established("vfio-bound", "", "no host with a key")
        with Ledger(tmp_path, "pool") as ledger:
            for claim in claims:
                given = verdict(claim, because=because)
                ledger.verdict(given, scenario="s", pool="gpu-l40s", at=1.0)
        return summarise(read(tmp_path))

    return made


def test_links_stand_from_the_host_outwards_whatever_the_order_of_scenarios(run: Run) -> None:
    asked = [one for one in LINKS if one != "vfio-bound"]
    (chain,) = chains(run(["node-joins", *reversed(asked)]))
    assert [row.claim for row in chain.links] == list(LINKS)
    assert (chain.pool, chain.hardware) == ("gpu-l40s", "L40S")
    assert chain.links[0].because == "no host with a key"


@pytest.mark.parametrize("without", ["uptime", "cuda-runs", "cdi-injection"])
def test_a_run_that_did_not_ask_the_end_or_the_window_is_none(run: Run, without: str) -> None:
    summary = run([one for one in LINKS if one not in ("vfio-bound", without)])
    assert chains(summary) == ()
    text = render(summary, limits=["Anything else."])
    assert "chain" not in text and "Anything else." not in text


def test_a_pool_without_a_card_has_none(run: Run) -> None:
    assert chains(run(["uptime", "cuda-runs", "cdi-injection"], hardware="")) == ()


def test_a_reference_run_prints_its_chain_and_what_it_cannot_show(run: Run) -> None:
    summary = run(["uptime", "cuda-runs", "cdi-injection"], because="word " * 100)
    text = render(summary, limits=["Anything of another card.", "More " * 40])
    assert "The chain on gpu-l40s (L40S)" in text
    assert "not established  vfio-bound\n    no host with a key" in text
    order = [text.index(f"holds  {one}") for one in ("cdi-injection", "cuda-runs", "uptime")]
    assert order == sorted(order)
    assert "Not shown by this run, by its nature:\n  - Anything of another card.\n  - More" in text
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("word ..\n") == 3
