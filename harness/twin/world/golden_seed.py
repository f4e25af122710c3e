"""A golden that was imported before the story begins: as CDI leaves it, its claim and its volume.

Phases, conditions and annotations: objects.md section 7 (import through a populator: the volume was
made for the claim ``prime-<uid>`` and handed over, hence its name).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.conditions import Condition
from harness.twin.world.objects import CDI, STORAGE, Obj, deep, owner

if TYPE_CHECKING:
    from harness.twin.world.world import World

MANAGER = "cdi-controller"
_CONDITION = "cdi.kubevirt.io/storage.condition"


def imported(world: World, golden: Obj) -> None:
    """Settle a DataVolume that was only just created, with nothing left to be done."""
    claim = _claim(world, golden)
    made = world.cluster.create(claim, manager=MANAGER)
    bound = _volume(made, _class(world, made))
    world.cluster.create(bound, manager="csi-provisioner")
    now = world.engine.now

    def settle(stored: Obj) -> None:
        status = stored.setdefault("status", {})
        name = stored["metadata"]["name"]
        status |= {"phase": "Succeeded", "progress": "100.0%", "claimName": name}
        conditions.write(
            stored,
            now,
            conditions.true("Bound", "Bound", f"PVC {name} Bound"),
            conditions.true("Ready"),
            Condition("Running", "False", "Completed", "Import Complete"),
        )

    world.cluster.status(golden, settle, manager=MANAGER)


def _class(world: World, claim: Obj) -> Obj:
    name = claim["spec"]["storageClassName"]
    return world.cluster.find(STORAGE, "StorageClass", "", name) or {}


def _claim(world: World, golden: Obj) -> Obj:
    metadata = golden["metadata"]
    storage = golden["spec"]["storage"]
    profile = world.cluster.find(CDI, "StorageProfile", "", storage["storageClassName"]) or {}
    first = (deep(profile, "status", "claimPropertySets") or [{}])[0]
    size = storage["resources"]["requests"]["storage"]
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": metadata["name"],
            "namespace": metadata["namespace"],
            "labels": {
                "app": "containerized-data-importer",
                "app.kubernetes.io/component": "storage",
                "app.kubernetes.io/managed-by": "cdi-controller",
            },
            "annotations": {
                "cdi.kubevirt.io/storage.contentType": "kubevirt",
                "cdi.kubevirt.io/storage.usePopulator": "true",
                "cdi.kubevirt.io/storage.bind.immediate.requested": "true",
                "cdi.kubevirt.io/storage.pod.phase": "Succeeded",
                "cdi.kubevirt.io/storage.pod.restarts": "0",
                "cdi.kubevirt.io/storage.populator.progress": "100.0%",
                f"{_CONDITION}.running": "false",
                f"{_CONDITION}.running.message": "Import Complete",
                f"{_CONDITION}.running.reason": "Completed",
                f"{_CONDITION}.bound": "true",
                f"{_CONDITION}.bound.message": "",
                f"{_CONDITION}.bound.reason": "Bound",
                "pv.kubernetes.io/bind-completed": "yes",
            },
            "ownerReferences": [owner(golden)],
        },
        "spec": {
            "accessModes": list(first.get("accessModes") or ("ReadWriteOnce",)),
            "volumeMode": first.get("volumeMode", "Filesystem"),
            "resources": {"requests": {"storage": size}},
            "storageClassName": storage["storageClassName"],
            "volumeName": f"pvc-{world.identities.uid()}",
            "dataSourceRef": {
                "apiGroup": "cdi.kubevirt.io",
                "kind": "VolumeImportSource",
                "name": f"volume-import-source-{metadata['uid']}",
            },
        },
        "status": {
            "phase": "Bound",
            "accessModes": list(first.get("accessModes") or ("ReadWriteOnce",)),
            "capacity": {"storage": size},
        },
    }


def _volume(claim: Obj, klass: Obj) -> Obj:
    name, metadata = claim["spec"]["volumeName"], claim["metadata"]
    driver = klass.get("provisioner", "")
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": driver}},
        "spec": {
            "capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
            "accessModes": list(claim["spec"]["accessModes"]),
            "volumeMode": claim["spec"]["volumeMode"],
            "storageClassName": claim["spec"]["storageClassName"],
            "persistentVolumeReclaimPolicy": klass.get("reclaimPolicy", "Delete"),
            "csi": {"driver": driver, "volumeHandle": name},
            "claimRef": {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
        },
        "status": {"phase": "Bound"},
    }
