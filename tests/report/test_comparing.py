"""`hil compare`: what it takes, what it prints, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness import cli
from tests.report.runs import CLUSTER, Run


def ask(out: Path, *runs: str | Path, json_: bool = False) -> int:
    return cli.main(["compare", *map(str, runs), "--kept", str(out), *["--json"] * json_])


def test_two_that_are_alike_end_with_0(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("one", "two"):
        Run(tmp_path, CLUSTER, run_id=name).says("node-joins").end()
    assert ask(tmp_path, "one", "two") == 0
    said = capsys.readouterr().out
    assert said.startswith("before  one: lab lab-cluster, no lane, cluster\nafter   two: lab ")
    assert "Nothing differs." in said
    assert "Noise in times: a factor of 1.5 and at least 10 s" in said


def test_two_that_differ_end_with_1_and_say_how(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Run(tmp_path, CLUSTER, run_id="one").says("node-joins").says("uptime").end()
    Run(tmp_path, CLUSTER, run_id="two").says("node-joins", "broken", because="late").end()
    assert ask(tmp_path, "one", "two") == 1
    said = capsys.readouterr().out
    assert "WORSE     node-joins on p: holds -> broken\n            late\n" in said
    assert "claim     asked in one only, on p: uptime\n" in said
    assert "1 claims compared; other: 2 claims, 0 versions, 0 times" in said
    assert ask(tmp_path, "one", "two", json_=True) == 1
    shown = json.loads(capsys.readouterr().out)
    assert (shown["schema"], shown["different"]) == ("hil.comparison/1", True)
    assert shown["claims"][0]["worse"] is True


def test_earlier_runs_of_the_same_lab_and_lane_tell_the_noise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(1, 8):
        lane = "other" if number == 1 else "nightly"
        Run(tmp_path, CLUSTER, run_id=f"r{number}", ended=float(number), lane=lane).says("a").end()
    Run(tmp_path, CLUSTER, run_id="faulty", ended=3.5, lane="nightly", fault="x").says("a").end()
    (tmp_path / "r3" / "ledger.jsonl").unlink()  # killed: no measure of anything
    assert ask(tmp_path, "r6", "r7") == 0
    assert "3 spreads of 4 earlier runs of that lab and lane" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("runs", "says"),
    [(("one", "tow"), "did you mean 'two'?"), (("one", "one"), "one and the same")],
)
def test_mistakes_end_with_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], runs: tuple[str, str], says: str
) -> None:
    for name in ("one", "two"):
        Run(tmp_path, CLUSTER, run_id=name).says("node-joins").end()
    assert ask(tmp_path, *runs) == 2
    assert says in capsys.readouterr().err


def test_what_cannot_be_read_ends_with_3(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Run(tmp_path, CLUSTER, run_id="one").says("node-joins").end()
    two = Run(tmp_path, CLUSTER, run_id="two").says("node-joins").end()
    ledger = two / "ledger.jsonl"
    whole = ledger.read_text()
    ledger.write_text(whole.replace('"record": "fact"', '"record": "fac'))
    assert ask(tmp_path, one, two) == 3
    said = capsys.readouterr()
    assert "two: unreadable: pool-p:2: not JSON" in said.err and "claims compared" in said.out
    ledger.write_text(whole.replace("hil.ledger/1", "hil.ledger/2"))
    assert ask(tmp_path, one, two) == 3
    assert "hil.ledger/2" in capsys.readouterr().err
