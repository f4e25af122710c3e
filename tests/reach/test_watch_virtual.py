"""On virtual time: each arrival has the lab's own time, and no look comes before the barrier."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Iterator

import pytest

from harness.clock import ClockStuck, VirtualClock
from harness.reach.errors import LabError, Refused
from harness.reach.following import RESUMED_SILENCE
from harness.reach.watch import SILENCE_FOLLOWED, Feed, Observatory
from tests.reach.scripted import (
    Scripted,
    Stream,
    Timetable,
    cut_at_once,
    end_at_once,
    kube,
    phase,
    refusal,
    scripted,
    seen,
)

START = 1767225600.0


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def lab(server: Scripted) -> Timetable:
    return Timetable(server)


def virtual(server: Scripted, lab: Timetable, patience: float = 5.0) -> tuple[VirtualClock, Feed]:
    clock = VirtualClock(lab, patience=patience)
    return clock, Observatory(clock).feed(kube(server, clock), "v1", "Pod", "lab")


def arrivals(feed: Feed) -> list[float]:
    return [r.arrived - START for r in feed.history.revisions()]


def test_arrival_times_are_the_labs(server: Scripted, lab: Timetable) -> None:
    times = [1.5, 2.0, 2.25, 60.0, 3600.0, 5580.0]
    for n, when in enumerate(times):
        lab.at(when, lambda n=n: server.write("a", f"phase-{n}"))
    clock, feed = virtual(server, lab)
    met = feed.wait(phase("phase-5"), clock.deadline(6000), "the last phase")
    assert met is not None
    assert arrivals(feed) == times
    assert clock.now() - START == times[-1]
    feed.close()


def test_an_event_that_arrives_before_the_move_is_over_belongs_to_the_moment_reached(
    server: Scripted, lab: Timetable
) -> None:
    def write_and_linger() -> None:
        server.write("a", "Running")
        with server.changed:
            server.changed.wait_for(lambda: feed.history.entries, 0.1)

    lab.at(7.0, write_and_linger)
    clock, feed = virtual(server, lab)
    server.until(lambda: server.following, "an open stream")
    clock.sleep(7.0)
    assert arrivals(feed) == [7.0]
    feed.close()


def test_several_changes_of_one_moment_are_all_seen(server: Scripted, lab: Timetable) -> None:
    for each in ("Pending", "Flash", "Running"):
        lab.at(10.0, lambda each=each: server.write("a", each))
    clock, feed = virtual(server, lab)
    waited = feed.outcome(phase("Flash"), clock.deadline(60), "a phase of no length")
    assert waited.kind == "met"
    assert waited.seconds == 10.0
    assert arrivals(feed) == [10.0, 10.0, 10.0]
    feed.close()


def test_a_deadline_counts_the_labs_seconds(server: Scripted, lab: Timetable) -> None:
    lab.at(10.0, lambda: server.write("a", "Pending"))
    lab.at(30.1, lambda: server.write("a", "Running"))
    clock, feed = virtual(server, lab)
    waited = feed.outcome(phase("Running"), clock.deadline(30), "a to run")
    assert (waited.kind, waited.seconds, waited.healthy) == ("timed-out", 30.0, True)
    assert arrivals(feed) == [10.0]
    feed.close()


def test_the_look_at_the_limit_sees_what_happens_at_the_limit(
    server: Scripted, lab: Timetable
) -> None:
    lab.at(30.0, lambda: server.write("a", "Running"))
    clock, feed = virtual(server, lab)
    assert feed.outcome(phase("Running"), clock.deadline(30), "a to run").kind == "met"
    feed.close()


def test_after_every_move_the_feed_has_seen_the_revision_reached(
    server: Scripted, lab: Timetable
) -> None:
    for n in range(50):
        lab.at(n + 1.0, lambda n=n: server.write(f"pod-{n}", "Pending"))
    clock, feed = virtual(server, lab)
    for n in range(50):
        clock.sleep(1.0)
        assert len(feed.objects()) == n + 1
        assert feed.position() == server.revision
    feed.close()


@pytest.mark.parametrize("how", ["end", "cut"])
def test_the_barrier_holds_while_the_stream_reconnects(
    server: Scripted, lab: Timetable, how: str
) -> None:
    """The change is made at the very moment at which every stream is lost."""

    def lose_and_write(n: int) -> None:
        server.tell(how)
        server.watches.append(cut_at_once if how == "cut" else end_at_once)
        server.write("a", f"phase-{n}")

    for n in range(5):
        lab.at(10.0 * (n + 1), lambda n=n: lose_and_write(n))
    clock, feed = virtual(server, lab)
    for n in range(5):
        clock.sleep(10.0)
        assert feed.objects()[0]["status"]["phase"] == f"phase-{n}"
    assert arrivals(feed) == [10.0, 20.0, 30.0, 40.0, 50.0]
    assert feed.history.gaps() == []
    assert feed.cuts
    feed.close()


def test_a_list_again_satisfies_the_barrier_and_its_gap_has_the_labs_time(
    server: Scripted, lab: Timetable
) -> None:
    def lose_and_compact() -> None:
        with server.changed:
            server.tell("cut")
            server.write("a", "Flash")
            server.write("a", "Running")
            server.compact()

    lab.at(5.0, lambda: server.write("a", "Pending"))
    lab.at(12.0, lose_and_compact)
    clock, feed = virtual(server, lab)
    clock.sleep(5.0)
    clock.sleep(20.0)
    assert seen(feed) == [
        ("ADDED", "a", "Pending"),
        ("GAP", "", ""),
        ("MODIFIED", "a", "Running"),
    ]
    (gap,) = feed.history.gaps()
    assert (gap.since - START, gap.until - START) == (5.0, 12.0)
    assert arrivals(feed) == [5.0, 12.0]
    feed.close()


def test_a_change_of_another_kind_does_not_hold_time_up(server: Scripted, lab: Timetable) -> None:
    def elsewhere() -> None:
        with server.changed:
            server.revision += 1

    lab.at(1.0, elsewhere)
    clock, feed = virtual(server, lab, patience=2.0)
    clock.sleep(10.0)
    assert feed.position() == server.revision
    feed.close()


def test_a_feed_that_was_refused_or_closed_does_not_hold_time_up(
    server: Scripted, lab: Timetable
) -> None:
    lab.at(1.0, lambda: server.write("a", "Pending"))
    server.watches.append(refusal(403, "Forbidden", "no"))
    clock, feed = virtual(server, lab, patience=2.0)
    with pytest.raises(Refused):
        feed.wait(phase("Running"), clock.deadline(60), "a")
    began = clock.now()
    clock.sleep(10.0)
    other = Observatory(clock).feed(kube(server, clock), "v1", "Pod", "lab")
    other.close()
    server.write("b", "Pending")
    clock.sleep(10.0)
    assert clock.now() == began + 20.0


def test_a_stream_that_never_brings_the_revision_is_named(server: Scripted, lab: Timetable) -> None:
    server.always = Stream.hold
    lab.at(1.0, lambda: server.write("a", "Pending"))
    clock, feed = virtual(server, lab, patience=0.2)
    with pytest.raises(ClockStuck, match="management Pod in lab is at revision 100"):
        clock.sleep(5.0)
    feed.close()


def test_versions_that_are_no_numbers_are_said_so(server: Scripted, lab: Timetable) -> None:
    server.lists.append((200, {"metadata": {"resourceVersion": "a7f"}, "items": []}))
    server.always = Stream.hold
    clock, feed = virtual(server, lab)
    with pytest.raises(LabError, match="'a7f', which is no number"):
        clock.sleep(1.0)
    feed.close()


def test_many_waits_one_outcome() -> None:
    def run() -> list[tuple[str, float]]:
        with scripted() as server:
            lab = Timetable(server)
            for n in range(12):
                lab.at(n * 1.7, lambda n=n: server.write(f"pod-{n % 3}", f"phase-{n}"))
                lab.at(n * 1.7 + 0.9, lambda: server.tell("cut"))
            clock, feed = virtual(server, lab)
            told: list[tuple[str, float]] = []
            ready = threading.Barrier(3)

            def wait(name: str) -> None:
                with clock.actor(name):
                    ready.wait(5)
                    for n in range(12):
                        waited = feed.outcome(
                            phase(f"phase-{n}", name), clock.deadline(2.0), f"{name} at {n}"
                        )
                        told.append((f"{name} {n} {waited.kind}", clock.now()))

            threads = [threading.Thread(target=wait, args=(f"pod-{n}",)) for n in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(20)
            feed.close()
            return sorted(told)

    outcomes = [run() for _ in range(3)]
    assert len(outcomes[0]) == 36
    assert outcomes[0] == outcomes[1] == outcomes[2]


def test_time_does_not_move_before_a_first_stream_was_tried(
    server: Scripted, lab: Timetable
) -> None:
    """A lab that does not know yet what is followed would pass over it."""
    moved = threading.Event()
    before_it_opened: list[bool] = []

    def open_late(stream: Stream) -> None:
        before_it_opened.append(moved.wait(0.3))
        stream.open()
        stream.follow()

    lab.at(1.0, moved.set)
    server.mute = True
    server.watches.append(open_late)
    clock, feed = virtual(server, lab)
    clock.sleep(2.0)
    assert before_it_opened == [False]
    feed.close()


def test_a_first_stream_that_is_refused_does_not_hold_up_the_time(
    server: Scripted, lab: Timetable
) -> None:
    server.always = refusal(503, "ServiceUnavailable", "not now")
    clock, feed = virtual(server, lab)
    clock.sleep(2.0)
    assert clock.now() - START == 2.0
    feed.close()


def test_a_silent_stream_is_given_up_before_the_clock_gives_up(
    server: Scripted, lab: Timetable, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every turn bookmarks, so that silence cannot be mistaken for a quiet lab."""
    monkeypatch.setattr("harness.reach.watch.SILENCE_FOLLOWED", 0.2)
    server.watches.append(Stream.hold)
    lab.at(1.0, lambda: server.write("a", "Running"))
    clock, feed = virtual(server, lab)
    assert feed.wait(phase("Running"), clock.deadline(10), "running") is not None
    assert feed.healthy()
    feed.close()


def test_silence_on_virtual_time_is_shorter_than_a_clocks_patience() -> None:
    patience = inspect.signature(VirtualClock).parameters["patience"].default
    assert patience > SILENCE_FOLLOWED + RESUMED_SILENCE
