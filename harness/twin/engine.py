"""Virtual time: an event queue that a single thread advances.

Time moves only in `run_until`. Everything due at one moment runs, in the order it was asked for,
before the next moment begins, so a run is a pure function of its inputs.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass, field

EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z


@dataclass(slots=True, eq=False)
class Timer:
    """One thing to do at one moment. A cancelled timer is skipped."""

    when: float
    do: Callable[[], None]
    what: str
    cancelled: bool = False

    def cancel(self) -> None:
        """Do not do it after all; cancelling twice is fine."""
        self.cancelled = True


@dataclass(slots=True)
class Engine:
    """The twin's clock: ``now`` in seconds since the epoch, and what is still to come."""

    now: float = EPOCH
    _queue: list[tuple[float, int, Timer]] = field(default_factory=list)
    _sequence: int = 0

    def at(self, when: float, do: Callable[[], None], what: str) -> Timer:
        """Do something at a moment; a moment already past means now."""
        timer = Timer(max(when, self.now), do, what)
        self._sequence += 1
        heapq.heappush(self._queue, (timer.when, self._sequence, timer))
        return timer

    def after(self, delay: float, do: Callable[[], None], what: str) -> Timer:
        """Do something ``delay`` seconds from now."""
        return self.at(self.now + delay, do, what)

    def every(self, interval: float, do: Callable[[], None], what: str) -> Timer:
        """Do something every ``interval`` seconds, first after one interval, until cancelled."""
        if interval <= 0:
            raise ValueError(f"{what}: an interval of {interval} s never lets time pass")
        repeat = Timer(self.now, do, what)

        def turn() -> None:
            if repeat.cancelled:
                return
            do()
            self.after(interval, turn, what)

        self.after(interval, turn, what)
        return repeat

    def next_time(self) -> float | None:
        """When the next thing is due, or None when nothing is."""
        while self._queue and self._queue[0][2].cancelled:
            heapq.heappop(self._queue)
        return self._queue[0][0] if self._queue else None

    def run_until(self, until: float, *, stop: Callable[[], bool] | None = None) -> float:
        """Let time pass up to ``until``; returns the time reached.

        ``stop`` is asked after each moment, never in the middle of one; True ends the run there.
        Things asked for at the current moment run before ``stop`` is first asked.
        """
        while True:
            moment = self.next_time()
            if moment is None or moment > until:
                self.now = max(self.now, until)
                return self.now
            self._run_moment(moment)
            if stop is not None and stop():
                return self.now

    def pending(self) -> list[tuple[float, str]]:
        """What is still to come, soonest first: (when, what)."""
        return [(when, t.what) for when, _, t in sorted(self._queue) if not t.cancelled]

    def _run_moment(self, moment: float) -> None:
        self.now = max(self.now, moment)
        while self._queue and self._queue[0][0] <= self.now:
            timer = heapq.heappop(self._queue)[2]
            if not timer.cancelled:
                timer.do()
