"""VolumeSnapshots of the driver: a content for each, ready after a while."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.objects import SNAPSHOT, Obj, deep, rfc3339
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

_MANAGER = "snapshot-controller"


class Snapshots:
    """The snapshot controller and the driver's side of it."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine, "volumesnapshot", self._take, lambda: world.timings.draw("clone.snapshot")
        )
        self._cluster.on(SNAPSHOT, "VolumeSnapshot", self._hear)

    def _hear(self, change: Change) -> None:
        if change.type == "ADDED":
            self._queue.hear(change)
        elif change.type == "DELETED":
            name = deep(change.obj, "status", "boundVolumeSnapshotContentName") or ""
            found = self._cluster.find(SNAPSHOT, "VolumeSnapshotContent", "", name)
            self._world.claims.contents.pop(name, None)
            if found is not None and deep(found, "spec", "deletionPolicy") == "Delete":
                self._cluster.delete(found, manager=_MANAGER)

    def handle(self, namespace: str, name: str) -> str:
        """What a volume made from a snapshot is a copy of; "" until the snapshot is ready."""
        found = self._cluster.find(SNAPSHOT, "VolumeSnapshot", namespace, name) or {}
        ready = deep(found, "status", "readyToUse")
        return str(deep(found, "status", "boundVolumeSnapshotContentName") or "") if ready else ""

    def _take(self, namespace: str, name: str) -> None:
        snapshot = self._cluster.find(SNAPSHOT, "VolumeSnapshot", namespace, name)
        if snapshot is None:
            return
        claim_name = deep(snapshot, "spec", "source", "persistentVolumeClaimName") or ""
        claim = self._cluster.find("v1", "PersistentVolumeClaim", namespace, claim_name) or {}
        volume = deep(claim, "spec", "volumeName") or ""
        kind_name = deep(snapshot, "spec", "volumeSnapshotClassName") or ""
        kind = self._cluster.find(SNAPSHOT, "VolumeSnapshotClass", "", kind_name)
        if not volume or kind is None:
            self._queue.add(namespace, name, self._world.timings.draw("claim.retry"))
            return
        content = self._cluster.create(_content(snapshot, kind, volume), manager=_MANAGER)
        held = self._world.claims.contents.get(volume)
        if held is not None:
            self._world.claims.contents[content["metadata"]["name"]] = held
        status = {
            "boundVolumeSnapshotContentName": content["metadata"]["name"],
            "creationTime": rfc3339(self._world.engine.now),
            "readyToUse": True,
            "restoreSize": deep(claim, "status", "capacity", "storage"),
        }
        self._cluster.status(
            snapshot, lambda stored: stored.update(status=status), manager=_MANAGER
        )


def _content(snapshot: Obj, kind: Obj, volume: str) -> Obj:
    metadata = snapshot["metadata"]
    name = f"snapcontent-{metadata['uid']}"
    return {
        "apiVersion": SNAPSHOT,
        "kind": "VolumeSnapshotContent",
        "metadata": {"name": name},
        "spec": {
            "deletionPolicy": kind.get("deletionPolicy", "Delete"),
            "driver": kind["driver"],
            "source": {"volumeHandle": volume},
            "volumeSnapshotClassName": kind["metadata"]["name"],
            "volumeSnapshotRef": {
                "apiVersion": SNAPSHOT,
                "kind": "VolumeSnapshot",
                "name": metadata["name"],
                "namespace": metadata["namespace"],
                "uid": metadata["uid"],
            },
        },
        "status": {"readyToUse": True, "snapshotHandle": name},
    }
