"""What becomes of data and states: roles, losses, splits, disks, verify (lab/qemu_drbd.md)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import drbd_verbs
from harness.twin.world.drbd_verbs import Refused

FIRST, SECOND = b"a" * 65536, b"b" * 65536


def test_what_was_acknowledged_is_read_after_a_failover(tour: Any) -> None:
    tour.ready()
    assert tour.write(tour.n1, 0, FIRST) == [""]
    tour.verb("secondary", tour.n1)
    tour.verb("primary", tour.n2)
    assert tour.read(tour.n2, 0, len(FIRST)) == FIRST
    assert tour.read(tour.n2, 1024 * 1024, 4096) == bytes(4096)


def test_a_second_primary_is_refused(tour: Any) -> None:
    tour.ready()
    with pytest.raises(Refused, match=r"State change failed: \(-1\) Multiple primaries") as no:
        tour.verb("primary", tour.n2)
    assert no.value.status == 11


def test_a_writer_promotes_and_its_end_demotes(tour: Any) -> None:
    tour.resource.establish()
    io = tour.resource.io
    assert io.open(tour.n2, writes=True) == ""
    assert (tour.n2.role, tour.n1.peers[1].role) == ("Primary", "Primary")
    assert io.open(tour.n1, writes=True) == "Read-only file system"
    with pytest.raises(Refused, match="Device is held open by someone"):
        tour.verb("secondary", tour.n2)
    io.close(tour.n2)
    assert tour.n2.role == "Secondary"


def test_a_write_waits_for_a_peer_until_it_is_given_up(tour: Any) -> None:
    tour.ready().cut("n1", "n2")
    outcome = tour.write(tour.n1, 0, FIRST)
    assert outcome == []
    tour.until(lambda: outcome, 4.0)
    assert outcome == [""] and not tour.n1.peers[1].connected
    assert tour.n1.peers[1].out_of_sync == 64


def test_a_link_that_heals_before_it_is_missed_costs_nothing(tour: Any) -> None:
    tour.ready().cut("n1", "n2")
    outcome = tour.write(tour.n1, 0, FIRST)
    tour.heal()
    tour.run(20)
    assert outcome == [""] and tour.n1.peers[1].connected
    assert tour.read(tour.n2, 0, len(FIRST)) == FIRST and not tour.n1.peers[1].out_of_sync


def test_a_secondary_that_hears_of_the_primary_through_another_is_outdated(tour: Any) -> None:
    tour.ready().cut("n1", "n2")
    tour.run(20)
    assert (tour.n2.disk, tour.n3.peers[1].disk) == ("Outdated", "Outdated")
    with pytest.raises(Refused, match="State change was refused by peer node"):
        tour.verb("primary", tour.n2)
    tour.write(tour.n1, 0, FIRST)
    tour.heal()
    tour.until(lambda: tour.n2.disk == "UpToDate")
    assert tour.read(tour.n2, 0, len(FIRST)) == FIRST


def test_without_quorum_io_stands_still_and_goes_on(tour: Any) -> None:
    tour.ready().isolate("n1")
    outcome = tour.write(tour.n1, 0, FIRST)
    tour.run(30)
    assert outcome == [] and tour.n1.suspended == {"quorum"} and not tour.n1.quorum
    tour.heal()
    tour.until(lambda: outcome)
    peers = tour.n1.peers.values()
    tour.until(lambda: all(peer.replication == "Established" for peer in peers))
    assert outcome == [""]
    assert all(one.data.read(0, len(FIRST)) == FIRST for one in tour.resource.replicas)


def test_without_quorum_nobody_is_promoted(tour: Any) -> None:
    tour.ready().isolate("n3")
    tour.run(30)
    with pytest.raises(Refused, match=r"\(-25\) No quorum"):
        tour.verb("primary", tour.n3)


def test_io_fails_where_the_policy_says_so(another_tour: Callable[..., Any]) -> None:
    tour = another_tour(on_no_quorum="io-error").ready()
    tour.isolate("n1")
    tour.run(30)
    assert tour.write(tour.n1, 0, FIRST) == ["Input/output error"]
    assert not tour.n1.suspended


def test_a_frozen_primary_gives_way_where_the_policy_says_so(
    another_tour: Callable[..., Any],
) -> None:
    tour = another_tour(on_suspended_primary_outdated="force-secondary").ready()
    assert tour.resource.io.open(tour.n1, writes=True) == ""
    tour.isolate("n1")
    outcome = tour.write(tour.n1, 0, FIRST)
    tour.run(30)
    tour.verb("primary", tour.n2)
    tour.write(tour.n2, 0, SECOND)
    tour.heal()
    tour.until(lambda: tour.n1.disk == "UpToDate" and tour.n1.peers[1].connected)
    assert (tour.n1.role, outcome) == ("Secondary", ["Input/output error"])
    assert tour.n1.failing
    tour.resource.io.close(tour.n1)
    assert not tour.n1.failing and tour.read(tour.n1, 0, len(SECOND)) == SECOND


def split(tour: Any) -> None:
    """Two nodes apart, both written to; without a quorum, which would forbid it."""
    tour.ready()
    tour.resource.drop(tour.n3)
    tour.isolate("n2")
    tour.run(20)
    tour.verb("primary", tour.n2)
    assert tour.write(tour.n1, 0, FIRST) == tour.write(tour.n2, 0, SECOND) == [""]
    tour.heal()
    tour.run(20)


def test_a_split_brain_stands_until_a_victim_is_named(another_tour: Callable[..., Any]) -> None:
    tour = another_tour(quorum="off")
    split(tour)
    assert [tour.n1.peers[1].connection, tour.n2.peers[0].connection] == ["StandAlone"] * 2
    assert tour.n1.disk == tour.n2.disk == "UpToDate"
    assert "Split-Brain detected but unresolved, dropping connection!" in tour.log("n1")
    tour.verb("connect", tour.n1)
    tour.verb("connect", tour.n2)
    tour.run(20)
    assert tour.n1.peers[1].connection == "StandAlone"
    tour.verb("secondary", tour.n2)
    tour.verb("connect", tour.n2, "--discard-my-data")
    tour.verb("connect", tour.n1)
    tour.until(lambda: tour.n1.peers[1].connected and tour.n2.disk == "UpToDate")
    assert tour.read(tour.n2, 0, len(FIRST)) == FIRST
    assert "Split-Brain detected, manually solved. Sync from peer node" in tour.log("n2")


def test_a_disk_that_is_let_go_is_brought_up_when_it_is_back(tour: Any) -> None:
    tour.ready().verb("detach", tour.n1)
    assert (tour.n1.disk, tour.n2.peers[0].disk) == ("Diskless", "Diskless")
    assert tour.write(tour.n1, 0, FIRST) == [""]
    assert tour.read(tour.n1, 0, len(FIRST)) == FIRST  # of a peer
    assert tour.n1.data.read(0, len(FIRST)) == bytes(len(FIRST))
    tour.verb("attach", tour.n1)
    tour.until(lambda: tour.n1.disk == "UpToDate")
    assert tour.n1.data.read(0, len(FIRST)) == FIRST


def test_a_lost_disk_is_noticed_by_the_next_io(tour: Any) -> None:
    tour.ready()
    tour.n1.lost_disk = True
    assert tour.n1.disk == "UpToDate"
    assert tour.write(tour.n1, 0, FIRST) == [""]
    assert tour.n1.disk == "Diskless"
    with pytest.raises(Refused, match="Can not open backing device"):
        tour.verb("attach", tour.n1)


def test_the_last_good_disk_is_not_let_go(tour: Any) -> None:
    tour.ready()
    for node in (tour.n2, tour.n3):
        tour.verb("detach", node)
    with pytest.raises(Refused, match="Need access to UpToDate data") as no:
        tour.verb("detach", tour.n1)
    assert no.value.status == 17


def test_a_verify_finds_what_states_hide_and_a_new_meeting_mends_it(tour: Any) -> None:
    tour.ready().write(tour.n1, 0, FIRST)
    tour.n2.data.write(4096, b"x" * 8192)
    tour.verb("verify", tour.n1)
    assert tour.n1.peers[1].replication == "VerifyS"
    with pytest.raises(Refused, match="already active"):
        tour.verb("verify", tour.n1)
    tour.run(30)
    assert (tour.n1.peers[1].out_of_sync, tour.n2.disk) == (8, "UpToDate")
    assert tour.n1.peers[2].out_of_sync == 0
    assert "Online verify found 2 4k blocks out of sync!" in tour.log("n1")
    tour.verb("disconnect", tour.n2)
    tour.verb("connect", tour.n2)
    tour.until(lambda: not tour.n1.peers[1].out_of_sync and tour.n2.disk == "UpToDate")
    assert tour.n2.data.read(0, len(FIRST)) == FIRST


def test_an_outdated_node_is_refused_and_catches_up(tour: Any) -> None:
    tour.ready().verb("disconnect", tour.n2)
    tour.verb("outdate", tour.n2)
    tour.write(tour.n1, 0, FIRST)
    with pytest.raises(Refused, match="Need access to UpToDate data") as no:
        tour.verb("primary", tour.n2)
    assert no.value.status == 17
    tour.verb("connect", tour.n2)
    tour.until(lambda: tour.n2.disk == "UpToDate")
    assert tour.read(tour.n2, 0, len(FIRST)) == FIRST


def test_who_is_connected_is_not_outdated(tour: Any) -> None:
    tour.ready()
    with pytest.raises(Refused, match="Refusing to be Outdated while Connected"):
        tour.verb("outdate", tour.n2)


def test_a_node_that_was_off_is_brought_up(tour: Any) -> None:
    tour.ready().ground.off.add("n2")
    tour.resource.forget(tour.n2)
    for one, other in tour.resource.pairs():
        tour.resource.links.cut_off(one, other)
    outcome = tour.write(tour.n1, 0, FIRST)
    tour.until(lambda: outcome)
    tour.run(10)
    tour.ground.off.clear()
    drbd_verbs.start(tour.resource, tour.n2)
    assert tour.n2.disk == "Consistent"
    tour.until(lambda: tour.n2.disk == "UpToDate")
    assert tour.n2.data.read(0, len(FIRST)) == FIRST


def test_invalidate_brings_the_whole_disk_up_in_its_time(tour: Any) -> None:
    tour.ready().verb("invalidate", tour.n3)
    tour.run(5)
    assert tour.n3.disk == "Inconsistent" and 20 < tour.resource.done(tour.n3.peers[0]) < 40
    tour.run(20)
    assert tour.n3.disk == "UpToDate"


def test_a_stalled_resync_goes_no_further(tour: Any) -> None:
    tour.ready().ground.spoilt.stall = 0.4
    tour.verb("invalidate", tour.n3)
    tour.run(300)
    tour.resource.catch_up()
    assert 39.9 < tour.resource.done(tour.n3.peers[0]) <= 40.0
    assert tour.engine.next_time() is None  # nothing goes on for ever


def test_what_follows_hears_each_change_once(tour: Any) -> None:
    tour.ready()
    heard: list[str] = []
    stop = tour.resource.follow(tour.n2, lambda events: heard.extend(one.line() for one in events))
    tour.isolate("n2")
    tour.run(20)
    failures = [line for line in heard if "connection:NetworkFailure" in line]
    assert sorted(line.split("conn-name:")[1] for line in failures) == [
        "n1 connection:NetworkFailure role:Unknown",
        "n3 connection:NetworkFailure role:Unknown",
    ]
    assert any(line.startswith("call helper name:r0 peer-node-id:0 conn-name:n1 helper:dis")
               for line in heard)  # fmt: skip
    stop()
    before = len(heard)
    tour.heal()
    tour.run(20)
    assert len(heard) == before
