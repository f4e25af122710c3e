"""What the rows say: pure functions from rows to figures and verdicts."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

RIGHT = "right"
FALSE_SUCCESS = "false success"
FALSE_FAILURE = "false failure"
SILENT_LOSS = "silent loss"
UNDECIDED = "undecided"
HUNG = "hung"
VOID = "void"
VERDICTS = (VOID, RIGHT, UNDECIDED, HUNG, FALSE_FAILURE, SILENT_LOSS, FALSE_SUCCESS)
"""From the best to the worst: what signs something untrue is worse than what gives up."""

_IN_TIME = 0.5  # seconds before its limit by which a wait must have had something to tell
_LONGER, _LATER = 1.25, 0.01  # times, and seconds, by which a phase may be longer than meant
_Z95 = 1.959964


@dataclass(frozen=True, slots=True)
class Row:
    """One wait.

    ``kind`` is the tool's answer: met, not-met, unknown, deleted, replaced, error, or hung where
    none came. ``began`` and ``at`` are on CLOCK_MONOTONIC, as are the ``commits``: what happened
    to the pod, and when.
    """

    subject: str
    batch: str
    cell: str
    name: str
    limit: float
    kind: str
    began: float = 0.0
    at: float = 0.0
    said: str = ""
    commits: tuple[tuple[str, float], ...] = field(default=())

    def committed(self, what: str) -> float | None:
        """When something happened last; None if it never did."""
        return max((at for done, at in self.commits if done == what), default=None)

    @property
    def lag(self) -> float | None:
        """Seconds from the commit of Running to the answer; None unless that was "met"."""
        at = self.committed("Running")
        return None if at is None or self.kind != "met" else self.at - at

    @property
    def overshoot(self) -> float:
        """Seconds from the limit to the answer."""
        return self.at - self.began - self.limit

    def document(self) -> dict[str, Any]:
        """For the file of raw rows."""
        return asdict(self)


def wilson(seen: int, of: int) -> tuple[float, float]:
    """The 95 % interval of a proportion (Wilson's score interval); (0, 1) of nothing."""
    if not of:
        return 0.0, 1.0
    share, z2 = seen / of, _Z95**2
    middle = share + z2 / (2 * of)
    half = _Z95 * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    low, high = (middle - half) / (1 + z2 / of), (middle + half) / (1 + z2 / of)
    return max(0.0, low), min(1.0, high)


def percentile(values: Sequence[float], share: float) -> float:
    """The nearest-rank percentile: always one of the values. ValueError of none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def recall(rows: Iterable[Row], seconds: float) -> tuple[int, int]:
    """(seen, of): how many phases that were to last so long were told of.

    Counted are those that the server wrote as they were meant: within the wait's limit, and ended
    in time. On a machine that is too busy for that, a short phase is a long one, or comes too late.
    """
    written = [row for row in rows if _as_meant(row, seconds)]
    return sum(row.kind == "met" for row in written), len(written)


def _as_meant(row: Row, seconds: float) -> bool:
    ready, over = row.committed("Running"), row.committed("Succeeded")
    if ready is None or (row.kind != "hung" and ready > row.began + row.limit - _IN_TIME):
        return False
    # a tool that has answered is not waited for: its phase may not be over yet
    return over is None or over - ready <= _LONGER * seconds + _LATER


def lags(rows: Iterable[Row]) -> list[float]:
    """Seconds from commit to answer, of the waits that were met."""
    return [row.lag for row in rows if row.lag is not None]


def verdict(row: Row, truth: str) -> str:
    """What a tool's answer under a fault is worth.

    ``truth``: "lasts" (ready from the last Running on), "other" (only another pod of that name
    was), "lost" (it was, for a moment that could not be seen). Void: the machine was so slow that
    it had not happened when the limit came, so nothing can be said of the tool.
    """
    ready = row.committed("Running")
    if row.kind != "met" and not _happened_in_time(row, ready):
        return VOID
    if row.kind == "hung":
        return HUNG
    if row.kind == "met":
        in_time = ready is not None and row.at >= ready
        return RIGHT if truth != "other" and in_time else FALSE_SUCCESS
    if truth == "other":
        return RIGHT if row.kind != "error" else FALSE_FAILURE
    if row.kind == "unknown":
        return RIGHT if truth == "lost" else UNDECIDED
    if truth == "lost" and row.kind != "error":
        return SILENT_LOSS
    return FALSE_FAILURE


def _happened_in_time(row: Row, ready: float | None) -> bool:
    """Of a wait that never ended it is not known when it began, nor does that matter."""
    if row.kind == "hung":
        return True
    if ready is None:
        # it gave up before anything could happen: that is its own doing
        return row.at < row.began + row.limit - _IN_TIME
    return ready < row.began + row.limit - _IN_TIME


def worst(verdicts: Iterable[str]) -> str:
    """The one that counts of several tries: the latest in `VERDICTS`."""
    return max(verdicts, key=VERDICTS.index)
