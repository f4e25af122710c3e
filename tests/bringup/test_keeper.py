"""Holding a pool on a twin: who has it, who may, and that nothing is left behind."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import PoolNotReady, TakeDownIncomplete
from harness.bringup.keeper import OWNER_LABELS, hold
from harness.bringup.pool import HeldPool
from harness.bringup.probes import PROBE_OF
from harness.bringup.trials import Request, scratch_pool
from harness.bringup.watched import MANAGEMENT_KINDS, WatchedPool
from harness.facts.joining import Stage
from harness.inventory.manifest import kubernetes_nodes
from harness.reach.errors import ApiRefused, LabError, LeaseHeld, Unreachable
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease

NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")
MACHINES = ("cluster.x-k8s.io/v1beta1", "Machine", "tenant-hil")
LEASE = "hil-pool-lab-plain"


class Log(list[tuple[str, str]]):
    """What bring-up says."""

    def __call__(self, kind: str, text: str) -> None:
        self.append((kind, text))

    @property
    def last(self) -> str:
        return self[-1][1]


@pytest.fixture
def log() -> Log:
    return Log()


@pytest.fixture
def kube(lab: ConnectedLab) -> Iterator[Kube]:
    """The management cluster, without any pool before a test and after it."""
    assert lab.management.list(*NODES) == []
    yield lab.management
    assert lab.management.list(*NODES) == []


def holder(kube: Kube) -> Any:
    lease = kube.get("coordination.k8s.io/v1", "Lease", "tenant-hil", LEASE)
    return (lease or {"spec": {}})["spec"].get("holderIdentity")


def other(kube: Kube, lab: ConnectedLab, *, duration: int = 600) -> PoolLease:
    lease = PoolLease(kube, "tenant-hil", LEASE, duration=duration)
    lease.acquire("other", lab.clock)
    return lease


def stand(kube: Kube, lab: ConnectedLab, labels: dict[str, str], **spec: Any) -> None:
    wanted = kubernetes_nodes(lab.inventory, "plain", labels=labels)
    kube.apply({**wanted, "spec": {**wanted["spec"], **spec}})


def ready_since(kube: Kube, node: str, moment: str) -> None:
    """Let a node's Ready have another date, as after a moment of not being Ready."""
    stored = kube.get("v1", "Node", "", node)
    assert stored is not None
    conditions = stored["status"]["conditions"]
    for one in conditions:
        if one["type"] == "Ready":
            one["lastTransitionTime"] = moment
    kube.merge("v1", "Node", "", node, {"status": {"conditions": conditions}}, subresource="status")


def remove(kube: Kube, lab: ConnectedLab) -> None:
    """Delete what a test left standing, and see it go."""
    for item in kube.list(*NODES):
        kube.delete(*NODES, item["metadata"]["name"])

    def gone() -> bool:
        return not kube.list(*MACHINES) and not kube.list(*NODES)

    assert lab.clock.wait(gone, lab.clock.deadline(1200), "the pool to go")


