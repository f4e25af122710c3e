"""KubeVirt's CSI driver: a tenant's disks are disks of the management cluster, plugged into VMs.

A claim of the tenant becomes a block claim ``pvc-<uid>`` in the tenant's namespace, of the class
that the tenant's class names (``infraStorageClassName``), and is bound once that is. A pod that
mounts it has it plugged into its node's VMI first. Simplified: the driver's DataVolume is its
claim alone, and of the hotplug only the VMI's ``volumeStatus`` and the VolumeAttachment show.
Driver: kubevirt/csi-driver ``pkg/service/controller.go``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world.addons_chart import DRIVER
from harness.twin.world.objects import KUBEVIRT, STORAGE, Obj, deep, digest, meta, terminating
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.addons import Addons
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

CLAIM = "PersistentVolumeClaim"
_MANAGER = "csi.kubevirt.io"
_DEFAULT = "storageclass.kubernetes.io/is-default-class"
_INFRA = "csi-driver/cluster"
_AGAIN = 2.0  # seconds between two tries to attach (order)


class KubevirtCsi:
    """The disks of one tenant cluster. ``namespace`` is the tenant's on the management cluster.

    ``on_mounted`` is called with each pod all of whose disks are there.
    """

    def __init__(self, world: World, workers: Workers, addons: Addons, namespace: str) -> None:
        self._world, self._workers, self._addons = world, workers, addons
        self._cluster, self._namespace = workers.cluster, namespace
        self._work = Activities(world.engine)
        self.on_mounted: list[Callable[[Obj], None]] = []
        self._cluster.on("v1", CLAIM, self._hear)
        self._cluster.on("v1", "Pod", self._hear_pod)
        world.cluster.on("v1", CLAIM, self._hear_infra)

    # -- claims

    def _hear(self, change: Change) -> None:
        claim = change.obj
        uid = claim["metadata"]["uid"]
        if change.type == "DELETED":
            self._work.stop(f"provision {uid}")
            self._delete(claim)
        elif change.type == "ADDED":
            seconds = self._world.timings.draw("csi.provision")
            self._work.start(f"provision {uid}", seconds, partial(self._provision, claim))

    def _provision(self, claim: Obj) -> None:
        current = self._cluster.current(claim)
        storage_class = self._class(current) if current is not None else None
        if current is None or storage_class is None or terminating(current):
            return
        name = storage_class["metadata"]["name"]
        if deep(current, "spec", "storageClassName") != name:
            self._cluster.edit(current, lambda stored: stored["spec"].update(storageClassName=name),
                               manager="kube-apiserver")  # fmt: skip
        if self._world.cluster.find("v1", CLAIM, self._namespace, _name(claim)) is not None:
            return
        made = {
            "apiVersion": "v1",
            "kind": CLAIM,
            "metadata": meta(_name(claim), self._namespace, labels={_INFRA: "tenant"}),
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "storageClassName": deep(storage_class, "parameters", "infraStorageClassName"),
                "resources": {"requests": dict(deep(claim, "spec", "resources", "requests"))},
            },
        }
        self._world.cluster.create(made, manager=_MANAGER)

    def _class(self, claim: Obj) -> Obj | None:
        """The class of a claim, the cluster's default where it names none; None for another's."""
        named = deep(claim, "spec", "storageClassName")
        for one in self._cluster.all(STORAGE, "StorageClass"):
            default = deep(one, "metadata", "annotations", _DEFAULT) == "true"
            if one["metadata"]["name"] == named or (named is None and default):
                return one if one.get("provisioner") == DRIVER else None
        return None

    def _hear_infra(self, change: Change) -> None:
        disk = change.obj
        labelled = _INFRA in (disk["metadata"].get("labels") or {})
        if change.type == "MODIFIED" and labelled and deep(disk, "status", "phase") == "Bound":
            name = disk["metadata"]["name"]
            self._work.start(f"bind {name}", 0.0, partial(self._bind, name))

    def _bind(self, name: str) -> None:
        claim = next((c for c in self._cluster.all("v1", CLAIM) if _name(c) == name), None)
        if claim is None or deep(claim, "status", "phase") == "Bound" or terminating(claim):
            return
        metadata, spec = claim["metadata"], claim["spec"]
        size = deep(spec, "resources", "requests", "storage")
        reference = {
            "apiVersion": "v1",
            "kind": CLAIM,
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        }
        volume = {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": meta(name),
            "spec": {
                "accessModes": spec["accessModes"],
                "capacity": {"storage": size},
                "claimRef": reference,
                "csi": {"driver": DRIVER, "volumeHandle": name, "fsType": "ext4"},
                "persistentVolumeReclaimPolicy": "Delete",
                "storageClassName": spec.get("storageClassName", ""),
                "volumeMode": spec.get("volumeMode", "Filesystem"),
            },
            "status": {"phase": "Bound"},
        }
        self._cluster.create(volume, manager=_MANAGER)
        self._cluster.edit(claim, lambda stored: stored["spec"].update(volumeName=name),
                           manager=_MANAGER)  # fmt: skip
        bound: Obj = {
            "phase": "Bound",
            "accessModes": spec["accessModes"],
            "capacity": {"storage": size},
        }
        self._cluster.status(claim, lambda stored: stored.setdefault("status", {}).update(bound),
                             manager="kube-controller-manager")  # fmt: skip
        for pod in self._cluster.all("v1", "Pod", metadata["namespace"]):
            if metadata["name"] in claims_of(pod):
                self._begin(pod)

    def _delete(self, claim: Obj) -> None:
        name = _name(claim)
        self._work.stop(f"bind {name}")
        volume = self._cluster.find("v1", "PersistentVolume", "", name)
        for one in self._cluster.all(STORAGE, "VolumeAttachment"):
            if deep(one, "spec", "source", "persistentVolumeName") == name:
                self._cluster.delete(one, manager=_MANAGER)
                self._show(one["spec"]["nodeName"], name, plugged=False)
        if volume is not None:
            self._cluster.delete(volume, manager=_MANAGER)
        disk = self._world.cluster.find("v1", CLAIM, self._namespace, name)
        if disk is not None:
            self._world.cluster.delete(disk, manager=_MANAGER)

    # -- pods

    def _hear_pod(self, change: Change) -> None:
        pod = change.obj
        if not claims_of(pod):
            return
        if change.type == "DELETED":
            self._work.stop(f"attach {pod['metadata']['uid']}")
            self._detach(pod)
        elif deep(pod, "spec", "nodeName") and not terminating(pod):
            self._begin(pod)

    def _begin(self, pod: Obj) -> None:
        if deep(pod, "spec", "nodeName") and not self.mounted(pod):
            seconds = self._world.timings.draw("csi.attach")
            uid = pod["metadata"]["uid"]
            self._work.start(f"attach {uid}", seconds, partial(self._attach, pod))

    def unbound(self, pod: Obj) -> list[str]:
        """The claims of a pod that are not bound, or not there."""
        space = pod["metadata"]["namespace"]
        found = {name: self._cluster.find("v1", CLAIM, space, name) for name in claims_of(pod)}
        return [
            name for name, one in found.items() if deep(one or {}, "status", "phase") != "Bound"
        ]

    def mounted(self, pod: Obj) -> bool:
        """Whether every disk of a pod is at its node; so it is for a pod without any."""
        return all(
            deep(self._attachment(volume, pod) or {}, "status", "attached") is True
            for volume in self._volumes(pod)
        ) and not self.unbound(pod)

    def _volumes(self, pod: Obj) -> list[str]:
        space = pod["metadata"]["namespace"]
        found = (self._cluster.find("v1", CLAIM, space, name) or {} for name in claims_of(pod))
        return [str(deep(one, "spec", "volumeName") or "") for one in found]

    def _attachment(self, volume: str, pod: Obj) -> Obj | None:
        name = _attachment_name(volume, pod["spec"].get("nodeName", ""))
        return self._cluster.find(STORAGE, "VolumeAttachment", "", name)

    def _attach(self, pod: Obj) -> None:
        current = self._cluster.current(pod)
        if current is None or terminating(current):
            return
        node = current["spec"]["nodeName"]
        if self.unbound(current) or not self._addons.has_driver(node):
            if not self.unbound(current):
                why = f"CSINode {node} does not contain driver {DRIVER}"
                text = f"AttachVolume.Attach failed for volume: {why}"
                self._cluster.events.warning(
                    current, "FailedAttachVolume", text, "attachdetach-controller"
                )
            again = partial(self._attach, current)
            self._work.start(f"attach {current['metadata']['uid']}", _AGAIN, again)
            return
        for volume in self._volumes(current):
            self._plug(volume, node)
            text = f'AttachVolume.Attach succeeded for volume "{volume}"'
            self._cluster.events.normal(
                current, "SuccessfulAttachVolume", text, "attachdetach-controller"
            )
        for tell in self.on_mounted:
            tell(current)

    def _plug(self, volume: str, node: str) -> None:
        name = _attachment_name(volume, node)
        if self._cluster.find(STORAGE, "VolumeAttachment", "", name) is None:
            spec = {
                "attacher": DRIVER,
                "nodeName": node,
                "source": {"persistentVolumeName": volume},
            }
            made = {"apiVersion": STORAGE, "kind": "VolumeAttachment", "metadata": meta(name)}
            self._cluster.create(
                {**made, "spec": spec, "status": {"attached": True}}, manager=_MANAGER
            )
        self._show(node, volume, plugged=True)

    def _show(self, node: str, volume: str, *, plugged: bool) -> None:
        """The VMI's status tells of the disk; a Node bears its VMI's name."""
        instance = self._world.cluster.find(
            KUBEVIRT, "VirtualMachineInstance", self._namespace, node
        )
        if instance is None:
            return

        def change(stored: Obj) -> None:
            held = (stored.get("status") or {}).get("volumeStatus") or []
            kept = [one for one in held if one["name"] != volume]
            told = {"name": volume, "target": "sda", "phase": "Ready", "hotplugVolume": {}}
            stored["status"]["volumeStatus"] = [*kept, told] if plugged else kept

        self._world.cluster.status(instance, change, manager="virt-controller")

    def _detach(self, pod: Obj) -> None:
        for volume in self._volumes(pod):
            found = self._attachment(volume, pod) if volume else None
            if found is not None:
                self._cluster.delete(found, manager=_MANAGER)
                self._show(pod["spec"]["nodeName"], volume, plugged=False)


def claims_of(pod: Obj) -> list[str]:
    """The claims that a pod mounts, by name."""
    volumes = deep(pod, "spec", "volumes") or ()
    found = (deep(one, "persistentVolumeClaim", "claimName") for one in volumes)
    return [str(name) for name in found if name]


def _name(claim: Obj) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _attachment_name(volume: str, node: str) -> str:
    return f"csi-{digest([volume, node])}"
