"""Virtual time: order, bounds, cancelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.engine import EPOCH, Engine


@given(st.lists(st.integers(0, 50), max_size=30))
def test_things_happen_in_time_order_and_ties_in_the_order_asked(delays: list[int]) -> None:
    engine = Engine()
    done: list[tuple[int, int]] = []
    for index, delay in enumerate(delays):
        engine.after(delay, lambda d=delay, i=index: done.append((d, i)), "x")
    engine.run_until(EPOCH + 100)
    assert done == sorted((d, i) for i, d in enumerate(delays))


def test_nothing_past_the_bound_happens() -> None:
    engine = Engine()
    done: list[float] = []
    for delay in (1, 2, 3):
        engine.after(delay, lambda: done.append(engine.now - EPOCH), "x")
    assert engine.run_until(EPOCH + 2) == EPOCH + 2
    assert done == [1, 2]


def test_a_chain_of_zero_delays_belongs_to_one_moment() -> None:
    engine = Engine()
    done: list[int] = []

    def step() -> None:
        done.append(1)
        if len(done) < 5:
            engine.after(0, step, "again")

    engine.after(1, step, "first")
    engine.run_until(EPOCH + 10, stop=lambda: True)
    assert (len(done), engine.now) == (5, EPOCH + 1)


def test_a_cancelled_timer_neither_runs_nor_holds_time() -> None:
    engine = Engine()
    done: list[int] = []
    engine.after(1, lambda: done.append(1), "x").cancel()
    assert engine.next_time() is None
    engine.run_until(EPOCH + 5)
    assert done == []


def test_repeating_until_cancelled() -> None:
    engine = Engine()
    done: list[float] = []
    timer = engine.every(10, lambda: done.append(engine.now - EPOCH), "beat")
    engine.run_until(EPOCH + 35)
    timer.cancel()
    engine.run_until(EPOCH + 100)
    assert done == [10, 20, 30]


def test_an_interval_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="never lets time pass"):
        Engine().every(0, lambda: None, "x")
