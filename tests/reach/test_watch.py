"""The watch layer against a server that cuts, ends, expires, lies, stays silent and comes back."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clock import WallClock
from harness.reach.errors import ApiRefused, BadCertificate, Garbled, LabError, Refused, Unreachable
from harness.reach.history import Revision
from harness.reach.trouble import BACK_OFF, is_final
from harness.reach.watch import Feed, Observatory
from tests.reach.scripted import (
    Brisk,
    Scripted,
    Stream,
    cut_at_once,
    end_at_once,
    expire,
    kube,
    line,
    phase,
    refusal,
    scripted,
    seen,
)

SILENCE = 0.2
LIMIT = 5.0


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def clock() -> Brisk:
    return Brisk()


@pytest.fixture
def observatory(clock: Brisk) -> Iterator[Observatory]:
    watching = Observatory(clock)
    yield watching
    watching.close()


@pytest.fixture
def pods(observatory: Observatory, server: Scripted) -> Callable[[], Feed]:
    cluster = kube(server, observatory.clock)
    return lambda: observatory.feed(cluster, "v1", "Pod", "lab")


def caught_up(feed: Feed, server: Scripted) -> None:
    """Wait until the feed knows everything that was written so far."""
    wanted = server.revision
    looked = feed.clock.wait(
        lambda: feed.position() >= wanted, feed.clock.deadline(LIMIT), "the feed to catch up"
    )
    assert looked, f"{feed.position()} of {wanted}: {feed.cuts}"


def until(feed: Feed, holds: Callable[[], Any]) -> None:
    assert feed.clock.wait(lambda: bool(holds()), feed.clock.deadline(LIMIT), "it"), feed.cuts


# -- a healthy stream ------------------------------------------------------------------------


def test_every_written_phase_is_seen_however_short(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    server.write("a", "Pending")
    feed = pods()
    phases = [f"phase-{n}" for n in range(500)]
    for each in phases:
        server.write("a", each)
    assert feed.wait(phase("phase-499"), feed.clock.deadline(LIMIT), "the last phase")
    assert [p for _, _, p in seen(feed)] == ["Pending", *phases]
    assert feed.healthy()


def test_what_happened_before_the_wait_began_counts(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    feed = pods()
    for each in ("Pending", "Flash", "Running"):
        server.write("a", each)
    caught_up(feed, server)
    flash = feed.wait(phase("Flash"), feed.clock.deadline(0), "the flash")
    assert flash is not None
    assert flash.source == "event"
    assert feed.object("a")["status"]["phase"] == "Running"  # type: ignore[index]  # it is there


def test_two_requests_however_many_wait(pods: Callable[[], Feed], server: Scripted) -> None:
    feeds = [pods() for _ in range(20)]
    assert all(feed is feeds[0] for feed in feeds)
    met: list[Revision | None] = []

    def wait() -> None:
        met.append(feeds[0].wait(phase("Running"), feeds[0].clock.deadline(LIMIT), "running"))

    threads = [threading.Thread(target=wait) for _ in range(20)]
    for thread in threads:
        thread.start()
    server.write("a", "Running")
    for thread in threads:
        thread.join(LIMIT)
    assert len(met) == 20
    assert None not in met
    assert (server.asked("list"), server.asked("watch")) == (1, 1)
    assert feeds[0].requests == 2


def test_feeds_asked_for_at_once_are_one(
    observatory: Observatory, server: Scripted, pods: Callable[[], Feed]
) -> None:
    together = threading.Barrier(8)
    got: list[Feed] = []

    def ask() -> None:
        together.wait(LIMIT)
        got.append(pods())

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert len({id(feed) for feed in got}) == 1
    assert server.asked("list") == 1
    assert observatory.feeds() == got[:1]


def test_selectors_are_asked_of_the_server(observatory: Observatory, server: Scripted) -> None:
    cluster = kube(server, observatory.clock)
    feed = observatory.feed(cluster, "v1", "Pod", "lab", labels="a=b", fields="spec.nodeName=n1")
    server.until(lambda: server.asked("watch"), "a watch")
    for _, query in server.seen:
        assert (query["labelSelector"], query["fieldSelector"]) == ("a=b", "spec.nodeName=n1")
    assert feed.name == "management Pod in lab where a=b spec.nodeName=n1"


def test_lines_and_characters_split_across_chunks(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    said = "нет места на диске 💾"

    def split(stream: Stream) -> None:
        server.write("a", "Pending", message=said)
        server.write("b", "Running")
        for byte in b"".join(server.since(stream.after)):
            stream.raw(bytes([byte]))
        stream.hold()

    server.watches.append(split)
    feed = pods()
    assert feed.wait(phase("Running", "b"), feed.clock.deadline(LIMIT), "b")
    assert feed.object("a")["status"]["message"] == said  # type: ignore[index]  # it is there
    assert feed.cuts == []


def test_an_event_is_not_held_back_for_a_chunk_to_fill(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    """A proxy may send a chunk's beginning long before its end."""

    def half(stream: Stream) -> None:
        whole = line("ADDED", server.write("a", "Running"))
        stream._connection.sendall(f"{len(whole) + 1000:x}\r\n".encode() + whole)
        stream.hold()

    server.watches.append(half)
    feed = pods()
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "a")


