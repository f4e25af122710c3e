"""Runs that are killed: what is left in their folder, and what `hil report` makes of it.

Each test starts a real `hil run` on the twin, waits for a record to appear in its ledger, lets the
twin stand still so that the scenario cannot get any further, and kills.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from harness.clock import WallClock
from tests.session.conftest import HIL, Ended, Started, lives

Start = Callable[..., Started]
Run = Callable[..., Ended]
PATIENCE = 90.0
SOAK = "test_workers_stay_on_one_boot"
JOIN = "test_workers_join"


def until(look: Callable[[], Any], what: str) -> Any:
    """What ``look`` gives, once that is something."""
    clock, never = WallClock(), threading.Event()
    deadline = clock.deadline(PATIENCE)
    while not (found := look()):
        assert not deadline.expired, f"{what} did not come in {PATIENCE:.0f} s"
        clock.back_off(0.01, never)
    return found


@dataclass
class Killed:
    """A run of two pools, or one, that is going on."""

    started: Started
    run: Path
    twins: dict[str, int] = field(default_factory=dict)

    def records(self, kind: str = "", pool: str = "plain") -> list[dict[str, Any]]:
        """What a pool's shard holds so far; a line in the making is left out."""
        shard = self.run / "ledger.d" / f"pool-{pool}.jsonl"
        text = shard.read_text() if shard.exists() else ""
        found = [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]
        return [record for record in found if kind in ("", record["record"])]

    def twin(self, pool: str = "plain") -> int:
        """The process of a pool's twin; it is remembered, for a twin that ends takes its file."""
        if pool not in self.twins:
            told = self.run / "twin" / pool / "twin.json"
            self.twins[pool] = int(json.loads(told.read_text())["pid"])
        return self.twins[pool]

    def worker(self, pool: str = "plain") -> int:
        """The process that drives a pool: the parent of its twin."""
        stat = Path(f"/proc/{self.twin(pool)}/stat").read_text()
        return int(stat.rpartition(")")[2].split()[1])

    def in_bring_up(self) -> None:
        """Wait until the pool was asked for, and hold its twin still."""
        until(lambda: [r for r in self.records("note") if "asking for" in r["text"]], "the pool")
        os.kill(self.twin(), signal.SIGSTOP)

    def in_soak(self) -> None:
        """Wait until the soak has lasted for some time, and hold the twin still."""
        until(lambda: [r for r in self.records("wait") if "of uptime" in r["what"]], "the soak")
        os.kill(self.twin(), signal.SIGSTOP)

    def go_on(self) -> None:
        os.kill(self.twin(), signal.SIGCONT)

    def allure(self) -> dict[str, dict[str, Any]]:
        """Results by the scenario's name, of the pool `plain`."""
        found = {}
        for path in (self.run / "allure-results").glob("*-result.json"):
            result = json.loads(path.read_text())
            pools = [one["value"] for one in result["parameters"] if one["name"] == "pool"]
            if pools == ["plain"]:
                found[result["fullName"].rpartition("#")[2]] = result
        return found


@pytest.fixture
def going(start: Start, tmp_path: Path) -> Iterator[Callable[..., Killed]]:
    """Start a run; its twins are let go at the end, so that none stays."""
    made: list[Killed] = []

    def going(*argv: str) -> Killed:
        command = [*HIL, "run", "--out", str(tmp_path), "--run-id", "k", "--quiet", *argv]
        made.append(Killed(start(command), tmp_path / "k"))
        return made[-1]

    yield going
    for one in made:
        for told in one.run.glob("twin/*/twin.json"):
            pid = int(json.loads(told.read_text())["pid"])
            if lives(pid):
                os.kill(pid, signal.SIGCONT)


SHORT = ("--pool", "plain", "--claim", "node-joins", "--claim", "uptime", "--lane", "hardware")


def tags(result: Mapping[str, Any]) -> list[str]:
    return [label["value"] for label in result["labels"] if label["name"] == "tag"]


def assert_interrupted(result: Mapping[str, Any]) -> None:
    assert result["status"] == "broken"
    assert result["statusDetails"]["message"].startswith("interrupted: ")
    assert tags(result) == ["interrupted"]


def assert_rebuilt(hil: Run, killed: Killed) -> None:
    """What the folder of a run killed in its soak gives: twice the same, and nothing lost."""
    first = hil("report", killed.run)
    assert first.status == 0, first.said
    assert "Traceback" not in first.said
    kept = [json.loads(line) for line in (killed.run / "ledger.jsonl").read_text().splitlines()]
    assert [r["scenario"] for r in kept if r["record"] == "not-run"] == [SOAK]
    assert {r["why"] for r in kept if r["record"] == "not-run"} == {"the run was killed"}
    signed = json.loads((killed.run / "signoff.json").read_text())
    assert signed["signable"] is False
    shown = killed.allure()
    assert shown[JOIN]["status"] == "passed"
    assert_interrupted(shown[SOAK])
    cases = ElementTree.parse(killed.run / "junit.xml").getroot().findall(".//testcase")
    assert {c.get("name"): [e.tag for e in c] for c in cases} == {JOIN: [], SOAK: ["error"]}
    before = contents(killed.run)
    assert hil("report", killed.run).status == 0
    assert contents(killed.run) == before


