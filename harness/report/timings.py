"""How long things took in a run, on the lab's clock, and which differences are more than noise."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from harness.report.identity import pool_of
from harness.report.ledger import LedgerView
from harness.report.pictures.reading import moment
from harness.report.records import Record

LEAST_EARLIER = 4
"""Earlier runs from which a spread can be told."""
SPREADS = 3.0
"""Spreads of earlier runs that are noise; a spread is the median distance from their median, scaled
to a normal's deviation.
"""
FLOOR = 10.0
"""Seconds within which nothing counts as moved, whatever the rest says."""
FACTOR = 1.5
"""With no spread to go by: what one must be of the other to count as moved."""
_TO_DEVIATION = 1.4826


@dataclass(frozen=True, slots=True)
class Moved:
    """A time that is another: seconds before and after, and by what measure it is no noise."""

    name: str
    before: float
    after: float
    measure: str


def timings(view: LedgerView) -> dict[str, float]:
    """Name to seconds: the slowest worker's join and the slowest phase of disks on each pool, each
    scenario from its begin to its end, each wait. Of several with one name the longest stands.
    """
    found: dict[str, float] = {}
    for name, seconds in _all(view):
        found[name] = max(seconds, found.get(name, 0.0))
    return found


def moved(
    before: Mapping[str, float],
    after: Mapping[str, float],
    earlier: Sequence[Mapping[str, float]] = (),
) -> tuple[Moved, ...]:
    """The times of both that differ beyond noise, by name.

    Noise is three spreads of the ``earlier`` runs of the same lab and lane where at least four of
    them have that time; else it is a factor of 1.5. In either case it is 10 s at least.
    """
    found = []
    for name in sorted(before.keys() & after.keys()):
        times = [one[name] for one in earlier if name in one]
        measure = _beyond(before[name], after[name], times)
        if measure:
            found.append(Moved(name, before[name], after[name], measure))
    return tuple(found)


def _beyond(before: float, after: float, times: Sequence[float]) -> str:
    """By what measure two times differ; "" where it is noise."""
    apart = abs(after - before)
    if apart <= FLOOR:
        return ""
    if len(times) >= LEAST_EARLIER:
        middle = statistics.median(times)
        spread = _TO_DEVIATION * statistics.median(abs(one - middle) for one in times)
        if apart <= SPREADS * spread:
            return ""
        return f"{len(times)} earlier runs spread by {spread:.1f} s around {middle:.1f} s"
    low, high = sorted((before, after))
    return f"more than {FACTOR} times" if high > FACTOR * max(low, 1e-9) else ""


def _all(view: LedgerView) -> Iterator[tuple[str, float]]:
    for fact in view.of("fact"):
        if fact.text("kind") == "JoinTrack":
            yield from _named(f"join of a worker on {pool_of(fact)}", fact, "seconds")
        if fact.text("kind") == "DiskHistory":
            yield from _phases(fact)
    yield from _scenarios(view)
    for record in view.of("wait"):
        name = f"wait for {record.text('what')} on {record.text('pool')}"
        yield from _between(name, record.text("since"), record.text("until"))


def _phases(fact: Record) -> Iterator[tuple[str, float]]:
    """The last phase of a disk lasts until somebody looked: that is no time of the disk's."""
    for one in fact.rows("phases")[:-1]:
        if isinstance(one.get("seconds"), int | float):
            yield f"disk in {one.get('phase')} on {pool_of(fact)}", float(one["seconds"])


def _scenarios(view: LedgerView) -> Iterator[tuple[str, float]]:
    begun = {
        (one.text("scenario"), one.text("pool")): one.text("at")
        for one in view.of("begin")
        if moment(one.text("at"))  # 0 where there was no lab yet: that long nothing lasted
    }
    for end in view.of("end"):
        key = end.text("scenario"), end.text("pool")
        if key in begun and end.text("at"):
            scenario = key[0].rpartition("::")[2] or key[0]
            yield from _between(f"scenario {scenario} on {key[1]}", begun[key], end.text("at"))


def _named(name: str, fact: Record, field: str) -> Iterator[tuple[str, float]]:
    seconds = fact.values.get(field)
    if isinstance(seconds, int | float):
        yield name, float(seconds)


def _between(name: str, since: str, until: str) -> Iterator[tuple[str, float]]:
    try:
        seconds = (datetime.fromisoformat(until) - datetime.fromisoformat(since)).total_seconds()
    except (ValueError, TypeError):
        return
    if seconds >= 0:
        yield name, seconds
