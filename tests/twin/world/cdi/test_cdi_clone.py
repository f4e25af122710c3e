from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.twin.world.objects import APPS, CDI, SNAPSHOT, STORAGE
from harness.twin.world.timings import CLONE

TENANT, PUBLIC = "tenant-hil", "cozy-public"
CSI = [
    "CloneScheduled",
    "CSICloneInProgress",
    "PrepClaimInProgress",
    "RebindInProgress",
    "Succeeded",
]
COPY = ["CloneScheduled", "CloneInProgress", "RebindInProgress", "Succeeded"]


def golden(disks: Any) -> str:
    (found,) = disks.world.management.all(CDI, "DataVolume", PUBLIC)
    return str(found["metadata"]["name"])


def snapshots(disks: Any) -> None:
    """CDI is told to clone by snapshots."""
    cdi = disks.get(CDI, "CDI", "", "cdi")
    disks.edit(cdi, lambda o: o["spec"].update(cloneStrategyOverride="snapshot"))


def snapshot_class(disks: Any) -> None:
    disks.create(
        {
            "apiVersion": SNAPSHOT,
            "kind": "VolumeSnapshotClass",
            "metadata": {"name": "linstor"},
            "driver": "linstor.csi.linbit.com",
            "deletionPolicy": "Delete",
        }
    )


# -- the way of a clone


def test_a_csi_clone_shows_each_phase_of_its_path_at_a_time_of_its_own(disks: Any) -> None:
    disks.clone()
    disks.finish()
    found = disks.timed_phases()
    assert [phase for _, phase in found] == CSI
    times = [when for when, _ in found]
    assert len(set(times)) == len(times)


def test_two_disks_take_as_long_as_was_measured(disks: Any) -> None:
    for name in ("one", "two"):
        disks.clone(name)
    for name in ("one", "two"):
        disks.finish(name)
    times = [dict(map(reversed, disks.timed_phases(name))) for name in ("one", "two")]
    begun = min(found["CSICloneInProgress"] for found in times)
    ended = max(found["Succeeded"] for found in times)
    assert 35.0 < ended - begun < 50.0


def test_phases_of_milliseconds_are_written_one_by_one_too(disks: Any) -> None:
    for entry in CLONE:
        disks.world.timings.override(entry, 0.001)
    disks.clone()
    disks.finish()
    found = disks.timed_phases()
    assert [phase for _, phase in found] == CSI
    assert found[-1][0] - found[0][0] < 0.05
    assert len({when for when, _ in found}) == len(CSI)


def test_what_a_csi_clone_leaves_proves_it(disks: Any) -> None:
    disks.clone()
    volume = disks.finish()
    assert disks.notes()["cloneType"] == "csi-clone"
    assert disks.notes()["clonePhase"] == "Succeeded"
    assert "cloneFallbackReason" not in disks.notes()
    assert disks.condition("Running") == ("False", "Completed", "Clone Complete")
    assert disks.condition("Ready")[0] == disks.condition("Bound")[0] == "True"
    assert volume["status"]["progress"] == "100.0%"
    assert "pvc" in volume["spec"]["source"]
    assert disks.made("Pod", TENANT) == []
    assert "restartCount" not in volume["status"]


def test_the_volume_is_that_of_the_temporary_claim_handed_over(disks: Any) -> None:
    disks.clone()
    disks.until(lambda: "CSICloneInProgress" in disks.phases())
    uid = disks.claim()["metadata"]["uid"]
    temporary = disks.claim(f"tmp-pvc-{uid}", PUBLIC)
    assert temporary["spec"]["dataSourceRef"]["name"] == golden(disks)
    assert temporary["spec"]["resources"]["requests"]["storage"] == "6Gi"
    disks.finish()
    claim = disks.claim()
    name = f"pvc-{temporary['metadata']['uid']}"
    assert claim["spec"]["volumeName"] == name
    assert claim["status"]["capacity"]["storage"] == "20Gi"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    volume = disks.get("v1", "PersistentVolume", "", name)
    assert volume["spec"]["claimRef"]["uid"] == uid
    assert volume["spec"]["csi"]["driver"] == "linstor.csi.linbit.com"
    assert name in disks.world.storage.resources