# -- streams that end --------------------------------------------------------------------------


def end_streams(server: Scripted, how: str) -> None:
    """Those that are open; by the time they have ended the next may well be."""
    with server.changed:
        known = set(server.following)
        server.tell(how)
    server.until(lambda: known.isdisjoint(server.following), "their end")


@pytest.mark.parametrize("how", ["end", "cut"])
def test_a_stream_that_ends_is_resumed_and_is_no_gap(
    pods: Callable[[], Feed], server: Scripted, how: str
) -> None:
    feed = pods()
    for n in range(5):
        server.write("a", f"before-{n}")
        server.until(lambda: server.following, "an open stream")
        end_streams(server, how)
        server.write("a", f"meanwhile-{n}")
    caught_up(feed, server)
    wanted = [f"{when}-{n}" for n in range(5) for when in ("before", "meanwhile")]
    assert [p for _, _, p in seen(feed)] == wanted
    assert feed.healthy()
    assert len(feed.cuts) >= 5
    assert server.asked("list") == 1


@pytest.mark.parametrize("after", [0, 1, 2, 3])
def test_a_cut_after_any_number_of_events_loses_none(
    pods: Callable[[], Feed], server: Scripted, after: int
) -> None:
    def some(stream: Stream) -> None:
        for each in ("one", "two", "three"):
            server.write("a", each)
        stream.follow(after)

    server.watches.append(some)
    feed = pods()
    assert feed.wait(phase("three"), feed.clock.deadline(LIMIT), "three")
    assert [p for _, _, p in seen(feed)] == ["one", "two", "three"]
    assert feed.healthy()


