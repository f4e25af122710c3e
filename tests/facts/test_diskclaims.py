from __future__ import annotations

from typing import Any

import pytest

from harness.facts.diskclaims import disk_claim, disk_class, disk_volume, migration
from tests.facts.disk_objects import CLAIM_UID, DISK, GI, claim, meta, said

AT: Any = {"at": 1.0, "cluster": "management"}


def test_a_claim() -> None:
    found = disk_claim(claim(), **AT)
    assert (found.claim, found.uid, found.volume, found.bound) == (
        DISK,
        CLAIM_UID,
        "pvc-1",
        "Bound",
    )
    assert (found.clone_type, found.fallback, found.clone_phase) == ("csi-clone", "", "Succeeded")
    assert (found.access_modes, found.volume_mode) == (("ReadWriteMany",), "Block")
    assert (found.requested, found.capacity) == (20 * GI, 20 * GI)
    assert found.origin.source == "management PersistentVolumeClaim tenant-hil/w1-disk-system"


@pytest.mark.parametrize(
    "junk", [{}, {"status": {"capacity": {"storage": "much"}}}, {"metadata": []}, {"spec": 1}]
)
def test_what_a_claim_does_not_say(junk: Any) -> None:
    found = disk_claim(junk, **AT)
    assert (found.clone_type, found.capacity, found.requested, found.access_modes) == (
        "",
        None,
        None,
        (),
    )


def test_a_volume_and_a_class() -> None:
    csi = {"driver": "linstor.csi.linbit.com", "volumeHandle": "pvc-1"}
    spec = {"csi": csi, "claimRef": {"uid": CLAIM_UID}}
    volume = disk_volume({"metadata": meta("pvc-1"), "spec": spec}, **AT)
    assert (volume.volume, volume.driver, volume.handle, volume.claim_uid) == (
        "pvc-1",
        "linstor.csi.linbit.com",
        "pvc-1",
        CLAIM_UID,
    )
    local = disk_volume({"metadata": meta("pvc-2"), "spec": {"hostPath": {}}}, **AT)
    assert (local.driver, local.handle, local.claim_uid) == ("", "", "")
    late = {
        "metadata": meta("local"),
        "provisioner": "p",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    assert disk_class(late, **AT).waits_for_consumer
    assert not disk_class({**late, "volumeBindingMode": "Immediate"}, **AT).waits_for_consumer
    assert not disk_class({"metadata": meta("r")}, **AT).waits_for_consumer


def test_what_a_vmi_says_of_migration() -> None:
    no = said("LiveMigratable", "False", "DisksNotLiveMigratable", "not shared")
    found = migration({"metadata": meta("w1"), "status": {"conditions": [no]}}, **AT)
    assert (found.vmi, found.status, found.reason) == ("w1", "False", "DisksNotLiveMigratable")
    assert migration({"metadata": meta("w1")}, **AT).status == ""
