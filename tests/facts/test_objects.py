from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.objects import at_path, condition, epoch, listed, mapped, owned_by, text_at


def test_a_path_that_leads_nowhere_is_none() -> None:
    obj = {"a": [{"b": "c"}]}
    assert at_path(obj, "a", 0, "b") == "c"
    assert at_path(obj, "a", 1, "b") is None
    assert at_path(obj, "a", "b") is None
    assert (text_at(obj, "a"), listed(obj, "a", 0), mapped(obj, "a")) == ("", [], {})


def test_a_condition_by_type() -> None:
    obj = {"status": {"conditions": [{"type": "A", "status": "True"}]}}
    assert condition(obj, "A")["status"] == "True"
    assert condition(obj, "B") == {}


def test_an_owner_is_told_by_kind_and_uid() -> None:
    obj = {"metadata": {"ownerReferences": [{"kind": "VirtualMachine", "uid": "1"}]}}
    assert owned_by(obj, "VirtualMachine", "1")
    assert not owned_by(obj, "VirtualMachine", "2")
    assert not owned_by(obj, "Machine", "1")
    assert not owned_by({"metadata": {"ownerReferences": [{"kind": "M", "uid": ""}]}}, "M", "")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2026-01-01T00:00:00Z", 1767225600.0),
        ("2026-01-01T01:00:00.500000+01:00", 1767225600.5),
        ("2026-01-01T00:00:00", None),
        ("", None),
        ("soon", None),
    ],
)
def test_timestamps(text: str, expected: float | None) -> None:
    assert epoch(text) == expected


@given(st.text())
def test_any_text_is_a_moment_or_none(text: str) -> None:
    assert isinstance(epoch(text), float | None)
