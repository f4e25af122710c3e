"""Making a machine boot anew in every way that its lab has, and seeing what tells of it.

Written once for QEMU guests and cluster nodes: it needs a shell with a way back to it, a console
that stays attached, and where there is one the machine's power. After a hard reset a connection may
still call itself active (lab/qemu_drbd.md, Reboots), so every question has a limit, and the way
back is taken after each order.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.bringup.consoles import AttachedConsole
from harness.clock import Clock, Deadline
from harness.facts.boots import LOOK, BootLook, read_look
from harness.facts.fact import Origin, Unread
from harness.facts.kernellog import What
from harness.facts.reboots import (
    BannerDecoy,
    ConsoleHeard,
    RebootKind,
    RebootNotRun,
    Reboots,
    RebootTrial,
)
from harness.observe.guest import output_of
from harness.observe.kernellog import console_log
from harness.reach.errors import LabError
from harness.reach.execs import Reply
from harness.reach.nodeshell import NodeShell
from harness.reach.power import Power

ORDER_LIMIT = 3.0
"""Seconds of the runner's time for an order: one that is obeyed at once never answers."""
ASK_LIMIT = 10.0
"""Seconds of the runner's time for a question to a machine that may be gone, and for a login."""
PROMPT_LIMIT = 60.0
"""Seconds of the lab's time to wait for a login prompt before trying to log in all the same."""
AGAIN = 1.0
"""Seconds between two tries to reach the machine again."""
STEADY = 3.0
"""Seconds after the first look at a new boot at which it is looked at once more."""
PANIC_SECONDS = 1
"""What kernel.panic is set to: seconds that a kernel stands still after a panic."""

_PANIC_FILE = "/proc/sys/kernel/panic"


def _written(text: str, path: str) -> tuple[str, ...]:
    """A shell line, for no program without one writes a given text to a file without an input."""
    return ("sh", "-c", f"echo {text} > {path}")


SYSRQ_BOOT = _written("b", "/proc/sysrq-trigger")
SYSRQ_CRASH = _written("c", "/proc/sysrq-trigger")
SET_PANIC = _written(str(PANIC_SECONDS), _PANIC_FILE)
SHOW_PANIC = ("cat", _PANIC_FILE)
SET_NMI = _written("1", "/proc/sys/kernel/unknown_nmi_panic")
PRINT_LOG = ("sh", "-c", "dmesg > /dev/ttyS0")
"""What prints the kernel's log on the console. A shell line, for nothing else redirects."""
PRINT_LIMIT = 60.0
"""Seconds of the runner's time for that: a serial line carries about 10 KB/s."""
QUIET = 1.0
"""Seconds without a byte after which a console has printed what it had."""

_BANNER = re.compile(rb"Linux version \d")


@dataclass(frozen=True, slots=True)
class RebootBench:
    """A machine to be made to boot anew.

    ``login()`` is the shell on it as it stands; ``come_back(seconds)`` gives one that is good after
    the machine went down, within so many seconds of the runner's time, or raises LabError;
    ``attach()`` attaches to its console. ``inside`` is the command by which its own system
    reboots, empty where it has none. ``prompt`` is what its console shows when a login is worth
    trying, empty where there is nothing of the kind: a hint, without which it is tried as well, for
    the way in may accept long before anybody listens (lab/qemu_drbd.md). ``budget`` is how long one
    reboot may take and ``again`` how long to wait between two tries, in seconds of the lab's time.
    ``renew`` is called all along.
    """

    where: str
    clock: Clock
    login: Callable[[], NodeShell]
    come_back: Callable[[float], NodeShell]
    attach: Callable[[], AttachedConsole]
    power: Power | None = None
    inside: tuple[str, ...] = ()
    prompt: bytes = b""
    budget: float = 180.0
    again: float = AGAIN
    renew: Callable[[], object] = lambda: None


class CannotBeOrdered(Exception):
    """This lab has no way to bring about this kind of reboot; the message says why."""


def try_reboots(bench: RebootBench) -> Reboots:
    """The decoy, then each kind of reboot; one console connection is held over all of them.

    Raises LabError where there is no console to attach to, or no shell to begin with.
    """
    console = bench.attach()
    try:
        bench_of = _Trials(bench, console)
        decoy = bench_of.decoy()
        return Reboots(decoy, tuple(bench_of.trial(kind) for kind in RebootKind))
    finally:
        console.close()


