"""Storage nodes lost beneath a worker, on a twin: what is done, seen, and put right again."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from harness import judge
from harness.bringup import disk_failover as trial_module
from harness.bringup.connect import ConnectedLab, Reachable, connect
from harness.bringup.disk_failover import disk_failover
from harness.bringup.keeper import hold
from harness.bringup.pool import HeldPool
from harness.facts.diskfailover import DiskFailover, Freeze
from harness.facts.fact import Unread
from harness.inventory.loading import load
from harness.reach.errors import LabError
from harness.twin.process import TwinLink, TwinPower, TwinProcess

INVENTORY = Path(__file__).resolve().parents[2] / "inventory" / "twin.yaml"
HOSTS = ("hv-1", "hv-2", "hv-3")
CONTROL = "node-role.kubernetes.io/control-plane"


@pytest.fixture(scope="module")
def pool(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HeldPool]:
    """A pool of one worker on a twin of its own; each test leaves it as it was."""
    process = TwinProcess(tmp_path_factory.mktemp("failover"), seed=1)
    way = Reachable(process.endpoint.kubeconfig, "management", process.endpoint.clock_url)
    inventory = load(INVENTORY)
    one = inventory.pools["plain"].model_copy(update={"replicas": 1})
    lab = connect(inventory.model_copy(update={"pools": {"plain": one}}), way, "mine")
    lab.power = partial(TwinPower, process.endpoint.clock_url, refusal=LabError)
    lab.link = TwinLink(process.endpoint.clock_url, LabError)
    with lab.clock.actor("test"), hold(lab, "plain", lambda kind, text: None) as held:
        yield held
    lab.close()
    process.close()


def nodes(lab: ConnectedLab) -> dict[str, Any]:
    return {one["metadata"]["name"]: one for one in lab.management.list("v1", "Node")}


def all_on(lab: ConnectedLab) -> bool:
    ready = [
        condition["status"]
        for one in nodes(lab).values()
        for condition in one["status"]["conditions"]
        if condition["type"] == "Ready"
    ]
    return ready == ["True"] * len(HOSTS)


def test_a_node_is_lost_and_the_worker_cut_off_and_all_is_mended(pool: HeldPool) -> None:
    seen = disk_failover(pool)
    assert isinstance(seen, DiskFailover), seen
    verdict = judge.disk_failover(seen, pool.subject)
    assert verdict.outcome == "holds", verdict.because
    assert seen.policy == "suspend-io" and seen.loss.node != seen.primary
    took = seen.loss.wrote.took
    assert took is not None and 1.0 < took < 15.0  # until DRBD gave the silent peer up
    assert isinstance(seen.freeze, Freeze)
    assert [one.what.split()[0] for one in seen.freeze.parted] == ["cut", "cut"]
    assert seen.freeze.lost.last.of(seen.primary).suspended == ("quorum",)
    assert len({one.digest for one in seen.files}) == 3
    assert seen.course.left == () and all_on(pool.lab)


def test_where_the_control_plane_stands_elsewhere_two_nodes_are_switched_off(
    pool: HeldPool,
) -> None:
    kube = pool.lab.management
    for host in HOSTS:
        kube.merge("v1", "Node", "", host, {"metadata": {"labels": {CONTROL: None}}})
    for pod in kube.list("v1", "Pod", "tenant-hil", labels="kamaji.clastix.io/name=kubernetes-lab"):
        kube.delete("v1", "Pod", "tenant-hil", pod["metadata"]["name"])
    seen = disk_failover(pool)
    for host in HOSTS:
        kube.merge("v1", "Node", "", host, {"metadata": {"labels": {CONTROL: ""}}})
    assert isinstance(seen, DiskFailover), seen
    assert isinstance(seen.freeze, Freeze)
    assert len(seen.freeze.switched_off) == 2
    verdict = judge.disk_failover(seen, pool.subject)
    assert verdict.outcome == "holds", verdict.because
    assert "with two nodes switched off it stood still" in verdict.because
    assert all_on(pool.lab)


def test_without_power_nothing_is_touched(pool: HeldPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool.lab, "power", None)
    seen = disk_failover(pool)
    assert isinstance(seen, Unread)
    assert seen.reason == "not tried: this lab cannot switch its machines off"


class Interrupted(BaseException):
    pass


def test_an_interrupted_trial_says_what_it_could_not_undo(
    pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = pool.lab.power
    assert real is not None

    def interrupted(*_: object) -> None:
        raise Interrupted

    class Handle:
        def __init__(self, host: str) -> None:
            self.host = host

        def off(self) -> None:
            real(self.host).off()

        def on(self) -> None:
            raise LabError("switch it on", "its manager does not answer", "go there")

    monkeypatch.setattr(pool.lab, "power", Handle)
    monkeypatch.setattr(trial_module, "power_on", interrupted)
    with pytest.raises(Interrupted) as cut:
        disk_failover(pool)
    (note,) = cut.value.__notes__
    assert "could not switch hv-" in note and "its manager does not answer" in note
    for host in HOSTS:
        real(host).on()
    assert pool.wait(lambda: all_on(pool.lab), 400, "all nodes to be back")
