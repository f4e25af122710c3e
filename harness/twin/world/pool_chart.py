"""The worker-pool chart as a pure function: values and look-ups in, manifests out.

Objects and their names: objects.md section 1; refusals: clone_path.md section 3.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from harness.twin.world import (
    golden_guard,
    pool_disk,
    pool_machineconfig,
    pool_values,
    talos_versions,
)
from harness.twin.world.chart_behaviour import ChartBehaviour, DiskRules, RenderRefused
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import (
    BOOTSTRAP,
    CAPI,
    CONTROL_PLANE,
    COZY,
    INFRA,
    KAMAJI,
    Obj,
    annotations_of,
    deep,
    digest,
    meta,
    quantity,
)
from harness.twin.world.pool_disk import (
    GOLDEN,
    GOLDEN_POOL,
    HELPERS,
    NODEGROUP,
    PUBLIC,
    USE_POPULATOR,
    Disk,
    Release,
    quoted,
)
from harness.twin.world.pool_machineconfig import KUBERNETES, Pool

RELEASE_PREFIX = "kubernetes-nodes-"
PARENT_PREFIX = "kubernetes-"
RECONCILE_LABEL = "cozystack.io/talos-reconcile"
TEMPLATE_LABEL = "cozystack.io/kubernetes-nodes-release"
OWNING_RELEASE = "meta.helm.sh/release-name"
MIN_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
MAX_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
CLUSTER_NAME = "cluster.x-k8s.io/cluster-name"
DEPLOYMENT_NAME = "cluster.x-k8s.io/deployment-name"
ROLE = "cluster.x-k8s.io/role"
SYSTEM_DISK = "disk-system"


# objects.md section 2.1. kernelModules and osImage have no default anywhere: their absence means
# something.
DEFAULTS: Obj = {
    "clusterReleaseName": "",
    "storageClass": "replicated",
    "minReplicas": 0,
    "maxReplicas": 10,
    "instanceType": "u1.medium",
    "diskSize": "20Gi",
    "roles": [],
    "resources": {},
    "gpus": [],
    "kubelet": {"evictionHardMemory": "7%", "evictionSoftMemory": "10%"},
    "logSerialConsole": False,
    "maxUnhealthy": "50%",
    "nodeStartupTimeout": "20m",
    "readyUnknownTimeout": "5m",
    "readyFalseTimeout": "10m",
    "maxNodeProvisionTime": "30m",
    "version": "v1.35",
    "talos": {
        "version": "v1.13.6",
        "schematicID": VANILLA,
        "imageFactoryURL": "https://factory.talos.dev",
        "installerRepository": "factory.talos.dev/installer",
    },
}


def render(values: Mapping[str, Any], release: Release, chart: ChartBehaviour) -> list[Obj]:
    """The release's manifests. Raises RenderRefused."""
    full = merged(DEFAULTS, values)
    pool_values.check(full, DEFAULTS)
    cluster = _parent(full, release)
    if not chart.ignore_awaiting_etcd and not _has_etcd(release, cluster):
        return [_awaiting_etcd(release)]
    name = _pool_name(full, release)
    disk = pool_disk.resolve(full, name, chart.disks)
    pool = Pool(cluster, name, release.namespace, disk.schematic, disk.version)
    _check_sizes(full)
    _check_versions(full, pool, release, chart.disks)
    klass = str(full["storageClass"])
    if disk.form == "builtin":
        klass = golden_guard.storage_class(disk, full, pool.full_name, release, chart.disks)
    marked = chart.disks.marks_disks
    template = _disk_template(full["diskSize"], klass, pool, disk, marked=marked)
    machine_template = _machine_template(full, pool, template, chart.disks)
    config = pool_machineconfig.text(full, pool, chart)
    suffix = f"-{digest(config)[:6]}" if chart.content_named else ""
    talos_template = f"{pool.full_name}{suffix}"
    return [
        _service_account(release),
        _reconcile_job(pool, release, config, talos_template),
        machine_template,
        _machine_deployment(full, pool, talos_template, machine_template["metadata"]["name"]),
        _health_check(full, pool),
        _workload_monitor(full, pool, release),
    ]


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> Obj:
    """Helm's merge: mappings key by key, everything else replaced; null drops the default."""
    result: Obj = copy.deepcopy(dict(base))
    for key, value in over.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _refuse(where: str, text: str) -> RenderRefused:
    return RenderRefused(where, text)


