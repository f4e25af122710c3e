"""Verbs over HTTP: read, write, delete, and how each refusal is worded."""

from __future__ import annotations

import socket
from typing import Any

import pytest

CM = "/api/v1/namespaces/default/configmaps"
WIDGETS = "/apis/example.org/v1/namespaces/default/widgets"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"


def widget(name: str = "one", **spec: Any) -> Any:
    return {
        "apiVersion": "example.org/v1",
        "kind": "Widget",
        "metadata": {"name": name},
        "spec": spec,
    }


def config(name: str, **data: Any) -> Any:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def headless(obj: Any) -> Any:
    """An object as an item of a list of a built-in kind."""
    return {k: v for k, v in obj.items() if k not in ("apiVersion", "kind")}


def refusal(answer: Any) -> Any:
    body = answer.json
    assert (body["kind"], body["apiVersion"], body["status"]) == ("Status", "v1", "Failure")
    assert body["code"] == answer.status
    return answer.status, body["reason"], body["message"]


def test_created_object_is_read_back_alone_and_in_its_list(cluster: Any) -> None:
    made = cluster.post(CM, config("a", x="1"))
    assert made.status == 201
    assert cluster.get(f"{CM}/a").json == made.json
    listed = cluster.get(CM).json
    assert (listed["kind"], listed["apiVersion"]) == ("ConfigMapList", "v1")
    assert listed["items"] == [headless(made.json)]
    assert listed["metadata"]["resourceVersion"] == made.json["metadata"]["resourceVersion"]


@pytest.mark.parametrize("path", ["/version/", "//api//v1/", "/api/v1/namespaces/default/"])
def test_doubled_and_trailing_slashes_do_not_count(cluster: Any, path: str) -> None:
    assert cluster.get(path).status == 200


def test_names_are_percent_decoded(cluster: Any) -> None:
    cluster.allow("system:a:b")
    path = "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Aa%3Ab"
    assert cluster.get(path).json["metadata"]["name"] == "system:a:b"


def test_list_across_namespaces_by_labels_and_fields(cluster: Any) -> None:
    for name in ("a", "b"):
        made = config(name)
        made["metadata"]["labels"] = {"which": name}
        cluster.post(CM, made)

    def names(query: str) -> Any:
        return [
            o["metadata"]["name"] for o in cluster.get("/api/v1/configmaps" + query).json["items"]
        ]

    assert names("") == ["a", "b"]
    assert names("?labelSelector=which%3Db") == ["b"]
    assert names("?fieldSelector=metadata.name%3Da") == ["a"]
    assert refusal(cluster.get("/api/v1/configmaps?fieldSelector=data.x%3D1"))[0] == 400


def test_pages_show_one_revision_and_count_what_is_left(cluster: Any) -> None:
    for name in "abc":
        cluster.post(CM, config(name))
    first = cluster.get(f"{CM}?limit=2").json
    assert [o["metadata"]["name"] for o in first["items"]] == ["a", "b"]
    assert first["metadata"]["remainingItemCount"] == 1
    cluster.post(CM, config("d"))
    rest = cluster.get(f"{CM}?limit=2&continue={first['metadata']['continue']}").json
    assert [o["metadata"]["name"] for o in rest["items"]] == ["c"]
    assert rest["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert "continue" not in rest["metadata"]


def test_an_expired_continue_is_410(cluster: Any) -> None:
    for name in "abc":
        cluster.post(CM, config(name))
    token = cluster.get(f"{CM}?limit=1").json["metadata"]["continue"]
    for turn in range(70):
        cluster.config_map("a", turn=str(turn))
    assert refusal(cluster.get(f"{CM}?limit=1&continue={token}"))[:2] == (410, "Expired")


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=999999", 504),
        ("resourceVersion=nonsense", 400),
        ("resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=Maybe&resourceVersion=1", 422),
        ("resourceVersionMatch=Exact&resourceVersion=0", 422),
        ("sendInitialEvents=true", 422),
        ("limit=many", 400),
    ],
)
def test_list_parameters_that_cannot_be_honoured_are_refused(
    cluster: Any, query: str, status: int
) -> None:
    cluster.post(CM, config("a"))
    assert refusal(cluster.get(f"{CM}?{query}"))[0] == status


