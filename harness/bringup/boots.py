"""Following a worker's boot, and waiting until it is old enough.

The baseline is the first look at a boot that has settled: one reboot right after installation is
normal (S-GPO; uptime_and_diagnosis section 3).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.facts.boots import BootSample
from harness.facts.fact import Unread
from harness.facts.objects import text_at
from harness.reach.errors import ApiRefused, Unreachable

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

SETTLED = 120.0
"""Seconds of uptime on a Ready node after which a boot is no longer that of the installer."""
EVERY = 600.0
"""Seconds between two looks while the time passes. A reboot in between is not missed: another boot
id stays, and the Node shows it at once."""

REBOOT_BUDGET = 600.0
"""Seconds after a reboot for the shell on the node to answer again, asked every AGAIN seconds."""
AGAIN = 30.0
_BOOT_ID = ("status", "nodeInfo", "bootID")

Sample = BootSample | Unread


class BootLog:
    """The looks at one worker's boot, from the baseline on."""

    def __init__(self, pool: HeldPool, node: str, ask: Callable[[], Sample]) -> None:
        self.samples: list[Sample] = []
        self._pool = pool
        self._node = node
        self._ask = ask

    def look(self) -> Sample:
        """One more look. Before the baseline, one at a boot that has not settled is not kept."""
        sample = self._ask()
        settled = isinstance(sample, BootSample) and sample.node_ready and sample.uptime > SETTLED
        if self.samples or settled:
            self.samples.append(sample)
        return sample

    def follow(self) -> None:
        """Look, unless the last look that was kept is of a short while ago."""
        if not self.samples or self._pool.lab.clock.now() - self.samples[-1].origin.at >= EVERY:
            self.look()

    def stay_up(self, soak: float) -> tuple[Sample, ...]:
        """Wait for what is missing of ``soak`` seconds of uptime; every look, the last one now.

        Ends early where the node is on another boot, which no waiting can mend.
        """
        sample = self._baseline()
        while isinstance(sample, BootSample) and sample.uptime < soak:
            missing = soak - sample.uptime
            what = f"{soak:.0f} s of uptime on node {self._node}"
            if self._pool.wait(self._is_on_another_boot, min(missing + 1, EVERY), what):
                self._look_after_reboot()
                break
            sample = self.look()
        if not self.samples:
            self.samples.append(sample)
        return tuple(self.samples)

    def _look_after_reboot(self) -> None:
        """The first look at the new boot: the shell on the node comes back in its own time."""
        for _ in range(int(REBOOT_BUDGET / AGAIN)):
            self._pool.pause(AGAIN, f"the shell on {self._node} to be back")
            try:
                self.look()
            except (ApiRefused, Unreachable):
                continue
            return
        self.look()

    def _baseline(self) -> Sample:
        """The latest look; where there is none, the first after the boot has settled."""
        sample = self.look()
        if not self.samples and isinstance(sample, BootSample):
            self._pool.pause(SETTLED - min(sample.uptime, SETTLED) + 1, f"{self._node} to settle")
            sample = self.look()
        return sample

    def _is_on_another_boot(self) -> bool:
        last = next((one for one in reversed(self.samples) if isinstance(one, BootSample)), None)
        seen = text_at(self._pool.watched.nodes.object(self._node) or {}, *_BOOT_ID)
        return last is not None and bool(seen) and seen != last.boot_id
