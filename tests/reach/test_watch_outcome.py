"""How a wait ended: in which of the ways, on what evidence, and what it says of itself."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from harness.clock import WallClock
from harness.reach.errors import Refused
from harness.reach.history import Revision
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
)

LIMIT = 5.0


@pytest.fixture
def server() -> Iterator[Scripted]:
    with scripted() as running:
        yield running


@pytest.fixture
def feed(server: Scripted) -> Iterator[Feed]:
    clock = Brisk()
    server.write("a", "Pending")
    observatory = Observatory(clock)
    yield observatory.feed(kube(server, clock), "v1", "Pod", "lab")
    observatory.close()


def known(feed: Feed, server: Scripted) -> None:
    wanted = server.revision
    assert feed.clock.wait(
        lambda: feed.position() >= wanted, feed.clock.deadline(LIMIT), "the feed to catch up"
    )


def gap(feed: Feed, server: Scripted) -> None:
    """Make the feed miss something."""
    known(feed, server)
    server.until(lambda: server.following, "an open stream")
    with server.changed:
        server.tell("cut")
        server.write("other", "Flash")
        server.write("other", "Running")
        server.compact()
    known(feed, server)


def test_met(feed: Feed, server: Scripted) -> None:
    threading.Timer(0.05, server.write, ("a", "Running")).start()
    waited = feed.outcome(phase("Running"), feed.clock.deadline(LIMIT), "a to run")
    assert waited.kind == "met"
    assert waited.revision is not None
    assert waited.revision.version == "102"
    assert 0.0 < waited.seconds < LIMIT
    assert waited.healthy
    assert [r.version for r in waited.last] == ["101", "102"]


def test_met_before_the_wait_began_took_no_time(feed: Feed, server: Scripted) -> None:
    server.write("a", "Flash")
    server.write("a", "Running")
    known(feed, server)
    waited = feed.outcome(phase("Flash"), feed.clock.deadline(LIMIT), "the flash")
    assert waited.kind == "met"
    assert waited.seconds < 0.5
    assert waited.revision is not None
    assert waited.revision.obj["status"]["phase"] == "Flash"


def test_a_terminal_state_ends_the_wait_at_once(feed: Feed, server: Scripted) -> None:
    threading.Timer(0.05, server.write, ("a", "Failed")).start()
    waited = feed.outcome(
        phase("Running"), feed.clock.deadline(60), "a to run", terminal=phase("Failed")
    )
    assert waited.kind == "terminal"
    assert waited.seconds < LIMIT
    assert waited.revision is not None
    assert waited.revision.obj["status"]["phase"] == "Failed"


def test_of_one_revision_met_is_asked_before_terminal(feed: Feed) -> None:
    waited = feed.outcome(
        phase("Pending"), feed.clock.deadline(LIMIT), "it", terminal=lambda r: True
    )
    assert waited.kind == "met"


def test_what_came_first_decides(feed: Feed, server: Scripted) -> None:
    server.write("a", "Failed")
    server.write("a", "Running")
    known(feed, server)
    waited = feed.outcome(
        phase("Running"), feed.clock.deadline(LIMIT), "a", terminal=phase("Failed")
    )
    assert waited.kind == "terminal"


def test_timed_out_says_that_nothing_was_missed(feed: Feed) -> None:
    waited = feed.outcome(phase("Running"), feed.clock.deadline(0.05), "a to run")
    assert waited.kind == "timed-out"
    assert waited.revision is None
    assert waited.healthy
    assert 0.05 <= waited.seconds < 1.0


def test_a_gap_makes_no_claim_either_way(feed: Feed, server: Scripted) -> None:
    gap(feed, server)
    waited = feed.outcome(phase("Flash"), feed.clock.deadline(0.05), "the flash")
    assert waited.kind == "gap"
    assert not waited.healthy
    assert len(waited.gaps) == 1


def test_presence_is_proof_across_a_gap(feed: Feed, server: Scripted) -> None:
    gap(feed, server)
    waited = feed.outcome(phase("Running"), feed.clock.deadline(LIMIT), "running")
    assert waited.kind == "met"
    assert not waited.healthy


def test_a_server_that_is_away_at_the_end_makes_no_claim(server: Scripted) -> None:
    clock = Brisk()
    feed = Observatory(clock).feed(kube(server, clock), "v1", "Pod", "lab")
    server.until(lambda: server.following, "an open stream")
    server.down()
    waited = feed.outcome(phase("Running"), clock.deadline(1.3), "a to run")
    assert waited.kind == "gap"
    assert waited.blind
    assert "nothing could be seen at the end" in str(waited)
    assert waited.gaps == ()
    feed.close()


def test_a_stream_that_was_cut_and_resumed_is_still_a_timed_out(
    feed: Feed, server: Scripted
) -> None:
    server.until(lambda: server.following, "an open stream")

    def cut() -> None:
        server.tell("cut")
        server.write("b", "Pending")

    threading.Timer(0.02, cut).start()
    waited = feed.outcome(phase("Running"), feed.clock.deadline(0.3), "a to run")
    assert waited.kind == "timed-out"
    assert len(waited.cuts) == 1


def test_a_stream_that_is_open_again_is_not_blind(feed: Feed, server: Scripted) -> None:
    server.until(lambda: server.following, "an open stream")
    server.tell("cut")
    server.write("b", "Pending")
    known(feed, server)
    assert isinstance(feed.clock, Brisk)
    feed.clock.ahead = 100.0
    assert feed.healthy()


def test_a_replacement_that_no_deletion_announced_is_one(server: Scripted) -> None:
    clock = Brisk()
    pod = server.write("a", "Pending")

    def swap(stream: Stream) -> None:
        meta = {**pod["metadata"], "uid": "uid-9", "resourceVersion": "109"}
        stream.event("MODIFIED", {**pod, "metadata": meta})
        stream.hold()

    server.watches.append(swap)
    feed = Observatory(clock).feed(kube(server, clock), "v1", "Pod", "lab")
    waited = feed.outcome(phase("Running"), clock.deadline(LIMIT), "a to run", uid="uid-1")
    assert waited.kind == "replaced"
    assert waited.seconds < LIMIT
    feed.close()


def test_deleted(feed: Feed, server: Scripted) -> None:
    threading.Timer(0.05, server.delete, ("a",)).start()
    waited = feed.outcome(phase("Running"), feed.clock.deadline(60), "a to run", uid="uid-1")
    assert waited.kind == "deleted"
    assert waited.revision is not None
    assert waited.revision.change == "DELETED"


def test_a_deletion_may_be_what_is_waited_for(feed: Feed, server: Scripted) -> None:
    server.delete("a")
    waited = feed.outcome(
        lambda r: r.change == "DELETED", feed.clock.deadline(LIMIT), "a to go", uid="uid-1"
    )
    assert waited.kind == "met"


def test_another_object_under_the_name_is_no_answer(feed: Feed, server: Scripted) -> None:
    server.delete("a")
    server.write("a", "Running")
    known(feed, server)
    waited = feed.outcome(phase("Running"), feed.clock.deadline(60), "a to run", uid="uid-1")
    assert waited.kind == "replaced"
    assert waited.revision is not None
    assert waited.revision.uid == "uid-2"
    assert waited.seconds < LIMIT


def test_a_replacement_in_a_gap_is_one(feed: Feed, server: Scripted) -> None:
    known(feed, server)
    server.until(lambda: server.following, "an open stream")
    with server.changed:
        server.tell("cut")
        server.delete("a")
        server.write("a", "Running")
        server.compact()
    waited = feed.outcome(phase("Running"), feed.clock.deadline(60), "a to run", uid="uid-1")
    assert waited.kind == "replaced"
    assert not waited.healthy


def test_an_earlier_object_under_the_name_is_not_this_one(feed: Feed, server: Scripted) -> None:
    server.write("a", "Running")
    server.delete("a")
    server.write("a", "Pending")
    known(feed, server)
    waited = feed.outcome(phase("Running"), feed.clock.deadline(0.02), "the new a", uid="uid-2")
    assert waited.kind == "timed-out"
    assert [r.uid for r in waited.last] == ["uid-1", "uid-1", "uid-1", "uid-2"]


def test_other_objects_do_not_count_with_a_uid(feed: Feed, server: Scripted) -> None:
    server.write("b", "Running")
    server.delete("b")
    known(feed, server)
    waited = feed.outcome(phase("Running"), feed.clock.deadline(0.02), "a", uid="uid-1")
    assert waited.kind == "timed-out"
    assert {r.key[1] for r in waited.last} == {"a"}


def test_the_last_five_revisions_are_kept(feed: Feed, server: Scripted) -> None:
    for n in range(9):
        server.write("a", f"phase-{n}")
    known(feed, server)
    waited = feed.outcome(phase("Running"), feed.clock.deadline(0.02), "a", uid="uid-1")
    assert [r.obj["status"]["phase"] for r in waited.last] == [f"phase-{n}" for n in range(4, 9)]


def test_a_predicates_bug_is_raised(feed: Feed) -> None:
    def buggy(revision: Revision) -> Any:
        return revision.obj["spec"]["nodeName"]

    with pytest.raises(KeyError, match="spec"):
        feed.outcome(buggy, feed.clock.deadline(60), "a misspelt field")
    with pytest.raises(KeyError, match="spec"):
        feed.outcome(phase("Running"), feed.clock.deadline(60), "a", terminal=buggy)


def test_an_outcome_cannot_be_changed(feed: Feed) -> None:
    waited = feed.outcome(phase("Pending"), feed.clock.deadline(0), "a")
    with pytest.raises(dataclasses.FrozenInstanceError):
        waited.kind = "gap"  # type: ignore[misc]  # that is what is tried


def test_it_says_what_was_waited_for_how_long_and_what_was_seen(
    feed: Feed, server: Scripted
) -> None:
    conditions = [
        {"type": "Ready", "status": "False", "reason": "ContainersNotReady"},
        {"type": "Initialized", "status": "True"},
        "junk",
    ]
    server.write("a", "Pending", conditions=conditions)
    gap(feed, server)
    waited = feed.outcome(phase("Gone"), feed.clock.deadline(0.02), "pods to go")
    assert "Pod lab/other" in str(waited)
    waited = dataclasses.replace(waited, last=waited.last[:2])
    said = str(dataclasses.replace(waited, seconds=30.0, cuts=("reset", "no route")))
    assert said.startswith("waited 30 s for pods to go (management Pod in lab): not met in time")
    assert "Pod lab/a MODIFIED at revision 102, phase Pending" in said
    assert "Ready=False (ContainersNotReady), Initialized=True" in said
    assert "2 cuts, the last: no route" in said
    assert "from revision 102: listed again" in said
    assert "cannot tell" in said


def test_it_says_so_when_nothing_was_ever_seen(server: Scripted) -> None:
    clock = WallClock()
    server.watches.append(expire)
    feed = Observatory(clock).feed(kube(server, clock), "v1", "Pod", "lab")
    waited = feed.outcome(phase("Running"), clock.deadline(0.01), "any pod")
    assert "nothing was ever seen" in str(waited)
    assert waited.last == ()
    feed.close()


def test_a_status_of_another_shape_is_told_without_a_fuss(feed: Feed, server: Scripted) -> None:
    obj = {"metadata": {"name": "n1", "resourceVersion": "7"}, "status": "Enabled"}
    odd = Revision.of("ADDED", obj, 0.0, "list")
    waited = feed.outcome(phase("Pending"), feed.clock.deadline(0), "a")
    assert "object n1 ADDED at revision 7" in str(dataclasses.replace(waited, revision=odd))


def test_what_a_refused_feed_shows_is_not_taken_for_what_is_there(
    feed: Feed, server: Scripted
) -> None:
    """A pool whose Nodes may not be watched any more is not a pool without Nodes."""
    known(feed, server)
    server.until(lambda: server.following, "a stream to refuse the next of")
    with server.changed:
        server.watches.append(refusal(403, "Forbidden", "may no longer watch pods"))
        server.tell("end")
    assert feed.clock.wait(lambda: feed.refused is not None, feed.clock.deadline(LIMIT), "it")
    with pytest.raises(Refused, match="may no longer watch pods"):
        feed.objects()
    with pytest.raises(Refused, match="may no longer watch pods"):
        feed.object("a")
    assert [revision.key for revision in feed.history.revisions()] == [("lab", "a")]


def test_two_clusters_of_one_name_are_not_taken_for_each_other(feed: Feed) -> None:
    with scripted() as other:
        other.write("b", "Running")
        watching = Observatory(feed.clock)
        clusters = [feed.cluster, kube(other, feed.clock)]
        shown = [watching.feed(cluster, "v1", "Pod", "lab") for cluster in clusters]
        assert [[pod["metadata"]["name"] for pod in each.objects()] for each in shown] == [
            ["a"],
            ["b"],
        ]
        assert watching.feed(clusters[1], "v1", "Pod", "lab") is shown[1]
        watching.close()
