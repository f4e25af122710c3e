"""One guest's QEMU: started, spoken to, killed, and found dead."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.qemulab.argv import NIC, PROGRAM, WIRE, arguments
from harness.qemulab.errors import Misnamed, Unfit
from harness.qemulab.ports import free_port
from harness.qemulab.qmp import Qmp, QmpEnded
from harness.qemulab.rundir import pid_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.clock import Clock
    from harness.qemulab.spec import GuestSpec, Spec

_STARTING = 30.0  # seconds until QEMU's greeting; it has loaded a snapshot by then
_DYING = 10.0
_PORTS = 5  # ports tried, where any will do
_QUOTED = 600  # characters of QEMU's own words


class PortTaken(Unfit):
    """Somebody else listens on the port that a guest's SSH was to have."""


KINDS: Mapping[str, type[Unfit]] = {"port": PortTaken, "name": Misnamed}
"""The errors that stay what they are on their way from a keeper to whoever asked it."""


class Guest:
    """One guest. ``off`` says why it is off; "" while its QEMU runs. For one thread."""

    def __init__(self, spec: Spec, guest: GuestSpec, clock: Clock) -> None:
        self.spec = guest
        self.port = guest.port
        self.carrier = True
        self.off = "not switched on yet"
        self.started = 0.0
        self.notes: list[str] = []
        self._lab = spec
        self._clock = clock
        self._child: subprocess.Popen[bytes] | None = None
        self._qmp: Qmp | None = None
        self._life: int | None = None
        self._said_before = 0
        self._settled = guest.named  # whether its port may change no more: somebody has been told
        self._pid_file = pid_file(spec.run, guest.name)

    @property
    def name(self) -> str:
        """The lab's name for it."""
        return self.spec.name

    @property
    def pid(self) -> int:
        """Of its QEMU; 0 while it is off."""
        return self._child.pid if self._child is not None else 0

    @property
    def life(self) -> int | None:
        """A descriptor that becomes readable when its QEMU ends; None while it is off."""
        return self._life

    @property
    def qmp(self) -> Qmp:
        """Its monitor. Raises Unfit while it is off."""
        if self._qmp is None:
            raise Unfit(f"reach {self.name}", f"that it is off ({self.off})", "switch it on first")
        return self._qmp

    def spawn(self, load: str = "") -> None:
        """Start its QEMU, which goes on by itself until `greet`. Raises Unfit without QEMU."""
        ours, theirs = socket.socketpair()
        log = self.spec.complaints
        self._said_before = log.stat().st_size if log.exists() else 0
        argv = arguments(self._lab, self.spec, self.port, theirs.fileno(), load)
        try:
            with log.open("ab") as complaints, theirs:
                self._child = launch(argv, theirs.fileno(), complaints.fileno())
        except OSError as error:
            ours.close()
            raise missing(error) from error
        self._pid_file.write_text(str(self._child.pid), encoding="ascii")
        self._life = os.pidfd_open(self._child.pid)
        self._qmp = Qmp(ours, self.name, self._clock)
        self.off = ""
        self.started = self._clock.now()

    def greet(self, load: str = "") -> None:
        """Wait for its QEMU to be there. Another port is tried, and noted, where any will do.

        Raises PortTaken, or Unfit with QEMU's own words; it is off then.
        """
        for left in reversed(range(_PORTS)):
            try:
                self.qmp.greet(_STARTING)
            except Unfit as error:
                self.kill("its emulator did not start")
                taken = _taken(self._words())
                if not taken:
                    raise self._failed(error) from error
                if self._settled or not left:
                    raise _port_taken(self.name, self.port) from error
                old, self.port = self.port, free_port()
                self.notes.append(f"port {old} was taken meanwhile; {self.name} has {self.port}")
                self.spawn(load)
            else:
                self._settled = True
                return

    def go(self) -> None:
        """Let it run, with the carrier it is to have."""
        self.show_carrier(self.carrier)
        self.qmp.ask("cont")

    def show_carrier(self, up: bool) -> None:  # noqa: FBT001 - the state itself
        """Give or take the carrier of the card on the private wire; kept while it is off."""
        self.carrier = up
        if not self.off:
            self.qmp.ask("set_link", name=NIC, up=up)

    def deafen(self) -> None:
        """Have QEMU drop all that comes over the wire, so that nothing waits for a later state."""
        self.qmp.ask("set_link", name=WIRE, up=False)

    def hear(self) -> None:
        """Undo `deafen`, and the carrier as it is to be."""
        self.qmp.ask("set_link", name=WIRE, up=True)
        self.show_carrier(self.carrier)

    def running(self) -> bool:
        """Whether its vCPU runs; one that has ended meanwhile is found out here."""
        if self.off:
            return False
        try:
            return bool(self.qmp.ask("query-status").get("running"))
        except QmpEnded:
            self.bury()
            return False

    def console_taken(self) -> bool:
        """Whether somebody is attached to its console. Raises Unfit while it is off."""
        chardevs = self.qmp.ask("query-chardev")
        told = next((str(c.get("filename")) for c in chardevs if c.get("label") == "con"), "")
        return not told.startswith("disconnected:")

    def has_died(self) -> bool:
        """Whether its QEMU has ended without having been told to."""
        return self._child is not None and self._child.poll() is not None

    def kill(self, why: str) -> None:
        """End its QEMU at once, as pulling the plug does; no error where it is off."""
        if self._child is None:
            return
        self._child.kill()
        self._child.wait(_DYING)
        self._let_go(why)

    def bury(self) -> None:
        """Its QEMU has ended by itself: find out why, and be off."""
        if self._child is None or self._qmp is None:
            return
        status = self._child.wait(_DYING)
        try:
            self._qmp.take_events()
        except QmpEnded:
            reasons = [e.data.get("reason") for e in self._qmp.events if e.name == "SHUTDOWN"]
        else:
            reasons = []
        if status == 0 and reasons:
            told = f"it went off by itself ({reasons[-1]})"
        else:
            words = self._words()
            told = f"its emulator {_ending(status)}" + (f": {words}" if words else "")
        self._let_go(told)

    def _let_go(self, why: str) -> None:
        self.off = why
        if self._qmp is not None:
            self._qmp.close()
        if self._life is not None:
            os.close(self._life)
        self._child = self._qmp = self._life = None
        self._pid_file.unlink(missing_ok=True)

    def _words(self) -> str:
        """What QEMU itself said since it was started, in one line."""
        with self.spec.complaints.open("rb") as log:
            log.seek(self._said_before)
            return " ".join(log.read()[-_QUOTED:].decode("utf-8", "replace").split())

    def _failed(self, error: Unfit) -> Unfit:
        saw = self._words() or error.saw
        return Unfit(f"start the emulator of {self.name}", saw, "see that QEMU 7.2 or newer runs")


