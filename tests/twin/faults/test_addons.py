"""What the faults of a tenant's addons do to its pods, and what their releases say meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import conditions
from harness.twin.world.addons_chart import DRIVER, METRICS_API, REGISTRATION
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import HELM, STORAGE

Make = Callable[[str], Any]


def worker(lab: Any, count: int = 1) -> None:
    lab.pool(gpu="", schematic=VANILLA)
    for _ in range(1, count):
        lab.pool("more", gpu="", schematic=VANILLA)

    def joined() -> bool:
        nodes = lab.tenant.all("v1", "Node")
        return len(nodes) == count and all(conditions.holds(one, "Ready") for one in nodes)

    lab.until(joined, 900.0)
    lab.run(120.0)


def is_ready(lab: Any, addon: str) -> bool:
    name = f"kubernetes-lab-{addon}"
    return conditions.holds(
        lab.world.cluster.find(HELM, "HelmRelease", "tenant-hil", name), "Ready"
    )


def ready_pods(lab: Any, namespace: str) -> list[bool]:
    return [conditions.holds(one, "Ready") for one in lab.tenant.all("v1", "Pod", namespace)]


def test_the_metrics_api_has_nobody_behind_it(faulty: Make) -> None:
    lab = faulty("metrics-api-down")
    worker(lab)
    service = lab.tenant.find(REGISTRATION, "APIService", "", METRICS_API)
    assert conditions.find(service, "Available")["reason"] == "MissingEndpoints"
    assert is_ready(lab, "metrics-server")


def test_no_worker_knows_the_driver(faulty: Make) -> None:
    lab = faulty("csi-not-registered")
    worker(lab)
    (node,) = lab.tenant.all(STORAGE, "CSINode")
    assert DRIVER not in [one["name"] for one in node["spec"]["drivers"]]
    assert is_ready(lab, "csi") and ready_pods(lab, "cozy-csi") == [False]


def test_nothing_is_behind_the_names(faulty: Make) -> None:
    lab = faulty("names-do-not-resolve")
    worker(lab)
    coredns = lab.tenant.find("apps/v1", "Deployment", "kube-system", "coredns")
    assert conditions.find(coredns, "Available")["status"] == "False" and is_ready(lab, "coredns")


def test_one_worker_lacks_the_networks_agent(faulty: Make) -> None:
    lab = faulty("cilium-agent-missing")
    worker(lab, count=2)
    assert sorted(ready_pods(lab, "cozy-cilium")) == [False, True]
    assert is_ready(lab, "cilium")


@pytest.mark.parametrize("fault", ["metrics-api-down", "names-do-not-resolve"])
def test_what_is_not_touched_works(faulty: Make, fault: str) -> None:
    lab = faulty(fault)
    worker(lab)
    assert ready_pods(lab, "cozy-csi") == ready_pods(lab, "cozy-cilium") == [True]
