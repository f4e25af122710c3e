from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from harness.inventory.suggest import choice, nearest


def test_the_nearest_word() -> None:
    assert nearest("schemtic", ["schematic", "schematics", "pools"]) == "schematic"
    assert nearest("STORAGECLASS", ["storageClass"]) == "storageClass"
    assert nearest("zzz", ["schematic"]) is None
    assert nearest("a", []) is None


def test_a_choice_offers_the_nearest_first_and_all() -> None:
    assert choice("pol", ["pool", "lane"]) == "pool, as the nearest; one of lane, pool"
    assert choice("zzz", ["pool", "lane"]) == "one of lane, pool"
    assert choice("zzz", ["pool"]) == "pool"
    assert choice("zzz", []).startswith("nothing")


@given(st.text(max_size=6), st.lists(st.text(max_size=6)))
def test_the_nearest_is_one_of_the_words(word: str, words: list[str]) -> None:
    assert nearest(word, words) in {None, *words}
