"""What the faults of the charts' guards let through, and what they say of what they do not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import conditions
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import APPS, HELM, INFRA, deep

SPACE, RELEASE = "tenant-hil", "kubernetes-nodes-lab-trial"
Make = Callable[[str], Any]


def verdict(lab: Any, spec: dict[str, Any]) -> Any:
    """Ready of a pool's release that was asked for so, without any machine."""
    given = {
        "cluster": "lab",
        "minReplicas": 0,
        "maxReplicas": 0,
        "storageClass": "replicated",
        "talos": {"schematicID": VANILLA, "version": "v1.13.6"},
    }
    pool = {
        "apiVersion": APPS,
        "kind": "KubernetesNodes",
        "metadata": {"name": "lab-trial", "namespace": SPACE},
        "spec": given | spec,
    }
    resource = lab.world.management.registry.by_kind(APPS, "KubernetesNodes")
    lab.world.management.create(resource, pool, namespace=SPACE)

    def judged() -> Any:
        release = lab.world.cluster.find(HELM, "HelmRelease", SPACE, RELEASE)
        return conditions.find(release or {}, "Ready").get("status") in ("True", "False")

    lab.until(judged, 120.0)
    return conditions.find(lab.world.cluster.find(HELM, "HelmRelease", SPACE, RELEASE), "Ready")


def disk(lab: Any) -> Any:
    """The disk in the pool's machine template."""
    templates = lab.world.cluster.all(INFRA, "KubevirtMachineTemplate", SPACE)
    path = ("spec", "template", "spec", "virtualMachineTemplate", "spec", "dataVolumeTemplates")
    return deep(templates[0], *path)[0]["spec"]


BUILTIN: dict[str, Any] = {"osImage": {"builtin": {}}}
BOTH = {"osImage": {"builtin": {}, "factory": {}}}
TRIED: list[tuple[str, dict[str, Any]]] = [
    ("both-image-forms-accepted", BOTH),
    ("schematic-unchecked", {"talos": {"schematicID": "Vanilla_1"}}),
    ("talos-version-unchecked", {"talos": {"version": "v1.13"}}),
    ("factory-url-unchecked", {"talos": {"imageFactoryURL": "ftp://factory"}}),
    ("golden-absent-unrefused", {"osImage": {"builtin": {"schematicID": "nobody"}}}),
    ("class-mismatch-unrefused", {**BUILTIN, "storageClass": "local"}),
    ("disk-smaller-than-golden", {**BUILTIN, "diskSize": "4Gi"}),
    ("empty-form-is-none", BOTH),
]


@pytest.mark.parametrize(("fault", "spec"), TRIED)
def test_what_is_to_be_refused_is_rendered(faulty: Make, fault: str, spec: dict[str, Any]) -> None:
    without = verdict(faulty("metrics-api-down"), spec)
    assert (without["status"], without["reason"]) == ("False", "InstallFailed")
    assert verdict(faulty(fault), spec)["status"] == "True"


@pytest.mark.parametrize(
    ("fault", "spec"),
    [
        ("refusals-of-images-wordless", BOTH),
        ("refusals-of-images-wordless", {"talos": {"version": "v1.13"}}),
        ("refusals-of-goldens-wordless", {**BUILTIN, "diskSize": "4Gi"}),
    ],
)
def test_what_is_refused_is_not_said(faulty: Make, fault: str, spec: dict[str, Any]) -> None:
    found = verdict(faulty(fault), spec)
    assert found["status"] == "False" and found["message"].endswith("): invalid values")


@pytest.mark.parametrize(
    ("fault", "spec", "said"),
    [
        ("talos-matrix-unchecked", {"version": "v1.30"}, "unknown Kubernetes version 'v1.30'"),
        (
            "pool-ahead-of-parent",
            {"version": "v1.36", "talos": {"version": "v1.99.0"}},
            "unknown Kubernetes version 'v1.36'",
        ),
    ],
)
def test_another_guard_speaks(faulty: Make, fault: str, spec: dict[str, Any], said: str) -> None:
    assert said not in verdict(faulty("metrics-api-down"), spec)["message"]
    assert said in verdict(faulty(fault), spec)["message"]


def test_an_empty_builtin_is_downloaded(faulty: Make) -> None:
    lab = faulty("empty-form-is-none")
    assert verdict(lab, BUILTIN)["status"] == "True"
    assert "http" in disk(lab)["source"]


def test_adopting_the_golden_leaves_the_templates_name(faulty: Make) -> None:
    lab = faulty("adoption-not-rolled")
    assert verdict(lab, {})["status"] == "True" and "http" in disk(lab)["source"]
    names = [
        one["metadata"]["name"]
        for one in lab.world.cluster.all(INFRA, "KubevirtMachineTemplate", SPACE)
    ]

    def adopt(pool: Any) -> None:
        pool["spec"]["osImage"] = {"builtin": {}}

    lab.world.management.edit(APPS, "KubernetesNodes", SPACE, "lab-trial", adopt, manager="test")
    lab.until(lambda: "pvc" in disk(lab)["source"], 120.0)
    templates = lab.world.cluster.all(INFRA, "KubevirtMachineTemplate", SPACE)
    assert [one["metadata"]["name"] for one in templates] == names


def test_an_empty_class_is_the_default_and_not_the_goldens(faulty: Make) -> None:
    lab = faulty("default-class-moved")
    found = verdict(lab, {**BUILTIN, "minReplicas": 1, "maxReplicas": 1})
    assert "storageClass local differs from golden image" in found["message"]


def test_without_etcd_a_release_is_ready_with_no_pool(faulty: Make) -> None:
    lab = faulty("awaiting-etcd")
    assert verdict(lab, {"talos": {"version": "v1.13"}})["status"] == "True"
    assert lab.world.cluster.all(INFRA, "KubevirtMachineTemplate", SPACE) == []
    maps = [one["metadata"]["name"] for one in lab.world.cluster.all("v1", "ConfigMap", SPACE)]
    assert f"{RELEASE}-awaiting-etcd" in maps
