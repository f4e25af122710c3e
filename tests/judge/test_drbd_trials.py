"""Verdicts on trials of a volume, from facts made by hand: each way to decide, one at a time."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.drbd import DrbdEvent, DrbdHistory, DrbdLog, DrbdLogEntry
from harness.facts.drbdlooks import Look, PeerView, View
from harness.facts.drbdtrials import (
    Act,
    Course,
    DiskLoss,
    Extent,
    LinkLoss,
    NodeRecord,
    OutdatedRefused,
    PlannedFailover,
    PrimaryLoss,
    QuorumLoss,
    ReplicaLoss,
    SplitBrain,
    VerifyFound,
    Waited,
)
from harness.facts.fact import Origin, Unread
from harness.judge.drbd_disks import (
    drbd_disk_loss,
    drbd_io_policy,
    drbd_quorum,
    drbd_verify,
)
from harness.judge.drbd_trials import (
    drbd_failover,
    drbd_link_loss,
    drbd_outdated_refused,
    drbd_primary_loss,
    drbd_replica_loss,
    drbd_split_brain,
)
from harness.judge.verdict import Verdict

AT = Origin(100.0, "volume r0", "")
LOST = Unread(AT, "a trial of volume r0", "the reason")
MISSING = "switched off"
EMPTY: Any = ()


def view(node: str, role: str, peer_role: str, **more: Any) -> View:
    """A replica in sync, but for what is named; the peer's keys begin with ``peer_``."""
    own = {key: value for key, value in more.items() if not key.startswith("peer_")}
    its = {key[5:]: value for key, value in more.items() if key.startswith("peer_")}
    given: dict[str, Any] = {
        "connection": "Connected",
        "role": peer_role,
        "replication": "Established",
        "disk": "UpToDate",
        "out_of_sync": 0,
        **its,
    }
    peer = PeerView("peer", **given)
    return View(node, role, **{"disk": "UpToDate", "peers": (peer,), **own})


GONE: dict[str, Any] = {
    "peer_connection": "Connecting",
    "peer_replication": "Off",
    "peer_disk": "DUnknown",
}
ALONE: dict[str, Any] = {**GONE, "peer_connection": "StandAlone"}


def look(one: View, two: View, at: float = 1.0) -> Look:
    return Look(at, (one, two))


def ready(first: str = "Primary", second: str = "Secondary", at: float = 1.0) -> Look:
    return look(view("n1", first, second), view("n2", second, first), at)


IN_SYNC = ready()
MOVED = ready("Secondary", "Primary")
NOT_IN_SYNC = look(
    view("n1", "Primary", "Secondary", peer_out_of_sync=4096),
    view("n2", "Secondary", "Primary", peer_out_of_sync=4096),
)
APART = look(view("n1", "Primary", "Unknown", **GONE), view("n2", "Secondary", "Unknown", **GONE))
STANDING = look(
    view("n1", "Primary", "Unknown", **ALONE), view("n2", "Primary", "Unknown", **ALONE)
)
RUNNING = look(
    view("n1", "Primary", "Secondary", peer_replication="SyncSource", peer_disk="Inconsistent"),
    view("n2", "Secondary", "Primary", peer_replication="SyncTarget", disk="Inconsistent"),
)


def act(what: str = "drbdadm primary r0", node: str = "n2", at: float = 20.0, **more: Any) -> Act:
    given: dict[str, Any] = {"seconds": 0.5, "exit_code": 0, "said": "", **more}
    return Act(what, node, at, **given)


def refused(one: Act, code: int | None = 11, said: str = "State change failed") -> Act:
    return dataclasses.replace(one, exit_code=code, said=said)


def extent(node: str, first: int, digest: str, at: float, **more: Any) -> Extent:
    return Extent(node, first, 32, digest, act("dd", node, at, **more))


def reads(*what: tuple[str, int, str], at: float = 50.0) -> tuple[Extent, ...]:
    return tuple(extent(node, first, digest, at) for node, first, digest in what)


def waited(*looks: Look, came: bool = True, seconds: float = 2.0, limit: float = 60.0) -> Waited:
    return Waited("it", 30.0, seconds, limit, came, looks or (IN_SYNC,))


def log(*entries: str) -> DrbdLog:
    return DrbdLog(AT, "n1", tuple(DrbdLogEntry(one, one) for one in entries))


def history(*states: str) -> DrbdHistory:
    events = tuple(
        DrbdEvent("change", "peer-device", "r0", {}, {"replication": one}) for one in states
    )
    return DrbdHistory(AT, "n1", events, listed=True)


NO_HISTORY = Unread(AT, "events2", "not read")
QUIET = (NodeRecord("n1", history("Established"), log()), NodeRecord("n2", NO_HISTORY, log()))
RESYNCED = (
    NodeRecord("n1", history("Off", "SyncSource", "Established"), log()),
    NodeRecord("n2", NO_HISTORY, log()),
)
WRITTEN = (extent("n1", 0, "aa", 10.0), extent("n1", 32, "bb", 22.0))
ON_BOTH = reads(("n1", 0, "aa"), ("n1", 32, "bb"), ("n2", 0, "aa"), ("n2", 32, "bb"))


def course(**more: Any) -> Course:
    given: dict[str, Any] = {
        "resource": "r0",
        "version": "8.4.11",
        "before": IN_SYNC,
        "after": IN_SYNC,
        "acts": (),
        "written": WRITTEN,
        "read": ON_BOTH,
        "resynced": waited(RUNNING, IN_SYNC),
        "records": RESYNCED,
        "seconds": 20.0,
        "left": (),
        **more,
    }
    return Course(**given)


