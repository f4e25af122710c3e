"""The trend is told to each of Allure's renderers under the name that it knows a test by."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from harness.report import allure_history
from harness.report.allure_model import Parameter, Result
from harness.report.rundir import RunDirectory, RunInfo

POOL = (Parameter("pool", "gpu"), Parameter("lab", "twin"), Parameter("lane", "x", excluded=True))


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


def result(run: str, status: str, attempt: int = 1) -> Result:
    identity = (attempt,) if attempt > 1 else ()
    key = (run, "test_a", "gpu", attempt)
    return Result(
        key, "says", "scenarios#test_a", status, "", 1.0, 2.0, parameters=POOL, identity=identity
    )


def leave(out: Path, run: str, started: float, *results: Result) -> RunDirectory:
    directory = RunDirectory(out, run).create()
    info = RunInfo(run, "twin", "x", started, kind="twin")
    allure_history.take_along(directory, info)
    allure_history.leave(directory, info, results)
    return directory


def points(directory: RunDirectory) -> list[dict[str, Any]]:
    text = (directory.path / allure_history.OWN).read_text(encoding="ascii")
    return [json.loads(line) for line in text.splitlines()]


def test_allure_3_finds_a_test_by_the_name_that_it_makes_itself(tmp_path: Path) -> None:
    leave(tmp_path, "a", 1.0, result("a", "passed"))
    [point] = points(leave(tmp_path, "b", 2.0, result("b", "failed")))
    case = result("b", "failed").document()["testCaseId"]
    assert set(point["testResults"]) == {f"{md5(case)}.{md5('lab:twin,pool:gpu')}"}


@pytest.mark.parametrize("attempts", [1, 2])
def test_allure_2_finds_it_by_the_name_in_its_result(tmp_path: Path, attempts: int) -> None:
    for run, started in (("a", 1.0), ("b", 2.0)):
        leave(tmp_path, run, started, *(result(run, "passed", n + 1) for n in range(attempts)))
    directory = leave(tmp_path, "c", 3.0)
    told = json.loads((directory.allure_results / "history" / "history.json").read_text())
    assert set(told) == {result("c", "failed", n + 1).history_id for n in range(attempts)}
    assert [one["statistic"]["passed"] for one in told.values()] == [2] * attempts


@pytest.mark.parametrize(
    "item",
    [
        None,
        "passed",
        {},
        {"id": "x", "status": "passed"},
        {"duration": None},
        {"status": ["failed"]},
    ],
)
def test_a_line_that_no_run_left_so_is_left_out(tmp_path: Path, item: Any) -> None:
    leave(tmp_path, "a", 1.0, result("a", "passed"))
    [line] = (tmp_path / allure_history.FOLDER).rglob("*.jsonl")
    point = json.loads(line.read_text())
    [(name, whole)] = point["testResults"].items()
    told = {**whole, **item} if isinstance(item, dict) and "id" not in item and item else item
    point["testResults"][name] = told
    line.write_text(json.dumps(point) + "\n")
    assert points(leave(tmp_path, "b", 2.0, result("b", "failed"))) == []
    assert len(points(leave(tmp_path, "c", 3.0))) == 1, "the next run has what came after it"
