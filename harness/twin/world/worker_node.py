"""A tenant worker's Node object as its kubelet registers it (objects.md section 9)."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import yaml

from harness.twin.world.heartbeats import node_conditions
from harness.twin.world.objects import Obj, deep, quantity

if TYPE_CHECKING:
    from random import Random

    from harness.twin.world.guest import Guest

CNI_TAINT = "node.cilium.io/agent-not-ready"
NOT_READY = "node.kubernetes.io/not-ready"
UNINITIALIZED = "node.cloudprovider.kubernetes.io/uninitialized"
NO_NETWORK = (
    "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady "
    "message:Network plugin returns error: cni plugin not initialized"
)
_RESERVED_MEMORY = 512 * 2**20


def kubelet_facts(machine_config: str) -> tuple[str, str]:
    """(Kubernetes version, id of the bootstrap token) of a machine config; "" where not there."""
    try:
        documents = [d for d in yaml.safe_load_all(machine_config) if isinstance(d, dict)]
    except yaml.YAMLError:
        return "", ""
    main = next((d for d in documents if "machine" in d), {})
    image = str(deep(main, "machine", "kubelet", "image") or "")
    token = str(deep(main, "cluster", "token") or "")
    return image.rpartition(":")[2], token.partition(".")[0]


def machine_identity(rng: Random) -> tuple[str, str]:
    """(machineID, systemUUID): drawn once for a machine, the same at every boot."""
    return f"{rng.getrandbits(128):032x}", str(uuid.UUID(int=rng.getrandbits(128), version=4))


def node(guest: Guest, instance: Obj, identity: tuple[str, str], number: int, now: float) -> Obj:
    """The Node on its first registration: not Ready, tainted, without a provider id."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": guest.hostname,
            "labels": {
                "beta.kubernetes.io/arch": "amd64",
                "beta.kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": guest.hostname,
                "kubernetes.io/os": "linux",
                **guest.node_labels,
            },
            "annotations": {
                "node.alpha.kubernetes.io/ttl": "0",
                "volumes.kubernetes.io/controller-managed-attach-detach": "true",
                "networking.talos.dev/self-ips": address(instance),
            },
        },
        "spec": {
            "podCIDR": f"10.243.{number}.0/24",
            "podCIDRs": [f"10.243.{number}.0/24"],
            "taints": [
                {"key": UNINITIALIZED, "value": "true", "effect": "NoSchedule"},
                {"key": NOT_READY, "effect": "NoSchedule"},
                {"key": CNI_TAINT, "effect": "NoExecute"},
            ],
        },
        "status": {
            **_size(instance),
            "addresses": _addresses(guest, instance),
            "conditions": node_conditions(now, ready=False, message=NO_NETWORK),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": node_info(guest, identity),
        },
    }


def node_info(guest: Guest, identity: tuple[str, str]) -> Obj:
    """``status.nodeInfo`` of this boot."""
    version, _ = kubelet_facts(guest.machine_config)
    return {
        "architecture": "amd64",
        "bootID": guest.boot_id,
        "containerRuntimeVersion": "containerd://2.1.5",
        "kernelVersion": guest.kernel_version,
        "kubeProxyVersion": "",
        "kubeletVersion": version,
        "machineID": identity[0],
        "operatingSystem": "linux",
        "osImage": guest.os_image,
        "systemUUID": identity[1],
    }


def address(instance: Obj) -> str:
    """The VMI's address on the pod network, "" before it has one."""
    interfaces = deep(instance, "status", "interfaces") or ()
    return str(interfaces[0].get("ipAddress", "")) if interfaces else ""


def advertise(node: Obj, resource: str, capacity: int, allocatable: int) -> None:
    """What a kubelet says of a device plugin's resource."""
    status = node["status"]
    status.setdefault("capacity", {})[resource] = str(capacity)
    status.setdefault("allocatable", {})[resource] = str(allocatable)


def _addresses(guest: Guest, instance: Obj) -> list[Obj]:
    return [
        {"type": "InternalIP", "address": address(instance)},
        {"type": "Hostname", "address": guest.hostname},
    ]


def _size(instance: Obj) -> Obj:
    domain = deep(instance, "spec", "domain") or {}
    cpu = domain.get("cpu") or {}
    count = cpu.get("cores", 1) * cpu.get("sockets", 1) * cpu.get("threads", 1)
    memory = quantity(deep(domain, "memory", "guest") or "4Gi")
    capacity = {
        "cpu": str(count),
        "memory": f"{memory * 96 // 100 // 1024}Ki",
        "ephemeral-storage": "18Gi",
        "hugepages-2Mi": "0",
        "pods": "110",
    }
    left = (memory * 96 // 100 - _RESERVED_MEMORY) // 1024
    allocatable = {**capacity, "cpu": f"{count * 1000 - 50}m", "memory": f"{left}Ki"}
    return {"capacity": capacity, "allocatable": allocatable}
