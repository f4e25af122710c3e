"""The claim that a disk is a CSI clone: every proof of clone_path section 4, and no lookalike.

A host-assisted clone ends like a CSI one, Succeeded and "Clone Complete", with the same bytes on
the disk and, with populators, without any pod in the tenant's namespace.
"""

from __future__ import annotations

from harness.facts.clonehelpers import CdiPod, CdiPods, CloneLeftovers
from harness.facts.clones import (
    SUCCEEDED,
    DiskHistory,
    DiskRefused,
    DiskSource,
    WantedDisk,
)
from harness.facts.diskclaims import DiskClaim, DiskVolume
from harness.facts.fact import Unread
from harness.facts.goldenname import GOLDENS
from harness.judge.proofs import Proofs
from harness.judge.verdict import Verdict
from harness.judge.wording import counted, named

LINSTOR = "linstor.csi.linbit.com"
CSI_CLONE = "csi-clone"
FALLBACKS = (
    "IncompatibleVolumeModes",
    "IncompatibleProvisioners",
    "NoVolumeExpansion",
    "NoVolumeSnapshotClass",
    "NoPopulator",
)
"""Reasons of the Events with which CDI tells why it copies (clone_path section 4)."""
WAITS = ("CloneSourceInUse", "CloneWithoutSource")
"""Reasons of Events about a clone that waits for its source."""
REFUSALS = ("CloneValidationFailed", "ErrIncompatiblePVC", "ErrExceededQuota", "ErrClaimNotValid")
"""Reasons of Events about a clone that will not come about as it was asked for."""

_COPIED = "host-assisted (bytes went over the pod network)"
_HOW = {"copy": _COPIED, "snapshot": "made through a snapshot"}
_OTHER_PATHS = {
    "CloneInProgress": "of a host-assisted clone",
    "SnapshotForSmartCloneInProgress": "of a clone through a snapshot",
    "CloneFromSnapshotSourceInProgress": "of a clone through a snapshot",
    "ImportScheduled": "of an import",
    "ImportInProgress": "of an import",
}
_CARRIERS = ("importer", "upload", "clone source")


def csi_clone(
    source: DiskSource | DiskRefused | Unread,
    history: DiskHistory | Unread,
    claim: DiskClaim | Unread,
    volume: DiskVolume | Unread,
    pods: CdiPods | Unread,
    left: CloneLeftovers | Unread,
    wanted: WantedDisk,
    subject: str,
) -> Verdict:
    """csi-clone: the disk was cloned by the storage, and nothing copied its bytes.

    Every proof has to be there: the source is the golden's PVC and no URL; cloneType is csi-clone,
    without a fallback reason; the disk Succeeded, with Running=False Completed "Clone Complete";
    none of its phases is another path's; no importer, upload or clone-source pod of it was there in
    any namespace from its creation to its end; its PersistentVolume is LINSTOR's; what CDI made on
    the way is gone. Broken by one that is contradicted; unknown where one is not established: an
    annotation that is missing, a history with a gap, a place that nobody may watch, a pod that
    cannot be put to any disk, and a clone that still waits for its source.
    """
    facts = (source, history, claim, volume, pods, left)
    found = Proofs()
    if isinstance(source, DiskRefused):
        found.broken.append(f"the disk was never made: {source.message}")
        return found.verdict("csi-clone", subject, source)
    if isinstance(source, Unread):
        found.unread(source)
        return found.verdict("csi-clone", subject, *facts)
    _source(found, source, wanted)
    ended = _ending(found, history)
    if not isinstance(claim, Unread):
        _type(found, claim, history, pods, ended=ended)
    _pods(found, pods)
    if ended:
        _stored(found, claim, volume)
        _gone(found, left)
    found.unread(*(one for one in (history, claim, pods) if isinstance(one, Unread)))
    return found.verdict("csi-clone", subject, *facts)


def _source(found: Proofs, source: DiskSource, wanted: WantedDisk) -> None:
    golden = f"{GOLDENS}/{wanted.golden}"
    if source.forms == ("pvc",) and source.claim == golden:
        found.shown.append(f"cloned from {source.claim}")
    elif source.forms == ("pvc",) and source.claim:
        found.broken.append(f"it is cloned from {source.claim}, the pool's golden is {golden}")
    elif "http" in source.forms:
        found.broken.append(f"its source is the URL {source.url}, so nothing was cloned")
    else:
        found.broken.append(f"its source is {named(source.forms)}, not one PVC")


def _ending(found: Proofs, history: DiskHistory | Unread) -> bool:
    """Whether the clone has ended; why it has not is told with CDI's own Event."""
    if isinstance(history, Unread):
        return False
    foreign = [one for one in history.phases if one.phase in _OTHER_PATHS]
    found.broken += [f"the phase {one.phase} is {_OTHER_PATHS[one.phase]}" for one in foreign]
    if history.doubt:
        found.open.append(f"a phase of another path may have been missed: {history.doubt}")
    if history.phase != SUCCEEDED:
        _waiting(found, history)
        return False
    said = history.said("Running")
    if said is None:
        found.open.append("it Succeeded, and no condition Running says how")
    elif (said.status, said.reason, said.message) != ("False", "Completed", "Clone Complete"):
        found.broken.append(f'it Succeeded with {said}, not "Clone Complete"')
    else:
        took = f" after {history.ended - history.phases[0].since:.1f} s" if history.ended else ""
        found.shown.append(f'Running=False Completed "Clone Complete"{took}')
    return True


