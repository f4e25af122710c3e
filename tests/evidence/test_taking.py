"""What was planned is told whatever comes of it; failures of one pool share what is the same."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from harness.clock import Clock
from harness.diagnose.case import Case, Kind, Text
from harness.evidence.manifest import Manifest
from harness.evidence.taking import FILE_LIMIT, FRESH, Budget, Got, Part, PoolEvidence
from harness.reach.errors import LabError, Unreachable


@dataclass
class Times:
    """A lab's time and the runner's, both moved by hand."""

    lab: float = 1000.0
    runner: float = 0.0

    def now(self) -> float:
        return self.lab

    def monotonic(self) -> float:
        return self.runner


@dataclass
class Asked:
    """A part that counts how often it was taken."""

    name: str
    text: str = "said"
    error: Exception | KeyboardInterrupt | None = None
    place: str = "cluster"
    takes: float = 0.0
    times: Times | None = None
    case: Case = field(default_factory=Case)
    version: Any = None
    count: int = 0

    def part(self) -> Part:
        version = None if self.version is None else lambda: self.version
        return Part(self.name, f"{self.name}.txt", self.place, self.take, version)

    def take(self) -> Got:
        self.count += 1
        if self.times is not None:
            self.times.runner += self.takes
        if self.error is not None:
            raise self.error
        return Got(self.text, self.case)


@pytest.fixture
def times() -> Times:
    return Times()


def evidence(root: Path, times: Times, budget: Budget | None = None) -> PoolEvidence:
    return PoolEvidence(root, cast("Clock", times), budget or Budget())


def manifest(scenario: str = "it") -> Manifest:
    return Manifest(scenario, "p", 1000.0, "claim broken", 90.0)


def told(root: Path, folder: str) -> dict[str, Any]:
    read: dict[str, Any] = json.loads((root / folder / "manifest.json").read_text())
    return read


def statuses(root: Path, folder: str) -> dict[str, str]:
    return {one["name"]: one["status"] for one in told(root, folder)["items"]}


def test_each_part_is_told_with_what_became_of_it(tmp_path: Path, times: Times) -> None:
    parts = [
        Asked("whole"),
        Asked("long", "x" * (FILE_LIMIT + 5)),
        Asked("empty", ""),
        Asked("refused", error=LabError("ask", "403 Forbidden", "get the right to")),
    ]
    evidence(tmp_path, times).take(manifest(), "a", [one.part() for one in parts])
    assert statuses(tmp_path, "a") == {
        "whole": "taken", "long": "truncated", "empty": "empty", "refused": "failed"
    }  # fmt: skip
    score = told(tmp_path, "a")["score"]
    assert (score["planned"], score["taken"], score["failed"], score["share"]) == (4, 1, 1, 0.75)
    assert told(tmp_path, "a")["items"][3]["why"] == "403 Forbidden"
    assert (tmp_path / "a" / "whole.txt").read_text() == "said"
    assert (tmp_path / "a" / "long.txt").stat().st_size < FILE_LIMIT + 100


def test_what_the_budget_does_not_reach_is_planned_all_the_same(
    tmp_path: Path, times: Times
) -> None:
    slow, late = Asked("slow", takes=91.0, times=times), Asked("late")
    taken = evidence(tmp_path, times).take(manifest(), "a", [slow.part(), late.part()])
    assert statuses(tmp_path, "a") == {"slow": "taken", "late": "skipped"}
    assert "90 s were up" in told(tmp_path, "a")["items"][1]["why"]
    assert late.count == 0
    assert [one.source for one in taken.case.unused] == ["late"]


def test_the_labs_time_is_a_budget_too(tmp_path: Path, times: Times) -> None:
    first = Asked("first")
    taking = evidence(tmp_path, times, Budget(lab=0.0))
    taking.take(manifest(), "a", [first.part()])
    assert statuses(tmp_path, "a") == {"first": "skipped"}


def test_many_failures_of_one_pool_do_not_take_for_ever(tmp_path: Path, times: Times) -> None:
    taking = evidence(tmp_path, times, Budget(seconds=10.0, pool=15.0))
    for number in range(3):
        slow = Asked(f"slow-{number}", takes=8.0, times=times)
        taking.take(manifest(), f"f{number}", [slow.part()])
    assert statuses(tmp_path, "f2") == {"slow-2": "skipped"}


def test_secrets_do_not_get_into_a_file(tmp_path: Path, times: Times) -> None:
    secret = Asked("log", "password: hunter2\ntoken=abcdef.0123456789abcdef\n")
    failed = Asked("other", error=LabError("ask", "Bearer eyJhbGciOi.eyJzdWIi.c2ln", "x"))
    evidence(tmp_path, times).take(manifest(), "a", [secret.part(), failed.part()])
    written = "".join(one.read_text() for one in (tmp_path / "a").iterdir())
    for word in ("hunter2", "0123456789abcdef", "eyJhbGciOi.eyJzdWIi"):
        assert word not in written


def test_another_failure_refers_to_what_was_just_asked(tmp_path: Path, times: Times) -> None:
    asked = Asked("log", case=Case(texts=(Text(Kind.LOG, "said"),)))
    taking = evidence(tmp_path, times)
    taking.take(manifest(), "a", [asked.part()])
    times.lab += FRESH - 1
    taken = taking.take(manifest(), "b", [asked.part()])
    assert asked.count == 1
    assert taken.asked == 0
    assert [one.text for one in taken.case.texts] == ["said"]
    (item,) = told(tmp_path, "b")["items"]
    assert (item["status"], item["file"]) == ("taken", "../a/log.txt")
    assert (tmp_path / "b" / item["file"]).resolve() == tmp_path / "a" / "log.txt"
    times.lab += 2
    assert taking.take(manifest(), "c", [asked.part()]).asked == 1


def test_a_scenario_that_breaks_machines_asks_anew(tmp_path: Path, times: Times) -> None:
    asked = Asked("log")
    taking = evidence(tmp_path, times)
    taking.take(manifest(), "a", [asked.part()])
    taking.take(manifest(), "b", [asked.part()], anew=True)
    assert asked.count == 2


def test_a_feed_is_written_again_once_it_has_gone_on(tmp_path: Path, times: Times) -> None:
    feed = Asked("pods", version=1)
    taking = evidence(tmp_path, times)
    taking.take(manifest(), "a", [feed.part()])
    taking.take(manifest(), "b", [feed.part()], anew=True)
    feed.version = 2
    taking.take(manifest(), "c", [feed.part()])
    assert feed.count == 2
    assert told(tmp_path, "b")["items"][0]["file"] == "../a/pods.txt"
    assert told(tmp_path, "c")["items"][0]["file"] == "pods.txt"


def test_a_cluster_that_does_not_answer_is_not_asked_for_ever(tmp_path: Path, times: Times) -> None:
    gone = [Asked(f"n{i}", error=Unreachable("ask", "no route", "x")) for i in range(4)]
    other = Asked("feed", place="feeds")
    parts = [one.part() for one in (*gone, other)]
    evidence(tmp_path, times).take(manifest(), "a", parts)
    assert [one.count for one in gone] == [1, 1, 0, 0]
    assert list(statuses(tmp_path, "a").values()) == [
        "failed", "failed", "skipped", "skipped", "taken"
    ]  # fmt: skip


def test_an_interrupt_leaves_what_is_there_and_says_so(tmp_path: Path, times: Times) -> None:
    parts = [Asked("first"), Asked("second", error=KeyboardInterrupt()), Asked("third")]
    with pytest.raises(KeyboardInterrupt):
        evidence(tmp_path, times).take(manifest(), "a", [one.part() for one in parts])
    assert statuses(tmp_path, "a") == {"first": "taken", "second": "skipped", "third": "skipped"}
    assert {one["why"] for one in told(tmp_path, "a")["items"][1:]} == {"the run was interrupted"}


def test_a_kill_leaves_the_plan(tmp_path: Path, times: Times) -> None:
    def look() -> Got:
        seen.append(statuses(tmp_path, "a"))
        return Got("said")

    seen: list[dict[str, str]] = []
    parts = [Part("first", "first.txt", "c", look), Asked("second").part()]
    evidence(tmp_path, times).take(manifest(), "a", parts)
    assert seen == [{"first": "skipped", "second": "skipped"}]