def altered(trial: Any, **more: Any) -> Any:
    """A trial with other fields; those of its course begin with ``course_``."""
    ours = {key[7:]: value for key, value in more.items() if key.startswith("course_")}
    rest = {key: value for key, value in more.items() if not key.startswith("course_")}
    return dataclasses.replace(trial, course=dataclasses.replace(trial.course, **ours), **rest)


def check(verdict: Verdict, claim: str, outcome: str, said: str, *facts: Any) -> None:
    assert (verdict.claim, verdict.subject) == (claim, "volume r0")
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because
    assert verdict.facts == facts


ROLE_REFUSED = refused(act("drbdadm secondary r0", "n1", 15.0))
OFF = act("switch off", "n2", 20.0)

# -- what is common to those that end with a resync and the same bytes on both

COMMON: list[tuple[dict[str, Any], str, str]] = [
    ({"course_before": MOVED}, "unknown", "n1 was not Primary of a volume in sync"),
    ({"course_before": NOT_IN_SYNC}, "unknown", "n1 was not Primary of a volume in sync"),
    ({"course_after": NOT_IN_SYNC}, "unknown", "in sync again, but not in the end"),
    ({"course_resynced": None}, "unknown", "nobody waited for a resync"),
    (
        {"course_resynced": waited(APART, came=False, seconds=120.0)},
        "broken",
        "not in sync again after 120 s: n1: Primary UpToDate, peer Connecting",
    ),
    (
        {"course_resynced": waited(), "course_records": QUIET},
        "unknown",
        "a resync was not seen from beginning to end, only nothing",
    ),
    (
        {
            "course_resynced": waited(),
            "course_records": (NodeRecord("n1", history("SyncSource"), log()),),
        },
        "unknown",
        "only n1 SyncSource (events2)",
    ),
    (
        {"course_records": QUIET},
        "holds",
        "in sync again after 2.0 s, by a resync seen on n1 and n2",
    ),
    ({"course_resynced": waited()}, "holds", "in sync again after 2.0 s, by a resync seen on n1"),
    (
        {
            "course_resynced": waited(),
            "course_records": (NodeRecord("n2", NO_HISTORY, log("resync started", "resync done")),),
        },
        "holds",
        "by a resync seen on n2",
    ),
    ({"course_acts": (ROLE_REFUSED,)}, "broken", "refused: drbdadm secondary r0 on n1"),
    (
        {"course_acts": (refused(ROLE_REFUSED, said="Device is held open by someone"),)},
        "unknown",
        "not carried out: drbdadm secondary r0 on n1",
    ),
    (
        {"course_acts": (refused(ROLE_REFUSED, 127, "drbdadm: not found"),)},
        "unknown",
        "not carried out: drbdadm secondary r0 on n1",
    ),
    (
        {"course_acts": (refused(ROLE_REFUSED, 126, "drbdadm: Permission denied"),)},
        "unknown",
        "not carried out: drbdadm secondary r0 on n1",
    ),
    (
        {
            "course_resynced": waited(),
            "course_records": (NodeRecord("n2", NO_HISTORY, log("resync done")),),
        },
        "unknown",
        "a resync was not seen from beginning to end, only nothing",
    ),
    ({"course_acts": (refused(act("drbdadm disconnect r0")),)}, "holds", "in sync again"),
    ({"course_acts": (act(),)}, "holds", "in sync again"),
]

MISREAD: list[tuple[dict[str, Any], str, str]] = [
    (
        {"course_read": reads(("n1", 0, "aa"), ("n1", 32, "bb"), ("n2", 0, "aa"), ("n2", 32, "x"))},
        "broken",
        "blocks 32 to 63 reads on n2 as x, written was bb",
    ),
    (
        {"course_read": reads(("n1", 0, "x"), ("n1", 32, "bb"), ("n2", 0, "aa"), ("n2", 32, "bb"))},
        "broken",
        "blocks 0 to 31 reads on n1 as x, written was aa",
    ),
    ({"course_read": ON_BOTH[:3]}, "unknown", "blocks 32 to 63 was not read on n2"),
    ({"course_read": ON_BOTH[1:]}, "unknown", "blocks 0 to 31 was not read on n1"),
    (
        {"course_read": (*ON_BOTH[:3], extent("n2", 32, "", 50.0))},
        "unknown",
        "blocks 32 to 63 was read on n2 in part only",
    ),
    (
        {"course_read": (*ON_BOTH[:3], extent("n2", 32, "", 50.0, exit_code=1, said="I/O error"))},
        "broken",
        "refused: dd on n2: exit status 1 (I/O error)",
    ),
    (
        {"course_read": (*ON_BOTH[:3], extent("n2", 32, "", 50.0, exit_code=None, said="60 s"))},
        "unknown",
        "not carried out: dd on n2: no exit status (60 s)",
    ),
    (
        {"course_written": (WRITTEN[0], extent("n1", 32, "", 22.0))},
        "unknown",
        "blocks 32 to 63 written on n1 could not be read there",
    ),
    (
        {"course_written": (WRITTEN[0], extent("n1", 32, "", 22.0, exit_code=1, said="I/O error"))},
        "broken",
        "refused: dd on n1: exit status 1 (I/O error)",
    ),
    (
        {"course_written": (WRITTEN[0], extent("n1", 32, "", 22.0, exit_code=None, said="120 s"))},
        "unknown",
        "not carried out: dd on n1: no exit status (120 s)",
    ),
    (
        {"course_written": (extent("n1", 0, "aa", 19.6), WRITTEN[1])},
        "unknown",
        "blocks 0 to 31 was not written before:",
    ),
    ({"course_written": (extent("n1", 0, "aa", 19.5), WRITTEN[1])}, "holds", "same on both"),
]
"""The first extent was written before the event, at 20.0, the second during it."""


# -- a replica lost

