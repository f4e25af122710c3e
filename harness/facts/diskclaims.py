"""What a worker's disk is stored on: its PVC, the PersistentVolume below, the class, the VMI's say.

CDI writes how a disk was cloned onto the PVC (objects section 7): that is what stays when the
phases of the DataVolume and the pods have gone.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.fact import Fact
from harness.facts.objects import (
    Obj,
    at_path,
    condition,
    listed,
    mapped,
    name_of,
    origin_of,
    text_at,
    uid_of,
)
from harness.facts.quantity import bytes_of

CLONE_TYPE = "cdi.kubevirt.io/cloneType"
FALLBACK = "cdi.kubevirt.io/cloneFallbackReason"
CLONE_PHASE = "cdi.kubevirt.io/clonePhase"
CLONE_ERROR = "cdi.kubevirt.io/cloneError"
WHEN_CONSUMED = "WaitForFirstConsumer"


@dataclass(frozen=True, slots=True)
class DiskClaim(Fact):
    """A PVC as it stands.

    ``clone_type``, ``fallback``, ``clone_phase`` and ``clone_error`` are CDI's annotations, ""
    where absent; ``requested`` and ``capacity`` are in bytes, None where they are not there or no
    amount; ``bound`` is status.phase; ``volume`` the PersistentVolume's name.
    """

    claim: str
    uid: str
    clone_type: str
    fallback: str
    clone_phase: str
    clone_error: str
    storage_class: str
    access_modes: tuple[str, ...]
    volume_mode: str
    requested: int | None
    capacity: int | None
    bound: str
    volume: str


@dataclass(frozen=True, slots=True)
class DiskVolume(Fact):
    """A PersistentVolume: its CSI driver and handle, "" where it has none, and whose claim it is,
    by UID."""

    volume: str
    driver: str
    handle: str
    claim_uid: str


@dataclass(frozen=True, slots=True)
class DiskClass(Fact):
    """A StorageClass: who provisions, and whether binding waits for a consumer."""

    name: str
    provisioner: str
    waits_for_consumer: bool


@dataclass(frozen=True, slots=True)
class Migration(Fact):
    """A VMI's LiveMigratable condition; ``status`` is "" where the VMI has none."""

    vmi: str
    status: str
    reason: str
    message: str


def disk_claim(claim: Obj, *, at: float, cluster: str) -> DiskClaim:
    """Read a PersistentVolumeClaim."""
    marks = mapped(claim, "metadata", "annotations")
    return DiskClaim(
        origin=origin_of(claim, at, cluster),
        claim=name_of(claim),
        uid=uid_of(claim),
        clone_type=text_at(marks, CLONE_TYPE),
        fallback=text_at(marks, FALLBACK),
        clone_phase=text_at(marks, CLONE_PHASE),
        clone_error=text_at(marks, CLONE_ERROR),
        storage_class=text_at(claim, "spec", "storageClassName"),
        access_modes=tuple(str(mode) for mode in listed(claim, "spec", "accessModes")),
        volume_mode=text_at(claim, "spec", "volumeMode"),
        requested=bytes_of(at_path(claim, "spec", "resources", "requests", "storage")),
        capacity=bytes_of(at_path(claim, "status", "capacity", "storage")),
        bound=text_at(claim, "status", "phase"),
        volume=text_at(claim, "spec", "volumeName"),
    )


def disk_volume(volume: Obj, *, at: float, cluster: str) -> DiskVolume:
    """Read a PersistentVolume."""
    return DiskVolume(
        origin=origin_of(volume, at, cluster),
        volume=name_of(volume),
        driver=text_at(volume, "spec", "csi", "driver"),
        handle=text_at(volume, "spec", "csi", "volumeHandle"),
        claim_uid=text_at(volume, "spec", "claimRef", "uid"),
    )


def disk_class(storage_class: Obj, *, at: float, cluster: str) -> DiskClass:
    """Read a StorageClass; it binds at once where it does not say otherwise (Kubernetes API)."""
    return DiskClass(
        origin=origin_of(storage_class, at, cluster),
        name=name_of(storage_class),
        provisioner=text_at(storage_class, "provisioner"),
        waits_for_consumer=text_at(storage_class, "volumeBindingMode") == WHEN_CONSUMED,
    )


def migration(vmi: Obj, *, at: float, cluster: str) -> Migration:
    """Read what a VMI says of migrating it."""
    said = condition(vmi, "LiveMigratable")
    return Migration(
        origin=origin_of(vmi, at, cluster),
        vmi=name_of(vmi),
        status=text_at(said, "status"),
        reason=text_at(said, "reason"),
        message=text_at(said, "message"),
    )
