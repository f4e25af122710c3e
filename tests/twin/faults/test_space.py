"""What the faults of space do: to LINSTOR's figures, its nodes, and a tenant's claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import conditions
from harness.twin.world.linstor_pools import CAPACITY
from harness.twin.world.objects import PIRAEUS, deep

SPACE, GIB = "tenant-hil", 2**20
HOSTS = ("hv-1", "hv-2", "hv-3")
Make = Callable[[str], Any]


def claim(lab: Any, name: str, size: str) -> Any:
    body = {
        "metadata": {"name": name},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "replicated",
            "resources": {"requests": {"storage": size}},
        },
    }
    kind = lab.world.management.registry.by_kind("v1", "PersistentVolumeClaim")
    return lab.world.management.create(kind, body, namespace=SPACE)


def bound(lab: Any, name: str) -> bool:
    found = lab.world.cluster.find("v1", "PersistentVolumeClaim", SPACE, name)
    return bool(deep(found, "status", "phase") == "Bound")


@pytest.mark.parametrize(
    ("fault", "volumes"), [("pool-space-exhausted", 2), ("pool-space-freed-late", 1)]
)
def test_little_is_free_whether_or_not_what_took_it_is_there(
    faulty: Make, fault: str, volumes: int
) -> None:
    lab = faulty(fault)
    lab.run(3600.0)
    for host in HOSTS:
        pool = lab.world.linstor.pools.on(host)
        assert lab.world.linstor.free(host) == 30 * GIB and pool.total == CAPACITY
        assert len(pool.volumes) == volumes  # the golden is one
    claim(lab, "large", "40Gi")
    lab.run(120.0)
    assert not bound(lab, "large")
    events = lab.world.cluster.all("v1", "Event", SPACE)
    assert any("Not enough available nodes" in one["message"] for one in events)


def test_the_quota_has_no_room_for_what_the_storage_has(faulty: Make) -> None:
    lab = faulty("tenant-quota-scratch")
    claim(lab, "first", "90Gi")
    with pytest.raises(Exception, match="exceeded quota: tenant-hil"):
        claim(lab, "second", "20Gi")


def test_no_satellite_ever_came(faulty: Make) -> None:
    lab = faulty("zero-linstor-nodes")
    lab.run(120.0)
    assert lab.world.linstor.nodes.names() == []
    for host in HOSTS:
        satellite = lab.world.cluster.find(PIRAEUS, "LinstorSatellite", "", host)
        assert conditions.find(satellite, "Available")["status"] == "False"
    claim(lab, "any", "1Gi")
    lab.run(60.0)
    assert not bound(lab, "any")


def test_what_linstor_says_stays_as_it_was_before_the_worker(faulty: Make) -> None:
    lab = faulty("linstor-view-stale")
    for name in ("local", "replicated"):
        note = {"storageclass.kubernetes.io/is-default-class": str(name == "replicated").lower()}
        lab.world.management.edit(
            "storage.k8s.io/v1",
            "StorageClass",
            "",
            name,
            lambda stored, note=note: stored["metadata"].setdefault("annotations", {}).update(note),
            manager="test",
        )
    lab.pool(gpu="")
    lab.until(lambda: lab.tenant.all("v1", "Node"), 900.0)
    used = [
        (resource, one.host)
        for resource in lab.world.storage.resources.values()
        for one in resource.running()
        if one.role == "Primary"
    ]
    ((resource, host),) = used
    told = lab.world.linstor.reports.told(resource, host)
    assert not told.in_use and told.disk == "UpToDate" and lab.world.linstor.nodes.online(host)
