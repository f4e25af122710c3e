"""What a process writes of itself."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from harness.live.record import Beat, Pen, Waiting, born_of, this_process


def lines(pen: Pen) -> list[dict[str, object]]:
    return [json.loads(line) for line in pen.path.read_text().splitlines()]


def test_each_line_is_a_record(tmp_path: Path) -> None:
    pen = Pen(tmp_path, "gw0")
    pen.process(this_process(1.0, "gw0", controls=False))
    pen.beat(Beat(2.0, 2.0, "plain", "test_x", 1.5, 100.0, True, Waiting("a node", 90.0, 300.0)))
    pen.say(3.0, 101.0, "a worker is ready")
    pen.close()
    who, beat, said = lines(pen)
    assert (who["pid"], who["controls"], who["schema"]) == (os.getpid(), False, "hil.progress/1")
    assert beat["waiting"] == {"what": "a node", "since": 90.0, "until": 300.0}
    assert said == {"record": "say", "at": 3.0, "lab": 101.0, "text": "a worker is ready"}


def test_no_secret_and_no_control_code_gets_there(tmp_path: Path) -> None:
    pen = Pen(tmp_path, "gw0")
    token = "abcdef.0123456789abcdef"
    pen.say(1.0, 1.0, f"joined with --token {token}\x1b[2J")
    pen.beat(Beat(1.0, 1.0, waiting=Waiting(f"password: hunter2-and-more {token}", 1.0, 2.0)))
    text = pen.path.read_text()
    assert token not in text
    assert "hunter2" not in text
    assert "\\u001b" not in text


def test_a_folder_that_refuses_stops_nobody(tmp_path: Path) -> None:
    (tmp_path / "progress").write_text("in the way")
    pen = Pen(tmp_path, "gw0")
    pen.say(1.0, 1.0, "one")
    pen.say(1.0, 1.0, "two")
    pen.close()


def test_a_process_is_told_from_a_later_one_of_its_number() -> None:
    assert born_of(os.getpid()) == this_process(0.0, "main", controls=True).born != ""
    ended = subprocess.Popen([sys.executable, "-c", "pass"])
    ended.wait()
    assert born_of(ended.pid) == ""
