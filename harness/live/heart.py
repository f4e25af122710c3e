"""The thread of a process that writes where it stands, however long a scenario waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from harness.clock import Pending, VirtualClock, WallClock
from harness.live.record import Beat, Pen, Waiting, this_process

EVERY = 1.0
"""Real seconds between two looks at oneself."""
STILL = 15.0
"""Real seconds after which a process that stands where it stood says so again."""

LabClock = WallClock | VirtualClock


@dataclass(frozen=True, slots=True)
class Stand:
    """What the process knows of itself at a moment; ``clock`` is the lab's, None without one."""

    pool: str = ""
    scenario: str = ""
    since: float | None = None
    clock: LabClock | None = None


class Heart:
    """Beats for as long as its process works. ``stand`` is asked by its own thread."""

    def __init__(
        self, pen: Pen, worker: str, stand: Callable[[], Stand], *, controls: bool
    ) -> None:
        self._pen = pen
        self._worker = worker
        self._stand = stand
        self._controls = controls
        self._clock = WallClock()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._go_on, name="hil-heart", daemon=True)
        self._last: Beat | None = None
        self._signs = (0, 0)

    def start(self) -> None:
        """Write who it is, and beat from now on."""
        now = self._clock.now()
        self._pen.process(this_process(now, self._worker, controls=self._controls))
        self.beat()
        self._thread.start()

    def say(self, lab: float, text: str) -> None:
        """Pass a sentence on; any thread may."""
        with self._lock:
            self._pen.say(self._clock.now(), lab, text)

    def beat(self) -> None:
        """Look, and write what is new, or that nothing is."""
        beat = self._look()
        last = self._last
        if last is None or beat.stands() != last.stands() or beat.at - last.at >= STILL:
            with self._lock:
                self._pen.beat(beat)
            self._last = beat

    def stop(self) -> None:
        """Beat no more."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._pen.close()

    def _go_on(self) -> None:
        while not self._clock.back_off(EVERY, self._stop):
            self.beat()

    def _look(self) -> Beat:
        stand, now = self._stand(), self._clock.now()
        clock = stand.clock
        signs = (id(clock), clock.signs() if clock is not None else 0)
        moved = signs != self._signs or self._last is None
        self._signs = signs
        seen = now if moved or self._last is None else self._last_seen
        self._last_seen = seen
        beat = Beat(now, seen, stand.pool, stand.scenario, stand.since)
        if clock is None:
            return beat
        waiting = _waiting(clock.pending())
        return replace(beat, lab=clock.now(), moves=not clock.follows, waiting=waiting)

    _last_seen: float = 0.0


def _waiting(pending: Pending | None) -> Waiting | None:
    return None if pending is None else Waiting(pending.what, pending.since, pending.until)
