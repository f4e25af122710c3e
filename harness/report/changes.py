"""What differs between two runs: claims, the facts behind them, versions, timings; pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.identity import TITLES
from harness.report.merged import Run
from harness.report.outcome import Row, Standing
from harness.report.timings import Moved, moved, timings

_MOST_VALUES = 6
"""Changed values that are told of one claim."""
_LONG = 120
_OF_ONE_RUN = re.compile(
    r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{16,}\b"
    r"|drbd\d+|-[bcdfghjklmnpqrstvwxz2456789]{5}\b|\d{4}-\d\d-\d\dT\S+"
)
"""What each run has anew: ids, digests, generated ends of names, times of day."""
_MOVES_ALWAYS = {"at", "since", "until", "created", "uptime", "ordered", "address", "seconds"}
_MOVES_ALWAYS |= {"waited", "free", "size", "resourceVersion", "said", "raw", "banner_after"}
"""Fields whose values two runs never share."""


@dataclass(frozen=True, slots=True)
class Value:
    """A value behind a claim that is another: the fact's kind, the field's path, both values."""

    kind: str
    path: str
    before: str
    after: str


@dataclass(frozen=True, slots=True)
class Change:
    """A claim on a pool that came out otherwise; "" as an outcome: the run was not asked."""

    claim: str
    pool: str
    hardware: str
    before: str
    after: str
    because: str
    values: tuple[Value, ...] = ()

    @property
    def worse(self) -> bool:
        """Whether it held before, was asked again, and does not now."""
        return self.before == Standing.HOLDS.value and self.both

    @property
    def both(self) -> bool:
        """Whether both runs say something of it."""
        return bool(self.before and self.after)


@dataclass(frozen=True, slots=True)
class Version:
    """An item of what the runs were made on that is another."""

    title: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """All that differs between two runs. ``earlier`` is how many runs tell how times spread."""

    before: Run
    after: Run
    claims: tuple[Change, ...]
    timings: tuple[Moved, ...]
    versions: tuple[Version, ...]
    compared: int
    earlier: int

    @property
    def any(self) -> bool:
        """Whether anything differs."""
        return bool(self.claims or self.timings or self.versions)


def compare(before: Run, after: Run, earlier: Sequence[Run] = ()) -> Changes:
    """What differs between two runs. ``earlier`` are runs of the same lab and lane before the
    later one: their spread tells what is noise in a time.
    """
    rows = {(row.claim, row.pool): row for row in before.summary.rows}
    later = {(row.claim, row.pool): row for row in after.summary.rows}
    changed = [
        _change(before, after, rows.get(key), later.get(key)) for key in dict.fromkeys(rows | later)
    ]
    times = moved(timings(before.view), timings(after.view), [timings(one.view) for one in earlier])
    return Changes(
        before,
        after,
        tuple(sorted(filter(None, changed), key=lambda one: (not one.worse, not one.both))),
        times,
        tuple(_versions(before, after)),
        len(rows.keys() & later.keys()),
        len(earlier),
    )


def _change(before: Run, after: Run, old: Row | None, new: Row | None) -> Change | None:
    outcomes = [row.outcome.value if row else "" for row in (old, new)]
    row = new or old
    if row is None or outcomes[0] == outcomes[1]:
        return None
    because = new.because if new else "it was not asked"
    values = tuple(_values(before, after, old, new))[:_MOST_VALUES] if old and new else ()
    return Change(row.claim, row.pool, row.hardware, outcomes[0], outcomes[1], because, values)


def _values(before: Run, after: Run, old: Row, new: Row) -> Iterator[Value]:
    """Leaves that differ in facts of one kind behind both; facts pair by their order."""
    old_facts, new_facts = _facts(before, old), _facts(after, new)
    for kind in dict.fromkeys([*old_facts, *new_facts]):
        pairs = zip(old_facts.get(kind, ()), new_facts.get(kind, ()), strict=False)
        for one, other in pairs:
            yield from _apart(kind, dict(_leaves(one)), dict(_leaves(other)))
        if kind not in old_facts or kind not in new_facts:
            there = ["read" if kind in facts else "not read" for facts in (old_facts, new_facts)]
            yield Value(kind, "", *there)


def _facts(run: Run, row: Row) -> dict[str, list[Any]]:
    kept = run.view.facts()
    found: dict[str, list[Any]] = {}
    for key in dict.fromkeys(key for one in row.findings for key in one.facts):
        if key in kept:
            found.setdefault(kept[key].text("kind"), []).append(kept[key].data.get("values"))
    return found


def _apart(kind: str, old: Mapping[str, str], new: Mapping[str, str]) -> Iterator[Value]:
    for path in dict.fromkeys([*old, *new]):
        one, other = old.get(path, "absent"), new.get(path, "absent")
        if one != other:
            yield Value(kind, path, _short(one), _short(other))


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, str]]:
    """Path to text of all single values, without what every run has anew."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name not in _MOVES_ALWAYS:
                yield from _leaves(item, f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for number, item in enumerate(value):
            yield from _leaves(item, f"{path}[{number}]")
    else:
        yield path, _OF_ONE_RUN.sub("*", str(value))


def _short(text: str) -> str:
    return text if len(text) <= _LONG else f"{text[:_LONG]} ..."


def _versions(before: Run, after: Run) -> Iterator[Version]:
    for item, title in TITLES.items():
        yield from _version(title, _seen(before, item), _seen(after, item))
    for name in ("lab", "lane", "kind", "fault", "inventory_sha256"):
        one, other = (getattr(run.info, name) for run in (before, after))
        yield from _version(name.replace("_sha256", "").capitalize(), (one,), (other,))


def _seen(run: Run, item: str) -> tuple[str, ...]:
    return tuple(seen.value for seen in run.identity if seen.item == item)


def _version(title: str, one: tuple[str, ...], other: tuple[str, ...]) -> Iterator[Version]:
    if one != other:
        yield Version(title, one, other)