REPLICA = ReplicaLoss(AT, course(), "n1", "n2", OFF, waited(APART), ("b1", "b2"))
BOOTS: list[tuple[dict[str, Any], str, str]] = [
    ({"boots": ("b1", "b1")}, "unknown", "NODE is on boot b1 still, so it was never off"),
    ({"boots": ("b1", "")}, "unknown", "NODE did not come back, or its boot id was not read"),
    ({"boots": ("", "b2")}, "unknown", "was not read before it was switched off"),
    ({"boots": ("", "")}, "unknown", "did not come back"),
    ({"off": refused(OFF, None)}, "unknown", "it could not be provoked: switch off"),
]


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "n1 wrote on with n2 switched off (one write took 0.5 s)"),
        *COMMON,
        *MISREAD,
        *BOOTS,
        (
            {"alone": waited(IN_SYNC, came=False)},
            "broken",
            "n1 took its peer for connected after 60 s",
        ),
    ],
)
def test_replica_loss(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial, said = altered(REPLICA, **changed), said.replace("NODE", "n2")
    check(drbd_replica_loss(trial, "volume r0"), "drbd-replica-loss", outcome, said, trial)


def test_what_cannot_be_read_for_a_refused_role_is_no_more_evidence() -> None:
    failed = extent("n2", 32, "", 50.0, exit_code=1, said="Wrong medium type")
    held = refused(ROLE_REFUSED, said="held open by someone")
    trial = altered(REPLICA, course_read=(*ON_BOTH[:3], failed), course_acts=(held,))
    verdict = drbd_replica_loss(trial, "volume r0")
    assert verdict.outcome == "unknown"
    assert "not carried out: dd on n2" in verdict.because
    at_once = dataclasses.replace(failed, act=dataclasses.replace(failed.act, at=held.at))
    trial = altered(REPLICA, course_read=(*ON_BOTH[:3], at_once), course_acts=(held,))
    assert drbd_replica_loss(trial, "volume r0").outcome == "unknown"
    early = dataclasses.replace(failed, act=dataclasses.replace(failed.act, at=14.9))
    trial = altered(REPLICA, course_read=(*ON_BOTH[:3], early), course_acts=(held,))
    assert drbd_replica_loss(trial, "volume r0").outcome == "broken"


def test_other_bytes_are_evidence_whatever_was_refused() -> None:
    held = refused(ROLE_REFUSED, said="held open by someone")
    trial = altered(
        REPLICA, course_read=(*ON_BOTH[:3], extent("n2", 32, "x", 50.0)), course_acts=(held,)
    )
    verdict = drbd_replica_loss(trial, "volume r0")
    assert verdict.outcome == "broken" and "reads on n2 as x" in verdict.because


def test_the_last_reading_counts() -> None:
    stale = extent("n2", 0, "x", 40.0)
    trial = altered(REPLICA, course_read=(stale, *ON_BOTH))
    assert drbd_replica_loss(trial, "volume r0").outcome == "holds"


# -- the Primary lost

REJOINED = ready("Secondary", "Primary")
PRIMARY = PrimaryLoss(
    AT,
    course(
        written=(extent("n1", 0, "aa", 10.0), extent("n2", 32, "bb", 24.0)),
        read=reads(("n2", 0, "aa"), ("n1", 0, "aa"), ("n1", 32, "bb")),
    ),
    "n1",
    "n2",
    act("switch off", "n1", 20.0),
    waited(APART),
    ("b1", "b2"),
    act(),
    REJOINED,
)


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "n2 was promoted without force, had all that was acknowledged, and n1"),
        *COMMON,
        *BOOTS,
        ({"course_read": reads(("n1", 0, "aa"), ("n1", 32, "bb"))}, "unknown", "not read on n2"),
        (
            {"course_read": reads(("n2", 0, "x"), ("n1", 0, "aa"), ("n1", 32, "bb"))},
            "broken",
            "blocks 0 to 31 reads on n2 as x",
        ),
        (
            {"course_read": reads(("n2", 0, "aa"), ("n1", 0, "x"), ("n1", 32, "bb"))},
            "broken",
            "blocks 0 to 31 reads on n1 as x",
        ),
        (
            {"course_read": reads(("n2", 0, "aa"), ("n1", 0, "aa"), ("n1", 32, "x"))},
            "broken",
            "blocks 32 to 63 reads on n1 as x",
        ),
        (
            {"course_written": (extent("n1", 0, "aa", 19.9), extent("n2", 32, "bb", 24.0))},
            "unknown",
            "was not written before: switch off",
        ),
        (
            {"course_written": (WRITTEN[0], extent("n2", 32, "", 24.0, exit_code=1))},
            "broken",
            "refused: dd on n2",
        ),
        ({"promoted": act("drbdadm primary --force r0")}, "unknown", "promoted by force"),
        ({"course_acts": (refused(act(), 17),)}, "broken", "refused: drbdadm primary r0 on n2"),
        (
            {"course_acts": (refused(act(), None),)},
            "unknown",
            "not carried out: drbdadm primary r0",
        ),
        (
            {"alone": waited(IN_SYNC, came=False)},
            "broken",
            "n2 took its peer for connected after 60 s",
        ),
        ({"rejoined": IN_SYNC}, "broken", "the old Primary came back as one"),
    ],
)
def test_primary_loss(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial, said = altered(PRIMARY, **changed), said.replace("NODE", "n1")
    check(drbd_primary_loss(trial, "volume r0"), "drbd-primary-loss", outcome, said, trial)


# -- the link lost

CUT = act("cut the link", "n1", 20.0)
SILENT = LinkLoss(AT, course(), "n1", "n2", False, CUT, waited(APART), (("n1", 2.5), ("n2", 30.0)))
CARRIER = altered(SILENT, carrier=True)


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "noticed by n1 after 2.5 s, n2 after 30.0 s; checksums are the same on both"),
        *COMMON,
        *MISREAD,
        ({"cut": refused(CUT, None)}, "unknown", "it could not be provoked: cut the link"),
        ({"noticed": (("n1", 2.5), ("n2", 30.1))}, "broken", "n2 noticed after 30.1 s of 30"),
        ({"noticed": (("n1", 31.0), ("n2", 2.0))}, "broken", "n1 noticed after 31.0 s of 30"),
        ({"noticed": (("n1", None), ("n2", 2.0))}, "broken", "n1 took its peer for connected"),
        ({"noticed": (("n1", 2.0), ("n2", None))}, "broken", "n2 took its peer for connected"),
        (
            {"noticed": (("n1", None), ("n2", None))},
            "unknown",
            "the peer acknowledged all the same: the link was not cut",
        ),
        (
            {
                "noticed": (("n1", None), ("n2", None)),
                "course_written": (WRITTEN[0], extent("n1", 32, "", 22.0, exit_code=None)),
            },
            "broken",
            "n1 took its peer for connected after 60 s; cut",
        ),
    ],
)
@pytest.mark.parametrize("carrier", [False, True])
def test_link_loss(changed: dict[str, Any], outcome: str, said: str, *, carrier: bool) -> None:
    trial = altered(CARRIER if carrier else SILENT, **changed)
    pair = (SILENT, trial) if carrier else (trial, CARRIER)
    check(drbd_link_loss(*pair, "volume r0"), "drbd-link-loss", outcome, said, *pair)


