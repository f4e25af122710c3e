"""What only the management cluster can hold, and what only a tenant's (objects.md, gpu_path.md).

Both have a namespace cozy-gpu-operator, NFD, Cilium and more, so most objects tell nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from harness.diagnose.case import MANAGEMENT, TENANT, UNKNOWN
from harness.facts.objects import mapped, name_of, text_at

Obj = dict[str, Any]

_GROUPS = frozenset(
    {
        "apps.cozystack.io",
        "cozystack.io",
        "helm.toolkit.fluxcd.io",
        "source.toolkit.fluxcd.io",
        "cluster.x-k8s.io",
        "infrastructure.cluster.x-k8s.io",
        "bootstrap.cluster.x-k8s.io",
        "controlplane.cluster.x-k8s.io",
        "kamaji.clastix.io",
        "kubevirt.io",
        "subresources.kubevirt.io",
        "instancetype.kubevirt.io",
        "cdi.kubevirt.io",
        "piraeus.io",
    }
)
_NAMESPACES = frozenset(
    {
        "cozy-system",
        "cozy-public",
        "cozy-fluxcd",
        "cozy-linstor",
        "cozy-kubevirt",
        "cozy-kubevirt-cdi",
        "cozy-kamaji",
        "cozy-cluster-api",
    }
)
_HOST_SETS = ("nvidia-vfio-manager", "nvidia-sandbox-")
_GUEST_SETS = (
    "nvidia-device-plugin-",
    "nvidia-operator-validator",
    "nvidia-driver-daemonset",
    "nvidia-container-toolkit-daemonset",
    "nvidia-cuda-validator",
    "nvidia-dcgm-exporter",
    "gpu-feature-discovery",
)
_WORKLOADS = frozenset({"DaemonSet", "Pod", "ReplicaSet", "Deployment"})
_PROVISIONERS = {"csi.kubevirt.io": TENANT, "linstor.csi.linbit.com": MANAGEMENT}


@dataclass(frozen=True, slots=True)
class Machines:
    """Names that tell nodes apart: of virtual machines, which are the tenants' nodes, and of the
    hosts that they run on."""

    guests: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()


def machines_of(objects: Iterable[Obj]) -> Machines:
    """The names of guests and hosts that some objects speak of."""
    guests: set[str] = set()
    hosts: set[str] = set()
    for obj in objects:
        kind = text_at(obj, "kind")
        if kind in ("VirtualMachine", "VirtualMachineInstance", "KubevirtMachine"):
            guests.add(name_of(obj))
            hosts.add(text_at(obj, "status", "nodeName"))
        elif kind == "Machine":
            guests.add(text_at(obj, "status", "nodeRef", "name"))
        elif kind == "Pod" and name_of(obj).startswith("virt-launcher-"):
            hosts.add(text_at(obj, "spec", "nodeName"))
        elif kind == "LinstorSatellite":
            hosts.add(name_of(obj))
        elif kind == "Node":
            (guests if _guest_node(obj) else hosts if _host_node(obj) else set()).add(name_of(obj))
    return Machines(frozenset(guests - {""}), frozenset(hosts - guests - {""}))


def _guest_node(obj: Obj) -> bool:
    return text_at(obj, "spec", "providerID").startswith("kubevirt://") or (
        "nvidia.com/gpu" in mapped(obj, "status", "allocatable")
    )


def _host_node(obj: Obj) -> bool:
    labels = mapped(obj, "metadata", "labels")
    return (
        "devices.kubevirt.io/kvm" in mapped(obj, "status", "allocatable")
        or labels.get("nvidia.com/gpu.workload.config") == "vm-passthrough"
        or "kubevirt.io/schedulable" in labels
    )


def place_tells(group: str, namespace: str) -> str:
    """The cluster that an API group, or a namespace, is only found in; UNKNOWN for most."""
    if group in _GROUPS or namespace in _NAMESPACES or namespace.startswith("tenant-"):
        return MANAGEMENT
    return UNKNOWN


def cluster_of(obj: Obj, machines: Machines) -> str:
    """The cluster that an object can only be of, UNKNOWN where it could be of either."""
    kind, name = text_at(obj, "kind"), name_of(obj)
    group = text_at(obj, "apiVersion").rpartition("/")[0]
    namespace = text_at(obj, "metadata", "namespace")
    if kind == "Event":
        return _event(obj, machines)
    told = place_tells(group, name if kind == "Namespace" else namespace)
    if told:
        return told
    if kind == "Node":
        return _node(name, machines)
    if kind in _WORKLOADS:
        return _workload(obj, kind, name, machines)
    return _other(obj, kind)


def _node(name: str, machines: Machines) -> str:
    if name in machines.guests:
        return TENANT
    return MANAGEMENT if name in machines.hosts else UNKNOWN


def _workload(obj: Obj, kind: str, name: str, machines: Machines) -> str:
    if name.startswith(("virt-launcher-", *_HOST_SETS)):
        return MANAGEMENT
    if name.startswith(_GUEST_SETS):
        return TENANT
    return _node(text_at(obj, "spec", "nodeName"), machines) if kind == "Pod" else UNKNOWN


def _other(obj: Obj, kind: str) -> str:
    if kind == "StorageClass":
        return _PROVISIONERS.get(text_at(obj, "provisioner"), UNKNOWN)
    if kind == "PersistentVolume":
        return _PROVISIONERS.get(text_at(obj, "spec", "csi", "driver"), UNKNOWN)
    if kind == "ClusterPolicy" and "spec" in obj:
        sandbox = mapped(obj, "spec", "sandboxWorkloads").get("enabled") is True
        return MANAGEMENT if sandbox else TENANT
    return UNKNOWN


def _event(obj: Obj, machines: Machines) -> str:
    """As what it is about."""
    about = mapped(obj, "involvedObject") or mapped(obj, "regarding")
    named = {
        "kind": text_at(about, "kind"),
        "apiVersion": text_at(about, "apiVersion"),
        "metadata": {
            "name": text_at(about, "name"),
            "namespace": text_at(about, "namespace") or text_at(obj, "metadata", "namespace"),
        },
    }
    return UNKNOWN if named["kind"] in ("Event", "ClusterPolicy") else cluster_of(named, machines)
