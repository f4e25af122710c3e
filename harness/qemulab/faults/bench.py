"""The guests as a fault finds them: logins, files, power and the wire."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.qemulab.boot import log_in, wait_for_prompt
from harness.qemulab.errors import Unfit

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.qemulab.lab import MiniLab
    from harness.reach.execs import Reply
    from harness.reach.serial import SerialConsole
    from harness.reach.ssh import SshShell

LIMIT = 120.0
"""Seconds of the runner's time for a command: a busy machine has guests of a tenth of its speed."""
LOOK = 0.5
_DETACHED = 'setsid sh -c "$1" </dev/null >/dev/null 2>&1 &'


@dataclass(slots=True)
class Bench:
    """One lab, for as long as a fault is being planted; each guest is logged in to once."""

    lab: MiniLab
    clock: Clock
    _shells: dict[str, SshShell] = field(default_factory=dict)

    @property
    def guests(self) -> tuple[str, ...]:
        """All guests, by name."""
        return tuple(self.lab.names)

    @property
    def pair(self) -> tuple[str, str]:
        """The two that replicate a disk. Raises Unfit where there are no two."""
        if len(self.guests) < 2:
            saw = f"only {', '.join(self.guests)}"
            raise Unfit("plant a fault of a replicated disk", saw, "start the lab with two guests")
        return self.guests[0], self.guests[1]

    def run(self, guest: str, *argv: str, fails: bool = False) -> str:
        """Run a command that must succeed; what it wrote. ``fails``: it may fail, and an answer is
        enough. Raises Unfit.
        """
        reply = self._shell(guest).run(argv, timeout=LIMIT)
        if reply.exit_code == 0 or (fails and reply.exit_code is not None):
            return reply.stdout.decode("utf-8", "replace")
        raise Unfit(f"plant a fault on {guest} ({' '.join(argv)})", _told(reply), "see its console")

    def sh(self, guest: str, script: str, *words: str) -> str:
        """Run a shell's script, which sees ``words`` as its arguments. Raises Unfit."""
        return self.run(guest, "sh", "-c", script, "sh", *words)

    def write(self, guest: str, path: str, text: str, *, program: bool = False) -> None:
        """Write a file and see it on the disk: a guest may lose its power next."""
        self.sh(guest, 'printf %s "$1" >"$2" && sync', text, path)
        if program:
            self.run(guest, "chmod", "755", path)

    def replace(self, guest: str, path: str, old: str, new: str) -> None:
        """Replace a text that is in a file. Raises Unfit where it is not: the image is another."""
        text = self.run(guest, "cat", path)
        if old not in text:
            saw = f"no {old!r} in {path}"
            raise Unfit(f"plant a fault on {guest}", saw, "see whether the image has changed")
        self.sh(guest, 'printf %s "$1" >"$2" && sync', text.replace(old, new), path)

    def leave_running(self, guest: str, script: str) -> None:
        """Start a script that goes on after the login has ended, for as long as the boot lasts."""
        self.sh(guest, _DETACHED, script)

    def uptime(self, guest: str) -> float:
        """Seconds of the guest's boot."""
        return float(self.run(guest, "cat", "/proc/uptime").split()[0])

    def reset(self, guest: str) -> None:
        """Press the reset button, and wait until the guest can be logged in to again."""
        self._let_go(guest)
        with self._console(guest) as console:
            since = console.capture.size
            self.lab.power(guest).reset()
            wait_for_prompt(console, self.clock, since=since)
            self._shells[guest] = log_in(self.lab.guest(guest).machine, self.clock, console)

    def until(self, guest: str, argv: tuple[str, ...], wanted: str, limit: float = LIMIT) -> None:
        """Wait until a command's output holds a text. Raises Unfit."""
        deadline, tried = self.clock.deadline(limit), f"bring {guest} to {wanted}"
        while wanted not in (said := self.run(guest, *argv, fails=True)):
            if deadline.expired:
                saw = f"{' '.join(said.split())[:200]!r} after {limit:g} s"
                raise Unfit(tried, saw, "see the guests' kernel logs")
            self.clock.sleep(LOOK, tried)

    def close(self) -> None:
        """Log out everywhere."""
        for guest in tuple(self._shells):
            self._let_go(guest)

    def _shell(self, guest: str) -> SshShell:
        if guest not in self._shells:
            self._shells[guest] = self.lab.shell(guest, self.clock)
        return self._shells[guest]

    def _let_go(self, guest: str) -> None:
        if guest in self._shells:
            self._shells.pop(guest).close()

    @contextmanager
    def _console(self, guest: str) -> Iterator[SerialConsole]:
        console = self.lab.console(guest, self.clock)
        try:
            yield console
        finally:
            console.close()


def _told(reply: Reply) -> str:
    words = " ".join((reply.stderr or reply.stdout).decode("utf-8", "replace").split())
    return reply.problem or f"exit {reply.exit_code}: {words[:300] or 'no word'}"
