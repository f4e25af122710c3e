"""Pods that try a card, on a twin whose GPU operator came up meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.bringup import keeper
from harness.bringup.pool import HeldPool
from harness.bringup.probes import NAMESPACE, POD_BUDGET, PROBE_OF, ProbePods
from harness.bringup.worker import Worker
from harness.facts.fact import Unread
from harness.facts.nvidia import SmiCards
from harness.facts.probes import CudaRun, EarlyPod, Injected, NoTool
from harness.observe import probes as observe
from harness.reach.errors import ApiRefused

POD = {"containers": [{"name": "c", "image": "docker.io/library/busybox:1.37.0"}]}


@pytest.fixture
def worker(gpu_pool: HeldPool) -> Iterator[Worker]:
    """The pool's one worker, asked anew; no probe is there before and after."""
    (one,) = gpu_pool.workers
    fresh = Worker(one.name, one.machine, gpu_pool)
    yield fresh
    fresh.close()
    gpu_pool.probes.clear()
    assert standing(gpu_pool) == []


def standing(pool: HeldPool) -> list[str]:
    return [one["metadata"]["name"] for one in pool.lab.tenant.list("v1", "Pod", NAMESPACE)]


def elapsed(pool: HeldPool, since: float) -> float:
    return pool.lab.clock.now() - since


def test_the_early_pod_has_nothing_even_now_and_goes_for_the_fresh_one(
    gpu_pool: HeldPool, worker: Worker
) -> None:
    made = gpu_pool.probes.early[worker.name]
    assert made.advertised is None
    fresh = worker.fresh_pod()
    early = worker.early_pod()
    assert isinstance(early, EarlyPod) and isinstance(early.smi, NoTool)
    assert early.advertised is None and early.stored.requested == 1
    assert isinstance(fresh, Injected) and isinstance(fresh.smi, SmiCards)
    node = worker.smi_cards()
    assert isinstance(node, SmiCards)
    assert [card.uuid for card in fresh.smi.cards] == [card.uuid for card in node.cards]
    assert early.origin.at < fresh.origin.at
    assert standing(gpu_pool) == []


def test_a_fresh_pod_has_nothing_that_could_bring_a_driver(
    gpu_pool: HeldPool, worker: Worker
) -> None:
    fresh = worker.fresh_pod()
    assert isinstance(fresh, Injected)
    assert (fresh.stored.aids, fresh.stored.runtime_class) == ((), "")
    assert fresh.stored.requested == 1
    assert fresh.stored.image == "docker.io/library/ubuntu:24.04"


def test_a_fresh_pod_is_placed_by_the_scheduler_and_belongs_to_the_pool(
    gpu_pool: HeldPool, worker: Worker
) -> None:
    made = gpu_pool.probes.fresh(worker.name)
    stored = gpu_pool.lab.tenant.get("v1", "Pod", NAMESPACE, made.pod)
    assert stored is not None
    assert stored["spec"]["nodeSelector"] == {"kubernetes.io/hostname": worker.name}
    assert "tolerations" not in stored["spec"] or not any(
        one.get("operator") == "Exists" and "key" not in one
        for one in stored["spec"]["tolerations"]
    )
    labels = stored["metadata"]["labels"]
    assert labels == {"app.kubernetes.io/managed-by": "hil", PROBE_OF: "gpu-l40s"}
    assert stored["spec"]["automountServiceAccountToken"] is False


def test_each_probe_is_made_once_however_often_it_is_asked(worker: Worker) -> None:
    assert worker.fresh_pod() is worker.fresh_pod()
    assert worker.control_pod() is worker.control_pod()


def test_the_control_asks_for_no_card_and_the_cuda_pod_ends(worker: Worker) -> None:
    control, cuda = worker.control_pod(), worker.cuda_pod()
    assert not isinstance(control, Unread) and not control.found_driver
    assert control.stored.requested == 0
    assert isinstance(cuda, CudaRun) and cuda.exit_code == 0
    assert "Test PASSED" in (cuda.log or "")


