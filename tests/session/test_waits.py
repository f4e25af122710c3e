from __future__ import annotations

import threading

import pytest

from harness.clock import WallClock
from harness.session.waits import TOLD_EVERY, Waits

Told = list[tuple[str, float, float]]


@pytest.fixture
def told() -> Told:
    return []


@pytest.fixture
def waits(told: Told) -> Waits:
    return Waits(lambda what, since, until: told.append((what, since, until)))


def test_slices_of_one_wait_are_one(waits: Waits, told: Told) -> None:
    for start in (0.0, 10.0, 21.0):
        waits.heard("the pool", start, start + 10)
    assert told == []
    waits.heard("a pod", 31.0, 32.0)
    assert told == [("the pool", 0.0, 31.0)]
    waits.flush()
    waits.flush()
    assert told[1:] == [("a pod", 31.0, 32.0)]


def test_a_long_one_is_told_as_it_goes(waits: Waits, told: Told) -> None:
    for start in range(0, 700, 100):
        waits.heard("the window", float(start), start + 100.0)
    assert told == [("the window", 0.0, 300.0), ("the window", 0.0, 600.0)]
    waits.flush()
    assert told[-1] == ("the window", 0.0, 700.0)
    assert TOLD_EVERY == 300


def test_the_same_again_much_later_is_another(waits: Waits, told: Told) -> None:
    waits.heard("a pod", 0.0, 1.0)
    waits.heard("a pod", 60.0, 61.0)
    waits.flush()
    assert told == [("a pod", 0.0, 1.0), ("a pod", 60.0, 61.0)]


def test_what_took_no_time_or_is_another_threads_is_not_told(waits: Waits, told: Told) -> None:
    waits.heard("a pod", 5.0, 5.0)
    other = threading.Thread(target=waits.heard, args=("a lease", 0.0, 10.0))
    other.start()
    other.join()
    waits.flush()
    assert told == []


def test_a_clock_tells_of_its_waits() -> None:
    clock = WallClock(offset=1000.0)
    heard: Told = []
    clock.waited = lambda what, since, until: heard.append((what, since, until))
    before = clock.now()
    assert clock.wait(lambda: True, clock.deadline(5), "a pod")
    ((what, since, until),) = heard
    assert what == "a pod"
    assert before <= since <= until <= clock.now()