def _parent(values: Obj, release: Release) -> str:
    if not values.get("cluster"):
        raise _refuse(f"{HELPERS}:9:4", "cluster is required: the name of the parent Kubernetes")
    cluster = values["clusterReleaseName"] or f"{PARENT_PREFIX}{values['cluster']}"
    if release.find(CAPI, "Cluster", release.namespace, cluster) is None:
        text = f"parent cluster {cluster} not found in namespace {release.namespace}"
        raise _refuse(f"{HELPERS}:24:4", text)
    return str(cluster)


def _pool_name(values: Obj, release: Release) -> str:
    prefix = f"{RELEASE_PREFIX}{values['cluster']}-"
    pool = release.name.removeprefix(prefix)
    if pool == release.name or not pool:
        shown = release.name.removeprefix(RELEASE_PREFIX)
        text = f"KubernetesNodes {shown} must be named <cluster>-<pool>: {values['cluster']}-..."
        raise _refuse(f"{HELPERS}:16:4", text)
    return pool


def _has_etcd(release: Release, cluster: str) -> bool:
    control_plane = release.find(KAMAJI, "TenantControlPlane", release.namespace, cluster)
    store = deep(control_plane or {}, "spec", "dataStore")
    return bool(store) and release.find(KAMAJI, "DataStore", "", store) is not None


def _awaiting_etcd(release: Release) -> Obj:
    # objects.md section 4: the sole output of a tenant without etcd
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": meta(f"{release.name}-awaiting-etcd", release.namespace),
        "data": {"reason": f"namespace {release.namespace} has no etcd DataStore yet"},
    }


def _check_sizes(values: Obj) -> None:
    given = sorted(key for key in ("cpu", "memory") if values["resources"].get(key))
    if len(given) == 1:
        raise _refuse(f"{NODEGROUP}:44:8", "resources: set both cpu and memory, or neither")


def _check_versions(values: Obj, pool: Pool, release: Release, rules: DiskRules) -> None:
    """R10 to R12 (clone_path.md section 3), then whether the chart knows the version at all."""
    wanted = str(values["version"])
    _check_foreign(pool, release, rules)
    _check_parent(wanted, pool, release, rules)
    for talos in (str(values["talos"]["version"]), pool.version):
        why = talos_versions.unsupported(wanted, talos)
        if why:
            rules.refuse("R10", f"{HELPERS}:118:8", why)
    if wanted not in KUBERNETES:
        known = ", ".join(KUBERNETES)
        raise _refuse(f"{NODEGROUP}:49:8", f"unknown Kubernetes version {wanted!r}; known: {known}")


def _check_parent(wanted: str, pool: Pool, release: Release, rules: DiskRules) -> None:
    found = release.find(CONTROL_PLANE, "KamajiControlPlane", pool.namespace, pool.cluster)
    parent = str(deep(found or {}, "spec", "version") or "")
    if talos_versions.is_ahead(wanted, parent):
        rules.refuse(
            "R11",
            f"{HELPERS}:110:6",
            f"kubernetes-nodes: pool version {quoted(wanted)} is ahead of parent cluster "
            f"{quoted(pool.cluster)} version {quoted(parent)}: upgrade the cluster first",
        )


def _check_foreign(pool: Pool, release: Release, rules: DiskRules) -> None:
    found = release.find(CAPI, "MachineDeployment", pool.namespace, pool.full_name)
    holder = annotations_of(found).get(OWNING_RELEASE, "") if found is not None else ""
    if holder not in ("", release.name):
        rules.refuse(
            "R12",
            f"{HELPERS}:126:6",
            f"kubernetes-nodes: MachineDeployment {quoted(pool.full_name)} in namespace "
            f"{quoted(pool.namespace)} is already managed by release {quoted(holder)}, not this "
            f"pool release {quoted(release.name)}",
        )


