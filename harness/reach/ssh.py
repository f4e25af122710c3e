"""A shell on a machine over SSH: QEMU guests, hypervisor hosts.

SSH carries one line of text for a command, which the user's login shell reads. So the arguments
are quoted for a POSIX shell (``shlex.join``) and arrive one by one; a login shell of another kind
(fish, csh) may read them otherwise.

Nothing is retried and nothing reconnects by itself: a connection that ended is said in the reply's
``problem``, and `SshShell.reconnect`, the caller's decision, is noted in ``connections``. A machine
that was reset does not end its connections: its transport still calls itself active
(lab/qemu_drbd.md, Reboots). So every wait here has an end, the transport is kept alive, and the
kernel gives up on what is not acknowledged.
"""

from __future__ import annotations

import logging
import select
import shlex
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.reach.execs import Reply
from harness.reach.sshlogin import GARBLED, Machine, connect

if TYPE_CHECKING:
    from paramiko import Channel, Transport

    from harness.clock import Clock

__all__ = ["Connection", "Machine", "SshShell"]

_PIECE = 256 * 1024  # bytes taken from a stream at once
_LOG = "hil.ssh"
logging.getLogger(_LOG).addHandler(logging.NullHandler())  # paramiko prints its tracebacks else


@dataclass(frozen=True, slots=True)
class Connection:
    """A connection made: the lab's time, the host key that was accepted, the server's version.

    ``host_key`` is the key as a known_hosts file has it after the host: type and base64.
    """

    at: float
    fingerprint: str
    version: str
    host_key: str = ""