def test_a_source_object_is_beside_the_source_while_it_is_needed(disks: Any) -> None:
    disks.clone()
    disks.until(lambda: "CSICloneInProgress" in disks.phases())
    (source,) = disks.world.management.all(CDI, "VolumeCloneSource")
    uid = disks.get(CDI, "DataVolume", TENANT, "disk")["metadata"]["uid"]
    assert source["metadata"]["name"] == f"volume-clone-source-{uid}"
    assert source["metadata"]["namespace"] == PUBLIC
    assert source["spec"]["source"] == {"kind": "PersistentVolumeClaim", "name": golden(disks)}
    disks.finish()
    volume = disks.claim()["spec"]["volumeName"]
    assert disks.left() == [
        ("DataVolume", f"{TENANT}/disk"),
        ("PersistentVolume", f"/{volume}"),
        ("PersistentVolumeClaim", f"{TENANT}/disk"),
    ]


def test_a_clone_as_large_as_its_source_needs_no_preparation(disks: Any) -> None:
    disks.clone(size="6Gi")
    disks.finish()
    assert "PrepClaimInProgress" not in disks.phases()
    assert disks.made("Pod") == []


def test_growth_that_takes_a_while_has_a_pod_use_the_claim(disks: Any) -> None:
    disks.clone()
    disks.finish()
    uid = disks.claim()["metadata"]["uid"]
    assert disks.made("Pod") == [f"prep-{uid}"]
    assert disks.made("Pod", PUBLIC) == [f"prep-{uid}"]


def test_growth_that_is_done_at_once_has_none(disks: Any) -> None:
    disks.world.timings.override("claim.expand", 0.0)
    disks.clone()
    disks.finish()
    assert disks.phases() == CSI
    assert disks.made("Pod") == []


def test_the_golden_is_in_the_clone(disks: Any) -> None:
    disks.clone()
    disks.finish()
    claims = disks.world.claims
    assert claims.content_of(disks.claim()) == claims.content_of(disks.claim(golden(disks), PUBLIC))
    assert claims.content_of(disks.claim()).version == "v1.13.6"


def test_a_snapshot_clone_shows_its_own_path_and_leaves_no_snapshot(disks: Any) -> None:
    snapshots(disks)
    snapshot_class(disks)
    disks.clone()
    disks.until(lambda: "CloneFromSnapshotSourceInProgress" in disks.phases())
    uid = disks.claim()["metadata"]["uid"]
    found = disks.get(SNAPSHOT, "VolumeSnapshot", PUBLIC, f"tmp-snapshot-{uid}")
    assert found["status"]["readyToUse"] is True
    disks.finish()
    assert disks.phases() == [
        "CloneScheduled",
        "SnapshotForSmartCloneInProgress",
        "CloneFromSnapshotSourceInProgress",
        "PrepClaimInProgress",
        "RebindInProgress",
        "Succeeded",
    ]
    assert disks.notes()["cloneType"] == "snapshot"
    assert disks.world.claims.content_of(disks.claim()) is not None
    assert not [one for one in disks.left() if "Snapshot" in one[0] and "Class" not in one[0]]


@pytest.mark.parametrize("moment", [0.3, 3.0, 38.0, 60.0])
@pytest.mark.parametrize("way", ["csi", "snapshot", "copy", "no populator"])
def test_a_clone_can_be_deleted_at_any_moment(disks: Any, way: str, moment: float) -> None:
    if way in ("snapshot", "copy"):
        snapshots(disks)
    if way == "snapshot":
        snapshot_class(disks)
    notes = {"cdi.kubevirt.io/storage.usePopulator": "false"} if way == "no populator" else {}
    disks.clone(notes=notes)
    disks.run(moment)
    disks.delete(disks.get(CDI, "DataVolume", TENANT, "disk"))
    disks.run(120)
    assert [one for one in disks.left() if one[0] != "VolumeSnapshotClass"] == []


# -- what a clone falls back to


