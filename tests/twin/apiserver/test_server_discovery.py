"""Discovery, OpenAPI, health, and what kubectl prints."""

from __future__ import annotations

from typing import Any

import pytest

TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
AGGREGATED = (
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,application/json"
)


def by_name(entries: Any, key: Any = "name") -> Any:
    return {entry[key]: entry for entry in entries}


def test_groups_and_kinds_one_by_one(cluster: Any) -> None:
    assert cluster.get("/api").json["versions"] == ["v1"]
    groups = by_name(cluster.get("/apis").json["groups"])
    assert groups["apps"]["preferredVersion"]["groupVersion"] == "apps/v1"
    assert cluster.get("/apis/apps").json["name"] == "apps"
    kinds = by_name(cluster.get("/apis/example.org/v1").json["resources"])
    assert kinds["widgets"]["shortNames"] == ["wd"]
    assert kinds["widgets/status"]["verbs"] == ["get", "patch", "update"]
    assert (kinds["widgets/scale"]["group"], kinds["widgets/scale"]["kind"]) == (
        "autoscaling",
        "Scale",
    )
    assert cluster.get("/apis/none.example.org").status == 404
    assert cluster.get("/apis/example.org/v9").status == 404


def test_pods_have_their_subresources_and_reviews_are_only_created(cluster: Any) -> None:
    core = by_name(cluster.get("/api/v1").json["resources"])
    assert {"pods/exec", "pods/log", "pods/eviction", "pods/status"} <= core.keys()
    assert core["namespaces"]["namespaced"] is False
    reviews = by_name(cluster.get("/apis/authorization.k8s.io/v1").json["resources"])
    assert reviews["selfsubjectaccessreviews"]["verbs"] == ["create"]


def test_aggregated_discovery_tells_the_same(cluster: Any) -> None:
    answer = cluster.get("/apis", accept=AGGREGATED)
    assert "as=APIGroupDiscoveryList" in answer.headers["content-type"]
    groups = {item["metadata"]["name"]: item for item in answer.json["items"]}
    listed = cluster.get("/apis").json["groups"]
    assert sorted(groups) == sorted(group["name"] for group in listed)
    (version,) = groups["example.org"]["versions"]
    (widgets,) = version["resources"]
    assert (widgets["resource"], widgets["scope"], widgets["responseKind"]["kind"]) == (
        "widgets",
        "Namespaced",
        "Widget",
    )
    assert [s["subresource"] for s in widgets["subresources"]] == ["scale", "status"]
    core = cluster.get("/api", accept=AGGREGATED).json["items"]
    assert [version["version"] for version in core[0]["versions"]] == ["v1"]


def test_a_kind_added_later_is_served_and_discovered(cluster: Any) -> None:
    from harness.twin.apiserver.resources import Resource

    assert cluster.get("/apis/late.example.org/v1/lates").status == 404
    late = Resource("late.example.org", "v1", "Late", "lates", namespaced=False)
    cluster.run(lambda: cluster.store.registry.add(late))
    assert cluster.get("/apis/late.example.org/v1/lates").json["kind"] == "LateList"
    assert cluster.get("/apis/late.example.org/v1").status == 200


def test_every_group_version_has_an_openapi_document(cluster: Any) -> None:
    paths = cluster.get("/openapi/v3").json["paths"]
    assert {"api/v1", "apis/apps/v1", "apis/example.org/v1"} <= paths.keys()
    document = cluster.get(paths["apis/example.org/v1"]["serverRelativeURL"]).json
    (schema,) = document["components"]["schemas"].values()
    assert schema["x-kubernetes-group-version-kind"] == [
        {"group": "example.org", "version": "v1", "kind": "Widget"}
    ]
    assert schema["x-kubernetes-preserve-unknown-fields"] is True
    (item,) = document["paths"].values()
    names = {parameter["name"] for parameter in item["patch"]["parameters"]}
    assert names == {"dryRun", "fieldManager", "fieldValidation", "force"}
    assert cluster.get("/openapi/v3/apis/none/v1").status == 404
    assert cluster.get("/openapi/v2").status == 404


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz"])
def test_health(cluster: Any, path: str) -> None:
    assert cluster.get(path).body == b"ok"


def test_version(cluster: Any) -> None:
    assert cluster.get("/version").json["gitVersion"].startswith("v1.")


def cells(cluster: Any, path: str) -> Any:
    table = cluster.get(path, accept=TABLE).json
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    names = [column["name"] for column in table["columnDefinitions"]]
    return [dict(zip(names, row["cells"], strict=True)) for row in table["rows"]]


def test_ages_are_in_the_clusters_time(cluster: Any) -> None:
    cluster.config_map("a", x="1")
    cluster.now += 3 * 3600
    assert cells(cluster, "/api/v1/configmaps") == [{"Name": "a", "Data": 1, "Age": "3h"}]


def test_columns_of_a_custom_kind(cluster: Any) -> None:
    spec = {"apiVersion": "example.org/v1", "kind": "Widget"}
    cluster.make({**spec, "metadata": {"name": "w", "namespace": "default"}})
    (row,) = cells(cluster, "/apis/example.org/v1/widgets")
    assert row == {"Name": "w", "Phase": None, "Age": "0s"}


def test_columns_of_pods(cluster: Any) -> None:
    cluster.pod("web", "a", "b")

    def status(obj: Any) -> None:
        obj["status"] = {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "containerStatuses": [
                {"name": "a", "ready": True, "restartCount": 2, "state": {"running": {}}},
                {
                    "name": "b",
                    "ready": False,
                    "restartCount": 1,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                },
            ],
        }

    cluster.run(
        lambda: cluster.store.edit(
            "v1", "Pod", "default", "web", status, manager="t", subresource="status"
        )
    )
    (row,) = cells(cluster, "/api/v1/pods")
    assert row == {
        "Name": "web",
        "Ready": "1/2",
        "Status": "CrashLoopBackOff",
        "Restarts": "3",
        "Age": "0s",
        "IP": "10.0.0.1",
        "Node": "node-1",
    }


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Object", "ConfigMap"), ("None", None)]
)
def test_rows_carry_what_is_asked_for(cluster: Any, include: str, kind: str | None) -> None:
    cluster.config_map("a")
    path = f"/api/v1/namespaces/default/configmaps/a?includeObject={include}"
    (row,) = cluster.get(path, accept=TABLE).json["rows"]
    assert row.get("object", {}).get("kind") == kind


def test_an_unknown_include_is_refused(cluster: Any) -> None:
    assert cluster.get("/api/v1/configmaps?includeObject=All", accept=TABLE).status == 400
