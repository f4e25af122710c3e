from __future__ import annotations

import io
import os
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.clock import WallClock
from harness.reach.capture import Capture, How
from harness.reach.terminal import Left, Looking, look


class Line:
    """A console whose output a test writes."""

    def __init__(self) -> None:
        self.capture = Capture(WallClock(), "console n1")
        self.typed: list[bytes] = []

    @property
    def ending(self) -> Any:
        return self.capture.ending

    def send(self, data: bytes) -> None:
        self.typed.append(data)

    def close(self) -> None:
        self.capture.end(How.OURS, "we closed it")


@pytest.fixture
def screen() -> Iterator[tuple[int, int]]:
    """A pipe: where to read what was shown, and where to show it."""
    read, write = os.pipe()
    yield read, write
    os.close(read)
    os.close(write)


@pytest.fixture
def terminal() -> Iterator[tuple[int, int]]:
    """A person's end of a terminal, and the program's."""
    person, program = os.openpty()
    yield person, program
    os.close(person)
    os.close(program)


def shown(screen: tuple[int, int]) -> bytes:
    return os.read(screen[0], 1 << 16)


def test_a_text_ends_it_wherever_the_pieces_are_cut(screen: tuple[int, int]) -> None:
    line = Line()

    def talk() -> None:
        for piece in (b"boot seq", b"uence: do"):
            line.capture.add(piece)
            assert shown(screen) == piece
        line.capture.add(b"ne\r\nmore")

    thread = threading.Thread(target=talk)
    thread.start()
    way = Looking(screen[1], until=b"sequence: done", seconds=10)
    assert look(line, WallClock(), way) is Left.FOUND
    thread.join()
    assert shown(screen) == b"ne\r\nmore"


def test_what_was_printed_at_the_very_end_is_seen(screen: tuple[int, int]) -> None:
    line = Line()
    line.capture.add(b"panic")
    line.capture.end(How.GONE, "the VMI is gone")
    assert look(line, WallClock(), Looking(screen[1], until=b"panic")) is Left.FOUND


def test_time_is_up(screen: tuple[int, int]) -> None:
    assert look(Line(), WallClock(), Looking(screen[1], seconds=0.05)) is Left.OVER


def test_the_end_of_the_console_ends_it(screen: tuple[int, int]) -> None:
    line = Line()
    line.capture.add(b"last words")
    line.capture.end(How.TAKEN, "another client attached")
    assert look(line, WallClock(), Looking(screen[1])) is Left.ENDED
    assert shown(screen) == b"last words"


def test_every_byte_is_recorded(screen: tuple[int, int]) -> None:
    line, record = Line(), io.BytesIO()
    line.capture.add(b"\x1b[1mred\xff\r\n")
    line.capture.end(How.OURS, "done")
    look(line, WallClock(), Looking(screen[1], record=record))
    assert record.getvalue() == b"\x1b[1mred\xff\r\n"


def test_only_what_the_person_typed_is_sent(
    screen: tuple[int, int], terminal: tuple[int, int]
) -> None:
    line = Line()
    line.capture.add(b"login: ")

    def person() -> None:
        shown(screen)  # the keys are the program's from now on
        os.write(terminal[0], b"root\r\x1dnot this")

    thread = threading.Thread(target=person)
    thread.start()
    way = Looking(screen[1], keys=terminal[1], seconds=10)
    assert look(line, WallClock(), way) is Left.ESCAPE
    thread.join()
    assert b"".join(line.typed) == b"root\r"


def test_who_only_lets_go_has_typed_nothing(
    screen: tuple[int, int], terminal: tuple[int, int]
) -> None:
    line = Line()
    line.capture.add(b"login: ")

    def person() -> None:
        shown(screen)
        os.write(terminal[0], b"\x1d")

    thread = threading.Thread(target=person)
    thread.start()
    way = Looking(screen[1], keys=terminal[1], seconds=10)
    assert look(line, WallClock(), way) is Left.ESCAPE
    thread.join()
    assert line.typed == []


def test_without_a_key_nothing_is_sent(screen: tuple[int, int], terminal: tuple[int, int]) -> None:
    line = Line()
    way = Looking(screen[1], keys=terminal[1], seconds=0.2)
    assert look(line, WallClock(), way) is Left.OVER
    assert line.typed == []
