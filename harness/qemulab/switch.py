"""The wire between guests: a switch of unix datagram sockets that can cut, lose and delay.

Each guest's second network card is QEMU's ``dgram`` netdev: one frame a datagram, no address on
the host, either end may come and go. A direction is an ordered pair of ports; everything that can
be done to the wire is done to directions.

Nothing here blocks a guest: a frame that its receiver has no room for waits in a short line, and is
dropped and counted when the line is full, as in any switch. (The host's line of a datagram socket
is ten frames, ``net.unix.max_dgram_qlen``, which bursts of a resync overrun.)
"""

from __future__ import annotations

import fcntl
import random
import select
import socket
import struct
import termios
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.clock import Clock

LINE = 256
"""Frames that wait for one receiver before more are dropped."""

_LARGEST = 70 * 1024  # bytes: QEMU's NET_BUFSIZE is 4 KiB + 64 KiB
_BURST = 64  # frames taken from one port before the others are looked at
_ROOM = 4 * 1024 * 1024  # bytes asked for as a socket's buffer


@dataclass(frozen=True, slots=True)
class Port:
    """A place for one guest: ``ours`` is bound by the switch, ``theirs`` by QEMU; six-byte MAC."""

    name: str
    ours: Path
    theirs: Path
    mac: bytes


@dataclass(frozen=True, slots=True)
class Way:
    """What is done to the frames of one direction: ``lose`` a share, ``delay`` in seconds."""

    cut: bool = False
    lose: float = 0.0
    delay: float = 0.0


@dataclass(slots=True)
class Count:
    """What became of the frames of one direction."""

    passed: int = 0
    cut: int = 0
    lost: int = 0
    full: int = 0
    nobody: int = 0

    def told(self) -> dict[str, int]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class _Direction:
    way: Way
    chance: random.Random
    count: Count = field(default_factory=Count)
    # (due, frame); in order, for nothing overtakes on a wire
    late: deque[tuple[float, bytes]] = field(default_factory=deque)


class Switch:
    """Carries frames between ports from a thread of its own, from `start` to `close`.

    ``seed`` settles which frames are lost: the same frames in the same order, the same losses.
    """

    def __init__(self, ports: Sequence[Port], clock: Clock, *, seed: int = 1) -> None:
        self.ports = tuple(ports)
        self._clock = clock
        self._lock = threading.Lock()
        self._hushed = False
        self._stopped = False
        self._buffer = bytearray(_LARGEST)
        self._names = {port.mac: port.name for port in ports}
        self._in = {port.name: _bound(port.ours) for port in ports}
        self._out = {port.name: _Sender(port.theirs) for port in ports}
        self._by_fd = {line.fileno(): name for name, line in self._in.items()}
        self._directions = {
            (a.name, b.name): _Direction(Way(), random.Random(f"{seed} {a.name} {b.name}"))
            for a in ports
            for b in ports
            if a is not b
        }
        self._wake, self._woken = socket.socketpair()
        self._woken.setblocking(False)
        self._thread = threading.Thread(target=self._carry, name="switch", daemon=True)

    # -- any thread

    def start(self) -> None:
        """Begin to carry."""
        self._thread.start()

    def close(self) -> None:
        """Carry nothing more; the sockets' files stay for whoever owns their directory."""
        self._stopped = True
        self._nudge()
        if self._thread.ident is not None:
            self._thread.join(5.0)
        for sender in self._out.values():
            sender.close()
        for line in (*self._in.values(), self._wake, self._woken):
            line.close()

    def ways(self) -> dict[tuple[str, str], Way]:
        """What is done to each direction now."""
        with self._lock:
            return {pair: one.way for pair, one in self._directions.items()}

    def change(self, a: str, b: str, **what: Any) -> None:
        """Do something to the direction from a to b, leaving the rest; see `Way`."""
        with self._lock:
            one = self._directions[a, b]
            one.way = replace(one.way, **what)

    def restore(self, ways: Mapping[tuple[str, str], Way]) -> None:
        """Have exactly these in force; a direction not named is as new."""
        with self._lock:
            for pair, one in self._directions.items():
                one.way = ways.get(pair, Way())

    def counts(self) -> dict[tuple[str, str], dict[str, int]]:
        """What became of the frames of each direction so far."""
        with self._lock:
            return {pair: one.count.told() for pair, one in self._directions.items()}

    def hush(self) -> None:
        """Deliver nothing from now on, and forget what is on its way."""
        with self._lock:
            self._hushed = True
            self._forget()

    def quiet(self) -> bool:
        """Whether every frame that was delivered has been taken by its receiver."""
        with self._lock:
            return not any(line.unread() for line in self._out.values())

    def go_on(self) -> None:
        """Deliver again; what arrived in the meantime is forgotten."""
        with self._lock:
            self._forget()
            self._hushed = False

    # -- with the lock held

    def _forget(self) -> None:
        for line in self._in.values():
            while _receive(line, self._buffer):
                continue
        for one in self._directions.values():
            one.late.clear()
        for sender in self._out.values():
            sender.line.clear()

    # -- the carrying thread

    def _carry(self) -> None:
        poll = select.poll()
        for fd in (*self._by_fd, self._woken.fileno()):
            poll.register(fd, select.POLLIN)
        watched: set[int] = set()  # senders whose receiver had no room
        while not self._stopped:
            for fd, _ in poll.poll(self._until_due()):
                if fd in self._by_fd:
                    self._take(self._by_fd[fd])
                elif fd == self._woken.fileno():
                    _receive(self._woken, self._buffer)
            with self._lock:
                self._deliver_due()
                full = {s.fileno(): s for s in self._out.values() if s.flush()}
            for fd in watched - full.keys():
                poll.unregister(fd)
            for fd in full.keys() - watched:
                poll.register(fd, select.POLLOUT)
            watched = set(full)

    def _until_due(self) -> float | None:
        """Milliseconds until a delayed frame is due; None without any."""
        due = [one.late[0][0] for one in self._directions.values() if one.late]
        if not due:
            return None
        return max(0.0, min(due) - self._clock.monotonic()) * 1000

    def _take(self, name: str) -> None:
        """Take in what one port has, a burst at most."""
        line, view = self._in[name], memoryview(self._buffer)
        with self._lock:
            for _ in range(_BURST):
                size = _receive(line, self._buffer)
                if not size:
                    return
                if not self._hushed:
                    self._forward(name, view[:size])

    def _forward(self, name: str, frame: memoryview) -> None:
        known = self._names.get(bytes(frame[:6]))
        if known == name:
            return
        for port in self.ports:
            if port.name == known or (known is None and port.name != name):
                self._send(name, port.name, frame)

    def _send(self, a: str, b: str, frame: memoryview) -> None:
        one = self._directions[a, b]
        way = one.way
        if way.cut:
            one.count.cut += 1
        elif way.lose and one.chance.random() < way.lose:
            one.count.lost += 1
        elif way.delay or one.late:
            due = self._clock.monotonic() + way.delay
            if len(one.late) >= LINE * 16:
                one.count.full += 1
                return
            one.late.append((max(due, one.late[-1][0] if one.late else 0.0), bytes(frame)))
        else:
            self._out[b].send(frame, one.count)

    def _deliver_due(self) -> None:
        now = self._clock.monotonic()
        for (_, b), one in self._directions.items():
            while one.late and one.late[0][0] <= now:
                self._out[b].send(one.late.popleft()[1], one.count)

    def _nudge(self) -> None:
        try:
            self._wake.send(b"\0")
        except OSError:
            return  # it is closed, or has been nudged often enough


