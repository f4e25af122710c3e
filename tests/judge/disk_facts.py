"""Facts of one cloned disk and one golden, as they should be: tests change one thing at a time."""

from __future__ import annotations

from typing import Any

from harness.facts.clonehelpers import CdiPod, CdiPods, CloneLeftovers
from harness.facts.clones import (
    DiskHistory,
    DiskSource,
    PhaseSpan,
    Said,
    Told,
    WantedDisk,
    disk_source,
)
from harness.facts.diskclaims import DiskClaim, DiskClass, DiskVolume, Migration, disk_claim
from harness.facts.fact import Origin, Unread
from harness.facts.goldens import Golden, golden
from harness.facts.guestdisk import GuestDisk
from tests.facts import disk_objects as objects

AT = Origin(1.0, "management", "")
GI = objects.GI
UNREAD = Unread(AT, "it", "nobody could look")
CSI = (
    "CloneScheduled",
    "CSICloneInProgress",
    "PrepClaimInProgress",
    "RebindInProgress",
    "Succeeded",
)
HTTP = ("Pending", "PVCBound", "ImportScheduled", "ImportInProgress", "Succeeded")

WANTED = WantedDisk(
    "builtin", objects.SCHEMATIC, objects.VERSION, "kubernetes-lab-md0", "replicated", 20 * GI
)
DOWNLOADED = WantedDisk(
    "absent", objects.SCHEMATIC, objects.VERSION, "kubernetes-lab-md0", "replicated", 20 * GI
)
SOURCE: DiskSource = disk_source(objects.cloned_disk(), at=1.0, cluster="management")
DOWNLOAD: DiskSource = disk_source(objects.downloaded_disk(), at=1.0, cluster="management")
CLAIM: DiskClaim = disk_claim(objects.claim(), at=1.0, cluster="management")
VOLUME = DiskVolume(AT, "pvc-1", "linstor.csi.linbit.com", "pvc-1", objects.CLAIM_UID)
AT_ONCE = DiskClass(AT, "replicated", "linstor.csi.linbit.com", waits_for_consumer=False)
LATER = DiskClass(AT, "local", "linstor.csi.linbit.com", waits_for_consumer=True)
PODS = CdiPods(AT, objects.DISK, objects.TENANT, 0.0, 43.0, (), ())
GONE = CloneLeftovers(AT, objects.DISK, (), ())
MIGRATES = Migration(AT, "w1", "True", "", "")
GUEST = GuestDisk(AT, 20 * GI)
COMPLETE = Said(43.0, "Running", "False", "Completed", "Clone Complete")


def golden_of(volume: dict[str, Any], claim: dict[str, Any] | None = None) -> Golden:
    """A golden 600 s old."""
    claims = [objects.golden_claim() if claim is None else claim] if claim != {} else []
    found = golden(
        objects.GOLDEN,
        objects.there(volume),
        objects.there(*claims),
        objects.seen(what="Event"),
        at=objects.EPOCH + 600,
        cluster="management",
    )
    assert isinstance(found, Golden)
    return found


IMAGE = golden_of(objects.golden_disk())


def went(
    *phases: str,
    said: Said | None = COMPLETE,
    restarts: int = 0,
    events: tuple[Told, ...] = (),
    doubt: str = "",
) -> DiskHistory:
    """A history of these phases, ten seconds each."""
    spans = tuple(PhaseSpan(one, 10.0 * place, 10.0) for place, one in enumerate(phases))
    counts = ((5.0, restarts),) if restarts else ()
    told = (said,) if said else ()
    return DiskHistory(AT, objects.DISK, spans, told, counts, events, doubt)


def helper(
    role: Any = "upload",
    whose: Any = "this disk",
    namespace: str = "cozy-public",
    name: str = "cdi-upload-tmp-pvc-1",
) -> CdiPod:
    return CdiPod(namespace, name, role, whose, 3.0, 20.0, gone=True)
