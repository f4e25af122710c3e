"""A process says where it stands when that changes, and now and then all the same."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from harness.clock import WallClock
from harness.live import heart as module
from harness.live.heart import STILL, Heart, Stand
from harness.live.record import Pen


@pytest.fixture
def beats(tmp_path: Path) -> object:
    def read() -> list[dict[str, object]]:
        text = (tmp_path / "progress" / "gw0.jsonl").read_text()
        return [r for r in map(json.loads, text.splitlines()) if r["record"] == "beat"]

    return read


def test_only_what_changes_is_written(
    tmp_path: Path, beats: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = [1000.0]
    monkeypatch.setattr(WallClock, "now", lambda _: at[0])
    stand = [Stand()]
    heart = Heart(Pen(tmp_path, "gw0"), "gw0", lambda: stand[0], controls=False)
    for _ in range(30):
        heart.beat()
        at[0] += 1
    assert len(beats()) == 1 + int(29 // STILL)  # type: ignore[operator]
    stand[0] = Stand("plain", "test_x", 5.0)
    heart.beat()
    assert beats()[-1]["scenario"] == "test_x"  # type: ignore[operator]


def test_a_wait_of_the_labs_clock_is_seen_from_the_heart(tmp_path: Path, beats: object) -> None:
    clock = WallClock()
    heart = Heart(Pen(tmp_path, "gw0"), "gw0", lambda: Stand("p", clock=clock), controls=False)
    looked = threading.Event()

    def look() -> bool:
        if not looked.is_set():
            looked.set()
            other = threading.Thread(target=heart.beat)
            other.start()
            other.join()
        return True

    clock.wait(look, clock.deadline(60), "two Ready workers")
    waiting = beats()[-1]["waiting"]  # type: ignore[operator]
    assert waiting["what"] == "two Ready workers"
    assert waiting["until"] - waiting["since"] == pytest.approx(60, abs=0.5)
    heart.beat()
    assert beats()[-1]["waiting"] is None  # type: ignore[operator]


def test_seen_stands_still_while_nothing_happens(
    tmp_path: Path, beats: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = WallClock()
    at = [1000.0]
    monkeypatch.setattr(module.WallClock, "now", lambda _: at[0])
    heart = Heart(Pen(tmp_path, "gw0"), "gw0", lambda: Stand("p", clock=clock), controls=False)
    heart.beat()
    at[0] += STILL
    heart.beat()
    assert beats()[-1]["seen"] == 1000.0  # type: ignore[operator]
    clock.notify()
    at[0] += STILL
    heart.beat()
    assert beats()[-1]["seen"] == at[0]  # type: ignore[operator]


def test_it_beats_until_it_is_stopped(tmp_path: Path) -> None:
    heart = Heart(Pen(tmp_path, "gw0"), "gw0", Stand, controls=True)
    heart.start()
    heart.say(1.0, "hello")
    heart.stop()
    heart.stop()
    first, *_, last = (tmp_path / "progress" / "gw0.jsonl").read_text().splitlines()
    assert json.loads(first)["controls"] is True
    assert json.loads(last)["text"] == "hello"
