"""Runs that are cut short: nothing is left running, nothing that was seen is lost."""

from __future__ import annotations

import json
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clock import WallClock
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease
from harness.session.interrupts import (
    ANSWER,
    FORCED,
    ONCE,
    SAME,
    SIGNALS,
    TWICE,
    Interrupts,
)
from tests.session.conftest import PYTEST, ROOT, TWIN, asked

Run = Callable[..., Any]
HIL = (sys.executable, "-m", "harness.cli")
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
LEASE = ("coordination.k8s.io/v1", "Lease", "tenant-hil", "hil-pool-lab-plain")

HEAD = """
import json, os, pathlib, signal, sys
import pytest
from harness import judge

def note(name, pool):
    with open("begun", "a") as file:
        file.write(f"{name} {pool.name}\\n")
    twins = pathlib.Path("out/own/twin")
    pids = [json.loads(p.read_text())["pid"] for p in twins.glob("*/twin.json")]
    with open("pids", "a") as file:
        file.write("".join(f"{pid}\\n" for pid in pids))

@pytest.mark.claims("node-joins")
def test_first(pool, record):
    note("test_first", pool)
    record(judge.node_joins(pool.join, pool.request.replicas, pool.subject))
"""
CUT = """
@pytest.mark.claims("spec-read-back")
def test_cut(pool, record):
    note("test_cut", pool)
    if pool.name == "plain":
        os.{kill}
    record(judge.spec_read_back(pool.stored_request(), pool.written_modules, pool.subject))
"""
TAIL = """
@pytest.mark.claims("schematic-consistent")
def test_last(pool, record):
    note("test_last", pool)
    booting = pool.booting
    record(judge.schematic_consistent(booting.source(), booting.installer(), pool.subject))
"""
WORKERS = ("-n", "2", "--dist", "loadgroup", "--max-worker-restart=0")


def scenarios(kill: str) -> str:
    return HEAD + CUT.format(kill=kill) + TAIL


def records(run: Path, kind: str) -> list[dict[str, Any]]:
    lines = (run / "ledger.jsonl").read_text().splitlines()
    return [record for line in lines if (record := json.loads(line))["record"] == kind]


def allure(run: Path) -> dict[str, list[str]]:
    """Statuses by the function's name or, of what never ran, the scenario's."""
    found: dict[str, list[str]] = {}
    for path in run.glob("allure-results/*-result.json"):
        result = json.loads(path.read_text())
        pool = next(p["value"] for p in result["parameters"] if p["name"] == "pool")
        if "plain" in pool:
            name = result["fullName"].rpartition("#")[2]
            found.setdefault(name, []).append(result["status"])
    return found


def assert_told(run: Path, why: str) -> None:
    """What did not run on the pool `plain` is said to be so everywhere."""
    lost = [r["scenario"] for r in records(run, "not-run") if r["pool"] == "plain"]
    assert lost == ["test_cut", "test_last"]
    assert {r["why"] for r in records(run, "not-run") if r["pool"] == "plain"} == {why}
    table = (run / "summary.txt").read_text()
    assert re.search(r"^spec-read-back .*not run", table, re.M)
    assert re.search(r"^schematic-consistent .*not run", table, re.M)
    signed = json.loads((run / "signoff.json").read_text())
    assert signed["signable"] is False
    assert {r["scenario"] for r in signed["plan"]["lost"]} >= set(lost)
    shown = allure(run)
    assert shown["test_first"] == ["passed"]
    assert set(shown["test_cut"]) | set(shown["test_last"]) == {"broken"}


@pytest.mark.parametrize("kill", ["kill(os.getpid(), signal.SIGINT)", "kill(os.getpid(), 15)"])
def test_a_run_of_one_process(own: Run, tmp_path: Path, gone: Any, kill: str) -> None:
    ended = own(scenarios(kill), "--pool", "plain")
    assert ended.status == 130, ended.said
    run = tmp_path / "out" / "own"
    assert_told(run, "the run was interrupted")
    assert json.loads((run / "run.json").read_text())["exit"] == 130
    notes = [r["text"] for r in records(run, "note")]
    assert notes[-1] == "pool plain is gone"
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


