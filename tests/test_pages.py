from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness import pages

WORDS = st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=20)


def test_sentences_stand_in_one_column() -> None:
    text = pages.index({"a": "one " * 40, "longer": "two"})
    assert {line[:8].strip() for line in text.splitlines()} == {"a", "", "longer"}
    assert all(line[8] != " " for line in text.splitlines())


def test_a_field_without_text_is_left_out() -> None:
    assert pages.entry("x", {"what": "this", "source": ""}) == "x\n  what    this\n"


def test_nothing_to_list_is_nothing() -> None:
    assert pages.index({}) == ""


@given(st.dictionaries(WORDS, st.lists(WORDS, min_size=1, max_size=30), max_size=6))
def test_every_word_is_shown_within_the_width(entries: dict[str, list[str]]) -> None:
    given_words = {name: " ".join(words) for name, words in entries.items()}
    text = pages.index(given_words)
    assert text.split() == [
        word for name, words in given_words.items() for word in (name, *words.split())
    ]
    assert all(len(line) <= pages.WIDTH for line in text.splitlines())