class _Sender:
    """The way to one guest: connected, so that poll tells when there is room."""

    def __init__(self, path: Path) -> None:
        self.line: deque[tuple[bytes, Count]] = deque()
        self._path = str(path)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.setblocking(False)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _ROOM)

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def unread(self) -> int:
        """Bytes that were sent and that the receiver has not taken in yet."""
        told = fcntl.ioctl(self._socket.fileno(), termios.TIOCOUTQ, b"\0\0\0\0")
        return int(struct.unpack("i", told)[0])

    def send(self, frame: memoryview | bytes, count: Count) -> None:
        """Deliver a frame, or put it in line, or drop it; counted either way."""
        if not self.line and self._deliver(frame, count):
            return
        if len(self.line) >= LINE:
            count.full += 1
        else:
            self.line.append((bytes(frame), count))

    def flush(self) -> bool:
        """Deliver what is in line as far as there is room; True where some is left."""
        while self.line and self._deliver(*self.line[0]):
            self.line.popleft()
        return bool(self.line)

    def _deliver(self, frame: memoryview | bytes, count: Count) -> bool:
        """False where there is no room; a frame for nobody is done with."""
        try:
            self._socket.send(frame)
        except BlockingIOError:
            return False
        except OSError:  # not connected yet, or to a QEMU that has ended
            return self._deliver_anew(frame, count)
        count.passed += 1
        return True

    def _deliver_anew(self, frame: memoryview | bytes, count: Count) -> bool:
        try:
            self._socket.connect(self._path)
            self._socket.send(frame)
        except BlockingIOError:
            return False
        except OSError:
            count.nobody += 1
        else:
            count.passed += 1
        return True


def _bound(path: Path) -> socket.socket:
    path.unlink(missing_ok=True)
    line = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    line.bind(str(path))
    line.setblocking(False)
    return line


def _receive(line: socket.socket, buffer: bytearray) -> int:
    """The size of the frame that was taken into the buffer; 0 without any."""
    try:
        return line.recv_into(buffer)
    except BlockingIOError:
        return 0
