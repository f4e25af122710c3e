from __future__ import annotations

from typing import Any

import pytest

from harness.facts.defaultclass import MARKS, VIRT_MARK, default_class


def made(name: str, at: str = "2026-01-01T00:00:00Z", **marks: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "creationTimestamp": at, "annotations": marks}}


@pytest.mark.parametrize("mark", MARKS)
def test_either_spelling_counts(mark: str) -> None:
    assert default_class([made("a"), made("b", **{mark: "true"})]) == "b"
    assert default_class([made("a", **{mark: "false"})]) == ""


def test_of_several_the_newest_counts() -> None:
    old = made("old", "2025-01-01T00:00:00Z", **{MARKS[0]: "true"})
    new = made("new", "2026-01-01T00:00:00Z", **{MARKS[1]: "true"})
    assert default_class([new, old]) == default_class([old, new]) == "new"


def test_none_is_none() -> None:
    assert default_class([]) == ""
    assert default_class([made("a"), {"metadata": {"name": "b"}}]) == ""


def test_another_default_of_kubevirts_leaves_it_open() -> None:
    plain = made("plain", **{MARKS[0]: "true"})
    assert default_class([plain, made("virt", **{VIRT_MARK: "true"})]) == ""
    assert default_class([made("one", **{MARKS[0]: "true", VIRT_MARK: "true"})]) == "one"
