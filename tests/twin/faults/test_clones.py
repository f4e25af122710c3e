"""What the faults of cloning do: what CDI makes of a disk, and who may ask for one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.apiserver.access import Attributes, account_user
from harness.twin.world import conditions
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import APPS, CDI, INFRA, annotations_of, deep, labels_of

SPACE, PUBLIC, GROUP = "tenant-hil", "cozy-public", "cdi.kubevirt.io"
TYPE = "cdi.kubevirt.io/cloneType"
WHY = "cdi.kubevirt.io/cloneFallbackReason"
TENANT = account_user(SPACE, "default")
Make = Callable[[str], Any]


def cloned(lab: Any, **more: Any) -> None:
    """A pool of one worker whose disk comes from the golden."""
    spec = {
        "cluster": "lab",
        "minReplicas": 1,
        "storageClass": "replicated",
        "talos": {"schematicID": VANILLA, "version": "v1.13.6"},
        "osImage": {"builtin": {}},
        **more,
    }
    pool = {
        "apiVersion": APPS,
        "kind": "KubernetesNodes",
        "metadata": {"name": "lab-cloned", "namespace": SPACE},
        "spec": spec,
    }
    resource = lab.world.management.registry.by_kind(APPS, "KubernetesNodes")
    lab.world.management.create(resource, pool, namespace=SPACE)


def disks(lab: Any) -> list[Any]:
    return list(lab.world.cluster.all(CDI, "DataVolume", SPACE))


def disk(lab: Any) -> Any:
    """The worker's disk, once it is filled; its claim."""

    def filled() -> bool:
        return [deep(one, "status", "phase") for one in disks(lab)] == ["Succeeded"]

    lab.until(filled, 900.0)
    (found,) = disks(lab)
    return lab.world.cluster.find("v1", "PersistentVolumeClaim", SPACE, found["metadata"]["name"])


def said(lab: Any, reason: str) -> list[Any]:
    events = lab.world.cluster.all("v1", "Event")
    return [one for one in events if one["reason"] == reason]


@pytest.mark.parametrize(
    ("fault", "kind", "reason"),
    [
        ("silent-host-assisted-fallback", "copy", "NoVolumeSnapshotClass"),
        ("fallback-without-expansion", "copy", "NoVolumeExpansion"),
        ("fallback-other-provisioner", "copy", "IncompatibleProvisioners"),
        ("fallback-other-volume-mode", "copy", "IncompatibleVolumeModes"),
        ("usepopulator-false-on-builtin", "copy", "NoPopulator"),
        ("clone-strategy-copy", "copy", ""),
        ("clone-strategy-snapshot", "snapshot", ""),
    ],
)
def test_cdi_takes_another_way_and_the_disk_ends_like_any_other(
    faulty: Make, fault: str, kind: str, reason: str
) -> None:
    lab = faulty(fault)
    pods: set[str] = set()

    def made(pod: Any) -> None:
        if labels_of(pod).get("app") == "containerized-data-importer":
            pods.add(f"{pod['metadata']['namespace']} {labels_of(pod)[GROUP]}")

    lab.world.on_created("v1", "Pod", made)
    cloned(lab)
    claim = disk(lab)
    assert annotations_of(claim)[TYPE] == kind
    assert (WHY in annotations_of(claim)) is bool(reason) or reason == "NoPopulator"
    assert not reason or said(lab, reason)
    (volume,) = disks(lab)
    assert conditions.find(volume, "Running")["message"] == "Clone Complete"
    carried = {one for one in pods if not one.endswith("prep")}
    home = SPACE if fault.startswith("usepopulator") else PUBLIC
    copied = {f"{PUBLIC} cdi-clone-source", f"{home} cdi-upload-server"}
    assert carried == (copied if kind == "copy" else set())


def test_without_the_binding_no_disk_is_ever_made(faulty: Make) -> None:
    lab = faulty("cross-ns-rbac-missing")
    cloned(lab)

    def refused() -> bool:
        machines = lab.world.cluster.all(INFRA, "KubevirtMachine", SPACE)
        told = [conditions.find(one, "VMProvisioned") for one in machines]
        return any(one.get("reason") == "VMCreateFailed" for one in told)

    lab.until(refused, 600.0)
    lab.run(300.0)
    assert disks(lab) == []


@pytest.mark.parametrize(
    ("fault", "too_much"),
    [
        ("clone-role-too-wide", Attributes("delete", GROUP, "datavolumes", "", PUBLIC)),
        (
            "clone-from-anywhere",
            Attributes("create", GROUP, "datavolumes", "source", "tenant-root"),
        ),
    ],
)
def test_a_tenant_may_more_than_clone(faulty: Make, fault: str, too_much: Attributes) -> None:
    assert not faulty("metrics-api-down").world.access.allows(TENANT, too_much)
    lab = faulty(fault)
    assert lab.world.access.allows(TENANT, too_much)
    cloned(lab)
    assert annotations_of(disk(lab))[TYPE] == "csi-clone"


def test_a_temporary_claim_is_held_for_ever(faulty: Make) -> None:
    lab = faulty("clone-leaves-temporary-claim")
    cloned(lab)
    uid = disk(lab)["metadata"]["uid"]
    lab.run(900.0)
    left = lab.world.cluster.find("v1", "PersistentVolumeClaim", PUBLIC, f"tmp-pvc-{uid}")
    assert left["metadata"]["deletionTimestamp"]


def test_a_disk_has_no_mark_of_its_golden(faulty: Make) -> None:
    lab = faulty("cloned-disk-unmarked")
    cloned(lab)
    assert annotations_of(disk(lab))[TYPE] == "csi-clone"
    (volume,) = disks(lab)
    assert not [key for key in annotations_of(volume) if "worker-image" in key]
    assert volume["spec"]["source"]["pvc"]["namespace"] == PUBLIC


def test_a_clone_is_handed_over_as_small_as_the_golden(faulty: Make) -> None:
    lab = faulty("disk-not-grown")
    cloned(lab)
    claim = disk(lab)
    assert claim["spec"]["resources"]["requests"]["storage"] == "20Gi"
    assert claim["status"]["capacity"]["storage"] == "6Gi"
    assert annotations_of(claim)[TYPE] == "csi-clone"


def test_a_claim_is_for_one_node(faulty: Make) -> None:
    lab = faulty("rwo-worker-disk")
    cloned(lab)
    assert disk(lab)["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_chart_and_cdi_take_two_defaults(faulty: Make) -> None:
    lab = faulty("stale-default-class-empty")
    cloned(lab)
    assert disk(lab)["spec"]["storageClassName"] == "local"
    assert "storageClassName" not in disks(lab)[0]["spec"]["storage"]
