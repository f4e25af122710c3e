"""A machine's serial port behind a unix socket, as QEMU offers one: the face of a console.

Facts (lab/qemu_drbd.md, Console), and what is done about each:

* A connected client that does not read freezes the guest after about 270 bytes. So a thread of
  this room's own takes in whatever comes, whether or not anybody looks at it.
* QEMU writes byte by byte, and one wake-up per byte costs ten times the work of a batch. So after
  each piece the thread pauses for `BATCH` seconds: 270 bytes each 20 ms are more than the port
  carries (about 10 KB/s).
* One client at a time: a second one connects and hears nothing. Nothing here can tell; ask the one
  who started the machine before attaching.
* There is no history: a capture begins where it attached. What was printed before is in the log
  file that QEMU keeps, where it was asked to.
* It stays attached through every kind of reboot and ends only when QEMU does: that is ``GONE``.
"""

from __future__ import annotations

import select
import socket
import threading
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING

from harness.reach.capture import KEEP, Capture, Ending, How
from harness.reach.errors import Unreachable

if TYPE_CHECKING:
    from pexpect.spawnbase import SpawnBase

    from harness.clock import Clock

BATCH = 0.02
"""Real seconds between two reads while a machine prints."""

_PIECE = 64 * 1024  # bytes asked for at once
_MOST = 1024 * 1024  # bytes taken in before the pause: more than QEMU can have in line
_CLOSING = 5.0


class SerialConsole:
    """An attached serial console. ``capture`` holds what it has printed; made by `attach`."""

    def __init__(self, line: socket.socket, clock: Clock, name: str, keep: int) -> None:
        self.name = name
        self.capture = Capture(clock, f"console {name}", keep=keep)
        self._clock = clock
        self._line = line
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._open = True
        self._typed: deque[bytes] = deque()
        self._wake, self._woken = socket.socketpair()
        self._wake.setblocking(False)
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._drain, name=self.capture.name, daemon=True)

    @classmethod
    def attach(cls, path: Path, clock: Clock, *, name: str = "", keep: int = KEEP) -> SerialConsole:
        """Attach to the socket at ``path``; ``name`` is how messages speak of the machine.

        Raises Unreachable where nobody listens there.
        """
        named = name or path.name
        line = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            line.connect(str(path))
        except OSError as error:
            line.close()
            saw = f"{error.strerror or error} at {path}"
            raise Unreachable(
                f"attach to the console of {named}", saw, "check that the machine is on"
            ) from error
        line.setblocking(False)
        made = cls(line, clock, named, keep)
        made._thread.start()
        return made

    @property
    def ending(self) -> Ending | None:
        """How it ended; None as long as it is attached."""
        return self.capture.ending

    @property
    def thread(self) -> int:
        """The draining thread's `threading.get_ident`, for those who measure what it costs."""
        return self._thread.ident or 0

    def send(self, data: bytes) -> None:
        """Type something: it is put in line and sent in order, soon.

        Raises Unreachable where the console is no longer attached.
        """
        ending = self.ending
        if ending is not None:
            tried = f"type on the console of {self.name}"
            raise Unreachable(tried, f"that it has ended: {ending.told}", "attach to it again")
        self._typed.append(data)
        self._nudge()

    def close(self) -> None:
        """Detach; the capture stays. Closing twice is fine."""
        self._stop.set()
        self._nudge()
        self._thread.join(_CLOSING)

    def expecting(self, *, timeout: float = 30.0, since: int | None = None) -> SpawnBase:
        """pexpect's face of this console; see `harness.reach.expecting`.

        ``timeout`` is the default for each expect, in seconds; ``since`` the offset to read from,
        by default what arrives from now on.
        """
        from harness.reach.expecting import Expecting

        start = self.capture.size if since is None else since
        return Expecting(self.capture, self.send, timeout=timeout, since=start)

    def _nudge(self) -> None:
        with self._lock:
            if self._open:
                try:
                    self._wake.send(b"\0")
                except BlockingIOError:
                    return  # it has been nudged often enough

    # -- the draining thread

    def _drain(self) -> None:
        try:
            how, told = self._carry()
            self.capture.end(how, told)
        finally:
            self.capture.end(How.BROKE, "the thread that captured it failed")
            with self._lock:
                self._open = False
                for one in (self._line, self._wake, self._woken):
                    one.close()

    def _carry(self) -> tuple[How, str]:
        """Carry bytes both ways until the end; says how it ended."""
        poll = select.poll()
        poll.register(self._woken.fileno(), select.POLLIN)
        while not self._stop.is_set():
            typing = select.POLLOUT if self._typed else 0
            poll.register(self._line.fileno(), select.POLLIN | typing)
            ready = dict(poll.poll())
            if self._woken.fileno() in ready:
                _empty(self._woken)
            heard = ready.get(self._line.fileno(), 0)
            if heard & select.POLLOUT:
                self._type()
            if heard & ~select.POLLOUT:
                if self._take_in():
                    return How.GONE, "the machine's end closed: its emulator has ended"
                self._clock.back_off(BATCH, self._stop)
        return How.OURS, "we closed it"

    def _take_in(self) -> bool:
        """Take in what is there, as one piece; True at the end."""
        pieces: list[bytes] = []
        over = False
        while not over and sum(map(len, pieces)) < _MOST:
            try:
                piece = self._line.recv(_PIECE)
            except BlockingIOError:
                break
            except ConnectionError:  # it was killed with something of ours unread
                piece = b""
            over = not piece
            pieces.append(piece)
        self.capture.add(b"".join(pieces))
        return over

    def _type(self) -> None:
        data = self._typed.popleft()
        try:
            sent = self._line.send(data)
        except BlockingIOError:
            sent = 0
        except ConnectionError:
            return  # the next read tells
        if sent < len(data):
            self._typed.appendleft(data[sent:])


def _empty(line: socket.socket) -> None:
    try:
        while line.recv(4096):
            continue
    except BlockingIOError:
        return
