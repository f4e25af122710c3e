"""A worker's memory over a window of time, and as its own kernel tells it now.

MemAvailable is what counts: page cache can be had back, so that memory "used" to 96 % says nothing
(uptime_and_diagnosis section 3). Samples are kept by their stretches: a stretch is one boot's run
of samples without a gap. What nobody sampled is a gap and stands there as one.
"""

from __future__ import annotations

import math
import re
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.metrics import NoResult, Point, Series, read_result
from harness.facts.reply import Output, quote, unfinished

MEMINFO = "/proc/meminfo"
AVAILABLE = "node_memory_MemAvailable_bytes"
FREE = "node_memory_MemFree_bytes"
CACHED = "node_memory_Cached_bytes"
TOTAL = "node_memory_MemTotal_bytes"
KILLS = "node_vmstat_oom_kill"
BOOTED = "node_boot_time_seconds"
SAMPLED = (AVAILABLE, FREE, CACHED, TOTAL, KILLS, BOOTED)
"""The metrics of node_exporter that a window is made of; only the first must be there."""
MISSED = 2.5
"""Scrape intervals between two samples from which on one is missing."""
_SAME_BOOT = 5.0  # seconds by which two readings of one boot's time may differ
_ROW = re.compile(r"^(\w+):\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples of one boot without a gap between them: moments in epoch seconds, sizes in bytes.

    ``free`` and ``cached`` are those of its last sample, None where they were not told; ``kills``
    is the kernel's count of kills for want of memory in that boot by then.
    """

    began: float
    ended: float
    samples: int
    minimum: int
    minimum_at: float
    last: int
    free: int | None = None
    cached: int | None = None
    kills: int | None = None


@dataclass(frozen=True, slots=True)
class MemoryWindow(Fact):
    """A node's MemAvailable from ``since`` to ``until`` (epoch seconds), as it was scraped.

    ``every`` is the seconds between two samples as a rule; ``total`` bytes, None where not told.
    """

    node: str
    since: float
    until: float
    every: float
    total: int | None
    stretches: tuple[Stretch, ...]

    @property
    def samples(self) -> int:
        """How many samples there are."""
        return sum(one.samples for one in self.stretches)

    @property
    def minimum(self) -> int:
        """The least that was available in any sample, in bytes."""
        return min(one.minimum for one in self.stretches)

    def gaps(self, begin: float, end: float) -> tuple[tuple[float, float], ...]:
        """Where samples are missing between two moments: when each gap begins and ends."""
        inside = [(one.began, one.ended) for one in self.stretches]
        inside = [(a, b) for a, b in inside if b >= begin and a <= end]
        edges = [begin, *(moment for pair in inside for moment in pair), end]
        spaces = zip(edges[::2], edges[1::2], strict=True)
        return tuple((a, b) for a, b in spaces if b - a > MISSED * self.every)


@dataclass(frozen=True, slots=True)
class MemInfo(Fact):
    """/proc/meminfo of a machine at one moment, in bytes."""

    node: str
    total: int
    free: int
    available: int
    cached: int


def read_window(
    node: str,
    answers: Mapping[str, str],
    least: str,
    *,
    since: float,
    until: float,
    at: float,
    source: str,
) -> MemoryWindow | Unread:
    """A window from its answers: raw samples of each metric by its name (a matrix), and the vector
    of ``min_over_time`` over the same window, which has to say the same minimum.

    ``at`` is the lab's time of the answers. A second series of the same node is taken for the same
    one where the two do not overlap (an exporter's address changed), else nothing is known.
    """
    origin = Origin(at, source, answers.get(AVAILABLE, ""))
    asked = f"{AVAILABLE} of {node}"
    try:
        points = {name: _merged(read_result(text)) for name, text in answers.items()}
        minima = [value for one in read_result(least) for _, value in one.points]
    except NoResult as wrong:
        return Unread(origin, asked, str(wrong))
    available = points.get(AVAILABLE, ())
    if not available:
        why = f"there is no sample of it between {since:.0f} and {until:.0f}"
        return Unread(origin, asked, why)
    if minima and min(minima) != min(value for _, value in available):
        why = (
            f"min_over_time says {min(minima):.0f}, its samples {min(v for _, v in available):.0f}"
        )
        return Unread(origin, asked, why)
    every = _interval(available)
    beside = {name: dict(points.get(name, ())) for name in SAMPLED}
    stretches = tuple(_stretch(run, beside) for run in _runs(available, beside[BOOTED], every))
    total = next((int(value) for _, value in points.get(TOTAL, ())), None)
    return MemoryWindow(origin, node, since, until, every, total, stretches)


def read_meminfo(node: str, output: Output, *, at: float, source: str) -> MemInfo | Unread:
    """Read the reply of ``cat /proc/meminfo``."""
    origin = output.origin(at, source)
    refused = unfinished(output, MEMINFO, origin)
    if refused is not None:
        return refused
    rows = {name: int(kib) * 1024 for name, kib in _ROW.findall(output.stdout)}
    missing = [n for n in ("MemTotal", "MemFree", "MemAvailable", "Cached") if n not in rows]
    if missing:
        return Unread(origin, MEMINFO, f"no {missing[0]} in {quote(output.stdout)}")
    sizes = (rows["MemTotal"], rows["MemFree"], rows["MemAvailable"], rows["Cached"])
    return MemInfo(origin, node, *sizes)


def _merged(found: Sequence[Series]) -> tuple[Point, ...]:
    """The points of all series as one, oldest first. Raises NoResult where two overlap."""
    # neither NaN nor an infinite size is one that was measured
    kept = [[point for point in one.points if math.isfinite(point[1])] for one in found]
    kept = sorted((sorted(points) for points in kept if points), key=lambda points: points[0])
    for first, second in pairwise(kept):
        if second[0][0] <= first[-1][0]:
            raise NoResult(
                f"{len(kept)} series at the same time ({dict(found[0].labels)}, "
                f"{dict(found[1].labels)}): `prometheus.labels` has to tell which"
            )
    return tuple(point for points in kept for point in points)


def _interval(points: Sequence[Point]) -> float:
    """Seconds between two samples as a rule; of a single one, Prometheus' default of a minute."""
    steps = [b - a for (a, _), (b, _) in pairwise(points)]
    return statistics.median(steps) if steps else 60.0


def _runs(
    points: Sequence[Point], booted: Mapping[float, float], every: float
) -> Iterator[list[Point]]:
    """The points in runs: a new one after a gap, and with a new boot."""
    run: list[Point] = []
    for at, value in points:
        if run and (at - run[-1][0] > MISSED * every or _rebooted(booted, run[-1][0], at)):
            yield run
            run = []
        run.append((at, value))
    yield run


def _rebooted(booted: Mapping[float, float], before: float, after: float) -> bool:
    was, now = booted.get(before), booted.get(after)
    return was is not None and now is not None and abs(now - was) > _SAME_BOOT


def _stretch(run: Sequence[Point], beside: Mapping[str, Mapping[float, float]]) -> Stretch:
    minimum_at, minimum = min(run, key=lambda point: point[1])
    (began, _), (ended, last) = run[0], run[-1]
    free, cached, kills = (_at(beside[name], ended) for name in (FREE, CACHED, KILLS))
    sizes = (len(run), int(minimum), minimum_at, int(last))
    return Stretch(began, ended, *sizes, free, cached, kills)


def _at(points: Mapping[float, float], moment: float) -> int | None:
    value = points.get(moment)
    return None if value is None else int(value)
