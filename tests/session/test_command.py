"""How `hil run` calls pytest."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from harness import cli

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What pytest was called with, without its being run."""
    calls: list[list[str]] = []

    def main(argv: list[str], plugins: Any) -> int:
        calls.append(argv)
        return 0

    monkeypatch.setattr(pytest, "main", main)
    return calls


def test_a_worker_that_dies_is_not_replaced_and_a_pool_stays_on_its_worker(
    called: list[list[str]],
) -> None:
    assert cli.main(["run"]) == 0
    (argv,) = called
    assert "--max-worker-restart=0" in argv
    assert argv[argv.index("--dist") + 1] == "loadgroup"
    assert argv[argv.index("-n") + 1] == "2"


@pytest.mark.parametrize(
    "options", [["--pool", "plain"], ["--workers", "0"], ["--workers", "1"], ["--plan"]]
)
def test_one_pool_is_driven_by_one_process(options: list[str], called: list[list[str]]) -> None:
    assert cli.main(["run", *options]) == 0
    assert "-n" not in called[0]


@pytest.mark.parametrize(
    ("options", "processes"),
    [
        (["--attach", "somewhere"], "2"),
        (["--attach", "somewhere", "--workers", "9"], "4"),
        (["--lab", "lab-l40s.yaml"], "2"),
        (["--lab", "lab-l40s.yaml", "--lane", "hardware", "--workers", "4"], "2"),
        (["--lab", "lab-l40s.yaml", "--lane", "quick"], ""),
        (["--lab", "lab-l40s.yaml", "--workers", "1"], ""),
        (["--attach", "somewhere", "--lane", "everything"], ""),
        (["--lab", "qemu-mini.yaml", "--attach", "somewhere"], ""),
    ],
)
def test_pools_of_a_lab_that_is_there_are_driven_at_once_where_they_may_be(
    options: list[str], processes: str, called: list[list[str]]
) -> None:
    labs = ROOT / "inventory"
    argv = [str(labs / one) if one.endswith(".yaml") else one for one in options]
    assert cli.main(["run", *argv]) == 0
    (argv,) = called
    assert (argv[argv.index("-n") + 1] if "-n" in argv else "") == processes
    attached = [word for word in argv if word.startswith("--attach=")]
    assert len(attached) == options.count("--attach")
    assert all(word.startswith("--attach=/") for word in attached)


def test_the_plan_is_told_how_many_pools_are_driven_at_once(called: list[list[str]]) -> None:
    assert cli.main(["run", "--attach", "somewhere", "--plan"]) == 0
    assert "--at-once=2" in called[0]
    assert "-n" not in called[0]


@pytest.mark.parametrize(("lab", "left"), [("twin", ".hil"), ("qemu-mini", ".hil/qemu")])
def test_a_lab_that_runs_already_is_looked_for_where_its_verb_leaves_it(
    lab: str, left: str, called: list[list[str]]
) -> None:
    inventory = str(ROOT / "inventory" / f"{lab}.yaml")
    assert cli.main(["run", "--lab", inventory, "--attach"]) == 0
    assert cli.main(["run", "--lab", inventory, "--attach", "."]) == 0
    assert [word for argv in called for word in argv if word.startswith("--attach=")] == [
        f"--attach={Path(left).resolve()}",
        f"--attach={Path().resolve()}",
    ]


def test_no_more_workers_than_pools(called: list[list[str]]) -> None:
    assert cli.main(["run", "--workers", "8"]) == 0
    argv = called[0]
    assert argv[argv.index("-n") + 1] == "4"


def test_guests_are_made_for_each_process_though_they_are_one_set(called: list[list[str]]) -> None:
    inventory = str(ROOT / "inventory" / "qemu-mini.yaml")
    assert cli.main(["run", "--lab", inventory]) == 0
    assert cli.main(["run", "--lab", inventory, "--workers", "3"]) == 0
    assert cli.main(["run", "--lab", inventory, "--workers", "0"]) == 0
    assert [argv[argv.index("-n") + 1] for argv in called if "-n" in argv] == ["2", "3"]
    assert "-n" not in called[2]


@pytest.mark.parametrize(("options", "progress"), [([], 1), (["--quiet"], 0), (["--plan"], 0)])
def test_progress_is_told_unless_nobody_wants_it(
    options: list[str], progress: int, called: list[list[str]]
) -> None:
    assert cli.main(["run", *options]) == 0
    assert called[0].count("--progress") == progress


def test_options_for_pytest_are_left_out_and_said_so(
    called: list[list[str]], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PYTEST_ADDOPTS", "-k nothing")
    assert cli.main(["run"]) == 0
    assert len(called) == 1
    assert "PYTEST_ADDOPTS" not in os.environ
    assert capsys.readouterr().err == (
        "hil: PYTEST_ADDOPTS (-k nothing) is not for hil run and is left out\n"
    )
