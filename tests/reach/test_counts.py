"""Counts over many objects: nothing holds of nothing, and the order of arrival is no matter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reach.conditions import phase
from harness.reach.counts import AllOf, AtLeast, Everyone, Gone
from harness.reach.history import Revision

STEPS = st.lists(
    st.tuples(st.sampled_from("abcde"), st.sampled_from(["Up", "Down", "gone"]), st.booleans()),
    max_size=30,
)


def pod(name: str, state: str, chosen: Any = True) -> Revision:
    meta = {"name": name, "namespace": "lab", "labels": {"chosen": str(chosen)}}
    change = "DELETED" if state == "gone" else "MODIFIED"
    return Revision.of(change, {"metadata": meta, "status": {"phase": state}}, 0.0, "event")


def is_chosen(revision: Revision) -> bool:
    return bool(revision.obj["metadata"]["labels"]["chosen"] == "True")


@settings(deadline=None)
@given(STEPS, st.integers(1, 4))
def test_counts_agree_with_counting_anew(steps: list[tuple[str, str, bool]], least: int) -> None:
    everyone = Everyone(phase("Up"), least, is_chosen)
    some = AtLeast(phase("Up"), least, is_chosen)
    both = AllOf(Everyone(phase("Up"), least, is_chosen), Gone("e"))
    none = Gone(where=is_chosen)
    tallies = (everyone, some, both, none)
    for tally in tallies:
        tally.begin()
    state: dict[str, tuple[str, bool]] = {}
    for name, what, chosen in steps:
        for tally in tallies:
            tally.take(pod(name, what, chosen))
        state.pop(name, None)
        if what != "gone":
            state[name] = what, chosen
        there = [phase for phase, chosen in state.values() if chosen]
        up = there.count("Up")
        assert everyone.holds() is (len(there) >= least and up == len(there))
        assert some.holds() is (up >= least)
        assert none.holds() is (not there)
        assert both.holds() is (everyone.holds() and "e" not in state)
        assert f"{up} of {len(there)} as wanted" in str(everyone)


def test_zero_are_never_all_ready() -> None:
    everyone = Everyone(phase("Up"), 1)
    everyone.begin()
    assert not everyone.holds()
    everyone.take(pod("a", "Up"))
    assert everyone.holds()
    everyone.take(pod("a", "gone"))
    assert not everyone.holds()


def test_begun_again_it_counts_anew() -> None:
    for tally in (
        Everyone(phase("Up"), 1),
        AtLeast(phase("Up"), 1),
        AllOf(AtLeast(phase("Up"), 1)),
    ):
        tally.begin()
        tally.take(pod("a", "Up"))
        tally.begin()
        assert not tally.holds()
    gone = Gone("a")
    gone.take(pod("a", "Up"))
    assert not gone.holds()
    gone.begin()
    assert gone.holds()


def test_a_count_says_how_it_stands() -> None:
    everyone = Everyone(phase("Up"), 9)
    gone = Gone("b", "lab")
    for name in "abcdefgh":
        everyone.take(pod(name, "Up" if name == "a" else "Down"))
        gone.take(pod(name, "Up"))
    said = (
        "1 of 8 as wanted, at least 9 expected (not: lab/b, lab/c, lab/d, lab/e, lab/f and 2 more)"
    )
    assert str(everyone) == said
    assert str(AllOf(gone, gone)) == "1 still there (lab/b); 1 still there (lab/b)"
    assert str(Gone("x")) == "0 still there"


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (Everyone, [phase("Up"), 0]),
        (AtLeast, [phase("Up"), -1]),
        (Everyone, [phase("Up"), True]),
        (Gone, []),
        (Gone, ["a", "lab", is_chosen]),
        (AllOf, []),
    ],
)
def test_a_callers_mistake_is_said_at_once(make: Callable[..., object], given: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"zero|a name, or|nothing"):
        make(*given)