class SshShell:
    """Runs commands on one machine over one connection; commands may run at the same time.

    Made by `open`. A `harness.reach.nodeshell.NodeShell`: there is no container around it, so
    ``host`` is ``run`` and ``root`` is empty. OpenSSH allows 10 commands at a time on one
    connection (MaxSessions).
    """

    root = ""

    def __init__(self, machine: Machine, clock: Clock) -> None:
        self.machine = machine
        self.connections: list[Connection] = []
        self._clock = clock
        self._lock = threading.Lock()
        self._transports: list[Transport] = []

    @classmethod
    def open(cls, machine: Machine, clock: Clock, *, timeout: float = 30.0) -> SshShell:
        """Log in within ``timeout`` seconds of the runner's time.

        Raises Unreachable, HostKeyUnknown, HostKeyChanged, KeyUnusable or LoginRefused.
        """
        shell = cls(machine, clock)
        shell.reconnect(timeout=timeout)
        return shell

    @property
    def where(self) -> str:
        """The machine, as an origin's source names it."""
        return self.machine.where or f"machine {self.machine.host}"

    def run(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """Run a command, with the machine's prefix before it; the reply's ``argv`` has both.

        ``timeout`` is in seconds of the runner's time. Past it the reply holds what had come and
        no exit code; the command itself may run on, since SSH ends it for no one. A command that
        could not be started is a reply too: ``problem`` says so.
        """
        if not argv:
            raise ValueError("a command needs a name")
        running = _Running((*self.machine.prefix, *argv), self._clock, timeout)
        with self._channel(running) as channel:
            if channel is not None:
                running.take_in(channel)
                if running.problem and not channel.get_transport().is_active():
                    running.problem += f"; {_why_ended(channel.get_transport())}"
        return running.reply()

    def host(self, argv: Sequence[str], *, timeout: float = 30.0) -> Reply:
        """The same as `run`: there is nothing between it and the host's own root."""
        return self.run(argv, timeout=timeout)

    def alive(self, *, within: float = 5.0) -> bool:
        """Whether the machine answers on this connection within that many real seconds."""
        from paramiko import SSHException

        try:
            self._transports[-1].open_session(timeout=within).close()
        except (SSHException, *GARBLED):
            return False
        return True

    def reconnect(self, *, timeout: float = 30.0) -> Connection:
        """Log in anew, letting go of the connection there is. Raises as `open` does."""
        self.close()
        until = self._clock.monotonic() + timeout
        made = connect(self.machine, self._clock, until, _LOG)
        last = made[-1]
        key = last.get_remote_server_key()
        shown = f"{key.get_name()} {key.get_base64()}"
        connection = Connection(self._clock.now(), key.fingerprint, last.remote_version, shown)
        with self._lock:
            self._transports = made
            self.connections.append(connection)
        return connection

    def close(self) -> None:
        """Log out; closing twice is fine."""
        with self._lock:
            for transport in reversed(self._transports):
                transport.close()

    @contextmanager
    def _channel(self, running: _Running) -> Iterator[Channel | None]:
        """A channel on which the command has been started, or None with the problem said."""
        from paramiko import SSHException

        transport = self._transports[-1]
        channel = None
        try:
            channel = transport.open_session(timeout=running.left)
            running.start(channel)
        except (SSHException, *GARBLED) as error:
            running.problem = _not_started(transport, error)
            yield None
        else:
            yield channel
        finally:
            if channel is not None:
                _close(channel)


@dataclass(slots=True)
class _Running:
    """One command: what it was given, what has come of it."""

    argv: tuple[str, ...]
    clock: Clock
    timeout: float
    problem: str = ""
    exit_code: int | None = None
    stdout: list[bytes] = field(default_factory=list)
    stderr: list[bytes] = field(default_factory=list)
    started: float = 0.0
    until: float = 0.0
    line: str = ""

    def __post_init__(self) -> None:
        self.line = shlex.join(self.argv)  # what is no text is the caller's mistake, said at once
        self.started = self.clock.now()
        self.until = self.clock.monotonic() + self.timeout

    @property
    def left(self) -> float:
        """Seconds of the runner's time left, never below zero."""
        return max(0.0, self.until - self.clock.monotonic())

    def start(self, channel: Channel) -> None:
        """Ask for the command, and end its input. A guard ends the wait for the answer, which has
        no limit in paramiko."""
        guard = threading.Timer(self.left, _close, (channel,))
        guard.daemon = True
        guard.start()
        try:
            channel.exec_command(self.line)
            channel.shutdown_write()
        finally:
            guard.cancel()

    def take_in(self, channel: Channel) -> None:
        """Take in both streams to their ends, then the exit status, or what is wrong.

        Both from one thread: a stream that nobody drains uses up the window that they share.
        """
        poll = select.poll()
        poll.register(channel.fileno(), select.POLLIN)
        while True:
            over = channel.eof_received or channel.closed
            if self._take(channel):
                continue
            if over:
                break
            if self.left <= 0:
                break
            poll.poll(max(1, int(self.left * 1000)))
        self._conclude(channel)

    def _take(self, channel: Channel) -> bool:
        """One piece of each stream that has one; True where it is worth asking again."""
        out, err = channel.recv_ready(), channel.recv_stderr_ready()
        if out:
            self.stdout.append(channel.recv(_PIECE))
        if err:
            self.stderr.append(channel.recv_stderr(_PIECE))
        return (out or err) and self.left > 0

    def _conclude(self, channel: Channel) -> None:
        open_still = not (channel.eof_received or channel.closed)
        if not open_still:
            self.clock.back_off(self.left, channel.status_event)
        status = channel.exit_status if channel.exit_status_ready() else -1
        size = sum(map(len, self.stdout)) + sum(map(len, self.stderr))
        after = f"after {size} bytes of output"
        if status >= 0 and open_still:
            self.problem = f"{self.timeout:g} s passed: it ended with {status}, its output did not"
        elif status >= 0:
            self.exit_code = status
        elif channel.closed:
            # a server may tell of a signal; paramiko does not pass that on
            told = "the channel closed without an exit status (so it does after a signal)"
            self.problem = f"{told}, {after}"
        else:
            self.problem = f"{self.timeout:g} s passed without an exit status, {after}"

    def reply(self) -> Reply:
        """What it came to."""
        out, err, ended = b"".join(self.stdout), b"".join(self.stderr), self.clock.now()
        return Reply(self.argv, self.exit_code, out, err, self.started, ended, self.problem)


def _close(channel: Channel) -> None:
    from paramiko import SSHException

    with suppress(SSHException, *GARBLED):  # the goodbye cannot be sent on a dead line
        channel.close()


def _not_started(transport: Transport, error: Exception) -> str:
    if not transport.is_active():
        return f"not started: {_why_ended(transport)}"
    told = " ".join(str(error).split()) or type(error).__name__
    return f"not started: the machine gave no channel for it ({told})"


def _why_ended(transport: Transport) -> str:
    error = transport.get_exception()
    told = f" ({' '.join(str(error).split()) or type(error).__name__})" if error else ""
    return f"the SSH connection has ended{told}"