def test_body_may_be_yaml_whose_dates_stay_text(cluster: Any) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {on-day: 2026-01-01}\n"
    made = cluster.post(CM, text, content_type="application/yaml")
    assert (made.status, made.json["data"]) == (201, {"on-day": "2026-01-01"})


@pytest.mark.parametrize(
    ("body", "media", "status"),
    [
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b'{"a": NaN}', "application/json", 400),
        (b"\xff\xfe", "application/json", 400),
        (b"a: [", "application/yaml", 400),
        (b"a=b", "application/x-www-form-urlencoded", 415),
        (b"k8s\x00\xff\xff", "application/vnd.kubernetes.protobuf", 400),
        (b"", "application/json", 400),
    ],
)
def test_bodies_that_cannot_be_read_are_refused(
    cluster: Any, body: Any, media: str, status: int
) -> None:
    assert refusal(cluster.post(CM, body, content_type=media))[0] == status


def test_a_body_that_is_too_large_is_refused(cluster: Any) -> None:
    body = b'{"data": "' + b"x" * (3 * 1024 * 1024) + b'"}'
    assert refusal(cluster.post(CM, body))[:2] == (413, "RequestEntityTooLarge")


def test_put_replaces_and_needs_the_version_it_was_read_at(cluster: Any) -> None:
    made = cluster.post(CM, config("a", x="1")).json
    made["data"] = {"x": "2"}
    assert cluster.ask("PUT", f"{CM}/a", made).json["data"] == {"x": "2"}
    made["data"] = {"x": "3"}
    assert refusal(cluster.ask("PUT", f"{CM}/a", made))[:2] == (409, "Conflict")


def test_main_resource_and_status_ignore_each_others_half(cluster: Any) -> None:
    cluster.post(WIDGETS, widget(size=1))
    both = {"spec": {"size": 2}, "status": {"phase": "Ready"}}
    main = cluster.ask("PATCH", f"{WIDGETS}/one", both, content_type=MERGE).json
    assert (main["spec"], main.get("status")) == ({"size": 2}, None)
    both["spec"] = {"size": 3}
    status = cluster.ask("PATCH", f"{WIDGETS}/one/status", both, content_type=MERGE).json
    assert (status["spec"], status["status"]) == ({"size": 2}, {"phase": "Ready"})
    assert cluster.get(f"{WIDGETS}/one/status").json == status


