"""A machine's boots as scenarios ask for them: how long it stays up, and what tells of a reboot."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.bringup.boots import BootLog, Log, Sample, Watching
from harness.bringup.consoles import AttachedConsole
from harness.bringup.reboots import RebootBench, try_reboots
from harness.facts.boots import BootSample
from harness.facts.fact import Unread
from harness.facts.reboots import Reboots
from harness.observe.boots import guest_sample
from harness.observe.kernellog import kernel_log
from harness.reach.nodeshell import NodeShell

if TYPE_CHECKING:
    from harness.clock import Clock
    from harness.reach.power import Power
    from harness.reach.ssh import SshShell

GUEST_EVERY = 5.0
"""Seconds between two looks at a guest, which has no Node that would show a reboot by itself."""
GUEST_AGAIN = 1.0
GUEST_BUDGET = 240.0
"""Seconds for a guest to answer again after a reboot; under emulation 6 to 19 were
measured on a quiet host, up to 169 on one with seven times the work it has cores for."""
GUEST_LIMIT = 10.0
"""Seconds of the runner's time for a question or a login: the machine may be gone, while its
connection still calls itself active and the way in accepts before anybody listens."""
PROMPT = b"login: "
"""What a guest's console shows when it is worth logging in."""
INSIDE = ("reboot",)
"""The command by which a Linux system with an init reboots itself."""


@dataclass(slots=True)
class MachineBoots:
    """What is known of one machine's boots. ``bench`` makes what a trial of reboots needs."""

    log: BootLog
    bench: Callable[[], RebootBench]
    _reboots: list[Reboots] = field(default_factory=list)

    def follow(self) -> None:
        """Look at its boot until there is a baseline, and every now and then after it."""
        self.log.follow()

    def stay_up(self, soak: float) -> tuple[Sample, ...]:
        """Each look at its boot, once it is ``soak`` seconds old: what is missing is waited for."""
        return self.log.stay_up(soak)

    def kernel_logs(self) -> tuple[Log, ...]:
        """What kernels said while it was waited, on the console, and the running one's log."""
        return tuple(self.log.logs)

    def reboots(self) -> Reboots:
        """What was seen of each kind of reboot, tried once. The looks at its boot begin anew."""
        if not self._reboots:
            self._reboots.append(try_reboots(self.bench()))
            self.log.begin_anew()
        return self._reboots[0]


def guest_boots(
    name: str,
    clock: Clock,
    *,
    login: Callable[[], SshShell],
    console: Callable[[], AttachedConsole],
    power: Callable[[], Power],
) -> MachineBoots:
    """The boots of a machine of no cluster, reached by SSH, with a console and its power.

    ``login`` gives the one shell, which is made good again in place; ``console`` attaches.
    """

    def come_back(seconds: float) -> NodeShell:
        login().reconnect(timeout=seconds)
        return login()

    def ask() -> BootSample | Unread:
        found = guest_sample(login(), name, timeout=GUEST_LIMIT)
        if isinstance(found, BootSample):
            return found
        # it may have rebooted since, which ends no connection
        return guest_sample(come_back(GUEST_LIMIT), name, timeout=GUEST_LIMIT)

    watching = Watching(
        node=name,
        now=clock.now,
        ask=ask,
        wait=lambda look, seconds, what: clock.wait(look, clock.deadline(seconds), what),
        pause=clock.sleep,
        log=lambda boot_id: kernel_log(login(), boot_id),
        listen=console,
        prompt=PROMPT,
        every=GUEST_EVERY,
        again=GUEST_AGAIN,
        budget=GUEST_BUDGET,
        settled=0.0,
    )
    return MachineBoots(
        BootLog(watching),
        lambda: RebootBench(
            where=f"guest {name}",
            clock=clock,
            login=login,
            come_back=come_back,
            attach=console,
            power=power(),
            inside=INSIDE,
            prompt=PROMPT,
            budget=GUEST_BUDGET,
        ),
    )
