"""Watches over HTTP: where they begin, what selectors make of changes, how they end."""

from __future__ import annotations

from typing import Any

import pytest

CM = "/api/v1/namespaces/default/configmaps"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
INITIAL = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan"


def seen(events: Any) -> Any:
    return [(e["type"], e["object"]["metadata"].get("name", "")) for e in events]


def label(cluster: Any, name: str, **labels: str) -> Any:
    def change(obj: Any) -> None:
        obj["metadata"]["labels"] = labels

    def edit() -> Any:
        return cluster.store.edit("v1", "ConfigMap", "default", name, change, manager="test")

    return cluster.run(edit)


def delete(cluster: Any, name: str) -> None:
    resource = cluster.store.registry.by_kind("v1", "ConfigMap")
    cluster.run(lambda: cluster.store.delete(resource, "default", name))


def test_without_a_version_it_begins_with_what_is_there(cluster: Any) -> None:
    cluster.config_map("a")
    stream = cluster.watch(f"{CM}?watch=true")
    assert seen(stream.take(1)) == [("ADDED", "a")]
    cluster.config_map("a", x="1")
    cluster.config_map("b")
    delete(cluster, "a")
    assert seen(stream.take(3)) == [("MODIFIED", "a"), ("ADDED", "b"), ("DELETED", "a")]


@pytest.mark.parametrize("flag", ["1", "t", "True", "TRUE", ""])
def test_booleans_are_read_as_go_reads_them(cluster: Any, flag: str) -> None:
    cluster.config_map("a")
    assert cluster.watch(f"{CM}?watch={flag}").next()["type"] == "ADDED"


@pytest.mark.parametrize("flag", ["0", "false", "False"])
def test_false_in_any_spelling_is_a_list(cluster: Any, flag: str) -> None:
    assert cluster.get(f"{CM}?watch={flag}").json["kind"] == "ConfigMapList"


def test_it_resumes_after_a_version_without_a_gap_or_a_repeat(cluster: Any) -> None:
    cluster.config_map("a")
    start = cluster.config_map("b")["metadata"]["resourceVersion"]
    cluster.config_map("c")
    stream = cluster.watch(f"{CM}?watch=true&resourceVersion={start}")
    cluster.config_map("d")
    assert seen(stream.take(2)) == [("ADDED", "c"), ("ADDED", "d")]


def test_a_version_out_of_history_is_an_error_event_in_a_good_stream(cluster: Any) -> None:
    start = cluster.config_map("a")["metadata"]["resourceVersion"]
    for turn in range(70):
        cluster.config_map("a", turn=str(turn))
    stream = cluster.watch(f"{CM}?watch=true&resourceVersion={start}")
    assert stream.status == 200
    event = stream.next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    assert event["object"]["reason"] == "Expired"
    assert stream.ends()


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=x", 500),
        ("resourceVersion=999999&sendInitialEvents=true&resourceVersionMatch=NotOlderThan", 504),
        ("sendInitialEvents=true", 422),
        ("sendInitialEvents=true&resourceVersionMatch=Exact", 422),
        ("resourceVersionMatch=NotOlderThan", 422),
        ("fieldSelector=data.x%3D1", 400),
        ("labelSelector=%21%21", 400),
        ("timeoutSeconds=soon", 400),
    ],
)
def test_parameters_that_cannot_be_honoured_are_refused(
    cluster: Any, query: str, status: int
) -> None:
    assert cluster.get(f"{CM}?watch=true&{query}").json["code"] == status


