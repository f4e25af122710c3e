"""What the addons' charts put into a tenant cluster: ClusterPolicy, operator, NFD; HAMi's plugin.

The operator's own defaults: GPO v26.3.1 ``deployments/gpu-operator/values.yaml``, as far as they
decide anything here. The policy is valid against its CRD schema.
"""

from __future__ import annotations

from typing import Any

from harness.twin.world import gpu_values, kubernetes_chart
from harness.twin.world.objects import Obj, meta
from harness.twin.world.workload_manifests import daemonset, deployment

NVIDIA = "nvidia.com/v1"
POLICY = "cluster-policy"
OPERATOR = "gpu-operator"
NFD = "gpu-operator-node-feature-discovery"
NFD_WORKER = {"app.kubernetes.io/name": "node-feature-discovery", "role": "worker"}
HAMI_PLUGIN = {
    "app.kubernetes.io/name": "hami",
    "app.kubernetes.io/component": "hami-device-plugin",
}
VERSION = "v26.3.1"
_IMAGES = "nvcr.io/nvidia"
_NFD_IMAGE = "registry.k8s.io/nfd/node-feature-discovery:v0.18.3"
_GPU_TAINT = [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}]


def render(chart: str, values: Obj, namespace: str) -> list[Obj]:
    """The manifests of an addon's chart; nothing for a chart that leaves nothing to see here."""
    if chart == kubernetes_chart.GPU_OPERATOR:
        return _gpu_operator(values, namespace)
    if chart == kubernetes_chart.HAMI:
        return [_hami(namespace)]
    return []


def _gpu_operator(values: Obj, namespace: str) -> list[Obj]:
    inner = gpu_values.overlaid(_DEFAULTS, _table(values, gpu_values.GPU_OPERATOR))
    found = [_policy(inner), _operator(namespace)]
    found += [_nfd_deployment(namespace, role) for role in ("master", "gc")]
    found.append(_nfd_worker(namespace))
    parameters = _table(values, "kernelModuleConfig")
    if parameters.get("create"):
        # CZ packages/system/gpu-operator/templates/kernel-module-config.yaml
        found.append(
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": meta(str(parameters.get("name", "")), namespace),
                "data": {"nvidia.conf": str(parameters.get("content", ""))},
            }
        )
    return found


def _table(values: Obj, key: str) -> Obj:
    """A mapping among values; Helm passes over what is none where it expects one."""
    found = values.get(key)
    return found if isinstance(found, dict) else {}


def _image(name: str, version: str, repository: str = _IMAGES) -> Obj:
    return {
        "repository": repository,
        "image": name,
        "version": version,
        "imagePullPolicy": "IfNotPresent",
    }


_DEFAULTS: dict[str, Any] = {
    "operator": {"defaultRuntime": "containerd", "runtimeClass": "nvidia"},
    "daemonsets": {
        "tolerations": _GPU_TAINT,
        "priorityClassName": "system-node-critical",
        "updateStrategy": "RollingUpdate",
        "rollingUpdate": {"maxUnavailable": "1"},
    },
    "driver": {
        "enabled": True,
        "kernelModuleType": "auto",
        "kernelModuleConfig": {"name": ""},
        **_image("driver", "580.126.20"),
    },
    "toolkit": {
        "enabled": True,
        "installDir": "/usr/local/nvidia",
        **_image("container-toolkit", "v1.19.0", f"{_IMAGES}/k8s"),
    },
    "devicePlugin": {"enabled": True, **_image("k8s-device-plugin", "v0.19.0")},
    "validator": {"plugin": {"env": []}, **_image("gpu-operator", VERSION)},
    "gfd": {"enabled": True, **_image("k8s-device-plugin", "v0.19.0")},
    "dcgm": {"enabled": False, **_image("dcgm", "4.5.2-1-ubuntu22.04", f"{_IMAGES}/cloud-native")},
    "dcgmExporter": {
        "enabled": True,
        **_image("dcgm-exporter", "4.5.1-4.8.0-distroless", f"{_IMAGES}/k8s"),
    },
    "nodeStatusExporter": {"enabled": False, **_image("gpu-operator", VERSION)},
    "mig": {"strategy": "single"},
    "migManager": {
        "enabled": True,
        **_image("k8s-mig-manager", "v0.14.0", f"{_IMAGES}/cloud-native"),
    },
    "cdi": {"enabled": True, "nriPluginEnabled": False},
    "sandboxWorkloads": {"enabled": False, "defaultWorkload": "container"},
    "hostPaths": {"rootFS": "/", "driverInstallDir": "/run/nvidia/driver"},
    # CZ packages/system/gpu-operator/values.yaml
    "ccManager": {"enabled": False},
    "vgpuDeviceManager": {"enabled": False},
}
"""The operator chart's values; each key is one of ClusterPolicy's spec as well."""


def _policy(values: Obj) -> Obj:
    spec = {key: value for key, value in values.items() if key in _DEFAULTS}
    return {
        "apiVersion": NVIDIA,
        "kind": "ClusterPolicy",
        "metadata": meta(POLICY, labels={"app.kubernetes.io/component": OPERATOR}),
        "spec": spec,
    }


def _operator(namespace: str) -> Obj:
    labels = {"app": OPERATOR, "app.kubernetes.io/component": OPERATOR}
    container = {
        "name": OPERATOR,
        "image": f"{_IMAGES}/gpu-operator:{VERSION}",
        "command": ["gpu-operator"],
        "args": ["--leader-elect"],
    }
    return deployment(OPERATOR, namespace, labels, container)


def _nfd_deployment(namespace: str, role: str) -> Obj:
    labels = {**NFD_WORKER, "role": role}
    container = {"name": role, "image": _NFD_IMAGE, "command": [f"nfd-{role}"]}
    return deployment(f"{NFD}-{role}", namespace, labels, container)


def _nfd_worker(namespace: str) -> Obj:
    container = {"name": "worker", "image": _NFD_IMAGE, "command": ["nfd-worker"]}
    spec = {"tolerations": [*_GPU_TAINT], "containers": [container]}
    return daemonset(f"{NFD}-worker", namespace, NFD_WORKER, spec)


def _hami(namespace: str) -> Obj:
    """HAMi's device plugin: it knows nothing of Talos' CDI (S-GPO; gpu_path.md section 5.2)."""
    container = {
        "name": "device-plugin",
        "image": "docker.io/projecthami/hami:v2.7.1",
        "command": ["nvidia-device-plugin"],
        "securityContext": {"privileged": True},
    }
    spec = {
        "nodeSelector": {"gpu": "on"},
        "runtimeClassName": "nvidia",
        "tolerations": [*_GPU_TAINT],
        "containers": [container],
    }
    return daemonset("hami-device-plugin", namespace, HAMI_PLUGIN, spec)
