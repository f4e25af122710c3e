"""QMP, QEMU's own protocol: JSON lines both ways over a socket (qemu-qmp-ref(7), QMP spec).

The socket is one end of a pair that QEMU was born with, so that there is no path to wait for, no
second client, and its end is QEMU's end.
"""

from __future__ import annotations

import json
import select
import socket
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.qemulab.errors import Unfit

if TYPE_CHECKING:
    from harness.clock import Clock

PATIENCE = 30.0
"""Real seconds within which QEMU must answer. A `savevm` of a large guest is the longest."""

_EVENTS = 200  # kept, the oldest dropped
_PIECE = 64 * 1024


class QmpEnded(Unfit):
    """The other end closed: QEMU has exited, or was killed."""


class QmpRefused(Unfit):
    """QEMU answered, and the answer was an error; ``saw`` has its sentence."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that QEMU told unasked: ``at`` its own epoch seconds, ``data`` as it came.

    RESET is no reboot: one reboot brings one to three of them (lab/qemu_drbd.md, Reboots).
    """

    name: str
    at: float
    data: dict[str, Any]


class Qmp:
    """One machine's monitor. Not for several threads at once. ``name`` is for messages."""

    def __init__(self, line: socket.socket, name: str, clock: Clock) -> None:
        self.name = name
        self.events: deque[Event] = deque(maxlen=_EVENTS)
        self._line = line
        self._clock = clock
        self._rest = b""
        self._count = 0

    def fileno(self) -> int:
        """The socket's, for whoever polls for events."""
        return self._line.fileno()

    def greet(self, patience: float = PATIENCE) -> None:
        """Take QEMU's greeting and leave its negotiation mode. Raises as `ask` does."""
        until = self._clock.monotonic() + patience
        while "QMP" not in self._message(f"start {self.name}", until):
            continue
        self.ask("qmp_capabilities", patience=patience)

    def ask(self, command: str, *, patience: float = PATIENCE, **arguments: Any) -> Any:
        """Have a command carried out; gives what it returns.

        Raises QmpRefused, QmpEnded, or Unfit when ``patience`` real seconds brought no answer.
        """
        tried = f"have the emulator of {self.name} do {command}"
        self._count += 1
        sent = {"execute": command, "arguments": arguments, "id": self._count}
        until = self._clock.monotonic() + patience
        self._send(json.dumps(sent).encode() + b"\n", tried)
        while True:
            told = self._message(tried, until)
            # an answer that came too late for an earlier question has that one's number
            if told.get("id") == self._count:
                break
        if "error" in told:
            said = str(told["error"].get("desc") or told["error"])
            raise QmpRefused(tried, repr(said), "see what state the machine is in")
        return told.get("return")

    def monitor(self, line: str, *, patience: float = PATIENCE) -> str:
        """One line to the human monitor; gives what it prints: its only way to complain."""
        return str(
            self.ask("human-monitor-command", patience=patience, **{"command-line": line})
        ).strip()

    def take_events(self) -> None:
        """Take in what has come unasked. Raises QmpEnded where the other end has closed."""
        tried = f"listen to the emulator of {self.name}"
        while True:
            while b"\n" in self._rest:
                self._take_line(tried)
            if not _readable(self._line, 0.0):
                return
            self._receive(tried)

    def close(self) -> None:
        """Let go of the socket; closing twice is fine."""
        self._line.close()

    def _message(self, tried: str, until: float) -> dict[str, Any]:
        """The next message that is no event."""
        while True:
            while b"\n" not in self._rest:
                left = until - self._clock.monotonic()
                if left <= 0 or not _readable(self._line, left):
                    raise Unfit(tried, "no answer in time", "look at what its host is busy with")
                self._receive(tried)
            told = self._take_line(tried)
            if told is not None:
                return told

    def _take_line(self, tried: str) -> dict[str, Any] | None:
        """One line of what has come; None where that was an event, which is kept."""
        line, _, self._rest = self._rest.partition(b"\n")
        try:
            told = json.loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise Unfit(tried, f"{line[:200]!r}, which is no QMP", "see that it is QEMU")
        if "event" not in told:
            return told
        self.events.append(_event(told))
        return None

    def _receive(self, tried: str) -> None:
        try:
            piece = self._line.recv(_PIECE)
        except OSError:
            piece = b""
        if not piece:
            raise _ended(tried)
        self._rest += piece

    def _send(self, data: bytes, tried: str) -> None:
        try:
            self._line.sendall(data)
        except OSError as error:
            raise _ended(tried) from error


def _event(told: dict[str, Any]) -> Event:
    stamp = told.get("timestamp") or {}
    at = float(stamp.get("seconds", 0)) + float(stamp.get("microseconds", 0)) / 1e6
    return Event(str(told["event"]), at, dict(told.get("data") or {}))


def _ended(tried: str) -> QmpEnded:
    return QmpEnded(tried, "that it has ended", "switch the machine on again")


def _readable(line: socket.socket, seconds: float) -> bool:
    poll = select.poll()
    try:
        poll.register(line.fileno(), select.POLLIN)
    except ValueError:
        return True  # it is closed: reading says so
    return bool(poll.poll(max(0.0, seconds) * 1000))