def test_initial_events_end_with_an_annotated_bookmark(cluster: Any) -> None:
    cluster.config_map("a")
    last = cluster.config_map("b")["metadata"]["resourceVersion"]
    stream = cluster.watch(f"{CM}?watch=true&allowWatchBookmarks=true&{INITIAL}")
    events = stream.take(3)
    assert seen(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    assert events[2]["object"] == {
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {
            "resourceVersion": last,
            "annotations": {"k8s.io/initial-events-end": "true"},
        },
    }
    cluster.config_map("c")
    assert seen(stream.take(1)) == [("ADDED", "c")]


def test_initial_events_may_be_declined(cluster: Any) -> None:
    cluster.config_map("a")
    query = "sendInitialEvents=false&resourceVersionMatch=NotOlderThan"
    stream = cluster.watch(f"{CM}?watch=true&{query}")
    cluster.config_map("b")
    assert seen(stream.take(1)) == [("ADDED", "b")]


def test_bookmarks_come_behind_queued_events_and_only_where_allowed(cluster: Any) -> None:
    plain = cluster.watch(f"{CM}?watch=true")
    marked = cluster.watch(f"{CM}?watch=true&allowWatchBookmarks=true")

    def change() -> None:
        for name in "ab":
            obj = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": name, "namespace": "default"},
            }
            cluster.store.apply(obj, manager="test")
        cluster.server.bookmark()

    cluster.run(change)
    events = marked.take(3)
    assert seen(events) == [("ADDED", "a"), ("ADDED", "b"), ("BOOKMARK", "")]
    revision = cluster.run(lambda: cluster.store.revision)
    assert events[2]["object"]["metadata"]["resourceVersion"] == str(revision)
    cluster.config_map("c")
    assert seen(plain.take(3)) == [("ADDED", "a"), ("ADDED", "b"), ("ADDED", "c")]


def test_a_bookmark_reaches_watches_of_kinds_that_did_not_change(cluster: Any) -> None:
    stream = cluster.watch("/api/v1/secrets?watch=true&allowWatchBookmarks=true")
    revision = cluster.config_map("a")["metadata"]["resourceVersion"]
    cluster.run(cluster.server.bookmark)
    assert stream.next()["object"]["metadata"]["resourceVersion"] == revision


def test_deliveries_count_events_and_not_bookmarks(cluster: Any) -> None:
    one = cluster.watch(f"{CM}?watch=true&allowWatchBookmarks=true")
    two = cluster.watch("/api/v1/secrets?watch=true")
    before = cluster.run(lambda: cluster.server.deliveries)
    cluster.config_map("a")
    cluster.run(cluster.server.bookmark)
    assert cluster.run(lambda: cluster.server.deliveries) == before + 1
    assert one.status == two.status == 200


def test_entering_and_leaving_a_label_selection(cluster: Any) -> None:
    cluster.config_map("a")
    stream = cluster.watch(f"{CM}?watch=true&labelSelector=on%3Dyes")
    label(cluster, "a", on="yes")
    label(cluster, "a", on="yes", more="1")
    left = label(cluster, "a", on="no")
    label(cluster, "a", on="never")
    label(cluster, "a", on="yes")
    delete(cluster, "a")
    events = stream.take(5)
    kinds = [e["type"] for e in events]
    assert kinds == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    # What left is shown as it was when it last belonged, at the version at which it left.
    assert events[2]["object"]["metadata"]["labels"] == {"on": "yes", "more": "1"}
    revision = left["metadata"]["resourceVersion"]
    assert events[2]["object"]["metadata"]["resourceVersion"] == revision


def test_entering_and_leaving_a_field_selection(cluster: Any) -> None:
    stream = cluster.watch("/api/v1/pods?watch=true&fieldSelector=status.phase%3DRunning")
    cluster.pod("web")

    def fail(obj: Any) -> None:
        obj["status"] = {"phase": "Failed"}

    def edit() -> Any:
        return cluster.store.edit(
            "v1", "Pod", "default", "web", fail, manager="t", subresource="status"
        )

    cluster.run(edit)
    assert seen(stream.take(2)) == [("ADDED", "web"), ("DELETED", "web")]


def test_a_watch_of_one_namespace_hears_of_no_other(cluster: Any) -> None:
    cluster.make({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "other"}})
    stream = cluster.watch(f"{CM}?watch=true")
    cluster.config_map("away", "other")
    cluster.config_map("here")
    assert seen(stream.take(1)) == [("ADDED", "here")]