def test_how_the_link_was_cut_is_told() -> None:
    verdict = drbd_link_loss(SILENT, CARRIER, "volume r0")
    assert "cut silently, noticed by" in verdict.because
    assert "cut with its carrier, noticed by" in verdict.because


@pytest.mark.parametrize("pair", [(LOST, CARRIER), (SILENT, LOST), (LOST, LOST)])
def test_one_of_the_two_cuts_is_not_enough(pair: Any) -> None:
    check(drbd_link_loss(*pair, "volume r0"), "drbd-link-loss", "unknown", "the reason", *pair)


def test_a_cut_that_breaks_it_counts_without_the_other() -> None:
    trial = altered(SILENT, noticed=(("n1", 2.5), ("n2", None)))
    verdict = drbd_link_loss(trial, LOST, "volume r0")
    check(verdict, "drbd-link-loss", "broken", "n2 took its peer", trial, LOST)


# -- failover

FAILOVER = PlannedFailover(
    AT,
    course(
        written=(extent("n1", 0, "aa", 10.0), extent("n2", 32, "bb", 24.0)),
        read=reads(("n2", 0, "aa"), ("n1", 0, "aa"), ("n1", 32, "bb")),
        resynced=None,
        records=QUIET,
        acts=(act("drbdadm secondary r0", "n1", 20.0), act(at=20.5)),
    ),
    "n1",
    "n2",
    act("drbdadm secondary r0", "n1", 20.0),
    act(at=20.5, seconds=0.7),
    MOVED,
)
UNSEEN = look(view("n1", "Secondary", "Primary"), View("n2", missing="could not be read"))


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "n2 took over from n1 in 1.2 s and gave it back; checksums are the same"),
        ({"course_before": MOVED}, "unknown", "n1 was not Primary of a volume in sync"),
        ({"course_before": NOT_IN_SYNC}, "unknown", "n1 was not Primary of a volume in sync"),
        ({"course_after": NOT_IN_SYNC}, "unknown", "not in sync in the end"),
        ({"moved": IN_SYNC}, "broken", "demoted, and Primary still"),
        ({"moved": ready("Secondary", "Secondary")}, "broken", "promoted, and not Primary"),
        ({"moved": UNSEEN}, "unknown", "nobody saw its new role: n2: could not be read"),
        ({"course_acts": (ROLE_REFUSED,)}, "broken", "refused: drbdadm secondary r0 on n1"),
        (
            {
                "course_acts": (refused(ROLE_REFUSED, said="held open by someone"),),
                "demoted": refused(ROLE_REFUSED, said="held open by someone"),
                "promoted": refused(act(at=20.5)),
                "moved": IN_SYNC,
                "course_written": (WRITTEN[0], extent("n2", 32, "", 24.0, exit_code=1)),
            },
            "unknown",
            "held open by someone",
        ),
        (
            {"course_acts": (act(at=19.0), refused(act(at=20.5)))},
            "broken",
            "refused: drbdadm primary r0 on n2",
        ),
        (
            {
                "course_acts": (refused(ROLE_REFUSED, None),),
                "demoted": refused(ROLE_REFUSED, None),
                "moved": IN_SYNC,
            },
            "broken",
            "promoted, and not Primary",
        ),
        (
            {
                "course_acts": (refused(act(at=20.5), None),),
                "promoted": refused(act(at=20.5), None),
                "moved": IN_SYNC,
                "demoted": refused(ROLE_REFUSED, None),
            },
            "unknown",
            "not carried out: drbdadm primary r0 on n2: no exit status",
        ),
        (
            {"course_read": reads(("n2", 0, "x"), ("n1", 0, "aa"), ("n1", 32, "bb"))},
            "broken",
            "blocks 0 to 31 reads on n2 as x",
        ),
        (
            {"course_read": reads(("n2", 0, "aa"), ("n1", 0, "x"), ("n1", 32, "bb"))},
            "broken",
            "blocks 0 to 31 reads on n1 as x",
        ),
        (
            {"course_read": reads(("n2", 0, "aa"), ("n1", 0, "aa"), ("n1", 32, "x"))},
            "broken",
            "blocks 32 to 63 reads on n1 as x",
        ),
        ({"course_read": reads(("n1", 0, "aa"), ("n1", 32, "bb"))}, "unknown", "not read on n2"),
        ({"course_read": reads(("n2", 0, "aa"), ("n1", 0, "aa"))}, "unknown", "not read on n1"),
        (
            {"course_written": (extent("n1", 0, "aa", 19.9), extent("n2", 32, "bb", 24.0))},
            "unknown",
            "was not written before: drbdadm secondary r0",
        ),
        (
            {"course_written": (WRITTEN[0], extent("n2", 32, "", 24.0))},
            "unknown",
            "blocks 32 to 63 written on n2 could not be read there",
        ),
    ],
)
def test_failover(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial = altered(FAILOVER, **changed)
    check(drbd_failover(trial, "volume r0"), "drbd-failover", outcome, said, trial)


def test_what_was_not_demoted_may_be_primary_still() -> None:
    trial = altered(
        FAILOVER,
        course_acts=(refused(ROLE_REFUSED, None),),
        demoted=refused(ROLE_REFUSED, None),
        moved=IN_SYNC,
    )
    assert "demoted, and Primary still" not in drbd_failover(trial, "volume r0").because


# -- split brain

PROMOTED = act(at=22.0)
KEPT, GIVEN_UP = extent("n1", 0, "aa", 21.0), extent("n2", 0, "zz", 23.0)
NAMED = (
    NodeRecord("n1", history("Off", "SyncSource", "Established"), log("split brain")),
    NodeRecord("n2", NO_HISTORY, log()),
)
UNNAMED = (*RESYNCED[:1], NodeRecord("n2", NO_HISTORY, Unread(AT, "dmesg", "no dmesg")))
SPLIT = SplitBrain(
    AT,
    course(
        written=(KEPT, GIVEN_UP),
        read=reads(("n1", 0, "aa"), ("n2", 0, "aa")),
        records=NAMED,
        acts=(PROMOTED,),
    ),
    "n1",
    "n2",
    CUT,
    PROMOTED,
    KEPT,
    GIVEN_UP,
    waited(APART, STANDING, seconds=5.7),
    (("n1", "r0 role:Primary\n  disk:UpToDate\n"), ("n2", "r0 role:Primary\n  disk:UpToDate\n")),
    act("drbdadm connect --discard-my-data r0"),
)
RECONNECTED = look(view("n1", "Primary", "Unknown", **ALONE), view("n2", "Secondary", "Primary"))
SHOWN = "r0 role:Primary\n  disk:UpToDate\n  n1 connection:StandAlone\n"


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "StandAlone on both after 5.7 s, named in the log"),
        ({}, "holds", "the bytes of n1 are on both, those of n2 are gone"),
        ({}, "holds", "drbdadm status showed it on neither"),
        ({"plain": (("n1", ""), ("n2", SHOWN))}, "holds", "drbdadm status showed it on n2"),
        *[one for one in COMMON if "course_records" not in one[0]],
        ({"cut": refused(CUT, None)}, "unknown", "it could not be provoked: cut the link"),
        (
            {"promoted": refused(PROMOTED, 17), "course_acts": (refused(PROMOTED, 17),)},
            "unknown",
            "it could not be provoked: drbdadm primary r0 on n2: exit status 17",
        ),
        (
            {"kept": extent("n1", 0, "", 21.0, exit_code=1)},
            "unknown",
            "n1 was not written to while apart",
        ),
        ({"lost": extent("n2", 0, "", 23.0)}, "unknown", "n2 was not written to while apart"),
        ({"met": waited(RECONNECTED, came=False)}, "broken", "as if they had not diverged"),
        ({"met": waited(IN_SYNC, came=False)}, "broken", "as if they had not diverged"),
        (
            {"met": waited(APART, came=False, seconds=60.0)},
            "broken",
            "not StandAlone on both after 60 s",
        ),
        (
            {"course_records": UNNAMED},
            "unknown",
            "no kernel log calls it a split brain; no dmesg",
        ),
        ({"course_records": RESYNCED}, "unknown", "no kernel log calls it a split brain"),
        (
            {"discarded": refused(act("drbdadm connect --discard-my-data r0"), 20)},
            "broken",
            "refused: drbdadm connect --discard-my-data r0",
        ),
        (
            {"course_read": reads(("n1", 0, "zz"), ("n2", 0, "aa"))},
            "broken",
            "blocks 0 to 31 reads on n1 as zz, written was aa",
        ),
        (
            {"course_read": reads(("n1", 0, "aa"), ("n2", 0, "zz"))},
            "broken",
            "blocks 0 to 31 reads on n2 as zz, written was aa",
        ),
        ({"course_read": reads(("n1", 0, "aa"))}, "unknown", "was not read on n2"),
        ({"course_read": reads(("n2", 0, "aa"))}, "unknown", "was not read on n1"),
    ],
)
def test_split_brain(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial = altered(SPLIT, **changed)
    check(drbd_split_brain(trial, "volume r0"), "drbd-split-brain", outcome, said, trial)


# -- an outdated replica

OUTDATED = look(
    view("n1", "Primary", "Unknown", **GONE),
    view("n2", "Secondary", "Unknown", disk="Outdated", **ALONE),
)
NOT_PROMOTED = refused(act(at=25.0), 17, "Need access to UpToDate data")
REFUSED = OutdatedRefused(
    AT, course(acts=(NOT_PROMOTED,)), "n1", "n2", OUTDATED, NOT_PROMOTED, OUTDATED
)
OUTDATED_PRIMARY = look(
    view("n1", "Primary", "Unknown", **GONE),
    view("n2", "Primary", "Unknown", disk="Outdated", **ALONE),
)
UNSEEN_THEN = look(view("n1", "Primary", "Unknown", **GONE), View("n2", missing="no answer"))


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "n2, Outdated, was refused with exit status 17 and is UpToDate again"),
        *COMMON,
        ({"outdated": APART}, "unknown", "n2 was UpToDate, not Outdated"),
        ({"outdated": UNSEEN_THEN}, "unknown", "n2 was not seen, not Outdated"),
        ({"promoted": act(at=25.0)}, "broken", "an Outdated replica was promoted"),
        ({"refused": OUTDATED_PRIMARY}, "broken", "an Outdated replica was promoted: n2: Primary"),
        ({"refused": UNSEEN_THEN}, "unknown", "it was not refused for want of data"),
        (
            {"promoted": refused(act(at=25.0), 11), "course_acts": ()},
            "unknown",
            "it was not refused for want of data: drbdadm primary r0 on n2: exit status 11",
        ),
        (
            {"promoted": refused(act(at=25.0), None), "course_acts": ()},
            "unknown",
            "it was not refused for want of data",
        ),
        (
            {"course_written": (WRITTEN[0], extent("n1", 32, "bb", 24.9))},
            "unknown",
            "blocks 32 to 63 was not written before: drbdadm primary",
        ),
        (
            {"course_written": (WRITTEN[0], extent("n1", 32, "", 22.0, exit_code=1))},
            "broken",
            "refused: dd on n1",
        ),
        (
            {"course_read": reads(("n2", 32, "x"))},
            "broken",
            "blocks 32 to 63 reads on n2 as x, written was bb",
        ),
        ({"course_read": reads(("n1", 32, "bb"))}, "unknown", "was not read on n2"),
    ],
)
def test_outdated_refused(changed: dict[str, Any], outcome: str, said: str) -> None:
    if changed.get("course_acts"):
        changed = {**changed, "course_acts": (NOT_PROMOTED, *changed["course_acts"])}
    trial = altered(REFUSED, **changed)
    verdict = drbd_outdated_refused(trial, "volume r0")
    check(verdict, "drbd-outdated-refused", outcome, said, trial)


