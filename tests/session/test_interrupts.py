"""Runs that are cut short: nothing is left running, nothing that was seen is lost."""

from __future__ import annotations

import json
import re
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.clock import WallClock
from harness.reach.access import client_from_file
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease
from harness.session.interrupts import ANSWER, Interrupts
from tests.session.conftest import asked

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
    record(judge.schematic_consistent(pool.boot_source(), pool.install_image(), pool.subject))
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
def attached(start: Run, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The directory of a twin that `hil twin up` left running."""
    directory = tmp_path_factory.mktemp("twin")
    twin = start([*HIL, "twin", "up", "--dir", str(directory)])
    assert "the twin is up" in twin.process.stdout.readline()
    yield directory
    twin.interrupt(signal.SIGINT, group=False)
    assert twin.end().status == 0


@pytest.fixture
def kube(attached: Path) -> Kube:
    client = client_from_file(attached / "kubeconfig", "management")
    return Kube("management", client, WallClock())


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
    own: Run, attached: Path, kube: Kube, tmp_path: Path
) -> None:
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


def test_the_first_ends_the_second_is_answered_the_third_obeyed(
    capfd: pytest.CaptureFixture[str],
) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    interrupts = Interrupts()
    interrupts.install()
    try:
        with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
            signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGINT)
        assert capfd.readouterr().err == ANSWER.decode()
        with pytest.raises(KeyboardInterrupt, match="SIGINT"):
            signal.raise_signal(signal.SIGINT)
        interrupts.ignore()
        signal.raise_signal(signal.SIGINT)
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert interrupts.arrived == 3
