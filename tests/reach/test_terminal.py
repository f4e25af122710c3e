from __future__ import annotations

import io
import os
import re
import termios
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.clock import WallClock
from harness.reach.capture import KEEP, Capture, How
from harness.reach.terminal import Left, Looking, NotRecorded, look


class Line:
    """A console whose output a test writes."""

    def __init__(self, keep: int = KEEP) -> None:
        self.capture = Capture(WallClock(), "console n1", keep=keep)
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


def test_what_was_dropped_before_it_was_shown_is_told(screen: tuple[int, int]) -> None:
    """A screen that stands still holds up no machine, and loses what is more than is kept."""
    line, record = Line(keep=4), io.BytesIO()
    for piece in (b"12345678", b"9abc", b"def"):
        line.capture.add(piece)
    line.capture.end(How.OURS, "done")
    assert look(line, WallClock(), Looking(screen[1], until=b"8", record=record)) is Left.ENDED
    assert shown(screen) == b"\r\n[8 bytes were not kept]\r\n9abcdef"
    assert record.getvalue() == b"\r\n[8 bytes were not kept]\r\n9abcdef"


def test_a_flood_is_shown_once_and_in_order(screen: tuple[int, int]) -> None:
    """What is dropped between two looks must not shift what the next one shows."""
    line, text = Line(keep=1 << 14), b"".join(b"%06d\n" % number for number in range(60_000))
    taken: list[bytes] = []

    def flood() -> None:
        for begin in range(0, len(text), 700):
            line.capture.add(text[begin : begin + 700])
        line.capture.end(How.OURS, "done")

    def read() -> None:
        while not (taken and taken[-1].endswith(b"059999\n")):
            taken.append(os.read(screen[0], 1 << 12))

    threads = [threading.Thread(target=one) for one in (flood, read)]
    for one in threads:
        one.start()
    assert look(line, WallClock(), Looking(screen[1])) is Left.ENDED
    for one in threads:
        one.join()
    at = 0
    for part in re.split(rb"\r\n(\[\d+ bytes were not kept\])\r\n", b"".join(taken)):
        lost = re.fullmatch(rb"\[(\d+) bytes were not kept\]", part)
        if lost is None:
            assert part == text[at : at + len(part)]
        at += int(lost[1]) if lost else len(part)
    assert at == len(text)


def test_characters_and_escapes_that_are_cut_come_as_they_were(screen: tuple[int, int]) -> None:
    line, text = Line(), "Größe \x1b[31m✓\x1b[0m".encode()
    for byte in text:
        line.capture.add(bytes([byte]))
    line.capture.end(How.OURS, "done")
    look(line, WallClock(), Looking(screen[1], until=b"none"))
    assert shown(screen) == text


def test_a_record_that_cannot_be_kept_ends_it_with_the_reason(screen: tuple[int, int]) -> None:
    line = Line()
    line.capture.add(b"words")
    with open("/dev/full", "wb", buffering=0) as full:  # noqa: PTH123 - a device
        way = Looking(screen[1], record=full)  # type: ignore[arg-type] # a file without a buffer
        with pytest.raises(NotRecorded, match="No space left"):
            look(line, WallClock(), way)


def test_a_terminal_that_hangs_up_lets_go(screen: tuple[int, int]) -> None:
    person, program = os.openpty()
    line = Line()
    line.capture.add(b"login: ")

    def hang_up() -> None:
        shown(screen)
        os.close(person)

    thread = threading.Thread(target=hang_up)
    thread.start()
    assert look(line, WallClock(), Looking(screen[1], keys=program, seconds=10)) is Left.ESCAPE
    thread.join()
    os.close(program)
    assert line.typed == []


def test_the_terminal_is_as_it_was_however_it_ended(
    screen: tuple[int, int], terminal: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = termios.tcgetattr(terminal[1])

    def interrupted(*_: Any) -> Any:
        assert termios.tcgetattr(terminal[1]) != before
        raise KeyboardInterrupt

    monkeypatch.setattr("select.select", interrupted)
    with pytest.raises(KeyboardInterrupt):
        look(Line(), WallClock(), Looking(screen[1], keys=terminal[1]))
    assert termios.tcgetattr(terminal[1]) == before
