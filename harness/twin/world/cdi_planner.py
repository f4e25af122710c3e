"""How a claim is to be cloned, and why not in a better way: CDI's planner.

Rules: CDI pkg/controller/clone/planner.go; the reasons: clone_path.md section 4. Two classes of one
provisioner are no reason against a clone on the storage layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.world.objects import CDI, SNAPSHOT, Obj, annotations_of, deep, quantity
from harness.twin.world.storage_classes import find_class

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

COPY, SNAPSHOT_CLONE, CSI_CLONE = "copy", "snapshot", "csi-clone"
SMALLER = "target resources requests storage size is smaller than the source"
_DEFAULT_SNAPSHOT_CLASS = "snapshot.storage.kubernetes.io/is-default-class"
_MESSAGES = {
    "NoVolumeSnapshotClass": "No compatible volumesnapshotclass found",
    "IncompatibleVolumeModes": "The volume modes of source and target are incompatible",
    "NoVolumeExpansion": "No volume expansion is possible",
    "IncompatibleProvisioners": "Provisioners are incompatible",
    # the words are inferred
    "NoPopulator": "The clone cannot be done by a populator",
}


@dataclass(frozen=True, slots=True)
class CdiBehaviour:
    """What the installed CDI does otherwise than v1.64.0, for faults.

    ``grows``: it counts growth among what a strategy must offer, and grows what it cloned.
    """

    grows: bool = True


@dataclass(frozen=True, slots=True)
class Strategy:
    """``kind`` as the annotation cloneType has it; ``reason`` where it is a fallback."""

    kind: str
    reason: str = ""

    @property
    def message(self) -> str:
        """What the annotation cloneFallbackReason says; "" where nothing was given up."""
        return _MESSAGES.get(self.reason, "")


NO_POPULATOR = Strategy(COPY, "NoPopulator")


class Unplannable(Exception):
    """A clone that fails for now, with what CDI says; it is tried again."""


def is_smaller(target: Obj, source: Obj) -> bool:
    """Whether a claim asks for fewer bytes than another, which it is to be a copy of."""
    return _requested(target) < _requested(source)


def choose(cluster: Cluster, target: Obj, source: Obj, behaviour: CdiBehaviour) -> Strategy:
    """The strategy for a claim and its source. Raises Unplannable."""
    klass = find_class(cluster, deep(target, "spec", "storageClassName") or "")
    if klass is None:
        raise Unplannable("target storage class not found")
    wanted = _asked_for(cluster, klass["metadata"]["name"])
    if wanted == SNAPSHOT_CLONE and snapshot_class(cluster, klass["provisioner"]) is None:
        return Strategy(COPY, "NoVolumeSnapshotClass")
    if wanted == COPY:
        return Strategy(COPY)
    return _advanced(cluster, target, source, klass, wanted, grows=behaviour.grows)


def _asked_for(cluster: Cluster, klass: str) -> str:
    """What the CDI CR wants of all, else the class's profile, else a snapshot."""
    cdi = cluster.find(CDI, "CDI", "", "cdi") or {}
    profile = cluster.find(CDI, "StorageProfile", "", klass) or {}
    said = (deep(cdi, "spec", "cloneStrategyOverride"), deep(profile, "status", "cloneStrategy"))
    return next((str(one) for one in said if one), SNAPSHOT_CLONE)


def _advanced(
    cluster: Cluster, target: Obj, source: Obj, klass: Obj, wanted: str, *, grows: bool
) -> Strategy:
    if driver_of(cluster, source) != klass["provisioner"]:
        return Strategy(COPY, "IncompatibleProvisioners")
    if _mode(source) != _mode(target):
        return Strategy(COPY, "IncompatibleVolumeModes")
    capacity = deep(source, "status", "capacity", "storage")
    if not capacity:
        raise Unplannable("source/target size info missing")
    larger = _requested(target) > quantity(capacity)
    if grows and larger and not klass.get("allowVolumeExpansion"):
        return Strategy(COPY, "NoVolumeExpansion")
    return Strategy(wanted)


def driver_of(cluster: Cluster, claim: Obj) -> str:
    """Who made a claim's volume, or would."""
    name = deep(claim, "spec", "volumeName") or ""
    volume = cluster.find("v1", "PersistentVolume", "", name) if name else None
    klass = find_class(cluster, deep(claim, "spec", "storageClassName") or "") or {}
    return str(deep(volume or {}, "spec", "csi", "driver") or klass.get("provisioner", ""))


def snapshot_class(cluster: Cluster, driver: str) -> Obj | None:
    """The VolumeSnapshotClass for volumes of a driver: its default, else the first by name."""
    fitting = [
        one for one in cluster.all(SNAPSHOT, "VolumeSnapshotClass") if one.get("driver") == driver
    ]
    chosen = [one for one in fitting if annotations_of(one).get(_DEFAULT_SNAPSHOT_CLASS) == "true"]
    return next(iter((*chosen, *fitting)), None)


def _mode(claim: Obj) -> str:
    return str(deep(claim, "spec", "volumeMode") or "Filesystem")


def _requested(claim: Obj) -> int:
    return quantity(deep(claim, "spec", "resources", "requests", "storage") or "0")