def test_a_line_cut_in_the_middle_is_read_from_the_next_stream(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    def half(stream: Stream) -> None:
        whole = line("ADDED", server.write("a", "Running"))
        stream.raw(whole[: len(whole) // 2])
        stream.end()

    server.watches.append(half)
    feed = pods()
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "a")
    assert seen(feed) == [("ADDED", "a", "Running")]
    assert feed.healthy()


def test_a_stream_that_ends_answers_no_wait(pods: Callable[[], Feed], server: Scripted) -> None:
    server.write("a", "Pending")
    server.always = end_at_once
    feed = pods()
    server.until(lambda: server.asked("watch") > 5, "many watches")
    assert feed.wait(phase("Running"), feed.clock.deadline(0.05), "running") is None


@pytest.mark.parametrize("quick", [end_at_once, cut_at_once, lambda s: s.follow(1)])
def test_streams_that_end_at_once_are_not_a_hot_loop(
    pods: Callable[[], Feed], server: Scripted, clock: Brisk, quick: Callable[[Stream], None]
) -> None:
    """The third one brings a bookmark each time: that is no progress."""
    server.always = quick
    pods()
    server.until(lambda: server.asked("watch") > 9, "ten watches")
    assert clock.pauses[:9] == [0.0, *BACK_OFF, BACK_OFF[-1], BACK_OFF[-1]]


def test_progress_makes_the_next_attempt_prompt_again(
    pods: Callable[[], Feed], server: Scripted, clock: Brisk
) -> None:
    server.watches.extend([end_at_once] * 4)

    def one_event(stream: Stream) -> None:
        server.write("a", "Running")
        stream.follow(1)

    server.watches.append(one_event)
    pods()
    server.until(lambda: server.asked("watch") > 5, "the sixth watch")
    assert clock.pauses == [0.0, *BACK_OFF[:4], 0.0]


def test_the_server_is_left_alone_for_as_long_as_it_asks(
    pods: Callable[[], Feed], server: Scripted, clock: Brisk
) -> None:
    server.watches.append(refusal(429, "TooManyRequests", "slow down", retryAfterSeconds=7))
    feed = pods()
    server.until(lambda: server.following, "a stream")
    assert clock.pauses == [0.0, 7.0]
    assert "TooManyRequests" in feed.cuts[0]


# -- versions that are gone --------------------------------------------------------------------


@pytest.mark.parametrize("by_http", [False, True])
def test_a_version_that_is_gone_is_listed_again_and_is_a_gap(
    pods: Callable[[], Feed], server: Scripted, by_http: Any
) -> None:
    server.expire_by_http = by_http
    server.write("a", "Pending")
    server.write("b", "Pending")
    feed = pods()
    caught_up(feed, server)
    server.until(lambda: server.following, "an open stream")
    known = server.revision
    with server.changed:
        server.tell("cut")
        server.write("a", "Flash")
        server.write("a", "Running")
        server.delete("b")
        server.write("c", "Pending")
        server.compact()
    caught_up(feed, server)
    assert seen(feed)[2:] == [
        ("GAP", "", ""),
        ("DELETED", "b", "Pending"),
        ("MODIFIED", "a", "Running"),
        ("ADDED", "c", "Pending"),
    ]
    (gap,) = feed.history.gaps()
    assert (gap.after, gap.upto) == (str(known), str(server.revision))
    assert "410" in gap.reason
    assert gap.since <= gap.until
    assert not feed.healthy()
    assert {r.source for r in feed.history.revisions()} == {"list"}


def test_after_a_gap_the_stream_goes_on_from_the_list(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    server.watches.append(expire)
    feed = pods()
    server.until(lambda: server.following, "a stream")
    server.write("a", "Running")
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "a")
    assert [query["resourceVersion"] for sort, query in server.seen if sort == "watch"][1:] == [
        "100"
    ]


def test_a_410_where_nothing_was_written_is_no_gap(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    server.watches.append(expire)
    feed = pods()
    server.until(lambda: server.following, "a stream")
    assert server.asked("list") == 2
    assert feed.history.gaps() == []


def test_a_gap_begins_where_its_version_was_first_reached(
    pods: Callable[[], Feed], server: Scripted, clock: Brisk
) -> None:
    """The same bookmark again, late, says nothing of what came in between."""

    def late(stream: Stream) -> None:
        stale = server.bookmark_line()
        server.write("a", "Running")
        clock.offset += 1000.0
        stream.raw(stale)
        expire(stream)

    server.watches.append(late)
    feed = pods()
    until(feed, lambda: feed.history.gaps())
    (gap,) = feed.history.gaps()
    assert 1000.0 <= gap.until - gap.since < 1000.0 + LIMIT


@pytest.mark.parametrize("where", ["list", "watch", "event"])
def test_a_leader_change_is_tried_again_and_loses_nothing(
    pods: Callable[[], Feed], server: Scripted, where: str
) -> None:
    changed = refusal(500, "InternalError", "etcdserver: leader changed")

    def in_the_stream(stream: Stream) -> None:
        server.write("a", "Flash")
        stream.event("ERROR", changed[1])
        stream.end()

    server.write("a", "Pending")
    server.watches.append({"list": expire, "watch": changed, "event": in_the_stream}[where])
    feed = pods()
    if where == "list":
        server.lists.extend([changed, changed])
    if where == "event":
        server.until(lambda: len(server.written) == 2, "the flash")
    server.write("a", "Running")
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "running")
    assert any("leader changed" in cut for cut in feed.cuts) or where == "list"
    assert bool(feed.history.gaps()) == (where == "list" and "GAP" in dict.fromkeys(_changes(feed)))
    if where == "event":
        assert _changes(feed) == ["ADDED", "MODIFIED", "MODIFIED"]


def _changes(feed: Feed) -> list[str]:
    return [change for change, _, _ in seen(feed)]


def test_a_list_that_fails_in_mid_run_is_tried_until_it_succeeds(
    pods: Callable[[], Feed], server: Scripted, clock: Brisk
) -> None:
    server.write("a", "Pending")
    feed = pods()
    caught_up(feed, server)
    server.until(lambda: server.following, "an open stream")
    with server.changed:
        server.lists.extend([refusal(500, "InternalError", "etcdserver: leader changed")] * 3)
        server.lists.append((200, {"kind": "PodList", "metadata": {}, "items": []}))
        server.tell("cut")
        server.write("a", "Running")
        server.compact()
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "running")
    assert seen(feed) == [("ADDED", "a", "Pending"), ("GAP", "", ""), ("MODIFIED", "a", "Running")]
    assert sum("leader changed" in cut for cut in feed.cuts) == 3
    assert any("without a resourceVersion" in cut for cut in feed.cuts)
    assert clock.pauses[-5:] == list(BACK_OFF[1:])[:5]


# -- silence and junk --------------------------------------------------------------------------


def silent_pods(server: Scripted, clock: Brisk) -> Feed:
    watching = Observatory(clock, silence=SILENCE)
    return watching.feed(kube(server, clock), "v1", "Pod", "lab")


def test_what_a_dead_connection_kept_back_is_resumed_without_a_gap(
    server: Scripted, clock: Brisk
) -> None:
    server.watches.append(Stream.hold)
    feed = silent_pods(server, clock)
    for each in ("Pending", "Flash", "Running"):
        server.write("a", each)
    assert feed.wait(phase("Running"), clock.deadline(LIMIT), "running")
    assert [p for _, _, p in seen(feed)] == ["Pending", "Flash", "Running"]
    assert feed.healthy()
    assert server.asked("list") == 1
    feed.close()


def test_what_every_stream_keeps_back_is_found_by_a_probe_and_is_a_gap(
    server: Scripted, clock: Brisk
) -> None:
    server.always = Stream.hold
    feed = silent_pods(server, clock)
    server.write("a", "Pending")
    server.write("a", "Running")
    met = feed.wait(phase("Running"), clock.deadline(LIMIT), "running")
    assert met is not None
    assert met.source == "probe"
    assert seen(feed) == [("GAP", "", ""), ("ADDED", "a", "Running")]
    assert [(g.after, g.upto) for g in feed.history.gaps()] == [("100", "102")]
    feed.close()


def test_a_server_that_never_answers_a_watch_is_probed_too(server: Scripted, clock: Brisk) -> None:
    def no_headers(stream: Stream) -> None:
        stream.hold()

    server.mute = True
    server.always = no_headers
    feed = silent_pods(server, clock)
    server.write("a", "Running")
    met = feed.wait(phase("Running"), clock.deadline(LIMIT), "running")
    assert met is not None
    assert met.source == "probe"
    feed.close()


def test_a_quiet_cluster_is_probed_and_is_no_gap(server: Scripted, clock: Brisk) -> None:
    """What came and went between two probes is in neither: the stream's own version is kept."""
    server.write("a", "Running")
    server.watches.extend([Stream.hold, Stream.hold])
    feed = silent_pods(server, clock)
    server.until(lambda: server.asked("watch") == 2, "the second stream")
    server.write("b", "Flash")
    server.delete("b")
    server.until(lambda: server.asked("list") == 2, "a probe")
    until(feed, lambda: len(seen(feed)) == 3)
    assert seen(feed)[1:] == [("ADDED", "b", "Flash"), ("DELETED", "b", "Flash")]
    assert feed.history.gaps() == []
    feed.close()


def test_one_silent_stream_after_an_event_is_no_reason_to_probe(
    server: Scripted, clock: Brisk
) -> None:
    def event_then_silence(stream: Stream) -> None:
        stream.event("ADDED", server.write("a", "Running"))
        stream.hold()

    lists: list[int] = []

    def third(stream: Stream) -> None:
        lists.append(server.asked("list"))  # this one is silent as well, and soon is a reason
        stream.hold()

    server.watches.extend([Stream.hold, event_then_silence, third])
    feed = silent_pods(server, clock)
    server.until(lambda: bool(lists), "the third stream")
    feed.close()
    assert lists == [1]


JUNK = [
    b"<html>Bad Gateway</html>\n",
    b"\xff\xfe\n",
    b"[]\n",
    b'{"type": "ADDED", "object": {}}\n',
    b'{"type": "ADDED", "object": {"metadata": {"resourceVersion": "101"}}}\n',
    b'{"type": "ADDED", "object": {"metadata": {"name": "a"}}}\n',
    b'{"type": "NEWS", "object": {"metadata": {"name": "a", "resourceVersion": "101"}}}\n',
    b'{"type": "ERROR", "object": "no"}\n',
    b'{"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": 101}}}\n',
]


@pytest.mark.parametrize("junk", JUNK)
def test_junk_is_resumed_by_version(
    pods: Callable[[], Feed], server: Scripted, junk: bytes
) -> None:
    def garbled(stream: Stream) -> None:
        stream.raw(junk)
        stream.hold()

    server.watches.append(garbled)
    feed = pods()
    server.write("a", "Running")
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "a")
    assert seen(feed) == [("ADDED", "a", "Running")]
    assert len(feed.cuts) == 1
    assert "no watch event" in feed.cuts[0]