def _waiting(found: Proofs, history: DiskHistory) -> None:
    refused, waits = history.event(*REFUSALS), history.event(*WAITS)
    last = history.phases[-1] if history.phases else None
    stands = f"in phase {last.phase} for {last.seconds:.0f} s" if last else "without any phase"
    if refused is not None:
        found.broken.append(f"the clone is refused, {stands}: {refused}")
    elif last is not None and last.phase == "Failed":
        found.broken.append(
            f"the clone failed: {history.said('Running') or 'no condition Running'}"
        )
    elif waits is not None:
        found.open.append(f"the clone waits for its source, {stands}: {waits}")
    else:
        said = history.said("Running")
        found.open.append(f"the clone has not ended, {stands}" + (f": {said}" if said else ""))


def _type(
    found: Proofs,
    claim: DiskClaim,
    history: DiskHistory | Unread,
    pods: CdiPods | Unread,
    *,
    ended: bool,
) -> None:
    event = None if isinstance(history, Unread) else history.event(*FALLBACKS)
    because = f", fallback reason {claim.fallback!r}" if claim.fallback else ""
    because += f", Event {event}" if event else ""
    if claim.clone_type in ("", CSI_CLONE):
        if because:
            found.broken.append(f"CDI fell back from the CSI clone{because}")
        elif claim.clone_type:
            found.shown.append("cloneType csi-clone, no fallback reason")
        elif ended:
            found.open.append(
                f"PVC {claim.claim} has no cloneType: nothing tells how it was cloned"
            )
    else:
        how = _HOW.get(claim.clone_type, "of a kind that CDI does not have")
        told = f"cloneType is {claim.clone_type}: the clone was {how}{because}"
        found.broken.append(told + _tempting(pods))


def _tempting(pods: CdiPods | Unread) -> str:
    """What an empty tenant namespace seems to say, where it is empty."""
    if isinstance(pods, Unread) or any(one.namespace == pods.tenant for one in _of_it(pods)):
        return ""
    there = named(str(one) for one in _of_it(pods))
    seen = f"; seen: {there}" if _of_it(pods) else ""
    return (
        f"; that no pod of it was in {pods.tenant} proves nothing: with populators they run in "
        f"{GOLDENS}{seen}"
    )


def _pods(found: Proofs, pods: CdiPods | Unread) -> None:
    if isinstance(pods, Unread):
        return
    own = _of_it(pods)
    found.broken += [f"{one} carried its bytes ({one.seconds:.1f} s)" for one in own]
    carriers = [one for one in pods.pods if one.role in _CARRIERS]
    for one in carriers:
        if one.whose == "unknown":
            found.open.append(f"{one} was there meanwhile, and nothing tells for which disk")
    found.open += [f"whether a pod copied it is not known: {doubt}" for doubt in pods.doubts]
    if not own:
        lasted = f"{pods.until - pods.since:.1f} s"
        found.shown.append(
            f"no importer, upload or clone-source pod of it in any namespace in these {lasted}"
        )
    others = sum(one.whose == "another" for one in carriers)
    if others:
        found.aside.append(f"{counted(others, 'pod')} of other disks seen")


def _of_it(pods: CdiPods) -> list[CdiPod]:
    """Pods that carry a disk's bytes; one that only prepares the claim carries none."""
    return [one for one in pods.pods if one.whose == "this disk" and one.role in _CARRIERS]


def _stored(found: Proofs, claim: DiskClaim | Unread, volume: DiskVolume | Unread) -> None:
    if found.unread(volume) or isinstance(volume, Unread) or isinstance(claim, Unread):
        return
    if volume.driver != LINSTOR:
        driver = volume.driver or "no CSI driver"
        found.broken.append(f"PersistentVolume {volume.volume} is of {driver}, not of {LINSTOR}")
    elif volume.claim_uid != claim.uid:
        found.broken.append(f"PersistentVolume {volume.volume} is bound to another claim")
    elif volume.handle != volume.volume:
        handle = volume.handle or "none"
        found.broken.append(f"PersistentVolume {volume.volume} has the LINSTOR resource {handle}")
    else:
        found.shown.append(f"LINSTOR resource {volume.handle}")


def _gone(found: Proofs, left: CloneLeftovers | Unread) -> None:
    if found.unread(left) or isinstance(left, Unread):
        return
    if left.left:
        found.broken.append(f"left behind in {GOLDENS}: {named(left.left)}")
    found.open += [f"whether something is left behind is not known: {one}" for one in left.doubts]
    if not (left.left or left.doubts):
        found.shown.append(f"nothing left in {GOLDENS}")
