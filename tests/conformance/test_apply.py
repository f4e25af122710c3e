"""Server-side apply: who owns which field, who conflicts with whom, what goes by being left out."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.conformance.client import Api, config, named, owned, version
from tests.conformance.clusters import CUSTOM
from tests.conformance.conftest import Space
from tests.conformance.test_objects import NO_NAME, custom
from tests.conformance.test_patches import deployment

# -- creating


def test_apply_creates_what_is_not_there(api: Api, space: Space) -> None:
    reply = api.apply(space.configs("a"), config("a", {"x": "1"}))
    assert reply.status == 201
    (entry,) = reply.json["metadata"]["managedFields"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", entry.pop("time"))
    assert entry == {
        "manager": "alpha",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {"f:x": {}}},
    }
    assert api.apply(space.configs("a"), config("a", {"x": "2"})).status == 200


def test_an_apply_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    again = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    assert version(again) == version(made)


def test_apply_needs_a_manager(api: Api, space: Space) -> None:
    refused = api.apply(space.configs("a"), config("a"), manager="").refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        'PatchOptions.meta.k8s.io "" is invalid: fieldManager: Required value: is required for '
        "apply patch"
    )
    assert refused.causes == [("FieldValueRequired", "fieldManager")]


def test_a_manager_s_name_is_short_and_printable(api: Api, space: Space) -> None:
    refused = api.apply(space.configs("a"), config("a"), manager="x" * 129).refused
    assert refused.code == 422
    assert refused.causes[0][1] == "fieldManager"


def test_apply_of_what_is_not_well_formed(api: Api, space: Space) -> None:
    no_kind = {"apiVersion": "v1", "metadata": {"name": "a"}}
    assert api.apply(space.configs("a"), no_kind).refused.code == 400
    assert api.apply(space.configs("a"), b"[").refused.code == 400
    assert api.apply(space.configs("a"), b"[]").refused.code == 400
    refused = api.apply(space.configs("a"), named("v1", "Secret", "a")).refused
    assert refused.code == 400
    refused = api.apply(space.configs("a"), config("b")).refused
    assert refused.code == 400


def test_apply_may_not_write_managed_fields(api: Api, space: Space) -> None:
    entry = {
        "manager": "x",
        "operation": "Apply",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:data": {}},
    }
    refused = api.apply(space.configs("a"), config("a", managedFields=[entry])).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message == "metadata.managedFields must be nil"


def test_apply_takes_yaml(api: Api, space: Space) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  x: '1'\n"
    assert api.apply(space.configs("a"), text).made["data"] == {"x": "1"}


def test_a_name_may_not_be_left_out(api: Api, space: Space) -> None:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"x": "1"}}
    refused = api.apply(space.configs("a"), body).refused
    assert (refused.code, refused.message) == (400, NO_NAME)


def test_apply_in_a_dry_run(api: Api, space: Space) -> None:
    made = api.apply(space.configs("a"), config("a", {"x": "1"}), dryRun="All")
    assert made.status == 201
    assert api.get(space.configs("a")).status == 404


def test_apply_with_a_version_that_is_old(api: Api, space: Space) -> None:
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    api.apply(space.configs("a"), config("a", {"x": "2"}))
    stale = config("a", {"x": "3"}, resourceVersion=version(made))
    refused = api.apply(space.configs("a"), stale).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "the object has been modified" in refused.message


# -- conflicts


def test_a_field_of_another_manager_is_a_conflict(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}))
    refused = api.apply(space.configs("a"), config("a", {"x": "2"}), "beta").refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == 'Apply failed with 1 conflict: conflict with "alpha": .data.x'
    assert refused.details == {
        "causes": [
            {
                "reason": "FieldManagerConflict",
                "message": 'conflict with "alpha"',
                "field": ".data.x",
            }
        ]
    }
    assert api.get(space.configs("a")).made["data"] == {"x": "1"}


def test_several_conflicts_are_listed_by_manager(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}))
    api.apply(space.configs("a"), config("a", {"z": "1"}), "beta")
    body = config("a", {"x": "2", "y": "2", "z": "2"})
    refused = api.apply(space.configs("a"), body, "gamma").refused
    head, *lines = refused.message.split("\n")
    told = {'conflicts with "alpha":', 'conflicts with "beta":', "- .data.x", "- .data.y"}
    assert head.startswith("Apply failed with 3 conflicts: conflicts with ")
    assert {head.removeprefix("Apply failed with 3 conflicts: "), *lines} == told | {"- .data.z"}
    # a real server lists managers in no order
    assert sorted(field for _, field in refused.causes) == [".data.x", ".data.y", ".data.z"]


def test_force_takes_a_field_over(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}))
    made = api.apply(space.configs("a"), config("a", {"x": "2"}), "beta", force="true").made
    assert made["data"] == {"x": "2", "y": "1"}
    assert owned(made, "alpha") == {"f:data": {"f:y": {}}}
    assert owned(made, "beta") == {"f:data": {"f:x": {}}}


def test_the_same_value_is_shared(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}))
    made = api.apply(space.configs("a"), config("a", {"x": "1"}), "beta").made
    assert owned(made, "alpha") == owned(made, "beta") == {"f:data": {"f:x": {}}}
    refused = api.apply(space.configs("a"), config("a", {"x": "2"})).refused
    assert refused.message == 'Apply failed with 1 conflict: conflict with "beta": .data.x'


def test_a_conflict_with_a_plain_writer_names_its_version_and_time(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}), fieldManager="creator")
    refused = api.apply(space.configs("a"), config("a", {"x": "2"})).refused
    assert re.fullmatch(
        r'Apply failed with 1 conflict: conflict with "creator" using v1: \.data\.x',
        refused.message,
    )


def test_a_plain_writer_never_conflicts_and_takes_over(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}))
    made = api.merge(space.configs("a"), {"data": {"x": "2"}}, fieldManager="plain").made
    assert owned(made, "alpha") == {"f:data": {"f:y": {}}}
    assert owned(made, "plain", operation="Update") == {"f:data": {"f:x": {}}}
    refused = api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"})).refused
    assert 'conflict with "plain" using v1' in refused.message


def test_the_manager_of_a_plain_write_is_named_by_its_agent(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}))
    made = api.merge(space.configs("a"), {"data": {"y": "1"}}).made
    assert owned(made, "conformance", operation="Update") == {"f:data": {"f:y": {}}}


# -- leaving out


def test_what_a_sole_owner_leaves_out_goes(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}))
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    assert made["data"] == {"x": "1"}


def test_what_a_co_owner_leaves_out_stays(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}))
    api.apply(space.configs("a"), config("a", {"y": "1"}), "beta")
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    assert made["data"] == {"x": "1", "y": "1"}
    assert owned(made, "beta") == {"f:data": {"f:y": {}}}
    assert owned(made, "alpha") == {"f:data": {"f:x": {}}}


def test_what_a_plain_writer_changed_stays(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}))
    api.merge(space.configs("a"), {"data": {"y": "2"}}, fieldManager="plain")
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    assert made["data"] == {"x": "1", "y": "2"}


def test_a_manager_that_applies_nothing_is_no_manager(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}))
    api.apply(space.configs("a"), config("a", {"y": "1"}), "beta")
    made = api.apply(space.configs("a"), config("a"), "beta").made
    assert made["data"] == {"x": "1"}
    assert owned(made, "beta") is None


def test_the_last_field_of_a_map_leaves_no_map(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}, labels={"l": "1"}))
    made = api.apply(space.configs("a"), config("a")).made
    assert "data" not in made
    assert "labels" not in made["metadata"]


def test_labels_and_annotations_are_owned_each(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", labels={"l": "1"}, annotations={"n": "1"}))
    made = api.apply(space.configs("a"), config("a", labels={"m": "1"}), "beta").made
    assert made["metadata"]["labels"] == {"l": "1", "m": "1"}
    assert owned(made, "alpha") == {
        "f:metadata": {"f:annotations": {"f:n": {}}, "f:labels": {"f:l": {}}}
    }
    assert owned(made, "beta") == {"f:metadata": {"f:labels": {"f:m": {}}}}


# -- status


def test_the_status_is_owned_apart(api: Api, space: Space) -> None:
    api.apply(space.customs("a"), custom("a", spec={"x": 1}))
    status = {
        "apiVersion": f"{CUSTOM[0]}/{CUSTOM[1]}",
        "kind": CUSTOM[2],
        "metadata": {"name": "a"},
        "status": {"phase": "Done"},
    }
    made = api.apply(space.customs("a/status"), status).made
    assert made["status"] == {"phase": "Done"}
    assert owned(made, "alpha") == {"f:spec": {"f:x": {}}}
    assert owned(made, "alpha", "status") == {"f:status": {"f:phase": {}}}
    again = api.apply(space.customs("a"), custom("a", spec={"x": 1})).made
    assert again["status"] == {"phase": "Done"}


def test_a_status_of_another_is_a_conflict(api: Api, space: Space) -> None:
    api.apply(space.customs("a"), custom("a"))
    at = space.customs("a/status")
    api.apply(at, custom("a", status={"phase": "Done"}))
    refused = api.apply(at, custom("a", status={"phase": "Not"}), "beta").refused
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "alpha" with subresource "status": '
        ".status.phase"
    )


def test_a_status_in_an_apply_to_the_object_is_left_aside(api: Api, space: Space) -> None:
    made = api.apply(space.customs("a"), custom("a", spec={"x": 1}, status={"phase": "No"})).made
    assert "status" not in made
    assert owned(made, "alpha") == {"f:spec": {"f:x": {}}}


def test_apply_to_the_status_of_what_is_not_there(api: Api, space: Space) -> None:
    refused = api.apply(space.customs("a/status"), custom("a", status={})).refused
    assert refused.code == 404


def test_conditions_are_owned_by_type(api: Api, space: Space) -> None:
    api.apply(space.deployments("a"), deployment("a"))

    def condition(kind: str) -> Any:
        told = {"type": kind, "status": "True"}
        return named("apps/v1", "Deployment", "a", status={"conditions": [told]})

    api.apply(space.deployments("a/status"), condition("Available"))
    made = api.apply(space.deployments("a/status"), condition("Progressing"), "beta").made
    assert [c["type"] for c in made["status"]["conditions"]] == ["Available", "Progressing"]


# -- from client-side to server-side


def test_a_client_side_applier_s_fields_can_be_taken_over(api: Api, space: Space) -> None:
    api.post(
        space.configs(), config("a", {"x": "1", "y": "1"}), fieldManager="kubectl-client-side-apply"
    )
    made = api.apply(space.configs("a"), config("a", {"x": "1", "y": "1"}), "kubectl").made
    assert owned(made, "kubectl") == {"f:data": {"f:x": {}, "f:y": {}}}
    assert owned(made, "kubectl-client-side-apply", operation="Update")
    # what csaupgrade does: the entries become one, and are written back by a JSON patch
    kept = [e for e in made["metadata"]["managedFields"] if e["operation"] == "Apply"]
    patch = [
        {"op": "replace", "path": "/metadata/managedFields", "value": kept},
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version(made)},
    ]
    upgraded = api.json_patch(space.configs("a"), patch).made
    assert [e["manager"] for e in upgraded["metadata"]["managedFields"]] == ["kubectl"]
    made = api.apply(space.configs("a"), config("a", {"x": "1"}), "kubectl").made
    assert made["data"] == {"x": "1"}


def test_managed_fields_can_be_reset(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}))
    made = api.merge(space.configs("a"), {"metadata": {"managedFields": [{}]}}).made
    assert "managedFields" not in made["metadata"]
    body = config("a", {"x": "2"})
    refused = api.apply(space.configs("a"), body, "beta").refused
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "before-first-apply" using v1: .data.x'
    )
    made = api.apply(space.configs("a"), config("a", {"x": "1"}), "beta").made
    assert owned(made, "beta") == {"f:data": {"f:x": {}}}
    assert owned(made, "before-first-apply", operation="Update")["f:data"]["f:x"] == {}


def test_managed_fields_left_out_of_a_put_stay(api: Api, space: Space) -> None:
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    body = {**made, "metadata": {k: v for k, v in made["metadata"].items() if k != "managedFields"}}
    put = api.put(space.configs("a"), body).made
    assert owned(put, "alpha") == {"f:data": {"f:x": {}}}


def test_a_created_object_s_fields_belong_to_its_creator(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}, labels={"l": "1"}), fieldManager="creator")
    made = api.apply(space.configs("a"), config("a", {"x": "1"})).made
    assert owned(made, "creator", operation="Update") == {
        "f:data": {".": {}, "f:x": {}},
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
    }
    assert [e["manager"] for e in made["metadata"]["managedFields"]] == ["alpha", "creator"]


def test_a_scale_takes_the_replicas_over(api: Api, space: Space) -> None:
    api.apply(space.customs("a"), custom("a", spec={"replicas": 1, "x": 1}))
    api.merge(space.customs("a/scale"), {"spec": {"replicas": 3}}, fieldManager="scaler")
    found = api.get(space.customs("a")).made
    assert owned(found, "alpha") == {"f:spec": {"f:x": {}}}
    assert owned(found, "scaler", "scale", "Update") == {"f:spec": {"f:replicas": {}}}
    refused = api.apply(space.customs("a"), custom("a", spec={"replicas": 1, "x": 1})).refused
    assert refused.message == (
        'Apply failed with 1 conflict: conflict with "scaler" with subresource "scale" using '
        f"{CUSTOM[0]}/{CUSTOM[1]}: .spec.replicas"
    )


def test_a_null_in_an_applied_object(api: Api, space: Space) -> None:
    made = api.apply(space.customs("a"), custom("a", spec={"deep": {"x": None, "y": 1}})).made
    assert made["spec"]["deep"].get("x") is None
    assert made["spec"]["deep"]["y"] == 1


def test_an_apply_by_force_parameter_that_is_no_flag(api: Api, space: Space) -> None:
    api.apply(space.configs("a"), config("a", {"x": "1"}))
    made = api.apply(space.configs("a"), config("a", {"x": "2"}), "beta", force="True")
    assert made.status in (200, 400)


@pytest.mark.parametrize("kind", ["configs", "customs"])
def test_times_of_untouched_entries_stay(api: Api, space: Space, kind: str) -> None:
    body = config("a", {"x": "1"}) if kind == "configs" else custom("a", spec={"x": 1})
    at = getattr(space, kind)
    first = api.apply(at("a"), body).made["metadata"]["managedFields"][0]
    api.merge(at("a"), {"metadata": {"labels": {"l": "1"}}}, fieldManager="plain")
    again = api.apply(at("a"), body).made["metadata"]["managedFields"]
    assert next(e for e in again if e["manager"] == "alpha")["time"] == first["time"]


@pytest.mark.parametrize("kind", ["configs", "customs"])
def test_a_field_that_the_kind_does_not_have_cannot_be_applied(
    api: Api, space: Space, kind: str
) -> None:
    body = config("a", frob=1) if kind == "configs" else custom("a", meta={"frob": 1})
    refused = api.apply(getattr(space, kind)("a"), body).refused
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message.startswith("failed to create typed patch object (/a; ")
    assert refused.message.endswith("): .metadata.frob: field not declared in schema")


def test_a_value_of_another_type_cannot_be_applied(api: Api, space: Space) -> None:
    refused = api.apply(space.configs("a"), config("a", {"x": 1})).refused
    assert refused.code == 500
    assert refused.message.startswith(
        "failed to create typed patch object (/a; /v1, Kind=ConfigMap): "
    )


def test_the_creator_of_a_custom_object_owns_its_maps_too(api: Api, space: Space) -> None:
    body = custom("a", spec={"deep": {"x": 1}}, meta={"labels": {"l": "1"}})
    api.post(space.customs(), body, fieldManager="creator")
    made = api.apply(space.customs("a"), custom("a", spec={"deep": {"x": 1}})).made
    assert owned(made, "creator", operation="Update") == {
        "f:metadata": {"f:labels": {".": {}, "f:l": {}}},
        "f:spec": {".": {}, "f:deep": {".": {}, "f:x": {}}},
    }


def test_the_creator_of_a_built_in_object_does_not_own_what_is_always_there(
    api: Api, space: Space
) -> None:
    container = {"name": "m", "image": "i:1", "env": [{"name": "A", "value": "1"}]}
    api.post(space.deployments(), deployment("a", container), fieldManager="creator")
    made = api.apply(space.deployments("a"), deployment("a", container)).made
    spec = owned(made, "creator", operation="Update")["f:spec"]
    assert "." not in spec
    assert "." not in spec["f:template"]
    assert spec["f:selector"] == {}
    assert "." not in spec["f:template"]["f:spec"]["f:containers"]
    main = spec["f:template"]["f:spec"]["f:containers"]['k:{"name":"m"}']
    assert "." in main
    assert main["f:env"] == {
        ".": {},
        'k:{"name":"A"}': {".": {}, "f:name": {}, "f:value": {}},
    }


def test_who_moves_from_kubectls_client_side_to_its_server_side_has_no_conflict(
    api: Api, space: Space
) -> None:
    before = config("a", {"size": "1", "kind": "a"})
    said = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(before)}
    before["metadata"]["annotations"] = said
    assert api.post(space.configs(), before).status == 201
    moved = config("a", {"size": "2"})
    assert api.apply(space.configs("a"), moved).status == 409
    taken = api.apply(space.configs("a"), moved, "kubectl")
    assert (taken.status, taken.json["data"]["size"]) == (200, "2")


def test_what_kubectl_did_not_apply_itself_it_does_not_take(api: Api, space: Space) -> None:
    before = config("a", {"size": "1"})
    said = {"kubectl.kubernetes.io/last-applied-configuration": json.dumps(before)}
    before["metadata"]["annotations"] = said
    before["data"]["more"] = "1"
    assert api.post(space.configs(), before).status == 201
    refused = api.apply(space.configs("a"), config("a", {"size": "2", "more": "2"}), "kubectl")
    assert [field for _, field in refused.refused.causes] == [".data.more"]