def test_scale_is_read_and_written_as_autoscaling(cluster: Any) -> None:
    cluster.post(WIDGETS, widget(replicas=1))
    body = {"spec": {"replicas": 4}}
    scaled = cluster.ask("PATCH", f"{WIDGETS}/one/scale", body, content_type=MERGE).json
    assert (scaled["kind"], scaled["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert cluster.get(f"{WIDGETS}/one/scale").json["spec"]["replicas"] == 4
    assert cluster.get(f"{WIDGETS}/one").json["spec"]["replicas"] == 4


def test_patch_types(cluster: Any) -> None:
    cluster.post(WIDGETS, widget(size=1, colour="red"))

    def patched(body: Any, media: str) -> Any:
        return cluster.ask("PATCH", f"{WIDGETS}/one", body, content_type=media)

    assert patched({"spec": {"colour": None}}, MERGE).json["spec"] == {"size": 1}
    operations = [{"op": "replace", "path": "/spec/size", "value": 5}]
    assert patched(operations, "application/json-patch+json").json["spec"] == {"size": 5}
    assert refusal(patched({"spec": {}}, STRATEGIC))[:2] == (415, "UnsupportedMediaType")
    assert refusal(patched(operations, MERGE))[0] == 400
    assert refusal(patched({"spec": {}}, "application/json"))[0] == 415


def test_strategic_merge_keeps_keyed_lists_of_built_in_kinds(cluster: Any) -> None:
    cluster.pod("web", "main", "side")
    patch = {"spec": {"containers": [{"name": "side", "image": "example.org/i:2"}]}}
    path = "/api/v1/namespaces/default/pods/web"
    pod = cluster.ask("PATCH", path, patch, content_type=STRATEGIC).json
    images = {c["name"]: c["image"] for c in pod["spec"]["containers"]}
    assert images == {"main": "example.org/i:1", "side": "example.org/i:2"}


def test_server_side_apply_creates_from_yaml_then_conflicts_with_another_manager(
    cluster: Any,
) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"
    path = f"{CM}/a?fieldManager="
    assert cluster.ask("PATCH", path + "one", text, content_type=APPLY).status == 201
    assert cluster.ask("PATCH", path + "one", text, content_type=APPLY).status == 200
    other = text.replace(b"'1'", b"'2'")
    code, reason, message = refusal(cluster.ask("PATCH", path + "two", other, content_type=APPLY))
    assert (code, reason) == (409, "Conflict")
    assert '"one"' in message
    # Python's clients write booleans with a capital.
    forced = cluster.ask("PATCH", path + "two&force=True", other, content_type=APPLY)
    assert forced.json["data"] == {"x": "2"}
    unforced = cluster.ask("PATCH", path + "one&force=False", text, content_type=APPLY)
    assert refusal(unforced)[0] == 409


def test_apply_needs_a_manager_and_others_may_not_force(cluster: Any) -> None:
    cluster.config_map("a")
    assert refusal(cluster.ask("PATCH", f"{CM}/a", {}, content_type=APPLY))[0] == 422
    forced = cluster.ask("PATCH", f"{CM}/a?force=true", {}, content_type=MERGE)
    assert refusal(forced)[0] == 422


def test_the_manager_defaults_to_the_user_agents_first_word(cluster: Any) -> None:
    text = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {x: '1'}\n"
    cluster.ask("PATCH", f"{CM}/a?fieldManager=one", text, content_type=APPLY)
    change = {"data": {"y": "1"}}
    cluster.ask("PATCH", f"{CM}/a", change, content_type=MERGE, user_agent="tool/1.2 (linux)")
    managers = cluster.get(f"{CM}/a").json["metadata"]["managedFields"]
    assert {entry["manager"] for entry in managers} == {"one", "tool"}


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", CM, config("dry", x="1")),
        ("PATCH", f"{CM}/a", {"data": {"x": "9"}}),
        ("DELETE", f"{CM}/a", None),
        ("DELETE", CM, {"dryRun": ["All"]}),
    ],
)
def test_a_dry_run_answers_and_changes_nothing(
    cluster: Any, method: str, path: str, body: Any
) -> None:
    before = cluster.config_map("a", x="1")
    media = MERGE if method == "PATCH" else "application/json"
    answer = cluster.ask(method, f"{path}?dryRun=All", body, content_type=media)
    assert answer.status in (200, 201)
    assert cluster.get(CM).json["items"] == [headless(before)]


def test_an_unknown_dry_run_is_refused(cluster: Any) -> None:
    assert refusal(cluster.post(f"{CM}?dryRun=Some", config("a")))[0] == 422


