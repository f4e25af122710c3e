"""Waits of the lab's clock as records: slices of one wait joined, a long one told as it goes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass

LEAST = 0.1
"""Seconds of the lab's time below which a wait is not worth a line."""
GAP = 5.0
"""Seconds that may lie between two slices of one wait: a lease is renewed in between."""
TOLD_EVERY = 300.0
"""Seconds of the lab's time after which a wait that goes on is written again."""

Write = Callable[[str, float, float], None]


@dataclass(slots=True)
class _Going:
    what: str
    since: float
    until: float
    told: float


class Waits:
    """Hears of every wait and writes what the run's own thread waited for: (what, since, until)."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._going: _Going | None = None

    def heard(self, what: str, since: float, until: float) -> None:
        """Take in a wait that has ended, or a slice of one."""
        if threading.current_thread() is not threading.main_thread() or until - since < LEAST:
            return
        going = self._going
        if going is None or going.what != what or since - going.until > GAP:
            self.flush()
            going = self._going = _Going(what, since, until, since)
        going.until = until
        if going.until - going.told >= TOLD_EVERY:
            self._tell(going)

    def flush(self) -> None:
        """Write what is not written yet: something else follows."""
        going, self._going = self._going, None
        if going is not None and going.told < going.until:
            self._tell(going)

    def _tell(self, going: _Going) -> None:
        going.told = going.until
        self._write(going.what, going.since, going.until)