def test_an_event_that_stays_junk_is_passed_by_a_list_and_is_a_gap(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    def garbled(stream: Stream) -> None:
        server.write("a", "Running")
        stream.raw(b"junk\n")
        stream.end()

    server.watches.extend([garbled, garbled])
    feed = pods()
    until(feed, lambda: feed.history.gaps())
    assert "junk" in feed.history.gaps()[0].reason
    assert feed.object("a") is not None


def test_empty_lines_are_nothing(pods: Callable[[], Feed], server: Scripted) -> None:
    def blanks(stream: Stream) -> None:
        stream.raw(b"\n\r\n \n" + line("ADDED", server.write("a", "Running")))
        stream.hold()

    server.watches.append(blanks)
    feed = pods()
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "a")
    assert feed.cuts == []


def test_what_a_server_says_again_is_not_seen_twice(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    def replay(stream: Stream) -> None:
        for obj in list(server.pods.values()):
            stream.event("ADDED", obj)
        stream.follow()

    server.write("a", "Pending")
    server.write("b", "Running")
    server.watches.append(replay)
    feed = pods()
    caught_up(feed, server)
    server.until(lambda: server.following, "the end of the replay")
    server.write("b", "Failed")
    assert feed.wait(phase("Failed"), feed.clock.deadline(LIMIT), "b")
    assert _changes(feed) == ["ADDED", "ADDED", "MODIFIED"]
    assert feed.position() == 103


# -- refusals and outages ----------------------------------------------------------------------


@pytest.mark.parametrize("code", [401, 403])
@pytest.mark.parametrize("where", ["watch", "list", "event"])
def test_a_refusal_in_mid_run_ends_the_wait_with_it(
    pods: Callable[[], Feed], server: Scripted, code: int, where: str
) -> None:
    no = refusal(code, "Forbidden", "pods is forbidden")
    server.write("a", "Pending")
    feed = pods()
    times = 2 if code == 401 else 1  # the token may just have been renewed
    caught_up(feed, server)
    server.until(lambda: server.following, "an open stream")

    def told(stream: Stream) -> None:
        stream.event("ERROR", no[1])
        stream.end()

    with server.changed:
        server.watches.extend([{"watch": no, "list": expire, "event": told}[where]] * times)
        if where == "list":
            server.lists.extend([no] * times)
        server.tell("end")
    with pytest.raises(Refused) as refused:
        feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "running")
    assert refused.value.code == code
    waited = feed.outcome(phase("Running"), feed.clock.deadline(LIMIT), "running")
    assert (waited.kind, waited.healthy) == ("refused", False)
    assert str(code) in waited.error
    assert "pods is forbidden" in str(waited)
    assert feed.wait(phase("Pending"), feed.clock.deadline(0), "what was seen before") is not None
    assert not feed.healthy()
    asked = server.asked()
    assert feed.clock.back_off(0.05, threading.Event()) is False
    assert server.asked() == asked


