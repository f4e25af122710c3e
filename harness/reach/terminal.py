"""A person's terminal on a machine's console, or a script that only listens to one.

Keys go to the machine as they were typed and in no other way: nothing here types by itself. The
capture's own thread empties the line, so that a terminal which stands still holds up no machine.
All times are the runner's: the lab's own time is not moved by somebody who looks.
"""

from __future__ import annotations

import errno
import os
import select
import termios
import tty
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import BinaryIO, Protocol

from harness.clock import Clock
from harness.reach.capture import Capture, Ending

ESCAPE = b"\x1d"
"""Ctrl-], as in telnet, virsh and virtctl."""

_LOOK = 0.02  # seconds between two looks at what the machine has printed
_PIECE = 16 * 1024


class NotRecorded(Exception):
    """What a console printed could not be written to its record; the message says why."""


class Attached(Protocol):
    """A console that is attached: KubeVirt's, or a serial socket's."""

    capture: Capture

    @property
    def ending(self) -> Ending | None:
        """How it ended, None while it is attached."""

    def send(self, data: bytes) -> None:
        """Type something."""

    def close(self) -> None:
        """Detach."""


class Left(StrEnum):
    """Why somebody stopped looking."""

    ESCAPE = "escape"
    """The person let go, or has no keys any more."""
    FOUND = "found"
    """What was waited for came."""
    OVER = "over"
    """The time for it was over."""
    ENDED = "ended"
    """The console ended."""


@dataclass(frozen=True, slots=True)
class Looking:
    """How somebody looks: ``keys`` and ``screen`` are file descriptors, no keys for a script.

    ``until`` is a text to stop at, b"" for none; ``seconds`` the longest, None for no limit;
    ``record`` gets every byte as well.
    """

    screen: int
    keys: int | None = None
    until: bytes = b""
    seconds: float | None = None
    record: BinaryIO | None = None


def look(console: Attached, clock: Clock, way: Looking) -> Left:
    """Show a console until there is a reason to stop.

    Raises NotRecorded where the record cannot be kept, OSError where nobody looks any more.
    """
    if way.keys is None:
        return _Look(console, clock, way).run()
    with _raw(way.keys):
        return _Look(console, clock, way).run()


@contextmanager
def _raw(keys: int) -> Iterator[None]:
    before = termios.tcgetattr(keys)
    try:
        tty.setraw(keys)
        yield
    finally:
        with suppress(termios.error):  # it has hung up: there is nothing to put back
            termios.tcsetattr(keys, termios.TCSADRAIN, before)


class _Look:
    """One look; ``shown`` is the offset up to which the capture is on the screen."""

    def __init__(self, console: Attached, clock: Clock, way: Looking) -> None:
        self._console, self._way = console, way
        self._shown = 0
        self._last = b""  # as much of the end as a text that is waited for may begin in
        self._now: Callable[[], float] = clock.monotonic
        self._end = None if way.seconds is None else self._now() + way.seconds

    def run(self) -> Left:
        while True:
            ended = self._console.ending is not None  # asked first: what came before is shown
            if self._show():
                return Left.FOUND
            if ended:
                return Left.ENDED
            if self._end is not None and self._now() >= self._end:
                return Left.OVER
            if self._typed():
                return Left.ESCAPE

    def _show(self) -> bool:
        """Show what is new; whether the text that is waited for is there."""
        way = self._way
        first, text = self._console.capture.text_from(self._shown)
        lost, self._shown = first - self._shown, first + len(text)
        if lost:  # the screen stood still for too long while the machine went on
            self._last = b""
            self._pass_on(b"\r\n[%d bytes were not kept]\r\n" % lost)
        self._pass_on(text)
        if not way.until:
            return False
        seen = self._last + text
        self._last = seen[-(len(way.until) - 1) :] if len(way.until) > 1 else b""
        return way.until in seen

    def _pass_on(self, text: bytes) -> None:
        _write(self._way.screen, text)
        if self._way.record is not None:
            _keep(self._way.record, text)

    def _typed(self) -> bool:
        """Wait a moment for keys and pass them on; whether the person lets go."""
        keys = self._way.keys
        ready, _, _ = select.select([] if keys is None else [keys], [], [], _LOOK)
        if keys is None or not ready:
            return False
        typed = _read(keys)
        before, escape, _ = typed.partition(ESCAPE)
        if before and self._console.ending is None:
            self._console.send(before)
        return bool(escape) or not typed


def _read(keys: int) -> bytes:
    """What was typed; nothing from a terminal that has hung up."""
    try:
        return os.read(keys, _PIECE)
    except OSError as error:
        if error.errno == errno.EIO:
            return b""
        raise


def _keep(record: BinaryIO, text: bytes) -> None:
    left = memoryview(text)
    try:
        while left:
            left = left[record.write(left) :]
        record.flush()
    except OSError as error:
        raise NotRecorded(error.strerror or str(error)) from error


def _write(screen: int, text: bytes) -> None:
    while text:
        text = text[os.write(screen, text) :]
