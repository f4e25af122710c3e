"""The DaemonSets that the GPU operator makes of a ClusterPolicy (GPO v26.3.1).

Names, labels, init containers and what is looked for where: objects.md section 9, gpu_path.md
sections 5 and 6, GPO ``assets/state-*``; the order in which a device plugin's variables are set:
``controllers/object_controls.go`` (the asset's, then the operator's for CDI, then the policy's).
Left out: the MIG manager and the MPS daemon, which have no pods on these cards.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.twin.world import nodefit
from harness.twin.world.gpu_chart import VERSION
from harness.twin.world.objects import Obj, deep, digest
from harness.twin.world.workload_manifests import daemonset

HASH = "nvidia.com/last-applied-hash"
VALIDATOR = "nvidia-operator-validator"
DEVICE_PLUGIN = "nvidia-device-plugin-daemonset"
FEATURES = "gpu-feature-discovery"
EXPORTER = "nvidia-dcgm-exporter"
DRIVER = "nvidia-driver-daemonset"
TOOLKIT = "nvidia-container-toolkit-daemonset"
PLUGIN_CONTAINER = "nvidia-device-plugin"
VALIDATIONS = "/run/nvidia/validations"
_WAIT = (
    f"until [ -f {VALIDATIONS}/toolkit-ready ]; "
    "do echo waiting for nvidia container stack to be setup; sleep 5; done"
)
_PRIVILEGED = {"privileged": True}
_NODE_NAME = {"name": "NODE_NAME", "valueFrom": {"fieldRef": {"fieldPath": "spec.nodeName"}}}


@dataclass(frozen=True, slots=True)
class Operand:
    """One state of the operator: its name there, its DaemonSet's, and that one, if wanted."""

    state: str
    name: str
    manifest: Obj | None


def operands(spec: Obj, namespace: str) -> Iterator[Operand]:
    """Every state in the operator's order; ``manifest`` is None for one that is switched off."""
    made = _Maker(spec, namespace)
    on = {key: bool(deep(spec, key, "enabled")) for key in spec}
    yield Operand("state-driver", DRIVER, made.driver() if on.get("driver") else None)
    yield Operand("state-container-toolkit", TOOLKIT, made.toolkit() if on.get("toolkit") else None)
    yield Operand("state-operator-validation", VALIDATOR, made.validator())
    plugin = made.plugin() if on.get("devicePlugin") else None
    yield Operand("state-device-plugin", DEVICE_PLUGIN, plugin)
    yield Operand(
        "state-dcgm-exporter", EXPORTER, made.exporter() if on.get("dcgmExporter") else None
    )
    yield Operand("gpu-feature-discovery", FEATURES, made.features() if on.get("gfd") else None)


def with_env(container: Obj, pairs: Any) -> Obj:
    """A container with variables set: in their place where they are there, appended otherwise."""
    env = [dict(one) for one in container.get("env") or ()]
    for pair in nodefit.listed(pairs):
        name, value = str(pair.get("name", "")), str(pair.get("value", ""))
        found = next((one for one in env if one["name"] == name), None)
        if found is None:
            env.append({"name": name, "value": value})
        else:
            found.update(value=value)
    return {**container, "env": env}


