"""Whole new lines of files that somebody else writes."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from harness.live.tailing import Tails


def test_a_line_is_read_once_and_when_it_is_whole(tmp_path: Path) -> None:
    tails, file = Tails(tmp_path), tmp_path / "a.jsonl"
    assert list(tails.new()) == []
    file.write_text('{"n": 1}\n{"n": ')
    assert list(tails.new()) == [("a", {"n": 1})]
    assert list(tails.new()) == []
    with file.open("a") as more:
        more.write('2}\nno json\n[1]\n{"n": 3}\n')
    assert list(tails.new()) == [("a", {"n": 2}), ("a", {"n": 3})]


def test_a_file_that_cannot_be_read_is_tried_again(tmp_path: Path) -> None:
    tails, file = Tails(tmp_path), tmp_path / "a.jsonl"
    file.mkdir()
    assert list(tails.new()) == []
    file.rmdir()
    file.write_text('{"n": 1}\n')
    assert list(tails.new()) == [("a", {"n": 1})]


def test_a_folder_that_is_not_there_yet_has_nothing(tmp_path: Path) -> None:
    assert list(Tails(tmp_path / "later").new()) == []


@given(st.lists(st.binary(max_size=40), max_size=6))
def test_any_bytes_are_taken_as_they_come(pieces: list[bytes]) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        tails, file = Tails(Path(folder)), Path(folder) / "a.jsonl"
        for piece in pieces:
            with file.open("ab") as more:
                more.write(piece)
            assert all(isinstance(record, dict) for _, record in tails.new())
