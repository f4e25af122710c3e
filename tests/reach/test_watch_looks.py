"""What a feed makes of a picture that may be an old one: no stream yet, none any more, a mute one.

In each of these something happened that no stream told. It was never "not met, and nothing was
missed", and a count never held of objects as they no longer were.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from harness.clock import Deadline, Look, WallClock
from harness.reach.access import Timeouts
from harness.reach.counts import Everyone, Gone
from harness.reach.history import History
from harness.reach.looking import Look as LookAtIt
from harness.reach.picture import Picture
from harness.reach.watch import Feed, Observatory
from tests.reach.scripted import Brisk, Scripted, Stream, kube, phase, refusal, scripted

LIMIT = 5.0
AGO = 10.0  # seconds since the server was heard


@dataclass
class Falling(Brisk):
    """Its server was heard when the first look of a wait was due, and not since."""

    waits: int = 0

    def wait(
        self, look: Look, deadline: Deadline, what: str, bell: threading.Event | None = None
    ) -> bool:
        met = super().wait(look, deadline, what, bell)
        self.waits += 1
        self.ahead += AGO if self.waits == 2 else 0
        return met


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        running.write("a", "Pending")
        yield running


@pytest.fixture
def clock() -> Brisk:
    return Brisk()


@pytest.fixture
def start(server: Scripted) -> Iterator[Callable[..., Feed]]:
    opened: list[Observatory] = []

    def make(clock: Brisk) -> Feed:
        opened.append(Observatory(clock))
        cluster = kube(server, clock)
        cluster.timeouts = Timeouts(connect=5.0, read=2.5)  # a mute server is closed only then
        feed = opened[-1].feed(cluster, "v1", "Pod", "lab")
        server.until(lambda: server.asked("watch"), "a watch")
        if not server.mute:
            assert WallClock.wait(clock, lambda: feed.position() > 0, clock.deadline(LIMIT), "it")
        return feed

    yield make
    for each in opened:
        each.close()


def mute(server: Scripted) -> None:
    """Watches are taken and get no answer, not even headers."""
    server.mute = True
    server.always = Stream.hold


@pytest.mark.parametrize(("waited_for", "kind"), [("Running", "met"), ("Failed", "gap")])
def test_a_first_stream_that_does_not_open_proves_nothing(
    server: Scripted, clock: Brisk, start: Callable[..., Feed], waited_for: str, kind: str
) -> None:
    mute(server)
    feed = start(clock)
    server.write("a", "Running")
    clock.ahead = AGO
    waited = feed.outcome(phase(waited_for), clock.deadline(2.0), "a", name="a")
    assert (waited.kind, waited.healthy) == (kind, False)
    assert waited.blind


def test_a_stream_that_is_given_up_and_cannot_be_opened_again_proves_nothing(
    server: Scripted, clock: Brisk, start: Callable[..., Feed]
) -> None:
    server.watches.extend([Stream.hold])
    server.always = refusal(429, "TooManyRequests", "later", retryAfterSeconds=5)
    feed = start(clock)
    server.write("a", "Running")
    clock.ahead = AGO
    waited = feed.outcome(phase("Running"), clock.deadline(2.0), "a", name="a")
    assert (waited.kind, waited.healthy) == ("met", False)
    assert waited.revision is not None
    assert waited.revision.source == "probe"


def test_a_stream_that_falls_silent_after_the_look_is_looked_at_once_more(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    clock = Falling()
    server.watches.append(Stream.hold)
    feed = start(clock)
    server.write("a", "Running")
    waited = feed.outcome(phase("Running"), clock.deadline(2.4), "a", name="a")
    assert waited.kind == "met"


def test_what_a_list_shows_while_another_is_on_its_way_is_a_doubt(
    server: Scripted, clock: Brisk
) -> None:
    """Taken in, it would be undone by the other one, should that be the older."""
    picture = Picture(clock, History())
    pod = server.write("a", "Running")

    class Listing:
        name = "pods"
        listing = True

        def ask(self, name: str) -> Any:
            return [picture.history.listed(pod)], "102"

        def give_up(self, why: str) -> None:
            pass

    follower: Any = Listing()
    look = LookAtIt(clock, picture, follower)
    look.begin(None, 0.02)
    told = "a list shows what no stream has told of lab/a"
    assert clock.wait(lambda: look.doubt() == told, clock.deadline(LIMIT), "the look")
    assert list(picture.history.revisions()) == []


def test_without_time_for_a_look_no_claim_is_made(
    server: Scripted, clock: Brisk, start: Callable[..., Feed]
) -> None:
    server.always = Stream.hold
    feed = start(clock)
    server.write("a", "Running")
    clock.ahead = AGO
    # a look that is answered at once would see it, even in no time
    server.lists.extend([refusal(503, "ServiceUnavailable", "not ready")] * 2)
    waited = feed.outcome(phase("Running"), clock.deadline(0), "a", name="a")
    assert waited.kind == "gap"
    assert waited.blind


def test_a_count_does_not_hold_of_objects_as_they_were_a_while_ago(
    server: Scripted, clock: Brisk, start: Callable[..., Feed]
) -> None:
    server.watches.append(Stream.hold)
    feed = start(clock)
    server.write("b", "Pending")
    clock.ahead = AGO
    waited = feed.standing(Gone("b"), clock.deadline(1.0), "b to be gone")
    assert waited.kind != "met", waited


def test_a_count_of_a_quiet_server_is_settled_by_one_list(
    server: Scripted, clock: Brisk, start: Callable[..., Feed]
) -> None:
    server.always = Stream.hold
    feed = start(clock)
    clock.ahead = AGO
    waited = feed.standing(Gone("b"), clock.deadline(LIMIT), "b to be gone")
    assert (waited.kind, waited.healthy) == ("met", True)
    assert waited.seconds < LIMIT / 2
    everyone = Everyone(phase("Pending"), least=1)
    assert feed.standing(everyone, clock.deadline(LIMIT), "all to be there").kind == "met"
    assert server.asked("list") == 2


def test_a_count_that_nobody_confirms_is_not_met(
    server: Scripted, clock: Brisk, start: Callable[..., Feed]
) -> None:
    server.always = Stream.hold
    feed = start(clock)
    clock.ahead = AGO
    server.lists.extend([refusal(503, "ServiceUnavailable", "not ready")] * 2)
    waited = feed.standing(Gone("b"), clock.deadline(0.3), "b to be gone")
    assert waited.kind == "gap"
    assert waited.blind


def test_an_object_that_was_never_seen_is_not_taken_for_another(
    server: Scripted, clock: Brisk, start: Callable[..., Feed]
) -> None:
    """Neither its last state nor its Events are those of whatever else the feed shows."""
    asked: list[Any] = []

    class Events:
        def of(self, *about: str) -> list[Any]:
            asked.append(about)
            return []

    feed = start(clock)
    waited = feed.outcome(
        phase("Running"), clock.deadline(0.05), "it", uid="never-seen", events=Events()
    )
    assert (waited.kind, waited.last, asked) == ("timed-out", (), [])
    assert "nothing was ever seen" in str(waited)