@dataclass(frozen=True, slots=True)
class _Maker:
    spec: Obj
    namespace: str

    def validator(self) -> Obj:
        image = self._image("validator")
        stages = [
            ("driver", {"WITH_WAIT": "true"}),
            ("toolkit", {"WITH_WAIT": "false"}),
            ("cuda", {"WITH_WAIT": "false"}),
            ("plugin", {"WITH_WAIT": "false", "WITH_WORKLOAD": "false", "MIG_STRATEGY": "single"}),
        ]
        steps = []
        for component, settings in stages:
            env: list[Obj] = [{"name": key, "value": value} for key, value in settings.items()]
            env.append({"name": "COMPONENT", "value": component})
            if component in ("cuda", "plugin"):
                env.append(_NODE_NAME)
            step = {
                "name": f"{component}-validation",
                "image": image,
                "command": ["sh", "-c"],
                "args": ["nvidia-validator"],
                "securityContext": _PRIVILEGED,
                "volumeMounts": self._validator_mounts(component),
                "env": env,
            }
            steps.append(with_env(step, deep(self.spec, "validator", component, "env")))
        main = {
            "name": VALIDATOR,
            "image": image,
            "command": ["sh", "-c"],
            "args": ["echo all validations are successful; sleep infinity"],
            "securityContext": _PRIVILEGED,
            "lifecycle": {
                "preStop": {"exec": {"command": ["/bin/sh", "-c", f"rm -f {VALIDATIONS}/*-ready"]}}
            },
            "volumeMounts": self._validator_mounts(""),
        }
        volumes = {
            "run-nvidia-validations": VALIDATIONS,
            "driver-install-path": "/run/nvidia/driver",
            "host-root": "/",
            "host-dev-char": "/dev/char",
        }
        pod = self._pod("operator-validator", steps, [main], volumes)
        labels = {"app": VALIDATOR, "app.kubernetes.io/part-of": "gpu-operator"}
        return self._daemonset(VALIDATOR, labels, pod)

    @staticmethod
    def _validator_mounts(component: str) -> list[Obj]:
        mounts: list[Obj] = [{"name": "run-nvidia-validations", "mountPath": VALIDATIONS}]
        if component == "driver":
            mounts += [
                {"name": "host-root", "mountPath": "/host", "readOnly": True},
                {"name": "driver-install-path", "mountPath": "/run/nvidia/driver"},
                {"name": "host-dev-char", "mountPath": "/host-dev-char"},
            ]
        return mounts

    def plugin(self) -> Obj:
        asset = {
            "PASS_DEVICE_SPECS": "true",
            "FAIL_ON_INIT_ERROR": "true",
            "DEVICE_LIST_STRATEGY": "envvar",
            "DEVICE_ID_STRATEGY": "uuid",
            "NVIDIA_VISIBLE_DEVICES": "all",
            "NVIDIA_DRIVER_CAPABILITIES": "all",
            "MPS_ROOT": "/run/nvidia/mps",
        }
        container: Obj = {
            "name": PLUGIN_CONTAINER,
            "image": self._image("devicePlugin"),
            "command": ["/bin/sh", "-c"],
            "args": ["/bin/entrypoint.sh"],
            "securityContext": _PRIVILEGED,
            "env": _pairs(asset),
            "volumeMounts": [
                {"name": "device-plugin", "mountPath": "/var/lib/kubelet/device-plugins"},
                {"name": "run-nvidia-validations", "mountPath": VALIDATIONS},
                {"name": "host-root", "mountPath": "/host", "readOnly": True},
                {"name": "cdi-root", "mountPath": "/var/run/cdi"},
            ],
        }
        container = with_env(container, _pairs({"MIG_STRATEGY": "single"}))
        if deep(self.spec, "cdi", "enabled"):
            container = with_env(container, _pairs(self._for_cdi()))
        container = with_env(container, deep(self.spec, "devicePlugin", "env"))
        volumes = {
            "device-plugin": "/var/lib/kubelet/device-plugins",
            "run-nvidia-validations": VALIDATIONS,
            "host-root": "/",
            "cdi-root": "/var/run/cdi",
        }
        pod = self._pod("device-plugin", [self._gate()], [container], volumes)
        return self._daemonset(DEVICE_PLUGIN, {"app": DEVICE_PLUGIN}, pod)

    def _for_cdi(self) -> dict[str, str]:
        found = {
            "CDI_ENABLED": "true",
            "DEVICE_LIST_STRATEGY": "cdi-annotations,cdi-cri",
            "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
        }
        if deep(self.spec, "toolkit", "enabled"):
            root = deep(self.spec, "toolkit", "installDir") or "/usr/local/nvidia"
            found["NVIDIA_CDI_HOOK_PATH"] = f"{root}/toolkit/nvidia-cdi-hook"
        return found

    def features(self) -> Obj:
        container = {
            "name": FEATURES,
            "image": self._image("gfd"),
            "command": ["gpu-feature-discovery"],
            "securityContext": _PRIVILEGED,
            "env": _pairs({"GFD_SLEEP_INTERVAL": "60s", "GFD_FAIL_ON_INIT_ERROR": "true"}),
            "volumeMounts": [{"name": "run-nvidia-validations", "mountPath": VALIDATIONS}],
        }
        volumes = {"run-nvidia-validations": VALIDATIONS}
        pod = self._pod("gpu-feature-discovery", [self._gate()], [container], volumes)
        labels = {"app": FEATURES, "app.kubernetes.io/part-of": "nvidia-gpu"}
        return self._daemonset(FEATURES, labels, pod)

    def exporter(self) -> Obj:
        container = {
            "name": EXPORTER,
            "image": self._image("dcgmExporter"),
            "securityContext": {"capabilities": {"add": ["SYS_ADMIN"]}},
            "env": _pairs({"DCGM_EXPORTER_LISTEN": ":9400", "DCGM_EXPORTER_KUBERNETES": "true"}),
            "ports": [{"name": "metrics", "containerPort": 9400}],
            "volumeMounts": [
                {"name": "pod-gpu-resources", "mountPath": "/var/lib/kubelet/pod-resources"}
            ],
        }
        volumes = {
            "pod-gpu-resources": "/var/lib/kubelet/pod-resources",
            "run-nvidia-validations": VALIDATIONS,
        }
        pod = self._pod("dcgm-exporter", [self._gate()], [container], volumes)
        return self._daemonset(EXPORTER, {"app": EXPORTER}, pod)

    def driver(self) -> Obj:
        manager = {
            "name": "k8s-driver-manager",
            "image": "nvcr.io/nvidia/cloud-native/k8s-driver-manager:v0.10.0",
            "command": ["driver-manager"],
            "args": ["uninstall_driver"],
            "securityContext": _PRIVILEGED,
            "volumeMounts": [{"name": "host-root", "mountPath": "/host"}],
        }
        container: Obj = {
            "name": "nvidia-driver-ctr",
            "image": self._image("driver"),
            "command": ["nvidia-driver"],
            "args": ["init"],
            "securityContext": _PRIVILEGED,
            "volumeMounts": [{"name": "run-nvidia", "mountPath": "/run/nvidia"}],
        }
        volumes = {"run-nvidia": "/run/nvidia", "host-root": "/"}
        pod = self._pod("driver", [manager], [container], volumes, runtime="")
        labels = {"app": DRIVER, "app.kubernetes.io/component": "nvidia-driver"}
        made = self._daemonset(DRIVER, labels, pod)
        # GPO: a driver is only ever replaced on purpose
        made["spec"]["updateStrategy"] = {"type": "OnDelete"}
        return made

    def toolkit(self) -> Obj:
        gate = {
            "name": "driver-validation",
            "image": self._image("validator"),
            "command": ["sh", "-c"],
            "args": ["nvidia-validator"],
            "env": _pairs({"WITH_WAIT": "true", "COMPONENT": "driver"}),
            "securityContext": _PRIVILEGED,
            "volumeMounts": [{"name": "run-nvidia-validations", "mountPath": VALIDATIONS}],
        }
        container = {
            "name": "nvidia-container-toolkit-ctr",
            "image": self._image("toolkit"),
            "env": _pairs({"RUNTIME": "containerd", "ROOT": "/usr/local/nvidia"}),
            "securityContext": _PRIVILEGED,
            "volumeMounts": [{"name": "containerd-config", "mountPath": "/runtime/config-dir"}],
        }
        volumes = {
            "run-nvidia-validations": VALIDATIONS,
            "host-root": "/",
            "containerd-config": "/etc/containerd",
        }
        pod = self._pod("container-toolkit", [gate], [container], volumes, runtime="")
        return self._daemonset(TOOLKIT, {"app": TOOLKIT}, pod)

    # -- parts

    def _image(self, key: str) -> str:
        parts = {"repository": "nvcr.io/nvidia", "image": key, "version": VERSION}
        found = {name: deep(self.spec, key, name) or default for name, default in parts.items()}
        return f"{found['repository']}/{found['image']}:{found['version']}"

    def _gate(self) -> Obj:
        return {
            "name": "toolkit-validation",
            "image": self._image("validator"),
            "command": ["sh", "-c"],
            "args": [_WAIT],
            "securityContext": _PRIVILEGED,
            "volumeMounts": [{"name": "run-nvidia-validations", "mountPath": VALIDATIONS}],
        }

    def _pod(
        self,
        deploy: str,
        first: list[Obj],
        then: list[Obj],
        volumes: dict[str, str],
        runtime: str = "nvidia",
    ) -> Obj:
        spec: Obj = {
            "nodeSelector": {f"nvidia.com/gpu.deploy.{deploy}": "true"},
            "tolerations": nodefit.listed(deep(self.spec, "daemonsets", "tolerations")),
            "priorityClassName": "system-node-critical",
            "initContainers": first,
            "containers": then,
            "volumes": [
                {"name": name, "hostPath": {"path": path}} for name, path in volumes.items()
            ],
        }
        if runtime:
            spec["runtimeClassName"] = deep(self.spec, "operator", "runtimeClass") or runtime
        return spec

    def _daemonset(self, name: str, labels: dict[str, str], pod: Obj) -> Obj:
        made = daemonset(name, self.namespace, labels, pod)
        made["metadata"]["annotations"] = {HASH: digest(made["spec"])[:16]}
        return made


def _pairs(settings: dict[str, str]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in settings.items()]