@dataclass(slots=True)
class _Trials:
    """The trials on one machine, with its console attached."""

    bench: RebootBench
    console: AttachedConsole

    def decoy(self) -> BannerDecoy | Unread:
        """Print the kernel's log on the console, and look at the boot before and after it."""
        shell, since, began = self.bench.login(), self.console.capture.size, self._now()
        before = self._look(shell)
        printed = shell.run(PRINT_LOG, timeout=PRINT_LIMIT)
        self._listen_until_quiet(since)
        after = self._look(shell)
        if isinstance(before, Unread):
            return before
        if isinstance(after, Unread):
            return after
        looks = (before, after)
        origin = self._origin("the log printed on its console", looks, since)
        heard, ended_well = self._heard(since, began), printed.exit_code == 0
        return BannerDecoy(origin, looks, heard, ended_well, _told(printed))

    def trial(self, kind: RebootKind) -> RebootTrial | RebootNotRun | Unread:
        """Order one reboot, and see what becomes of it."""
        found = self._first_look(kind)
        if isinstance(found, Unread):
            return found
        shell, before = found
        since, ordered = self.console.capture.size, self._now()
        try:
            said = self._order(kind, shell)
        except CannotBeOrdered as cannot:
            origin = Origin(ordered, f"{self.bench.where}: reboot by {kind}", "")
            return RebootNotRun(origin, kind, str(cannot))
        except LabError as error:
            return self._nobody(kind, str(error))
        return self._follow(kind, before, since, ordered, said)

    # -- ordering

    def _order(self, kind: RebootKind, shell: NodeShell) -> str:
        """Give the order; what came back. Raises CannotBeOrdered."""
        if kind is RebootKind.INSIDE:
            if not self.bench.inside:
                raise CannotBeOrdered("its system has no command to reboot itself by")
            return _given(shell, self.bench.inside)
        if kind is RebootKind.SYSRQ:
            return _given(shell, SYSRQ_BOOT)
        if kind is RebootKind.PANIC:
            _set_panic(shell)
            return _given(shell, SYSRQ_CRASH)
        power = self.bench.power
        if power is None:
            raise CannotBeOrdered("the lab has no hold of the machine's power")
        if kind is RebootKind.RESET:
            return _pressed(power.reset)
        _set_panic(shell)
        _set(shell, SET_NMI)
        return _pressed(power.nmi)

    # -- seeing

    def _first_look(self, kind: RebootKind) -> tuple[NodeShell, BootLook] | Unread:
        """The shell and the boot before the order.

        A machine that has not come back from the last one is reset, where the lab can: what another
        kind left behind is not to be held against this one.
        """
        look = self._try(self.bench.login)
        if isinstance(look, str):
            look = self._try(self._back)
        power = self.bench.power
        if isinstance(look, str) and power is not None:
            try:
                power.reset()
            except LabError as error:
                return self._nobody(kind, f"{look}; {error}")
            look = self._answer(self.bench.clock.deadline(self.bench.budget))
        if isinstance(look, str):
            return self._nobody(kind, look)
        return self.bench.login(), look

    def _follow(
        self, kind: RebootKind, before: BootLook, since: int, ordered: float, said: str
    ) -> RebootTrial | Unread:
        deadline = self.bench.clock.deadline(self.bench.budget)
        if self.bench.prompt:
            limit = self.bench.clock.deadline(min(PROMPT_LIMIT, self.bench.budget))
            self.console.capture.wait(self.bench.prompt, limit, since=since)
        old, new = self._another_boot(before, deadline)
        seconds, later = None, None
        if isinstance(new, BootLook):
            seconds = new.at - ordered
            self._pause(STEADY)
            later = self._still(deadline)
        elif old is None:
            return self._nobody(kind, new)
        else:
            said = f"{said}; {new}"
        looks = tuple(one for one in (before, old, new, later) if isinstance(one, BootLook))
        waited = self._now() - ordered
        origin = self._origin(f"reboot by {kind}", looks, since)
        heard = self._heard(since, ordered)
        return RebootTrial(origin, kind, ordered, looks, heard, seconds, waited, said)

    def _another_boot(
        self, before: BootLook, deadline: Deadline
    ) -> tuple[BootLook | None, BootLook | str]:
        """The last look at the old boot after the order, if any; the first at another one, or why
        there was none.

        Another boot is one of another id, or one whose uptime began anew under the same.
        """
        old: BootLook | None = None
        while True:
            look = self._answer(deadline)
            if isinstance(look, str):
                return old, look
            if look.boot_id != before.boot_id or look.uptime < before.uptime:
                return old, look
            old = look
            if deadline.expired:
                return old, "the shell told of the old boot all along"
            self._pause(self.bench.again)

    def _answer(self, deadline: Deadline) -> BootLook | str:
        """The next look that the machine answers, or why there was none until the deadline."""
        while True:
            look = self._try(self._back)
            if isinstance(look, BootLook):
                return look
            if deadline.expired:
                return f"nobody answered within {deadline.seconds:g} s, at last: {look}"
            self._pause(self.bench.again)

    def _still(self, deadline: Deadline) -> BootLook | str:
        """One look more, by the way that has just been taken; it is taken anew only if need be."""
        look = self._try(self.bench.login)
        return look if isinstance(look, BootLook) else self._answer(deadline)

    def _try(self, way: Callable[[], NodeShell]) -> BootLook | str:
        """One look by this way to the machine, or why there was none."""
        try:
            look = self._look(way())
        except LabError as error:
            return str(error)
        return look if isinstance(look, BootLook) else look.reason

    def _back(self) -> NodeShell:
        return self.bench.come_back(ASK_LIMIT)

    def _look(self, shell: NodeShell) -> BootLook | Unread:
        reply = shell.run(LOOK, timeout=ASK_LIMIT)
        return read_look(output_of(reply), at=reply.ended, source=self.bench.where)

    def _pause(self, seconds: float) -> None:
        """Let the lab's time pass, listening to the console all along, which dates what it says."""
        self.bench.renew()
        clock, over = self.bench.clock, self.bench.clock.deadline(seconds)
        if self.console.ending is None:
            self.console.capture.wait_for_end(over)
        if not over.expired:
            clock.sleep(over.remaining(), f"{self.bench.where} to boot")

    def _listen_until_quiet(self, since: int) -> None:
        capture, until = self.console.capture, self.bench.clock.deadline(PRINT_LIMIT)
        capture.wait(_BANNER, self.bench.clock.deadline(QUIET), since=since)
        while capture.wait_for_more(capture.size, QUIET) and not until.expired:
            continue

    def _heard(self, since: int, began: float) -> ConsoleHeard:
        """What the console carried; looked at only once all that was printed till now is in."""
        capture = self.console.capture
        capture.wait(_BANNER, self.bench.clock.deadline(0.0), since=since)
        ending = self.console.ending
        banners = console_log(capture, since, at=self._now()).of(What.BANNER)
        first = banners[0].shown if banners else None
        return ConsoleHeard(
            attached=ending is None,
            ended="" if ending is None else ending.told,
            size=capture.size - since,
            banners=len(banners),
            banner_after=None if first is None else max(0.0, first - began),
            lost=ending is not None and ending.early,
        )

    def _origin(self, what: str, looks: tuple[BootLook, ...], since: int) -> Origin:
        told = "".join(f"{one.at:.2f} {one.boot_id} {one.uptime:.2f}\n" for one in looks)
        printed = self.console.capture.text(since).decode("utf-8", "backslashreplace")
        return Origin(self._now(), f"{self.bench.where}: {what}", f"{told}{printed}")

    def _nobody(self, kind: RebootKind, why: str) -> Unread:
        origin = Origin(self._now(), self.bench.where, "")
        return Unread(origin, f"the boot of {self.bench.where} for a reboot by {kind}", why)

    def _now(self) -> float:
        return self.bench.clock.now()


