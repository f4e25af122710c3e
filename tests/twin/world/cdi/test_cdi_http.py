from __future__ import annotations

from typing import Any

import pytest

from harness.twin.world.objects import CDI, STORAGE

TENANT, PUBLIC = "tenant-hil", "cozy-public"
POPULATED = ["Pending", "ImportScheduled", "ImportInProgress", "Succeeded"]
OWN = ["Pending", "PVCBound", "ImportScheduled", "ImportInProgress", "Succeeded"]
NO_POPULATOR = {"cdi.kubevirt.io/storage.usePopulator": "false"}
TIMEOUT = "dial tcp 104.21.0.1:443: i/o timeout"


def late(disks: Any) -> None:
    disks.edit(
        disks.klass("replicated"), lambda o: o.update(volumeBindingMode="WaitForFirstConsumer")
    )


# -- through the populator, as the golden image is


def test_a_golden_is_imported_on_a_claim_beside_its_own(disks: Any) -> None:
    disks.import_golden()
    disks.until(lambda: disks.phase("golden", PUBLIC) == "ImportInProgress")
    uid = disks.claim("golden", PUBLIC)["metadata"]["uid"]
    assert disks.made("Pod", PUBLIC) == [f"importer-prime-{uid}"]
    assert disks.claim(f"prime-{uid}", PUBLIC)["status"]["phase"] == "Bound"
    assert disks.claim(f"prime-{uid}-scratch", PUBLIC)["status"]["phase"] == "Bound"
    assert disks.claim("golden", PUBLIC)["status"]["phase"] == "Pending"
    assert disks.condition("Bound", "golden", PUBLIC)[0] == "False"
    volume = disks.claim(f"prime-{uid}", PUBLIC)["spec"]["volumeName"]
    disks.finish("golden", PUBLIC)
    assert disks.phases("golden", PUBLIC) == POPULATED
    assert disks.claim("golden", PUBLIC)["spec"]["volumeName"] == volume
    assert disks.claim("golden", PUBLIC)["status"]["capacity"]["storage"] == "6Gi"
    assert disks.condition("Running", "golden", PUBLIC) == ("False", "Completed", "Import Complete")
    assert disks.left() == [
        ("DataVolume", f"{PUBLIC}/golden"),
        ("PersistentVolume", f"/{volume}"),
        ("PersistentVolumeClaim", f"{PUBLIC}/golden"),
        ("VolumeImportSource", f"{PUBLIC}/{_source(disks)}"),
    ]


def _source(disks: Any) -> str:
    volume = disks.get(CDI, "DataVolume", PUBLIC, "golden")
    return f"volume-import-source-{volume['metadata']['uid']}"


def test_a_golden_takes_as_long_as_was_measured(disks: Any) -> None:
    begun = disks.engine.now
    disks.import_golden()
    disks.finish("golden", PUBLIC)
    assert 100.0 < disks.timed_phases("golden", PUBLIC)[-1][0] - begun < 116.0


def test_what_was_imported_is_in_the_volume(disks: Any) -> None:
    disks.import_golden()
    disks.finish("golden", PUBLIC)
    content = disks.world.claims.content_of(disks.claim("golden", PUBLIC))
    assert (content.version, content.kind) == ("v1.13.6", "openstack")


def test_no_annotation_means_the_populator_and_none_is_written(disks: Any) -> None:
    disks.http()
    volume = disks.finish()
    assert disks.phases() == POPULATED
    assert "cdi.kubevirt.io/storage.usePopulator" not in volume["metadata"].get("annotations", {})
    assert disks.notes()["storage.usePopulator"] == "true"


def test_a_late_class_is_bound_at_once_where_that_is_asked_for(disks: Any) -> None:
    late(disks)
    disks.import_golden()
    disks.finish("golden", PUBLIC)
    assert disks.phases("golden", PUBLIC) == POPULATED


def test_a_late_class_waits_for_its_consumer_else(disks: Any) -> None:
    late(disks)
    disks.http(notes={"cdi.kubevirt.io/storage.usePopulator": "true"})
    disks.run(120)
    assert disks.phases() == ["PendingPopulation"]
    assert disks.made("Pod") == []
    node = "volume.kubernetes.io/selected-node"
    disks.edit(disks.claim(), lambda o: o["metadata"]["annotations"].update({node: "hv-2"}))
    disks.finish()
    assert disks.phases()[-3:] == POPULATED[1:]


# -- without it


def test_an_import_of_its_own_runs_where_the_disk_is(disks: Any) -> None:
    disks.http(notes=NO_POPULATOR)
    disks.finish()
    assert disks.phases() == OWN
    assert disks.made("Pod") == ["importer-disk"]
    assert "disk-scratch" in disks.made("PersistentVolumeClaim", TENANT)
    assert "dataSourceRef" not in disks.claim()["spec"]
    assert [kind for kind, _ in disks.left()] == [
        "DataVolume",
        "PersistentVolume",
        "PersistentVolumeClaim",
    ]


def test_a_late_class_is_told_by_its_old_phase(disks: Any) -> None:
    late(disks)
    disks.http(notes=NO_POPULATOR)
    disks.run(60)
    assert disks.phases() == ["WaitForFirstConsumer"]


# -- a factory that does not answer


