from __future__ import annotations

import copy
from typing import Any

import pytest

from harness.facts.applied import AppliedPool, PoolShape, applied_pool, asked_shape

SPEC: dict[str, Any] = {
    "cluster": "lab",
    "minReplicas": 2,
    "maxReplicas": 3,
    "instanceType": "u1.medium",
    "diskSize": "20Gi",
    "storageClass": "replicated",
    "talos": {"version": "v1.13.6", "schematicID": "abc"},
}
URL = "https://factory.talos.dev/image/abc/v1.13.6/openstack-amd64.raw.xz"
ASKED = PoolShape("u1.medium", "20Gi", "replicated", "2", "3", "abc", "v1.13.6", "http")


def release(values: Any = None, **more: Any) -> dict[str, Any]:
    said = {
        "status": "True",
        "reason": "UpgradeSucceeded",
        "message": "ok",
        "observedGeneration": 4,
    }
    return {
        "kind": "HelmRelease",
        "metadata": {"name": "r", "namespace": "t", "generation": 4},
        "spec": {"values": SPEC if values is None else values},
        "status": {
            "observedGeneration": 4,
            "conditions": [{"type": "Ready", **said}, {"type": "Released", **said}],
            "history": [{"version": 7, "status": "deployed"}, {"version": 6, "status": "failed"}],
            **more,
        },
    }


DEPLOYMENT = {
    "metadata": {
        "name": "kubernetes-lab-x",
        "annotations": {
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size": "2",
            "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size": "3",
        },
    }
}


def machine(source: Any = None, **storage: Any) -> dict[str, Any]:
    disk = {
        "source": source or {"http": {"url": URL}},
        "storage": {
            "storageClassName": "replicated",
            "resources": {"requests": {"storage": "20Gi"}},
            **storage,
        },
    }
    vm = {"dataVolumeTemplates": [{"spec": disk}], "instancetype": {"name": "u1.medium"}}
    spec = {"template": {"spec": {"virtualMachineTemplate": {"spec": vm}}}}
    return {"kind": "KubevirtMachineTemplate", "metadata": {"name": "k-1"}, "spec": spec}


BOOTSTRAP = {
    "kind": "TalosConfigTemplate",
    "metadata": {"name": "b-1"},
    "spec": {
        "template": {"spec": {"data": "machine: {install: {image: f.dev/installer/abc:v1.13.6}}"}}
    },
}


def read(spec: Any = None, **more: Any) -> AppliedPool:
    given: dict[str, Any] = {
        "release": release(),
        "deployment": DEPLOYMENT,
        "machine": machine(),
        "bootstrap": BOOTSTRAP,
        **more,
    }
    nodes = {"spec": SPEC if spec is None else spec}
    objects = (given[key] for key in ("release", "deployment", "machine", "bootstrap"))
    return applied_pool(nodes, *objects, pool="x", at=1.0, cluster="management")


def test_object_and_templates_side_by_side() -> None:
    found = read()
    assert found.asked == found.rendered == ASKED
    assert found.installer == "abc:v1.13.6"
    assert found.address == URL
    assert found.unequal == ()
    assert (found.generation, found.observed, found.ready, found.released) == (4, 4, "True", "True")
    assert found.history == ("7 deployed", "6 failed")
    assert (found.machine_template, found.bootstrap_template) == ("k-1", "b-1")
    assert found.settled


def test_a_clone_is_told_by_its_claim() -> None:
    source = {"pvc": {"namespace": "cozy-public", "name": "talos-worker-abc-v1.13.6"}}
    found = read(machine=machine(source))
    assert found.rendered is not None and found.rendered.form == "pvc"
    assert (found.rendered.schematic, found.rendered.version) == ("abc", "v1.13.6")
    assert found.address == "cozy-public/talos-worker-abc-v1.13.6"


@pytest.mark.parametrize("missing", ["deployment", "machine"])
def test_without_a_template_in_use_nothing_is_rendered(missing: str) -> None:
    assert read(**{missing: {}}).rendered is None


