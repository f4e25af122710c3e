"""How a run stands, put together from what its processes write and from its ledger's shards."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from harness.report.lengths import duration

STALLED = 900.0
"""Real seconds without a sign of anything after which a run is said to stall. The longest pause
between two looks of a soak is ten minutes."""
_WORST = ("broken", "unknown", "holds")


@dataclass(slots=True)
class Worker:
    """One process as its last beat has it."""

    name: str
    beat: Mapping[str, Any] = field(default_factory=dict)

    @property
    def pool(self) -> str:
        """The pool that it holds or brings up, "" for none."""
        return _text(self.beat, "pool")

    def seen(self) -> float | None:
        """When something last happened there."""
        return number(self.beat.get("seen"))

    def quiet(self, now: float) -> float:
        """Seconds since something last happened there, 0 where nothing is at hand."""
        seen = self.seen()
        return max(0.0, now - seen) if seen is not None and self.pool else 0.0

    def line(self, now: float) -> str:
        """What it waits for and how long still, then what it is at and since when."""
        parts, quiet = [], self.quiet(now)
        if quiet >= STALLED:
            parts.append(f"STALLED: nothing seen for {duration(quiet)}")
        waiting = self.beat.get("waiting")
        if isinstance(waiting, Mapping):
            parts.append(self._waits(waiting, now))
        if STALLED > quiet >= 60:
            parts.append(f"last sign {duration(quiet)} ago")
        scenario, since = _text(self.beat, "scenario"), number(self.beat.get("since"))
        if scenario and since is not None:
            parts.append(f"{scenario} for {duration(max(0, int(now - since)))}")
        return f"{self.pool}: {', '.join(parts) or 'nothing at hand'}"

    def left(self, now: float) -> float | None:
        """Seconds of the lab's time that it may still wait, None where it does not."""
        waiting, lab = self.beat.get("waiting"), number(self.beat.get("lab"))
        until = number(waiting.get("until")) if isinstance(waiting, Mapping) else None
        at = number(self.beat.get("at"))
        if until is None or lab is None or at is None:
            return None
        passed = max(0.0, now - at) if self.beat.get("moves") is True else 0.0
        return until - lab - passed

    def _waits(self, waiting: Mapping[str, Any], now: float) -> str:
        left = self.left(now)
        if left is None:
            return f"waits for {_text(waiting, 'what')}"
        still = f"{duration(left)} still" if left > 0 else f"over its limit by {duration(-left)}"
        return f"waits for {_text(waiting, 'what')}, at most {still}"


@dataclass(slots=True)
class Standing:
    """A run as far as it is known. ``told`` takes in records, ``lines`` says how it stands."""

    planned: set[tuple[str, str]] = field(default_factory=set)
    ended: set[tuple[str, str]] = field(default_factory=set)
    verdicts: dict[str, int] = field(default_factory=dict)
    workers: dict[str, Worker] = field(default_factory=dict)
    processes: dict[str, Mapping[str, Any]] = field(default_factory=dict)

    def progress(self, worker: str, record: Mapping[str, Any]) -> None:
        """Take in what a process wrote of itself."""
        kind = record.get("record")
        if kind == "process":
            self.processes[worker] = record
        if kind == "beat":
            self.workers[worker] = Worker(worker, record)

    def ledger(self, record: Mapping[str, Any]) -> None:
        """Take in a line of the ledger."""
        kind, key = record.get("record"), (_text(record, "scenario"), _text(record, "pool"))
        if kind == "planned":
            self.planned.add(key)
        if kind == "end":
            self.ended.add(key)
        if kind == "verdict":
            outcome = _text(record, "outcome")
            self.verdicts[outcome] = self.verdicts.get(outcome, 0) + 1

    def at_work(self) -> list[Worker]:
        """The processes that have a pool at hand, by name."""
        return [one for _, one in sorted(self.workers.items()) if one.pool]

    def head(self) -> str:
        """How far the run is."""
        told = [f"{len(self.ended)} of {len(self.planned)} scenarios ended"]
        told += [f"{self.verdicts[one]} {one}" for one in _WORST if self.verdicts.get(one)]
        return ", ".join(told)

    def lines(self, now: float) -> list[str]:
        """The head, and a line for each process at work."""
        return [self.head(), *(worker.line(now) for worker in self.at_work())]

    def stalled(self, now: float) -> Iterator[tuple[Worker, float]]:
        """Who has seen nothing for long, and for how long."""
        for one in self.at_work():
            if (quiet := one.quiet(now)) >= STALLED:
                yield one, quiet


def clock_time(at: float) -> str:
    """A time of day, UTC; dashes for what is none."""
    try:
        return f"{datetime.fromtimestamp(at, UTC):%H:%M:%SZ}"
    except (ValueError, OverflowError, OSError):
        return "--:--:--Z"


def number(value: object) -> float | None:
    """A number, else None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if abs(value) < 1e12 else None


def _text(record: Mapping[str, Any], field_: str) -> str:
    found = record.get(field_)
    return found if isinstance(found, str) else ""
