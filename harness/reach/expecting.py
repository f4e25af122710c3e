"""pexpect on a capture.

A subclass of pexpect's SpawnBase rather than fdpexpect on a socketpair: the socketpair would need a
second thread to fill it, would fill up and hold the capture back when nobody reads, and would lose
what was captured before. fdpexpect straight on the socket wakes for each byte and leaves the guest
undrained between two expects (lab/qemu_drbd.md, Console).

pexpect keeps its time-outs on real time; each read here waits through the clock. On virtual time
an expect therefore gives up after ``timeout`` seconds of the lab's time without output. To wait
for something at a moment of the lab's time use `harness.reach.capture.Capture.wait`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pexpect
from pexpect.spawnbase import SpawnBase

from harness.reach.capture import WINDOW, Capture

_MOST = 64 * 1024  # bytes taken over in one read
_PEXPECT: Any = pexpect  # it has no types


class Expecting(SpawnBase):
    """Reads a capture from an offset on; ``send`` types. Bytes only; ``logfile`` is not written.

    ``timeout`` None is refused: every wait has an end. What was dropped before it was read raises
    pexpect's ExceptionPexpect.
    """

    def __init__(
        self,
        capture: Capture,
        send: Callable[[bytes], None],
        *,
        timeout: float = 30.0,
        since: int = 0,
    ) -> None:
        begin: Callable[..., None] = super().__init__
        begin(timeout=timeout, maxread=_MOST, searchwindowsize=WINDOW)
        self.name = capture.name
        self.closed = False
        self.terminated = False
        # a float to mypy, but None is how pexpect is told not to sleep
        self.delayafterread = None  # type: ignore[assignment]
        self._capture = capture
        self._send = send
        self._read_to = since

    def read_nonblocking(self, size: int = 1, timeout: float | None = -1) -> bytes:
        """Some bytes. Raises pexpect.TIMEOUT without any, pexpect.EOF when the capture is over."""
        chosen = self.timeout if timeout == -1 else timeout
        if chosen is None:
            raise ValueError("an expect without a timeout may wait for ever: give one in seconds")
        if not self._capture.wait_for_more(self._read_to, max(chosen, 0.0)):
            ending = self._capture.ending
            if ending is None:
                raise _PEXPECT.TIMEOUT(f"{chosen:g} s without output on {self.name}")
            self.flag_eof = True
            raise _PEXPECT.EOF(f"{self.name} has ended: {ending.told}")
        try:
            data = self._capture.read(self._read_to, size)
        except IndexError as lost:
            raise _PEXPECT.ExceptionPexpect(str(lost)) from lost
        self._read_to += len(data)
        return data

    def send(self, s: bytes | str) -> int:
        """Type something, text as UTF-8; how many bytes that is."""
        data = s.encode() if isinstance(s, str) else s
        self._send(data)
        return len(data)

    def sendline(self, s: bytes | str = b"") -> int:
        """Type a line, ended by a carriage return, as the Enter key ends it."""
        return self.send((s.encode() if isinstance(s, str) else s) + b"\r")

    def isalive(self) -> bool:
        """Whether the capture goes on."""
        return self._capture.ending is None