def other_driver(disks: Any) -> str:
    disks.add_class("other", provisioner="csi.example.com")
    profile = disks.get(CDI, "StorageProfile", "", "other")
    sets = [{"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}]
    disks.edit(profile, lambda o: o["spec"].update(claimPropertySets=sets))
    disks.run(1)
    return "other"


def no_expansion(disks: Any) -> str:
    disks.edit(disks.klass("replicated"), lambda o: o.update(allowVolumeExpansion=False))
    return "replicated"


def no_snapshot_class(disks: Any) -> str:
    snapshots(disks)
    return "replicated"


FALLBACKS = {
    "IncompatibleProvisioners": (other_driver, {}, "Provisioners are incompatible"),
    "IncompatibleVolumeModes": (
        lambda _: "replicated",
        {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"},
        "The volume modes of source and target are incompatible",
    ),
    "NoVolumeExpansion": (no_expansion, {}, "No volume expansion is possible"),
    "NoVolumeSnapshotClass": (no_snapshot_class, {}, "No compatible volumesnapshotclass found"),
}


@pytest.mark.parametrize("reason", FALLBACKS)
def test_each_reason_makes_cdi_copy_through_pods_beside_the_source(disks: Any, reason: str) -> None:
    prepare, storage, message = FALLBACKS[reason]
    disks.clone(klass=prepare(disks), storage=storage)
    disks.finish()
    assert disks.phases() == COPY
    assert disks.notes()["cloneType"] == "copy"
    assert disks.notes()["cloneFallbackReason"] == message
    (event,) = disks.events(reason)
    assert event["involvedObject"]["name"] == "disk"
    assert disks.made("Pod", TENANT) == []
    upload = f"cdi-upload-tmp-pvc-{disks.claim()['metadata']['uid']}"
    (reader,) = set(disks.made("Pod", PUBLIC)) - {upload}
    assert reader.endswith("-source-pod")
    assert upload in disks.made("Pod", PUBLIC)
    # it ends as well as the other: the phase and the condition tell nothing
    assert disks.condition("Running") == ("False", "Completed", "Clone Complete")
    assert disks.claim()["status"]["capacity"]["storage"] == "20Gi"
    assert disks.world.claims.content_of(disks.claim()) is not None
    assert not [one for one in disks.left() if one[0] == "Pod" or "tmp-pvc" in one[1]]


def test_a_copy_takes_longer_than_the_storage_layer(disks: Any) -> None:
    no_snapshot_class(disks)
    disks.clone()
    disks.finish()
    found = disks.timed_phases()
    assert found[-1][0] - found[0][0] > 75.0


def test_two_classes_of_one_provisioner_are_no_reason(disks: Any) -> None:
    disks.add_class("replicated-2")
    disks.clone(klass="replicated-2")
    disks.finish()
    assert disks.phases() == CSI
    assert disks.notes()["cloneType"] == "csi-clone"


def test_the_profile_decides_where_the_cdi_cr_says_nothing(disks: Any) -> None:
    cdi = disks.get(CDI, "CDI", "", "cdi")
    disks.edit(cdi, lambda o: o["spec"].pop("cloneStrategyOverride"))
    profile = disks.get(CDI, "StorageProfile", "", "replicated")
    disks.edit(profile, lambda o: o["spec"].update(cloneStrategy="copy"))
    disks.run(1)
    disks.clone()
    disks.finish()
    assert disks.phases() == COPY
    # it was asked for, so nothing was given up
    assert "cloneFallbackReason" not in disks.notes()


def test_without_a_populator_the_receiver_runs_in_the_tenants_namespace(disks: Any) -> None:
    disks.clone(notes={"cdi.kubevirt.io/storage.usePopulator": "false"})
    disks.finish()
    assert disks.phases() == ["CloneScheduled", "CloneInProgress", "Succeeded"]
    assert disks.made("Pod", TENANT) == ["cdi-upload-disk"]
    uid = disks.claim()["metadata"]["uid"]
    assert disks.made("Pod", PUBLIC) == [f"{uid}-source-pod"]
    assert disks.notes()["cloneType"] == "copy"
    assert disks.notes()["cloneFallbackReason"]
    assert disks.events("NoPopulator")
    assert "dataSourceRef" not in disks.claim()["spec"]
    assert disks.made("VolumeCloneSource") == []
    assert not [one for one in disks.left() if one[0] == "Pod"]
    assert disks.world.claims.content_of(disks.claim()) is not None


# -- what a clone waits for


def test_a_source_that_a_pod_has_open_is_waited_for(disks: Any) -> None:
    pod = disks.use(golden(disks))
    disks.run(10)
    disks.clone()
    disks.run(60)
    assert disks.phase() == "CSICloneInProgress"
    assert not [name for name in disks.made("PersistentVolumeClaim") if "tmp-pvc" in name]
    (event,) = disks.events("CloneSourceInUse")
    assert event["count"] > 3
    assert f"pod {PUBLIC}/user using" in event["message"]
    disks.delete(pod)
    disks.finish()


def test_a_source_that_is_bound_but_not_filled_is_waited_for(disks: Any) -> None:
    own = {"cdi.kubevirt.io/storage.usePopulator": "false"}
    disks.http("later", "6Gi", namespace=PUBLIC, notes=own)
    disks.run(10)
    disks.clone(source="later")
    disks.finish()
    filled = disks.timed_phases("later", PUBLIC)[-1]
    (temporary,) = [
        when
        for when, change in disks.seen
        if change.type == "ADDED"
        and change.resource.kind == "PersistentVolumeClaim"
        and change.obj["metadata"]["name"].startswith("tmp-pvc")
    ]
    assert filled[1] == "Succeeded"
    assert temporary >= filled[0]


def test_a_source_that_is_not_there_is_waited_for(disks: Any) -> None:
    disks.clone(source="later", size="8Gi")
    disks.run(60)
    assert disks.phase() == "Pending"
    assert disks.events("CloneWithoutSource")[0]["message"] == "The source pvc later doesn't exist"
    assert disks.condition("Bound")[1] == "CloneWithoutSource"
    assert disks.made("PersistentVolumeClaim") == []
    disks.import_golden("later")
    disks.finish()
    assert disks.phases()[1:] == CSI


def test_a_golden_that_is_still_imported_holds_the_disk_and_nothing_fails(disks: Any) -> None:
    disks.import_golden("later")
    disks.run(10)
    disks.clone(source="later")
    disks.run(30)
    assert disks.phase("later", PUBLIC) == "ImportInProgress"
    assert disks.phase() == "CloneScheduled"
    assert disks.notes()["clonePhase"] == "Error"
    assert disks.notes()["cloneError"] == "source/target size info missing"
    assert disks.condition("Running")[:2] == ("False", "Error")
    disks.finish()
    assert "cloneError" not in disks.notes()
    assert disks.phases() == CSI


def test_a_target_that_is_smaller_in_bytes_is_refused(disks: Any) -> None:
    disks.clone(size="6G")  # 6Gi are more
    disks.run(60)
    assert disks.phase() == "Pending"
    assert disks.events("ErrIncompatiblePVC")
    assert disks.events("CloneValidationFailed")
    assert disks.made("PersistentVolumeClaim") == []


def test_a_class_that_stops_to_grow_claims_in_the_middle_is_an_error_that_lifts(disks: Any) -> None:
    disks.clone()
    disks.until(lambda: disks.phase() == "CSICloneInProgress")
    no_expansion(disks)
    disks.run(60)
    assert disks.phase() == "CSICloneInProgress"
    assert "only dynamically provisioned pvc can be resized" in disks.notes()["cloneError"]
    assert disks.condition("Running")[1] == "Error"
    disks.edit(disks.klass("replicated"), lambda o: o.update(allowVolumeExpansion=True))
    disks.finish()
    assert disks.phases() == CSI


def test_a_disk_that_is_not_grown_stays_as_large_as_its_golden(disks: Any) -> None:
    clones = disks.world.data_volumes.clones
    clones.behaviour = replace(clones.behaviour, grows=False)
    no_expansion(disks)
    disks.clone()
    disks.finish()
    assert disks.notes()["cloneType"] == "csi-clone"
    assert disks.claim()["status"]["capacity"]["storage"] == "6Gi"
    assert disks.claim()["spec"]["resources"]["requests"]["storage"] == "20Gi"


def test_a_late_class_waits_for_its_consumer_under_its_own_phase(disks: Any) -> None:
    disks.edit(
        disks.klass("replicated"), lambda o: o.update(volumeBindingMode="WaitForFirstConsumer")
    )
    disks.clone()
    disks.run(60)
    assert disks.phases() == ["PendingPopulation"]
    assert disks.made("PersistentVolumeClaim", PUBLIC) == []
    node = "volume.kubernetes.io/selected-node"
    disks.edit(disks.claim(), lambda o: o["metadata"]["annotations"].update({node: "hv-2"}))
    disks.finish()
    assert disks.phases() == ["PendingPopulation", *CSI]


# -- quota, and a whole pool


def test_a_quota_without_room_for_the_disk_is_said_and_lifts(disks: Any) -> None:
    quota = disks.quota("10Gi")
    disks.clone()
    disks.run(60)
    assert disks.phase() == "Pending"
    (event,) = disks.events("ErrExceededQuota")
    assert event["involvedObject"]["kind"] == "DataVolume"
    assert "exceeded quota: storage, requested: requests.storage=20Gi" in event["message"]
    assert disks.condition("Bound")[1] == "ErrExceededQuota"
    disks.edit(quota, lambda o: o["spec"]["hard"].update({"requests.storage": "20Gi"}))
    disks.finish()


def test_a_quota_where_the_source_is_stops_the_temporary_claim(disks: Any) -> None:
    disks.quota("8Gi", PUBLIC)
    disks.clone()
    disks.run(60)
    assert disks.phase() == "CloneScheduled"
    assert "exceeded quota" in disks.notes()["cloneError"]
    assert disks.events("ErrExceededQuota")[0]["involvedObject"]["name"] == "disk"


def test_a_full_storage_pool_leaves_the_temporary_claim_pending(disks: Any) -> None:
    disks.world.linstor.refusal = lambda *_: "not enough free space"
    disks.clone()
    disks.run(120)
    assert disks.phase() == "CSICloneInProgress"
    (event,) = disks.events("ProvisioningFailed")
    assert event["message"] == "not enough free space"
    assert event["count"] > 2
    del disks.world.linstor.refusal
    disks.finish()


def pool(disks: Any, **spec: Any) -> None:
    body = {"cluster": "lab", "minReplicas": 1, "maxReplicas": 2, **spec}
    disks.create(
        {
            "apiVersion": APPS,
            "kind": "KubernetesNodes",
            "metadata": {"name": "lab-cloned", "namespace": TENANT},
            "spec": {"storageClass": "replicated", "osImage": {"builtin": {}}, **body},
        }
    )


def test_a_worker_boots_from_its_clone_and_sees_how_large_it_is(disks: Any) -> None:
    pool(disks, diskSize="25Gi")
    disks.until(lambda: disks.world.tenants["lab"].all("v1", "Node"))
    (guest,) = disks.world.guests.all()
    assert guest.image.schematic in golden(disks)
    size = guest.root.tree().read("/sys/block/vda/size")
    assert int(size) * 512 == 25 * 2**30
    assert f"[vda] {25 * 2**21} 512-byte logical blocks" in "".join(
        guest.console().decode().split("\r\n")
    )


@pytest.mark.parametrize("modes", [["ReadWriteMany"], ["ReadWriteOnce"]])
def test_a_machine_moves_where_its_disk_may_be_on_two_hosts(disks: Any, modes: list[str]) -> None:
    profile = disks.get(CDI, "StorageProfile", "", "replicated")
    sets = [{"accessModes": modes, "volumeMode": "Block"}]
    disks.edit(profile, lambda o: o["spec"].update(claimPropertySets=sets))
    disks.run(1)
    pool(disks)
    disks.until(lambda: disks.world.guests.all())
    (instance,) = disks.world.management.all("kubevirt.io/v1", "VirtualMachineInstance")
    (told,) = [c for c in instance["status"]["conditions"] if c["type"] == "LiveMigratable"]
    shared = modes == ["ReadWriteMany"]
    assert told["status"] == str(shared)
    assert told.get("reason", "") == ("" if shared else "DisksNotLiveMigratable")


def test_the_default_class_is_what_an_empty_one_means(disks: Any) -> None:
    newer = {"annotations": {"storageclass.beta.kubernetes.io/is-default-class": "true"}}
    disks.add_class("newer", metadata=newer)
    disks.clone(klass="")
    disks.finish()
    assert disks.claim()["spec"]["storageClassName"] == "newer"
    assert disks.world.management.find(STORAGE, "StorageClass", "", "local") is not None