# -- orders


def _given(shell: NodeShell, argv: tuple[str, ...]) -> str:
    """Give an order by a command; one that is obeyed at once may break off or never answer."""
    try:
        reply = shell.run(argv, timeout=ORDER_LIMIT)
    except LabError as error:
        return str(error)
    if reply.exit_code:
        raise CannotBeOrdered(f"the order was refused: {_told(reply)}")
    return _told(reply)


def _pressed(press: Callable[[], None]) -> str:
    try:
        press()
    except LabError as error:
        raise CannotBeOrdered(str(error)) from error
    return "done"


def _set_panic(shell: NodeShell) -> None:
    """See that a kernel boots again after a panic instead of standing still."""
    _set(shell, SET_PANIC)
    shown = shell.run(SHOW_PANIC, timeout=ASK_LIMIT)
    if shown.stdout.strip() != str(PANIC_SECONDS).encode():
        raise CannotBeOrdered(f"kernel.panic was set and is not in effect: {_told(shown)}")


def _set(shell: NodeShell, argv: tuple[str, ...]) -> None:
    reply = shell.run(argv, timeout=ASK_LIMIT)
    if reply.exit_code != 0:
        raise CannotBeOrdered(f"what it takes could not be set: {_told(reply)}")


def _told(reply: Reply) -> str:
    output = output_of(reply)
    end = reply.problem if reply.exit_code is None else f"exit {reply.exit_code}"
    return f"{' '.join(reply.argv)}: {' '.join(output.text.split())[:200]} ({end})"
