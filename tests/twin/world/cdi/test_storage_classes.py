from __future__ import annotations

from typing import Any

import pytest

from harness.twin.world.objects import CDI
from harness.twin.world.storage_classes import NotRendered, claim_spec, default_class

DEFAULT = "storageclass.kubernetes.io/is-default-class"
BETA = "storageclass.beta.kubernetes.io/is-default-class"
VIRT = "storageclass.kubevirt.io/is-default-virt-class"


def mark(disks: Any, name: str, annotation: str, value: str = "true") -> None:
    def change(obj: Any) -> None:
        obj["metadata"].setdefault("annotations", {})[annotation] = value

    disks.edit(disks.klass(name), change)


def profile(disks: Any, name: str) -> Any:
    return disks.get(CDI, "StorageProfile", "", name)


def test_the_newest_of_several_defaults_counts_and_then_the_name(disks: Any) -> None:
    cluster = disks.world.cluster
    assert default_class(cluster) == "local"
    disks.add_class("b", metadata={"annotations": {BETA: "true"}})
    assert default_class(cluster) == "b"
    # both are of the world's first second
    mark(disks, "replicated", DEFAULT)
    mark(disks, "b", BETA, "false")
    assert default_class(cluster) == "local"
    mark(disks, "local", DEFAULT, "false")
    assert default_class(cluster) == "replicated"
    mark(disks, "replicated", DEFAULT, "false")
    assert default_class(cluster) == ""


def test_cdi_has_a_default_of_its_own(disks: Any) -> None:
    mark(disks, "replicated", VIRT)
    assert default_class(disks.world.cluster) == "local"
    assert default_class(disks.world.cluster, virt=True) == "replicated"


def test_a_class_gets_a_profile_and_takes_it_along(disks: Any) -> None:
    disks.add_class("other", provisioner="csi.example.com")
    assert "claimPropertySets" not in profile(disks, "other")["status"]
    disks.add_class("second")
    sets = profile(disks, "second")["status"]["claimPropertySets"]
    assert sets[0] == {"accessModes": ["ReadWriteMany"], "volumeMode": "Block"}
    disks.delete(disks.klass("second"))
    disks.run(1)
    assert disks.world.management.find(CDI, "StorageProfile", "", "second") is None


def test_the_profiles_of_the_lab_are_what_the_controller_would_write(disks: Any) -> None:
    before = {name: profile(disks, name)["status"] for name in ("replicated", "local")}
    for name in before:
        disks.edit(profile(disks, name), lambda o: o["metadata"].update(labels={"a": "b"}))
    disks.run(5)
    assert {name: profile(disks, name)["status"] for name in before} == before


def test_what_the_profiles_spec_says_goes_before(disks: Any) -> None:
    sets = [{"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}]
    disks.edit(profile(disks, "replicated"), lambda o: o["spec"].update(claimPropertySets=sets))
    disks.run(1)
    assert profile(disks, "replicated")["status"]["claimPropertySets"] == sets
    disks.clone()
    disks.finish()
    assert disks.claim()["spec"]["accessModes"] == ["ReadWriteOnce"]


def test_what_is_not_said_comes_from_the_first_set_that_fits(disks: Any) -> None:
    cluster = disks.world.cluster

    def spec(**storage: Any) -> Any:
        found = claim_spec(cluster, {"storageClassName": "replicated", **storage})
        return found["accessModes"], found["volumeMode"]

    assert spec() == (["ReadWriteMany"], "Block")
    assert spec(volumeMode="Filesystem") == (["ReadWriteOnce"], "Filesystem")
    assert spec(accessModes=["ReadWriteOnce"]) == (["ReadWriteOnce"], "Block")
    assert spec(accessModes=["ReadOnlyMany"]) == (["ReadOnlyMany"], "Filesystem")
    with pytest.raises(NotRendered):
        claim_spec(cluster, {"storageClassName": "gone"})
