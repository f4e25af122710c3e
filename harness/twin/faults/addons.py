"""Faults of a tenant's own addons: a release that is Ready, and nothing behind it that works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.model import ALL_POOLS, Edit, Fault
from harness.twin.faults.requests import MANAGER, pods_written
from harness.twin.world.addons_chart import COREDNS, CSI, CSI_NODE, METRICS, NAMESPACES
from harness.twin.world.objects import labels_of
from harness.twin.world.world import LAB

if TYPE_CHECKING:
    from harness.twin.world.world import World

DOWN = frozenset({"addons-up"})
NOWHERE = "registry.example.org/does-not-exist:v0"


def cannot_be_pulled(kind: str, namespace: str, name: str) -> Edit:
    """The images of a workload are in no registry."""

    def change(found: Obj) -> None:
        _nowhere(found["spec"]["template"])

    def edit(world: World) -> None:
        world.tenants[LAB[0]].edit("apps/v1", kind, namespace, name, change, manager=MANAGER)

    return edit


def _agent_missing(world: World) -> None:
    """On the first worker of the tenant the network's agent cannot be pulled."""
    first: list[str] = []

    def on_the_first(pod: Obj) -> bool:
        node = str(pod["spec"].get("nodeName", ""))
        if labels_of(pod).get("k8s-app") != "cilium" or not node:
            return False
        if not first:
            first.append(node)
        return node in first

    pods_written(_nowhere, of=on_the_first)(world)


def _nowhere(obj: Obj) -> None:
    for container in obj["spec"]["containers"]:
        container["image"] = NOWHERE


FAULTS = (
    Fault(
        id="cilium-agent-missing",
        sentence="On one worker the network's agent cannot be pulled.",
        seen="the release is Ready, and every other worker's agent; one pod ImagePullBackOff",
        wrong_diagnosis="the DaemonSet is there, so the network is",
        breaks=DOWN,
        where=ALL_POOLS,
        edit=_agent_missing,
        source="CZ (inferred)",
    ),
    Fault(
        id="metrics-api-down",
        sentence="metrics-server cannot be pulled.",
        seen="its release is Ready; APIService v1beta1.metrics.k8s.io: MissingEndpoints; kubectl "
        "top has nothing",
        wrong_diagnosis="the release is Ready, so metrics are there",
        breaks=DOWN,
        where=ALL_POOLS,
        edit=cannot_be_pulled("Deployment", NAMESPACES[METRICS], METRICS),
        source="CZ (inferred)",
    ),
    Fault(
        id="csi-not-registered",
        sentence="The tenant's CSI driver cannot be pulled on any worker.",
        seen="its release is Ready; CSINode without a driver; a claim is bound, and the pod that "
        "mounts it never starts",
        wrong_diagnosis="the claim is bound, so disks work",
        breaks=DOWN,
        where=ALL_POOLS,
        edit=cannot_be_pulled("DaemonSet", NAMESPACES[CSI], CSI_NODE),
        source="CZ (inferred)",
    ),
    Fault(
        id="names-do-not-resolve",
        sentence="CoreDNS cannot be pulled.",
        seen="its release is Ready; nothing is behind kube-dns, and no name resolves in a pod",
        wrong_diagnosis="the network",
        breaks=DOWN,
        where=ALL_POOLS,
        edit=cannot_be_pulled("Deployment", NAMESPACES[COREDNS], COREDNS),
        source="CZ (inferred)",
    ),
)
