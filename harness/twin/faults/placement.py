"""Faults of where a worker runs and whether it comes up at all: KubeVirt, hosts, Cluster API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.model import ALL_POOLS, Fault
from harness.twin.faults.rendering import NOTHING_LOADED
from harness.twin.world.hosts import GB202, L40S

if TYPE_CHECKING:
    from harness.twin.world.world import World

NO_GUEST = NOTHING_LOADED | {"modules-live", "driver-sees-gpu"}
"""Claims that nobody can look at without a worker."""
CAPI = "cluster.x-k8s.io/v1beta1"


def _forbid_l40s(world: World) -> None:
    def change(kubevirt: Obj) -> None:
        permitted = kubevirt["spec"]["configuration"]["permittedHostDevices"]
        permitted["pciHostDevices"] = [
            device for device in permitted["pciHostDevices"] if device["resourceName"] != L40S
        ]

    world.management.edit(
        "kubevirt.io/v1", "KubeVirt", "cozy-kubevirt", "kubevirt", change, manager="fault"
    )


def _advertise_another_name(world: World) -> None:
    """The device plugin takes the card's name from newer PCI ids than the inventory did."""

    def change(node: Obj) -> None:
        for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
            if GB202 in amounts:
                amounts["nvidia.com/GB202_RTX_PRO_6000"] = amounts.pop(GB202)

    for node in world.management.all("v1", "Node"):
        world.management.edit(
            "v1", "Node", "", node["metadata"]["name"], change, manager="fault",
            subresource="status",
        )  # fmt: skip


def _pause_cluster(world: World) -> None:
    """Somebody paused the Cluster for maintenance and forgot it."""

    def change(cluster: Obj) -> None:
        cluster["spec"]["paused"] = True

    world.management.edit(CAPI, "Cluster", "tenant-hil", "kubernetes-lab", change, manager="fault")


FAULTS = (
    Fault(
        id="gpu-not-permitted",
        sentence="The KubeVirt CR does not permit the L40S.",
        seen="VMI Pending, Synchronized=False FailedCreate; the Machine stays Provisioning",
        wrong_diagnosis="a slow image import; the scheduler",
        breaks=frozenset({"node-joins", "passthrough"}),
        blinds=NO_GUEST,
        where=("gpu-l40s",),
        edit=_forbid_l40s,
        source="KV",
    ),
    Fault(
        id="gpu-resource-name-mismatch",
        sentence="The host advertises the card under another name than the pool asks for.",
        seen="virt-launcher Pending, FailedScheduling Insufficient nvidia.com/...",
        wrong_diagnosis="all cards are busy",
        breaks=frozenset({"node-joins", "passthrough"}),
        blinds=NO_GUEST,
        where=("gpu-gb202",),
        edit=_advertise_another_name,
        source="KV",
    ),
    Fault(
        id="hr-ready-no-workers",
        sentence="The Cluster is paused: every release is Ready, and no worker is ever made.",
        seen="HelmRelease Ready; MachineDeployment without replicas; WorkloadsReady False",
        wrong_diagnosis="Ready means done",
        breaks=frozenset({"node-joins"}),
        blinds=NO_GUEST | {"passthrough"},
        where=ALL_POOLS,
        edit=_pause_cluster,
        source="CZ",
    ),
)
