"""The pool that a worker holds: one at a time, from its first scenario to its last."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from harness.clock import ClockStuck, VirtualClock, WallClock
from harness.facts.fact import Unread
from harness.reach.errors import LabError
from harness.session import states
from harness.session.evidence import Evidence
from harness.session.labs import LabChoice
from harness.session.shard import Shard
from harness.twin.process import TwinFailed

if TYPE_CHECKING:
    from harness.bringup.guests import GuestPool
    from harness.bringup.pool import HeldPool
    from harness.clock import Clock

    Held = HeldPool | GuestPool

Unavailable = (LabError, ClockStuck, TwinFailed)


class Pools:
    """Brings pools up on demand and takes each down when told."""

    def __init__(
        self,
        lab: LabChoice,
        ledger: Callable[[str], Shard],
        say: Callable[[float, str], None],
        evidence: Evidence,
    ) -> None:
        self._lab = lab
        self._ledger = ledger
        self._say = say
        self.evidence = evidence
        self._name = ""
        self._held: Held | None = None
        self._clock: Clock | None = None
        self._open = ExitStack()
        self._failures: dict[str, Exception] = {}
        self._seen: dict[str, float] = {}

    def now(self, name: str) -> float:
        """The time of a pool's lab, or the last that was seen of it once it is let go; before
        there is a lab, the epoch: no time of the runner's own.
        """
        if self._clock is not None and name == self._name:
            self._seen[name] = self._clock.now()
        return self._seen.get(name, 0.0)

    @property
    def clock(self) -> WallClock | VirtualClock | None:
        """The lab's clock while a pool is held or brought up; any thread may ask."""
        clock = self._clock
        return clock if isinstance(clock, (WallClock, VirtualClock)) else None

    @property
    def held(self) -> str:
        """The name of the pool that is held, or was being brought up when the run was cut short."""
        return self._name

    def get(self, name: str) -> Held:
        """The pool, held. One that could not be had is not tried again for its next scenario."""
        if name in self._failures:
            raise self._failures[name]
        if self._held is None or self._held.name != name:
            self.release()
            try:
                self._held = self._bring_up(name)
            except Unavailable as failure:
                self._failures[name] = failure
                self.release()
                raise
        return self._held

    def release(self) -> None:
        """Take down the pool that is held, if any. Raises TakeDownIncomplete."""
        self._held = None
        self.evidence.lets_go()
        try:
            self._open.close()
        finally:
            self.now(self._name)
            self._clock = None
            self._name = ""

    def _bring_up(self, name: str) -> Held:
        from harness.bringup.guests import GuestPool

        self._name = name
        ledger = self._ledger(name)
        # several processes have a set of guests each, and their lines come between each other
        whose = f"{name}.{self._lab.hand}: " if self._lab.hand else ""

        def log(kind: str, text: str) -> None:
            ledger.note(kind, text, at=self.now(name))
            self._say(self.now(name), f"{whose}{text}")

        refused = partial(self.evidence.refused, name)
        held = self._open.enter_context(self._lab.hold(name, log, self._keep_time, refused))
        self.evidence.holds(held)
        if not isinstance(held, GuestPool):
            self._keep_platform(held, ledger)
            if held.terms.save:
                self._keep_state(held, log)
            held.at_end.append(lambda: self._keep_boots(held, ledger))
        return held

    def _keep_platform(self, held: HeldPool, ledger: Shard) -> None:
        """Write down which platform is installed, now and as of its end: one may come between."""
        from harness.observe.platformversion import platform_version

        def look() -> None:
            ledger.fact(platform_version(held.lab.management, now=held.lab.clock.now))

        look()
        held.at_end.append(look)

    def _keep_boots(self, held: HeldPool, ledger: Shard) -> None:
        """Write down what is known of its workers' boots, as of its end."""
        for one in held.books.ledgers() if held.books is not None else ():
            ledger.fact(one)

    def _keep_time(self, clock: Clock) -> None:
        self._clock = clock
        if isinstance(clock, (WallClock, VirtualClock)):
            clock.waited = self._ledger(self._name).waited

    def _keep_state(self, held: HeldPool, log: Callable[[str, str], None]) -> None:
        """Record a pool that stood already before anything is done with it."""
        if not held.stood:
            log("state", f"pool {held.name} is this run's own: its state is not recorded")
            return
        state = held.state()
        if isinstance(state, Unread):
            log("state", f"the state of pool {held.name} could not be read: {state.reason}")
            return
        states.keep(self._lab.directory, held.name, state)
        log("state", f"the state of pool {held.name} is recorded")