def test_a_pool_is_held_ready_and_is_gone_afterwards(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    with hold(lab, "plain", log) as pool:
        assert holder(kube) == "mine"
        assert len(pool.workers) == 2
    assert holder(kube) is None
    assert kube.list(*MACHINES) == []
    assert [text for kind, text in log if kind == "take-down"] == [
        "deleting pool plain",
        "pool plain is gone",
    ]


def test_one_that_another_run_holds_is_not_touched(lab: ConnectedLab, kube: Kube, log: Log) -> None:
    lease = other(kube, lab)
    with pytest.raises(LeaseHeld, match="held by other") as held, hold(lab, "plain", log):
        pass
    assert held.value.holder == "other"
    assert log == []
    assert holder(kube) == "other"
    lease.release()


def test_an_expired_lease_is_taken_over(lab: ConnectedLab, kube: Kube, log: Log) -> None:
    other(kube, lab, duration=60)
    lab.clock.sleep(61)
    with hold(lab, "plain", log):
        assert holder(kube) == "mine"
    assert holder(kube) is None


def test_one_that_stands_already_is_used_and_left_standing(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    stand(kube, lab, {"made-by": "hand"})
    with hold(lab, "plain", log) as pool:
        assert len(pool.workers) == 2
    assert len(kube.list(*NODES)) == 1
    assert holder(kube) is None
    assert ("bring-up", "pool plain is there already; it is used as it is") in log
    assert log.last == "pool plain was there before this run and is left standing"
    remove(kube, lab)


def test_one_that_stands_joined_when_it_did_and_not_in_no_time(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    stand(kube, lab, {"made-by": "hand"})
    lab.clock.sleep(600)
    with hold(lab, "plain", log) as pool:
        took = [track.seconds for track in pool.join]
    assert all(seconds is not None and 60 < seconds < 600 for seconds in took)
    remove(kube, lab)


def test_a_late_ready_of_one_that_stands_says_nothing_of_its_joining(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    stand(kube, lab, {"made-by": "hand"})
    lab.clock.sleep(600)
    blinked, steady = sorted(one["metadata"]["name"] for one in lab.tenant.list("v1", "Node"))
    ready_since(lab.tenant, blinked, "2026-01-02T00:00:00Z")
    with hold(lab, "plain", log) as pool:
        dated = {track.node: track.seconds is not None for track in pool.join}
        assert {track.stage for track in pool.join} == {Stage.READY}
    assert dated == {blinked: False, steady: True}
    remove(kube, lab)


def test_a_node_that_is_deleted_has_not_joined(lab: ConnectedLab, kube: Kube, log: Log) -> None:
    with hold(lab, "plain", log) as pool:
        gone, other = pool.join
        lab.tenant.delete("v1", "Node", "", gone.node)
        assert lab.clock.wait(
            lambda: (
                lab.tenant.get("v1", "Node", "", gone.node) is None
                and pool.watched.nodes.object(gone.node) is None
            ),
            lab.clock.deadline(60),
            "the node to go",
        )
        assert [(track.stage, track.seconds) for track in pool.join] == [
            (Stage.RUNNING, None),
            (Stage.READY, other.seconds),
        ]


def test_one_that_stands_and_is_another_is_refused(lab: ConnectedLab, kube: Kube, log: Log) -> None:
    stand(kube, lab, {}, kernelModules=[{"name": "drbd"}], diskSize="30Gi")
    another = pytest.raises(LabError, match="another diskSize and another kernelModules")
    with another, hold(lab, "plain", log):
        pass
    assert len(kube.list(*NODES)) == 1
    assert holder(kube) is None
    remove(kube, lab)


def test_what_an_earlier_run_left_is_gone_before_the_pool_is_asked_for(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    """Its workers were made for another request, and would be judged as if made for this one."""
    stand(kube, lab, OWNER_LABELS, diskSize="30Gi")
    wait = lab.clock.deadline(1200)
    watched = WatchedPool.start(lab, "plain")
    assert lab.clock.wait(lambda: len(watched.objects().machines) == 2, wait, "its machines")
    old = {machine["metadata"]["uid"] for machine in watched.objects().machines}
    with hold(lab, "plain", log) as held:
        (stored,) = kube.list(*NODES)
        assert stored["spec"]["diskSize"] == "20Gi"
        assert not old & {machine["metadata"]["uid"] for machine in watched.objects().machines}
        assert all(track.seconds is not None for track in held.join)
    assert "left by an earlier run" in "\n".join(text for _, text in log)


def test_a_request_that_is_refused_costs_nobody_a_pool(
    lab: ConnectedLab, kube: Kube, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(wanted: dict[str, Any]) -> dict[str, Any]:
        theirs = kubernetes_nodes(lab.inventory, "plain")
        kube.create({**theirs, "spec": {**theirs["spec"], "diskSize": "30Gi"}})  # was quicker
        raise ApiRefused(409, "Conflict", "conflict with another manager", tried="apply", do="wait")

    monkeypatch.setattr(lab.management, "apply", refuse)
    with pytest.raises(ApiRefused), hold(lab, "plain", log):
        raise AssertionError("it must not be handed over")
    (stored,) = kube.list(*NODES)
    assert stored["spec"]["diskSize"] == "30Gi"
    kube.delete(*NODES, stored["metadata"]["name"])
    gone = lab.clock.deadline(600)
    assert lab.clock.wait(lambda: not kube.list(*NODES), gone, "their pool to be gone")


@pytest.mark.parametrize("cut", [KeyboardInterrupt, RuntimeError])
def test_whatever_ends_the_holding_it_is_taken_down(
    lab: ConnectedLab, kube: Kube, log: Log, cut: type[BaseException]
) -> None:
    with pytest.raises(cut), hold(lab, "plain", log):
        raise cut
    assert log.last == "pool plain is gone"
    assert holder(kube) is None


def test_an_interrupt_during_bring_up_takes_down_too(
    lab: ConnectedLab, kube: Kube, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []

    def log(kind: str, text: str) -> None:
        said.append(text)
        if text.startswith("worker"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), hold(lab, "plain", log):
        pytest.fail("it was handed over")
    assert said[-1] == "pool plain is gone"


def test_a_shell_that_cannot_be_closed_does_not_keep_the_pool(
    lab: ConnectedLab, kube: Kube, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: HeldPool) -> None:
        raise Unreachable("delete the shell's pod", "nothing", "wait")

    monkeypatch.setattr(HeldPool, "close_shells", fail)
    with pytest.raises(Unreachable), hold(lab, "plain", log):
        pass
    assert log.last == "pool plain is gone"
    assert holder(kube) is None


def test_a_pool_that_another_run_took_over_is_left_to_it(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    with hold(lab, "plain", log):
        lab.clock.sleep(901)
        lease = other(kube, lab)
    assert "is not ours any more and is left alone" in log.last
    assert "held by other" in log.last
    assert holder(kube) == "other"
    assert len(kube.list(*NODES)) == 1
    lease.release()
    remove(kube, lab)


def test_the_lease_is_renewed_while_a_pool_does_not_come_up(
    lab: ConnectedLab, kube: Kube, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    renewals: list[float] = []
    renew = PoolLease.renew
    monkeypatch.setattr(
        PoolLease, "renew", lambda s, clock: (renewals.append(clock.now()), renew(s, clock))
    )
    unheard = lab.inventory.schematics["vanilla"].model_copy(update={"id": "0" * 64})
    schematics = {**lab.inventory.schematics, "vanilla": unheard}
    changed = lab.inventory.model_copy(update={"schematics": schematics})
    monkeypatch.setattr(lab, "inventory", changed)
    with hold(lab, "plain", log) as held, pytest.raises(PoolNotReady, match="no worker joined"):
        _ = held.workers
    gaps = [b - a for a, b in pairwise(renewals)]
    assert len(renewals) >= 4
    assert max(gaps) < 900


def test_what_does_not_go_is_named(lab: ConnectedLab, kube: Kube, log: Log) -> None:
    incomplete = pytest.raises(TakeDownIncomplete, match="still there: Machine ")
    with incomplete as stays, hold(lab, "plain", log) as pool:
        name = pool.workers[0].machine
        kube.merge(*MACHINES, name, {"metadata": {"finalizers": ["hil.dev/test"]}})
    assert name in str(stays.value)
    assert "is not gone" in log.last
    assert holder(kube) is None
    kube.merge(*MACHINES, name, {"metadata": {"finalizers": None}})
    remove(kube, lab)


def test_waiting_costs_one_watch_of_each_kind(lab: ConnectedLab, kube: Kube, log: Log) -> None:
    with hold(lab, "plain", log):
        watched = [call.path for call in kube.calls if call.verb == "watch"]
    for api_version, kind in MANAGEMENT_KINDS.values():
        assert watched.count(kube.path_of(api_version, kind, "tenant-hil")) == 1


def scratch(lab: ConnectedLab, pool: HeldPool) -> tuple[list[str], list[str]]:
    """Probes and scratch pools that are there now."""
    probes = [one["metadata"]["name"] for one in lab.tenant.list("v1", "Pod", "hil-probe")]
    pools = [one["metadata"]["name"] for one in lab.management.list(*NODES)]
    return probes, [one for one in pools if one != f"lab-{pool.name}"]


def test_nothing_that_a_run_tries_a_card_with_is_left_or_in_the_next_ones_way(
    lab: ConnectedLab, kube: Kube, log: Log
) -> None:
    before = HeldPool(lab, "gpu-gb202", WatchedPool.start(lab, "gpu-gb202"), other(kube, lab), 0.0)
    before.lease.release()
    before.probes.prepare()
    killed = scratch_pool(before, "hil4-gpu-gb202", Request([]))
    kube.create(killed)
    metadata = {"name": "killed", "namespace": "hil-probe", "labels": {PROBE_OF: "gpu-gb202"}}
    spec = {"containers": [{"name": "c", "image": "docker.io/library/busybox:1.37.0"}]}
    lab.tenant.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
    with pytest.raises(KeyboardInterrupt), hold(lab, "gpu-gb202", log) as pool:
        (node,) = pool.probes.early
        assert scratch(lab, pool) == ([pool.probes.early[node].pod], [])
        kube.create(killed)
        raise KeyboardInterrupt
    assert scratch(lab, pool) == ([], [])
    assert log.last == "pool gpu-gb202 is gone"
