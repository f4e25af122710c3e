"""What the controlling process tells: drawn anew on a terminal, a line a minute anywhere else."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import pytest

from harness.live import teller as module
from harness.live.record import Beat, Pen, Waiting
from harness.live.screen import Screen
from harness.live.teller import Teller

START = 1_000_000.0


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class Time:
    """A clock that is set by hand."""

    def __init__(self) -> None:
        self.at = START

    def now(self) -> float:
        return self.at


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> Time:
    time = Time()
    monkeypatch.setattr(module, "WallClock", lambda: time)
    monkeypatch.setenv("TERM", "xterm")
    return time


def working(run: Path, at: float = START, **more: Any) -> Pen:
    pen = Pen(run, "gw0")
    waiting = Waiting("2 Ready workers", 0.0, 600.0)
    pen.beat(Beat(at, at, "plain", "test_join", at, 0.0, True, waiting, **more))
    return pen


def test_what_is_said_is_told_at_once_with_the_labs_time(tmp_path: Path, time: Time) -> None:
    stream = io.StringIO()
    Pen(tmp_path, "gw0").say(time.at, 60.0, "worker w: ready")
    Teller(tmp_path, stream).look()
    assert stream.getvalue() == "00:01:00Z  worker w: ready\n"


def test_a_log_gets_one_line_a_minute_and_no_control_codes(tmp_path: Path, time: Time) -> None:
    stream = io.StringIO()
    teller = Teller(tmp_path, stream)
    working(tmp_path)
    for _ in range(1200):  # ten minutes
        time.at += 0.5
        teller.look()
    lines = stream.getvalue().splitlines()
    assert len(lines) == 10
    assert "plain: waits for 2 Ready workers, at most 9 min still, last sign 60 s ago" in lines[0]
    assert all(line.isprintable() for line in lines)


def test_a_terminal_is_drawn_anew(tmp_path: Path, time: Time) -> None:
    stream = Terminal()
    teller = Teller(tmp_path, stream)
    pen = working(tmp_path)
    for _ in range(2):
        time.at += 2
        teller.look()
    assert stream.getvalue().count("\x1b[2A\r\x1b[J") == 1
    pen.say(time.at, 1.0, "a line that stays")
    teller.stop()
    shown = stream.getvalue().rpartition("\x1b[J")[2]
    assert shown == "00:00:01Z  a line that stays\n", "and nothing of what was drawn"


def test_a_stall_is_told_once(tmp_path: Path, time: Time) -> None:
    stream = io.StringIO()
    teller = Teller(tmp_path, stream)
    working(tmp_path)
    for _ in range(40):
        time.at += 60
        teller.look()
    told = [line for line in stream.getvalue().splitlines() if "pool plain stalls" in line]
    assert len(told) == 1
    assert "nothing seen for 15 min" in told[0]


def test_no_line_of_a_terminal_is_wider_than_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    stream = Terminal()
    Screen(stream).tell([], ["x" * 500])
    assert max(map(len, stream.getvalue().splitlines())) < 100


@pytest.mark.parametrize("term", ["dumb", ""])
def test_a_terminal_that_cannot_move_is_a_log(monkeypatch: pytest.MonkeyPatch, term: str) -> None:
    monkeypatch.setenv("TERM", term)
    stream = Terminal()
    Screen(stream).tell(["a\x1b[2Jb"], ["below"])
    assert stream.getvalue() == "a\\x1b[2Jb\n"
    assert re.fullmatch(r"[ -~\n]*", stream.getvalue())
