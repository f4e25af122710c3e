"""Whose a pod of CDI's is: by what it carries, wherever it runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.clonehelpers import CdiPods, Disk, cdi_pods, leftovers, role_of
from harness.facts.sights import Missed, Seen, Sight
from tests.facts.disk_objects import (
    CLAIM_UID,
    DISK,
    DISK_UID,
    EPOCH,
    PUBLIC,
    TENANT,
    TMP_UID,
    claim,
    mounting,
    owned,
    pod,
    seen,
    there,
    tmp_claim,
)

OURS = Disk(DISK, frozenset({DISK_UID, CLAIM_UID}))
LABEL = "cdi.kubevirt.io/OwnedByUID"


def helpers(
    *pods: dict[str, Any],
    claims: Sequence[dict[str, Any]] = (),
    scopes: Sequence[Seen] = (),
    before: str = "",
) -> CdiPods:
    return cdi_pods(
        OURS,
        [there(*pods, what="Pod in cozy-public", at=EPOCH + 20), *scopes],
        [there(claim(), *claims)],
        tenant=TENANT,
        since=EPOCH,
        until=EPOCH + 50,
        at=EPOCH + 100,
        cluster="management",
        before=before,
    )


@pytest.mark.parametrize(
    ("made", "role"),
    [
        (pod("x", "importer"), "importer"),
        (pod("x", "cdi-clone-source"), "clone source"),
        (pod("x", "cdi-upload-server"), "upload"),
        (pod("x", "cdi-populator-prep"), "prep"),
        (pod("importer-prime-1"), "importer"),
        (pod("1-source-pod"), "clone source"),
        (pod("cdi-upload-tmp-pvc-1"), "upload"),
        (pod("prep-1"), "prep"),
        (pod("importer-x", "cdi-clone-source"), "clone source"),
        (pod("virt-launcher-x"), ""),
        (pod("cdi-deployment-1", "cdi-deployment"), ""),
        ({}, ""),
    ],
)
def test_what_a_pod_does(made: dict[str, Any], role: str) -> None:
    assert role_of(made) == role


@pytest.mark.parametrize(
    "made",
    [
        pod("a-source-pod", "cdi-clone-source", labels={LABEL: CLAIM_UID}),
        pod("a-source-pod", "cdi-clone-source", labels={LABEL: DISK_UID}),
        pod(f"cdi-upload-tmp-pvc-{CLAIM_UID}", "cdi-upload-server"),
        pod(f"{TMP_UID}-source-pod", "cdi-clone-source"),
        owned(pod("importer-prime-1", "importer"), CLAIM_UID),
        owned(pod("cdi-upload-x", "cdi-upload-server"), TMP_UID),
        mounting(pod("importer-prime-1", "importer"), f"tmp-pvc-{CLAIM_UID}"),
        mounting(pod("importer-1", "importer", TENANT), DISK),
        pod(f"importer-{DISK}", "importer", TENANT),
        pod(f"cdi-upload-{DISK}", "cdi-upload-server", TENANT),
        pod(f"{TMP_UID}-source-pod", "cdi-clone-source", "tenant-b"),
    ],
)
def test_a_pod_of_this_disk(made: dict[str, Any]) -> None:
    (found,) = helpers(made, claims=[tmp_claim()]).pods
    assert found.whose == "this disk"


@pytest.mark.parametrize(
    "made",
    [
        pod("a-source-pod", "cdi-clone-source", labels={LABEL: "uid-w2"}),
        pod("cdi-upload-tmp-pvc-uid-w2", "cdi-upload-server", labels={LABEL: "uid-w2"}),
        pod("uid-tmp2-source-pod", "cdi-clone-source"),
        mounting(pod("importer-prime-1", "importer"), "tmp-pvc-uid-w2"),
        owned(pod("importer-prime-1", "importer"), "uid-tmp2"),
        mounting(pod("importer-d1", "importer", "tenant-b"), DISK),
        pod("uid-nobody-source-pod", "cdi-clone-source", "tenant-b"),
    ],
)
def test_a_pod_of_another(made: dict[str, Any]) -> None:
    (found,) = helpers(made, claims=[tmp_claim(), tmp_claim("uid-w2", "uid-tmp2")]).pods
    assert found.whose == "another"


@pytest.mark.parametrize(
    "made",
    [
        pod("uid-nobody-source-pod", "cdi-clone-source"),
        owned(pod("importer-prime-1", "importer"), "uid-nobody"),
        mounting(pod("importer-1", "importer"), DISK),  # a claim of that name, in another namespace
        pod(f"importer-{DISK}", "importer", PUBLIC),
        pod(f"importer-{DISK}-2", "importer", TENANT),
    ],
)
def test_a_pod_that_leads_to_nobody(made: dict[str, Any]) -> None:
    (found,) = helpers(made, claims=[tmp_claim()]).pods
    assert found.whose == "unknown"


def test_its_scratch_claim_is_the_disks_and_one_of_that_name_elsewhere_is_not() -> None:
    name = f"{DISK}-scratch"
    scratch, elsewhere = claim(name, "uid-scratch"), claim(name, "uid-elsewhere", PUBLIC)
    other = claim("w2-disk-system-scratch", "uid-scratch2")
    own = mounting(pod("importer-x", "importer", TENANT), name)
    far = mounting(pod("importer-x", "importer", PUBLIC), name)
    theirs = mounting(pod("importer-x", "importer", TENANT), "w2-disk-system-scratch")
    for made, whose in ((own, "this disk"), (far, "another"), (theirs, "another")):
        (found,) = helpers(made, claims=[scratch, elsewhere, other]).pods
        assert found.whose == whose


def test_only_what_was_there_meanwhile() -> None:
    def one(first: float, last: float, name: str) -> tuple[Sight, Sight]:
        made = pod(name, "importer")
        return Sight(EPOCH + first, "ADDED", made), Sight(EPOCH + last, "DELETED", made)

    sights = [
        *one(-4, -1, "before"),
        *one(-4, 0, "until-it"),
        *one(10, 10.001, "short"),
        *one(50, 60, "from-its-end"),
        *one(51, 60, "after"),
    ]
    found = helpers(scopes=[seen(*sights, what="Pod")]).pods
    assert [one.name for one in found] == ["until-it", "short", "from-its-end"]
    assert [round(one.seconds, 3) for one in found] == [4.0, 0.001, 10.0]
    assert all(one.gone for one in found)


def test_one_that_is_still_there() -> None:
    (found,) = helpers(pod("importer-1", "importer")).pods
    assert (found.since, found.seconds, found.gone) == (EPOCH + 20, 80.0, False)
    assert str(found) == "importer pod cozy-public/importer-1"


def test_a_pod_that_two_watches_saw_is_one() -> None:
    made = pod("importer-1", "importer")
    again = there(made, what="Pod in all namespaces", at=EPOCH + 20)
    assert len(helpers(made, scopes=[again]).pods) == 1


def test_each_place_that_was_not_seen_whole_is_a_doubt() -> None:
    refused = Seen("Pod in all namespaces", None, blind="403 Forbidden")
    gap = seen(what="Pod in tenant-hil", missed=[Missed(EPOCH + 30, EPOCH + 31, "410 Gone")])
    late = seen(what="Pod elsewhere", missed=[Missed(EPOCH + 51, EPOCH + 52, "410 Gone")])
    found = helpers(scopes=[refused, gap, late])
    assert found.doubts == (
        "Pod in all namespaces was not watched: 403 Forbidden",
        "the history of Pod in tenant-hil has a gap of 1.0 s: 410 Gone",
    )


def test_what_was_before_the_disk_was_seen_is_a_doubt() -> None:
    assert helpers(before="it was there before").doubts == ("it was there before",)


def test_what_a_clone_left() -> None:
    vcs = {"metadata": {"name": f"volume-clone-source-{DISK_UID}", "uid": "1"}}
    prep = pod("prep-1", "cdi-populator-prep", labels={LABEL: CLAIM_UID})
    kinds = [
        ("PersistentVolumeClaim", there(tmp_claim(), tmp_claim("uid-w2", "uid-tmp2"))),
        ("Pod", there(prep, pod("other", labels={LABEL: CLAIM_UID}))),
        ("VolumeCloneSource", there(vcs)),
    ]
    found = leftovers(OURS, kinds, at=EPOCH, cluster="management")
    assert found.left == (
        f"PersistentVolumeClaim tmp-pvc-{CLAIM_UID}",
        "Pod prep-1",
        f"VolumeCloneSource volume-clone-source-{DISK_UID}",
    )
    assert found.doubts == ()


def test_what_went_is_not_left_and_what_is_not_seen_is_a_doubt() -> None:
    made = tmp_claim()
    gone = seen(Sight(EPOCH, "ADDED", made), Sight(EPOCH + 1, "DELETED", made))
    blind = Seen("VolumeSnapshot in cozy-public", None, blind="403 Forbidden")
    closed = Seen("Pod in cozy-public", EPOCH, blind="closed")
    unasked = Seen("Pod elsewhere", None)
    kinds = [("A", gone), ("B", blind), ("C", closed), ("D", unasked)]
    found = leftovers(OURS, kinds, at=EPOCH, cluster="m")
    assert found.left == ()
    assert found.doubts == (
        "VolumeSnapshot in cozy-public: 403 Forbidden",
        "Pod in cozy-public: closed",
        "Pod elsewhere: it was not watched",
    )


UIDS = [CLAIM_UID, DISK_UID, TMP_UID, "uid-w2", "", "uid"]


@given(st.sampled_from(UIDS), st.sampled_from(UIDS), st.sampled_from(UIDS))
def test_a_disk_without_a_uid_owns_nothing(label: str, owner: str, name: str) -> None:
    made = owned(pod(f"x{name}-source-pod", labels={LABEL: label}), owner)
    nobody = Disk("nobody", frozenset())
    scopes = [there(made, what="Pod")]
    found = cdi_pods(
        nobody, scopes, [], tenant=TENANT, since=EPOCH, until=EPOCH + 9, at=EPOCH + 9, cluster="m"
    )
    assert all(one.whose != "this disk" for one in found.pods)