@pytest.mark.parametrize("populator", ["true", "false"])
def test_a_broken_import_counts_restarts_and_never_fails(disks: Any, populator: str) -> None:
    disks.world.factory.unreachable = TIMEOUT
    disks.http(notes={"cdi.kubevirt.io/storage.usePopulator": populator})
    disks.run(600)
    volume = disks.get(CDI, "DataVolume", TENANT, "disk")
    assert disks.phase() == "ImportInProgress"
    assert volume["status"]["restartCount"] >= 3
    status, reason, message = disks.condition("Running")
    assert (status, reason) == ("False", "Error")
    assert TIMEOUT in message
    assert disks.events("ErrImportFailed")[0]["count"] == volume["status"]["restartCount"]
    assert disks.notes()["storage.pod.restarts"] == str(volume["status"]["restartCount"])
    (pod,) = [o for o in disks.world.management.all("v1", "Pod", TENANT) if "importer" in str(o)]
    (container,) = pod["status"]["containerStatuses"]
    assert container["restartCount"] == volume["status"]["restartCount"]
    assert "Failed" not in disks.phases()
    disks.world.factory.unreachable = ""
    disks.finish()
    assert disks.condition("Running") == ("False", "Completed", "Import Complete")


def test_an_image_that_is_not_there_is_told_as_the_factory_tells_it(disks: Any) -> None:
    disks.http(url="https://factory.talos.dev/image/abc/v1.13.6/openstack-amd64.raw.xz")
    disks.run(200)
    assert "404" in disks.condition("Running")[2]


# -- what no claim can be made of


def test_a_class_without_a_profile_leaves_the_golden_pending(disks: Any) -> None:
    for what in ("StorageProfile",):
        disks.delete(disks.get(CDI, what, "", "replicated"))
    disks.delete(disks.klass("replicated"))
    disks.run(5)
    disks.import_golden()
    disks.run(120)
    assert disks.phase("golden", PUBLIC) == "Pending"
    (event,) = disks.events("ErrClaimNotValid")
    assert "cannot get access mode from StorageProfile replicated" in event["message"]
    assert disks.made("PersistentVolumeClaim") == []
    assert disks.condition("Bound", "golden", PUBLIC)[1] == "ErrClaimNotValid"


def test_no_class_at_all_is_waited_for(disks: Any) -> None:
    local = disks.klass("local")
    disks.edit(local, lambda o: o["metadata"].pop("annotations"))
    disks.http(klass="", notes=NO_POPULATOR)
    disks.run(60)
    assert disks.phase() == "Pending"
    assert "no storageClass to choose profile" in disks.events("ErrClaimNotValid")[0]["message"]
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    disks.edit(disks.klass("replicated"), lambda o: o["metadata"].update(default))
    disks.finish()
    assert disks.claim()["spec"]["storageClassName"] == "replicated"


def test_a_missing_class_keeps_a_claim_pending_that_says_its_modes(disks: Any) -> None:
    storage = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}
    disks.http(klass="gone", storage=storage, notes=NO_POPULATOR)
    disks.run(60)
    assert disks.phase() == "Pending"
    assert disks.claim()["status"]["phase"] == "Pending"
    assert 'storageclass.storage.k8s.io "gone" not found' in str(disks.events("ProvisioningFailed"))


# -- quota and loss


@pytest.mark.parametrize("populator", ["true", "false"])
def test_scratch_space_counts_against_the_quota(disks: Any, populator: str) -> None:
    size = {"true": "50Gi", "false": "30Gi"}[populator]  # prime or own claim, then scratch
    quota = disks.quota(size)
    disks.http(notes={"cdi.kubevirt.io/storage.usePopulator": populator})
    disks.run(120)
    assert disks.phase() == "ImportScheduled"
    told = [e["involvedObject"]["kind"] for e in disks.events("ErrExceededQuota")]
    assert sorted(told) == ["DataVolume", "PersistentVolumeClaim"]
    assert disks.condition("Running")[1] == "ErrExceededQuota"
    (pod,) = [o for o in disks.world.management.all("v1", "Pod", TENANT) if "importer" in str(o)]
    assert pod["status"]["phase"] == "Pending"
    assert "not found" in pod["status"]["conditions"][0]["message"]
    disks.edit(quota, lambda o: o["spec"]["hard"].update({"requests.storage": "90Gi"}))
    disks.finish()


def test_a_claim_that_loses_its_volume_is_the_one_way_to_failed(disks: Any) -> None:
    disks.http(notes=NO_POPULATOR)
    disks.finish()
    name = disks.claim()["spec"]["volumeName"]
    disks.delete(disks.get("v1", "PersistentVolume", "", name))
    disks.run(10)
    assert disks.claim()["status"]["phase"] == "Lost"
    assert disks.phase() == "Failed"
    assert disks.condition("Bound")[:2] == ("False", "ClaimLost")


@pytest.mark.parametrize("moment", [0.3, 6.0, 60.0, 108.0])
@pytest.mark.parametrize("populator", ["true", "false"])
def test_an_import_can_be_deleted_at_any_moment(disks: Any, moment: float, populator: str) -> None:
    disks.http(notes={"cdi.kubevirt.io/storage.usePopulator": populator})
    disks.run(moment)
    disks.delete(disks.get(CDI, "DataVolume", TENANT, "disk"))
    disks.run(120)
    assert disks.left() == []


def test_the_class_of_an_import_is_not_changed_by_a_new_default(disks: Any) -> None:
    disks.http(klass="", notes=NO_POPULATOR)
    disks.run(2)
    default = {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}
    disks.add_class("newer", metadata=default)
    assert disks.claim()["spec"]["storageClassName"] == "local"
    assert disks.world.management.find(STORAGE, "StorageClass", "", "newer")


def test_a_claim_that_the_image_does_not_fit_in_is_retried_for_ever(disks: Any) -> None:
    disks.http(size="4Gi", notes={"cdi.kubevirt.io/storage.usePopulator": "true"})
    disks.run(400)
    assert disks.phase() == "ImportInProgress"
    assert "DataVolume too small to contain image" in disks.condition("Running")[2]
    assert disks.get(CDI, "DataVolume", TENANT, "disk")["status"]["restartCount"] >= 3
