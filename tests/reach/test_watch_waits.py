"""Many waits on one feed, counts, what an outcome tells, and the look at the limit."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.reach.conditions import phase as has_phase
from harness.reach.counts import AllOf, AtLeast, Everyone, Gone
from harness.reach.errors import ApiRefused
from harness.reach.history import Revision
from harness.reach.involved import FedEvents
from harness.reach.watch import Feed, Observatory
from tests.reach.scripted import Brisk, Scripted, Stream, kube, phase, scripted, seen

LIMIT = 5.0


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def clock() -> Brisk:
    return Brisk()


@pytest.fixture
def start(server: Scripted, clock: Brisk) -> Iterator[Callable[..., Feed]]:
    opened: list[Observatory] = []

    def make(**options: Any) -> Feed:
        opened.append(Observatory(clock, **options))
        return opened[-1].feed(kube(server, clock), "v1", "Pod", "lab")

    yield make
    for each in opened:
        each.close()


def known(feed: Feed, server: Scripted) -> None:
    wanted = server.revision
    assert feed.clock.wait(
        lambda: feed.position() >= wanted, feed.clock.deadline(LIMIT), "the feed to catch up"
    )


def lose(feed: Feed, server: Scripted, *, write: Callable[[], object]) -> None:
    """Make the feed list again after something was written."""
    known(feed, server)
    server.until(lambda: server.following, "an open stream")
    with server.changed:
        server.tell("cut")
        write()
        server.compact()
    known(feed, server)


# -- who is offered what -----------------------------------------------------------------------


def test_a_named_wait_looks_at_its_object_only(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    feed = start()
    for n in range(200):
        server.write(f"pod-{n % 20}", f"phase-{n}")
    known(feed, server)
    looked: list[str] = []

    def met(revision: Revision) -> bool:
        looked.append(revision.key[1])
        return revision.obj["status"]["phase"] == "Running"

    threading.Timer(0.05, lambda: server.write("pod-4", "Running")).start()
    for n in range(20):
        server.write(f"pod-{n}", "Pending")
    found = feed.wait(met, feed.clock.deadline(LIMIT), "pod-3", name="pod-4")
    assert found is not None
    assert set(looked) == {"pod-4"}
    assert len(looked) == 12


def test_five_hundred_waits_cost_one_look_each(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    feed = start()
    count = 500
    looks = [0] * count
    kinds: list[str] = [""] * count
    ready = threading.Barrier(count + 1)

    def wait(n: int) -> None:
        def met(revision: Revision) -> bool:
            looks[n] += 1
            return True

        ready.wait(LIMIT)
        waited = feed.outcome(met, feed.clock.deadline(20), "it", name=f"pod-{n}")
        kinds[n] = waited.kind

    threads = [threading.Thread(target=wait, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    ready.wait(LIMIT)
    for n in range(count):
        server.write(f"pod-{n}", "Running")
    for thread in threads:
        thread.join(20)
    assert kinds == ["met"] * count
    assert looks == [1] * count
    assert feed.requests == 2


def test_an_object_that_comes_later_is_known_by_its_uid(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    feed = start()

    def live() -> None:
        server.write("a", "Pending")
        server.write("a", "Running")
        server.delete("a")
        server.write("a", "Failed")

    threading.Timer(0.05, live).start()
    waited = feed.outcome(phase("Gone"), feed.clock.deadline(LIMIT), "it", uid="uid-1")
    assert waited.kind in ("deleted", "replaced")
    assert waited.seconds < LIMIT
    assert {r.key for r in waited.last} == {("lab", "a")}


def test_a_uid_decides_although_a_name_is_given(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    server.write("a", "Running")
    server.delete("a")
    server.write("a", "Pending")
    feed = start()
    waited = feed.outcome(phase("Running"), feed.clock.deadline(0.02), "it", uid="uid-2", name="a")
    assert waited.kind == "timed-out"


def test_a_namespace_without_a_name_is_the_callers_mistake(start: Callable[..., Feed]) -> None:
    feed = start()
    with pytest.raises(ValueError, match="which object"):
        feed.wait(phase("Running"), feed.clock.deadline(60), "it", namespace="lab")


def test_a_wait_that_is_over_leaves_nothing_behind(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    server.write("a", "Running")
    feed = start()
    for options in ({}, {"name": "a"}, {"uid": "uid-1"}, {"uid": "uid-7"}, {"name": "b"}):
        feed.outcome(phase("Gone"), feed.clock.deadline(0.01), "it", **options)
    feed.standing(Gone("a"), feed.clock.deadline(0.01), "it")
    assert feed._picture.waiters.all() == []


# -- counts ------------------------------------------------------------------------------------


def test_a_state_in_the_middle_of_a_list_is_none(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    """The list shows "a" before "b", and after a gap says what is gone before what is new."""
    server.write("a", "Running")
    server.write("b", "Pending")
    feed = start()
    everyone = Everyone(has_phase("Running"), 1)
    assert feed.standing(everyone, feed.clock.deadline(0.02), "all").kind == "timed-out"

    def swap() -> None:
        server.delete("b")
        server.write("c", "Pending")

    told: list[str] = []

    def wait() -> None:
        told.append(feed.standing(everyone, feed.clock.deadline(0.5), "all").kind)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert feed.clock.wait(lambda: feed._picture.waiters.all(), feed.clock.deadline(LIMIT), "it")
    lose(feed, server, write=swap)
    waiting.join(LIMIT)
    assert told == ["gap"]


def test_all_of_enough_objects(server: Scripted, start: Callable[..., Feed]) -> None:
    feed = start()
    threading.Timer(0.05, lambda: [server.write(n, "Running") for n in "abc"]).start()
    waited = feed.standing(
        Everyone(has_phase("Running"), 3), feed.clock.deadline(LIMIT), "three pods"
    )
    assert waited.kind == "met"
    assert waited.stands.startswith("3 of 3")
    assert waited.revision is not None
    assert waited.revision.key[1] == "c"


def test_a_count_is_of_now_and_what_follows(server: Scripted, start: Callable[..., Feed]) -> None:
    feed = start()
    server.write("a", "Running")
    known(feed, server)
    waited = feed.standing(Gone("a"), feed.clock.deadline(0.02), "a to go")
    assert (waited.kind, waited.stands) == ("timed-out", "1 still there (lab/a)")
    threading.Timer(0.05, server.delete, ("a",)).start()
    assert feed.standing(Gone("a"), feed.clock.deadline(LIMIT), "a to go").kind == "met"
    assert feed.standing(Gone("never"), feed.clock.deadline(0), "it").kind == "met"


def test_a_count_while_nothing_can_be_seen_is_not_asked(
    server: Scripted, start: Callable[..., Feed], clock: Brisk
) -> None:
    feed = start()
    server.until(lambda: server.following, "an open stream")
    server.down()
    assert clock.wait(lambda: len(feed.cuts) > 2, clock.deadline(LIMIT), "cuts")
    clock.ahead = 100.0
    waited = feed.standing(Gone("a"), clock.deadline(0.02), "it")
    assert (waited.kind, bool(waited.blind)) == ("gap", True)
    server.up()
    assert feed.standing(Gone("a"), clock.deadline(LIMIT), "it").kind == "met"


def test_a_count_says_whether_something_was_missed(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    feed = start()
    lose(feed, server, write=lambda: server.write("a", "Flash"))
    both = AllOf(AtLeast(has_phase("Running"), 1), Gone("b"))
    waited = feed.standing(both, feed.clock.deadline(0.02), "it")
    assert (waited.kind, waited.gaps) == ("timed-out", ()), "the gap was before"


def test_a_counts_own_bug_is_raised_at_once(server: Scripted, start: Callable[..., Feed]) -> None:
    server.write("a", "Running")
    feed = start()
    with pytest.raises(KeyError, match="statu"):
        feed.standing(AtLeast(lambda r: r.obj["statu"], 1), feed.clock.deadline(60), "it")


# -- what an outcome tells ---------------------------------------------------------------------


def test_the_history_in_short(server: Scripted, start: Callable[..., Feed]) -> None:
    feed = start()
    no = {"type": "Ready", "status": "False", "reason": "Booting"}
    server.write("a", "Pending", conditions=[no])
    server.write("a", "Pending", conditions=[no], seen=2)
    server.write("a", "Running", conditions=[{**no, "status": "True", "reason": ""}])
    server.write("b", "Pending")
    known(feed, server)
    waited = feed.outcome(phase("Gone"), feed.clock.deadline(0.02), "a to go", name="a")
    assert [(row.change, row.version, row.told) for row in waited.story] == [
        ("ADDED", "101", "phase Pending, Ready=False (Booting)"),
        ("MODIFIED", "102", "no phase or condition changed"),
        ("MODIFIED", "103", "phase Pending→Running, Ready=False→True"),
    ]
    assert all(-LIMIT < row.offset <= 0 for row in waited.story)
    assert "+" not in str(waited.story[0])
    assert waited.report().splitlines()[1] == "history:"


def test_a_long_history_is_cut_and_says_so(server: Scripted, start: Callable[..., Feed]) -> None:
    feed = start()
    server.write("b", "Pending")
    for n in range(30):
        server.write("a", f"phase-{n}")
    known(feed, server)
    waited = feed.outcome(phase("Gone"), feed.clock.deadline(0.02), "it")
    assert (len(waited.story), waited.earlier) == (20, 11)
    assert waited.story[0].told == "phase phase-9→phase-10"
    assert "after 11 earlier revisions" in waited.report()


class Events:
    def __init__(self, *found: dict[str, Any], error: ApiRefused | None = None) -> None:
        self.found, self.error = list(found), error
        self.asked: list[tuple[str, ...]] = []

    def of(self, *about: str) -> list[dict[str, Any]]:
        self.asked.append(about)
        if self.error:
            raise self.error
        return self.found


def test_an_outcome_in_vain_brings_the_objects_events(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    server.write("a", "Pending")
    feed = start()
    about = {"kind": "Pod", "name": "a", "uid": "uid-1"}
    events = Events(
        {"metadata": {}, "involvedObject": about, "reason": "Failed", "message": "no image"}
    )
    limit = feed.clock.deadline(0.02)
    waited = feed.outcome(phase("Running"), limit, "it", name="a", events=events)
    assert events.asked == [("Pod", "lab", "a")]
    assert waited.events == ("  Failed: no image",)
    assert "Failed: no image" in waited.report()
    feed.outcome(phase("Pending"), limit, "it", name="a", events=events)
    assert len(events.asked) == 1, "a wait that was met asks nothing"


def test_events_that_cannot_be_had_are_said_and_no_error(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    feed = start()
    refused = Events(error=ApiRefused(403, "Forbidden", "events is forbidden"))
    nobody = feed.outcome(phase("x"), feed.clock.deadline(0), "it", events=refused)
    assert nobody.events_unread == "no object was ever seen"
    server.write("a", "Pending")
    known(feed, server)
    waited = feed.outcome(phase("x"), feed.clock.deadline(0), "it", events=refused)
    assert "events is forbidden" in waited.events_unread
    assert waited.kind == "timed-out"
    assert "could not be read" in waited.report()
    fed = feed.outcome(phase("x"), feed.clock.deadline(0), "it", events=FedEvents(feed))
    assert (fed.events, fed.events_unread) == ((), "")


# -- what was missed, and what was forgotten ---------------------------------------------------


def test_a_gap_is_none_for_an_object_that_nobody_wrote(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    server.write("a", "Pending")
    server.write("b", "Pending")
    feed = start()
    lose(feed, server, write=lambda: (server.write("b", "Flash"), server.write("b", "Running")))
    limit = feed.clock.deadline(0.02)
    assert feed.outcome(phase("Flash"), limit, "a", name="a").kind == "timed-out"
    assert feed.outcome(phase("Flash"), limit, "a", uid="uid-1").kind == "timed-out"
    assert feed.outcome(phase("Flash"), limit, "b", name="b").kind == "gap"
    assert feed.outcome(phase("Flash"), limit, "c", name="c").kind == "gap", "it came and went?"
    assert feed.outcome(phase("Flash"), limit, "any").kind == "gap"


def test_what_was_forgotten_answers_nothing(server: Scripted, start: Callable[..., Feed]) -> None:
    server.write("quiet", "Pending")
    feed = start(history=8_000)
    early: list[str] = []

    def wait() -> None:
        limit = feed.clock.deadline(3)
        early.append(feed.outcome(phase("never"), limit, "it", name="a").kind)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert feed.clock.wait(lambda: feed._picture.waiters.all(), feed.clock.deadline(LIMIT), "it")
    for n in range(60):
        server.write("a", "Flash" if n == 5 else f"phase-{n}")
    known(feed, server)
    limit = feed.clock.deadline(0.02)
    forgotten = feed.outcome(phase("Flash"), limit, "the flash", name="a")
    assert (forgotten.kind, forgotten.healthy) == ("gap", False)
    assert forgotten.compacted is not None
    assert "are forgotten" in str(forgotten)
    assert feed.outcome(phase("Flash"), limit, "it").kind == "gap"
    assert feed.outcome(phase("phase-59"), limit, "what is so now", name="a").kind == "met"
    assert feed.outcome(phase("Flash"), limit, "it", name="quiet").kind == "timed-out"
    assert feed.object("quiet") is not None
    assert not feed.healthy()
    waiting.join(LIMIT)
    assert early == ["timed-out"], "who waited from the beginning saw it all"


# -- lists -------------------------------------------------------------------------------------


def test_a_list_of_many_pages_is_the_first_ones_state(
    server: Scripted, start: Callable[..., Feed]
) -> None:
    server.page = 3
    for n in range(10):
        server.write(f"pod-{n}", "Pending")
    server.between_pages = lambda: server.write("pod-9", f"phase-{server.revision}")
    feed = start()
    server.between_pages = lambda: None
    known(feed, server)
    assert server.asked("list") == 4
    told = [(change, name) for change, name, _ in seen(feed)]
    assert told == [("ADDED", f"pod-{n}") for n in range(10)] + [("MODIFIED", "pod-9")] * 3
    assert feed.healthy()


# -- the look at the limit ---------------------------------------------------------------------


def test_a_silent_stream_is_found_out_before_the_limit(
    server: Scripted, start: Callable[..., Feed], clock: Brisk
) -> None:
    """The stream after it is whole: nothing is missing."""
    server.watches.append(Stream.hold)
    feed = start()
    server.until(lambda: server.asked("watch"), "a watch")
    for each in ("Pending", "Flash", "Running"):
        server.write("a", each)
    clock.ahead = 10.0
    waited = feed.outcome(phase("Running"), clock.deadline(1.0), "a", name="a")
    assert (waited.kind, waited.healthy) == ("met", True)
    assert waited.seconds < 1.0
    assert [p for _, _, p in seen(feed)] == ["Pending", "Flash", "Running"]
    assert "kept back" in feed.cuts[0]


def test_a_server_whose_streams_are_all_silent_is_found_out_too(
    server: Scripted, start: Callable[..., Feed], clock: Brisk
) -> None:
    server.always = Stream.hold
    feed = start()
    server.write("a", "Running")
    clock.ahead = 10.0
    waited = feed.outcome(phase("Running"), clock.deadline(1.2), "a")
    assert (waited.kind, waited.healthy) == ("met", False)
    assert waited.revision is not None
    assert waited.revision.source == "probe"
    server.write("a", "Failed")
    clock.ahead = 20.0
    waited = feed.outcome(phase("Gone"), clock.deadline(1.2), "a")
    assert waited.kind == "gap"


def test_a_quiet_server_that_keeps_nothing_back_is_healthy(
    server: Scripted, start: Callable[..., Feed], clock: Brisk
) -> None:
    server.write("a", "Pending")
    server.always = Stream.hold
    feed = start()
    server.until(lambda: server.asked("watch"), "a watch")
    clock.ahead = 10.0
    waited = feed.outcome(phase("Running"), clock.deadline(2.0), "a")
    assert (waited.kind, waited.healthy) == ("timed-out", True)
    assert waited.unheard < 1.0
    assert server.asked("list") == 2
    assert feed.cuts == []
    feed.outcome(phase("Running"), clock.deadline(0.1), "a")
    assert server.asked("list") == 2, "it was heard a moment ago"


def test_a_look_that_gets_no_answer_makes_no_claim_and_no_delay(
    server: Scripted, start: Callable[..., Feed], clock: Brisk
) -> None:
    server.page = 1
    for name in "ab":
        server.write(name, "Pending")
    server.always = Stream.hold
    feed = start()
    server.until(lambda: server.asked("watch"), "a watch")
    hung = threading.Event()
    server.between_pages = lambda: hung.wait(LIMIT)
    clock.ahead = 10.0
    began = clock.monotonic()
    waited = feed.outcome(phase("Running"), clock.deadline(0.4), "a")
    assert clock.monotonic() - began < 0.45
    assert waited.kind == "gap"
    assert "no answer yet" in waited.blind
    hung.set()


@pytest.mark.parametrize("what", ["quiet", "busy"])
def test_a_limit_is_kept(
    server: Scripted, start: Callable[..., Feed], clock: Brisk, what: str
) -> None:
    feed = start()
    done = threading.Event()

    def write() -> None:
        n = 0
        while not done.wait(0.001):
            n += 1
            server.write(f"pod-{n % 50}", f"phase-{n}")

    busy = threading.Thread(target=write)
    if what == "busy":
        busy.start()
    over = []
    for _ in range(10):
        began = clock.monotonic()
        feed.outcome(phase("never"), clock.deadline(0.05), "it")
        over.append(clock.monotonic() - began - 0.05)
    done.set()
    if what == "busy":
        busy.join(LIMIT)
    assert min(over) >= -0.001
    assert sorted(over)[5] < 0.05
