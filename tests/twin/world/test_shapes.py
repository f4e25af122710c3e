from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.shapes import same_type

MERGE = "application/merge-patch+json"
SPACE = "tenant-hil"
CAPI = "cluster.x-k8s.io/v1beta1"


def patched(lab: Any, api_version: str, kind: str, name: str, body: Any, **more: Any) -> Any:
    resource = lab.management.registry.by_kind(api_version, kind)
    return lab.management.patch(resource, SPACE, name, body, content_type=MERGE, **more)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (
            {"spec": {"replicas": "many"}},
            'spec.replicas: Invalid value: "string": spec.replicas in body must be of type '
            'number: "string"',
        ),
        ({"spec": []}, 'spec: Invalid value: "array": spec in body must be of type object'),
        (
            {"spec": {"template": {"spec": {"bootstrap": {"configRef": {"name": None}}}}}},
            "spec.template.spec.bootstrap.configRef.name: Required value",
        ),
        ({"spec": {"template": {"spec": None}}}, "infrastructureRef.kind: Required value"),
    ],
)
def test_a_write_that_no_schema_lets_through_is_refused(lab: Any, body: Any, said: str) -> None:
    lab.gpu_pool()
    lab.run(300)
    name = "kubernetes-lab-gpu"
    before = lab.management.find(CAPI, "MachineDeployment", SPACE, name)
    with pytest.raises(ApiError) as refused:
        patched(lab, CAPI, "MachineDeployment", name, body)
    assert refused.value.code == 422
    assert said in refused.value.message
    assert refused.value.message.startswith(f'MachineDeployment.cluster.x-k8s.io "{name}" is inv')
    assert lab.management.find(CAPI, "MachineDeployment", SPACE, name) is before
    lab.run(60)


def test_the_status_too(lab: Any) -> None:
    lab.gpu_pool()
    lab.run(300)
    body = {"status": {"conditions": {"not": "a list"}}}
    name = "kubernetes-lab-gpu"
    with pytest.raises(ApiError, match=r"status\.conditions in body must be of type array"):
        patched(lab, CAPI, "MachineDeployment", name, body, subresource="status")


def test_both_ways_to_say_a_quantity(lab: Any) -> None:
    lab.gpu_pool()
    lab.run(300)
    body = {"spec": {"strategy": {"rollingUpdate": {"maxUnavailable": "1"}}}}
    patched(lab, CAPI, "MachineDeployment", "kubernetes-lab-gpu", body)
    lab.run(60)


@pytest.mark.parametrize(
    ("value", "model"), [(1, 2.5), ("4Gi", 4), (2, "500m"), ("50%", 1), ({}, {"a": 1})]
)
def test_one_type(value: Any, model: Any) -> None:
    assert same_type(value, model)


@pytest.mark.parametrize(
    ("value", "model"), [("x", 1), (1, "x"), (True, 1), (None, 1), ([], {}), ("", 4)]
)
def test_two_types(value: Any, model: Any) -> None:
    assert not same_type(value, model)


def test_a_hand_written_reference_to_a_kind_nobody_serves(lab: Any) -> None:
    lab.gpu_pool()
    lab.run(5)
    reference = {"apiVersion": "example.org/v1", "kind": "Widget", "name": "w"}
    body = {"spec": {"template": {"spec": {"bootstrap": {"configRef": reference}}}}}
    patched(lab, CAPI, "MachineDeployment", "kubernetes-lab-gpu", body)
    lab.run(300)
    sets = lab.management.all(CAPI, "MachineSet", SPACE)
    reasons = {c.get("reason") for one in sets for c in one["status"]["conditions"]}
    assert "BootstrapTemplateCloningFailed" in reasons


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"minReplicas": "few"}, "- at '/minReplicas': got string, want number"),
        ({"talos": {"version": []}}, "- at '/talos/version': got array, want string"),
        ({"diskSize": None}, "- at '': missing property 'diskSize'"),
        ({"gpus": [{}]}, "- at '/gpus/0': missing property 'name'"),
    ],
)
def test_values_of_the_wrong_type_render_nothing(lab: Any, values: Any, said: str) -> None:
    lab.pool("odd", **values)
    lab.run(60)
    release = lab.management.find(
        "helm.toolkit.fluxcd.io/v2", "HelmRelease", SPACE, "kubernetes-nodes-lab-odd"
    )
    ready = next(c for c in release["status"]["conditions"] if c["type"] == "Ready")
    assert ready["status"] == "False"
    assert "values don't meet the specifications of the schema(s)" in ready["message"]
    assert said in ready["message"]
    assert not lab.management.all(CAPI, "MachineDeployment", SPACE)
