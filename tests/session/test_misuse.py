"""Scenarios that misuse the harness, and a harness that would share a card among workers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from harness.session import hooks

Run = Callable[..., Any]

HEAD = "import pytest\nfrom harness import judge\n"
SOUND = """
@pytest.mark.claims("spec-read-back")
def test_sound(pool, record):
    record(judge.spec_read_back(pool.stored_request(), pool.written_modules, pool.subject))
"""
BUGGY = """
@pytest.mark.claims("node-joins")
def test_buggy(pool, record):
    assert [1, 2] == [1, 3], "a bug of the scenario's own"
"""
SILENT = """
@pytest.mark.claims("schematic-consistent")
def test_silent(pool, record):
    pass
"""


def test_a_bug_is_shown_with_its_traceback_and_is_no_verdict_on_the_product(
    own: Run, tmp_path: Path
) -> None:
    ended = own(HEAD + BUGGY + SILENT + SOUND, "--pool", "plain")
    assert ended.status == 1
    assert "a bug of the scenario's own" in ended.out
    assert "test_own.py:" in ended.out
    lines = (tmp_path / "out" / "own" / "ledger.jsonl").read_text().splitlines()
    verdicts = {
        r["claim"]: (r["outcome"], r["because"])
        for line in lines
        if (r := json.loads(line))["record"] == "verdict"
    }
    assert verdicts["node-joins"][0] == "unknown"
    assert "the harness failed: AssertionError" in verdicts["node-joins"][1]
    assert verdicts["spec-read-back"][0] == "holds"
    assert "schematic-consistent" not in verdicts
    assert "test_silent ended without a verdict on ['schematic-consistent']" in ended.out


@pytest.mark.parametrize(
    ("mark", "words"),
    [
        ('@pytest.mark.claims("node-joinz")', "did you mean 'node-joins'"),
        ("", "has no mark `claims`"),
    ],
)
def test_a_scenario_that_cannot_be_planned(own: Run, tmp_path: Path, mark: str, words: str) -> None:
    text = f"{HEAD}{SOUND}\n{mark}\ndef test_wrong(pool, record):\n    pass\n"
    ended = own(text, "--pool", "plain")
    assert ended.status == 2, ended.said
    assert words in ended.said


def test_a_scenario_that_cannot_be_read(own: Run) -> None:
    ended = own(HEAD + SOUND + "def test_torn(:\n", "--pool", "plain")
    assert ended.status == 2
    assert "SyntaxError" in ended.said


def config(dist: str) -> pytest.Config:
    return cast("pytest.Config", SimpleNamespace(option=SimpleNamespace(dist=dist)))


VERSIONS = [("9.2.0", "3.8.0", "yes"), ("9.3.1", "3.7.0", "yes"), ("9.1.1", "3.8.0", "")]
VERSIONS += [("9.2.0", "3.8.1", ""), ("10.0.0", "4.0.0", "")]


@pytest.mark.parametrize(("ours", "theirs", "refused"), VERSIONS)
def test_versions_that_ignore_groups_are_refused(
    monkeypatch: pytest.MonkeyPatch, ours: str, theirs: str, refused: str
) -> None:
    installed = {"pytest": ours, "pytest-xdist": theirs}
    monkeypatch.setattr(hooks, "version", installed.__getitem__)
    if not refused:
        hooks.refuse_broken_grouping(config("loadgroup"))
        return
    with pytest.raises(pytest.exit.Exception, match=r"install pytest below 9\.2") as ended:
        hooks.refuse_broken_grouping(config("loadgroup"))
    assert ended.value.returncode == 2


def test_without_groups_the_versions_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    installed = {"pytest": "9.2.0", "pytest-xdist": "3.8.0"}
    monkeypatch.setattr(hooks, "version", installed.__getitem__)
    hooks.refuse_broken_grouping(config("no"))
