"""What the process that controls a run tells of it while it goes on."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import TextIO

from harness.clock import WallClock
from harness.live.record import FOLDER
from harness.live.screen import Screen
from harness.live.standing import Standing, clock_time, number
from harness.live.tailing import Tails
from harness.report.ledger import SHARDS
from harness.report.lengths import duration

LOOK = 0.25
"""Real seconds between two looks at what the workers wrote."""
DRAW = 1.0
"""Real seconds between two drawings on a terminal."""
LINE = 60.0
"""Real seconds between two lines where there is no terminal."""


class Teller:
    """Reads what a run's processes write, and tells it on a stream, in a thread of its own."""

    def __init__(self, run: Path, stream: TextIO) -> None:
        self._screen = Screen(stream)
        self._progress = Tails(run / FOLDER)
        self._shards = Tails(run / SHARDS)
        self._standing = Standing()
        self._clock = WallClock()
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._last = self._clock.now()
        self._stalls: set[tuple[str, float]] = set()
        self._thread = threading.Thread(target=self._go_on, name="hil-teller", daemon=True)

    def start(self) -> None:
        """Tell from now on."""
        self._thread.start()

    def say(self, line: str) -> None:
        """Tell a line of the controller's own, now."""
        with self._lock:
            self._screen.tell([line], self._below())

    def stop(self) -> None:
        """Tell what is still untold, take the drawing away, and be silent."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        with self._lock:
            self._screen.tell(self._heard())
            self._screen.clear()

    def _go_on(self) -> None:
        while not self._clock.back_off(LOOK, self._stop):
            self.look()

    def look(self) -> None:
        """Take in what is new, and tell it where it is due."""
        with self._lock:
            lines = self._heard()
            now = self._clock.now()
            every = DRAW if self._screen.redraws else LINE
            lines += self._stalled(now)
            if now - self._last >= every:
                self._last = now
                lines += [] if self._screen.redraws else self._minute(now)
            elif not lines:
                return
            self._screen.tell(lines, self._below())

    def _heard(self) -> list[str]:
        lines = []
        for worker, record in self._progress.new():
            self._standing.progress(worker, record)
            lab, text = number(record.get("lab")), record.get("text")
            if record.get("record") == "say" and isinstance(text, str):
                lines.append(f"{clock_time(lab or 0.0)}  {text}")
        for _, record in self._shards.new():
            self._standing.ledger(record)
        return lines

    def _below(self) -> list[str]:
        return self._standing.lines(self._clock.now())

    def _minute(self, now: float) -> list[str]:
        """One line: how far it is and what each process is at."""
        return [f"{clock_time(now)}  progress: {'; '.join(self._standing.lines(now))}"]

    def _stalled(self, now: float) -> list[str]:
        """Each stall is told once."""
        lines = []
        for worker, quiet in self._standing.stalled(now):
            key = (worker.name, worker.seen() or 0.0)
            if key not in self._stalls:
                self._stalls.add(key)
                told = f"pool {worker.pool} stalls: nothing seen for {duration(quiet)}"
                lines.append(f"{clock_time(now)}  {told}; {worker.line(now)}")
        return lines
