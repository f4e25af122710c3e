"""Two pools of one lab at once: the verdicts of one after the other, in the time of one."""

from __future__ import annotations

import json
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.clock import WallClock
from harness.inventory.loading import load
from harness.reach.access import client_from_file
from harness.reach.kube import Kube
from harness.twin.process import TwinProcess

ROOT = Path(__file__).resolve().parents[2]
TWIN = ROOT / "inventory" / "twin.yaml"
HIL = (sys.executable, "-m", "harness.cli")
WINDOW = 93 * 60.0
CLAIMS = ("node-joins", "uptime", "nothing-left")
ASKS = ("--lane", "hardware", *(word for claim in CLAIMS for word in ("--claim", claim)))
NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
LEASES = ("coordination.k8s.io/v1", "Lease", "tenant-hil")


@pytest.fixture
def attached(start: Any, tmp_path: Path) -> Iterator[Path]:
    """The directory of a twin that `hil twin up` left running."""
    directory = tmp_path / "twin"
    twin = start([*HIL, "twin", "up", "--dir", str(directory)])
    assert "the twin is up" in twin.process.stdout.readline()
    yield directory
    twin.interrupt(signal.SIGINT, group=False)
    assert twin.end().status == 0


def records(run: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (run / "ledger.jsonl").read_text().splitlines()]


def verdicts(run: Path) -> dict[tuple[str, str, str], str]:
    found = [one for one in records(run) if one["record"] == "verdict"]
    return {(one["claim"], one["pool"], one["scenario"]): one["outcome"] for one in found}


def lasted(run: Path) -> float:
    """Seconds of the lab's time from the first scenario's beginning to the last one's end."""
    kinds = ("begin", "end")
    told = [one["at"] for one in records(run) if one["record"] in kinds and one.get("at")]
    at = [datetime.fromisoformat(one).timestamp() for one in told]
    return max(one for one in at if one) - min(one for one in at if one)


def test_two_at_once_judge_as_one_after_the_other_and_their_windows_overlap(
    hil: Callable[..., Any], attached: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    for workers in ("1", "2"):
        ended = hil(
            "run", *ASKS, "--attach", attached, "--workers", workers,
            "--out", out, "--run-id", f"w{workers}",
        )  # fmt: skip
        assert ended.status == 0, ended.said
    one, two = verdicts(out / "w1"), verdicts(out / "w2")
    assert one == two
    assert {claim for claim, _, _ in two} == set(CLAIMS)
    assert {pool for _, pool, _ in two} == {"gpu-l40s", "plain"}
    assert lasted(out / "w1") > 2 * WINDOW
    assert lasted(out / "w2") < 1.2 * WINDOW


def test_an_interrupt_lets_go_of_every_pool(start: Any, attached: Path, tmp_path: Path) -> None:
    kube = Kube("management", client_from_file(attached / "kubeconfig", "management"), WallClock())
    options = ("--attach", attached, "--out", tmp_path / "out", "--run-id", "cut")
    run = start([*HIL, "run", "--lane", "hardware", *map(str, options)])
    for _ in range(2):
        run.hear("asking for pool")
    run.interrupt(signal.SIGINT, group=False)
    ended = run.end()
    assert ended.status == 130, ended.said
    assert ended.err.count("deleting pool") == 2
    assert kube.list(*NODES) == []
    assert [one for one in kube.list(*LEASES) if one["spec"].get("holderIdentity")] == []


@pytest.fixture
def both(tmp_path: Path) -> Iterator[tuple[ConnectedLab, ConnectedLab]]:
    """Two clients of one twin, each with a seat at its clock."""
    twin = TwinProcess(tmp_path / "twin", seed=1)
    way = Reachable(twin.endpoint.kubeconfig, "management", twin.endpoint.clock_url)
    labs = [connect(load(TWIN), way, "mine", seat=name) for name in ("a", "b")]
    yield labs[0], labs[1]
    for lab in labs:
        lab.close()
    twin.close()


def test_time_does_not_move_under_who_computes(both: tuple[ConnectedLab, ConnectedLab]) -> None:
    first, second = both
    began, told = first.clock.now(), []

    def wait() -> None:
        second.clock.sleep(1000)
        told.append("over")

    waits = threading.Thread(target=wait)
    waits.start()
    for _ in range(20):  # it asks, and writes, and its time stands still
        second_now = second.clock.now()
        first.management.list("v1", "Node")
        assert (first.clock.now(), second_now) == (began, began)
    assert told == []
    first.clock.sleep(400)
    assert first.clock.now() == began + 400
    assert second.clock.now() <= began + 400
    first.close()
    waits.join(60)
    assert told == ["over"]
    assert second.clock.now() == began + 1000


def test_what_one_writes_the_other_sees_at_the_same_moment(
    both: tuple[ConnectedLab, ConnectedLab],
) -> None:
    first, second = both
    feed = second.observatory.feed(second.management, "v1", "ConfigMap", "tenant-hil")
    seen: list[float] = []

    def look() -> bool:
        return feed.object("told") is not None

    def wait() -> None:
        assert second.clock.wait(look, second.clock.deadline(5000), "to be told")
        seen.append(second.clock.now())

    waits = threading.Thread(target=wait)
    waits.start()
    first.clock.sleep(100)
    told = {"metadata": {"name": "told", "namespace": "tenant-hil"}, "data": {}}
    first.management.create({"apiVersion": "v1", "kind": "ConfigMap", **told})
    wrote = first.clock.now()
    first.clock.sleep(0)
    first.close()
    waits.join(60)
    assert seen == [wrote]
