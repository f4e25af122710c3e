"""A ledger's shard as what happened: each scenario with its records, and what lay around them.

One record after the other, so that a run that goes on and one that was killed are read alike.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime

from harness.report.ledger import LedgerView
from harness.report.records import Record

_OF_THE_PLAN = ("header", "planned", "not-established", "not-run", "merged")
_AROUND = ("bring-up", "headroom", "state", "lease", "take-down")


def moment(text: str) -> float:
    """A record's time as epoch seconds; 0 where it has none that can be read."""
    try:
        return datetime.fromisoformat(text).timestamp() if text else 0.0
    except ValueError:
        return 0.0


@dataclass(slots=True)
class Trace:
    """One attempt at a scenario on a pool. ``ended`` is None as long as it goes on, or for ever
    where it was cut short; ``began`` is 0 where there was no lab yet.
    """

    scenario: str
    pool: str
    attempt: int = 1
    began: float = 0.0
    records: list[Record] = field(default_factory=list)
    ended: Record | None = None

    @property
    def key(self) -> tuple[str, str]:
        """What was planned."""
        return self.scenario, self.pool

    @property
    def verdicts(self) -> list[Record]:
        """What it judged, in order."""
        return [record for record in self.records if record.kind == "verdict"]


@dataclass(slots=True)
class Around:
    """What was done with a pool before its scenarios and after them."""

    before: list[Record] = field(default_factory=list)
    after: list[Record] = field(default_factory=list)


@dataclass(slots=True)
class Shard:
    """A shard as far as it was read."""

    facts: dict[str, Record] = field(default_factory=dict)
    traces: list[Trace] = field(default_factory=list)
    around: dict[str, Around] = field(default_factory=dict)
    last: float = 0.0
    """The lab's latest moment in it."""
    _pool: str = ""

    @property
    def current(self) -> Trace | None:
        """The scenario that goes on, if any."""
        return self.traces[-1] if self.traces and self.traces[-1].ended is None else None

    def take(self, record: Record) -> Trace | None:
        """Take in the next record; gives the scenario that it belongs to, if any."""
        for name in ("at", "until"):
            if record.kind != "fact":
                self.last = max(self.last, moment(record.text(name)))
        if record.kind in _OF_THE_PLAN:
            return None
        if record.kind == "fact":
            self.facts[record.text("id")] = record
            return self.current
        if record.kind == "begin":
            return self._open(record)
        if record.kind == "end":
            return self._close(record)
        return self._put(record)

    def _open(self, record: Record) -> Trace:
        scenario, pool = record.text("scenario"), record.text("pool")
        before = sum(trace.key == (scenario, pool) for trace in self.traces)
        began = moment(record.text("at")) if record.kind == "begin" else 0.0
        self.traces.append(Trace(scenario, pool, before + 1, began))
        self._pool = pool
        return self.traces[-1]

    def _close(self, record: Record) -> Trace:
        trace = self.current
        if trace is None or trace.scenario != record.text("scenario"):
            trace = self._open(record)
        trace.ended = record
        return trace

    def _put(self, record: Record) -> Trace | None:
        scenario, trace = record.text("scenario"), self.current
        if _is_around(record):
            around = self.around.setdefault(self._pool, Around())
            done = record.text("kind") == "take-down" or around.after
            (around.after if done else around.before).append(record)
            return trace
        if record.kind == "verdict" and (trace is None or trace.scenario != scenario):
            trace = self._open(record)  # a ledger from before there was a `begin`
        if trace is None and record.kind == "evidence":
            mine = (one for one in reversed(self.traces) if one.scenario == scenario)
            trace = next(mine, None)
        if trace is not None:
            trace.records.append(record)
        return trace


def _is_around(record: Record) -> bool:
    outside = record.kind == "wait" and not record.text("scenario")
    return outside or (record.kind == "note" and record.text("kind") in _AROUND)


def shards(view: LedgerView) -> dict[str, Shard]:
    """Every shard of a ledger, by its name."""
    found: dict[str, Shard] = {}
    for record in view.records:
        found.setdefault(record.shard, Shard()).take(record)
    return found


def traces(view: LedgerView) -> Iterator[tuple[Shard, Trace]]:
    """Every scenario that was begun, with the shard that has its facts."""
    for shard in shards(view).values():
        for trace in shard.traces:
            yield shard, trace
