"""Faults of where a worker runs and whether it comes up at all: KubeVirt, hosts, Cluster API."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import NO_HOST, NO_MACHINE, NOT_RENDERED, UNGUARDED
from harness.twin.faults.model import ALL_POOLS, Fault
from harness.twin.faults.requests import MANAGER
from harness.twin.world import init_stages
from harness.twin.world.hosts import GB202, L40S
from harness.twin.world.hypervisors import NVIDIA
from harness.twin.world.landscape import DATASTORE
from harness.twin.world.objects import KAMAJI, meta

if TYPE_CHECKING:
    from harness.twin.world.world import World

CAPI = "cluster.x-k8s.io/v1beta1"


def _forbid_l40s(world: World) -> None:
    def change(kubevirt: Obj) -> None:
        permitted = kubevirt["spec"]["configuration"]["permittedHostDevices"]
        permitted["pciHostDevices"] = [
            device for device in permitted["pciHostDevices"] if device["resourceName"] != L40S
        ]

    world.management.edit(
        "kubevirt.io/v1", "KubeVirt", "cozy-kubevirt", "kubevirt", change, manager=MANAGER
    )


def _advertise_another_name(world: World) -> None:
    """The device plugin takes the card's name from newer PCI ids than the inventory did."""
    _amounts(world, "hv-2", {GB202: "0", "nvidia.com/GB202_RTX_PRO_6000": "4"})


def _amounts(world: World, host: str, change: dict[str, str]) -> None:
    """Write what a host offers of devices, capacity and allocatable; "0" takes the name out."""

    def write(node: Obj) -> None:
        for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
            amounts.update(change)
            for name in [name for name, amount in change.items() if amount == "0"]:
                del amounts[name]

    world.management.edit("v1", "Node", "", host, write, manager=MANAGER, subresource="status")


def _take_every_card(world: World) -> None:
    """Other tenants' machines have every GB202 of the lab."""
    cards = [card for card in world.hosts.cards if card.resource == GB202]
    for number, card in enumerate(cards):
        limits = {"resources": {"limits": {GB202: "1"}}}
        pod = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": meta(
                f"virt-launcher-trainer-{number}",
                "tenant-root",
                labels={"kubevirt.io": "virt-launcher", "vm.kubevirt.io/name": "trainer"},
            ),
            "spec": {
                "nodeName": card.host,
                "restartPolicy": "Never",
                "containers": [{"name": "compute", "image": "virt-launcher:v1.8.4", **limits}],
            },
        }
        world.cluster.create(pod, manager=MANAGER)


def _claim_cards(world: World) -> None:
    """A distribution's driver has the L40S's host; the operator's vfio-manager gives up on it."""
    host = "hv-1"
    world.hosts.drivers[host] = NVIDIA
    _amounts(world, host, {L40S: "0"})
    world.management.edit(
        "v1",
        "Node",
        "",
        host,
        lambda node: node["metadata"]["labels"].update(
            {"nvidia.com/gpu.deploy.driver": "pre-installed"}
        ),
        manager=MANAGER,
    )
    _crash_vfio_manager(world, host)


def _crash_vfio_manager(world: World, host: str) -> None:
    """The pod that would bind the cards is in a crash loop, in its init container."""
    stage, image = "k8s-driver-manager", "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.10.0"
    now = world.engine.now
    pod: Obj = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            "nvidia-vfio-manager-hv1x7", "cozy-gpu-operator", labels={"app": "nvidia-vfio-manager"}
        ),
        "spec": {
            "nodeName": host,
            "initContainers": [{"name": stage, "image": image}],
            "containers": [{"name": "nvidia-vfio-manager", "image": image}],
        },
    }
    made = world.cluster.create(pod, manager=MANAGER)

    def fail(stored: Obj) -> None:
        init_stages.accepted(stored, "192.168.100.11", now)
        init_stages.running(stored, stage, now)
        init_stages.ended(stored, stage, now, 1)
        init_stages.backed_off(stored, stage, 300.0)

    world.cluster.status(made, fail, manager=MANAGER)


