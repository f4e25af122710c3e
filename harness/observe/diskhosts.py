"""Ask the management cluster who stands on which storage node, and return facts.

Every function raises reach's LabError where the cluster cannot be asked. ``now`` gives the lab's
time in epoch seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from harness.facts import chain
from harness.facts.diskfailover import POLICY, StorageHost, StorageHosts
from harness.facts.fact import Origin
from harness.facts.objects import Obj, condition, listed, mapped, name_of, text_at, uid_of
from harness.observe.pool import DATA_VOLUMES, KUBEVIRT, workers
from harness.observe.satellites import bound_volume
from harness.reach.kube import Kube

STORAGE = "storage.k8s.io/v1"
CONTROL_PLANE = "node-role.kubernetes.io/control-plane"
TENANT_CONTROL = "kamaji.clastix.io/name"
"""Label of a tenant's control plane pods (objects.md section 4)."""


@dataclass(frozen=True, slots=True)
class WorkersDisk:
    """A worker and its system disk: its DRBD ``resource``, and the ``host`` where its VMI runs."""

    node: str
    machine: str
    resource: str
    host: str
    vmi: str


def workers_disks(kube: Kube, namespace: str, cluster: str, pool: str) -> tuple[WorkersDisk, ...]:
    """Each worker that has a Node and a bound disk; one with several disks by its first."""
    volumes = kube.list(DATA_VOLUMES, "DataVolume", namespace)
    found = []
    for one in workers(kube, namespace, cluster, pool):
        claims = map(name_of, chain.disks_of(one.virtual_machine, volumes))
        resource = next((name for c in claims if (name := bound_volume(kube, namespace, c))), "")
        if one.node and resource:
            host = text_at(one.vmi, "status", "nodeName")
            found.append(WorkersDisk(one.node, one.name, resource, host, uid_of(one.vmi)))
    return tuple(found)


def class_policy(kube: Kube, storage_class: str) -> str:
    """What a StorageClass asks DRBD to do without a quorum, "" where it says nothing."""
    found = kube.get(STORAGE, "StorageClass", "", storage_class) or {}
    return text_at(found, "parameters", POLICY)


def storage_hosts(
    kube: Kube, namespace: str, cluster: str, *, now: Callable[[], float]
) -> StorageHosts:
    """Every node of the management cluster, and what would go with it."""
    nodes = kube.list("v1", "Node")
    vmis = kube.list(KUBEVIRT, "VirtualMachineInstance")
    label = f"{TENANT_CONTROL}=kubernetes-{cluster}"
    control = kube.list("v1", "Pod", namespace, labels=label)
    staying = [pod for pod in control if not text_at(pod, "metadata", "deletionTimestamp")]
    tenant = {text_at(pod, "spec", "nodeName") for pod in staying if _ready(pod)}
    api = urlsplit(kube.url).hostname or ""
    told = [[_summary(one) for one in kind] for kind in (nodes, vmis, control)]
    origin = Origin(now(), f"{kube.name} Nodes, VMIs and control planes", json.dumps(told))
    hosts = [_host(node, vmis, tenant, api) for node in nodes]
    return StorageHosts(origin, tuple(sorted(hosts, key=lambda one: one.name)))


def _host(node: Obj, vmis: list[Obj], tenant: set[str], api: str) -> StorageHost:
    name = name_of(node)
    machines = [
        f"{text_at(one, 'metadata', 'namespace')}/{name_of(one)}"
        for one in vmis
        if text_at(one, "status", "nodeName") == name
    ]
    addresses = {text_at(one, "address") for one in listed(node, "status", "addresses")}
    return StorageHost(
        name,
        ready=_ready(node),
        control=CONTROL_PLANE in mapped(node, "metadata", "labels"),
        answers=api in addresses,
        tenant=name in tenant,
        machines=tuple(sorted(machines)),
    )


def _ready(obj: Obj) -> bool:
    return text_at(condition(obj, "Ready"), "status") == "True"


def _summary(obj: Obj) -> dict[str, object]:
    where = text_at(obj, "spec", "nodeName") or text_at(obj, "status", "nodeName")
    space = text_at(obj, "metadata", "namespace")
    return {"namespace": space, "name": name_of(obj), "node": where, "ready": _ready(obj)}
