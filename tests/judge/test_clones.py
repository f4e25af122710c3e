from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import claims
from harness.facts.clones import DiskRefused, Said, Told
from harness.judge.clones import csi_clone
from harness.judge.verdict import Verdict
from tests.judge.disk_facts import (
    AT,
    CLAIM,
    CSI,
    DOWNLOAD,
    GONE,
    PODS,
    SOURCE,
    UNREAD,
    VOLUME,
    WANTED,
    helper,
    went,
)

WHOLE: dict[str, Any] = {
    "source": SOURCE,
    "history": went(*CSI),
    "claim": CLAIM,
    "volume": VOLUME,
    "pods": PODS,
    "left": GONE,
}
COPY = replace(CLAIM, clone_type="copy", fallback="Provisioners are incompatible")
BOTH = (
    helper("clone source", name="1-source-pod"),
    helper("upload", name="cdi-upload-tmp-pvc-1"),
)
WHY = Told(1.0, "IncompatibleProvisioners", "Provisioners are incompatible")
WORKS = Said(1.0, "Running", "True", "Populator is running", "")


def judged(**change: Any) -> Verdict:
    verdict = csi_clone(**{**WHOLE, **change}, wanted=WANTED, subject="disk d1")
    assert (verdict.claim, verdict.subject) == ("csi-clone", "disk d1")
    assert verdict.claim in claims.load()
    return verdict