def test_delete_answers_success_or_the_object_that_finalizers_hold(cluster: Any) -> None:
    cluster.config_map("a")
    gone = cluster.ask("DELETE", f"{CM}/a").json
    assert (gone["status"], gone["details"]["name"], gone["details"]["kind"]) == (
        "Success",
        "a",
        "configmaps",
    )
    assert refusal(cluster.get(f"{CM}/a"))[:2] == (404, "NotFound")
    held = config("b")
    held["metadata"]["finalizers"] = ["example.org/hold"]
    cluster.post(CM, held)
    answer = cluster.ask("DELETE", f"{CM}/b").json
    assert answer["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
    cluster.ask("PATCH", f"{CM}/b", {"metadata": {"finalizers": None}}, content_type=MERGE)
    assert cluster.get(f"{CM}/b").status == 404


def test_delete_honours_preconditions_in_its_body(cluster: Any) -> None:
    cluster.config_map("a")
    body = {"preconditions": {"uid": "another"}}
    assert refusal(cluster.ask("DELETE", f"{CM}/a", body))[:2] == (409, "Conflict")
    assert refusal(cluster.ask("DELETE", f"{CM}/a", {"propagationPolicy": "Later"}))[0] == 422
    assert cluster.get(f"{CM}/a").status == 200


def test_delete_collection_takes_what_is_selected(cluster: Any) -> None:
    for name in "ab":
        made = config(name)
        made["metadata"]["labels"] = {"which": name}
        cluster.post(CM, made)
    assert cluster.ask("DELETE", f"{CM}?labelSelector=which%3Da").status == 200
    assert [o["metadata"]["name"] for o in cluster.get(CM).json["items"]] == ["b"]


def test_eviction_deletes_the_pod(cluster: Any) -> None:
    cluster.make(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "c", "image": "i"}]},
        }
    )
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}}
    assert cluster.post("/api/v1/namespaces/default/pods/p/eviction", body).status == 201
    assert cluster.get("/api/v1/namespaces/default/pods/p").status == 404


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("POST", f"{CM}/a", 405),
        ("PUT", CM, 405),
        ("PATCH", CM, 405),
        ("POST", "/api/v1/configmaps", 405),
        ("DELETE", "/api/v1/configmaps", 405),
        ("OPTIONS", CM, 405),
        ("POST", "/version", 405),
        ("GET", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", 405),
        ("GET", "/api/v1/widgets", 404),
        ("GET", "/api/v1/configmaps/a", 404),
        ("GET", f"{CM}/a/status", 404),
        ("GET", f"{CM}/a/b/c", 404),
        ("GET", "/apis/example.org/v2/widgets", 404),
        ("GET", "/metrics", 404),
        ("GET", "/", 404),
        ("GET", "/api/v1/namespaces/default/pods/p/portforward", 404),
    ],
)
def test_what_is_not_served_is_refused(cluster: Any, method: str, path: str, status: int) -> None:
    body = {} if method in ("POST", "PUT", "PATCH") else None
    assert refusal(cluster.ask(method, path, body))[0] == status


def test_only_json_is_given(cluster: Any) -> None:
    cluster.config_map("a")
    protobuf = "application/vnd.kubernetes.protobuf"
    assert refusal(cluster.get(f"{CM}/a", accept=protobuf))[:2] == (406, "NotAcceptable")
    assert cluster.get(f"{CM}/a", accept=f"{protobuf},application/json").status == 200
    assert cluster.get(f"{CM}/a", accept="*/*").status == 200


def test_metadata_only(cluster: Any) -> None:
    made = cluster.config_map("a", x="1")
    accept = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"
    listed = cluster.get(CM, accept=accept).json
    assert listed["kind"] == "PartialObjectMetadataList"
    assert listed["items"][0]["metadata"] == made["metadata"]
    assert "data" not in listed["items"][0]


def test_what_is_not_http_is_answered_with_a_status(cluster: Any) -> None:
    raw = socket.create_connection(("127.0.0.1", cluster.server.port), timeout=10)
    context = cluster.context("admin", ("system:masters",))
    with context.wrap_socket(raw, server_hostname="127.0.0.1") as connection:
        connection.sendall(b"NOT HTTP AT ALL\r\n\r\n")
        data = b""
        while chunk := connection.recv(65536):
            data += chunk
    assert data.startswith(b"HTTP/1.0 400") or data.startswith(b"HTTP/1.1 400")
    assert b'"kind":"Status"' in data


def test_the_log_says_what_was_asked(cluster: Any) -> None:
    cluster.config_map("a")
    cluster.get(f"{CM}/a", user_agent="probe/1")
    cluster.get(f"{CM}?limit=5", user_agent="probe/1")
    cluster.get(f"{CM}/missing", user_agent="probe/1")
    assert cluster.log.count(user_agent="probe", verb="get") == 2
    assert cluster.log.count(user_agent="probe", status=404, path="missing") == 1
    assert cluster.log.entries(verb="list")[0].query == "limit=5"
    assert cluster.log.summary()["clusters"] == {"twin": 3}