def contents(run: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(run)): path.read_bytes()
        for path in sorted(run.rglob("*"))
        if path.is_file() and "twin/" not in str(path.relative_to(run))
    }


def test_everything_is_killed_in_the_middle_of_a_soak(
    going: Any, hil: Run, gone: Callable[[int], bool]
) -> None:
    """One process; Allure's results are whole before anybody rebuilds them."""
    killed = going(*SHORT, "--workers", "0")
    killed.in_soak()
    killed.started.interrupt(signal.SIGKILL, group=True)
    killed.started.end()
    shown = killed.allure()
    assert shown[JOIN]["status"] == "passed"
    assert_interrupted(shown[SOAK])
    assert "while it waited for" in shown[SOAK]["statusDetails"]["message"]
    waits = [step for step in shown[SOAK]["steps"] if "of uptime" in step["name"]]
    assert len(waits) == 1
    assert waits[0]["stop"] - waits[0]["start"] >= 300_000  # of the lab's milliseconds
    assert not (killed.run / "ledger.jsonl").exists()
    twin = killed.twin()
    killed.go_on()
    assert gone(twin)
    assert_rebuilt(hil, killed)


def test_killed_in_bring_up_what_was_never_begun_is_there_too(going: Any, hil: Run) -> None:
    killed = going(*SHORT, "--workers", "0")
    killed.in_bring_up()
    killed.started.interrupt(signal.SIGKILL, group=True)
    killed.started.end()
    killed.go_on()
    shown = killed.allure()
    assert_interrupted(shown[JOIN])
    assert shown[SOAK]["status"] == "broken"
    assert tags(shown[SOAK]) == ["not-run"]
    assert hil("report", killed.run, "--quiet").status == 0
    assert_interrupted(killed.allure()[JOIN])
    assert tags(killed.allure()[SOAK]) == ["not-run"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_abort_in_a_soak_ends_in_order(
    going: Any, gone: Callable[[int], bool], number: signal.Signals
) -> None:
    killed = going(*SHORT, "--workers", "0")
    killed.in_soak()
    killed.started.interrupt(number, group=False)
    killed.go_on()
    ended = killed.started.end()
    ended.assert_sentence(130, "Claims: 1 not run, 1 holds")
    assert_interrupted(killed.allure()[SOAK])
    assert killed.allure()[JOIN]["status"] == "passed"
    notes = [r["text"] for r in killed.records("note")]
    assert notes[-1] == "pool plain is gone"
    assert gone(killed.twin())


PAIR = ("--pool", "plain", "--pool", "gpu-l40s", "--claim", "node-joins", "--claim", "uptime")
TWO = (*PAIR, "--lane", "hardware", "--workers", "2")


def test_a_worker_that_is_killed_neither_hangs_nor_runs_again(
    going: Any, gone: Callable[[int], bool]
) -> None:
    killed = going(*TWO)
    killed.in_soak()
    worker = killed.worker()
    assert worker != killed.started.process.pid
    os.kill(worker, signal.SIGKILL)
    killed.go_on()
    ended = killed.started.end()
    assert ended.status == 1, ended.said
    assert "died" in ended.err
    begun = Counter(r["scenario"] for r in killed.records("begin"))
    assert begun == {JOIN: 1, SOAK: 1}
    assert_interrupted(killed.allure()[SOAK])
    assert {r["outcome"] for r in killed.records("end", "gpu-l40s")} == {"passed"}
    kept = [json.loads(line) for line in (killed.run / "ledger.jsonl").read_text().splitlines()]
    lost = [(r["scenario"], r["pool"]) for r in kept if r["record"] == "not-run"]
    assert lost == [(SOAK, "plain")]
    assert gone(killed.twin())


def test_workers_end_when_their_controller_is_killed(
    going: Any, hil: Run, gone: Callable[[int], bool]
) -> None:
    """They take their pools down by themselves: no process of the run stays."""
    killed = going(*TWO)
    killed.in_soak()
    worker, twin = killed.worker(), killed.twin()
    killed.started.interrupt(signal.SIGKILL, group=False)
    killed.go_on()
    killed.started.end()
    assert gone(worker)
    assert gone(twin)
    assert not (killed.run / "ledger.jsonl").exists()
    ended = hil("report", killed.run, "--quiet")
    assert ended.status == 0, ended.said
    shown = killed.allure()
    assert shown[JOIN]["status"] == "passed"
    assert shown[SOAK]["status"] in ("broken", "passed")  # it has some seconds still