# -- a disk lost

DISKLESS_2 = look(
    view("n1", "Primary", "Secondary", peer_disk="Diskless"),
    view("n2", "Secondary", "Primary", disk="Diskless"),
)
DISKLESS_1 = look(
    view("n1", "Primary", "Secondary", disk="Diskless"),
    view("n2", "Secondary", "Primary", peer_disk="Diskless"),
)
NO_ANSWER = look(View("n1", missing="no answer"), View("n2", missing="no answer"))
TAKEN = act("sh -c echo", "n2", 20.0)
BELOW_2 = DiskLoss(
    AT, course(), "n1", "n2", "n2", True, TAKEN, IN_SYNC, (WRITTEN[1],), waited(DISKLESS_2)
)
READ = extent("n1", 0, "aa", 21.0)
BELOW_1 = DiskLoss(
    AT, course(), "n1", "n2", "n1", True, TAKEN, IN_SYNC, (READ, WRITTEN[1]), waited(DISKLESS_1)
)
DISK: list[tuple[dict[str, Any], str, str]] = [
    *COMMON,
    *MISREAD,
    ({"gone": refused(TAKEN)}, "unknown", "it could not be provoked: sh -c echo"),
    ({"failed": waited(IN_SYNC, came=False)}, "broken", "is gone, and not told so after I/O"),
    ({"failed": waited(NO_ANSWER, came=False)}, "unknown", "is gone, and not told so after I/O"),
]


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "the disk of n2 vanished, told as UpToDate before and Diskless after I/O"),
        ({"vanished": False, "quiet": DISKLESS_2}, "holds", "n2 was detached, told as Diskless"),
        *DISK,
    ],
)
def test_disk_loss_below_the_secondary(changed: dict[str, Any], outcome: str, said: str) -> None:
    pair = (altered(BELOW_2, **changed), BELOW_1)
    check(drbd_disk_loss(*pair, "volume r0"), "drbd-disk-loss", outcome, said, *pair)


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "the disk of n1 vanished, told as UpToDate before and Diskless after I/O"),
        *DISK,
        (
            {"io": (extent("n1", 0, "x", 21.0), WRITTEN[1])},
            "broken",
            "without its disk n1 reads x, written was aa",
        ),
        (
            {"course_written": (extent("n1", 0, "", 10.0), WRITTEN[1])},
            "unknown",
            "blocks 0 to 31 written on n1 could not be read there",
        ),
        (
            {"io": (extent("n1", 0, "", 21.0), WRITTEN[1])},
            "broken",
            "without its disk n1 reads in part only, written was aa",
        ),
        (
            {"io": (extent("n1", 0, "", 21.0, exit_code=1, said="I/O error"), WRITTEN[1])},
            "broken",
            "refused: dd on n1: exit status 1 (I/O error)",
        ),
        (
            {"io": (extent("n1", 0, "", 21.0, exit_code=None, said="gone"), WRITTEN[1])},
            "unknown",
            "not carried out: dd on n1: no exit status (gone)",
        ),
    ],
)
def test_disk_loss_below_the_primary(changed: dict[str, Any], outcome: str, said: str) -> None:
    pair = (BELOW_2, altered(BELOW_1, **changed))
    check(drbd_disk_loss(*pair, "volume r0"), "drbd-disk-loss", outcome, said, *pair)


