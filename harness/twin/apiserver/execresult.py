"""What running a program in a container came to, or a program that is still running."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExecResult:
    """Streams and exit status of one program.

    ``error`` is set when the program could not be started at all: it is the runtime's or the
    kubelet's sentence, and ``exit_code`` then means nothing by itself. ``dropped`` is a connection
    that closes after the output without a word about how the program ended, as when a kubelet or a
    konnectivity agent goes away under it: whether and how it ended is not told.
    """

    stdout: bytes
    stderr: bytes
    exit_code: int
    error: str = ""
    dropped: bool = False


Heard = Callable[[bytes], None]
Ended = Callable[[ExecResult], None]


@dataclass(frozen=True, slots=True)
class Running:
    """A program that takes the lab's time.

    ``follow(heard, ended)`` hands over what it writes to its stdout, from its start on, and once
    how it ended, with what is left of its output; it returns how to listen no more.
    ``uninterruptible``: no signal ends it.
    """

    follow: Callable[[Heard, Ended], Callable[[], None]]
    uninterruptible: bool = False
