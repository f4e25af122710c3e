from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.access import User
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.store import Options

TENANT = "tenant-hil"


def claim(disks: Any, name: str = "data", size: str = "10Gi", **spec: Any) -> Any:
    body = {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block", "storageClassName": "local"}
    body |= {"resources": {"requests": {"storage": size}}, **spec}
    metadata = {"name": name, "namespace": TENANT}
    return disks.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": body},
        options=Options(user=User("somebody")),
    )


def ask_for(disks: Any, size: str) -> None:
    disks.edit(
        disks.claim("data"),
        lambda o: o["spec"].update(resources={"requests": {"storage": size}}),
    )


def test_a_pod_is_the_consumer_that_a_late_claim_waits_for(disks: Any) -> None:
    claim(disks)
    disks.run(60)
    assert disks.claim("data")["status"] == {"phase": "Pending"}
    pod = disks.use("data", TENANT)
    disks.until(lambda: disks.claim("data")["status"]["phase"] == "Bound", 30)
    node = disks.get("v1", "Pod", TENANT, "user")["spec"]["nodeName"]
    chosen = disks.claim("data")["metadata"]["annotations"]["volume.kubernetes.io/selected-node"]
    assert chosen == node
    disks.run(20)
    assert disks.get("v1", "Pod", TENANT, "user")["status"]["phase"] == "Running"
    assert pod["metadata"]["name"] == "user"


def test_a_pod_does_not_start_before_its_claim_is_bound(disks: Any) -> None:
    disks.world.timings.override("claim.bind", 60.0)
    claim(disks, storageClassName="replicated")
    disks.use("data", TENANT)
    disks.run(40)
    assert disks.get("v1", "Pod", TENANT, "user")["status"]["phase"] == "Pending"
    disks.run(40)
    assert disks.get("v1", "Pod", TENANT, "user")["status"]["phase"] == "Running"


def test_a_pod_is_not_placed_before_its_claim_is_there(disks: Any) -> None:
    disks.use("data", TENANT)
    disks.run(20)
    assert "nodeName" not in disks.get("v1", "Pod", TENANT, "user")["spec"]
    assert 'persistentvolumeclaim "data" not found' in str(disks.events("FailedScheduling"))
    claim(disks)
    disks.run(20)
    assert disks.get("v1", "Pod", TENANT, "user")["status"]["phase"] == "Running"


def test_many_readers_need_volumes_that_are_replicated(disks: Any) -> None:
    claim(disks, accessModes=["ReadWriteMany"])
    disks.use("data", TENANT)
    disks.run(60)
    assert disks.claim("data")["status"] == {"phase": "Pending"}
    assert "ReadWriteMany" in str(disks.events("ProvisioningFailed"))


def test_a_claim_and_its_volume_grow_together(disks: Any) -> None:
    claim(disks, storageClassName="replicated")
    disks.run(10)
    ask_for(disks, "12Gi")
    disks.run(10)
    found = disks.claim("data")
    assert found["status"]["capacity"]["storage"] == "12Gi"
    volume = disks.get("v1", "PersistentVolume", "", found["spec"]["volumeName"])
    assert volume["spec"]["capacity"]["storage"] == "12Gi"
    assert disks.world.storage.resources[volume["metadata"]["name"]].size == 12 * 2**20


def test_a_claim_grows_only_where_its_class_says_so_and_never_shrinks(disks: Any) -> None:
    claim(disks, storageClassName="replicated")
    disks.run(10)
    with pytest.raises(ApiError, match="can not be less than"):
        ask_for(disks, "8Gi")
    disks.edit(disks.klass("replicated"), lambda o: o.update(allowVolumeExpansion=False))
    with pytest.raises(ApiError, match="must support resize") as refused:
        ask_for(disks, "12Gi")
    assert refused.value.code == 403


def test_growth_without_room_is_said_and_tried_again(disks: Any) -> None:
    claim(disks, storageClassName="replicated")
    disks.run(10)
    disks.world.linstor.refusal_to_grow = lambda *_: "does not have enough free space"
    ask_for(disks, "12Gi")
    disks.run(60)
    assert disks.claim("data")["status"]["capacity"]["storage"] == "10Gi"
    assert disks.events("VolumeResizeFailed")[0]["count"] > 1
    del disks.world.linstor.refusal_to_grow
    disks.run(30)
    assert disks.claim("data")["status"]["capacity"]["storage"] == "12Gi"


def test_a_claim_that_goes_takes_its_volume_along(disks: Any) -> None:
    claim(disks, storageClassName="replicated")
    disks.run(10)
    disks.delete(disks.claim("data"))
    disks.run(5)
    assert disks.left() == []