UNDOING = """
from harness.bringup.errors import TakeDownIncomplete
from harness.reach.errors import LabError

@pytest.mark.claims("spec-read-back")
def test_cut(pool, record):
    note("test_cut", pool)
    try:
        os.kill(os.getpid(), signal.SIGINT)
    finally:
        {undoing}
"""


@pytest.mark.parametrize(
    ("undoing", "said"),
    [
        ("raise LabError('take it out', '503', 'wait')", "tried to take it out, saw 503: wait"),
        ("raise TakeDownIncomplete('a golden stays')", "a golden stays"),
        ("sys.exc_info()[1].add_note('look at the Package')", "look at the Package"),
    ],
)
def test_what_an_interrupted_scenario_cannot_undo_is_told(
    own: Run, tmp_path: Path, undoing: str, said: str
) -> None:
    """And is no reason to go on with the next scenario."""
    ended = own(HEAD + UNDOING.format(undoing=undoing) + TAIL, "--pool", "plain")
    assert ended.status == 130, ended.said
    run = tmp_path / "out" / "own"
    assert_told(run, "the run was interrupted")
    assert "test_last" not in (tmp_path / "begun").read_text()
    texts = [r["text"] for r in records(run, "note")]
    assert texts[-2:] == ["pool plain is gone", said]
    assert said in ended.said
    assert "Traceback" not in ended.said


def test_ctrl_c_with_workers(own: Run, tmp_path: Path, gone: Any) -> None:
    group = scenarios("killpg(os.getpgrp(), signal.SIGINT)")
    ended = own(group, "--pool", "gpu-l40s", "--pool", "plain", *WORKERS)
    assert ended.status == 130, ended.said
    run = tmp_path / "out" / "own"
    assert_told(run, "the run was interrupted")
    assert "pool plain is gone" in [r["text"] for r in records(run, "note")]
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


def test_a_worker_that_is_killed(own: Run, tmp_path: Path, gone: Any) -> None:
    kill = scenarios("kill(os.getpid(), signal.SIGKILL)")
    ended = own(kill, "--pool", "gpu-l40s", "--pool", "plain", *WORKERS)
    assert ended.status == 1, ended.said
    run = tmp_path / "out" / "own"
    assert_told(run, "ended without a verdict")
    begun = (tmp_path / "begun").read_text().splitlines()
    assert len(begun) == len(set(begun))
    assert "test_cut plain" in begun
    ended_on_plain = [r["scenario"] for r in records(run, "end") if r["pool"] == "plain"]
    assert ended_on_plain == ["test_first"]
    assert all(gone(int(pid)) for pid in (tmp_path / "pids").read_text().split())


@pytest.fixture(scope="module")
def attached(
    left_up: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Path]:
    with left_up(tmp_path_factory.mktemp("twin")) as directory:
        yield directory


def assert_as_it_was(kube: Kube) -> None:
    """No pool, and its lease held by nobody."""
    assert kube.list(*NODES) == []
    lease = kube.get(*LEASE)
    assert lease is not None
    assert "holderIdentity" not in lease["spec"]


def test_ctrl_c_while_an_attached_twin_brings_a_pool_up(
    start: Run, attached: Path, kube: Kube, tmp_path: Path
) -> None:
    command = [*HIL, "run", "--pool", "plain", "--attach", str(attached)]
    run = start([*command, "--out", str(tmp_path), "--run-id", "cut"])
    run.hear("asking for pool")
    run.interrupt(signal.SIGINT, group=True)
    ended = run.end()
    ended.assert_sentence(130, f"Claims: {asked('plain')} not run")
    # it is told that it asks before the API is asked
    assert re.search(r"pool plain (is gone|was not made)", ended.err)
    assert_as_it_was(kube)
    assert len(records(tmp_path / "cut", "not-run")) == asked("plain")
    assert (tmp_path / "cut" / "signoff.html").is_file()


