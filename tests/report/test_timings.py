"""How long things took, and which differences are noise."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from harness.report.timings import moved, timings
from tests.report.releases import A, run

TIME = "2026-01-01T00:{:02}:{:02}Z"


def at(seconds: int) -> str:
    return TIME.format(seconds // 60, seconds % 60)


def join(seconds: float | None) -> dict[str, object]:
    return {"kind": "JoinTrack", "seconds": seconds}


def test_what_a_ledger_tells_is_named_and_the_longest_stands() -> None:
    phases = [{"phase": "Import", "seconds": 60.0}, {"phase": "Succeeded", "seconds": 900.0}]
    view = run(
        "r",
        {A: "holds"},
        facts=[join(100.0), join(170.0), join(None), {"kind": "DiskHistory", "phases": phases}],
        more=[
            {"record": "begin", "scenario": "scenarios/t.py::s", "pool": "gpu", "at": at(10)},
            {"record": "end", "scenario": "scenarios/t.py::s", "pool": "gpu", "at": at(75)},
            {"record": "wait", "pool": "gpu", "what": "Ready", "since": at(0), "until": at(5)},
            {"record": "wait", "pool": "gpu", "what": "Ready", "since": at(0), "until": at(9)},
            {"record": "wait", "pool": "gpu", "what": "cut", "since": at(0), "until": "soon"},
            {"record": "end", "scenario": "other", "pool": "gpu", "outcome": "passed"},
            # begun before there was a lab whose time could be told
            {"record": "begin", "scenario": "first", "pool": "gpu", "at": "1970-01-01T00:00:00Z"},
            {"record": "end", "scenario": "first", "pool": "gpu", "at": at(30)},
        ],
    ).view
    assert timings(view) == {
        "join of a worker on gpu": 170.0,
        "disk in Import on gpu": 60.0,
        "scenario s on gpu": 65.0,
        "wait for Ready on gpu": 9.0,
    }


@pytest.mark.parametrize(
    ("before", "after", "is_moved"),
    [(100.0, 149.0, False), (100.0, 151.0, True), (151.0, 100.0, True), (1.0, 10.9, False)],
)
def test_with_one_pair_a_factor_and_a_floor_decide(
    before: float, after: float, is_moved: object
) -> None:
    found = moved({"a": before}, {"a": after})
    assert bool(found) == is_moved
    if found:
        assert found[0].measure == "more than 1.5 times"


def test_earlier_runs_decide_by_their_spread() -> None:
    steady = [{"a": 100.0 + n} for n in range(5)]
    wild = [{"a": 100.0 + 40 * n} for n in range(5)]
    assert not moved({"a": 100.0}, {"a": 120.0})
    assert moved({"a": 100.0}, {"a": 120.0}, steady)[0].measure == (
        "5 earlier runs spread by 1.5 s around 102.0 s"
    )
    assert not moved({"a": 100.0}, {"a": 250.0}, wild)
    assert not moved({"a": 100.0}, {"a": 109.0}, steady)  # the floor
    assert not moved({"a": 100.0}, {"a": 120.0}, steady[:3])  # too few


def test_what_one_run_lacks_is_not_moved() -> None:
    assert not moved({"a": 1.0}, {"b": 1000.0})


TIMES = some.dictionaries(some.sampled_from("abc"), some.floats(0, 1e6), max_size=3)


@settings(max_examples=60, deadline=None)
@given(TIMES, TIMES, some.lists(TIMES, max_size=6))
def test_noise_is_the_same_both_ways(
    one: dict[str, float], other: dict[str, float], earlier: list[dict[str, float]]
) -> None:
    there, back = moved(one, other, earlier), moved(other, one, earlier)
    assert [item.name for item in there] == [item.name for item in back]
    assert not moved(one, one, earlier)
