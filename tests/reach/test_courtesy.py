from __future__ import annotations

import threading
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.reach.courtesy import Courtesy, courtesy_to


@dataclass
class Hands:
    """The runner's time, moved by hand; pauses pass at once."""

    at: float = 1000.0
    pauses: list[float] = field(default_factory=list)

    def monotonic(self) -> float:
        return self.at

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        self.pauses.append(seconds)
        self.at += seconds
        return stop.is_set()


@given(
    rate=st.floats(0.1, 500),
    burst=st.integers(1, 200),
    gaps=st.lists(st.floats(0, 3), min_size=1, max_size=300),
)
def test_no_window_ever_holds_more_than_burst_and_rate(
    rate: float, burst: int, gaps: list[float]
) -> None:
    clock = Hands()
    courtesy = Courtesy(rate, clock, burst=burst)
    went = []
    for gap in gaps:
        clock.at += gap
        courtesy.admit()
        went.append(clock.at)
    for first in range(len(went)):
        for last in range(first, len(went), 7):
            window = went[last] - went[first]
            assert last - first + 1 <= burst + rate * window + 1e-6 * (1 + rate * window)


@given(rate=st.floats(0.1, 500), gaps=st.lists(st.floats(0, 3), min_size=1, max_size=100))
def test_nobody_is_held_who_need_not_be(rate: float, gaps: list[float]) -> None:
    """However long a quiet while, one request fewer than a burst is never held after it."""
    clock = Hands()
    courtesy = Courtesy(rate, clock, burst=5)
    for gap in gaps:
        clock.at += gap
        courtesy.admit()
    clock.at += 5 / rate
    assert [courtesy.admit() for _ in range(4)] == [0.0] * 4


def test_each_is_told_how_long_it_was_held() -> None:
    clock = Hands()
    courtesy = Courtesy(10, clock, burst=2)
    held = [courtesy.admit() for _ in range(4)]
    assert held == pytest.approx([0, 0, 0.1, 0.1])
    assert clock.pauses == pytest.approx([0.1, 0.1])


def test_a_long_quiet_while_saves_up_no_more_than_a_burst() -> None:
    clock = Hands()
    courtesy = Courtesy(10, clock, burst=3)
    clock.at += 3600
    assert [courtesy.admit() for _ in range(4)] == pytest.approx([0, 0, 0, 0.1])


def test_who_comes_together_goes_one_after_the_other() -> None:
    """Threads reserve before they wait: three at one moment are held 0, 1 and 2 turns."""

    class Still(Hands):
        def back_off(self, seconds: float, stop: threading.Event) -> bool:
            self.pauses.append(seconds)
            return stop.is_set()

    clock = Still()
    courtesy = Courtesy(4, clock, burst=1)
    for _ in range(3):
        courtesy.admit()
    assert clock.pauses == pytest.approx([0.25, 0.5])


def test_many_threads_share_one_limit() -> None:
    class Counting(Hands):
        def back_off(self, seconds: float, stop: threading.Event) -> bool:
            self.pauses.append(seconds)
            return stop.is_set()

    clock = Counting()
    courtesy = Courtesy(10, clock, burst=20)
    threads = [
        threading.Thread(target=lambda: [courtesy.admit() for _ in range(10)]) for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert sorted(clock.pauses) == pytest.approx([n / 10 for n in range(1, 61)])


def test_no_limit_asks_nothing_of_the_clock() -> None:
    courtesy = Courtesy(0, None)  # type: ignore[arg-type] # what would be asked would fail
    assert [courtesy.admit() for _ in range(1000)] == [0.0] * 1000


def test_a_rate_below_zero_is_a_mistake() -> None:
    with pytest.raises(ValueError, match="-1"):
        Courtesy(-1, Hands())


@pytest.mark.parametrize(
    ("server", "named", "shares", "rate", "burst"),
    [
        ("https://lab.example:6443", None, 1, 50, 100),
        ("https://lab.example:6443", None, 4, 12.5, 25),
        ("https://lab.example:6443", 0, 1, 0, 1),
        ("https://lab.example:6443", 1, 8, 0.125, 1),
        ("https://127.0.0.1:6443", None, 1, 0, 1),
        ("https://[::1]:6443", None, 1, 0, 1),
        ("https://twin.localhost:6443", None, 1, 0, 1),
        ("https://127.0.0.1:6443", 5, 1, 5, 10),
    ],
)
def test_what_is_owed_to_whom(
    server: str, named: float | None, shares: int, rate: float, burst: float
) -> None:
    owed = courtesy_to(server, named, Hands(), shares=shares)
    assert (owed.rate, owed.burst) == (rate, burst)
