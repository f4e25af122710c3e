"""disk-failover: what breaks it, what leaves it open, and that a good trial holds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import judge
from harness.facts.diskfailover import (
    Counters,
    DiskFailover,
    Freeze,
    KeptFile,
    NodeLoss,
    NotTried,
    StorageHosts,
)
from harness.facts.drbd import DrbdHistory
from harness.facts.drbdlooks import Look, PeerView, View
from harness.facts.drbdtrials import Act, Course, NodeRecord, Waited
from harness.facts.fact import Origin, Unread

ORIGIN = Origin(100.0, "volume pvc-1", "")
NODES = ("hv-1", "hv-2", "hv-3")
MIB = 1 << 20


def act(what: str = "dd", at: float = 10.0, code: int | None = 0, said: str = "") -> Act:
    return Act(what, "worker", at, 1.0, code, said)


def view(node: str, lost: str = "", **more: Any) -> View:
    def peer(name: str) -> PeerView:
        if lost in (name, node):
            return PeerView(name, "Connecting")
        state = ("Connected", "Secondary", "Established", "UpToDate")
        return PeerView(name, *state, out_of_sync=0)

    role = "Primary" if node == "hv-1" else "Secondary"
    others = tuple(peer(one) for one in NODES if one != node)
    known: dict[str, Any] = {"suspended": (), "quorum": True, **more}
    return View(node, role, "UpToDate", others, **known)


def look(at: float = 5.0, lost: str = "", **own: Any) -> Look:
    first, *rest = NODES
    return Look(at, (view(first, lost, **own), *(view(one, lost) for one in rest)))


def waited(*looks: Look, came: bool = True) -> Waited:
    return Waited("it", 10.0, 2.0, 60.0, came, looks or (look(),))


def file(number: int, at: float, **more: Any) -> KeptFile:
    given: dict[str, Any] = {
        "digest": f"{number}" * 64,
        "before": Counters(0, 0),
        "after": Counters(0, MIB),
        "spanned": (10.0, 17.0),
        "read": f"{number}" * 64,
    }
    return KeptFile(f"/host/var/f{number}", MIB, act(at=at), **{**given, **more})


FILES = (file(1, 6.0), file(2, 21.0), file(3, 40.0))
LOSS = NodeLoss(
    "hv-2",
    act("switch off", 20.0),
    FILES[1],
    waited(look(lost="hv-2")),
    ("boot-1", "boot-2"),
    waited(),
)
FREEZE = Freeze(
    (act("cut the link to hv-2", 40.0), act("cut the link to hv-3", 40.0)),
    (),
    waited(look(lost="hv-1", suspended=("quorum",), quorum=False)),
    act(code=None, said="the write has not ended"),
    act(),
    (30.0, 55.0),
    waited(),
    moved=False,
)


def history() -> DrbdHistory:
    return DrbdHistory(ORIGIN, "hv-2", (), listed=True)


def course(**more: Any) -> Course:
    syncing = Look(50.0, (replace(view("hv-1"), peers=(PeerView("hv-2", "Connected", "Secondary",
                   "SyncSource", "Inconsistent", 4096),)), view("hv-2")))  # fmt: skip
    given: dict[str, Any] = {
        "before": look(),
        "after": look(90.0),
        "acts": (),
        "written": (),
        "read": (),
        "resynced": waited(syncing, look(60.0)),
        "records": (),
        "seconds": 90.0,
        "left": (),
    }
    return Course("pvc-1", "9.2.14", **{**given, **more})


def trial(**more: Any) -> DiskFailover:
    given: dict[str, Any] = {
        "primary": "hv-1",
        "secondary": "hv-2",
        "worker": "worker",
        "policy": "suspend-io",
        "hosts": StorageHosts(ORIGIN, ()),
        "first": FILES[0],
        "loss": LOSS,
        "freeze": FREEZE,
        "dropped": act("drop", 80.0),
        "reading": (Counters(0, 0), Counters(3 * MIB, 0)),
        "files": FILES,
        "boots": ("w-1", "w-1"),
    }
    asked = more.pop("course", course())
    return DiskFailover(ORIGIN, asked, **{**given, **more})


def test_a_good_trial_holds_and_says_what_was_seen() -> None:
    verdict = judge.disk_failover(trial(), "pool plain")
    assert verdict.outcome == "holds", verdict.because
    assert "wrote on with hv-2 switched off, in 7.0 s" in verdict.because
    assert "stood still without an error, suspended for its quorum, and went on" in verdict.because
    assert "3 files read from the disk" in verdict.because and "same boot" in verdict.because


def test_what_was_not_tried_is_told() -> None:
    seen = trial(freeze=NotTried("hv-2 runs somebody's machine"), files=FILES[:2])
    verdict = judge.disk_failover(seen, "pool plain")
    assert verdict.outcome == "holds", verdict.because
    assert "not tried: the loss of the quorum (hv-2 runs somebody's machine)" in verdict.because


def test_a_trial_that_did_not_come_about_is_unknown() -> None:
    seen = Unread(ORIGIN, "the loss of storage nodes", "not tried: hv-2 runs tenant-x/vm")
    verdict = judge.disk_failover(seen, "pool plain")
    assert verdict.outcome == "unknown" and "tenant-x/vm" in verdict.because


def lost(**more: Any) -> dict[str, Any]:
    return {"loss": replace(LOSS, **more)}


def froze(**more: Any) -> dict[str, Any]:
    return {"freeze": replace(FREEZE, **more)}


SUSPENDED_NOT = waited(look(lost="hv-1", suspended=(), quorum=False))
UNSAID = waited(look(lost="hv-1", suspended=None, quorum=False))
FAILED = act(code=1, said="Input/output error")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lost(wrote=replace(FILES[1], wrote=replace(FAILED, at=21.0))), "a write failed"),
        (lost(wrote=replace(FILES[1], spanned=(10.0, 41.0))), "took 31.0 s of 30"),
        (lost(noticed=waited(came=False)), "was taken for connected after 60 s"),
        (froze(lost=waited(came=False)), "parted from the others and has a quorum"),
        (froze(lost=SUSPENDED_NOT), "its I/O is not suspended"),
        (froze(ended=FAILED), "a write without a quorum failed"),
        (froze(pending=act()), "ended with success without a quorum"),
        (froze(ended=act(code=None, said="the write has not ended")), "did not go on"),
        (froze(spanned=(30.0, 35.0)), "without a quorum a write took 5.0 s only"),
        (froze(resynced=waited(came=False)), "not in sync again after the quorum was back"),
        ({"files": (*FILES[:2], replace(FILES[2], read="9" * 64))}, "reads as 999999999999"),
        ({"boots": ("w-1", "w-2")}, "is on another boot: w-2, was w-1"),
        ({"course": course(resynced=waited(came=False))}, "not in sync again"),
    ],
)
def test_what_breaks_it(changed: dict[str, Any], said: str) -> None:
    verdict = judge.disk_failover(trial(**changed), "pool plain")
    assert (verdict.outcome, said in verdict.because) == ("broken", True), verdict.because


UNCOUNTED = (Counters(None, None), Counters(None, None))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lost(boots=("boot-1", "boot-1")), "never off"),
        (lost(boots=("boot-1", "")), "did not come back"),
        (lost(off=act("switch off", 20.0, None, "no answer")), "could not be provoked"),
        (lost(node="hv-1"), "the node that the worker's disk was used on"),
        (lost(off=act("switch off", 22.0)), "begun before the node was lost"),
        (lost(wrote=replace(FILES[1], wrote=act(at=21.0, code=None))), "did not tell how it ended"),
        (lost(wrote=replace(FILES[1], spanned=(None, 17.0))), "did not tell how long"),
        (lost(wrote=replace(FILES[1], after=Counters(0, 10))), "did not go through this disk"),
        (lost(wrote=replace(FILES[1], after=Counters())), "does not count what was written"),
        ({"first": replace(FILES[0], digest="")}, "could not be read back at once"),
        (froze(parted=(act("cut", 40.0, None),)), "could not be provoked"),
        (froze(lost=UNSAID), "does not say whether its I/O stands still"),
        (froze(spanned=(None, None)), "did not tell how long its write took"),
        (froze(spanned=(None, None), ended=act(code=None)), "did not tell how long"),
        (froze(moved=True), "got another VMI"),
        ({"files": FILES[:2]}, "2 of 3 files were read back"),
        ({"files": (*FILES[:2], replace(FILES[2], read=""))}, "could not be read in the end"),
        ({"files": (*FILES[:2], replace(FILES[2], digest=""))}, "was not read just after it"),
        ({"dropped": FAILED}, "page cache was not dropped"),
        ({"reading": (Counters(0, 0), Counters(3 * MIB - 1, 0))}, "not all was read from the disk"),
        ({"reading": UNCOUNTED}, "does not count what is read"),
        ({"boots": ("", "w-1")}, "boot id of worker was not read"),
        ({"course": course(before=look(lost="hv-3"))}, "was not Primary of a volume in sync"),
        ({"course": course(left=("could not switch hv-2 on: no answer",))}, "not undone: could"),
        ({"course": course(resynced=waited(look(60.0)))}, "was not seen from beginning to end"),
        ({"course": course(after=look(90.0, lost="hv-2"))}, "but not in the end"),
    ],
)
def test_what_leaves_it_open(changed: dict[str, Any], said: str) -> None:
    verdict = judge.disk_failover(trial(**changed), "pool plain")
    assert (verdict.outcome, said in verdict.because) == ("unknown", True), verdict.because


def test_the_record_of_a_resync_may_be_a_history() -> None:
    kept = NodeRecord("hv-2", history(), Unread(ORIGIN, "the kernel log", "gone"))
    verdict = judge.disk_failover(trial(course=course(records=(kept,))), "pool plain")
    assert verdict.outcome == "holds", verdict.because
