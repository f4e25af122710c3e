"""What a trial keeps: how acts ended, extents, and what shows a resync."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from harness.facts.drbd import (
    DrbdEvent,
    DrbdHistory,
    DrbdLog,
    DrbdLogEntry,
)
from harness.facts.drbdlooks import Look, PeerView, View
from harness.facts.drbdtrials import (
    Act,
    Course,
    DiskLoss,
    Extent,
    NodeRecord,
    Sighting,
    Waited,
)
from harness.facts.fact import Origin, Unread

AT = Origin(5.0, "guest n1", "raw")


DONE = Act("drbdadm up r0", "n1", 10.0, 0.5, 0, "")


@pytest.mark.parametrize(
    ("code", "done", "refused", "said"),
    [
        (0, True, False, "drbdadm up r0 on n1: exit status 0"),
        (17, False, True, "drbdadm up r0 on n1: exit status 17"),
        (None, False, False, "drbdadm up r0 on n1: no exit status"),
    ],
)
def test_how_an_act_ended(code: int | None, *, done: bool, refused: bool, said: str) -> None:
    act = dataclasses.replace(DONE, exit_code=code)
    assert (act.done, act.refused, str(act)) == (done, refused, said)
    assert str(dataclasses.replace(act, said="a\n b")) == f"{said} (a b)"


def test_an_extent_is_known_when_its_bytes_are() -> None:
    extent = Extent("n1", 32, 32, "aa", DONE)
    assert (extent.acknowledged_at, extent.place, extent.known) == (10.5, (32, 32), True)
    assert not dataclasses.replace(extent, digest="").known
    failed = dataclasses.replace(DONE, exit_code=1)
    assert not dataclasses.replace(extent, act=failed).known


# -- what shows a resync


def history(*states: str) -> DrbdHistory:
    events = tuple(
        DrbdEvent("change", "peer-device", "r0", {}, {"replication": one}) for one in states
    )
    return DrbdHistory(AT, "n1", events, listed=True)


def log(*entries: str) -> DrbdLog:
    return DrbdLog(AT, "n1", tuple(DrbdLogEntry(one, one) for one in entries))


LOST = Unread(AT, "dmesg", "no answer")


def look(replication: str, disk: str = "UpToDate") -> Look:
    view = PeerView("peer", "Connected", "Primary", replication, disk, 0)
    return Look(1.0, (View("n1", "Secondary", "UpToDate", (view,)),))


def course(*looks: Look, records: Any = ()) -> Course:
    waited = Waited("it", 0.0, 1.0, 60.0, True, looks) if looks else None
    last = Look(9.0, ())
    return Course("r0", "8.4.11", last, last, (), (), (), waited, tuple(records), 61.4, ())


SYNC, QUIET = look("SyncTarget", "Inconsistent"), look("Established")


@pytest.mark.parametrize(
    ("one", "seen", "done"),
    [
        (course(), (), False),
        (course(QUIET), (), False),
        (course(SYNC, QUIET), (Sighting("n1", "SyncTarget", "status"),), True),
        (course(QUIET, SYNC), (Sighting("n1", "SyncTarget", "status"),), False),
        (course(look("WFBitMapT"), QUIET), (), False),
        (
            course(records=[NodeRecord("n2", history("SyncSource", "Established"), LOST)]),
            (Sighting("n2", "SyncSource", "events2"),),
            True,
        ),
        (
            course(records=[NodeRecord("n2", history("SyncSource", "Off"), LOST)]),
            (Sighting("n2", "SyncSource", "events2"),),
            False,
        ),
        (
            course(
                records=[NodeRecord("n2", history("SyncSource", "Established", "SyncSource"), LOST)]
            ),
            (Sighting("n2", "SyncSource", "events2"),),
            False,
        ),
        (course(records=[NodeRecord("n2", history("Established", "Off"), LOST)]), (), False),
        (
            course(records=[NodeRecord("n2", LOST, log("resync started"))]),
            (Sighting("n2", "", "kernel log"),),
            False,
        ),
        (
            course(records=[NodeRecord("n2", LOST, log("resync started", "resync done"))]),
            (Sighting("n2", "", "kernel log"),),
            True,
        ),
        (course(records=[NodeRecord("n2", LOST, LOST)]), (), False),
    ],
)
def test_what_shows_a_resync(one: Course, seen: Any, *, done: bool) -> None:
    assert one.resync_seen == seen
    assert one.resync_done is done


def test_sightings_in_words() -> None:
    assert str(Sighting("n1", "SyncTarget", "status")) == "n1 SyncTarget (status)"
    assert str(Sighting("n1", "", "kernel log")) == "n1 in a resync (kernel log)"


def test_records_by_node() -> None:
    record = NodeRecord("n2", LOST, log("verify done", "resync done", "verify done"))
    one = course(records=[record])
    assert one.record("n2") is record
    assert one.record("n1") is None
    assert (record.count("verify done"), record.count("split brain")) == (2, 0)
    assert record.logged("resync done") and not record.logged("resync started")
    assert record.replication == ()
    assert NodeRecord("n2", LOST, LOST).count("verify done") == 0


def test_whose_disk_it_was_and_what_a_ledger_keeps() -> None:
    one = course(SYNC, QUIET, records=[NodeRecord("n1", history("Off"), log("split brain"))])
    waited = one.resynced
    assert waited is not None and waited.last is QUIET
    extent = Extent("n1", 0, 32, "aa", DONE)
    trial = DiskLoss(AT, one, "n1", "n2", "n1", True, DONE, QUIET, (extent,), waited)
    assert trial.under_primary
    assert not dataclasses.replace(trial, node="n2").under_primary
    kept = json.loads(json.dumps(trial.values()))
    assert kept["course"]["resynced"]["looks"][0]["views"][0]["peers"][0]["disk"] == "Inconsistent"
    assert kept["io"][0]["act"]["exit_code"] == 0
    assert trial.kind == "DiskLoss"
