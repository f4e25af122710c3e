"""Two runs at once on one lab: one pool is one run's, whoever is killed."""

from __future__ import annotations

import os
import select
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.reach.kube import Kube

Run = Callable[..., Any]
ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"
HIL = (sys.executable, "-m", "harness.cli")
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
LEASE = ("coordination.k8s.io/v1", "Lease", "tenant-hil", "hil-pool-lab-plain")
ASKS = ("--lab", TWIN, "--pool", "plain", "--claim", "spec-read-back")
PATIENCE = 90.0  # seconds until a run that is started holds its pool

HOLDS = """
import os, signal
import pytest
from harness import judge

@pytest.mark.claims("spec-read-back")
def test_it(pool, record):
    record(judge.spec_read_back(pool.stored_request(), pool.written_modules, pool.subject))
    with open("held", "w") as held:
        held.write("y")
    {then}
"""


@pytest.fixture
def attached(left_up: Callable[..., Any], tmp_path: Path) -> Iterator[Path]:
    with left_up(tmp_path / "twin") as directory:
        yield directory


@pytest.fixture
def holder(start: Run, attached: Path, tmp_path: Path) -> Callable[[str], Any]:
    """Start a run that holds the pool `plain`; returned once it does."""

    def begin(then: str) -> Any:
        (tmp_path / "test_own.py").write_text(HOLDS.format(then=then))
        os.mkfifo(tmp_path / "held")
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider"]
        command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path)]
        command += ["-p", "harness.plugin", "test_own.py", *map(str, ASKS)]
        command += ["--attach", str(attached), "--out", str(tmp_path / "out"), "--run-id", "first"]
        run = start(command, cwd=tmp_path)
        told = os.open(tmp_path / "held", os.O_RDONLY | os.O_NONBLOCK)
        readable, _, _ = select.select([told], [], [], PATIENCE)
        os.close(told)
        assert readable or run.process.poll() is None, run.end().said
        assert readable, "the run does not hold its pool"
        return run

    return begin


def second(hil: Run, attached: Path, tmp_path: Path, *more: str) -> Any:
    out = ("--out", tmp_path / "out", "--run-id", f"second{len(more)}")
    return hil("run", *ASKS, "--attach", attached, *out, *more)


def test_a_dead_run_is_waited_for_until_its_lease_runs_out_and_what_it_left_is_gone(
    hil: Run, holder: Any, attached: Path, kube: Kube, tmp_path: Path
) -> None:
    first = holder("signal.pause()")
    at_once = second(hil, attached, tmp_path)
    at_once.assert_sentence(3, "held by first since", "spec-read-back")
    first.process.kill()
    assert first.end().status == -signal.SIGKILL
    assert len(kube.list(*NODES)) == 1
    waited = second(hil, attached, tmp_path, "--wait", "20m")
    assert waited.status == 0, waited.said
    assert (
        "pool plain waits for run first, which holds lease hil-pool-lab-plain since" in waited.err
    )
    assert "pool plain was left by an earlier run; it is taken down first" in waited.err
    assert kube.list(*NODES) == []
    assert "holderIdentity" not in (kube.get(*LEASE) or {"spec": {"holderIdentity": 1}})["spec"]


def test_a_live_run_is_waited_for_and_keeps_what_it_has(
    start: Run, holder: Any, attached: Path, kube: Kube, tmp_path: Path
) -> None:
    first = holder("while not os.path.exists('go'): pool.pause(0.5, 'a long scenario')")
    options = (
        "--attach",
        attached,
        "--out",
        tmp_path / "out",
        "--run-id",
        "second",
        "--wait",
        "9h",
    )
    later = start([*HIL, "run", *map(str, (*ASKS, *options))])
    later.hear("waits for run first")
    (tmp_path / "go").touch()
    ended, waited = first.end(), later.end()
    assert ended.status == 0, ended.said
    assert waited.status == 0, waited.said
    assert "left by an earlier run" not in waited.err
    assert kube.list(*NODES) == []
    lease = kube.get(*LEASE)
    assert lease is not None
    assert lease["spec"]["leaseTransitions"] == 1


@pytest.mark.parametrize("wait", ["20", "soon", "-1m"])
def test_a_time_that_is_none_is_a_mistake(hil: Run, wait: str) -> None:
    hil("run", "--plan", f"--wait={wait}").assert_sentence(2, "is no length of time")
