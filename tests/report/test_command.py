"""`hil equivalence`: which runs it takes, what it prints, how it ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness import cli
from harness.report import expected
from harness.report.expected import Expected
from harness.report.substrate import Substrate
from tests.report.runs import MINI, TWIN, Run, seen

BETWEEN = frozenset({Substrate.SIMULATED, Substrate.MINI_LAB})


@pytest.fixture(autouse=True)
def nothing_expected(monkeypatch: pytest.MonkeyPatch) -> list[Expected]:
    table: list[Expected] = []
    monkeypatch.setattr(expected, "load", lambda: tuple(table))
    return table


def ask(out: Path, *runs: str | Path, json_: bool = False) -> int:
    argv = ["equivalence", "--out", str(out), *map(str, runs), *(["--json"] if json_ else [])]
    return cli.main(argv)


def two(out: Path, right: str = "holds") -> list[Path]:
    twin = Run(out, TWIN).says("modules-live").lacks("uptime", "no lane has a soak")
    mini = Run(out, MINI).says("modules-live", right, because="nvidia is missing").says("uptime")
    return [twin.end(), mini.end()]


def test_the_latest_of_each_substrate_agree(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    two(tmp_path)
    assert ask(tmp_path) == 0
    said = capsys.readouterr().out
    assert said.startswith("simulated  run-twin: lab lab-twin\nmini-lab   run-qemu: lab lab-qemu\n")
    assert "modules-live  holds             holds\n" in said
    assert "asked on mini-lab only: uptime\n    simulated: no lane has a soak\n" in said
    assert said.endswith("\n1 claim compared, 0 differences, 0 expected\n")


@pytest.mark.parametrize("by", ["folder", "id"])
def test_outcomes_apart_end_with_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], by: str
) -> None:
    folders = two(tmp_path, "broken")
    named = folders if by == "folder" else [folder.name for folder in folders]
    assert ask(tmp_path, *named) == 1
    said = capsys.readouterr().out
    assert "modules-live  holds             BROKEN            differs\n" in said
    assert "DIFFERS: outcome of modules-live\n" in said
    assert "mini-lab  says  broken: nvidia is missing" in said


def test_shapes_apart_end_with_1_and_show_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Run(tmp_path, TWIN).says("modules-live", facts=[seen(raw="nvidia: loaded\n")]).end()
    Run(tmp_path, MINI).says("modules-live").end()
    assert ask(tmp_path) == 1
    said = capsys.readouterr().out
    assert "DIFFERS: text of Table (/proc/modules), behind modules-live\n" in said
    assert "simulated writes  nvidia: loaded\n" in said
    assert "mini-lab  writes  nvidia 16384 0 - Live" in said


def test_what_is_expected_is_shown_with_its_reason_and_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nothing_expected: list[Expected]
) -> None:
    entry = Expected(BETWEEN, ("outcome",), "8.4 knows no quorum.", claims=("modules-*",))
    nothing_expected.append(entry)
    two(tmp_path, "unknown")
    assert ask(tmp_path) == 0
    said = capsys.readouterr().out
    assert "expected: outcome of modules-live\n    8.4 knows no quorum.\n" in said
    assert "1 claim compared, 0 differences, 1 expected" in said


def test_an_expected_difference_that_is_none_any_more_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nothing_expected: list[Expected]
) -> None:
    nothing_expected.append(Expected(BETWEEN, ("outcome",), "It was so once."))
    two(tmp_path)
    assert ask(tmp_path) == 0
    said = " ".join(capsys.readouterr().out.split())
    assert (
        "no difference any more: outcome of * is expected for this reason: It was so once." in said
    )


def test_as_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    two(tmp_path, "broken")
    assert ask(tmp_path, json_=True) == 1
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert (told["schema"], told["agree"]) == ("hil.equivalence/1", False)
    assert [run["substrate"] for run in told["runs"]] == ["simulated", "mini-lab"]
    assert told["claims"][0]["outcomes"]["mini-lab"] == {
        "outcome": "broken",
        "pool": "p",
        "because": "nvidia is missing",
    }
    assert [one["what"] for one in told["differences"]] == ["outcome"]
    assert told["not_compared"][0]["whys"] == {"simulated": "no lane has a soak"}


@pytest.mark.parametrize(
    ("runs", "words"),
    [
        ([], "has runs of simulated, and two are needed"),
        (["run-twin"], "name two runs at least"),
        (["run-twin", "run-twin"], "name two runs at least"),
        (["run-twin", "run-twinn"], "no run of that name in {out}; did you mean 'run-twin'?"),
        (["run-twin", "/nowhere"], "/nowhere: no folder of a run"),
    ],
)
def test_a_mistake_in_what_was_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: list[str], words: str
) -> None:
    Run(tmp_path, TWIN).says("a").end()
    assert ask(tmp_path, *runs) == 2
    told = capsys.readouterr()
    assert told.out == "" and words.format(out=tmp_path) in told.err


def test_nothing_in_common_is_no_agreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = [Run(tmp_path, TWIN).says("a").end(), Run(tmp_path, MINI).says("b").end()]
    assert ask(tmp_path, *folders) == 2
    assert "no claim was put to two of run-twin and run-qemu" in capsys.readouterr().err


def test_no_run_at_all(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert ask(tmp_path / "gone") == 2
    assert "has runs of no substrate" in capsys.readouterr().err


@pytest.mark.parametrize("spoilt", ["run.json", "ledger.jsonl"])
def test_a_run_that_cannot_be_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], spoilt: str
) -> None:
    folders = two(tmp_path)
    text = '{"record": "header", "schema": "hil.ledger/9", "shard": "plan"}\n'
    merged = '{"record": "merged", "shards": [["plan", 1]], "absent": []}\n'
    (folders[0] / spoilt).write_text(f"{text}{merged}" if spoilt == "ledger.jsonl" else "{")
    assert ask(tmp_path, *folders) == 3
    told = capsys.readouterr()
    assert told.out == "" and told.err.startswith("hil: reading ")


def test_lines_that_cannot_be_read_are_no_agreement(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = two(tmp_path)
    (folders[1] / "ledger.jsonl").unlink()
    with (folders[1] / "ledger.d" / "pool-p.jsonl").open("a") as shard:
        shard.write("half a li")
    assert ask(tmp_path, *folders) == 3
    assert "1 line that is no record; the rest is compared" in capsys.readouterr().out


def test_a_planted_fault_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    twin = Run(tmp_path, TWIN, fault="no-modules-block", lane="soak").says("a").end()
    assert ask(tmp_path, twin, Run(tmp_path, MINI).says("a").end()) == 0
    assert "lab lab-twin, lane soak, with the fault no-modules-block\n" in capsys.readouterr().out


def test_no_line_is_longer_than_a_log_shows(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    twin = Run(tmp_path, TWIN).says("a", because="word " * 90, facts=[seen(raw="a: b! " * 40)])
    mini = Run(tmp_path, MINI).says("a", "broken", because="\x1b[31m" + "long " * 90)
    ask(tmp_path, twin.end(), mini.end())
    said = capsys.readouterr().out
    assert max(map(len, said.splitlines())) <= 100 and "\x1b" not in said