def test_a_table_watch_heads_only_its_first_event(cluster: Any) -> None:
    cluster.config_map("a", x="1")
    stream = cluster.watch(f"{CM}?watch=true", accept=TABLE)
    cluster.now += 90
    cluster.config_map("a", x="1", y="2")
    first, second = (event["object"] for event in stream.take(2))
    assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert second["columnDefinitions"] is None
    assert (first["rows"][0]["cells"], second["rows"][0]["cells"]) == (
        ["a", 1, "0s"],
        ["a", 2, "90s"],
    )


def test_a_projection_is_followed_from_any_version(cluster: Any) -> None:
    cards = "/apis/cards.example.org/v1/namespaces/default/cards"
    start = cluster.config_map("other")["metadata"]["resourceVersion"]
    cluster.config_map("card-one", suit="hearts")
    stream = cluster.watch(f"{cards}?watch=true&resourceVersion={start}")
    cluster.config_map("plain")
    body = {"apiVersion": "cards.example.org/v1", "kind": "Card", "metadata": {"name": "two"}}
    assert cluster.post(cards, body).status == 201
    events = stream.take(2)
    assert seen(events) == [("ADDED", "one"), ("ADDED", "two")]
    assert (events[0]["object"]["kind"], events[0]["object"]["spec"]) == (
        "Card",
        {"suit": "hearts"},
    )
    assert [c["metadata"]["name"] for c in cluster.get(cards).json["items"]] == ["one", "two"]


def test_resuming_tells_at_once_how_far_it_has_come(cluster: Any) -> None:
    start = cluster.config_map("a")["metadata"]["resourceVersion"]
    revision = cluster.config_map("b")["metadata"]["resourceVersion"]
    query = f"watch=true&allowWatchBookmarks=true&resourceVersion={start}"
    events = cluster.watch(f"{CM}?{query}").take(2)
    assert seen(events) == [("ADDED", "b"), ("BOOKMARK", "")]
    assert events[1]["object"]["metadata"]["resourceVersion"] == revision


def test_it_ends_in_good_order_after_its_time(cluster: Any) -> None:
    stream = cluster.watch(f"{CM}?watch=true&timeoutSeconds=1")
    assert stream.ends()
    assert cluster.run(lambda: cluster.server.watches) == ()


def test_open_watches_can_be_looked_at_and_ended(cluster: Any) -> None:
    stream = cluster.watch(f"{CM}?watch=true&labelSelector=a%3Db")
    (watch,) = cluster.run(lambda: cluster.server.watches)
    assert (watch.asked.resource.kind, watch.asked.labels, watch.user) == (
        "ConfigMap",
        "a=b",
        "admin",
    )
    cluster.run(watch.end)
    assert stream.ends()


def test_closing_the_server_ends_watches_in_good_order(cluster: Any) -> None:
    stream = cluster.watch(f"{CM}?watch=true")
    cluster.wait(cluster.server.close())
    assert stream.ends()


def test_a_burst_reaches_every_watch_whole_and_in_order(cluster: Any) -> None:
    streams = [cluster.watch(f"{CM}?watch=true") for _ in range(5)]

    def burst() -> None:
        for turn in range(500):
            obj = {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "a", "namespace": "default"},
                "data": {"turn": str(turn)},
            }
            cluster.store.apply(obj, manager="test")

    cluster.run(burst)
    for stream in streams:
        turns = [event["object"]["data"]["turn"] for event in stream.take(500)]
        assert turns == [str(turn) for turn in range(500)]


def test_a_client_that_goes_as_its_watch_ends_is_no_error(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Many times over, since the moment is short."""
    for _ in range(40):
        stream = cluster.watch("/api/v1/configmaps?watch=true&resourceVersion=1")
        stream.response.close()
        cluster.run(lambda: [watch.end() for watch in cluster.server.watches])
    cluster.until(lambda: not cluster.server.watches)
    assert [record.getMessage() for record in caplog.records] == []
