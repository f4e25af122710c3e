"""Going on after a loss: how often the server is asked, and when a version is given up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.reach.errors import ApiRefused, Garbled, Refused, Unreachable
from harness.reach.trouble import AHEAD, BACK_OFF, PROMPT, Trouble
from harness.reach.watch import Feed, Observatory
from tests.reach.scripted import (
    Brisk,
    Scripted,
    Stream,
    expire,
    kube,
    phase,
    refusal,
    scripted,
    seen,
)

LIMIT = 5.0
EXPIRED_TOKEN = refusal(401, "Unauthorized", "token has expired")


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def clock() -> Brisk:
    return Brisk()


@pytest.fixture
def start(server: Scripted, clock: Brisk) -> Iterator[Callable[[], Feed]]:
    observatory = Observatory(clock)
    cluster = kube(server, clock)
    yield lambda: observatory.feed(cluster, "v1", "Pod", "lab")
    observatory.close()


def until(feed: Feed, holds: Callable[[], Any]) -> None:
    assert feed.clock.wait(lambda: bool(holds()), feed.clock.deadline(LIMIT), "it"), feed.cuts


# -- how often it asks -------------------------------------------------------------------------


def one_event_then_410(stream: Stream) -> None:
    """Progress each time, and each time nothing to go on from."""
    stream.event("MODIFIED", stream.server.write("a", "Running"))
    expire(stream)


def one_event(stream: Stream) -> None:
    stream.event("MODIFIED", stream.server.write("a", "Running"))
    stream.end()


@pytest.mark.parametrize("always", [expire, one_event_then_410])
def test_a_server_that_says_410_for_ever_is_no_hot_loop(
    server: Scripted, start: Callable[[], Feed], clock: Brisk, always: Callable[[Stream], None]
) -> None:
    server.always = always
    start()
    server.until(lambda: server.asked("watch") > 12, "twelve watches")
    assert clock.pauses[1:12] == [BACK_OFF[min(n, 5)] for n in range(11)]


def test_streams_that_bring_one_event_each_are_paced_after_a_while(
    server: Scripted, start: Callable[[], Feed], clock: Brisk
) -> None:
    server.always = one_event
    start()
    server.until(lambda: server.asked("watch") > 3 * PROMPT + 2, "many watches")
    pauses = clock.pauses[1:]
    assert set(pauses[: PROMPT - 1]) == {0.0}
    assert set(pauses[PROMPT : 2 * PROMPT - 1]) == {BACK_OFF[1]}
    assert set(pauses[2 * PROMPT : 3 * PROMPT]) == {BACK_OFF[2]}


def test_a_stream_that_held_makes_all_well_again() -> None:
    trouble = Trouble()
    for _ in range(3 * PROMPT):
        trouble.learn(ApiRefused(410, "Expired", ""))
        trouble.ended(0.1)
        trouble.fail("410", 0.0)
    assert trouble.pace() == BACK_OFF[-1]
    trouble.ended(BACK_OFF[-1])
    trouble.fail("the server ended the stream", 0.0)
    assert trouble.pace() == 0.0


def test_every_attempt_again_is_written_down(server: Scripted, start: Callable[[], Feed]) -> None:
    for code in (408, 429, 500, 502, 503, 504):
        server.watches.append(refusal(code, "Trouble", f"number {code}"))
    server.watches.append(Stream.cut)
    feed = start()
    server.until(lambda: server.following, "a stream")
    assert len(feed.cuts) == 7
    assert all(
        str(c) in cut for c, cut in zip((408, 429, 500, 502, 503, 504), feed.cuts[:6], strict=True)
    )
    assert feed.requests == 9


@pytest.mark.parametrize("code", [400, 404, 405, 422, 501, 505])
def test_what_is_not_on_the_list_is_not_tried_again(
    server: Scripted, start: Callable[[], Feed], code: int
) -> None:
    server.always = refusal(code, "No", "never")
    feed = start()
    until(feed, lambda: feed.refused)
    assert server.asked("watch") == 1
    assert feed.outcome(phase("x"), feed.clock.deadline(60), "it").kind == "refused"


# -- credentials -------------------------------------------------------------------------------


def test_one_401_is_tried_again_and_written_down(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    server.write("a", "Pending")
    server.watches.append(EXPIRED_TOKEN)
    feed = start()
    server.until(lambda: server.following, "a stream")
    server.write("a", "Running")
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "it") is not None
    assert len(feed.cuts) == 1
    assert "token has expired" in feed.cuts[0]
    assert feed.healthy()


def test_a_401_long_after_another_is_the_first_again(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    server.watches.append(EXPIRED_TOKEN)
    feed = start()
    for n in range(4):
        server.until(lambda: server.following, "a stream")
        server.write("a", f"phase-{n}")
        until(feed, lambda n=n: feed.history.last(("lab", "a")) and feed.position() == 101 + n)
        with server.changed:
            server.watches.append(EXPIRED_TOKEN)
            server.tell("end")
            server.until(lambda: not server.watches, "its end and the next")
    server.until(lambda: server.following, "a stream")
    assert feed.refused is None
    assert sum("token" in cut for cut in feed.cuts) == 5


@pytest.mark.parametrize("error", [Refused(403, "Forbidden", ""), ApiRefused(404, "NotFound", "")])
def test_other_refusals_have_no_second_try(error: ApiRefused) -> None:
    assert Trouble().is_over(error)
    assert not Trouble().is_over(Refused(401, "Unauthorized", ""))
    assert Trouble(unauthorized=1).is_over(Refused(401, "Unauthorized", ""))
    assert not Trouble(unauthorized=1).is_over(Unreachable("a", "b", "c"))
    assert not Trouble(unauthorized=1).is_over(Garbled("a", "b", "c"))


# -- a cluster of another past -----------------------------------------------------------------


def test_a_cluster_restored_from_a_backup_is_listed_again_and_is_a_gap(
    server: Scripted, start: Callable[[], Feed], clock: Brisk
) -> None:
    server.write("a", "Pending")
    server.write("b", "Pending")
    feed = start()
    server.write("a", "Running")
    server.write("c", "Pending")
    until(feed, lambda: feed.position() == 104)
    server.until(lambda: server.following, "a stream")
    server.restore(102)
    until(feed, lambda: feed.position() == 102)
    assert seen(feed)[-3:] == [
        ("GAP", "", ""),
        ("DELETED", "c", "Pending"),
        ("MODIFIED", "a", "Pending"),
    ]
    (gap,) = feed.history.gaps()
    assert (gap.after, gap.upto, gap.changed) == ("104", "102", None)
    assert "Too large resource version" in gap.reason
    assert sum("Too large" in cut for cut in feed.cuts) == AHEAD
    assert clock.pauses.count(1.0) == AHEAD, "as long as the server asked"
    assert feed.outcome(phase("Flash"), clock.deadline(0.01), "b", name="b").kind == "gap"


def test_after_a_restore_the_same_versions_are_other_revisions(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    server.write("a", "Pending")
    feed = start()
    server.write("a", "Running")
    until(feed, lambda: feed.position() == 102)
    server.until(lambda: server.following, "a stream")
    server.restore(101)
    until(feed, lambda: feed.position() == 101)
    server.until(lambda: server.following, "a stream")
    server.write("a", "Failed")
    assert server.revision == 102
    assert feed.wait(phase("Failed"), feed.clock.deadline(LIMIT), "the other 102") is not None


def test_a_server_that_only_lags_behind_is_waited_for(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    from tests.reach.scripted import too_large

    server.watches.extend([too_large(100, 99)] * (AHEAD - 1))
    feed = start()
    server.until(lambda: server.following, "a stream")
    assert server.asked("list") == 1
    assert feed.healthy()


def test_an_event_from_before_is_no_news_and_no_truth(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    """Of an object that was never seen: the rest of such a stream is not believed either."""
    old = server.write("a", "Flash")
    server.delete("a")

    def early(stream: Stream) -> None:
        stream.event("ADDED", old)
        stream.hold()

    server.watches.append(early)
    feed = start()
    until(feed, lambda: server.asked("list") == 2)
    server.until(lambda: server.following, "a stream")
    assert [change for change, _, _ in seen(feed)] == ["GAP"]
    assert "revision 101 on a stream that had come to 102" in feed.cuts[0]
    assert feed.outcome(phase("Flash"), feed.clock.deadline(0.01), "it").kind == "gap"


def test_a_stream_that_goes_back_in_its_course_is_not_believed(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    """Taken in, its revisions would stand in another order than the cluster wrote them."""

    def disordered(stream: Stream) -> None:
        with server.changed:
            first, second = server.write("a", "Flash"), server.write("b", "Running")
        stream.event("ADDED", second)
        stream.event("ADDED", first)
        stream.hold()

    server.watches.append(disordered)
    feed = start()
    until(feed, lambda: server.asked("list") == 2)
    server.until(lambda: server.following, "a stream")
    assert "revision 101 on a stream that had come to 102" in feed.cuts[0]
    assert [change for change, _, _ in seen(feed)] == ["ADDED", "GAP", "ADDED"]


def test_a_bookmark_that_goes_back_is_of_another_past(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    """As of a server that was restored under an open stream."""

    def back(stream: Stream) -> None:
        stale = server.bookmark_line()
        stream.event("ADDED", server.write("a", "Running"))
        stream.raw(stale)
        stream.hold()

    server.watches.append(back)
    feed = start()
    until(feed, lambda: server.asked("list") == 2)
    server.until(lambda: server.following, "a stream")
    assert "revision 100 on a stream that had come to 101" in feed.cuts[0]
    assert [gap.changed for gap in feed.history.gaps()] == [None]


def test_a_401_has_one_second_try_however_often_streams_open(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    def told(stream: Stream) -> None:
        stream.event("ERROR", EXPIRED_TOKEN[1])
        stream.end()

    server.always = told
    feed = start()
    until(feed, lambda: feed.refused)
    assert server.asked("watch") == 2


def test_why_it_was_listed_again_is_the_first_reason(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    server.write("a", "Pending")
    feed = start()
    until(feed, lambda: feed.position() == 101)
    server.until(lambda: server.following, "a stream")
    with server.changed:
        server.lists.extend([(200, {"metadata": {}, "items": []})] * 3)
        server.tell("cut")
        server.write("a", "Running")
        server.compact()
    until(feed, lambda: feed.history.gaps())
    assert "410" in feed.history.gaps()[0].reason


def test_an_older_list_after_a_410_is_of_another_past_too(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    server.write("a", "Pending")
    server.write("b", "Pending")
    server.write("b", "Running")
    server.watches.append(expire)
    feed = start()
    server.until(lambda: server.following, "a stream")
    with server.changed:
        server.watches.append(expire)
        server.restore(102)
    until(feed, lambda: feed.position() == 102)
    assert [gap.changed for gap in feed.history.gaps()] == [None]
    assert feed.outcome(phase("Flash"), feed.clock.deadline(0.01), "a", name="a").kind == "gap"


def test_an_objects_deletion_may_come_under_its_last_version_however_old(
    server: Scripted, start: Callable[[], Feed]
) -> None:
    pod = server.write("a", "Running")
    server.write("b", "Running")

    def delete(stream: Stream) -> None:
        stream.event("DELETED", pod)
        stream.hold()

    server.watches.append(delete)
    feed = start()
    until(feed, lambda: len(feed.objects()) == 1)
    assert [change for change, _, _ in seen(feed)] == ["ADDED", "ADDED", "DELETED"]
    assert feed.cuts == []
