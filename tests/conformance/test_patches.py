"""Patches: JSON patch, merge patch, strategic merge patch."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.client import Api, config, named, version
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom


def deployment(name: str, *containers: Any, **spec: Any) -> Any:
    """A Deployment that a real API server accepts."""
    made = containers or ({"name": "main", "image": "example.org/i:1"},)
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": list(made)}}
    body = {"selector": {"matchLabels": labels}, "template": template, **spec}
    return named("apps/v1", "Deployment", name, spec=body)


def pod_spec(obj: Any) -> Any:
    return obj["spec"]["template"]["spec"]


def images(obj: Any) -> Any:
    return {c["name"]: c["image"] for c in pod_spec(obj)["containers"]}


# -- merge patch


def test_a_merge_patch_sets_changes_and_removes(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1", "y": "2"}))
    made = api.merge(space.configs("a"), {"data": {"x": None, "y": "3", "z": "4"}})
    assert (made.status, made.json["data"]) == (200, {"y": "3", "z": "4"})


def test_a_merge_patch_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"})).made
    assert version(api.merge(space.configs("a"), {"data": {"x": "1"}}).made) == version(made)
    assert version(api.merge(space.configs("a"), {}).made) == version(made)


def test_a_merge_patch_with_an_old_version_is_409(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    api.merge(space.configs("a"), {"data": {"x": "1"}})
    stale = {"metadata": {"resourceVersion": version(made)}, "data": {"x": "2"}}
    refused = api.merge(space.configs("a"), stale).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "the object has been modified" in refused.message


def test_a_merge_patch_of_what_is_not_there(api: Api, space: Space) -> None:
    assert api.merge(space.configs("nobody"), {}).refused.code == 404


@pytest.mark.parametrize("body", [b"{", b"[]", b'"x"', b""])
def test_a_merge_patch_that_is_no_object_is_400(api: Api, space: Space, body: bytes) -> None:
    api.post(space.configs(), config("a"))
    refused = api.merge(space.configs("a"), body).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")


def test_a_patch_cannot_rename(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.merge(space.configs("a"), {"metadata": {"name": "b"}}).refused
    assert (refused.code, refused.message) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    refused = api.merge(space.configs("a"), {"metadata": {"namespace": "default"}}).refused
    assert (refused.code, refused.message) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_a_patch_to_a_wrong_type_is_422(api: Api, space: Space) -> None:
    for at, made in ((space.configs, config("a")), (space.customs, custom("a"))):
        api.post(at(), made)
        refused = api.merge(at("a"), {"metadata": {"labels": {"a": 1}}}).refused
        assert (refused.code, refused.causes) == (422, [("FieldValueInvalid", "patch")])
        assert refused.message.startswith(' "" is invalid: patch: Invalid value: "{')
        assert "cannot unmarshal number" in refused.message


def test_a_patch_to_an_invalid_label_is_422(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.merge(space.configs("a"), {"metadata": {"labels": {"a": "x y"}}}).refused
    assert (refused.code, set(refused.causes)) == (
        422,
        {("FieldValueInvalid", "metadata.labels")},
    )


def test_what_the_server_keeps_cannot_be_patched(api: Api, space: Space) -> None:
    made = api.post(space.customs(), custom("a")).made["metadata"]
    body = {"metadata": {"generation": 9, "creationTimestamp": "2001-01-01T00:00:00Z"}}
    changed = api.merge(space.customs("a"), body).made["metadata"]
    for field in ("uid", "creationTimestamp", "generation"):
        assert changed[field] == made[field]


# -- JSON patch


def test_a_json_patch_does_all_of_it_or_nothing(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    good = [
        {"op": "test", "path": "/data/x", "value": "1"},
        {"op": "replace", "path": "/data/x", "value": "2"},
        {"op": "copy", "from": "/data/x", "path": "/data/c"},
        {"op": "move", "from": "/data/c", "path": "/data/d"},
    ]
    made = api.json_patch(space.configs("a"), good).made
    assert made["data"] == {"x": "2", "d": "2"}
    bad = [
        {"op": "replace", "path": "/data/x", "value": "9"},
        {"op": "test", "path": "/data/x", "value": "1"},
    ]
    refused = api.json_patch(space.configs("a"), bad).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert api.get(space.configs("a")).made["data"]["x"] == "2"


def test_a_json_patch_whose_test_fails_is_422(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    operation = {"op": "test", "path": "/data/x", "value": "2"}
    refused = api.json_patch(space.configs("a"), [operation]).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == ("the server rejected our request due to an error in our request")


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "remove", "path": "/data/nothing"},
        {"op": "replace", "path": "/nothing/x", "value": "1"},
        {"op": "add", "path": "/nothing/x", "value": "1"},
    ],
)
def test_a_json_patch_that_finds_nothing_to_change_is_422(
    api: Api, space: Space, operation: Any
) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    refused = api.json_patch(space.configs("a"), [operation]).refused
    assert (refused.code, refused.reason) == (422, "Invalid")


@pytest.mark.parametrize("body", [b"{", b"{}", b'["x"]', b'"x"'])
def test_a_json_patch_that_is_no_list_of_operations_is_400(
    api: Api, space: Space, body: bytes
) -> None:
    api.post(space.configs(), config("a"))
    refused = api.json_patch(space.configs("a"), body).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")


def test_a_json_patch_may_replace_what_a_map_lacks(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    operation = {"op": "replace", "path": "/data/nothing", "value": "1"}
    made = api.json_patch(space.configs("a"), [operation]).made
    assert made["data"] == {"x": "1", "nothing": "1"}


def test_an_operation_that_is_unknown(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    refused = api.json_patch(space.configs("a"), [{"op": "frob", "path": "/data/x"}]).refused
    assert refused.code == 422


def test_a_json_patch_guards_itself_by_version(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"})).made
    api.merge(space.configs("a"), {"data": {"x": "2"}})
    guarded = [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version(made)},
        {"op": "replace", "path": "/data/x", "value": "3"},
    ]
    assert api.json_patch(space.configs("a"), guarded).refused.code == 409


def test_a_json_patch_appends_to_a_list(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", spec={"list": [1]}))
    made = api.json_patch(
        space.customs("a"), [{"op": "add", "path": "/spec/list/-", "value": 2}]
    ).made
    assert made["spec"]["list"] == [1, 2]


# -- media types


def test_a_custom_kind_takes_no_strategic_patch(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a"))
    refused = api.strategic(space.customs("a"), {"spec": {"x": 1}}).refused
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")
    assert refused.message == (
        "the body of the request was in an unknown format - accepted media types include: "
        "application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml"
    )


def test_a_patch_of_no_known_type_is_415(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.ask("PATCH", space.configs("a"), {}, media="application/json").refused
    assert (refused.code, refused.reason) == (415, "UnsupportedMediaType")


def test_force_is_for_apply_only(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.merge(space.configs("a"), {}, force="true").refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueForbidden", "force")]


# -- strategic merge patch


def test_a_strategic_patch_merges_containers_by_name(api: Api, space: Space) -> None:
    api.post(
        space.deployments(),
        deployment("a", {"name": "one", "image": "i:1"}, {"name": "two", "image": "i:1"}),
    )
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "two", "image": "i:2"}]}}}}
    made = api.strategic(space.deployments("a"), patch).made
    assert images(made) == {"one": "i:1", "two": "i:2"}
    assert [c["name"] for c in pod_spec(made)["containers"]] == ["one", "two"]


def test_a_new_item_of_a_strategic_patch(api: Api, space: Space) -> None:
    api.post(space.deployments(), deployment("a", {"name": "one", "image": "i:1"}))
    patch = {"spec": {"template": {"spec": {"containers": [{"name": "new", "image": "i:2"}]}}}}
    made = api.strategic(space.deployments("a"), patch).made
    assert [c["name"] for c in pod_spec(made)["containers"]] == ["new", "one"]


def test_patch_delete_takes_an_item_or_a_map_away(api: Api, space: Space) -> None:
    api.post(
        space.deployments(),
        deployment("a", {"name": "one", "image": "i:1"}, {"name": "two", "image": "i:1"}),
    )
    gone = [{"name": "two", "$patch": "delete"}]
    made = api.strategic(
        space.deployments("a"), {"spec": {"template": {"spec": {"containers": gone}}}}
    ).made
    assert images(made) == {"one": "i:1"}
    api.post(space.configs(), config("a", {"x": "1"}))
    made = api.strategic(space.configs("a"), {"data": {"$patch": "delete"}}).made
    assert "data" not in made or made["data"] == {}


def test_patch_replace_replaces_a_list_or_a_map(api: Api, space: Space) -> None:
    api.post(
        space.deployments(),
        deployment("a", {"name": "one", "image": "i:1"}, {"name": "two", "image": "i:1"}),
    )
    only = [{"name": "three", "image": "i:3"}, {"$patch": "replace"}]
    made = api.strategic(
        space.deployments("a"), {"spec": {"template": {"spec": {"containers": only}}}}
    ).made
    assert images(made) == {"three": "i:3"}
    api.post(space.configs(), config("a", {"x": "1", "y": "1"}))
    made = api.strategic(space.configs("a"), {"data": {"z": "1", "$patch": "replace"}}).made
    assert made["data"] == {"z": "1"}


def test_retain_keys_clears_the_rest_of_a_union(api: Api, space: Space) -> None:
    recreate = {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
    api.post(space.deployments(), deployment("a", strategy=rolling))
    made = api.strategic(space.deployments("a"), {"spec": recreate}).made
    assert made["spec"]["strategy"] == {"type": "Recreate"}


def test_set_element_order_orders_a_merged_list(api: Api, space: Space) -> None:
    api.post(
        space.deployments(),
        deployment("a", *({"name": name, "image": "i:1"} for name in ("one", "two", "three"))),
    )
    order = [{"name": name} for name in ("three", "one", "two")]
    patch = {
        "$setElementOrder/containers": order,
        "containers": [{"name": "one", "image": "i:2"}],
    }
    made = api.strategic(space.deployments("a"), {"spec": {"template": {"spec": patch}}}).made
    assert [c["name"] for c in pod_spec(made)["containers"]] == ["three", "one", "two"]
    assert images(made)["one"] == "i:2"


def test_set_element_order_and_items_that_it_does_not_name(api: Api, space: Space) -> None:
    api.post(
        space.deployments(),
        deployment("a", *({"name": name, "image": "i:1"} for name in ("one", "two", "three"))),
    )
    order = [{"name": "new"}, {"name": "one"}]
    patch = {
        "$setElementOrder/containers": order,
        "containers": [{"name": "new", "image": "i:2"}],
    }
    made = api.strategic(space.deployments("a"), {"spec": {"template": {"spec": patch}}}).made
    found = [c["name"] for c in pod_spec(made)["containers"]]
    assert found == ["new", "one", "two", "three"]


def test_set_element_order_puts_an_unnamed_item_before_who_followed_it(
    api: Api, space: Space
) -> None:
    api.post(
        space.deployments(), deployment("a", *({"name": name, "image": "i:1"} for name in "abc"))
    )
    patch = {
        "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}],
        "containers": [{"name": "c", "image": "i:3"}],
    }
    made = api.strategic(space.deployments("a"), {"spec": {"template": {"spec": patch}}}).made
    assert [c["name"] for c in pod_spec(made)["containers"]] == ["b", "c", "a"]


def test_finalizers_are_a_set(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", finalizers=["example.org/one"]))
    two = {"metadata": {"finalizers": ["example.org/two"]}}
    made = api.strategic(space.configs("a"), two).made
    assert sorted(made["metadata"]["finalizers"]) == ["example.org/one", "example.org/two"]
    gone = {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.org/one"]}}
    made = api.strategic(space.configs("a"), gone).made
    assert made["metadata"]["finalizers"] == ["example.org/two"]
    made = api.merge(space.configs("a"), {"metadata": {"finalizers": None}}).made
    assert "finalizers" not in made["metadata"]


def test_ports_and_environment_merge_by_their_keys(api: Api, space: Space) -> None:
    container = {
        "name": "main",
        "image": "i:1",
        "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}],
        "ports": [{"containerPort": 80, "name": "web"}],
        "args": ["one", "two"],
    }
    api.post(space.deployments(), deployment("a", container))
    change = {
        "name": "main",
        "env": [{"name": "B", "value": "2"}],
        "ports": [{"containerPort": 443, "name": "tls"}],
        "args": ["three"],
    }
    patch = {"spec": {"template": {"spec": {"containers": [change]}}}}
    made = pod_spec(api.strategic(space.deployments("a"), patch).made)["containers"][0]
    assert {e["name"]: e["value"] for e in made["env"]} == {"A": "1", "B": "2"}
    assert {p["containerPort"] for p in made["ports"]} == {80, 443}
    assert made["args"] == ["three"]


def test_an_item_without_its_merge_key_is_refused(api: Api, space: Space) -> None:
    api.post(space.deployments(), deployment("a"))
    patch = {"spec": {"template": {"spec": {"containers": [{"image": "i:2"}]}}}}
    refused = api.strategic(space.deployments("a"), patch).refused
    assert refused.code == 500
    assert "does not contain declared merge key: name" in refused.message


def test_an_unknown_directive_is_refused(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    refused = api.strategic(space.configs("a"), {"data": {"$patch": "frob"}}).refused
    assert refused.code == 500


def test_conditions_of_a_status_merge_by_type(api: Api, space: Space) -> None:
    api.post(space.deployments(), deployment("a"))

    def condition(kind: str, status: str) -> Any:
        return {"status": {"conditions": [{"type": kind, "status": status}]}}

    at = space.deployments("a/status")
    api.strategic(at, condition("Available", "False"))
    api.strategic(at, condition("Progressing", "True"))
    made = api.strategic(at, condition("Available", "True")).made
    found = {c["type"]: c["status"] for c in made["status"]["conditions"]}
    assert found == {"Available": "True", "Progressing": "True"}


def test_a_null_removes_a_field_in_a_strategic_patch(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1", "y": "1"}))
    assert api.strategic(space.configs("a"), {"data": {"x": None}}).made["data"] == {"y": "1"}


def test_owner_references_merge_by_uid(api: Api, space: Space) -> None:
    owner = api.post(space.configs(), config("owner")).made

    def reference(uid: str) -> Any:
        return {"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": uid}

    kept = reference(owner["metadata"]["uid"]) | {"kind": "ConfigMap", "name": "owner"}
    api.post(space.configs(), config("a", ownerReferences=[kept]))
    change = [{**kept, "blockOwnerDeletion": True}]
    made = api.strategic(space.configs("a"), {"metadata": {"ownerReferences": change}}).made
    assert made["metadata"]["ownerReferences"] == change
    gone = [{"uid": kept["uid"], "$patch": "delete"}]
    made = api.strategic(space.configs("a"), {"metadata": {"ownerReferences": gone}}).made
    assert "ownerReferences" not in made["metadata"]