@pytest.mark.parametrize("pair", [(LOST, BELOW_1), (BELOW_2, LOST), (LOST, LOST)])
def test_one_of_the_two_disks_is_not_enough(pair: Any) -> None:
    check(drbd_disk_loss(*pair, "volume r0"), "drbd-disk-loss", "unknown", "the reason", *pair)


# -- quorum, and what DRBD does with I/O

ISOLATED = look(
    view("n1", "Primary", "Unknown", quorum=False, suspended=("quorum",), **GONE),
    view("n2", "Secondary", "Unknown", quorum=True, **GONE),
)
WITH_QUORUM = look(
    view("n1", "Primary", "Secondary", quorum=True), view("n2", "Secondary", "Primary", quorum=True)
)
PENDING = act("dd", "n1", 40.0, exit_code=None, said="the write has not ended")
ENDED = act("dd", "n1", 50.0)
QUORUM = QuorumLoss(
    AT,
    course(
        before=WITH_QUORUM,
        after=WITH_QUORUM,
        written=WRITTEN[:1],
        read=reads(("n1", 0, "aa"), ("n2", 0, "aa")),
        resynced=waited(WITH_QUORUM),
        records=QUIET,
    ),
    "n1",
    "n2",
    waited(ISOLATED),
    PENDING,
    ENDED,
)
NOT_SAID = look(
    view("n1", "Primary", "Unknown", quorum=False, suspended=(), **GONE),
    view("n2", "Secondary", "Unknown", quorum=True, **GONE),
)
STILL: list[tuple[dict[str, Any], str, str]] = [
    ({}, "holds", "without the majority a write on n1 stood still, and it went on with it"),
    ({"course_before": NOT_IN_SYNC}, "unknown", "n1 was not Primary of a volume in sync"),
    ({"course_before": IN_SYNC}, "unknown", "n1 had no quorum to lose"),
    ({"lost": waited(NOT_SAID)}, "unknown", "nobody said that I/O is suspended"),
    ({"lost": waited(WITH_QUORUM, came=False)}, "broken", "cut off from the majority, and it has"),
    ({"pending": ENDED}, "broken", "a write was acknowledged without a majority"),
    (
        {"pending": refused(PENDING, 1, "I/O error")},
        "broken",
        "a write without a majority failed: dd on n1: exit status 1 (I/O error)",
    ),
    (
        {"ended": refused(ENDED, 5)},
        "broken",
        "the write failed once the majority was back: dd on n1: exit status 5",
    ),
    (
        {"ended": dataclasses.replace(PENDING, said="60 s")},
        "unknown",
        "the write was not seen to go on: dd on n1: no exit status (60 s)",
    ),
    ({"course_acts": (ROLE_REFUSED,)}, "broken", "refused: drbdadm secondary r0 on n1"),
]


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        *STILL,
        ({"course_resynced": None}, "unknown", "nobody waited for a resync"),
        ({"course_resynced": waited(APART, came=False)}, "broken", "not in sync again"),
        ({"course_read": reads(("n1", 0, "x"), ("n2", 0, "aa"))}, "broken", "reads on n1 as x"),
        ({"course_read": reads(("n1", 0, "aa"), ("n2", 0, "x"))}, "broken", "reads on n2 as x"),
        (
            {"course_written": (extent("n1", 0, "", 10.0),)},
            "unknown",
            "blocks 0 to 31 written on n1 could not be read there",
        ),
    ],
)
def test_quorum(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial = altered(QUORUM, **changed)
    check(drbd_quorum(trial, "volume r0"), "drbd-quorum", outcome, said, trial)


def test_a_resync_is_not_asked_for_where_nothing_was_written() -> None:
    assert "by a resync" not in drbd_quorum(QUORUM, "volume r0").because


@pytest.mark.parametrize(("changed", "outcome", "said"), STILL)
def test_the_policy_without_a_quorum(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial = altered(QUORUM, **changed)
    verdict = drbd_io_policy(LOST, trial, "volume r0")
    check(verdict, "drbd-io-policy", outcome, said, LOST, trial)


FORCED = altered(BELOW_1, vanished=False)


@pytest.mark.parametrize(
    ("disk", "quorum", "outcome", "said"),
    [
        (BELOW_1, LOST, "holds", "2 requests after the disk of n1 vanished succeeded, and it was"),
        (BELOW_1, QUORUM, "holds", "it was let go; without the majority a write on n1"),
        (FORCED, QUORUM, "holds", "(on-no-quorum suspend-io)"),
        (LOST, NO_HISTORY, "unknown", "the reason; events2 could not be read: not read"),
        (FORCED, LOST, "unknown", "was detached by force, which gives no I/O error; a trial of"),
        (
            altered(BELOW_1, io=(READ, extent("n1", 32, "", 22.0, exit_code=1, said="I/O error"))),
            LOST,
            "broken",
            "refused: dd on n1: exit status 1 (I/O error)",
        ),
        (
            altered(BELOW_1, io=(extent("n1", 0, "", 21.0, exit_code=1), WRITTEN[1])),
            QUORUM,
            "broken",
            "refused: dd on n1",
        ),
        (
            altered(BELOW_1, failed=waited(IN_SYNC, came=False)),
            LOST,
            "broken",
            "a disk that failed was not let go",
        ),
        (
            altered(BELOW_1, failed=waited(NO_ANSWER, came=False)),
            LOST,
            "unknown",
            "a disk that failed was not let go: n1: no answer",
        ),
        (altered(BELOW_1, gone=refused(TAKEN)), LOST, "unknown", "could not be provoked"),
        (altered(BELOW_1, course_before=MOVED), LOST, "unknown", "n1 was not Primary"),
        (altered(BELOW_1, course_acts=(ROLE_REFUSED,)), LOST, "broken", "refused: drbdadm"),
    ],
)
def test_io_policy(disk: Any, quorum: Any, outcome: str, said: str) -> None:
    verdict = drbd_io_policy(disk, quorum, "volume r0")
    check(verdict, "drbd-io-policy", outcome, said, disk, quorum)


# -- verify

DAMAGED = act("dd of=/dev/vdb", "n2", 20.0)
VERIFYING = look(
    view("n1", "Primary", "Secondary", peer_replication="VerifyS"),
    view("n2", "Secondary", "Primary", peer_replication="VerifyT"),
)
RAN = waited(VERIFYING, NOT_IN_SYNC)
RAN_CLEAN = waited(VERIFYING, IN_SYNC)
VERIFY = VerifyFound(
    AT,
    course(),
    "n1",
    "n2",
    DAMAGED,
    WRITTEN[0],
    IN_SYNC,
    (RAN, RAN_CLEAN),
    NOT_IN_SYNC,
    IN_SYNC,
)
ONE_SIDE = look(
    view("n1", "Primary", "Secondary"), view("n2", "Secondary", "Primary", peer_out_of_sync=4096)
)
TOLD = look(
    view("n1", "Primary", "Secondary", peer_out_of_sync=4096),
    view("n2", "Secondary", "Primary", disk="Inconsistent"),
)
TOLD_NOTHING = look(
    view("n1", "Primary", "Secondary", peer_out_of_sync=None),
    view("n2", "Secondary", "Primary", peer_out_of_sync=None),
)
NOT_SEEN = waited(IN_SYNC)
TWICE = (*RESYNCED[:1], NodeRecord("n2", NO_HISTORY, log("verify done", "verify done")))
ONCE = (*RESYNCED[:1], NodeRecord("n2", NO_HISTORY, log("verify done")))


@pytest.mark.parametrize(
    ("changed", "outcome", "said"),
    [
        ({}, "holds", "a verify found 4096 bytes out of sync between two UpToDate disks; none"),
        ({"found": ONE_SIDE}, "holds", "a verify found 4096 bytes"),
        *COMMON,
        ({"damaged": refused(DAMAGED)}, "unknown", "it could not be provoked: dd of=/dev/vdb"),
        (
            {"sound": extent("n1", 0, "aa", 19.9)},
            "unknown",
            "blocks 0 to 31 was not written before: dd of=/dev/vdb",
        ),
        ({"sound": extent("n1", 0, "", 10.0)}, "unknown", "could not be read there"),
        ({"quiet": NOT_IN_SYNC}, "unknown", "the damage was known before the verify"),
        (
            {"course_acts": (refused(act("drbdadm verify r0", "n1"), 11, "Need a verify algor"),)},
            "unknown",
            "it could not be provoked: drbdadm verify r0 on n1: exit status 11 (Need a verify",
        ),
        (
            {"found": IN_SYNC, "clean": TOLD_NOTHING},
            "broken",
            "a verify found nothing: n1: Primary UpToDate, peer Secondary UpToDate Established, 0",
        ),
        ({"found": TOLD_NOTHING}, "broken", "a verify found nothing"),
        (
            {"found": IN_SYNC, "verified": (NOT_SEEN, RAN_CLEAN), "course_records": ()},
            "unknown",
            "a verify was not seen to run and to end",
        ),
        (
            {"verified": (RAN, NOT_SEEN), "course_records": ()},
            "unknown",
            "a verify was not seen to run and to end",
        ),
        (
            {"found": IN_SYNC, "verified": (NOT_SEEN, RAN_CLEAN)},
            "unknown",
            "a verify was not seen to run and to end",
        ),
        (
            {"found": IN_SYNC, "verified": (NOT_SEEN, RAN_CLEAN), "course_records": ONCE},
            "broken",
            "a verify found nothing",
        ),
        (
            {"found": IN_SYNC, "verified": (waited(VERIFYING, came=False), RAN_CLEAN)},
            "unknown",
            "a verify was not seen to run and to end",
        ),
        (
            {"found": TOLD},
            "unknown",
            "the states had told of it: n1: Primary UpToDate, peer Secondary UpToDate Established, "
            "4096 bytes out of sync | n2: Secondary Inconsistent",
        ),
        (
            {"clean": ONE_SIDE},
            "broken",
            "4096 bytes differ after the resync: n1: Primary UpToDate, peer Secondary UpToDate "
            "Established, 0 bytes",
        ),
        ({"verified": (RAN, NOT_SEEN)}, "unknown", "a verify was not seen to run and to end"),
        (
            {"verified": (RAN, NOT_SEEN), "course_records": ONCE},
            "unknown",
            "a verify was not seen to run and to end",
        ),
        ({"verified": (RAN, NOT_SEEN), "course_records": TWICE}, "holds", "by a second verify"),
        (
            {"verified": (RAN, waited(VERIFYING, came=False))},
            "unknown",
            "a verify was not seen to run and to end",
        ),
        (
            {"course_read": reads(("n1", 0, "x"), ("n2", 0, "aa"))},
            "broken",
            "blocks 0 to 31 reads on n1 as x",
        ),
        (
            {"course_read": reads(("n1", 0, "aa"), ("n2", 0, "x"))},
            "broken",
            "blocks 0 to 31 reads on n2 as x",
        ),
    ],
)
def test_verify(changed: dict[str, Any], outcome: str, said: str) -> None:
    trial = altered(VERIFY, **changed)
    check(drbd_verify(trial, "volume r0"), "drbd-verify", outcome, said, trial)


def test_a_client_without_a_disk_is_not_in_the_way() -> None:
    client = View("n3", "Secondary", "Diskless", (PeerView("n1", "Connected"),), client=True)
    found = Look(1.0, (*NOT_IN_SYNC.views, client))
    trial = altered(VERIFY, found=found)
    assert drbd_verify(trial, "volume r0").outcome == "holds"


# -- a trial that was not made


@pytest.mark.parametrize(
    ("claim", "ask"),
    [
        ("drbd-failover", drbd_failover),
        ("drbd-replica-loss", drbd_replica_loss),
        ("drbd-primary-loss", drbd_primary_loss),
        ("drbd-split-brain", drbd_split_brain),
        ("drbd-outdated-refused", drbd_outdated_refused),
        ("drbd-verify", drbd_verify),
        ("drbd-quorum", drbd_quorum),
    ],
)
def test_a_trial_that_was_not_made(claim: str, ask: Any) -> None:
    check(ask(LOST, "volume r0"), claim, "unknown", "the reason", LOST)
