"""The trend across runs: how each scenario came out before, for both of Allure's renderers.

Every run that ends leaves one line, in the form of Allure 3's history file, in a file of its own
under ``allure-history/LAB/LANE`` beside the runs. The next run of that lab and lane takes the
latest of them along: joined into its ``allure-history.jsonl`` for Allure 3, and as the folder
``history`` among its results for Allure 2. Runs with a fault planted leave nothing.

The two do not tell tests by the same name: Allure 2 goes by the ``historyId`` of a result, Allure 3
makes a name of its own and reads none. A line has both.

The form of both was read off what Allure 3.18 and Allure 2.46 write and was tried with them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.report.allure_model import Result, digest, millis, unique
from harness.report.atomic import write_bytes
from harness.report.records import visible
from harness.report.rundir import RunDirectory, RunInfo

FOLDER = "allure-history"
OWN = "allure-history.jsonl"
"""In a run's folder: the runs before it."""
MOST = 20
"""Runs that a trend shows."""
_MESSAGE = 300
_STATUSES = ("failed", "broken", "skipped", "passed", "unknown")


def take_along(directory: RunDirectory, info: RunInfo) -> None:
    """Put what earlier runs left beside this run's results; of a run that has it, nothing is done.

    Raises OSError.
    """
    own = directory.path / OWN
    if not own.exists():
        before = _before(directory.root, info)
        write_bytes(own, b"".join(before))
        _write_allure2(directory.allure_results / "history", [json.loads(one) for one in before])


def leave(directory: RunDirectory, info: RunInfo, results: Sequence[Result]) -> None:
    """Leave this run's own line for later ones; doing it again changes nothing. Raises OSError."""
    if not info.fault:
        line = json.dumps(_point(info, results)).encode("ascii") + b"\n"
        path = _place(directory.root, info) / _name(info)
        if not path.exists() or path.read_bytes() != line:
            write_bytes(path, line)


def _place(root: Path, info: RunInfo) -> Path:
    return root / FOLDER / _safe(info.lab) / _safe(info.lane or "none")


def _name(info: RunInfo) -> str:
    return f"{millis(info.started):015d}-{_safe(info.run_id)}.jsonl"


def _safe(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9._-]+", "-", text).strip(".") or "none"


def _before(root: Path, info: RunInfo) -> list[bytes]:
    """The lines of the latest runs before this one, oldest first; without those that are cut, or
    that no run leaves so."""
    own = _name(info)
    names = sorted(path for path in _place(root, info).glob("*.jsonl") if path.name < own)
    lines = [path.read_bytes() for path in names[-MOST:]]
    return [line for line in lines if line.endswith(b"\n") and _is_point(line)]


def _is_point(line: bytes) -> bool:
    try:
        point = json.loads(line)
    except (ValueError, RecursionError):
        return False
    results = point.get("testResults") if isinstance(point, dict) else None
    return isinstance(results, dict) and all(map(_is_item, results.values()))


def _is_item(item: object) -> bool:
    """Whether it is a result as `_item` writes one: a line may be a renderer's own, or damaged."""
    if not isinstance(item, dict) or not isinstance(item.get("allure2HistoryId", ""), str):
        return False
    words = all(isinstance(item.get(name), str) for name in ("id", "status"))
    moments = all(type(item.get(name)) is int for name in ("start", "stop", "duration"))
    return words and moments and "message" in item


def _point(info: RunInfo, results: Sequence[Result]) -> dict[str, Any]:
    """A run as a point of Allure 3's history."""
    return {
        "uuid": unique("history", info.run_id),
        "name": f"hil {info.run_id}",
        "timestamp": millis(info.ended or info.started),
        "knownTestCaseIds": [],
        "testResults": {_allure3_id(one): _item(one) for one in results},
        "metrics": {},
        "url": "",
    }


def _allure3_id(result: Result) -> str:
    """What Allure 3 tells a test by (``calculateHistoryId`` in its ``core``): its test case, and
    those of its parameters that are not excluded, by name.
    """
    told = sorted((one.name, one.value) for one in result.parameters if not one.excluded)
    parameters = visible(",".join(f"{name}:{value}" for name, value in told))
    return f"{digest(result.test_case_id)}.{digest(parameters)}"


def _item(result: Result) -> dict[str, Any]:
    return {
        "id": result.uuid,
        "name": result.name,
        "fullName": result.full_name,
        "status": result.status,
        "message": result.message[:_MESSAGE],
        "start": millis(result.start),
        "stop": millis(result.stop),
        "duration": millis(result.stop - result.start),
        "url": "",
        "historyId": _allure3_id(result),
        "allure2HistoryId": result.history_id,
        "reportLinks": [],
    }


def _write_allure2(folder: Path, points: Sequence[Mapping[str, Any]]) -> None:
    """``history.json`` and the trends, newest first, as Allure 2 leaves them in a report."""
    if not points:
        return
    newest_first = list(reversed(points))
    _dump(folder / "history.json", _items(newest_first))
    _dump(folder / "history-trend.json", [{"data": _counts(one)} for one in newest_first])
    trend = [{"data": {"duration": _longest(one)}} for one in newest_first]
    _dump(folder / "duration-trend.json", trend)


def _items(newest_first: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for point in newest_first:
        for name, item in point["testResults"].items():
            key = item.get("allure2HistoryId", name)
            told = found.setdefault(key, {"statistic": Counter(), "items": []})
            told["statistic"][item["status"]] += 1
            told["items"].append(_allure2_item(item))
    for told in found.values():
        told["statistic"] = _statistic(told["statistic"])
    return found


def _allure2_item(item: Mapping[str, Any]) -> dict[str, Any]:
    time = {name: item[name] for name in ("start", "stop", "duration")}
    return {
        "uid": item["id"],
        "status": item["status"],
        "statusDetails": item["message"],
        "time": time,
    }


def _counts(point: Mapping[str, Any]) -> dict[str, int]:
    return _statistic(Counter(item["status"] for item in point["testResults"].values()))


def _statistic(counts: Mapping[str, int]) -> dict[str, int]:
    told = {status: counts.get(status, 0) for status in _STATUSES}
    return {**told, "total": sum(told.values())}


def _longest(point: Mapping[str, Any]) -> int:
    return max((item["duration"] for item in point["testResults"].values()), default=0)


def _dump(path: Path, value: Any) -> None:
    write_bytes(path, json.dumps(value).encode("ascii"))
