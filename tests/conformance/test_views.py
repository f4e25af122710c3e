"""Other forms of an answer: tables, metadata alone, discovery."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.client import (
    PARTIAL,
    PARTIALS,
    TABLE,
    Api,
    bare,
    config,
    names,
    version,
)
from tests.conformance.clusters import CUSTOM
from tests.conformance.conftest import Space
from tests.conformance.test_objects import custom

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"


def test_a_table_has_rows_of_cells_and_metadata(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1", "y": "2"})).made
    reply = api.get(space.configs(), accept=TABLE)
    table = reply.made
    assert reply.headers["Content-Type"] == "application/json"
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert table["metadata"]["resourceVersion"]
    columns = table["columnDefinitions"]
    assert [c["name"] for c in columns] == ["Name", "Data", "Age"]
    assert [c["format"] for c in columns] == ["name", "", ""]
    assert {"name", "type", "format", "description", "priority"} == columns[0].keys()
    (row,) = table["rows"]
    assert row["cells"][:2] == ["a", 2]
    shown = row["object"]
    assert (shown["kind"], shown["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert bare(shown)["metadata"] == bare(made)["metadata"]


@pytest.mark.parametrize(
    ("include", "shown"),
    [("None", None), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")],
)
def test_what_a_row_holds_of_its_object(
    api: Api, space: Space, include: str, shown: str | None
) -> None:
    api.post(space.configs(), config("a"))
    row = api.get(space.configs("a"), accept=TABLE, includeObject=include).made["rows"][0]
    assert (row["object"]["kind"] if shown else row.get("object")) == shown


def test_an_include_object_that_is_unknown(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), accept=TABLE, includeObject="Some").refused
    assert (refused.code, refused.reason) == (400, "BadRequest")


def test_a_custom_kind_s_columns(api: Api, space: Space) -> None:
    api.post(space.customs(), custom("a", spec={"clusterName": "c"}))
    api.merge(space.customs("a/status"), {"status": {"replicas": 2, "phase": "Running"}})
    table = api.get(space.customs(), accept=TABLE).made
    assert [c["name"] for c in table["columnDefinitions"]] == [
        "Name",
        "Cluster",
        "Replicas",
        "Ready",
        "Updated",
        "Unavailable",
        "Phase",
        "Age",
    ]
    assert table["rows"][0]["cells"][:-1] == ["a", "c", 2, None, None, None, "Running"]


def test_the_pages_of_a_table(api: Api, space: Space) -> None:
    for name in "abc":
        api.post(space.configs(), config(name))
    first = api.get(space.configs(), accept=TABLE, limit=2).made
    assert first["metadata"]["remainingItemCount"] == 1
    onward = {"continue": first["metadata"]["continue"]}
    rest = api.get(space.configs(), accept=TABLE, limit=2, **onward).made
    assert [row["cells"][0] for row in rest["rows"]] == ["c"]


def test_an_empty_table(api: Api, space: Space) -> None:
    table = api.get(space.configs(), accept=TABLE).made
    assert table["rows"] == []
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Data", "Age"]


def test_the_first_form_that_is_offered_counts(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    both = f"{TABLE},application/json"
    assert api.get(space.configs(), accept=both).made["kind"] == "Table"
    other = "application/json;as=Frob;v=v1;g=meta.k8s.io,application/json"
    assert api.get(space.configs(), accept=other).made["kind"] == "ConfigMapList"
    assert api.get(space.configs(), accept="*/*").made["kind"] == "ConfigMapList"


def test_a_form_that_is_not_offered_is_406(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), accept="text/html").refused
    assert (refused.code, refused.reason) == (406, "NotAcceptable")


def test_metadata_alone(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"}, labels={"l": "1"})).made
    found = api.get(space.configs("a"), accept=PARTIAL).made
    assert (found["kind"], found["apiVersion"]) == ("PartialObjectMetadata", "meta.k8s.io/v1")
    assert bare(found)["metadata"] == bare(made)["metadata"]
    assert found.keys() == {"kind", "apiVersion", "metadata"}


def test_a_list_of_metadata_alone(api: Api, space: Space) -> None:
    for name in "ab":
        api.post(space.configs(), config(name, {"x": "1"}))
    listed = api.get(space.configs(), accept=PARTIALS).made
    assert (listed["kind"], listed["apiVersion"]) == (
        "PartialObjectMetadataList",
        "meta.k8s.io/v1",
    )
    assert names(listed) == ["a", "b"]
    assert all("data" not in item for item in listed["items"])


def test_the_metadata_of_a_patched_object(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    body = {"metadata": {"labels": {"l": "1"}}}
    found = api.merge(space.configs("a"), body, accept=PARTIAL).made
    assert (found["kind"], found["metadata"]["labels"]) == ("PartialObjectMetadata", {"l": "1"})


def test_the_metadata_of_a_deleted_object(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    assert api.delete(space.configs("a"), accept=PARTIAL).made["kind"] == "Status"


# -- discovery


def entry(found: Any, name: str) -> Any:
    return next(e for e in found if e.get("name") == name or e.get("resource") == name)


def test_the_groups(api: Api) -> None:
    core = api.get("/api").made
    assert (core["kind"], core["versions"]) == ("APIVersions", ["v1"])
    groups = api.get("/apis").made
    assert (groups["kind"], groups["apiVersion"]) == ("APIGroupList", "v1")
    apps = entry(groups["groups"], "apps")
    preferred = {"groupVersion": "apps/v1", "version": "v1"}
    assert (apps["versions"], apps["preferredVersion"]) == ([preferred], preferred)
    alone = api.get("/apis/apps").made
    assert (alone["kind"], alone["name"]) == ("APIGroup", "apps")


def test_the_kinds_of_a_group_version(api: Api) -> None:
    found = api.get("/api/v1").made
    assert (found["kind"], found["groupVersion"]) == ("APIResourceList", "v1")
    pods = entry(found["resources"], "pods")
    assert (pods["singularName"], pods["namespaced"], pods["kind"]) == ("pod", True, "Pod")
    assert (pods["shortNames"], pods["categories"]) == (["po"], ["all"])
    assert sorted(pods["verbs"]) == [
        "create",
        "delete",
        "deletecollection",
        "get",
        "list",
        "patch",
        "update",
        "watch",
    ]
    deployments = api.get("/apis/apps/v1").made["resources"]
    assert entry(deployments, "deployments/scale")["kind"] == "Scale"
    reviews = api.get("/apis/authorization.k8s.io/v1").made["resources"]
    assert entry(reviews, "selfsubjectaccessreviews")["verbs"] == ["create"]


def test_all_of_discovery_at_once(api: Api) -> None:
    reply = api.get("/apis", accept=DISCOVERY)
    found = reply.made
    assert (found["kind"], found["apiVersion"]) == (
        "APIGroupDiscoveryList",
        "apidiscovery.k8s.io/v2",
    )
    assert reply.headers["Content-Type"] == DISCOVERY
    group = next(item for item in found["items"] if item["metadata"].get("name") == CUSTOM[0])
    (served,) = group["versions"] if len(group["versions"]) == 1 else group["versions"][:1]
    assert served["freshness"] == "Current"
    kind = entry(served["resources"], CUSTOM[3])
    assert kind["responseKind"] == {"group": CUSTOM[0], "version": CUSTOM[1], "kind": CUSTOM[2]}
    assert (kind["scope"], kind["singularResource"]) == ("Namespaced", CUSTOM[2].lower())
    assert {s["subresource"] for s in kind["subresources"]} == {"status", "scale"}
    core = api.get("/api", accept=DISCOVERY).made
    (legacy,) = core["items"]
    assert [v["version"] for v in legacy["versions"]] == ["v1"]


def test_discovery_falls_back_to_what_the_client_reads(api: Api) -> None:
    accept = f"{DISCOVERY},application/json"
    assert api.get("/api/v1", accept=accept).made["kind"] == "APIResourceList"


@pytest.mark.parametrize("path", ["/apis/nothing.example", "/apis/apps/v9", "/api/v9"])
def test_groups_and_versions_that_are_not_served(api: Api, path: str) -> None:
    assert api.get(path).status == 404


def test_the_index_of_schemas(api: Api) -> None:
    paths = api.get("/openapi/v3").made["paths"]
    where = paths["apis/apps/v1"]["serverRelativeURL"]
    assert where.startswith("/openapi/v3/apis/apps/v1?hash=")
    document = api.get("/openapi/v3/apis/apps/v1").made
    kinds = [
        identity
        for schema in document["components"]["schemas"].values()
        for identity in schema.get("x-kubernetes-group-version-kind", ())
    ]
    assert {"group": "apps", "version": "v1", "kind": "Deployment"} in kinds
    assert version(api.get("/api/v1/namespaces").made)
