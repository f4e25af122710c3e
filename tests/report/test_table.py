from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from harness.judge.verdict import Verdict
from harness.report.ledger import Ledger, read
from harness.report.outcome import summarise
from harness.report.substrate import IN_WORDS, Substrate
from harness.report.table import render


def test_it_reads_without_colour(written: Path) -> None:
    text = render(summarise(read(written)), reports={"Ledger": "out/ledger.jsonl"})
    lines = text.splitlines()
    assert lines[0].split() == ["claim", "gpu-l40s", "gpu-gb202", "gpu-h100"]
    assert lines[1].split() == ["L40S", "GB202", "H100"]
    cells = {line.split()[0]: re.split(r" {2,}", line)[1:] for line in lines[3:7]}
    assert cells == {
        "modules-live": ["holds", "unknown", "-"],
        "nvlink-param": ["BROKEN", "not run", "-"],
        "node-joins": ["not run", "-", "-"],
        "passthrough": ["-", "-", "not established"],
    }
    assert "BROKEN  nvlink-param on gpu-l40s (L40S)\n    nvlink-param was seen to be" in text
    assert "not established  passthrough on gpu-h100 (H100)\n    the lab has no H100" in text
    assert "Claims: 1 broken, 1 unknown, 2 not run, 1 not established, 1 holds" in text
    assert "Scenarios: 3 planned, 1 reported, 2 missing" in text
    assert lines[-1] == "Ledger  out/ledger.jsonl"
    assert text.isascii() and max(map(len, lines)) <= 100


@pytest.mark.parametrize("substrate", Substrate)
def test_it_says_on_what_all_this_was_seen(written: Path, substrate: Substrate) -> None:
    last = render(summarise(read(written)), substrate=substrate).splitlines()[-1]
    assert last == f"Substrate: {substrate.value} ({IN_WORDS[substrate]})"
    assert "Substrate" not in render(summarise(read(written)))


def test_the_worst_comes_first_among_the_reasons(written: Path) -> None:
    text = render(summarise(read(written)))
    heads = [line.split("  ")[0] for line in text.splitlines() if " on gpu-" in line]
    assert heads == ["BROKEN", "unknown", "not run", "not run", "not established"]


def test_colour_only_paints_words(written: Path) -> None:
    summary = summarise(read(written))
    painted = render(summary, colour=True)
    assert painted != render(summary)
    assert re.sub(r"\033\[[\d;]*m", "", painted) == render(summary)


def test_many_pools_and_long_names_stay_within_the_log(
    tmp_path: Path, verdict: Callable[..., Verdict]
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        for number in range(9):
            pool = f"a-very-long-name-of-a-worker-pool-{number}"
            given = verdict(f"claim-{number}", "broken", "word " * 60 + "\n\x1b[31mred")
            ledger.verdict(given, scenario="s", pool=pool, at=0.0)
    text = render(summarise(read(tmp_path)))
    assert max(map(len, text.splitlines())) <= 100
    assert "\x1b" not in text
    for number in range(9):
        assert f"claim-{number} on a-very-long-name-of-a-worker-pool-{number}" in text


def test_what_no_pool_can_show_needs_no_column(
    tmp_path: Path, verdict: Callable[..., Verdict]
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.not_established("passthrough", "", "no pool has a card")
        ledger.verdict(verdict("node-joins"), scenario="s", pool="plain", at=0.0)
    lines = render(summarise(read(tmp_path))).splitlines()
    assert lines[0].split() == ["claim", "plain"]
    assert {tuple(line.split()) for line in lines[2:4]} == {
        ("node-joins", "holds"),
        ("passthrough", "not", "established"),
    }
    assert "not established  passthrough\n    no pool has a card" in "\n".join(lines)


def test_one_reason_is_told_once(tmp_path: Path, verdict: Callable[..., Verdict]) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        for pool, because in {"a": "same", "b": "other", "c": "same"}.items():
            ledger.verdict(verdict("x", "broken", because), scenario="s", pool=pool, at=0.0)
    text = render(summarise(read(tmp_path)))
    assert "BROKEN  x on a\nBROKEN  x on c\n    same\nBROKEN  x on b\n    other\n" in text


def test_only_what_no_pool_can_show_is_a_table_too(tmp_path: Path) -> None:
    with Ledger(tmp_path, "plan") as plan:
        plan.not_established("passthrough", "", "no pool has a card")
    lines = render(summarise(read(tmp_path))).splitlines()
    assert lines[0].split() == ["claim", "no", "pool"]
    assert lines[2].split() == ["passthrough", "not", "established"]


def test_nothing_planned_is_said(tmp_path: Path) -> None:
    Ledger(tmp_path, "plan").close()
    text = render(summarise(read(tmp_path)))
    assert text.startswith("No claim was planned and none was reported.")


@pytest.mark.parametrize("planned", [[], ["c"]], ids=["judges nothing", "silent"])
def test_missing_scenarios_and_unreadable_lines_are_told(
    tmp_path: Path, planned: list[str]
) -> None:
    with Ledger(tmp_path, "pool") as ledger:
        ledger.planned("vacuous", "p", planned)
    with ledger.path.open("a") as shard:
        shard.write("half")
    text = render(summarise(read(tmp_path)))
    assert ("judged nothing  vacuous on p" in text) == (not planned)
    assert "ended without a verdict" in text
    assert "unreadable line of the ledger\n    pool:3: not JSON: half" in text
