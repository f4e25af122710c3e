"""Objects: made, read, replaced; names, versions, and how each refusal reads."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.conformance.client import Api, config, named, names, version
from tests.conformance.clusters import CUSTOM
from tests.conformance.conftest import Space

NO_NAME = "the name of the object (a based on URL) was undeterminable: name must be provided"


def custom(name: str, *, spec: Any = None, **rest: Any) -> Any:
    return named(f"{CUSTOM[0]}/{CUSTOM[1]}", CUSTOM[2], name, spec=spec or {}, **rest)


def test_a_created_object_carries_what_the_server_gives_it(api: Api, space: Space) -> None:
    reply = api.post(space.configs(), config("a", {"x": "1"}))
    assert reply.status == 201
    made = reply.json
    assert (made["kind"], made["apiVersion"]) == ("ConfigMap", "v1")
    metadata = made["metadata"]
    assert (metadata["name"], metadata["namespace"]) == ("a", space.name)
    assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", metadata["uid"])
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", metadata["creationTimestamp"])
    assert metadata["resourceVersion"].isdigit()
    assert "generation" not in metadata
    assert "selfLink" not in metadata
    assert api.get(space.configs("a")).json == made


def test_a_list_names_its_kind_and_holds_whole_objects(api: Api, space: Space) -> None:
    for name in ("b", "a"):
        api.post(space.configs(), config(name))
    listed = api.get(space.configs()).made
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert names(listed) == ["a", "b"]
    assert int(version(listed)) >= max(int(version(item)) for item in listed["items"])
    assert "remainingItemCount" not in listed["metadata"]


@pytest.mark.parametrize("kind", ["configs", "customs"])
def test_whether_items_of_a_list_name_their_kind(api: Api, space: Space, kind: str) -> None:
    make = config if kind == "configs" else custom
    api.post(getattr(space, kind)(), make("a"))
    item = api.get(getattr(space, kind)()).made["items"][0]
    assert ("kind" in item, "apiVersion" in item) == ((kind == "customs"),) * 2


def test_an_empty_list_has_items(api: Api, space: Space) -> None:
    assert api.get(space.configs()).made["items"] == []


def test_a_missing_object_is_404_by_name(api: Api, space: Space) -> None:
    refused = api.get(space.configs("nobody")).refused
    assert (refused.code, refused.reason) == (404, "NotFound")
    assert refused.message == 'configmaps "nobody" not found'
    assert refused.details == {"name": "nobody", "kind": "configmaps"}
    refused = api.get(space.customs("nobody")).refused
    assert refused.message == f'machinedeployments.{CUSTOM[0]} "nobody" not found'
    assert refused.details == {"name": "nobody", "group": CUSTOM[0], "kind": CUSTOM[3]}


def test_a_name_that_is_taken_is_409_already_exists(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.post(space.configs(), config("a")).refused
    assert (refused.code, refused.reason) == (409, "AlreadyExists")
    assert refused.message == 'configmaps "a" already exists'
    assert refused.details == {"name": "a", "kind": "configmaps"}


def test_a_generated_name_is_the_base_and_five_characters(api: Api, space: Space) -> None:
    asked = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}}
    first, second = (api.post(space.configs(), asked).made for _ in range(2))
    assert re.fullmatch(r"some-[a-z0-9]{5}", first["metadata"]["name"])
    assert first["metadata"]["generateName"] == "some-"
    assert first["metadata"]["name"] != second["metadata"]["name"]


def test_the_base_of_a_generated_name_is_cut_so_that_it_fits(api: Api, space: Space) -> None:
    asked = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "a" * 80}}
    assert len(api.post(space.configs(), asked).made["metadata"]["name"]) == 63


def test_a_name_counts_before_a_base_to_generate_from(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("named", generateName="base-")).made
    assert made["metadata"]["name"] == "named"


def test_an_object_without_a_name_is_refused(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), {"kind": "ConfigMap", "apiVersion": "v1"}).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        'ConfigMap "" is invalid: metadata.name: Required value: name or generateName is required'
    )
    assert refused.details == {
        "kind": "ConfigMap",
        "causes": [
            {
                "reason": "FieldValueRequired",
                "message": "Required value: name or generateName is required",
                "field": "metadata.name",
            }
        ],
    }


SUBDOMAIN = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or "
    "'.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used "
    "for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("Upper", SUBDOMAIN),
        ("-dash", SUBDOMAIN),
        ("under_score", SUBDOMAIN),
        ("a..b", SUBDOMAIN),
        ("a" * 254, "must be no more than 253 characters"),
    ],
)
def test_a_name_that_breaks_the_rules_is_422(api: Api, space: Space, name: str, rule: str) -> None:
    refused = api.post(space.configs(), config(name)).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.details["name"] == name
    assert refused.causes == [("FieldValueInvalid", "metadata.name")]
    assert refused.message == (
        f'ConfigMap "{name}" is invalid: metadata.name: Invalid value: "{name}": {rule}'
    )


def test_names_of_services_and_namespaces_are_labels(api: Api, space: Space) -> None:
    refused = api.post("/api/v1/namespaces", named("v1", "Namespace", "a.b")).refused
    assert refused.code == 422
    assert refused.message.endswith(': Invalid value: "a.b": must not contain dots')
    refused = api.post("/api/v1/namespaces", named("v1", "Namespace", "a_b")).refused
    assert "a lowercase RFC 1123 label must consist of" in refused.message
    service = named("v1", "Service", "1abc", spec={"ports": [{"port": 80}]})
    refused = api.post(space.services(), service).refused
    assert refused.causes == [("FieldValueInvalid", "metadata.name")]
    assert "a DNS-1035 label must consist of" in refused.message


@pytest.mark.parametrize(
    ("meta", "field", "told"),
    [
        ({"labels": {"a b": "x"}}, "metadata.labels", "name part must consist of"),
        ({"labels": {"a": "x y"}}, "metadata.labels", "a valid label must be an empty string or"),
        ({"labels": {"a": "x" * 64}}, "metadata.labels", "must be no more than 63 characters"),
        ({"labels": {"/a": ""}}, "metadata.labels", "prefix part must be non-empty"),
        ({"annotations": {"a b": "x"}}, "metadata.annotations", "name part must consist of"),
    ],
)
def test_metadata_that_breaks_the_rules_is_422(
    api: Api, space: Space, meta: Any, field: str, told: str
) -> None:
    refused = api.post(space.configs(), config("a", **meta)).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueInvalid", field)]
    assert told in refused.message


def test_an_owner_reference_must_say_whom(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a", ownerReferences=[{"name": "x"}])).refused
    assert refused.code == 422
    assert {field for _, field in refused.causes} == {
        "metadata.ownerReferences.apiVersion",
        "metadata.ownerReferences.kind",
        "metadata.ownerReferences.uid",
    }


def test_finalizers_must_be_qualified(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a", finalizers=["a b/c"])).refused
    assert (refused.code, refused.causes) == (422, [("FieldValueInvalid", "metadata.finalizers")])
    refused = api.post(space.configs(), config("a", finalizers=["plain"])).refused
    assert "name is neither a standard finalizer name nor is it fully qualified" in refused.message


def test_labels_of_the_wrong_type_are_400(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a", labels={"a": 1})).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert refused.message.startswith(
        'ConfigMap in version "v1" cannot be handled as a ConfigMap: json: cannot unmarshal number '
        "into Go struct field ObjectMeta.metadata.labels of type string"
    )


def test_a_resource_version_may_not_be_set_on_create(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a", resourceVersion="1")).refused
    assert (refused.code, refused.message) == (
        500,
        "resourceVersion should not be set on objects to be created",
    )


def test_what_only_the_server_sets_is_not_taken_from_the_client(api: Api, space: Space) -> None:
    asked = config("a", uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7)
    made = api.post(space.configs(), asked).made["metadata"]
    assert made["uid"] != "mine"
    assert not made["creationTimestamp"].startswith("2001")


def test_the_body_must_be_of_the_path_s_kind_and_namespace(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), named("v1", "Secret", "a")).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "does not match the expected" in refused.message or "cannot be handled" in (
        refused.message
    )
    refused = api.post(space.configs(), config("a", namespace="default")).refused
    assert (refused.code, refused.message) == (
        400,
        "the namespace of the provided object does not match the namespace sent on the request",
    )


def test_a_namespace_that_is_not_there_takes_nothing(api: Api) -> None:
    refused = api.post("/api/v1/namespaces/nowhere/configmaps", config("a")).refused
    assert (refused.code, refused.reason) == (404, "NotFound")
    assert refused.message == 'namespaces "nowhere" not found'
    assert api.get("/api/v1/namespaces/nowhere/configmaps").made["items"] == []


def test_a_secret_s_plain_text_is_kept_as_data(api: Api, space: Space) -> None:
    at = space.at("v1", "secrets")
    plain = named("v1", "Secret", "a", stringData={"x": "one"}, data={"y": "dHdv"})
    made = api.post(at, plain).made
    assert (made["data"], made["type"]) == ({"x": "b25l", "y": "dHdv"}, "Opaque")
    assert "stringData" not in made
    changed = api.merge(f"{at}/a", {"stringData": {"y": "2"}}).made
    assert changed["data"] == {"x": "b25l", "y": "Mg=="}


@pytest.mark.parametrize("text", ["not base64!", "abc", "abcde"])
def test_a_secret_s_data_is_base64(api: Api, space: Space, text: str) -> None:
    refused = api.post(space.at("v1", "secrets"), named("v1", "Secret", "a", data={"x": text}))
    assert refused.refused.message.startswith(
        'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte '
    )
    assert refused.refused.code == 400


@pytest.mark.parametrize("text", ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00.000Z", "now", ""])
def test_a_lease_s_times_are_to_the_microsecond(api: Api, space: Space, text: str) -> None:
    group_version = "coordination.k8s.io/v1"
    at = space.at(group_version, "leases")
    good = {"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 15}
    made = api.post(at, named(group_version, "Lease", "a", spec=good)).made
    assert made["spec"] == good
    refused = api.merge(f"{at}/a", {"spec": {"renewTime": text}}).refused
    assert refused.code == 422
    assert "parsing time" in refused.message


# -- replace


def test_put_replaces_the_whole_object_but_not_its_identity(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"}, labels={"l": "1"})).made
    put = api.put(space.configs("a"), config("a", {"y": "2"}))
    assert put.status == 200
    assert put.json["data"] == {"y": "2"}
    assert "labels" not in put.json["metadata"]
    for field in ("uid", "creationTimestamp"):
        assert put.json["metadata"][field] == made["metadata"][field]
    assert int(version(put.json)) > int(version(made))


def test_put_with_a_version_that_is_not_current_is_409(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    assert api.put(space.configs("a"), {**made, "data": {"x": "1"}}).status == 200
    refused = api.put(space.configs("a"), {**made, "data": {"x": "2"}}).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert refused.message == (
        'Operation cannot be fulfilled on configmaps "a": the object has been modified; please '
        "apply your changes to the latest version and try again"
    )
    assert refused.details == {"name": "a", "kind": "configmaps"}


def test_put_without_a_version_is_for_built_in_kinds_only(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    assert api.put(space.configs("a"), config("a", {"x": "1"})).status == 200
    api.post(space.customs(), custom("a"))
    refused = api.put(space.customs("a"), custom("a", spec={"x": 1})).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.message == (
        f'machinedeployments.{CUSTOM[0]} "a" is invalid: metadata.resourceVersion: Invalid value: '
        "0x0: must be specified for an update"
    )


def test_put_without_a_name(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.put(space.configs("a"), {"apiVersion": "v1", "kind": "ConfigMap"}).refused
    assert (refused.code, refused.message) == (400, NO_NAME)
    refused = api.merge(space.configs("a"), {"metadata": {"name": None}}).refused
    assert (refused.code, refused.message) == (400, NO_NAME)


def test_put_for_another_name_or_uid_is_refused(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    refused = api.put(space.configs("a"), config("b")).refused
    assert (refused.code, refused.message) == (
        400,
        "the name of the object (b) does not match the name on the URL (a)",
    )
    refused = api.put(space.configs("a"), config("a", uid="other")).refused
    assert (refused.code, refused.reason) == (409, "Conflict")
    assert "Precondition failed: UID in precondition: other, UID in object meta: " in (
        refused.message
    )


def test_put_of_what_is_not_there(api: Api, space: Space) -> None:
    refused = api.put(space.configs("nobody"), config("nobody")).refused
    assert (refused.code, refused.reason) == (404, "NotFound")


def test_a_put_that_changes_nothing_keeps_the_version(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"})).made
    again = api.put(space.configs("a"), config("a", {"x": "1"})).made
    assert version(again) == version(made)
    made = api.post(space.customs(), custom("a", spec={"x": 1})).made
    assert version(api.put(space.customs("a"), made).made) == version(made)


def test_generation_counts_changes_of_the_spec(api: Api, space: Space) -> None:
    made = api.post(space.customs(), custom("a", spec={"x": 1})).made
    assert made["metadata"]["generation"] == 1
    labelled = api.merge(space.customs("a"), {"metadata": {"labels": {"l": "1"}}}).made
    assert labelled["metadata"]["generation"] == 1
    changed = api.merge(space.customs("a"), {"spec": {"x": 2}}).made
    assert changed["metadata"]["generation"] == 2
    told = api.merge(space.customs("a/status"), {"status": {"s": 1}}).made
    assert told["metadata"]["generation"] == 2


def test_a_custom_object_must_say_what_it_is(api: Api, space: Space) -> None:
    refused = api.post(space.customs(), {"metadata": {"name": "a"}}).refused
    assert (refused.code, refused.reason) == (400, "BadRequest")
    assert "Object 'Kind' is missing in" in refused.message
    made = api.post(space.configs(), {"metadata": {"name": "a"}})
    assert made.status == 201


def test_empty_maps_and_nulls_of_metadata_are_not_kept(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", labels={}, annotations=None, finalizers=[])).made
    assert not {"labels", "annotations", "finalizers"} & made["metadata"].keys()


# -- dry run


def test_a_dry_run_answers_and_stores_nothing(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a"), dryRun="All")
    assert made.status == 201
    assert made.json["metadata"]["uid"]
    assert "resourceVersion" not in made.json["metadata"]
    assert api.get(space.configs("a")).status == 404
    kept = api.post(space.configs(), config("a", {"x": "1"})).made
    changed = api.merge(space.configs("a"), {"data": {"x": "2"}}, dryRun="All").made
    assert (changed["data"], version(changed)) == ({"x": "2"}, version(kept))
    assert api.delete(space.configs("a"), dryRun="All").status == 200
    assert api.get(space.configs("a")).json == kept


def test_a_dry_run_of_another_kind_is_refused(api: Api, space: Space) -> None:
    refused = api.post(space.configs(), config("a"), dryRun="Some").refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert refused.causes == [("FieldValueNotSupported", "dryRun")]
    assert refused.message.startswith(
        'CreateOptions.meta.k8s.io "" is invalid: dryRun: Unsupported value: []string{"Some"}'
    )
