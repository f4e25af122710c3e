from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.reply import QUOTED, no_such_file, plain, quote


@pytest.mark.parametrize(
    ("dirty", "clean"),
    [
        ("\ufeffa\n", "a\n"),
        ("a\ufeff", "a\ufeff"),
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;a window\x07text", "text"),
        ("\x1b]0;a window\x1b\\text", "text"),
        ("\x1b[2K\x1b[1Gline", "line"),
        ("\x1b(Bplain", "plain"),
        ("a\r\nb\r\r\nc\rd", "a\nb\nc\nd"),
        ("", ""),
    ],
)
def test_what_a_terminal_leaves(dirty: str, clean: str) -> None:
    assert plain(dirty) == clean


@given(st.text())
def test_any_text_can_be_made_plain(text: str) -> None:
    assert "\r" not in plain(text)


@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc"])))
def test_plain_text_stays_as_it_is(text: str) -> None:
    assert plain(text) == text


@pytest.mark.parametrize(
    ("said", "is_so"),
    [
        ("cat: /run/cdi/nvidia.yaml: No such file or directory", True),
        ("cat: can't open '/run/cdi/nvidia.yaml': No such file or directory", True),
        ("cat: /run/cdi: No such file or directory", False),
        ("cat: /run/cdi/nvidia.yaml: Permission denied", False),
        ("", False),
    ],
)
def test_only_this_files_absence_counts(said: str, *, is_so: bool) -> None:
    assert no_such_file("/run/cdi/nvidia.yaml", said) is is_so


def test_a_long_text_is_quoted_with_its_length() -> None:
    assert quote("x" * QUOTED) == repr("x" * QUOTED)
    assert quote("x" * (QUOTED + 1)).endswith(f"({QUOTED + 1} characters)")
