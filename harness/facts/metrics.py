"""Answers of Prometheus' HTTP API as series of numbers (prometheus.io, HTTP API, result formats).

The result of a query is a vector (one value each) or a matrix (several). A number is a string there
("13421772800", "NaN"), a moment a number of seconds. An answer that says itself that it may lack
series or samples is none: ``warnings`` (a remote read or a Thanos store that did not answer) and
VictoriaMetrics' ``isPartial`` (a storage node that did not).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

Point = tuple[float, float]
"""A moment in epoch seconds, and a value."""


@dataclass(frozen=True, slots=True)
class Series:
    """One series of a result: its labels and its points, oldest first."""

    labels: Mapping[str, str]
    points: tuple[Point, ...]


class NoResult(Exception):
    """A text that is no result of a query; the message quotes what is wrong."""


def read_result(text: str) -> tuple[Series, ...]:
    """The series of an instant or a range query's answer. Raises NoResult."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        raise NoResult(f"no JSON: {text[:120]!r}") from None
    try:
        _is_whole(document)
        data = document["data"]
        kind, result = data["resultType"], data["result"]
        if kind not in ("vector", "matrix"):
            raise NoResult(f"a result of type {kind!r}, neither vector nor matrix")
        return tuple(_series(one, kind) for one in result)
    except (AttributeError, KeyError, TypeError, ValueError, OverflowError) as wrong:
        raise NoResult(f"another shape than a result has ({wrong!r}): {text[:120]!r}") from None


def _is_whole(document: Mapping[str, object]) -> None:
    """Raises NoResult where the server says that it did not have everything."""
    if document.get("isPartial"):
        raise NoResult("the answer is partial (isPartial), so samples may be missing from it")
    if document.get("warnings"):
        raise NoResult(f"the answer comes with warnings: {str(document['warnings'])[:120]}")


def _series(one: Mapping[str, object], kind: str) -> Series:
    metric = one["metric"]
    points = one["values"] if kind == "matrix" else [one["value"]]
    if not isinstance(metric, dict) or not isinstance(points, list):
        raise TypeError("metric or values")
    labels = {str(key): str(value) for key, value in metric.items()}
    return Series(labels, tuple((float(at), float(value)) for at, value in points))
