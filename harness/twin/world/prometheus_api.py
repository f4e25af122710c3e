"""Prometheus' HTTP API over what the lab's tenant has had scraped (docs/prometheus.md, api).

``/api/v1/query``, ``query_range`` and ``series``: shapes, error types and limits are its own; what
it would evaluate and the twin does not is an error of type ``execution``.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from harness.twin.world import promql
from harness.twin.world.metrics import Metrics, Sample, Series

MOST_POINTS = 11_000
"""Points of one series that a range query may give."""
Parameters = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: HTTP status and document."""

    status: int
    document: dict[str, Any]


class _Wrong(Exception):
    """A parameter that is none; the message is Prometheus'."""


class PrometheusApi:
    """Answers of one server; ``now`` is the lab's time."""

    def __init__(self, metrics: Metrics, now: Callable[[], float]) -> None:
        self._metrics = metrics
        self._now = now
        self._answers = {
            "/api/v1/query": self._query,
            "/api/v1/query_range": self._range,
            "/api/v1/series": self._series,
        }

    def answer(self, path: str, parameters: Parameters) -> Reply | None:
        """What a GET or a form's POST of ``path`` gives, None where there is no such page."""
        ask = self._answers.get(path)
        if ask is None:
            return None
        try:
            return Reply(200, {"status": "success", "data": ask(parameters)})
        except (_Wrong, promql.BadQuery) as wrong:
            return _failure(400, "bad_data", str(wrong))
        except promql.NotModelled as never:
            return _failure(422, "execution", str(never))

    def _query(self, given: Parameters) -> dict[str, Any]:
        query = _parsed(given)
        at = _moment(given, "time", self._now())
        if query.window is not None and not query.function:
            found = promql.ranges(query, self._metrics.series(), at)
            return _matrix(found, query)
        vector = promql.instant(query, self._metrics.series(), at)
        told = [
            {"metric": _labels(one, query), "value": [at, _number(value)]} for one, value in vector
        ]
        return {"resultType": "vector", "result": told}

    def _range(self, given: Parameters) -> dict[str, Any]:
        start, end = _moment(given, "start"), _moment(given, "end")
        step = _step(_one(given, "step"))
        if end < start:
            raise _Wrong('invalid parameter "end": end timestamp must not be before start time')
        if (end - start) / step > MOST_POINTS:
            raise _Wrong(
                "exceeded maximum resolution of 11,000 points per timeseries. "
                "Try decreasing the query resolution (?step=XX)"
            )
        query = _parsed(given)
        if query.window is not None and not query.function:
            said = 'invalid expression type "range vector" for range query, must be Scalar or'
            raise _Wrong(f'invalid parameter "query": {said} instant Vector')
        steps = [start + step * index for index in range(int((end - start) / step) + 1)]
        points: dict[int, tuple[Series, list[Sample]]] = {}
        series = list(self._metrics.series())
        for at in steps:
            for one, value in promql.instant(query, series, at):
                points.setdefault(id(one), (one, []))[1].append((at, value))
        return _matrix(list(points.values()), query)

    def _series(self, given: Parameters) -> list[dict[str, str]]:
        asked = given.get("match[]", ())
        if not asked:
            raise _Wrong("no match[] parameter provided")
        start = _moment(given, "start", self._now() - 43200)
        end = _moment(given, "end", self._now())
        wanted = [_matcher(text) for text in asked]
        return [
            dict(one.labels)
            for one in self._metrics.series()
            if any(wants(one.labels) for wants in wanted) and one.samples(start, end)
        ]


def _parsed(given: Parameters) -> promql.Query:
    try:
        return promql.parse(_one(given, "query"))
    except promql.BadQuery as wrong:
        raise _Wrong(f'invalid parameter "query": {wrong}') from wrong


def _matcher(text: str) -> Callable[[Mapping[str, str]], bool]:
    try:
        return promql.matcher(text)
    except promql.BadQuery as wrong:
        raise _Wrong(f'invalid parameter "match[]": {wrong}') from wrong


def _one(given: Parameters, name: str) -> str:
    return next(iter(given.get(name, ())), "")


def _moment(given: Parameters, name: str, default: float | None = None) -> float:
    text = _one(given, name)
    if not text and default is not None:
        return default
    if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", text):
        return float(text)
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        said = f'cannot parse "{text}" to a valid timestamp'
        raise _Wrong(f'invalid parameter "{name}": {said}') from None


def _step(text: str) -> float:
    step = float(text) if re.fullmatch(r"-?\d+(\.\d+)?", text) else promql.duration(text)
    if step is None:
        raise _Wrong(f'invalid parameter "step": cannot parse "{text}" to a valid duration')
    if step <= 0:
        raise _Wrong(
            'invalid parameter "step": zero or negative query resolution step widths are not '
            "accepted. Try a positive integer"
        )
    return step


def _matrix(found: list[tuple[Series, list[Sample]]], query: promql.Query) -> dict[str, Any]:
    told = [
        {"metric": _labels(one, query), "values": [[at, _number(value)] for at, value in samples]}
        for one, samples in found
    ]
    return {"resultType": "matrix", "result": told}


def _labels(one: Series, query: promql.Query) -> dict[str, str]:
    """A function's result has no metric's name, but the last of the samples themselves."""
    keeps = query.function in ("", "last_over_time")
    return {key: value for key, value in one.labels.items() if keeps or key != "__name__"}


def _number(value: float) -> str:
    """A sample's value as Prometheus writes it."""
    return str(int(value)) if math.isfinite(value) and value == int(value) else repr(value)


def _failure(status: int, kind: str, said: str) -> Reply:
    return Reply(status, {"status": "error", "errorType": kind, "error": said})