def test_every_proof_is_there() -> None:
    verdict = judged()
    assert verdict.outcome == "holds"
    for proof in (
        "cloned from cozy-public/talos-worker-",
        "cloneType csi-clone, no fallback reason",
        'Running=False Completed "Clone Complete" after 40.0 s',
        "no importer, upload or clone-source pod of it in any namespace in these 43.0 s",
        "LINSTOR resource pvc-1",
        "nothing left in cozy-public",
    ):
        assert proof in verdict.because, verdict.because
    assert verdict.facts == tuple(WHOLE.values())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": DOWNLOAD}, "its source is the URL https://"),
        ({"source": replace(SOURCE, forms=("http", "pvc"))}, "its source is the URL"),
        ({"source": replace(SOURCE, forms=("snapshot",))}, "its source is snapshot, not one PVC"),
        ({"source": replace(SOURCE, forms=())}, "its source is none"),
        ({"source": replace(SOURCE, claim="")}, "its source is pvc, not one PVC"),
        (
            {"source": replace(SOURCE, claim=f"tenant-other/{WANTED.golden}")},
            "it is cloned from tenant-other/talos-worker-",
        ),
        (
            {"source": replace(SOURCE, claim=f"cozy-public/{WANTED.golden}-x")},
            f"-x, the pool's golden is cozy-public/{WANTED.golden}",
        ),
        (
            {"claim": replace(CLAIM, clone_type="snapshot")},
            "cloneType is snapshot: the clone was made through a snapshot",
        ),
        ({"claim": replace(CLAIM, clone_type="x")}, "of a kind that CDI does not have"),
        (
            {"claim": replace(CLAIM, fallback="No CSI")},
            "CDI fell back from the CSI clone, fallback reason 'No CSI'",
        ),
        (
            {"claim": replace(CLAIM, clone_type="", fallback="No CSI")},
            "CDI fell back from the CSI clone, fallback reason 'No CSI'",
        ),
        (
            {"history": went(*CSI, events=(WHY,))},
            "CDI fell back from the CSI clone, Event IncompatibleProvisioners: Provisioners are",
        ),
        (
            {"history": went(*CSI, said=Said(1.0, "Running", "False", "Completed", "Done"))},
            'it Succeeded with Running=False Completed (Done), not "Clone Complete"',
        ),
        ({"history": went(*CSI, said=WORKS)}, "it Succeeded with Running=True Populator is"),
        (
            {"history": went("CloneScheduled", "CloneInProgress", "Succeeded")},
            "the phase CloneInProgress is of a host-assisted clone",
        ),
        (
            {"history": went("CloneFromSnapshotSourceInProgress", *CSI)},
            "is of a clone through a snapshot",
        ),
        (
            {"history": went("SnapshotForSmartCloneInProgress", *CSI)},
            "is of a clone through a snapshot",
        ),
        ({"history": went("ImportInProgress", *CSI)}, "ImportInProgress is of an import"),
        ({"pods": replace(PODS, pods=(helper(),))}, "upload pod cozy-public/cdi-upload-tmp-pvc-1"),
        (
            {"pods": replace(PODS, pods=(helper("clone source", namespace="elsewhere"),))},
            "clone source pod elsewhere/cdi-upload-tmp-pvc-1 carried its bytes (20.0 s)",
        ),
        ({"pods": replace(PODS, pods=(helper("importer"),))}, "importer pod cozy-public"),
        ({"volume": replace(VOLUME, driver="")}, "pvc-1 is of no CSI driver, not of linstor"),
        ({"volume": replace(VOLUME, driver="rbd.csi.ceph.com")}, "is of rbd.csi.ceph.com"),
        ({"volume": replace(VOLUME, claim_uid="x")}, "pvc-1 is bound to another claim"),
        ({"volume": replace(VOLUME, handle="pvc-2")}, "has the LINSTOR resource pvc-2"),
        ({"volume": replace(VOLUME, handle="")}, "has the LINSTOR resource none"),
        ({"left": replace(GONE, left=("Pod prep-1",))}, "left behind in cozy-public: Pod prep-1"),
    ],
)
def test_one_proof_that_is_contradicted_breaks_it(change: dict[str, Any], said: str) -> None:
    verdict = judged(**change)
    assert verdict.outcome == "broken"
    assert said in verdict.because, verdict.because


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"claim": replace(CLAIM, clone_type="")}, "has no cloneType: nothing tells how"),
        ({"history": went(*CSI, said=None)}, "it Succeeded, and no condition Running says how"),
        (
            {"history": went("CloneScheduled", "Succeeded", doubt="a gap of 9 s: 410 Gone")},
            "a phase of another path may have been missed: a gap of 9 s: 410 Gone",
        ),
        (
            {"pods": replace(PODS, doubts=("Pod in cozy-public has a gap",))},
            "whether a pod copied it is not known: Pod in cozy-public has a gap",
        ),
        (
            {"pods": replace(PODS, pods=(helper(whose="unknown"),))},
            "was there meanwhile, and nothing tells for which disk",
        ),
        ({"left": replace(GONE, doubts=("Pod: 403",))}, "left behind is not known: Pod: 403"),
        *[({one: UNREAD}, "it could not be read: nobody could look") for one in WHOLE],
    ],
)
def test_one_that_is_not_established_leaves_it_unknown(change: dict[str, Any], said: str) -> None:
    verdict = judged(**change)
    assert verdict.outcome == "unknown"
    assert said in verdict.because, verdict.because


def test_a_copy_is_told_with_its_reason_its_event_and_what_an_empty_namespace_seems_to_say() -> (
    None
):
    ended = went(
        "CloneScheduled", "CloneInProgress", "RebindInProgress", "Succeeded", events=(WHY,)
    )
    verdict = judged(claim=COPY, history=ended, pods=replace(PODS, pods=BOTH))
    assert verdict.outcome == "broken"
    for said in (
        "cloneType is copy: the clone was host-assisted (bytes went over the pod network)",
        "fallback reason 'Provisioners are incompatible'",
        "Event IncompatibleProvisioners: Provisioners are incompatible",
        "that no pod of it was in tenant-hil proves nothing: with populators they run in "
        "cozy-public; seen: clone source pod cozy-public/1-source-pod, upload pod cozy-public/",
    ):
        assert said in verdict.because, verdict.because


def test_a_copy_whose_pods_nobody_saw_is_a_copy() -> None:
    because = judged(claim=COPY).because
    assert "that no pod of it was in tenant-hil proves nothing" in because
    assert "; seen:" not in because
    assert "proves nothing" not in judged(claim=COPY, pods=UNREAD).because