def test_a_kind_that_is_gone_ends_the_wait(pods: Callable[[], Feed], server: Scripted) -> None:
    server.watches.append(refusal(404, "NotFound", "the server could not find the resource"))
    feed = pods()
    with pytest.raises(ApiRefused, match="could not find"):
        feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "running")


@pytest.mark.parametrize(
    ("first", "error"),
    [
        (refusal(403, "Forbidden", "no"), Refused),
        (refusal(500, "InternalError", "etcdserver: leader changed"), ApiRefused),
        ((200, {"kind": "PodList", "metadata": {}, "items": []}), Garbled),
        ((200, {"metadata": {"resourceVersion": "7"}, "items": [{"metadata": {}}]}), Garbled),
    ],
)
def test_the_first_error_is_the_callers_and_the_next_may_try_again(
    pods: Callable[[], Feed],
    observatory: Observatory,
    server: Scripted,
    first: tuple[int, dict[str, Any]],
    error: type[LabError],
) -> None:
    server.lists.append(first)
    with pytest.raises(error):
        pods()
    assert observatory.feeds() == []
    assert server.asked("watch") == 0
    assert pods().healthy()


def test_a_server_that_is_down_from_the_start_is_the_callers(
    observatory: Observatory, clock: Brisk
) -> None:
    with scripted() as gone:
        cluster = kube(gone, clock)
    with pytest.raises(Unreachable):
        observatory.feed(cluster, "v1", "Pod", "lab")