def _machine_template(values: Obj, pool: Pool, disk: Obj, rules: DiskRules) -> Obj:
    spec = {
        "template": {
            "spec": {
                "virtualMachineBootstrapCheck": {"checkStrategy": "none"},
                "virtualMachineTemplate": {
                    "metadata": {"namespace": pool.namespace, "labels": _machine_labels(pool)},
                    "spec": _virtual_machine(values, pool, disk),
                },
            }
        }
    }
    told = spec if rules.disk_in_name else _virtual_machine(values, pool, {})
    return {
        "apiVersion": INFRA,
        "kind": "KubevirtMachineTemplate",
        "metadata": meta(f"{pool.full_name}-{digest(told)[:6]}", pool.namespace),
        "spec": spec,
    }


def _machine_labels(pool: Pool) -> dict[str, str]:
    return {CLUSTER_NAME: pool.cluster, DEPLOYMENT_NAME: pool.full_name, ROLE: "worker"}


def _virtual_machine(values: Obj, pool: Pool, disk: Obj) -> Obj:
    devices: Obj = {
        "disks": [
            {
                "name": SYSTEM_DISK,
                "disk": {"bus": "virtio", "pciAddress": "0000:07:00.0"},
                "blockSize": {"custom": {"logical": 512, "physical": 4096}},
            }
        ],
        "interfaces": [{"name": "default", "bridge": {}}],
        "networkInterfaceMultiqueue": True,
    }
    if values["gpus"]:
        devices["gpus"] = [
            {"name": f"gpu{index}", "deviceName": gpu["name"]}
            for index, gpu in enumerate(values["gpus"])
        ]
    if values["logSerialConsole"]:
        devices["logSerialConsole"] = True
    machine: Obj = {
        "dataVolumeTemplates": [disk],
        "runStrategy": "Always",
        "template": {
            "metadata": {"labels": _machine_labels(pool)},
            "spec": {
                "domain": {"devices": devices},
                "evictionStrategy": "External",
                "networks": [{"name": "default", "pod": {}}],
                "volumes": [{"name": SYSTEM_DISK, "dataVolume": {"name": SYSTEM_DISK}}],
            },
        },
    }
    return machine | _size(values, machine["template"]["spec"]["domain"])


def _size(values: Obj, domain: Obj) -> Obj:
    asked = values["resources"]
    if not asked.get("cpu"):
        kind = "VirtualMachineClusterInstancetype"
        return {"instancetype": {"kind": kind, "name": values["instanceType"]}}
    domain["cpu"] = {"cores": quantity(asked["cpu"]), "sockets": 1, "threads": 1}
    domain["memory"] = {"guest": str(asked["memory"])}
    return {}


def _disk_template(size: Any, klass: str, pool: Pool, disk: Disk, *, marked: bool) -> Obj:
    storage: Obj = {"resources": {"requests": {"storage": size}}}
    if klass:
        storage["storageClassName"] = klass
    if disk.form == "builtin":
        annotations = {GOLDEN: disk.golden, GOLDEN_POOL: pool.full_name} if marked else {}
        source: Obj = {"pvc": {"namespace": PUBLIC, "name": disk.golden}}
    else:
        annotations = {USE_POPULATOR: "false"}
        source = {"http": {"url": disk.url}}
    return {
        "metadata": meta(SYSTEM_DISK, annotations=annotations),
        "spec": {"source": source, "storage": storage},
    }