def test_a_copy_with_a_pod_in_the_tenants_namespace_has_none_of_that() -> None:
    in_tenant = replace(PODS, pods=(helper(namespace="tenant-hil"), *BOTH))
    because = judged(claim=COPY, pods=in_tenant).because
    assert "proves nothing" not in because
    assert "upload pod tenant-hil/cdi-upload-tmp-pvc-1 carried its bytes" in because


@pytest.mark.parametrize("role", ["prep", ""])
def test_a_pod_that_carries_no_bytes_is_none_of_these(role: str) -> None:
    for whose in ("this disk", "unknown"):
        pods = replace(PODS, pods=(helper(role, whose, name="prep-1"),))
        assert judged(pods=pods).outcome == "holds"


def test_pods_of_other_disks_are_told_and_decide_nothing() -> None:
    others = (helper("importer", "another"), helper("upload", "another"))
    verdict = judged(pods=replace(PODS, pods=others))
    assert verdict.outcome == "holds"
    assert "2 pods of other disks seen" in verdict.because


@pytest.mark.parametrize("reason", ["CloneSourceInUse", "CloneWithoutSource"])
def test_a_clone_that_waits_for_its_source_is_told_with_its_event(reason: str) -> None:
    waits = Told(1.0, reason, "the source is used by pod importer-prime-1")
    begun = went("CloneScheduled", events=(waits,), said=None)
    verdict = judged(history=begun, claim=replace(CLAIM, clone_type=""), volume=UNREAD)
    assert verdict.outcome == "unknown"
    assert f"in phase CloneScheduled for 10 s: {reason}: the source is used" in verdict.because
    assert "has no cloneType" not in verdict.because


@pytest.mark.parametrize(
    "reason",
    ["CloneValidationFailed", "ErrIncompatiblePVC", "ErrExceededQuota", "ErrClaimNotValid"],
)
def test_a_clone_that_is_refused_is_broken(reason: str) -> None:
    refused = Told(1.0, reason, "target resources requests storage size is smaller")
    verdict = judged(history=went("CloneScheduled", events=(refused,), said=None))
    assert verdict.outcome == "broken"
    assert f"the clone is refused, in phase CloneScheduled for 10 s: {reason}" in verdict.because


def test_a_refusal_that_was_overcome_is_past() -> None:
    refused = Told(1.0, "ErrExceededQuota", "exceeded quota")
    assert judged(history=went(*CSI, events=(refused,))).outcome == "holds"


def test_one_that_goes_on_is_unknown_and_one_that_failed_broken() -> None:
    goes_on = judged(history=went(*CSI[:2], said=WORKS))
    assert goes_on.outcome == "unknown"
    assert "has not ended, in phase CSICloneInProgress for 10 s: Running=True" in goes_on.because
    assert judged(history=went("Failed", said=None)).outcome == "broken"
    nothing = judged(history=went(said=None))
    assert (nothing.outcome, "without any phase" in nothing.because) == ("unknown", True)


def test_what_is_left_of_a_clone_that_goes_on_is_in_use() -> None:
    there = replace(GONE, left=("PersistentVolumeClaim tmp-pvc-1",))
    verdict = judged(history=went(*CSI[:2], said=WORKS), left=there, volume=UNREAD)
    assert verdict.outcome == "unknown"
    assert "left behind" not in verdict.because
    unseen = judged(history=UNREAD, left=there)
    assert (unseen.outcome, "left behind" in unseen.because) == ("unknown", False)


def test_a_disk_that_may_not_be_cloned_was_refused() -> None:
    message = "User x has insufficient permissions in clone source namespace cozy-public"
    verdict = judged(source=DiskRefused(AT, "m1", message), history=UNREAD, claim=UNREAD)
    assert verdict.outcome == "broken"
    assert verdict.because == f"the disk was never made: {message}"


def test_what_could_not_be_read_does_not_hide_what_breaks_it() -> None:
    assert judged(claim=COPY, history=UNREAD, pods=UNREAD, left=UNREAD).outcome == "broken"