def test_an_outage_is_sat_out_and_loses_nothing(
    pods: Callable[[], Feed], server: Scripted, clock: Brisk
) -> None:
    server.write("a", "Pending")
    feed = pods()
    caught_up(feed, server)
    server.down()
    until(feed, lambda: len(feed.cuts) > 3)
    server.write("a", "Flash")
    server.write("a", "Running")
    server.up()
    assert feed.wait(phase("Running"), clock.deadline(LIMIT), "running")
    assert [p for _, _, p in seen(feed)] == ["Pending", "Flash", "Running"]
    assert feed.healthy()
    assert any("efused" in cut for cut in feed.cuts)


# -- predicates --------------------------------------------------------------------------------


@pytest.mark.parametrize("early", [True, False])
def test_a_predicates_own_bug_is_raised_at_once_where_the_wait_was_made(
    pods: Callable[[], Feed], server: Scripted, early: Any
) -> None:
    def buggy(revision: Revision) -> bool:
        return bool(revision.obj["statu"])

    feed = pods()
    caught = threading.Event()

    def healthy_wait() -> None:
        if feed.wait(phase("Failed"), feed.clock.deadline(LIMIT), "another wait"):
            caught.set()

    other = threading.Thread(target=healthy_wait)
    other.start()
    if early:
        server.write("a", "Running")
        caught_up(feed, server)
    else:
        threading.Timer(0.05, server.write, ("a", "Running")).start()
    began = feed.clock.monotonic()
    with pytest.raises(KeyError, match="statu"):
        feed.wait(buggy, feed.clock.deadline(60), "a misspelt field")
    assert feed.clock.monotonic() - began < LIMIT
    server.write("a", "Failed")
    other.join(LIMIT)
    assert caught.is_set()


