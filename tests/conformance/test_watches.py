"""Watches: where they begin, what crosses a selection, bookmarks, and how they end."""

from __future__ import annotations

from typing import Any

import pytest

from tests.conformance.client import PARTIAL, TABLE, Api, config, named, names, version
from tests.conformance.clusters import Cluster
from tests.conformance.conftest import Space

END = "k8s.io/initial-events-end"


def at(api: Api, space: Space) -> str:
    """The version of an empty list."""
    return version(api.get(space.configs()).made)


def test_a_watch_from_a_version_gives_what_came_after(api: Api, space: Space) -> None:
    first = api.post(space.configs(), config("a")).made
    api.post(space.configs(), config("b"))
    stream = api.watch(space.configs(), resourceVersion=version(first))
    assert stream.status == 200
    assert stream.names(1) == [("ADDED", "b")]
    changed = api.merge(space.configs("a"), {"data": {"x": "1"}}).made
    assert stream.next() == ("MODIFIED", changed)
    stream.close()


@pytest.mark.parametrize("query", [{}, {"resourceVersion": ""}, {"resourceVersion": "0"}])
def test_a_watch_without_a_version_begins_with_what_is_there(
    api: Api, space: Space, query: Any
) -> None:
    made = {name: api.post(space.configs(), config(name)).made for name in ("b", "a")}
    stream = api.watch(space.configs(), **query)
    assert sorted([stream.next(), stream.next()], key=lambda e: e[1]["metadata"]["name"]) == [
        ("ADDED", made["a"]),
        ("ADDED", made["b"]),
    ]
    api.post(space.configs(), config("c"))
    assert stream.names(1) == [("ADDED", "c")]
    stream.close()


def test_a_deleted_object_comes_last_seen_with_the_version_of_its_deletion(
    api: Api, space: Space
) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"})).made
    stream = api.watch(space.configs(), resourceVersion=version(made))
    api.delete(space.configs("a"))
    kind, obj = stream.next()
    assert (kind, obj["data"], obj["metadata"]["uid"]) == (
        "DELETED",
        {"x": "1"},
        made["metadata"]["uid"],
    )
    assert int(version(obj)) > int(version(made))
    again = api.watch(space.configs(), resourceVersion=version(obj))
    api.post(space.configs(), config("b"))
    assert again.names(1) == [("ADDED", "b")]
    stream.close()
    again.close()


def test_a_write_that_changes_nothing_is_no_event(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a", {"x": "1"})).made
    stream = api.watch(space.configs(), resourceVersion=version(made))
    api.merge(space.configs("a"), {"data": {"x": "1"}})
    api.post(space.configs(), config("b"))
    assert stream.names(1) == [("ADDED", "b")]
    stream.close()


def test_what_crosses_a_label_selection_is_added_or_deleted(api: Api, space: Space) -> None:
    begin = at(api, space)
    api.post(space.configs(), config("a"))
    api.merge(space.configs("a"), {"metadata": {"labels": {"in": "yes"}}})
    api.merge(space.configs("a"), {"data": {"x": "1"}})
    out = api.merge(space.configs("a"), {"metadata": {"labels": {"in": None}}}).made
    api.merge(space.configs("a"), {"data": {"x": "2"}})
    api.merge(space.configs("a"), {"metadata": {"labels": {"in": "yes"}}})
    api.delete(space.configs("a"))
    stream = api.watch(space.configs(), resourceVersion=begin, labelSelector="in=yes")
    events = [stream.next() for _ in range(5)]
    assert [kind for kind, _ in events] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]
    left = events[2][1]
    assert left["metadata"]["labels"] == {"in": "yes"}
    assert left["data"] == {"x": "1"}
    assert version(left) == version(out)
    stream.close()


def test_what_crosses_a_field_selection(api: Api, space: Space) -> None:
    begin = version(api.get(space.pods()).made)
    spec = {"containers": [{"name": "main", "image": "i"}], "nodeName": "n1"}
    api.post(space.pods(), named("v1", "Pod", "a", spec=spec))
    api.merge(space.pods("a/status"), {"status": {"phase": "Running"}})
    api.merge(space.pods("a/status"), {"status": {"phase": "Failed"}})
    stream = api.watch(space.pods(), resourceVersion=begin, fieldSelector="status.phase=Running")
    assert stream.names(2) == [("ADDED", "a"), ("DELETED", "a")]
    stream.close()


def test_one_object_is_followed_by_its_name(api: Api, space: Space) -> None:
    begin = at(api, space)
    for name in ("a", "b"):
        api.post(space.configs(), config(name))
    stream = api.watch(space.configs(), resourceVersion=begin, fieldSelector="metadata.name=b")
    assert stream.names(1) == [("ADDED", "b")]
    stream.close()


def test_a_watch_of_a_single_object_s_path_is_refused_or_follows_it(api: Api, space: Space) -> None:
    made = api.post(space.configs(), config("a")).made
    reply = api.get(space.configs("a"), watch="true", timeoutSeconds="1")
    assert reply.status == 200
    assert reply.json == made


