"""As much of PromQL as the twin evaluates: selectors, ranges, and functions over one range.

Grammar and wording of the errors are Prometheus' (docs/prometheus.md, querying/basics and api).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.twin.world.metrics import Sample, Series

_FUNCTION = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*", re.DOTALL)
_SELECTOR = re.compile(
    r"\s*(?P<name>[A-Za-z_:][\w:]*)?\s*(?:\{(?P<inside>.*)\})?\s*(?:\[(?P<range>[^\]]*)\])?\s*",
    re.DOTALL,
)
_MATCHER = re.compile(r'\s*([A-Za-z_]\w*)\s*(=~|!~|!=|=)\s*"((?:[^"\\]|\\.)*)"\s*(?:,|$)')
_DURATION = re.compile(r"(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?")
_UNITS = (86400, 3600, 60, 1)


class BadQuery(Exception):
    """A query that is none; the message is Prometheus'."""


class NotModelled(Exception):
    """A query that Prometheus would evaluate and the twin does not."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked: a function's name or "", the selector, and its range in seconds or None."""

    function: str
    matches: Callable[[Mapping[str, str]], bool]
    window: float | None


def parse(text: str) -> Query:
    """A query from its text. Raises BadQuery and NotModelled."""
    found = _FUNCTION.fullmatch(text)
    if found and found[1] in OVER_TIME:
        name, window = found[1], _selector(found[2])
        if window.window is None:
            said = f'expected type range vector in call to function "{name}", got instant vector'
            raise BadQuery(f"1:{len(name) + 2}: parse error: {said}")
        return Query(name, window.matches, window.window)
    if found or re.search(r"[-+*/^]|\b(by|on|offset|bool|and|or|unless)\b", _bare(text)):
        raise NotModelled(f"the twin does not evaluate {text!r}")
    return _selector(text)


def matcher(text: str) -> Callable[[Mapping[str, str]], bool]:
    """Of ``match[]``: a selector without a range. Raises BadQuery."""
    query = _selector(text)
    if query.window is not None:
        raise BadQuery(f"1:{len(text)}: parse error: expected series selector")
    return query.matches


def duration(text: str) -> float | None:
    """Seconds of Prometheus' durations ("93m", "1h30m"), None for what is none."""
    found = _DURATION.fullmatch(text)
    if not text or found is None:
        return None
    parts = zip(found.groups(), _UNITS, strict=True)
    return float(sum(int(part) * unit for part, unit in parts if part))


def instant(query: Query, series: Iterable[Series], at: float) -> list[tuple[Series, float]]:
    """The vector of a query at one moment; of a bare range, see `ranges`."""
    found: list[tuple[Series, float]] = []
    for one in series:
        if not query.matches(one.labels):
            continue
        value = _value(query, one, at)
        if value is not None:
            found.append((one, value))
    return found


def ranges(query: Query, series: Iterable[Series], at: float) -> list[tuple[Series, list[Sample]]]:
    """The samples of each series within a bare range that ends at a moment."""
    begin = at - (query.window or 0.0)
    found = ((one, one.samples(begin, at)) for one in series if query.matches(one.labels))
    return [(one, samples) for one, samples in found if samples]


def _value(query: Query, one: Series, at: float) -> float | None:
    if not query.function:
        return one.at(at)
    samples = one.samples(at - (query.window or 0.0), at)
    return OVER_TIME[query.function]([value for _, value in samples]) if samples else None


def _changes(values: Sequence[float]) -> float:
    return float(sum(a != b for a, b in pairwise(values)))


def _resets(values: Sequence[float]) -> float:
    return float(sum(b < a for a, b in pairwise(values)))


OVER_TIME: Mapping[str, Callable[[Sequence[float]], float]] = {
    "min_over_time": min,
    "max_over_time": max,
    "avg_over_time": lambda values: sum(values) / len(values),
    "count_over_time": lambda values: float(len(values)),
    "last_over_time": lambda values: values[-1],
    "changes": _changes,
    "resets": _resets,
}


def _selector(text: str) -> Query:
    found = _SELECTOR.fullmatch(text)
    if found is None or not (found["name"] or found["inside"]):
        raise BadQuery(f"1:1: parse error: unexpected {_first(text)}")
    window = None
    if found["range"] is not None:
        window = duration(found["range"])
        if not window:
            said = f'bad number or duration syntax: "{found["range"]}"'
            raise BadQuery(f"1:{found.start('range') + 1}: parse error: {said}")
    matchers = _matchers(found["inside"] or "", found["name"] or "")
    return Query("", lambda labels: all(one(labels) for one in matchers), window)


def _matchers(inside: str, name: str) -> list[Callable[[Mapping[str, str]], bool]]:
    found = [_matches("__name__", "=", name)] if name else []
    rest = inside
    while rest.strip():
        one = _MATCHER.match(rest)
        if one is None:
            raise BadQuery(f"1:{len(name) + 2}: parse error: unexpected {_first(rest)}")
        found.append(_matches(one[1], one[2], re.sub(r"\\(.)", r"\1", one[3])))
        rest = rest[one.end() :]
    return found


def _matches(label: str, sign: str, value: str) -> Callable[[Mapping[str, str]], bool]:
    if sign in ("=", "!="):
        return lambda labels: (labels.get(label, "") == value) is (sign == "=")
    try:
        pattern = re.compile(value)
    except re.error as wrong:
        raise BadQuery(f"1:1: parse error: error parsing regexp: {wrong}") from wrong
    return lambda labels: bool(pattern.fullmatch(labels.get(label, ""))) is (sign == "=~")


def _bare(text: str) -> str:
    """A query without what stands in braces and brackets."""
    return re.sub(r"\{.*\}|\[.*\]", "", text, flags=re.DOTALL)


def _first(text: str) -> str:
    said = text.strip()
    return f"character: '{said[0]}'" if said else "end of input"
