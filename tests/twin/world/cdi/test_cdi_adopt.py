"""A claim that was there before its DataVolume."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.world.objects import CDI, Obj

ADOPT = {"cdi.kubevirt.io/allowClaimAdoption": "true"}


def claim(klass: str = "replicated") -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": "tenant-hil"},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": "1Gi"}},
            "storageClassName": klass,
        },
    }


def test_it_is_taken_over_as_it_is_with_no_pod(disks: Any) -> None:
    pods = len(disks.world.cluster.all("v1", "Pod"))
    made = disks.create(claim())
    disks.create(disks.volume("disk", {"blank": {}}, "1Gi", klass="", notes=ADOPT))
    disks.until(lambda: disks.phase() == "Succeeded", 60.0)
    found = disks.claim()
    assert found["metadata"]["uid"] == made["metadata"]["uid"]
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["controller"]) == ("DataVolume", "disk", True)
    assert found["spec"]["storageClassName"] == "replicated"
    assert len(disks.world.cluster.all("v1", "Pod")) == pods
    volume = disks.get(CDI, "DataVolume", "tenant-hil", "disk")
    disks.delete(volume)
    disks.run(30)
    assert disks.world.management.find("v1", "PersistentVolumeClaim", "tenant-hil", "disk") is None


def test_one_that_waits_for_a_consumer_is_taken_over_and_not_done(disks: Any) -> None:
    disks.create(claim("local"))
    disks.create(disks.volume("disk", {"blank": {}}, "1Gi", klass="", notes=ADOPT))
    disks.run(60)
    assert disks.phase() == "Pending"
    assert disks.claim()["metadata"]["ownerReferences"]


@pytest.mark.parametrize("notes", [{}, {"cdi.kubevirt.io/allowClaimAdoption": "false"}])
def test_unasked_it_stays_nobodys(disks: Any, notes: dict[str, str]) -> None:
    disks.create(claim())
    disks.create(disks.volume("disk", {"blank": {}}, "1Gi", klass="", notes=notes))
    disks.run(60)
    assert disks.phase() == "Pending"
    assert not disks.claim()["metadata"].get("ownerReferences")


def test_anothers_stays_anothers(disks: Any) -> None:
    pod = disks.use("other", namespace="tenant-hil", name="holder")
    holder = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "holder",
        "uid": pod["metadata"]["uid"],
        "controller": True,
    }
    made = claim()
    made["metadata"]["ownerReferences"] = [holder]
    disks.create(made)
    disks.create(disks.volume("disk", {"blank": {}}, "1Gi", klass="", notes=ADOPT))
    disks.run(5)
    assert disks.phase() == "Pending"
    assert disks.claim()["metadata"]["ownerReferences"] == [holder]