def test_a_source_that_names_no_schematic_says_nothing() -> None:
    found = read(machine=machine({"http": {"url": "https://x/y.raw"}}))
    assert found.rendered is not None
    assert (found.rendered.form, found.rendered.schematic, found.address) == ("", "", "")
    assert found.rendered.disk_size == "20Gi"


@pytest.mark.parametrize(
    "data", ["", "machine: {}", "machine: [", "machine: {install: {image: x}}"]
)
def test_a_configuration_without_installer_says_none(data: str) -> None:
    bootstrap = copy.deepcopy(BOOTSTRAP)
    bootstrap["spec"]["template"]["spec"]["data"] = data  # type: ignore[index]
    assert read(bootstrap=bootstrap).installer == ""
    assert read(bootstrap={}).installer == ""


def test_a_condition_of_an_earlier_generation_says_nothing_of_this_one() -> None:
    old = release()
    old["metadata"]["generation"] = 5
    found = read(release=old)
    assert (found.ready, found.released, found.reason) == ("", "", "")
    assert not found.settled


def test_a_release_that_was_not_looked_at_is_not_settled() -> None:
    assert not read(release=release(observedGeneration=3)).settled


def test_a_generation_that_was_tried_was_looked_at() -> None:
    """While it fails, Flux may name only that."""
    assert read(release=release(observedGeneration=3, lastAttemptedGeneration=4)).settled
    assert not read(release=release(observedGeneration=3, lastAttemptedGeneration=3)).settled
    assert read(release=release(observedGeneration=3)).observed == 3


def test_values_that_the_object_does_not_show_are_unequal() -> None:
    talos = {"version": "v1.13.6", "schematicID": "abc"}
    shown = {**SPEC, "talos": {**talos, "imageFactoryURL": "https://f"}, "roles": []}
    assert read(shown).unequal == (), "what the API fills in is no difference"
    other = {**SPEC, "diskSize": "30Gi", "talos": {**talos, "version": "v1.13"}, "gpus": []}
    assert read(release=release(other)).unequal == ("diskSize", "gpus", "talos")
    assert read(release=release({**SPEC, "_cluster": {"x": 1}})).unequal == ()


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        ({}, ("abc", "v1.13.6", "http")),
        ({"osImage": {}}, ("abc", "v1.13.6", "http")),
        ({"osImage": {"builtin": {}}}, ("abc", "v1.13.6", "pvc")),
        ({"osImage": {"builtin": None}}, ("abc", "v1.13.6", "pvc")),
        ({"osImage": {"factory": {}}}, ("abc", "v1.13.6", "http")),
        ({"osImage": {"factory": {"version": "v1.12.0"}}}, ("abc", "v1.12.0", "http")),
        ({"osImage": {"builtin": {"schematicID": "x"}}}, ("x", "v1.13.6", "pvc")),
        ({"osImage": {"builtin": {"version": ""}}}, ("abc", "v1.13.6", "pvc")),
    ],
)
def test_what_osimage_leaves_out_is_talos(image: Any, expected: tuple[str, str, str]) -> None:
    found = asked_shape({**SPEC, **image})
    assert (found.schematic, found.version, found.form) == expected


def test_resources_replace_the_instance_type() -> None:
    assert asked_shape({**SPEC, "resources": {"cpu": 2}}).instance_type == ""
    assert asked_shape({**SPEC, "resources": {}}).instance_type == "u1.medium"


def test_no_bounds_are_no_text() -> None:
    shape = asked_shape({"minReplicas": 0})
    assert (shape.minimum, shape.maximum, shape.disk_size) == ("0", "", "")


@pytest.mark.parametrize("nothing", [None, [], "x", {"spec": None}])
def test_what_is_no_object_is_read_as_nothing(nothing: Any) -> None:
    found = applied_pool(
        nothing, nothing, {}, {}, {}, pool="x", at=1.0, cluster="m"
    )  # fmt: skip
    assert found.rendered is None
    assert not found.settled or found.ready == ""