def _keep_spare_card(world: World) -> None:
    """The host's own driver holds one L40S that no worker has, and the plugin counts it out."""
    spare = next(one for one in world.hosts.cards if one.resource == L40S)
    world.hosts.drivers[spare.uuid] = NVIDIA
    _amounts(world, spare.host, {L40S: "3"})


def _pause_cluster(world: World) -> None:
    """Somebody paused the Cluster for maintenance and forgot it."""

    def change(cluster: Obj) -> None:
        cluster["spec"]["paused"] = True

    world.management.edit(CAPI, "Cluster", "tenant-hil", "kubernetes-lab", change, manager=MANAGER)


def _without_etcd(world: World) -> None:
    store = world.cluster.find(KAMAJI, "DataStore", "", DATASTORE)
    assert store is not None
    world.cluster.remove(store)


FAULTS = (
    Fault(
        id="gpu-not-permitted",
        sentence="The KubeVirt CR does not permit the L40S.",
        seen="VMI Pending, Synchronized=False FailedCreate; the Machine stays Provisioning",
        wrong_diagnosis="a slow image import; the scheduler",
        breaks=frozenset({"node-joins", "passthrough"}),
        blinds=NO_HOST,
        where=("gpu-l40s",),
        edit=_forbid_l40s,
        source="KV",
    ),
    Fault(
        id="gpu-resource-name-mismatch",
        sentence="The host advertises the card under another name than the pool asks for.",
        seen="virt-launcher Pending, FailedScheduling Insufficient nvidia.com/...; the host's "
        "allocatable shows another name",
        wrong_diagnosis="all cards are busy",
        breaks=frozenset({"node-joins", "passthrough"}),
        blinds=NO_HOST,
        where=("gpu-gb202",),
        edit=_advertise_another_name,
        source="KV",
    ),
    Fault(
        id="gpu-exhausted",
        sentence="Other machines have every GB202 of the lab.",
        seen="virt-launcher Pending, FailedScheduling Insufficient nvidia.com/...; the host's "
        "allocatable has this very name, and as many pods have a card",
        wrong_diagnosis="a broken schematic",
        breaks=frozenset({"node-joins", "passthrough"}),
        blinds=NO_HOST,
        where=("gpu-gb202",),
        edit=_take_every_card,
        source="KV",
    ),
    Fault(
        id="host-driver-claims-gpu",
        sentence="A distribution's NVIDIA driver on the host has taken the L40S.",
        seen="lspci: driver nvidia; vfio-manager in Init:CrashLoopBackOff, label "
        "nvidia.com/gpu.deploy.driver=pre-installed; the host's allocatable lacks the card",
        wrong_diagnosis="a bug of the operator; FORCE_REINSTALL does not help",
        breaks=frozenset({"node-joins", "passthrough"}),
        blinds=NO_HOST,
        where=("gpu-l40s",),
        edit=_claim_cards,
        source="CZ",
    ),
    Fault(
        id="host-driver-holds-spare-card",
        sentence="The host's own NVIDIA driver holds one L40S that no worker has.",
        seen="lspci: driver nvidia on one of four; the host's allocatable is 3; all workers fine",
        wrong_diagnosis="everything works",
        breaks=frozenset({"vfio-bound"}),
        where=("gpu-l40s",),
        edit=_keep_spare_card,
        source="CZ (inferred)",
    ),
    Fault(
        id="hr-ready-no-workers",
        sentence="The Cluster is paused: every release is Ready, and no worker is ever made.",
        seen="HelmRelease Ready; MachineDeployment without replicas; WorkloadsReady False",
        wrong_diagnosis="Ready means done",
        breaks=frozenset({"node-joins"}),
        blinds=NO_HOST | NO_MACHINE,
        where=ALL_POOLS,
        edit=_pause_cluster,
        source="CZ",
    ),
    Fault(
        id="awaiting-etcd",
        sentence="The tenant's control plane has no etcd DataStore.",
        seen="the release is Ready, and all that it renders is a ConfigMap ...-awaiting-etcd",
        wrong_diagnosis="Kamaji is slow",
        breaks=frozenset({"node-joins"}),
        blinds=NOT_RENDERED | UNGUARDED,
        where=ALL_POOLS,
        edit=_without_etcd,
        source="CZ",
    ),
)
