from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from harness.report.ledger import Ledger, merge
from harness.report.records import LedgerError
from harness.report.rundir import RunDirectory, RunInfo, new_run_id, read_run

AT = 1767225600.9


def test_a_run_id_tells_time_and_lab() -> None:
    assert new_run_id(AT, "Lab L40S/1", suffix="00ff") == "20260101-000000-lab-l40s-1-00ff"
    assert re.fullmatch(r"20260101-000000-twin-[0-9a-f]{4}", new_run_id(AT, "twin"))
    assert len({new_run_id(AT, "twin") for _ in range(20)}) > 1
    assert new_run_id(AT, "../..", suffix="0000") == "20260101-000000-lab-0000"


def test_a_run_has_a_folder_of_its_own(tmp_path: Path) -> None:
    run = RunDirectory(tmp_path / "out", "one").create()
    with Ledger(run.path, "plan") as ledger:
        assert ledger.path.parent == run.shards
    assert merge(run.path, ["plan"]) == run.ledger
    assert run.allure_results.is_dir()
    with pytest.raises(FileExistsError):
        run.create()


def test_latest_follows_the_last_run(tmp_path: Path) -> None:
    for name in ("one", "two"):
        link = RunDirectory(tmp_path, name).create().point_latest()
        assert link.resolve() == (tmp_path / name).resolve()
    assert not link.readlink().is_absolute()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latest", "one", "two"]


def test_what_is_known_of_a_run_is_read_back(tmp_path: Path) -> None:
    info = RunInfo("id", "twin", "merge", AT, versions={"z": "1", "a": "2"}, fault="f", exit=1)
    again = read_run(info.write(tmp_path / "run.json"))
    assert again == info
    assert list(again.versions) == ["z", "a"]


def test_secrets_do_not_reach_run_json(tmp_path: Path) -> None:
    info = RunInfo("id", "twin", "merge", AT, fault="--token hunter2", versions={"token": "x1"})
    text = info.write(tmp_path / "run.json").read_text()
    assert "hunter2" not in text and "x1" not in text


@pytest.mark.parametrize(
    "text",
    [None, "", "{", "[]", '{"schema": "hil.run/9"}', '{"schema": "hil.run/1", "lab": "twin"}'],
    ids=["missing", "empty", "cut", "list", "other schema", "fields missing"],
)
def test_a_run_that_cannot_be_read_says_which(tmp_path: Path, text: str | None) -> None:
    path = tmp_path / "run.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(LedgerError, match=r"run\.json"):
        read_run(path)


@pytest.mark.parametrize(
    "field",
    [
        {"ended": "yesterday"},
        {"ended": float("nan")},
        {"ended": 1e300},
        {"started": None},
        {"started": True},
        {"subject": 5},
        {"run_id": None},
        {"kind": 7},
        {"exit": "0"},
        {"versions": ["x"]},
        {"executor": [1]},
    ],
    ids=str,
)
def test_a_field_that_no_run_writes_is_a_sentence(tmp_path: Path, field: dict[str, object]) -> None:
    path = RunInfo("id", "twin", "merge", AT).write(tmp_path / "run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **field}))
    with pytest.raises(LedgerError, match=f"{next(iter(field))} is .*which no run writes"):
        read_run(path)


def test_a_newer_field_is_passed_over(tmp_path: Path) -> None:
    path = RunInfo("id", "twin", "merge", AT).write(tmp_path / "run.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), "weather": "rain"}))
    assert read_run(path).lab == "twin"
