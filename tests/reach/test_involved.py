"""The Events of an object: its own, oldest first, from a list or a feed."""

from __future__ import annotations

from typing import Any

from harness.reach.history import Revision
from harness.reach.involved import KEPT, FedEvents, ListedEvents, told_of


def event(name: str = "a", uid: str = "uid-1", kind: str = "Pod", **more: Any) -> dict[str, Any]:
    about = {"kind": kind, "name": name, "namespace": "lab", "uid": uid}
    return {"metadata": {"name": "e"}, "involvedObject": about, "reason": "Pulled", **more}


POD = Revision.of(
    "MODIFIED",
    {"kind": "Pod", "metadata": {"name": "a", "namespace": "lab", "uid": "uid-1"}},
    0.0,
    "event",
)


def test_its_own_oldest_first() -> None:
    events = [
        event(lastTimestamp="2026-01-01T00:00:09Z", message="late", count=7, type="Warning"),
        event(eventTime="2026-01-01T00:00:03Z", message="a\n  b"),
        event(uid="uid-0", lastTimestamp="2026-01-01T00:00:01Z", message="an earlier pod's"),
        event(series={"lastObservedTime": "2026-01-01T00:00:05Z"}, lastTimestamp=None),
    ]
    assert told_of(POD, events) == (
        "2026-01-01T00:00:03Z  Pulled: a b",
        "2026-01-01T00:00:05Z  Pulled: ",
        "2026-01-01T00:00:09Z Warning Pulled (7 times): late",
    )


def test_a_kubelets_events_name_the_node_for_its_uid() -> None:
    node = Revision.of("ADDED", {"kind": "Node", "metadata": {"name": "n", "uid": "7"}}, 0, "list")
    assert len(told_of(node, [event("n", "n", "Node"), event("n", "7", "Node")])) == 2
    assert told_of(node, [event("n", "8", "Node")]) == ()


def test_the_last_are_kept() -> None:
    many = [event(lastTimestamp=f"2026-01-01T00:{n:02}:00Z") for n in range(KEPT + 9)]
    assert len(told_of(POD, many)) == KEPT
    assert told_of(POD, many)[-1].startswith(f"2026-01-01T00:{KEPT + 8}")


def test_junk_is_not_its() -> None:
    assert told_of(POD, [{"metadata": {}, "involvedObject": "a"}])[:0] == ()
    assert told_of(POD, [event(uid="other")]) == ()


def test_one_list_by_name_and_kind() -> None:
    asked: list[Any] = []

    class Cluster:
        def list(self, *args: str, **fields: str) -> list[dict[str, Any]]:
            asked.append((args, fields))
            return [event()]

    assert ListedEvents(Cluster()).of("Pod", "lab", "a") == [event()]
    ListedEvents(Cluster()).of("Node", "", "n")
    assert asked == [
        (("v1", "Event", "lab"), {"fields": "involvedObject.kind=Pod,involvedObject.name=a"}),
        (("v1", "Event", "default"), {"fields": "involvedObject.kind=Node,involvedObject.name=n"}),
    ]


def test_of_a_feed_those_that_name_it() -> None:
    class Showing:
        def objects(self) -> list[dict[str, Any]]:
            return [event(), event("b"), event(kind="Node"), {"metadata": {}}]

    assert FedEvents(Showing()).of("Pod", "lab", "a") == [event()]
    assert FedEvents(Showing()).of("Pod", "else", "a") == []
