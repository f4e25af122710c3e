"""What a feed's history becomes, over a real stream: what was seen, what may have been missed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.observe import clones
from harness.reach.errors import Refused, UnknownKind
from harness.reach.watch import Feed, Observatory
from tests.reach.scripted import Brisk, Scripted, kube, scripted

LIMIT = 5.0


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def start(server: Scripted) -> Iterator[Callable[[], Feed]]:
    clock = Brisk()
    observatory = Observatory(clock)
    cluster = kube(server, clock)
    yield lambda: observatory.feed(cluster, "v1", "Pod", "lab")
    observatory.close()


def until(feed: Feed, holds: Callable[[], Any]) -> None:
    assert feed.clock.wait(lambda: bool(holds()), feed.clock.deadline(LIMIT), "it"), feed.cuts


def test_every_revision_is_a_sight(server: Scripted, start: Callable[[], Feed]) -> None:
    server.write("old")
    feed = start()
    server.until(lambda: server.following, "the stream")
    for phase in ("Pending", "Running", "Succeeded"):
        server.write("new", phase)
    server.delete("new")
    until(feed, lambda: len(list(feed.history.revisions())) == 5)
    found = clones.seen(feed, 7.0, "Pod in lab")
    assert [(one.change, one.listed) for one in found.sights] == [
        ("ADDED", True),
        ("ADDED", False),
        ("MODIFIED", False),
        ("MODIFIED", False),
        ("DELETED", False),
    ]
    assert (found.what, found.since, found.missed, found.blind) == ("Pod in lab", 7.0, (), "")


def test_a_gap_is_told_and_whose_it_can_be(server: Scripted, start: Callable[[], Feed]) -> None:
    server.write("same")
    server.write("changed")
    feed = start()
    server.until(lambda: server.following, "the stream")
    server.down()
    server.write("changed", "Running")
    server.compact()
    server.up()
    until(feed, lambda: feed.history.gaps())
    (missed,) = clones.seen(feed, 7.0, "Pod in lab").missed
    assert missed.reason.startswith("listed again: ")
    assert missed.since <= missed.until
    assert clones.seen(feed, 7.0, "Pod in lab", about="changed").missed == (missed,)
    assert clones.seen(feed, 7.0, "Pod in lab", about="same").missed == ()
    assert clones.seen(feed, 7.0, "Pod in lab", about="never-seen").missed == (missed,)


def test_what_was_forgotten_was_missed(server: Scripted) -> None:
    clock = Brisk()
    observatory = Observatory(clock, history=2000)
    feed = observatory.feed(kube(server, clock), "v1", "Pod", "lab")
    server.until(lambda: server.following, "the stream")
    for number in range(20):
        server.write("a", f"Phase{number}")
    until(feed, lambda: feed.history.compacted)
    found = clones.seen(feed, 7.0, "Pod in lab", about="a")
    assert "oldest revisions" in found.missed[-1].reason
    assert "oldest revisions" in found.doubt(found.missed[-1].until, clock.now())
    observatory.close()


def test_a_server_that_is_gone_shows_nothing_any_more(
    server: Scripted, start: Callable[[], Feed], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clones, "SETTLE", 0.2)
    server.write("a")
    feed = start()
    server.until(lambda: server.following, "the stream")
    server.down()
    until(feed, lambda: feed.cuts)
    assert isinstance(feed.clock, Brisk)
    feed.clock.ahead = 60.0  # it has been gone for a minute
    found = clones.seen(feed, 7.0, "Pod in lab")
    assert "cannot tell" in found.blind
    assert "could not be seen at the end" in found.doubt(8.0, 9.0)
    assert len(found.sights) == 1


def test_a_watch_that_was_refused_saw_nothing() -> None:
    refused = Refused(403, "Forbidden", "pods is forbidden: not in all namespaces")
    found = clones.seen(refused, 7.0, "Pod in all namespaces")
    assert (found.since, found.sights) == (None, ())
    assert "not in all namespaces" in found.doubt(8.0, 9.0)


def test_a_kind_that_is_not_served_has_no_objects() -> None:
    found = clones.seen(UnknownKind(404, "NotFound", "no VolumeSnapshot"), 7.0, "VolumeSnapshot")
    assert (found.since, found.sights, found.blind, found.doubt(8.0, 9.0)) == (7.0, (), "", "")


class Asked:
    """A cluster that answers with what a test gives it."""

    name = "management"

    def __init__(self, answer: Any) -> None:
        self.answer = answer

    def _tell(self) -> Any:
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def list(self, *_: str) -> Any:
        return self._tell()

    def get(self, *_: str) -> Any:
        return self._tell()


def test_a_list_says_what_is_there() -> None:
    def listed(answer: Any) -> Any:
        return clones.listed_once(Asked(answer), "v1", "Pod", "lab", at=9.0)  # type: ignore[arg-type]  # what it asks of it is there

    found = listed([{"metadata": {"name": "a", "uid": "1"}}])
    assert [one.obj["kind"] for one in found.sights] == ["Pod"]
    assert (found.since, found.blind) == (9.0, "")
    refused = listed(Refused(403, "Forbidden", "no"))
    assert (refused.since, "no" in refused.blind) == (None, True)
    assert listed(UnknownKind(404, "NotFound", "no such kind")).since == 9.0


def test_volume_and_class_that_are_not_there_are_unread() -> None:
    refused = Refused(403, "Forbidden", "no")
    for ask in (clones.disk_volume, clones.disk_class):
        for answer, name, why in (
            (None, "x", "it is not there"),
            (refused, "x", "403 Forbidden"),
            ({}, "", "nothing names one"),
        ):
            found = ask(Asked(answer), name, now=lambda: 1.0)  # type: ignore[arg-type]  # as above
            assert isinstance(found, Unread)
            assert why in found.reason
