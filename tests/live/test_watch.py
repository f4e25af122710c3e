"""Following a run from another terminal."""

from __future__ import annotations

import io
import json
import os
import platform
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.judge.verdict import Outcome, Verdict
from harness.live.record import Pen, Process, this_process
from harness.live.signs import SILENT
from harness.live.watch import Follower, watch
from harness.report.ledger import Ledger
from harness.report.rundir import RunInfo

T = 1767225600.0


class Hands:
    """A clock that only sleeping moves; each sleep is one step of what happens meanwhile."""

    follows = False

    def __init__(self, *steps: Callable[[], object]) -> None:
        self.at = 0.0
        self.slept: list[float] = []
        self._steps = list(steps)

    def now(self) -> float:
        return T + self.at

    def monotonic(self) -> float:
        return self.at

    def sleep(self, seconds: float, what: str = "") -> None:
        self.slept.append(seconds)
        self.at += seconds
        if self._steps:
            self._steps.pop(0)()
        assert self.at < 1000, f"it waits for ever: {what}"


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that has begun and planned one scenario."""
    folder = tmp_path / "r1"
    folder.mkdir()
    info().write(folder / "run.json")
    with Ledger(folder, "plan") as plan:
        plan.planned("test_join", "plain", ["node-joins"])
    return folder


def info(**more: Any) -> RunInfo:
    return replace(RunInfo("r1", "twin", "nightly", T), **more)


def end(folder: Path, status: int = 0) -> None:
    info(ended=T + 9, exit=status).write(folder / "run.json")


def process(folder: Path, **more: Any) -> Pen:
    pen = Pen(folder, "main")
    who: Process = this_process(T, "main", controls=True)
    pen.process(replace(who, **more))
    return pen


def follow(folder: Path, *steps: Callable[[], object], as_json: bool = False) -> tuple[int, str]:
    stream = io.StringIO()
    follower = Follower(folder, Hands(*steps), stream, as_json=as_json)  # type: ignore[arg-type]
    return follower.follow(1.0), stream.getvalue()


def test_a_run_is_followed_to_its_end(run: Path) -> None:
    process(run)
    pool = Ledger(run, "pool-plain")

    def first() -> None:
        pool.begin("test_join", "plain", at=0.0)
        pool.note("bring-up", "asking for pool plain", at=T)

    def second() -> None:
        verdict = Verdict("node-joins", "pool plain", Outcome.BROKEN, "no worker joined")
        pool.verdict(verdict, scenario="test_join", pool="plain", at=T + 60)
        pool.end("test_join", "failed", pool="plain")
        end(run, 1)

    status, told = follow(run, first, second)
    assert status == 1
    assert told.splitlines() == [
        f"run r1 on lab twin, lane nightly: {run}",
        "--:--:--Z  plain  test_join begins",
        "00:00:00Z  plain  asking for pool plain",
        "00:01:00Z  plain  broken: node-joins on pool plain: no worker joined",
        "--:--:--Z  plain  test_join: failed",
        "1 of 1 scenarios ended, 1 broken",
        "run r1 ended with exit status 1",
    ]


def test_a_finished_run_is_told_and_that_is_all(run: Path) -> None:
    end(run, 0)
    status, told = follow(run)
    assert status == 0
    assert told.endswith("run r1 ended with exit status 0\n")


def test_a_run_whose_process_is_gone_is_dead(run: Path) -> None:
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    process(run, pid=ended.pid)
    status, told = follow(run)
    assert status == 1
    assert f"run r1 died: its process {ended.pid} is no more" in told
    assert f"`hil report {run}`" in told


def test_a_later_process_of_the_same_number_is_another(run: Path) -> None:
    process(run, born="1")
    assert "is no more" in follow(run)[1]


def test_a_process_on_another_machine_is_dead_when_it_is_silent(run: Path) -> None:
    pen = process(run, host=f"not-{platform.node()}")
    steps: list[Callable[[], object]] = [lambda: None] * 30
    steps += [lambda: pen.say(T, T, "still here")]
    stream = io.StringIO()
    hands = Hands(*steps)
    follower = Follower(run, hands, stream)  # type: ignore[arg-type]
    assert follower.follow(1.0) == 1
    assert f"on not-{platform.node()} has written nothing for" in stream.getvalue()
    assert SILENT + 30 <= hands.at <= SILENT + 35


def test_a_run_that_ended_between_two_looks_is_not_dead(run: Path) -> None:
    """Its process is gone because it ended."""
    process(run, born="1")
    follower = Follower(run, Hands(), io.StringIO())  # type: ignore[arg-type]
    dead = follower.dead

    def ends_meanwhile() -> str:
        end(run, 0)
        return dead()

    follower.dead = ends_meanwhile  # type: ignore[method-assign]
    assert follower.follow(1.0) == 0


def test_scripts_get_a_line_of_json_for_each_event(run: Path) -> None:
    process(run)
    with Ledger(run, "pool-plain") as pool:
        pool.begin("test_join", "plain", at=T)
        pool.wait("2 Ready workers", scenario="", pool="plain", since=T, until=T + 60)
    end(run, 0)
    status, told = follow(run, as_json=True)
    events = [json.loads(line) for line in told.splitlines()]
    assert status == 0
    assert [one["event"] for one in events] == ["run", "process", "begin", "wait", "ended"]
    assert events[-1]["exit"] == 0
    assert events[3]["what"] == "2 Ready workers"


def test_a_line_a_minute_where_there_is_no_terminal(run: Path) -> None:
    process(run)
    steps: list[Callable[[], object]] = [lambda: None] * 130
    _, told = follow(run, *steps, lambda: end(run))
    assert told.count("0 of 1 scenarios ended\n") == 3  # two minutes, and the end


def test_a_folder_that_is_slow_is_looked_at_less_often(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(run)
    hands = Hands(lambda: end(run))
    follower = Follower(run, hands, io.StringIO())  # type: ignore[arg-type]
    dead = follower.dead

    def slow() -> str:
        hands.at += 2.0
        return dead()

    monkeypatch.setattr(follower, "dead", slow)
    follower.follow(1.0)
    assert hands.slept == [10.0]


def test_the_newest_run_that_goes_on_is_the_one(
    tmp_path: Path, run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    process(run, born="1")
    assert watch("", out=tmp_path, as_json=False, every=1.0) == 2
    assert capsys.readouterr().err == (
        f"hil: no run goes on in {tmp_path}; the newest is r1: name it to see it\n"
    )
    assert watch("r1x", out=tmp_path, as_json=False, every=1.0) == 2
    assert "did you mean 'r1'?" in capsys.readouterr().err
    assert watch("r1", out=tmp_path, as_json=False, every=1.0) == 1


def test_what_a_run_wrote_cannot_take_over_the_terminal(run: Path) -> None:
    with Ledger(run, "pool-plain") as pool:
        pool.note("bring-up", "a\x1b]0;title\x07b", at=T)
    end(run)
    assert "\x1b" not in follow(run)[1]
    assert os.linesep.join(follow(run)[1].splitlines())
