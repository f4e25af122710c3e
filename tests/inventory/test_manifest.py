from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.inventory import Lab, kubernetes_nodes, load


def nodes(small: dict[str, Any], pool: str = "cards", **marks: Any) -> dict[str, Any]:
    return kubernetes_nodes(Lab.model_validate(small), pool, **marks)


def test_a_gpu_pool_as_an_object(small: dict[str, Any]) -> None:
    small["tenant"] = {"namespace": "tenant-test", "cluster": "blue"}
    small["pools"]["cards"] |= {"count": 2, "replicas": 3, "instanceType": "u1.xlarge"}
    assert nodes(small, labels={"hil/run": "7"}) == {
        "apiVersion": "apps.cozystack.io/v1alpha1",
        "kind": "KubernetesNodes",
        "metadata": {
            "name": "blue-cards",
            "namespace": "tenant-test",
            "labels": {"hil/run": "7"},
        },
        "spec": {
            "cluster": "blue",
            "minReplicas": 3,
            "maxReplicas": 3,
            "instanceType": "u1.xlarge",
            "diskSize": "20Gi",
            "storageClass": "replicated",
            "version": "v1.35",
            "talos": {"version": "v1.13.6", "schematicID": "ab" * 32},
            "gpus": [{"name": "nvidia.com/AD102GL_L40S"}] * 2,
        },
    }


@pytest.mark.parametrize(
    ("written", "key"),
    [
        ({}, {}),
        ({"kernelModules": []}, {"kernelModules": []}),
        (
            {"kernelModules": [{"name": "nvidia", "parameters": ["a=1;b=2"]}, {"name": "zram"}]},
            {"kernelModules": [{"name": "nvidia", "parameters": ["a=1;b=2"]}, {"name": "zram"}]},
        ),
        (
            {"kernelModules": [{"name": "zram", "parameters": []}]},
            {"kernelModules": [{"name": "zram", "parameters": []}]},
        ),
    ],
)
def test_kernel_modules_are_written_exactly_as_asked(
    small: dict[str, Any], written: dict[str, Any], key: dict[str, Any]
) -> None:
    small["pools"]["cards"] |= written
    spec = nodes(small)["spec"]
    assert {name: value for name, value in spec.items() if name == "kernelModules"} == key


def test_a_plain_pool_asks_for_no_card_and_no_image(small: dict[str, Any]) -> None:
    made = nodes(small, "plain")
    assert not {"gpus", "kernelModules", "osImage"} & set(made["spec"])
    assert set(made["metadata"]) == {"name", "namespace"}


@pytest.mark.parametrize("form", ["builtin", "factory"])
def test_boot_source_and_installer_name_one_image(small: dict[str, Any], form: str) -> None:
    small["pools"]["cards"]["osImage"] = form
    spec = nodes(small)["spec"]
    assert spec["osImage"] == {form: spec["talos"]}


def test_each_object_is_fresh(small: dict[str, Any]) -> None:
    lab = Lab.model_validate(small)
    first = kubernetes_nodes(lab, "cards", annotations={"a": "b"})
    first["spec"]["gpus"][0]["name"] = "other"
    first["metadata"]["annotations"]["a"] = "c"
    again = kubernetes_nodes(lab, "cards", annotations={"a": "b"})
    assert again["spec"]["gpus"][0]["name"] == "nvidia.com/AD102GL_L40S"
    assert again["metadata"]["annotations"] == {"a": "b"}


def test_an_unknown_pool_is_a_key_error(small: dict[str, Any]) -> None:
    with pytest.raises(KeyError):
        nodes(small, "none")


def test_every_shipped_pool_becomes_an_object(shipped: Path) -> None:
    lab = load(shipped)
    for name in lab.pools:
        made = kubernetes_nodes(lab, name)
        assert made["metadata"]["name"] == f"{lab.tenant.cluster}-{name}"
        assert "kernelModules" not in made["spec"]