def test_a_watch_ends_in_time(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    stream = api.watch(space.configs(), timeoutSeconds="1")
    assert [kind for kind, _ in stream.rest()] == ["ADDED"]


def test_bookmarks_carry_a_version_and_nothing_else(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    stream = api.watch(
        space.configs(), allowWatchBookmarks="true", timeoutSeconds="1", resourceVersion="0"
    )
    found = [obj for kind, obj in stream.rest() if kind == "BOOKMARK"]
    for obj in found:
        assert (obj["kind"], obj["apiVersion"]) == ("ConfigMap", "v1")
        assert obj["metadata"].keys() <= {"resourceVersion", "creationTimestamp", "annotations"}
        assert obj.keys() <= {"kind", "apiVersion", "metadata"}


def test_initial_events_end_with_a_marked_bookmark(api: Api, space: Space) -> None:
    for name in ("a", "b"):
        api.post(space.configs(), config(name))
    stream = api.watch(
        space.configs(),
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    first = [stream.next() for _ in range(3)]
    assert [kind for kind, _ in first] == ["ADDED", "ADDED", "BOOKMARK"]
    mark = first[2][1]
    assert mark["metadata"]["annotations"][END] == "true"
    newest = max(int(version(obj)) for _, obj in first[:2])
    assert int(version(mark)) >= newest
    api.post(space.configs(), config("c"))
    assert stream.names(1) == [("ADDED", "c")]
    stream.close()


def test_initial_events_of_an_empty_kind_are_the_bookmark(api: Api, space: Space) -> None:
    stream = api.watch(
        space.configs(),
        sendInitialEvents="true",
        resourceVersionMatch="NotOlderThan",
        allowWatchBookmarks="true",
    )
    kind, obj = stream.next()
    assert (kind, obj["metadata"]["annotations"][END]) == ("BOOKMARK", "true")
    stream.close()


def test_no_initial_events_even_without_a_version(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    stream = api.watch(
        space.configs(), sendInitialEvents="false", resourceVersionMatch="NotOlderThan"
    )
    api.post(space.configs(), config("b"))
    assert stream.names(1) == [("ADDED", "b")]
    stream.close()


@pytest.mark.parametrize(
    ("query", "field"),
    [
        ({"resourceVersionMatch": "NotOlderThan"}, "resourceVersionMatch"),
        ({"sendInitialEvents": "true"}, "resourceVersionMatch"),
        (
            {"sendInitialEvents": "true", "resourceVersionMatch": "Exact"},
            "resourceVersionMatch",
        ),
    ],
)
def test_watch_parameters_that_are_refused(api: Api, space: Space, query: Any, field: str) -> None:
    refused = api.get(space.configs(), watch="true", timeoutSeconds="2", **query).refused
    assert (refused.code, refused.reason) == (422, "Invalid")
    assert ("FieldValueForbidden", field) in refused.causes
    assert refused.message.startswith('ListOptions.meta.k8s.io "" is invalid: ')


def test_a_version_that_is_none(api: Api, space: Space) -> None:
    refused = api.get(space.configs(), watch="true", resourceVersion="nonsense").refused
    assert (refused.code, refused.reason) == (500, "")
    assert refused.message == (
        'resourceVersion: Invalid value: "nonsense": strconv.ParseUint: parsing "nonsense": '
        "invalid syntax"
    )


def test_a_bad_selector_of_a_watch(api: Api, space: Space) -> None:
    assert api.get(space.configs(), watch="1", labelSelector="a in b").refused.code == 400
    assert api.get(space.configs(), watch="1", fieldSelector="data=1").refused.code == 400


def test_a_version_that_is_too_old_is_told_on_the_stream(cluster: Cluster, space: Space) -> None:
    stream = cluster.api.watch(space.configs(), resourceVersion="1")
    assert stream.status == 200
    kind, status = stream.next()
    assert (kind, status["kind"], status["code"], status["reason"]) == (
        "ERROR",
        "Status",
        410,
        "Expired",
    )
    assert status["message"].startswith("too old resource version: 1 (")
    assert list(stream.rest()) == []


def test_a_version_that_is_still_to_come_is_waited_for(api: Api, space: Space) -> None:
    ahead = int(at(api, space)) + 100_000
    stream = api.watch(space.configs(), resourceVersion=ahead, timeoutSeconds="1")
    api.post(space.configs(), config("a"))
    assert (stream.status, list(stream.rest())) == (200, [])


def test_all_namespaces_are_watched_at_once(api: Api, space: Space) -> None:
    stream = api.watch("/api/v1/configmaps", resourceVersion=at(api, space))
    api.post(space.configs(), config("a"))
    kind, obj = stream.next()
    assert (kind, obj["metadata"]["namespace"]) == ("ADDED", space.name)
    stream.close()


def test_a_table_watch_tells_its_columns_once(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    stream = api.watch(space.configs(), accept=TABLE)
    _, first = stream.next()
    assert (first["kind"], first["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [c["name"] for c in first["columnDefinitions"]] == ["Name", "Data", "Age"]
    assert first["rows"][0]["cells"][:2] == ["a", 1]
    assert first["rows"][0]["object"]["kind"] == "PartialObjectMetadata"
    api.post(space.configs(), config("b"))
    _, second = stream.next()
    assert second["columnDefinitions"] is None
    assert second["metadata"]["resourceVersion"]
    stream.close()


def test_a_watch_of_metadata_only(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a", {"x": "1"}))
    stream = api.watch(space.configs(), accept=PARTIAL)
    kind, obj = stream.next()
    assert (kind, obj["kind"], obj["apiVersion"]) == (
        "ADDED",
        "PartialObjectMetadata",
        "meta.k8s.io/v1",
    )
    assert "data" not in obj
    stream.close()


def test_a_collection_that_goes_is_an_event_each(api: Api, space: Space) -> None:
    for name in ("a", "b"):
        api.post(space.configs(), config(name))
    begin = version(api.get(space.configs()).made)
    api.delete(space.configs())
    stream = api.watch(space.configs(), resourceVersion=begin)
    assert sorted(stream.names(2)) == [("DELETED", "a"), ("DELETED", "b")]
    assert names(api.get(space.configs()).made) == []
    stream.close()


def test_only_get_watches(api: Api, space: Space) -> None:
    api.post(space.configs(), config("a"))
    made = api.post(space.configs(), config("b"), watch="true")
    assert made.status == 201