def test_an_image_that_cannot_be_pulled_is_a_fact(
    gpu_pool: HeldPool, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = gpu_pool.lab
    other = lab.inventory.model_copy(update={"probe_image": "registry.invalid/ubuntu:24.04"})
    monkeypatch.setattr(lab, "inventory", other)
    since = lab.clock.now()
    made = ProbePods(gpu_pool).fresh(worker.name)
    assert elapsed(gpu_pool, since) == pytest.approx(POD_BUDGET, abs=1)
    seen = observe.injected(lab.tenant, NAMESPACE, made.pod, now=lab.clock.now)
    assert isinstance(seen, Injected) and isinstance(seen.smi, Unread)
    assert "ImagePull" in seen.stored.reason
    assert "no such host" in seen.stored.message or "Back-off" in seen.stored.message


def test_a_card_that_is_taken_is_a_fact(gpu_pool: HeldPool, worker: Worker) -> None:
    lab = gpu_pool.lab
    gpu_pool.probes.fresh(worker.name)
    second = gpu_pool.probes.fresh(worker.name)
    seen = observe.injected(lab.tenant, NAMESPACE, second.pod, now=lab.clock.now)
    assert isinstance(seen, Injected) and isinstance(seen.smi, Unread)
    assert seen.stored.phase == "Pending"
    assert "Insufficient nvidia.com/gpu" in seen.stored.message


def test_a_pod_that_the_api_will_not_have_is_a_fact(
    gpu_pool: HeldPool, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: Any) -> Any:
        raise ApiRefused(403, "Forbidden", "exceeded quota: no-pods")

    monkeypatch.setattr(type(gpu_pool.lab.tenant), "create", lambda self, obj: refuse(obj))
    seen = worker.control_pod()
    assert isinstance(seen, Unread)
    assert "the API would not make it" in seen.reason and "exceeded quota" in seen.reason


def test_what_an_earlier_run_left_of_this_pool_goes(gpu_pool: HeldPool, worker: Worker) -> None:
    kube = gpu_pool.lab.tenant
    for name, of in (("left", "gpu-l40s"), ("other", "gpu-gb202")):
        metadata = {"name": name, "namespace": NAMESPACE, "labels": {PROBE_OF: of}}
        kube.create({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": POD})
    gpu_pool.probes.prepare()
    assert standing(gpu_pool) == ["other"]
    kube.delete("v1", "Pod", NAMESPACE, "other")
    gpu_pool.pause(5.0, "it to go")


def test_a_namespace_that_is_refused_costs_the_probes_and_not_the_pool(
    gpu_pool: HeldPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: ProbePods) -> None:
        raise ApiRefused(403, "Forbidden", "no namespaces for you")

    monkeypatch.setattr(ProbePods, "prepare", refuse)
    said: list[str] = []
    keeper._make_room(gpu_pool, lambda kind, text: said.append(text))
    assert said == [
        "probes of pool gpu-l40s may be missing: "
        + str(ApiRefused(403, "Forbidden", "no namespaces for you"))
    ]


def test_a_node_that_was_there_before_cannot_have_an_early_pod(
    gpu_pool: HeldPool, worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(gpu_pool.probes, "early", {})
    early = worker.early_pod()
    assert isinstance(early, Unread)
    assert "was there already when this run came" in early.reason


@pytest.mark.parametrize("stood", [False, True])
def test_an_early_pod_is_made_on_a_node_of_our_own_only(gpu_pool: HeldPool, *, stood: bool) -> None:
    """What the node offered at that moment is kept: here it offers its card already."""
    again = HeldPool(
        gpu_pool.lab, "gpu-l40s", gpu_pool.watched, gpu_pool.lease, gpu_pool.since, stood=stood
    )
    keeper._wait_until_joined(again, lambda kind, text: None)
    made = {node: one.advertised for node, one in again.probes.early.items()}
    (worker,) = gpu_pool.workers
    assert made == ({} if stood else {worker.name: "1"})
    again.probes.clear()


def test_letting_go_of_a_pool_that_stays_leaves_no_probe_on_it(
    gpu_pool: HeldPool, worker: Worker
) -> None:
    gpu_pool.probes.control(worker.name)
    assert standing(gpu_pool)
    keeper._clear_scratch(gpu_pool)
    assert standing(gpu_pool) == []