def _machine_deployment(values: Obj, pool: Pool, talos: str, infrastructure: str) -> Obj:
    def ref(api_version: str, kind: str, name: str) -> Obj:
        return {
            "apiVersion": api_version, "kind": kind, "name": name, "namespace": pool.namespace,
        }  # fmt: skip

    template = {
        "metadata": {"labels": _machine_labels(pool)},
        "spec": {
            "clusterName": pool.cluster,
            "version": KUBERNETES[values["version"]],
            "bootstrap": {"configRef": ref(BOOTSTRAP, "TalosConfigTemplate", talos)},
            "infrastructureRef": ref(INFRA, "KubevirtMachineTemplate", infrastructure),
        },
    }
    annotations = {
        MIN_SIZE: str(values["minReplicas"]),
        MAX_SIZE: str(values["maxReplicas"]),
        "cluster.x-k8s.io/autoscaling-options-maxnodeprovisiontime": values["maxNodeProvisionTime"],
        "capacity.cluster-autoscaler.kubernetes.io/ephemeral-disk": values["diskSize"],
    }
    return {
        "apiVersion": CAPI,
        "kind": "MachineDeployment",
        "metadata": meta(
            pool.full_name,
            pool.namespace,
            labels={CLUSTER_NAME: pool.cluster},
            annotations=annotations,
        ),
        # no replicas: they belong to the autoscaler, within the two annotations
        "spec": {
            "clusterName": pool.cluster,
            "selector": {"matchLabels": _machine_labels(pool)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": values["maxReplicas"], "maxUnavailable": 1},
            },
            "template": template,
        },
    }


def _health_check(values: Obj, pool: Pool) -> Obj:
    timeouts = {"Unknown": values["readyUnknownTimeout"], "False": values["readyFalseTimeout"]}
    return {
        "apiVersion": CAPI,
        "kind": "MachineHealthCheck",
        "metadata": meta(pool.full_name, pool.namespace, labels={CLUSTER_NAME: pool.cluster}),
        "spec": {
            "clusterName": pool.cluster,
            "selector": {"matchLabels": _machine_labels(pool)},
            "maxUnhealthy": values["maxUnhealthy"],
            "nodeStartupTimeout": values["nodeStartupTimeout"],
            "unhealthyConditions": [
                {"type": "Ready", "status": status, "timeout": timeout}
                for status, timeout in timeouts.items()
            ],
        },
    }


def _workload_monitor(values: Obj, pool: Pool, release: Release) -> Obj:
    labels = {
        "apps.cozystack.io/application.group": "apps.cozystack.io",
        "apps.cozystack.io/application.kind": "KubernetesNodes",
        "apps.cozystack.io/application.name": release.name.removeprefix(RELEASE_PREFIX),
    }
    return {
        "apiVersion": COZY,
        "kind": "WorkloadMonitor",
        "metadata": meta(pool.full_name, pool.namespace, labels=labels),
        "spec": {
            "kind": "kubernetes",
            "type": "worker",
            "minReplicas": values["minReplicas"],
            "version": values["version"],
            "selector": _machine_labels(pool),
        },
    }


def _service_account(release: Release) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "ServiceAccount",
        "metadata": meta(f"{release.name}-talos-reconcile", release.namespace),
    }


def _reconcile_job(pool: Pool, release: Release, config: str, template: str) -> Obj:
    script = "\n".join(
        (
            "set -eu",
            f"TEMPLATE={template}",
            f"TALOS_VERSION={pool.version}",
            "cat > /tmp/machine-config.yaml <<EOF",
            config.rstrip("\n"),
            "EOF",
            "kubectl apply --server-side --filename /tmp/template.yaml",
        )
    )
    container = {
        "name": "kubectl",
        "image": "ghcr.io/cozystack/cozystack/kubectl:latest",
        "command": ["sh", "-c", script],
        "env": [{"name": "CLUSTER", "value": pool.cluster}],
    }
    spec = {
        # objects.md section 5, talos-reconcile Job
        "backoffLimit": 30,
        "ttlSecondsAfterFinished": 600,
        "template": {
            "metadata": {"labels": {RECONCILE_LABEL: release.name}},
            "spec": {
                "restartPolicy": "Never",
                "serviceAccountName": f"{release.name}-talos-reconcile",
                "containers": [container],
            },
        },
    }
    stem = f"{release.name}-talos-reconcile-{pool.name}"[:56].rstrip("-")
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": meta(f"{stem}-{digest(spec)[:6]}", pool.namespace),
        "spec": spec,
    }