def test_sigterm_in_a_scenario_on_an_attached_twin(
    own: Run, hil: Run, attached: Path, kube: Kube, tmp_path: Path
) -> None:
    # whatever an earlier pool's disks took is given back after a while, and headroom is measured
    assert hil("twin", "advance", "10m", "--dir", attached).status == 0
    kill = scenarios("kill(os.getpid(), signal.SIGTERM)")
    ended = own(kill, "--pool", "plain", "--attach", attached, "--progress")
    assert ended.status == 130, ended.said
    assert "pool plain is gone" in ended.err
    assert_as_it_was(kube)
    assert_told(tmp_path / "out" / "own", "the run was interrupted")


def test_a_pool_that_another_run_holds(
    hil: Run, attached: Path, kube: Kube, tmp_path: Path
) -> None:
    now = WallClock(offset=-WallClock().now() + 1767225600.0)  # as the twin's clock shows it
    lease = PoolLease(kube, "tenant-hil", LEASE[3], duration=3600)
    lease.acquire("run-of-somebody", now)
    try:
        ended = hil(
            *("run", "--pool", "plain", "--attach", attached, "--out", tmp_path, "--run-id", "n")
        )
    finally:
        lease.release()
    ended.assert_sentence(3, f"Claims: {asked('plain')} unknown")
    assert "saw it held by run-of-somebody since 2026-01-01" in " ".join(ended.out.split())
    assert kube.list(*NODES) == []
    verdicts = records(tmp_path / "n", "verdict")
    assert {v["outcome"] for v in verdicts} == {"unknown"}
    assert all("held by run-of-somebody" in v["because"] for v in verdicts)


@pytest.fixture
def handlers() -> Iterator[None]:
    """Puts back what handled the signals before."""
    numbers = (*SIGNALS, ONCE, TWICE)
    before = {number: signal.getsignal(number) for number in numbers}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.usefixtures("handlers")
def test_the_first_ends_in_order_the_second_forces(capfd: pytest.CaptureFixture[str]) -> None:
    times = iter([10.0, 11.0, 12.0])
    interrupts = Interrupts(lambda: next(times))
    interrupts.install()
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        signal.raise_signal(signal.SIGTERM)
    assert capfd.readouterr().err == ANSWER.decode()
    with pytest.raises(KeyboardInterrupt, match="SIGINT"):
        signal.raise_signal(signal.SIGINT)
    assert capfd.readouterr().err == FORCED.decode()
    interrupts.ignore()
    for number in (*SIGNALS, ONCE, TWICE):
        signal.raise_signal(number)
    assert interrupts.arrived == 2


@pytest.mark.usefixtures("handlers")
def test_one_press_that_comes_by_two_ways_counts_once() -> None:
    """A wrapper passes on what the terminal has sent to everybody."""
    times = iter([10.0, 10.4, 10.6])
    interrupts = Interrupts(lambda: next(times))
    interrupts.install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGINT)
    assert interrupts.arrived == 1
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


@pytest.mark.usefixtures("handlers")
def test_a_worker_that_is_told_has_counted_it_already_or_does_so_now() -> None:
    interrupts = Interrupts()
    interrupts.install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)
    signal.raise_signal(ONCE)
    assert interrupts.arrived == 1
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(TWICE)
    signal.raise_signal(TWICE)
    assert interrupts.arrived == 2


@pytest.mark.usefixtures("handlers")
def test_the_end_of_a_connection_is_no_second_press() -> None:
    """execnet sends SIGINT to its own process when the controller has closed."""
    ended, sent = threading.Event(), threading.Event()
    interrupts = Interrupts()
    interrupts.install()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)

    def _terminate_execution() -> None:
        sent.set()
        ended.wait(30)

    thread = threading.Thread(target=_terminate_execution)
    thread.start()
    try:
        sent.wait(30)
        interrupts._last = -10.0
        signal.raise_signal(signal.SIGINT)
    finally:
        ended.set()
        thread.join()
    assert interrupts.arrived == 1


