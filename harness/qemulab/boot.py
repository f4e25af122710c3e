"""Waiting for a guest: its login prompt first, then SSH.

QEMU's forward takes a connection before the guest listens, so that an open port says nothing
(lab/qemu_drbd.md, QEMU command): the console says when it is worth trying.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from harness.qemulab.console_tail import readable
from harness.qemulab.errors import Unfit
from harness.reach.errors import Unreachable
from harness.reach.ssh import SshShell

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.reach.serial import SerialConsole
    from harness.reach.sshlogin import Machine

LIMIT = 300.0
"""Seconds that a boot may take in all; under TCG on two quiet cores it takes five."""
SILENCE = 120.0
"""Seconds without a word after which a guest that has shown no prompt is given up: the kernel boots
without one, and took 45 s on two cores that ten guests shared."""
LOGIN = 30.0
_SHOWN = 8  # lines of console in a message

_REFUSED = re.compile(rb"hil-start: modprobe ([^\r\n]+?) failed[\r\n]")
"""What hil-start writes into the kernel's log, and so on the console."""
_LINE = re.compile(rb"[^\s][^\r\n]*[\r\n]")
_PROMPT_OR_PANIC = re.compile(rb"(?P<prompt>login: )|Kernel panic - not syncing[^\r\n]*[\r\n]")


def wait_for_prompt(console: SerialConsole, clock: Clock, *, since: int = 0) -> None:
    """Wait for the login prompt. Raises Unfit, with the console's last lines, without one."""
    capture, deadline = console.capture, clock.deadline(LIMIT)
    while True:
        size = capture.size
        patience = clock.deadline(min(SILENCE, deadline.remaining()))
        found = capture.wait(_PROMPT_OR_PANIC, patience, since=since)
        if found is not None:
            if found.groups[0] is not None:
                return
            raise _not_up(console, "its kernel panicked")
        if capture.ending is not None:
            raise _not_up(console, "its emulator ended")
        if deadline.expired:
            raise _not_up(console, f"no login prompt in {LIMIT:g} s")
        if capture.size == size:
            raise _not_up(console, f"no login prompt, and silence for {SILENCE:g} s")


def modules_refused(console: bytes) -> list[str]:
    """Modules with their parameters that were asked for and could not be loaded, in that order."""
    return [" ".join(one.decode("utf-8", "replace").split()) for one in _REFUSED.findall(console)]


def wait_for_words(console: SerialConsole, clock: Clock) -> None:
    """Wait for the first line of whatever boots. Raises Unfit without one."""
    capture = console.capture
    if capture.wait(_LINE, clock.deadline(SILENCE), since=0) is None:
        ended = "its emulator ended" if capture.ending is not None else ""
        raise _not_up(console, ended or f"silence for {SILENCE:g} s: does it use a serial console?")


def log_in(machine: Machine, clock: Clock, console: SerialConsole | None = None) -> SshShell:
    """Log in to a guest whose prompt has been seen. sshd may be up a moment after the prompt: what
    is refused until then is tried again, in the open. Raises Unfit, or what `SshShell.open` does.
    """
    until = clock.monotonic() + LOGIN
    while True:
        try:
            return SshShell.open(machine, clock, timeout=max(1.0, until - clock.monotonic()))
        except Unreachable as error:
            if console is not None and console.ending is not None:
                raise _not_up(console, "its emulator ended") from error
            if clock.monotonic() >= until:
                if console is None:
                    raise
                raise _not_up(console, f"no SSH within {LOGIN:g} s: {error.saw}") from error
            clock.sleep(0.1, f"sshd of {machine.where}")


def _not_up(console: SerialConsole, why: str) -> Unfit:
    lines = readable(console.capture.text())[-_SHOWN:]
    shown = "".join(f"\n    {line}" for line in lines) or " none"
    saw = f"{why}; the last lines of its console:{shown}\nwhat to do"
    return Unfit(f"boot {console.name}", saw, "read them; is the kernel's command line right?")
