"""What an inventory names and the lab does not have is found before anything is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from harness.bringup.connect import ConnectedLab
from harness.bringup.keeper import hold
from harness.bringup.preflight import NoGolden
from harness.inventory.models import StorageClass
from harness.reach.errors import ApiRefused, LabError

NODES = ("apps.cozystack.io/v1alpha1", "KubernetesNodes", "tenant-hil")


def quiet(kind: str, text: str) -> None:
    del kind, text


@pytest.fixture
def asking(lab: ConnectedLab) -> Iterator[Any]:
    """The lab with a pool that names other things."""

    def change(pool: str, **asked: Any) -> ConnectedLab:
        pools = dict(lab.inventory.pools)
        pools[pool] = pools[pool].model_copy(update=asked)
        lab.inventory = lab.inventory.model_copy(update={"pools": pools})
        return lab

    return change


def refusal(lab: ConnectedLab, pool: str) -> LabError:
    with pytest.raises(LabError) as caught, hold(lab, pool, quiet):
        pytest.fail("it was handed over")
    assert lab.management.list(*NODES) == []
    return caught.value


def test_a_class_that_is_not_there(asking: Any) -> None:
    lab = asking("plain", storage_class="fast")
    classes = {**lab.inventory.storage_classes, "fast": StorageClass(drbd=True, replicas=2)}
    lab.inventory = lab.inventory.model_copy(update={"storage_classes": classes})
    told = str(refusal(lab, "plain"))
    assert "find StorageClass fast, which pool plain of the inventory names" in told
    assert "there is local, replicated" in told


def test_an_instance_type_that_is_not_there(asking: Any) -> None:
    told = str(refusal(asking("plain", instance_type="u9.huge"), "plain"))
    assert "VirtualMachineClusterInstancetype u9.huge" in told
    assert "u1.medium" in told


def test_a_golden_image_that_is_not_there(asking: Any) -> None:
    found = refusal(asking("cloned", talos_version="v1.13.5"), "cloned")
    assert isinstance(found, NoGolden)
    assert found.golden.golden.endswith("-v1.13.5")
    assert [one.rpartition("-")[2] for one in found.golden.others] == ["v1.13.6"]
    assert "let the pool download it (osImage: factory)" in found.do


def test_a_pool_that_downloads_needs_no_golden_image(asking: Any) -> None:
    lab = asking("plain", talos_version="v1.13.5", storage_class="replicated")
    with hold(lab, "plain", quiet) as held:
        assert held.request.os_image is None


def test_what_may_not_be_looked_at_refuses_nothing(
    lab: ConnectedLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    get = lab.management.get

    def barred(api_version: str, kind: str, *place: str) -> Any:
        if kind in ("StorageClass", "VirtualMachineClusterInstancetype"):
            raise ApiRefused(403, "Forbidden", "it is forbidden")
        return get(api_version, kind, *place)

    monkeypatch.setattr(type(lab.management), "get", lambda _, *asked: barred(*asked))
    with hold(lab, "plain", lambda kind, text: said.append(f"{kind}: {text}")):
        pass
    told = [one for one in said if one.startswith("preflight: ")]
    assert len(told) == 2
    assert "whether there is a StorageClass replicated could not be looked at" in told[0]
