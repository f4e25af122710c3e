"""The Talos machine config of a worker pool as the chart renders it, with the Job's blanks in it.

Blanks (``$SERVICE_IP`` and the like) are what only the running cluster knows; the talos-reconcile
Job fills them. Essentials: objects.md section 5, last paragraph.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml

from harness.twin.world import kernel_modules
from harness.twin.world.chart_behaviour import ChartBehaviour
from harness.twin.world.objects import Obj

POD_CIDR = "10.243.0.0/16"
SERVICE_CIDR = "10.95.0.0/16"
# newest patch the chart maps a minor to (objects.md 2.1: version v1.31 to v1.35)
KUBERNETES = {
    "v1.31": "v1.31.14",
    "v1.32": "v1.32.10",
    "v1.33": "v1.33.6",
    "v1.34": "v1.34.2",
    "v1.35": "v1.35.0",
}


@dataclass(frozen=True, slots=True)
class Pool:
    """Who a pool is, and what it boots: names by objects.md section 1."""

    cluster: str  # kubernetes-<c>
    name: str  # <p>
    namespace: str
    schematic: str
    version: str  # of Talos

    @property
    def full_name(self) -> str:
        """``kubernetes-<c>-<p>``: MachineDeployment, MachineHealthCheck, WorkloadMonitor."""
        return f"{self.cluster}-{self.name}"


def text(values: Mapping[str, Any], pool: Pool, chart: ChartBehaviour) -> str:
    """The machine config, YAML. Raises RenderRefused where its modules are not allowed."""
    installer = chart.installer_schematic or pool.schematic
    repository = values["talos"]["installerRepository"]
    machine: Obj = {
        "type": "worker",
        "token": "$TALOS_TOKEN",
        "ca": {"crt": "$TALOS_CA_CRT", "key": ""},
        "kubelet": _kubelet(values),
        "network": {"extraHostEntries": [_host_entry(pool)]},
        "install": {"disk": "/dev/vda", "image": f"{repository}/{installer}:{pool.version}"},
        "features": {"kubePrism": {"enabled": False}},
    }
    labels = _node_labels(values)
    if labels:
        machine["nodeLabels"] = labels
    machine |= _modules(values, pool, chart)
    document = {"version": "v1alpha1", "machine": machine, "cluster": _cluster(pool)}
    return str(yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=10**6))


def _modules(values: Mapping[str, Any], pool: Pool, chart: ChartBehaviour) -> Obj:
    modules = kernel_modules.rendered(values, pool.name, chart)
    if not modules:
        return {"kernel": {}} if chart.kernel_block_always else {}
    if chart.indent_modules:
        return {"kernel": {"modules": modules}}
    return {"kernel": None, "modules": modules}


def _node_labels(values: Mapping[str, Any]) -> dict[str, str]:
    labels = {f"node-role.kubernetes.io/{role}": "" for role in values["roles"] or ()}
    return labels | ({"gpu": "on"} if values["gpus"] else {})


def _kubelet(values: Mapping[str, Any]) -> Obj:
    reserved = values["kubelet"]
    version = KUBERNETES[values["version"]]
    return {
        "image": f"ghcr.io/siderolabs/kubelet:{version}",
        "extraArgs": {"cloud-provider": "external"},
        "extraConfig": {
            "evictionHard": {"memory.available": reserved["evictionHardMemory"]},
            "evictionSoft": {"memory.available": reserved["evictionSoftMemory"]},
            "evictionSoftGracePeriod": {"memory.available": "2m"},
        },
    }


def _host_entry(pool: Pool) -> Obj:
    return {"ip": "$SERVICE_IP", "aliases": [f"{pool.cluster}.{pool.namespace}.svc"]}


def _cluster(pool: Pool) -> Obj:
    return {
        "id": "$CLUSTER_ID",
        "secret": "$CLUSTER_SECRET",
        "controlPlane": {"endpoint": f"https://{pool.cluster}.{pool.namespace}.svc:6443"},
        "clusterName": pool.cluster,
        "network": {
            "dnsDomain": "cluster.local",
            "podSubnets": [POD_CIDR],
            "serviceSubnets": [SERVICE_CIDR],
        },
        "token": "$BOOTSTRAP_TOKEN",
        "ca": {"crt": "$CA_CRT", "key": ""},
        "discovery": {"enabled": False},
    }
