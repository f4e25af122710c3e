"""The virt-launcher pod of a VMI as virt-controller renders it (objects.md section 6)."""

from __future__ import annotations

from harness.twin.world.objects import Obj, deep, labels_of, meta, owner

COMPUTE = "compute"
CONSOLE_LOG = "guest-console-log"


class NotPermitted(Exception):
    """A device that the KubeVirt CR does not list."""


def check_devices(instance: Obj, kubevirt: Obj | None) -> None:
    """Raise NotPermitted for a GPU that permittedHostDevices lacks.

    Without a permittedHostDevices block nothing is checked (KV renderresources.go).
    """
    block = deep(kubevirt or {}, "spec", "configuration", "permittedHostDevices")
    if block is None:
        return
    listed = [d.get("resourceName") for d in block.get("pciHostDevices") or ()]
    listed += [d.get("resourceName") for d in block.get("mediatedDevices") or ()]
    for gpu in gpus(instance):
        if gpu not in listed:
            raise NotPermitted(f"GPU {gpu} is not permitted in permittedHostDevices configuration")


def gpus(instance: Obj) -> list[str]:
    """Resource names of the GPUs an instance asks for."""
    devices = deep(instance, "spec", "domain", "devices") or {}
    return [str(gpu["deviceName"]) for gpu in devices.get("gpus") or ()]


def logs_console(instance: Obj, kubevirt: Obj | None) -> bool:
    """Whether the launcher keeps a log of the console.

    The instance decides; where it says nothing, it does unless the KubeVirt CR disables it
    (uptime_and_diagnosis.md section 4).
    """
    said = deep(instance, "spec", "domain", "devices", "logSerialConsole")
    if said is not None:
        return bool(said)
    options = deep(kubevirt or {}, "spec", "configuration", "virtualMachineOptions") or {}
    return kubevirt is not None and "disableSerialConsoleLog" not in options


def pod(instance: Obj, suffix: str, *, log: bool = False) -> Obj:
    """The pod. Memory and CPU come from the instance's domain; ``log``: with its console's log,
    which goes on beside the machine and has to be up before it (kubevirt#15989)."""
    metadata = instance["metadata"]
    name = metadata["name"]
    labels = {
        **labels_of(instance),
        "kubevirt.io": "virt-launcher",
        "kubevirt.io/created-by": metadata["uid"],
        "vm.kubevirt.io/name": name,
    }
    annotations = {
        "kubevirt.io/domain": name,
        "kubectl.kubernetes.io/default-container": COMPUTE,
        "kubevirt.io/migrationTransportUnix": "true",
    }
    first = {"initContainers": [_console_log(name)]} if log else {}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            f"virt-launcher-{name}-{suffix}",
            metadata["namespace"],
            labels=labels,
            annotations=annotations,
            ownerReferences=[owner(instance)],
        ),
        "spec": {
            "restartPolicy": "Never",
            "hostname": name,
            "terminationGracePeriodSeconds": 45,
            "nodeSelector": {"kubevirt.io/schedulable": "true"},
            **first,
            "containers": [_compute(instance)],
            "volumes": _volumes(instance),
        },
    }


def _compute(instance: Obj) -> Obj:
    limits: dict[str, str] = {
        "devices.kubevirt.io/kvm": "1",
        "devices.kubevirt.io/tun": "1",
        "devices.kubevirt.io/vhost-net": "1",
    }
    for gpu in gpus(instance):
        limits[gpu] = str(int(limits.get(gpu, "0")) + 1)
    memory = deep(instance, "spec", "domain", "memory", "guest") or "4Gi"
    cores = deep(instance, "spec", "domain", "cpu", "cores") or 1
    requests = {"cpu": f"{100 * int(cores)}m", "memory": str(memory), **limits}
    devices = [
        {"devicePath": f"/dev/{volume['name']}", "name": volume["name"]}
        for volume in deep(instance, "spec", "volumes") or ()
        if "dataVolume" in volume
    ]
    return {
        "name": COMPUTE,
        "image": "quay.io/kubevirt/virt-launcher:v1.8.4",
        "command": ["/usr/bin/virt-launcher-monitor", "--name", instance["metadata"]["name"]],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"limits": limits, "requests": requests},
        "volumeDevices": devices,
    }


def _console_log(name: str) -> Obj:
    return {
        "name": CONSOLE_LOG,
        "image": "quay.io/kubevirt/virt-launcher:v1.8.4",
        "restartPolicy": "Always",
        "command": ["/usr/bin/virt-tail", "--logfile", f"/var/run/kubevirt-private/{name}/serial"],
    }


def _volumes(instance: Obj) -> list[Obj]:
    found: list[Obj] = []
    for volume in deep(instance, "spec", "volumes") or ():
        if "dataVolume" in volume:
            claim = {"claimName": volume["dataVolume"]["name"]}
            found.append({"name": volume["name"], "persistentVolumeClaim": claim})
        elif "cloudInitConfigDrive" in volume:
            secret = deep(volume, "cloudInitConfigDrive", "secretRef", "name")
            found.append({"name": f"{volume['name']}-udata", "secret": {"secretName": secret}})
    return found
