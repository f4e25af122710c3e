"""Status and scale: each half of an object for itself."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.client import Api, config, version
from tests.conformance.clusters import CUSTOM
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom
from tests.conformance.test_patches import deployment


def test_status_is_not_taken_on_create(api: Api, space: Space) -> None:
    made = api.post(space.customs(), custom("a", status={"phase": "Done"})).made
    assert "status" not in made


def test_a_write_to_the_object_leaves_the_status_alone(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", spec={"x": 1}))
    told = api.merge(space.customs("a/status"), {"status": {"phase": "Done"}}).made
    changed = api.merge(space.customs("a"), {"spec": {"x": 2}, "status": {"phase": "No"}}).made
    assert (changed["spec"], changed["status"]) == ({"x": 2}, {"phase": "Done"})
    put = api.put(space.customs("a"), {**changed, "status": {"phase": "No"}}).made
    assert version(put) == version(changed)
    assert version(put) != version(told)


def test_a_write_to_the_status_leaves_the_rest_alone(api: Api, space: Space) -> None:
    made = api.post(space.customs(), custom("a", spec={"x": 1})).made
    body = {**made, "spec": {"x": 9}, "status": {"phase": "Done"}}
    body["metadata"] = {**made["metadata"], "labels": {"l": "1"}, "annotations": {"a": "1"}}
    put = api.put(space.customs("a/status"), body).made
    assert (put["spec"], put["status"]) == ({"x": 1}, {"phase": "Done"})
    assert "labels" not in put["metadata"]
    assert "annotations" not in put["metadata"]
    assert put["metadata"]["generation"] == 1


def test_metadata_through_the_status_of_a_built_in_kind(api: Api, space: Space) -> None:
    made = api.post(space.deployments(), deployment("a")).made
    body = {"metadata": {"labels": {"l": "1"}}, "spec": {"paused": True}, "status": {"replicas": 1}}
    told = api.merge(space.deployments("a/status"), body).made
    assert told["status"]["replicas"] == 1
    assert told["metadata"].get("labels") == made["metadata"].get("labels")
    assert "paused" not in told["spec"]


def test_a_status_write_may_conflict(api: Api, space: Space) -> None:
    made = api.post(space.customs(), custom("a", spec={"x": 1})).made
    api.merge(space.customs("a"), {"spec": {"x": 2}})
    refused = api.put(space.customs("a/status"), {**made, "status": {}}).refused
    assert (refused.code, refused.reason) == (409, "Conflict")


def test_status_is_read_by_its_own_path(api: Api, space: Space) -> None:
    made = api.post(space.customs(), custom("a", spec={"x": 1})).made
    assert api.get(space.customs("a/status")).made == made


def test_a_status_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a"))
    told = api.merge(space.customs("a/status"), {"status": {"phase": "Done"}}).made
    again = api.merge(space.customs("a/status"), {"status": {"phase": "Done"}}).made
    assert version(again) == version(told)


def test_a_kind_without_a_status_has_no_such_path(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    for method, body in (("GET", None), ("PUT", {}), ("PATCH", {})):
        reply = api.ask(method, space.configs("a/status"), body)
        assert reply.status == 404, method
    refused = api.get(space.configs("a/status")).refused
    assert (refused.reason, refused.message) == (
        "NotFound",
        "the server could not find the requested resource",
    )


def test_an_unknown_subresource_is_404(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a"))
    assert api.get(space.customs("a/frob")).status == 404


def test_a_subresource_cannot_be_created_or_deleted(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a"))
    for method in ("POST", "DELETE"):
        refused = api.ask(method, space.customs("a/status"), {}).refused
        assert (refused.code, refused.reason) == (405, "MethodNotAllowed"), method
    api.post(space.deployments(), deployment("a"))
    for method in ("POST", "DELETE"):
        refused = api.ask(method, space.deployments("a/status"), {}).refused
        assert (refused.code, refused.reason) == (405, "MethodNotAllowed"), method


# -- scale


@pytest.mark.parametrize("kind", ["customs", "deployments"])
def test_scale_shows_and_sets_the_replicas(api: Api, space: Space, kind: str) -> None:
    at = getattr(space, kind)
    if kind == "customs":
        api.post(at(), custom("a", spec={"replicas": 2}))
        api.merge(at("a/status"), {"status": {"replicas": 1, "selector": "app=a"}})
    else:
        api.post(at(), deployment("a", replicas=2))
        api.merge(at("a/status"), {"status": {"replicas": 1}})
    found = api.get(at("a/scale")).made
    assert (found["kind"], found["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert found["spec"] == {"replicas": 2}
    assert found["status"] == {"replicas": 1, "selector": "app=a"}
    whole = api.get(at("a")).made
    assert found["metadata"] == {
        key: whole["metadata"][key]
        for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
    }
    found["spec"]["replicas"] = 5
    put = api.put(at("a/scale"), found).made
    assert (put["kind"], put["spec"]) == ("Scale", {"replicas": 5})
    after = api.get(at("a")).made
    assert after["spec"]["replicas"] == 5
    assert after["metadata"]["generation"] == whole["metadata"]["generation"] + 1
    assert api.put(at("a/scale"), found).refused.code == 409
    patched = api.merge(at("a/scale"), {"spec": {"replicas": 3}}).made
    assert (patched["kind"], patched["spec"]["replicas"]) == ("Scale", 3)


def test_scale_cannot_be_negative(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", spec={"replicas": 2}))
    refused = api.merge(space.customs("a/scale"), {"spec": {"replicas": -1}}).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert "spec.replicas: Invalid value: -1" in refused.message
    api.post(space.deployments(), deployment("a"))
    refused = api.merge(space.deployments("a/scale"), {"spec": {"replicas": -1}}).refused
    assert refused.code == 422


def test_scale_of_what_is_not_there(api: Api, space: Space) -> None:
    refused = api.get(space.customs("nobody/scale")).refused
    assert (refused.code, refused.details["name"]) == (404, "nobody")


def test_scale_without_replicas_in_the_spec_of_a_custom_kind(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", spec={"x": 1}))
    refused = api.get(space.customs("a/scale")).refused
    assert (refused.code, refused.reason) == (500, "InternalError")
    assert refused.message == (
        'Internal error occurred: the spec replicas field ".spec.replicas" does not exist'
    )


def test_a_deployment_that_does_not_say_wants_one(api: Api, space: Space) -> None:
    api.post(space.deployments(), deployment("a"))
    assert api.get(space.deployments("a/scale")).made["spec"] == {"replicas": 1}


def test_scale_takes_a_scale(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", spec={"replicas": 2}))
    scale = {"kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": {"name": "a"}}
    put = api.put(space.customs("a/scale"), {**scale, "spec": {"replicas": 4}}).made
    assert put["spec"] == {"replicas": 4}


def test_a_pod_s_status_is_its_own_half(api: Api, space: Space) -> None:
    spec = {"containers": [{"name": "main", "image": "i"}]}
    body: Any = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}
    made = api.post(space.pods(), {**body, "status": {"phase": "Running"}}).made
    assert made["status"]["phase"] == "Pending"
    told = api.merge(space.pods("a/status"), {"status": {"phase": "Running"}}).made
    assert told["status"]["phase"] == "Running"


def test_the_custom_kind_lists_its_subresources(api: Api) -> None:
    listed = api.get(f"/apis/{CUSTOM[0]}/{CUSTOM[1]}").made["resources"]
    found = {entry["name"]: entry for entry in listed if entry["name"].startswith(CUSTOM[3])}
    assert found.keys() == {CUSTOM[3], f"{CUSTOM[3]}/status", f"{CUSTOM[3]}/scale"}
    assert sorted(found[f"{CUSTOM[3]}/status"]["verbs"]) == ["get", "patch", "update"]
    scale = found[f"{CUSTOM[3]}/scale"]
    assert (scale["kind"], scale["group"], scale["version"]) == ("Scale", "autoscaling", "v1")
