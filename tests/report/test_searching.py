"""Expressions that would never come to an end do, and all others find what `re` finds."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from harness.clock import WallClock
from harness.report.searching import SECONDS, search

HOPELESS = r"(a+)+$"


@pytest.mark.parametrize("pattern", [HOPELESS, r"(?:a|a)*$", r"(a|aa)+$"])
def test_whatever_would_never_end_is_given_up(pattern: str) -> None:
    assert search([(pattern, "a" * 50 + "!")]) == [None]


def test_a_group_that_comes_again_is_given_up_in_a_long_text() -> None:
    assert search([(r"(.+)\1x", "a" * 4000), (r"(.)\1", "abba")]) == [None, True]


def test_one_that_would_take_years_hides_none_of_the_others() -> None:
    began = WallClock().monotonic()
    pairs = [("a.*b.*c", "xaybzc"), (HOPELESS, "a" * 60 + "!"), (HOPELESS, "a"), ("a.*b+", "ba")]
    assert search(pairs) == [True, None, None, False]
    assert WallClock().monotonic() - began < SECONDS + 20


def test_what_repeats_little_is_not_searched_elsewhere() -> None:
    assert search([(r"after \d+ s", "after 40 s"), ("b", "a"), (r"^\d+$", "1" * 20_000)]) == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize("program", ["/no/such/python", "/bin/false", "/"])
def test_where_no_process_can_be_had_nothing_is_found_and_nothing_breaks(
    program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.executable", program)
    assert search([("(a|b)+c", "ac"), ("a", "a")]) == [None, True]


def test_a_python_that_does_not_know_its_own_program_searches_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("sys.executable", "")
    assert search([("(a|b)+c", "ac")]) == [True]


@settings(max_examples=8, deadline=None)
@given(texts=some.lists(some.text(some.characters(exclude_categories=())), max_size=20))
def test_texts_of_any_kind_come_through_whole(texts: list[str]) -> None:
    pattern = r"(?s)^a?.*\w+"
    found = [re.search(pattern, text) is not None for text in texts]
    assert search([(pattern, text) for text in texts]) == found
