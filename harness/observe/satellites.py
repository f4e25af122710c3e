"""LINSTOR's satellites on a management cluster: the way to each storage node's DRBD.

A satellite is a privileged pod on its node, with that node's DRBD tools (objects.md section 8).
Every function raises reach's LabError where the cluster cannot be asked.
"""

from __future__ import annotations

from harness.facts import chain
from harness.facts.objects import name_of, text_at
from harness.observe.pool import DATA_VOLUMES, workers
from harness.reach.containershell import ContainerShell
from harness.reach.kube import Kube

NAMESPACE = "cozy-linstor"
LABEL = "app.kubernetes.io/component=linstor-satellite"
CONTAINER = "linstor-satellite"


def satellites(kube: Kube) -> dict[str, ContainerShell]:
    """A shell in each running satellite, by the name of its Node, in the order of names."""
    pods = kube.list("v1", "Pod", NAMESPACE, labels=LABEL)
    running = {
        text_at(pod, "spec", "nodeName"): name_of(pod)
        for pod in pods
        if text_at(pod, "status", "phase") == "Running"
        and not text_at(pod, "metadata", "deletionTimestamp")
    }
    return {
        node: ContainerShell(kube, NAMESPACE, pod, CONTAINER, f"storage node {node}")
        for node, pod in sorted(running.items())
    }


def pool_disks(kube: Kube, namespace: str, cluster: str, pool: str) -> tuple[str, ...]:
    """The PersistentVolumes of a pool's system disks, by name: LINSTOR names its resources so."""
    volumes = kube.list(DATA_VOLUMES, "DataVolume", namespace)
    claims = [
        name_of(disk)
        for worker in workers(kube, namespace, cluster, pool)
        for disk in chain.disks_of(worker.virtual_machine, volumes)
    ]
    return tuple(name for name in (bound_volume(kube, namespace, one) for one in claims) if name)


def bound_volume(kube: Kube, namespace: str, claim: str) -> str:
    """The PersistentVolume that a claim is bound to, "" while it is bound to none."""
    found = kube.get("v1", "PersistentVolumeClaim", namespace, claim) or {}
    bound = text_at(found, "status", "phase") == "Bound"
    return text_at(found, "spec", "volumeName") if bound else ""
