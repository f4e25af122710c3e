"""What running a program in a container came to."""

from __future__ import annotations

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
