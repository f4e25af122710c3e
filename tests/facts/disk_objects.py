"""Objects of disks, made by hand in the shapes of CDI v1.64 (domain: clone_path, objects 7)."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

from harness.facts.sights import Missed, Seen, Sight

Obj = dict[str, Any]

TENANT, PUBLIC = "tenant-hil", "cozy-public"
SCHEMATIC = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"
VERSION = "v1.13.6"
GOLDEN = f"talos-worker-{SCHEMATIC}-{VERSION}"
URL = f"https://factory.talos.dev/image/{SCHEMATIC}/{VERSION}/openstack-amd64.raw.xz"
DISK, DISK_UID, CLAIM_UID, TMP_UID = "w1-disk-system", "uid-disk", "uid-claim", "uid-tmp"
MARK = "kubernetes-worker-image.cozystack.io/"
CDI = "cdi.kubevirt.io/"
GI = 1024**3
EPOCH = 1767225600.0  # 2026-01-01T00:00:00Z


def meta(name: str, uid: str = "", namespace: str = TENANT, **more: Any) -> Obj:
    return {"name": name, "namespace": namespace, "uid": uid or f"uid-{name}", **more}


def said(kind: str, status: str, reason: str = "", message: str = "") -> Obj:
    return {"type": kind, "status": status, "reason": reason, "message": message}


COMPLETE = said("Running", "False", "Completed", "Clone Complete")


def cloned_disk(**annotations: str) -> Obj:
    marks = {f"{MARK}golden": GOLDEN, f"{MARK}pool": "kubernetes-lab-md0", **annotations}
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": meta(DISK, DISK_UID, annotations=marks),
        "spec": {
            "source": {"pvc": {"namespace": PUBLIC, "name": GOLDEN}},
            "storage": {
                "storageClassName": "replicated",
                "resources": {"requests": {"storage": "20Gi"}},
            },
        },
    }


def downloaded_disk(url: str = URL, **annotations: str) -> Obj:
    made = cloned_disk()
    made["metadata"]["annotations"] = {f"{CDI}storage.usePopulator": "false", **annotations}
    made["spec"]["source"] = {"http": {"url": url}}
    return made


def in_phase(disk: Obj, phase: str, *conditions: Obj, restarts: int | None = None) -> Obj:
    status: Obj = {"phase": phase, "claimName": DISK, "conditions": list(conditions)}
    if restarts is not None:
        status["restartCount"] = restarts
    return {**copy.deepcopy(disk), "status": status}


def story(disk: Obj, *phases: str, every: float = 10.0) -> tuple[Sight, ...]:
    """A disk's revisions: made without a phase, then one after the other, ten seconds each."""
    last = COMPLETE if "pvc" in disk["spec"]["source"] else said("Running", "False", "Completed")
    sights = [Sight(EPOCH, "ADDED", disk)]
    for place, phase in enumerate(phases):
        told = [last] if phase == "Succeeded" else [said("Running", "True")]
        at = EPOCH + every * (place + 1)
        sights.append(Sight(at, "MODIFIED", in_phase(disk, phase, *told)))
    return tuple(sights)


def seen(*sights: Sight, what: str = "DataVolume", missed: Sequence[Missed] = ()) -> Seen:
    return Seen(what, EPOCH - 5, sights, tuple(missed))


def there(*objects: Obj, what: str = "PersistentVolumeClaim", at: float = EPOCH + 1) -> Seen:
    return seen(*(Sight(at, "ADDED", one) for one in objects), what=what)


def claim(name: str = DISK, uid: str = CLAIM_UID, namespace: str = TENANT, **spec: Any) -> Obj:
    marks = {f"{CDI}cloneType": "csi-clone", f"{CDI}clonePhase": "Succeeded"}
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": meta(name, uid, namespace, annotations=marks),
        "spec": {
            "storageClassName": "replicated",
            "accessModes": ["ReadWriteMany"],
            "volumeMode": "Block",
            "volumeName": "pvc-1",
            "resources": {"requests": {"storage": "20Gi"}},
            **spec,
        },
        "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}},
    }


def tmp_claim(owner: str = CLAIM_UID, uid: str = TMP_UID) -> Obj:
    made = claim(f"tmp-pvc-{owner}", uid, PUBLIC)
    made["metadata"]["labels"] = {f"{CDI}OwnedByUID": owner}
    return made


def pod(name: str, role: str = "", namespace: str = PUBLIC, **more: Any) -> Obj:
    labels = {"app": "containerized-data-importer", **({"cdi.kubevirt.io": role} if role else {})}
    return {
        "kind": "Pod",
        "metadata": meta(name, "", namespace, labels={**labels, **more.pop("labels", {})}, **more),
        "spec": {"volumes": []},
    }


def mounting(obj: Obj, name: str) -> Obj:
    obj["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": name}}]
    return obj


def owned(obj: Obj, uid: str, kind: str = "PersistentVolumeClaim") -> Obj:
    obj["metadata"]["ownerReferences"] = [{"kind": kind, "uid": uid}]
    return obj


def event(reason: str, message: str, uid: str = CLAIM_UID, name: str = DISK) -> Obj:
    about = {"kind": "PersistentVolumeClaim", "name": name, **({"uid": uid} if uid else {})}
    return {
        "kind": "Event",
        "metadata": meta(f"{name}.{reason}"),
        "involvedObject": about,
        "reason": reason,
        "message": message,
    }


def golden_disk(phase: str = "Succeeded", **status: Any) -> Obj:
    marks = {
        "helm.sh/resource-policy": "keep",
        f"{CDI}storage.bind.immediate.requested": "true",
        f"{CDI}storage.usePopulator": "true",
        f"{MARK}schematic-id": SCHEMATIC,
        f"{MARK}talos-version": VERSION,
    }
    born = "2026-01-01T00:00:00Z"
    done = [said("Running", "False", "Completed", "Import Complete")]
    return {
        "kind": "DataVolume",
        "metadata": meta(GOLDEN, "uid-golden", PUBLIC, annotations=marks, creationTimestamp=born),
        "spec": {
            "contentType": "kubevirt",
            "source": {"http": {"url": URL}},
            "storage": {
                "storageClassName": "replicated",
                "resources": {"requests": {"storage": "6Gi"}},
            },
        },
        "status": {"phase": phase, "progress": "100.0%", "conditions": done, **status},
    }


def golden_claim(**spec: Any) -> Obj:
    made = claim(GOLDEN, "uid-golden-claim", PUBLIC, **spec)
    made["metadata"]["annotations"] = {}
    made["status"]["capacity"] = {"storage": "6Gi"}
    return made