def launch(argv: Sequence[str], monitor: int, complaints: int) -> subprocess.Popen[bytes]:
    """Start QEMU so that the kernel kills it when the calling thread's process ends.

    That is setpriv's doing (util-linux); QEMU 7.2 has no such option. Call it from a thread that
    lives as long as the process: the signal comes when the *thread* ends (prctl(2)).
    """
    return subprocess.Popen(
        [*tether(), *argv],
        stdin=subprocess.DEVNULL,
        stdout=complaints,
        stderr=complaints,
        pass_fds=(monitor,),
    )


def tether() -> tuple[str, ...]:
    """What goes before a command that must not outlive us; nothing where setpriv is missing."""
    found = shutil.which("setpriv")
    return (found, "--pdeathsig", "KILL", "--") if found else ()


def missing(error: OSError) -> Unfit:
    """The error for a QEMU that cannot be started at all."""
    saw = f"{error.strerror or error} ({PROGRAM})"
    return Unfit("start a guest", saw, "install Debian's qemu-system-x86")


def _ending(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with {status}"


def _taken(words: str) -> bool:
    return bool(re.search(r"Could not set up host forwarding rule", words))


def _port_taken(name: str, port: int) -> PortTaken:
    saw = f"that port {port} of 127.0.0.1 is taken"
    return PortTaken(f"give {name} a port for SSH", saw, "end what listens there, or name another")