def test_a_predicate_that_calls_the_test_a_failure_fails_the_test(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    feed = pods()
    threading.Timer(0.05, server.write, ("a", "Failed")).start()
    with pytest.raises(pytest.fail.Exception, match="it failed"):
        feed.wait(lambda r: pytest.fail("it failed"), feed.clock.deadline(LIMIT), "nothing")
    server.write("a", "Running")
    assert feed.wait(phase("Running"), feed.clock.deadline(LIMIT), "still watching")


# -- names used again --------------------------------------------------------------------------


def test_a_name_used_again_is_a_deletion_and_an_addition(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    server.write("a", "Running")
    feed = pods()
    server.delete("a")
    server.write("a", "Pending")
    caught_up(feed, server)
    assert _changes(feed) == ["ADDED", "DELETED", "ADDED"]
    assert [r.uid for r in feed.history.revisions()] == ["uid-1", "uid-1", "uid-2"]


def test_a_replacement_across_a_gap_is_a_deletion_and_an_addition(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    server.write("a", "Running")
    feed = pods()
    caught_up(feed, server)
    server.until(lambda: server.following, "an open stream")
    with server.changed:
        server.tell("cut")
        server.delete("a")
        server.write("a", "Pending")
        server.compact()
    caught_up(feed, server)
    assert _changes(feed) == ["ADDED", "GAP", "DELETED", "ADDED"]
    assert [r.uid for r in feed.history.revisions()] == ["uid-1", "uid-1", "uid-2"]


def test_a_deletion_under_the_last_version_is_one(
    pods: Callable[[], Feed], server: Scripted
) -> None:
    pod = server.write("a", "Running")

    def delete(stream: Stream) -> None:
        stream.event("DELETED", pod)
        stream.hold()

    server.watches.append(delete)
    feed = pods()
    until(feed, lambda: feed.objects() == [])
    assert _changes(feed) == ["ADDED", "DELETED"]


@pytest.mark.parametrize(
    ("error", "final"),
    [
        (BadCertificate("a", "b", "c"), True),
        (Unreachable("a", "b", "c"), False),
        (Garbled("a", "b", "c"), False),
        *((ApiRefused(code, "", ""), True) for code in (400, 401, 403, 404, 422)),
        *((ApiRefused(code, "", ""), False) for code in (408, 410, 429, 500, 503, 504)),
    ],
)
def test_what_is_tried_again_is_a_closed_list(error: LabError, final: object) -> None:
    assert is_final(error) is final


# -- closing -----------------------------------------------------------------------------------


def watchers() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("watch ")]


def test_close_is_prompt_and_leaves_no_thread_and_no_socket(server: Scripted, clock: Brisk) -> None:
    watching = Observatory(clock)
    cluster = kube(server, clock)
    for label in ("a", "b", "c"):
        watching.feed(cluster, "v1", "Pod", "lab", labels=label)
    server.until(lambda: len(server.following) == 3, "three streams")
    began = clock.monotonic()
    watching.close()
    assert clock.monotonic() - began < 1.0
    assert watchers() == []
    cluster.client.rest_client.pool_manager.clear()
    gc.collect()
    server.until(lambda: not server.open, "every connection to end")
    assert all(feed.cuts == [] for feed in watching.feeds())


@pytest.mark.parametrize("state", ["quiet", "busy", "ending", "down", "backing off"])
def test_close_is_prompt_in_every_state(server: Scripted, state: str) -> None:
    clock = WallClock()
    if state == "ending":
        server.always = end_at_once
    if state == "busy":
        server.always = _flood
    if state == "backing off":
        server.always = refusal(429, "TooManyRequests", "later", retryAfterSeconds=20)
    watching = Observatory(clock)
    feed = watching.feed(kube(server, clock), "v1", "Pod", "lab")
    server.until(lambda: server.asked("watch"), "a watch")
    if state == "down":
        server.down()
        until(feed, lambda: feed.cuts)
    began = clock.monotonic()
    watching.close()
    assert clock.monotonic() - began < 1.0
    assert watchers() == []
    length = len(feed.history.entries)
    if state == "down":
        server.up()
    server.write("late", "Running")
    assert len(feed.history.entries) == length


def test_close_waits_no_longer_for_many_feeds_than_for_one(
    server: Scripted, clock: Brisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stream that does not open cannot be cut: its watcher ends when the attempt does."""
    monkeypatch.setattr("harness.reach.watch.CLOSING", 0.2)
    server.mute, server.always = True, Stream.hold
    watching = Observatory(clock)
    for label in "abcdef":
        watching.feed(kube(server, clock), "v1", "Pod", "lab", labels=label)
    server.until(lambda: server.asked("watch") == 6, "six watches")
    began = clock.monotonic()
    watching.close()
    assert clock.monotonic() - began < 0.8


def _flood(stream: Stream) -> None:
    while True:
        stream.event("MODIFIED", stream.server.write("a", "Running"))


def test_close_may_come_while_the_stream_is_being_opened(server: Scripted, clock: Brisk) -> None:
    """Many times over, since the moment is short."""
    cluster = kube(server, clock)
    for _ in range(30):
        watching = Observatory(clock)
        watching.feed(cluster, "v1", "Pod", "lab")
        began = clock.monotonic()
        watching.close()
        assert clock.monotonic() - began < 1.0
    assert watchers() == []


def test_a_wait_on_a_closed_feed_says_so(pods: Callable[[], Feed], server: Scripted) -> None:
    server.write("a", "Pending")
    feed = pods()
    threading.Timer(0.05, feed.close).start()
    began = feed.clock.monotonic()
    with pytest.raises(LabError, match="closed"):
        feed.wait(phase("Running"), feed.clock.deadline(20), "running")
    assert feed.clock.monotonic() - began < LIMIT
    assert feed.wait(phase("Pending"), feed.clock.deadline(0), "what was seen") is not None
    feed.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_watcher_that_breaks_ends_the_wait_and_says_so(
    pods: Callable[[], Feed], server: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    feed = pods()
    server.until(lambda: server.following, "a stream")
    monkeypatch.setattr(feed.history, "_now", None)
    server.write("a", "Running")
    until(feed, lambda: feed.refused)
    assert "bug of the harness" in str(feed.refused)
    with pytest.raises(LabError, match="bug of the harness"):
        feed.outcome(phase("Running"), feed.clock.deadline(LIMIT), "running")


def test_a_version_that_is_no_number_is_said_so(server: Scripted, clock: Brisk) -> None:
    server.lists.append((200, {"metadata": {"resourceVersion": "a7f"}, "items": []}))
    server.always = Stream.hold
    feed = Observatory(clock).feed(kube(server, clock), "v1", "Pod", "lab")
    with pytest.raises(LabError, match=r"'a7f', which is no number"):
        feed.position()
    assert feed.healthy()
    feed.close()
