from __future__ import annotations

import pytest

from bench.cloned_server import LONGEST, PHASES, SHORTEST, begins, lasts, name_of
from bench.clones import Watcher, _bound, _lengths, _spread


def test_phases_last_from_a_millisecond_to_a_minute_and_the_same_in_each_run() -> None:
    drawn = [seconds for number in range(1000) for seconds in lasts(number, 1)]
    assert len(drawn) == 1000 * (len(PHASES) - 1)
    assert SHORTEST <= min(drawn) < 0.002
    assert 50 < max(drawn) <= LONGEST
    assert lasts(7, 1) == lasts(7, 1) != lasts(7, 2)
    decade = [sum(low < one <= 10 * low for one in drawn) for low in (0.001, 0.01, 0.1, 1.0)]
    assert min(decade) > 0.7 * max(decade)


def test_they_begin_one_after_the_other_and_none_at_the_start() -> None:
    told = [begins(number, 10, 60.0) for number in range(10)]
    assert told == sorted(told)
    assert (told[0], told[-1]) == (6.0, 60.0)


@pytest.mark.parametrize(
    ("seconds", "bound"), [(0.001, 0.01), (0.01, 0.01), (0.011, 0.1), (1.0, 1.0), (59.0, 60.0)]
)
def test_each_length_counts_once(seconds: float, bound: float) -> None:
    assert _bound(seconds) == bound


def test_the_last_phase_counts_for_nobody() -> None:
    lengths = _lengths(3)
    assert len(lengths) == 3 * (len(PHASES) - 1)
    assert (name_of(0), PHASES[-1]) not in lengths


def test_the_spread_is_over_parts_of_the_clones() -> None:
    lengths = _lengths(20)
    everything, nothing = Watcher("a", set(lengths)), Watcher("b")
    assert _spread(everything, lengths, 20) == "100.0% to 100.0%"
    assert _spread(nothing, lengths, 20) == "0.0% to 0.0%"
    half = Watcher("c", {pair for pair in lengths if pair[0] in {name_of(0), name_of(10)}})
    assert _spread(half, lengths, 20) == "0.0% to 100.0%"
