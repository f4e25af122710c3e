from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.clock import Moment, VirtualClock, WallClock
from harness.reach.capture import WINDOW, Capture, How

START = 1767225600.0


class Events:
    """A lab in which something is done at each of some moments."""

    def __init__(self, *events: tuple[float, Callable[[], None]]) -> None:
        self.now = START
        self._events = list(events)

    def at(self, seconds: float, do: Callable[[], None]) -> None:
        self._events.append((START + seconds, do))

    def settle(self) -> Moment:
        return Moment(self.now, 1)

    def advance(self, until: float) -> Moment:
        self._events.sort(key=lambda event: event[0])
        if self._events and self._events[0][0] <= until:
            self.now, do = self._events.pop(0)
            do()
        else:
            self.now = until
        return Moment(self.now, 1)


def capture(keep: int = 1 << 20) -> Capture:
    return Capture(WallClock(), "console ns/vm", keep=keep)


@given(st.lists(st.binary(max_size=9)), st.integers(0, 60), st.integers(0, 20))
def test_nothing_is_lost_or_doubled(pieces: list[bytes], since: int, most: int) -> None:
    taken = capture()
    for piece in pieces:
        taken.add(piece)
    whole = b"".join(pieces)
    assert taken.text() == whole
    assert taken.text(since) == whole[since:]
    assert taken.read(since, most) == whole[since : since + most]
    assert (taken.size, taken.dropped) == (len(whole), 0)
    assert b"".join(piece.data for piece in taken.pieces()) == whole


@given(st.lists(st.binary(min_size=1, max_size=9)), st.integers(1, 30))
def test_memory_is_bounded_and_what_was_dropped_is_counted(pieces: list[bytes], keep: int) -> None:
    taken = capture(keep)
    for piece in pieces:
        taken.add(piece)
    whole = b"".join(pieces)
    assert taken.text() == whole[taken.dropped :]
    assert taken.size == len(whole)
    kept = taken.size - taken.dropped
    assert min(keep, len(whole)) <= kept < keep + 9
    if taken.dropped:
        with pytest.raises(IndexError, match=f"bytes 0 to {taken.dropped} were dropped"):
            taken.read(0, 5)


def test_each_byte_has_the_time_of_its_arrival() -> None:
    lab = Events()
    clock = VirtualClock(lab, patience=5)
    taken = Capture(clock, "c")
    other = threading.Thread(target=lambda: taken.add(b"first "))
    lab.at(5, lambda: other.start())
    clock.sleep(5)
    other.join(5)
    clock.sleep(7)
    taken.add(b"second")
    assert [piece.at - START for piece in taken.pieces()] == [5.0, 12.0]
    assert (taken.arrival(5) - START, taken.arrival(6) - START) == (5.0, 12.0)
    with pytest.raises(IndexError):
        taken.arrival(12)


def test_a_match_across_pieces_has_the_time_of_its_last_byte() -> None:
    lab = Events()
    clock = VirtualClock(lab, patience=5)
    late: list[bytes] = []
    taken: Capture

    def settle() -> None:
        while late:
            taken.add(late.pop(0))

    taken = Capture(clock, "c", settle=settle)
    lab.at(3, lambda: late.append(b"boot sequ"))
    lab.at(8, lambda: late.append(b"ence: failed\r\n"))
    found = taken.wait(re.compile(rb"sequence: (\w+)"), clock.deadline(60))
    assert found is not None
    assert (found.text, found.groups) == (b"sequence: failed", (b"failed",))
    assert (found.start, found.end, found.at - START) == (5, 21, 8.0)
    assert clock.now() - START == 8.0


def test_bytes_are_sought_as_they_stand() -> None:
    taken = capture()
    taken.add(b"axb a.b")
    found = taken.wait(b"a.b", taken._clock.deadline(0))
    assert found is not None
    assert found.start == 4


def test_what_came_before_an_offset_is_not_found() -> None:
    taken = capture()
    taken.add(b"login: ")
    clock = WallClock()
    assert taken.wait(b"login", clock.deadline(0), since=taken.size) is None
    taken.add(b"login: ")
    found = taken.wait(b"login", clock.deadline(0), since=7)
    assert found is not None
    assert found.start == 7


def test_a_match_as_long_as_the_window_is_found() -> None:
    taken = capture()
    clock = WallClock()
    text = b"<" + b"x" * (WINDOW - 2) + b">"
    taken.add(b"before" + text[:-1])
    threading.Timer(0.05, lambda: taken.add(text[-1:])).start()
    found = taken.wait(re.compile(rb"<x+>"), clock.deadline(5))
    assert found is not None
    assert len(found.text) == WINDOW


def test_a_deadline_gives_none_and_no_ending() -> None:
    taken = capture()
    assert taken.wait(b"x", WallClock().deadline(0.01)) is None
    assert taken.ending is None


def test_an_end_wakes_whoever_waits_and_says_how() -> None:
    taken = capture()
    taken.add(b"half a wo")
    threading.Timer(0.02, lambda: taken.end(How.BROKE, "the connection broke (reset)")).start()
    clock = WallClock()
    assert taken.wait(b"half a word", clock.deadline(30)) is None
    ending = taken.ending
    assert ending is not None
    assert (ending.how, ending.told, ending.size) == (How.BROKE, "the connection broke (reset)", 9)
    assert ending.early
    assert taken.wait_for_end(clock.deadline(0)) == ending


def test_what_came_with_the_end_is_found() -> None:
    taken = capture()

    def last_words() -> None:
        taken.add(b"Power down")
        taken.end(How.GONE, "the VMI is gone")

    threading.Timer(0.02, last_words).start()
    assert taken.wait(b"Power down", WallClock().deadline(30)) is not None


def test_only_the_first_end_counts() -> None:
    taken = capture()
    taken.end(How.OURS, "we closed it")
    taken.end(How.BROKE, "too late")
    assert taken.ending is not None
    assert (taken.ending.how, taken.ending.early) == (How.OURS, False)


def test_the_end_of_a_long_quiet_capture_is_told_by_the_deadline() -> None:
    assert capture().wait_for_end(WallClock().deadline(0.01)) is None


def test_who_waits_on_something_else_can_have_it_settled() -> None:
    asked: list[int] = []
    taken = Capture(WallClock(), "a", settle=lambda: asked.append(1))
    taken.settle()
    assert asked == [1]