SLOW = """
import pathlib
import pytest
from harness.clock import WallClock
from harness.session.pools import Pools

take_down = Pools.release

def note(name, word):
    with open(name, "a") as file:
        file.write(word + "\\n")

def slow(self):
    name = self.held
    if self._held is not None:
        note(name, "begun")
        WallClock().sleep({seconds})
        note(name, "whole")
    take_down(self)

Pools.release = slow

@pytest.mark.claims("node-joins")
def test_first(pool, record):
    note(f"at-{{pool.name}}", "here")
    WallClock().sleep(60)
"""
TWO = ("--pool", "plain", "--pool", "cloned")


def begin_slow(start: Run, folder: Path, seconds: float) -> Any:
    """Two workers, each in the midst of a scenario whose take-down will last so long."""
    (folder / "test_own.py").write_text(SLOW.format(seconds=seconds))
    command = [*PYTEST, "-c", str(ROOT / "pyproject.toml"), "--rootdir", str(folder)]
    command += ["-p", "harness.plugin", "test_own.py", "--lab", str(TWIN), *TWO, *WORKERS]
    run = start([*command, "--out", str(folder / "out"), "--run-id", "own"], cwd=folder)
    there(folder / "at-plain")
    there(folder / "at-cloned")
    return run


def there(path: Path) -> None:
    """Wait for a file."""
    clock, never = WallClock(), threading.Event()
    deadline = clock.deadline(90)
    while not path.exists() and not deadline.expired:
        clock.back_off(0.02, never)
    assert path.exists(), path


def test_one_press_is_one_whole_take_down_in_each_worker(start: Run, tmp_path: Path) -> None:
    """Longer than execnet waits before it sends SIGINT to the worker itself."""
    run = begin_slow(start, tmp_path, 6)
    run.interrupt(signal.SIGINT, group=True)
    ended = run.end()
    assert ended.status == 130, ended.said
    assert (tmp_path / "plain").read_text() == "begun\nwhole\n"
    assert (tmp_path / "cloned").read_text() == "begun\nwhole\n"
    assert ended.err.count(ANSWER.decode()) == 1
    assert FORCED.decode() not in ended.err
    gone_ = [r["text"] for r in records(tmp_path / "out" / "own", "note")]
    assert {"pool plain is gone", "pool cloned is gone"} <= set(gone_)


def test_a_second_press_leaves_it_standing(start: Run, tmp_path: Path) -> None:
    run = begin_slow(start, tmp_path, 60)
    run.interrupt(signal.SIGINT, group=False)  # the workers hear of it from the controller
    there(tmp_path / "plain")
    there(tmp_path / "cloned")
    WallClock().back_off(SAME, threading.Event())
    run.interrupt(signal.SIGINT, group=False)
    ended = run.end()
    assert ended.status == 130, ended.said
    assert (tmp_path / "plain").read_text() == "begun\n"
    assert FORCED.decode() in ended.err
    left = [r["text"] for r in records(tmp_path / "out" / "own", "note")]
    assert "pool plain is left standing, as was asked" in left


def test_ctrl_c_in_hil_run_takes_each_pool_down_once(start: Run, tmp_path: Path) -> None:
    command = [*HIL, "run", *TWO, "--claim", "node-joins", "--out", str(tmp_path)]
    run = start([*command, "--run-id", "cut"])
    run.hear("asking for pool")
    run.interrupt(signal.SIGINT, group=True)
    ended = run.end()
    assert ended.status == 130, ended.said
    assert ended.err.count(ANSWER.decode()) == 1
    notes = [r["text"] for r in records(tmp_path / "cut", "note")]
    asked_for = [text for text in notes if text.startswith("asking for pool")]
    assert asked_for
    for pool in ("plain", "cloned"):
        ends = [text for text in notes if re.fullmatch(f"pool {pool} (is gone|was not made)", text)]
        assert len(ends) == sum(f"pool {pool}:" in text for text in asked_for)
