"""Claims and their volumes: the controller that binds them, and the driver's provisioner, resizer.

What is in a volume goes with it: an import fills one, a clone begins with what its source has.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.records import Admission
from harness.twin.world.cdi_shapes import GROUP, SCRATCH
from harness.twin.world.objects import Obj, annotations_of, deep, labels_of, quantity, terminating
from harness.twin.world.reconcile import Key, Queue
from harness.twin.world.storage_classes import (
    LINSTOR,
    SELECTED_NODE,
    find_class,
    has_drbd,
    waits_for_consumer,
)

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

CLAIM = "PersistentVolumeClaim"
_BINDER = "persistentvolume-controller"
_CANNOT_RESIZE = (
    "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc "
    "must support resize"
)


@dataclass(frozen=True, slots=True)
class Content:
    """A bootable image in a volume: schematic, Talos version, and the kind of it (openstack)."""

    schematic: str
    version: str
    kind: str


class Claims:
    """Every claim and volume of the management cluster."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self.contents: dict[str, Content] = {}  # by volume, or by handle of a snapshot
        self._moves: dict[Key, Obj] = {}  # claims that a volume was handed to
        self._rng = world.rng("volumes")
        draw = world.timings.draw
        self._queue = Queue(world.engine, "claim", self._bind, lambda: draw("claim.bind"))
        self._handed = Queue(
            world.engine, "handed claim", self._rebind, lambda: draw("claim.rebind")
        )
        self._resizer = Queue(
            world.engine, "csi-resizer", self._resize, lambda: draw("claim.expand")
        )
        self._cluster.on("v1", CLAIM, self._hear)
        self._cluster.on("v1", "PersistentVolume", self._hear_volume)
        self._cluster.on("v1", "Pod", self._hear_pod)

    # -- what others ask

    def content_of(self, claim: Obj) -> Content | None:
        """The image in a claim's volume, or None."""
        return self.contents.get(deep(claim, "spec", "volumeName") or "")

    def fill(self, claim: Obj, content: Content | None) -> None:
        """Write an image into a claim's volume."""
        volume = deep(claim, "spec", "volumeName")
        if volume and content is not None:
            self.contents[volume] = content

    def missing(self, pod: Obj) -> str:
        """The first claim of a pod that is not there, or ""."""
        names = _claims_of(pod)
        return next((name for name in names if self._of(pod, name) is None), "")

    def unbound(self, pod: Obj) -> bool:
        """Whether a pod has to wait for a volume."""
        found = [self._of(pod, name) for name in _claims_of(pod)]
        return any(deep(claim or {}, "status", "phase") != "Bound" for claim in found)

    def _of(self, pod: Obj, name: str) -> Obj | None:
        return self._cluster.find("v1", CLAIM, pod["metadata"]["namespace"], name)

    # -- what is heard

    def _hear(self, change: Change) -> None:
        claim = change.obj
        phase = deep(claim, "status", "phase")
        if change.type == "DELETED":
            self._release(claim)
        elif phase == "Bound":
            if _requested(claim) > _capacity(claim):
                self._resizer.hear(change)
        elif phase != "Lost" and _data_source(claim).get("apiGroup") != GROUP:
            self._await_volume(claim, change)

    def _await_volume(self, claim: Obj, change: Change) -> None:
        copied = _COPIES.get(_data_source(claim).get("kind", ""))
        if copied is None:
            self._queue.hear(change)
        elif change.type == "ADDED" or _chosen(claim) != _chosen(change.old or claim):
            name = claim["metadata"]["name"]
            delay = self._world.timings.draw(copied)
            self._queue.add(claim["metadata"]["namespace"], name, delay)

    def _hear_volume(self, change: Change) -> None:
        reference = deep(change.obj, "spec", "claimRef") or {}
        if change.type == "DELETED":
            self.contents.pop(change.obj["metadata"]["name"], None)
            self._lose(reference, "ClaimLost", _LOST)
            return
        before = deep(change.old or {}, "spec", "claimRef") or {}
        if before and reference and before.get("uid") != reference.get("uid"):
            key = (reference["namespace"], reference["name"])
            self._moves[key] = before
            self._handed.add(*key)

    def _hear_pod(self, change: Change) -> None:
        """A pod that has a node is the first consumer of its claims."""
        pod = change.obj
        node = deep(pod, "spec", "nodeName")
        if not node or change.type == "DELETED" or deep(change.old or {}, "spec", "nodeName"):
            return
        for name in _claims_of(pod):
            claim = self._of(pod, name)
            waits = claim is not None and waits_for_consumer(self._cluster, claim)
            if claim is not None and waits and SCRATCH not in labels_of(claim):
                self._cluster.edit(claim, lambda stored: _choose(stored, node), manager=_BINDER)

    # -- a new volume

    def _bind(self, namespace: str, name: str) -> None:
        claim = self._cluster.find("v1", CLAIM, namespace, name)
        if claim is None or terminating(claim) or deep(claim, "status", "phase") == "Bound":
            return
        klass = find_class(self._cluster, deep(claim, "spec", "storageClassName") or "")
        if klass is None:
            missing = claim["spec"].get("storageClassName")
            text = f'storageclass.storage.k8s.io "{missing}" not found'
            self._cluster.events.warning(claim, "ProvisioningFailed", text, _BINDER)
            self._queue.add(namespace, name, 15.0)
            return
        # scratch space binds with its pod
        if waits_for_consumer(self._cluster, claim) and SCRATCH not in labels_of(claim):
            return
        why = self._refusal(claim, klass)
        if why:
            self._cluster.events.warning(claim, "ProvisioningFailed", why, klass["provisioner"])
            self._queue.add(namespace, name, self._world.timings.draw("claim.retry"))
            return
        self._provision(claim, klass)

    def _refusal(self, claim: Obj, klass: Obj) -> str:
        """Why the driver makes no volume for a claim; "" where it does."""
        if (
            klass["provisioner"] == LINSTOR
            and "ReadWriteMany" in claim["spec"]["accessModes"]
            and not has_drbd(klass)
        ):
            return "ReadWriteMany needs a class whose volumes are replicated by DRBD"
        if self._source(claim) is None:
            source = _data_source(claim)
            return f"error getting handle for DataSource Type {source['kind']} by Name " + str(
                source["name"]
            )
        if klass["provisioner"] != LINSTOR:
            return ""
        return self._world.linstor.refusal(_volume_name(claim), _requested(claim), klass)

    def _source(self, claim: Obj) -> str | None:
        """What a claim is a copy of: a volume, a snapshot, "" for nothing, None if it is gone."""
        source = _data_source(claim)
        namespace, name = claim["metadata"]["namespace"], source.get("name", "")
        if source.get("kind") == CLAIM:
            found = self._cluster.find("v1", CLAIM, namespace, name)
            return deep(found or {}, "spec", "volumeName") or None
        if source.get("kind") == "VolumeSnapshot":
            return self._world.snapshots.handle(namespace, name) or None
        return ""

    def _provision(self, claim: Obj, klass: Obj) -> None:
        handle = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        volume = _volume(claim, klass)
        self._cluster.create(volume, manager=f"csi-provisioner-{handle[:8]}")
        source = self.contents.get(self._source(claim) or "")
        if source is not None:
            self.contents[volume["metadata"]["name"]] = source
        self._take(claim, volume)

    def _take(self, claim: Obj, volume: Obj) -> None:
        name, size = volume["metadata"]["name"], volume["spec"]["capacity"]["storage"]
        modes = claim["spec"]["accessModes"]
        bound = {"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}
        self._cluster.edit(
            claim, lambda stored: stored["spec"].update(volumeName=name), manager="pv-controller"
        )
        self._cluster.status(
            claim, lambda stored: stored.update(status=bound), manager="pv-controller"
        )

    # -- a volume changes hands, or goes

    def hand_over(self, claim: Obj, target: Obj) -> None:
        """Give a claim's volume to another claim, as CDI does; the binder then binds it."""
        name = deep(claim, "spec", "volumeName") or ""
        volume = self._cluster.find("v1", "PersistentVolume", "", name)
        reference = _reference(target)
        if volume is not None and deep(volume, "spec", "claimRef", "uid") != reference["uid"]:
            self._cluster.edit(
                volume,
                lambda stored: stored["spec"].update(claimRef=reference),
                manager="cdi-controller",
            )

    def _rebind(self, namespace: str, name: str) -> None:
        before = self._moves.pop((namespace, name), {})
        claim = self._cluster.find("v1", CLAIM, namespace, name)
        misbound = "Two claims are bound to the same volume, this one is bound incorrectly"
        lost = self._lose(before, "ClaimMisbound", misbound)
        volume_name = deep(lost or {}, "spec", "volumeName") or ""
        volume = self._cluster.find("v1", "PersistentVolume", "", volume_name)
        if claim is not None and volume is not None and not terminating(claim):
            self._take(claim, volume)

    def _lose(self, reference: Obj, reason: str, text: str) -> Obj | None:
        """The claim that a volume was bound to has lost it."""
        key = (reference.get("namespace", ""), reference.get("name", ""))
        claim = self._cluster.find("v1", CLAIM, *key)
        if claim is None or claim["metadata"]["uid"] != reference.get("uid"):
            return None
        if not terminating(claim):
            self._cluster.status(
                claim, lambda stored: stored["status"].update(phase="Lost"), manager=_BINDER
            )
            self._cluster.events.warning(claim, reason, text, _BINDER)
        return claim

    def _release(self, claim: Obj) -> None:
        volume = deep(claim, "spec", "volumeName")
        found = self._cluster.find("v1", "PersistentVolume", "", volume) if volume else None
        mine = deep(found or {}, "spec", "claimRef", "uid") == claim["metadata"]["uid"]
        deletes = deep(found or {}, "spec", "persistentVolumeReclaimPolicy") == "Delete"
        if found is not None and mine and deletes:
            self._cluster.delete(found, manager="csi-provisioner")
        elif found is not None and mine:
            released = {"phase": "Released"}
            self._cluster.status(
                found, lambda stored: stored.update(status=released), manager="pv-controller"
            )

    # -- growth

    def admission(self, question: Admission) -> Obj:
        """The admission hook: a bound claim grows where its class allows it, and never shrinks.

        What a client makes is Pending from the first (controllers here write that themselves).
        """
        claim, old = question.obj, question.old
        if question.resource.kind != CLAIM or question.verb == "DELETE":
            return claim
        if old is None:
            pending = {"status": {"phase": "Pending"}} if question.user is not None else {}
            return {**claim, **pending}
        if deep(old, "status", "phase") != "Bound" or _requested(claim) == _requested(old):
            return claim
        name = claim["metadata"]["name"]
        if _requested(claim) < _capacity(old):
            text = "field can not be less than status.capacity"
            raise ApiError(
                422,
                f'PersistentVolumeClaim "{name}" is invalid: spec.resources.requests.storage: '
                f"Forbidden: {text}",
            )
        klass = find_class(self._cluster, deep(claim, "spec", "storageClassName") or "") or {}
        if not klass.get("allowVolumeExpansion"):
            raise ApiError(403, f'persistentvolumeclaims "{name}" is forbidden: {_CANNOT_RESIZE}')
        return claim

    def _resize(self, namespace: str, name: str) -> None:
        # a claim that was handed a small volume grows too, where its class lets claims grow
        claim = self._cluster.find("v1", CLAIM, namespace, name)
        if claim is None or terminating(claim) or _requested(claim) <= _capacity(claim):
            return
        volume_name = deep(claim, "spec", "volumeName") or ""
        volume = self._cluster.find("v1", "PersistentVolume", "", volume_name)
        klass = find_class(self._cluster, deep(claim, "spec", "storageClassName") or "") or {}
        if volume is None or not klass.get("allowVolumeExpansion"):
            return
        why = self._world.linstor.refusal_to_grow(volume_name, _requested(claim))
        if why:
            text = f'resize volume "{volume_name}" failed: {why}'
            self._cluster.events.warning(claim, "VolumeResizeFailed", text, f"resizer {LINSTOR}")
            self._resizer.add(namespace, name, self._world.timings.draw("claim.retry"))
            return
        size = {"storage": deep(claim, "spec", "resources", "requests", "storage")}
        self._cluster.edit(
            volume, lambda stored: stored["spec"].update(capacity=size), manager="csi-resizer"
        )
        self._cluster.status(
            claim, lambda stored: stored["status"].update(capacity=size), manager="csi-resizer"
        )
        text = "Resize volume succeeded"
        self._cluster.events.normal(claim, "VolumeResizeSuccessful", text, f"resizer {LINSTOR}")


_LOST = "Bound claim has lost its PersistentVolume. Data on the volume is lost!"
# what a claim may be a copy of, and how long the driver takes for it
_COPIES = {CLAIM: "clone.csi", "VolumeSnapshot": "clone.restore"}


def _claims_of(pod: Obj) -> list[str]:
    volumes = pod["spec"].get("volumes") or ()
    return [v["persistentVolumeClaim"]["claimName"] for v in volumes if _is_claim(v)]


def _is_claim(volume: Obj) -> bool:
    return bool(deep(volume, "persistentVolumeClaim", "claimName"))


def _requested(claim: Obj) -> int:
    return quantity(deep(claim, "spec", "resources", "requests", "storage") or "0")


def _capacity(claim: Obj) -> int:
    return quantity(deep(claim, "status", "capacity", "storage") or "0")


def _data_source(claim: Obj) -> Obj:
    return deep(claim, "spec", "dataSourceRef") or deep(claim, "spec", "dataSource") or {}


def _chosen(claim: Obj) -> str:
    return annotations_of(claim).get(SELECTED_NODE, "")


def _choose(claim: Obj, node: str) -> None:
    claim["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node


def _volume_name(claim: Obj) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _reference(claim: Obj) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": CLAIM,
        "name": claim["metadata"]["name"],
        "namespace": claim["metadata"]["namespace"],
        "uid": claim["metadata"]["uid"],
    }


def _volume(claim: Obj, klass: Obj) -> Obj:
    name = _volume_name(claim)
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": name,
            "annotations": {"pv.kubernetes.io/provisioned-by": klass["provisioner"]},
        },
        "spec": {
            "capacity": {"storage": deep(claim, "spec", "resources", "requests", "storage")},
            "accessModes": claim["spec"]["accessModes"],
            "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
            "storageClassName": klass["metadata"]["name"],
            "persistentVolumeReclaimPolicy": klass.get("reclaimPolicy", "Delete"),
            "csi": {"driver": klass["provisioner"], "volumeHandle": name},
            "claimRef": _reference(claim),
        },
        "status": {"phase": "Bound"},
    }
