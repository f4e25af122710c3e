from __future__ import annotations

from collections.abc import Sequence

import pytest

from harness.clock import WallClock
from harness.facts.fact import Unread
from harness.facts.kernellog import KernelLog, What
from harness.observe.kernellog import console_log, kernel_log
from harness.reach.capture import Capture
from harness.reach.nodeshell import Reply

BANNER = b"[    0.000000] Linux version 6.1.0-57 (x) #1\r\n"
RESET = b"[   12.000000] sysrq: Resetting\r\n"


class Shell:
    where, root = "guest w1", ""

    def __init__(self, code: int | None = 0) -> None:
        self._code = code
        self.asked: list[tuple[list[str], float]] = []

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        self.asked.append((list(argv), timeout))
        return Reply(tuple(argv), self._code, BANNER, b"", 40.0, 42.0, "closed")

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        raise AssertionError("the host's own root has no dmesg")


def test_the_log_of_a_boot() -> None:
    shell = Shell()
    found = kernel_log(shell, "b1", timeout=7.0)
    assert isinstance(found, KernelLog)
    assert (found.boot_id, found.whole, found.origin.at) == ("b1", True, 42.0)
    assert found.origin.source == "guest w1: dmesg"
    assert shell.asked == [(["dmesg"], 7.0)]


def test_an_answer_that_broke_off_is_no_log() -> None:
    assert isinstance(kernel_log(Shell(None)), Unread)


class Ticking(WallClock):
    """Each look at the time is a second later."""

    def __init__(self) -> None:
        super().__init__()
        self.time = 0.0

    def now(self) -> float:
        self.time += 1.0
        return self.time


@pytest.mark.parametrize("keep", [10_000, 1])
@pytest.mark.parametrize("before", [b"", b"some words\r\n"])
def test_what_a_console_showed_has_the_time_at_which_it_came(before: bytes, keep: int) -> None:
    capture = Capture(Ticking(), "console w1", keep=keep)
    for piece in (before, RESET, BANNER):
        capture.add(piece)
    arrived = capture.arrival(capture.size - 1)
    found = console_log(capture, len(before), at=9.0, heard_from=0.5)
    kinds = [What.SYSRQ_RESET, What.BANNER] if keep > 1 else [What.BANNER]
    assert [one.what for one in found.events] == kinds, "what was dropped is not kept by anybody"
    assert found.events[-1].shown == arrived
    heard_from = 0.5 if keep > 1 else arrived
    assert (found.origin.source, found.heard_last) == ("console w1", arrived)
    assert found.heard_from == heard_from, "what was dropped was not heard"


def test_what_was_shown_before_an_offset_is_left_out() -> None:
    capture = Capture(WallClock(), "console w1")
    capture.add(RESET + BANNER)
    found = console_log(capture, len(RESET), at=9.0)
    assert [one.what for one in found.events] == [What.BANNER]
    assert console_log(capture, capture.size, at=9.0).events == ()


def test_a_flood_of_which_nothing_is_kept_was_not_heard() -> None:
    capture = Capture(Ticking(), "console w1", keep=1)
    for piece in (RESET, BANNER):
        capture.add(piece)
    kept = console_log(capture, capture.size, at=9.0, heard_from=0.5)
    assert kept.heard_from == 0.5, "nothing was dropped behind that place"
    assert console_log(capture, at=9.0).heard_from is None
