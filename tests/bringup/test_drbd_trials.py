"""Each trial against two machines on made-up time, and the verdict that its fact gives."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from harness import judge
from harness.bringup.drbd.attempt import Attempt
from harness.bringup.drbd.records import Records
from harness.facts.drbd import DrbdHistory, DrbdLog
from harness.facts.drbdtrials import DrbdTrial
from harness.facts.fact import Unread
from tests.bringup.drbd_pair import BLOCK, Pair

NO_QUORUM = "DRBD 8.4 has no quorum and two nodes"


def verdict_of(claim: str, pair: Pair, **more: Any) -> Any:
    volume = pair.volume(**more)
    trials = volume.trials
    made: dict[str, Any] = {
        "drbd-failover": lambda: (trials.failover(),),
        "drbd-replica-loss": lambda: (trials.replica_loss(),),
        "drbd-primary-loss": lambda: (trials.primary_loss(),),
        "drbd-link-loss": lambda: (
            trials.link_loss(carrier=False),
            trials.link_loss(carrier=True),
        ),
        "drbd-split-brain": lambda: (trials.split_brain(),),
        "drbd-disk-loss": lambda: (
            trials.disk_loss(under_primary=False),
            trials.disk_loss(under_primary=True),
        ),
        "drbd-outdated-refused": lambda: (trials.outdated(),),
        "drbd-verify": lambda: (trials.verify(),),
        "drbd-io-policy": lambda: (trials.disk_loss(under_primary=True), trials.quorum_loss()),
        "drbd-quorum": lambda: (trials.quorum_loss(),),
    }
    facts = made[claim]()
    ask = getattr(judge, claim.replace("-", "_"))
    return ask(*facts, volume.subject)


ALL = [
    "drbd-failover",
    "drbd-replica-loss",
    "drbd-primary-loss",
    "drbd-link-loss",
    "drbd-split-brain",
    "drbd-disk-loss",
    "drbd-outdated-refused",
    "drbd-verify",
    "drbd-io-policy",
]


@pytest.mark.parametrize("claim", ALL)
def test_a_sound_volume_holds_and_is_left_as_it_was_found(claim: str) -> None:
    pair = Pair()
    verdict = verdict_of(claim, pair)
    assert (verdict.outcome, verdict.claim) == ("holds", claim), verdict.because
    for fact in verdict.facts:
        if isinstance(fact, DrbdTrial):
            assert fact.course.left == ()
            assert fact.course.after.in_sync
            assert fact.course.after.primaries == ()
    assert [one.role for one in pair.nodes.values()] == ["Secondary", "Secondary"]
    assert pair.nodes["n1"].data == pair.nodes["n2"].data


@pytest.mark.parametrize("claim", ALL)
def test_the_primary_stays_who_it_was(claim: str) -> None:
    pair = Pair()
    pair.nodes["n2"].role = "Primary"
    verdict = verdict_of(claim, pair)
    assert verdict.outcome == "holds", verdict.because
    assert [one.role for one in pair.nodes.values()] == ["Secondary", "Primary"]
    trial = verdict.facts[0]
    assert (trial.primary, trial.secondary) == ("n2", "n1")


@pytest.mark.parametrize(
    ("claim", "faults", "outcome", "said"),
    [
        ("drbd-failover", ["mirror loses data"], "broken", "blocks 0 to 7 reads on n2 as"),
        ("drbd-failover", ["held open"], "unknown", "held open by someone"),
        ("drbd-failover", ["n2 refuses"], "broken", "refused: drbdadm primary r0 on n2"),
        ("drbd-replica-loss", ["mirror loses data"], "broken", "reads on n2 as"),
        ("drbd-replica-loss", ["resync loses data"], "broken", "blocks 8 to 15 reads on n2"),
        ("drbd-replica-loss", ["n1 writes fail"], "broken", "Input/output error"),
        ("drbd-replica-loss", ["n1 never notices"], "broken", "n1 took its peer for connected"),
        ("drbd-replica-loss", ["never off"], "unknown", "so it was never off"),
        ("drbd-replica-loss", ["never back"], "unknown", "n2 did not come back"),
        ("drbd-replica-loss", ["power stuck"], "unknown", "tried to switch n2 off"),
        ("drbd-replica-loss", ["never meet"], "broken", "not in sync again after"),
        ("drbd-replica-loss", ["no resync"], "broken", "not in sync again after"),
        ("drbd-primary-loss", ["mirror loses data"], "broken", "blocks 0 to 7 reads on n2 as"),
        ("drbd-primary-loss", ["n2 refuses"], "broken", "refused: drbdadm primary r0 on n2"),
        ("drbd-primary-loss", ["resync loses data"], "broken", "blocks 8 to 15 reads on n1 as"),
        ("drbd-primary-loss", ["never back"], "unknown", "n1 did not come back"),
        ("drbd-link-loss", ["n2 never notices"], "broken", "cut silently: n2 took its peer"),
        ("drbd-link-loss", ["resync loses data"], "broken", "reads on n2 as"),
        ("drbd-link-loss", ["wire uncut"], "unknown", "the link was not cut"),
        ("drbd-link-loss", ["never meet"], "broken", "not in sync again after"),
        ("drbd-split-brain", ["split brain unseen"], "broken", "as if they had not diverged"),
        ("drbd-split-brain", ["log says nothing"], "unknown", "no kernel log calls it"),
        ("drbd-split-brain", ["keeps the victim's"], "broken", "not in sync again"),
        ("drbd-split-brain", ["connect refused"], "broken", "refused: drbdadm connect --discard"),
        ("drbd-split-brain", ["n2 refuses"], "unknown", "could not be provoked"),
        ("drbd-disk-loss", ["pass on"], "broken", "Input/output error"),
        ("drbd-disk-loss", ["reads fail"], "broken", "Input/output error"),
        ("drbd-disk-loss", ["diskless untold"], "broken", "not told so after I/O"),
        ("drbd-disk-loss", ["resync loses data"], "broken", "reads on n2 as"),
        ("drbd-disk-loss", ["disk on lvm"], "holds", "the disk of n2 was detached"),
        ("drbd-outdated-refused", ["promotes outdated"], "broken", "Outdated replica was promoted"),
        ("drbd-outdated-refused", ["cannot outdate"], "unknown", "was UpToDate, not Outdated"),
        ("drbd-outdated-refused", ["resync loses data"], "broken", "reads on n2 as"),
        ("drbd-verify", ["verify blind"], "broken", "a verify found nothing"),
        ("drbd-verify", ["no algorithm"], "unknown", "Need a verify algorithm"),
        ("drbd-io-policy", ["pass on"], "broken", "Input/output error"),
        ("drbd-io-policy", ["disk on lvm"], "unknown", "detached by force"),
        ("drbd-quorum", [], "unknown", NO_QUORUM),
    ],
)
def test_what_goes_wrong_is_seen(claim: str, faults: list[str], outcome: str, said: str) -> None:
    verdict = verdict_of(claim, Pair(*faults))
    assert verdict.outcome == outcome, verdict.because
    assert said in verdict.because


@pytest.mark.parametrize(
    ("claim", "lacking", "said"),
    [
        ("drbd-link-loss", {"link": None}, "this lab cannot cut the link"),
        ("drbd-split-brain", {"link": None}, "this lab cannot cut the link"),
        ("drbd-failover", {"size": 100}, "has 100 bytes, 2097152 are needed"),
    ],
)
def test_a_lab_that_lacks_something_is_told(claim: str, lacking: Any, said: str) -> None:
    verdict = verdict_of(claim, Pair(), **lacking)
    assert verdict.outcome == "unknown"
    assert said in verdict.because


@pytest.mark.parametrize("kind", ["replica_loss", "primary_loss"])
def test_without_power_no_machine_is_lost(kind: str) -> None:
    pair = Pair()
    volume = pair.volume()
    volume.replicas = [pair.replica("n1"), pair.replica("n2", power=None)]
    trial = getattr(volume.trials, kind)()
    assert isinstance(trial, Unread)
    assert "cannot switch the machines off" in trial.reason
    assert pair.asked == []


def test_without_a_disk_to_write_to_nothing_is_verified() -> None:
    pair = Pair()
    volume = pair.volume()
    volume.replicas = [pair.replica("n1"), pair.replica("n2", backing="")]
    trial = volume.trials.verify()
    assert isinstance(trial, Unread)
    assert "not to be written to" in trial.reason


def test_a_volume_out_of_sync_is_not_tried() -> None:
    pair = Pair()
    pair.nodes["n1"].oos = 4
    trial = pair.volume().trials.failover()
    assert isinstance(trial, Unread)
    assert "the volume was not in sync before it" in trial.reason
    assert "4096 bytes out of sync" in trial.reason
    assert not any("secondary" in asked or "dd" in asked for _, asked in pair.asked)


def test_two_primaries_are_not_tried() -> None:
    pair = Pair()
    for one in pair.nodes.values():
        one.role = "Primary"
    trial = pair.volume().trials.failover()
    assert isinstance(trial, Unread)
    assert "more than one Primary" in trial.reason


def test_each_trial_is_made_once() -> None:
    pair = Pair()
    trials = pair.volume().trials
    first = trials.failover()
    asked = len(pair.asked)
    assert trials.failover() is first
    assert len(pair.asked) == asked
    silent, carrier = trials.link_loss(carrier=False), trials.link_loss(carrier=True)
    assert silent is not carrier


def test_a_trial_keeps_what_was_said() -> None:
    trial = Pair().volume().trials.link_loss(carrier=False)
    assert isinstance(trial, DrbdTrial)
    assert trial.course.version == "8.4.11"
    assert "n1# dd if=/dev/urandom of=/dev/drbd0 bs=65536 count=8 seek=0" in trial.origin.raw
    assert "(524288 bytes)" in trial.origin.raw
    assert trial.origin.source == "volume r0: silent loss of the link"
    assert trial.values()["course"]["written"][0]["digest"]
    for node in ("n1", "n2"):
        record = trial.course.record(node)
        assert record is not None
        assert isinstance(record.history, DrbdHistory) and isinstance(record.log, DrbdLog)
        assert "Off" in record.replication
    assert trial.course.seconds > 0


def test_the_records_of_an_earlier_trial_are_not_taken_for_its_own() -> None:
    pair = Pair()
    trials = pair.volume().trials
    trials.link_loss(carrier=False)
    later = trials.failover()
    assert isinstance(later, DrbdTrial)
    assert later.course.resync_seen == ()
    assert not later.course.resync_done


def test_a_machine_that_came_back_tells_of_its_new_boot_only() -> None:
    pair = Pair()
    trial = pair.volume().trials.replica_loss()
    assert isinstance(trial, DrbdTrial)
    record = trial.course.record("n2")
    assert record is not None and record.logged("resync started")
    assert trial.values()["boots"][0] != trial.values()["boots"][1]


def test_what_a_machine_logged_before_anybody_was_back_on_it_counts() -> None:
    """On three replicas the third has often resynced it by then, and no other node tells of it."""
    pair = Pair()
    node = pair.nodes["n2"]
    records = Records(Attempt(pair.volume(), "loss of a replica"))
    pair.say(node, "block drbd0: Resync done (total 9 sec; paused 0 sec; 2048 K/sec)")
    records.begin("n2")
    assert not records.collect("n2").logged("resync done")
    node.log.clear()
    pair.say(node, "block drbd0: Resync done (total 1 sec; paused 0 sec; 2048 K/sec)")
    records.begin("n2")
    assert records.collect("n2").count("resync done") == 1


@pytest.mark.parametrize("claim", ["drbd-link-loss", "drbd-replica-loss", "drbd-split-brain"])
def test_what_is_interrupted_is_undone(claim: str) -> None:
    """A signal in the middle: the link is healed and the machine on, and nothing is swallowed."""
    pair = Pair()
    marks = {
        "drbd-link-loss": "dd if=/dev/urandom of=/dev/drbd0 bs=65536 count=8 seek=8 "
        "oflag=direct conv=fsync",
    }
    armed = marks.get(claim)

    def strike() -> None:
        if not pair.wired or not all(one.on for one in pair.nodes.values()):
            raise KeyboardInterrupt

    for asked in (
        armed or "",
        "dd if=/dev/urandom of=/dev/drbd0 bs=65536 count=8 seek=8 oflag=direct conv=fsync",
        "dd if=/dev/urandom of=/dev/drbd0 bs=65536 count=8 seek=0 oflag=direct conv=fsync",
    ):
        pair.hooks[asked] = strike
    with pytest.raises(KeyboardInterrupt) as caught:
        verdict_of(claim, pair)
    assert pair.wired
    pair.time.at += 10
    assert all(one.on or one.back_at for one in pair.nodes.values())
    assert not getattr(caught.value, "__notes__", [])


def test_what_is_interrupted_is_told_to_connect_again() -> None:
    pair = Pair()

    def strike() -> None:
        if pair.nodes["n2"].conn == "StandAlone":
            raise KeyboardInterrupt

    pair.hooks["drbdadm outdate r0"] = strike
    with pytest.raises(KeyboardInterrupt):
        pair.volume().trials.outdated()
    assert pair.asked[-1] == ("n2", "drbdadm connect r0")
    assert pair.nodes["n2"].conn == "WFConnection"


def test_what_cannot_be_undone_is_noted() -> None:
    pair = Pair("wire stuck")

    def strike() -> None:
        if not pair.wired:
            raise KeyboardInterrupt

    pair.hooks[
        "dd if=/dev/urandom of=/dev/drbd0 bs=65536 count=8 seek=8 oflag=direct conv=fsync"
    ] = strike
    with pytest.raises(KeyboardInterrupt) as caught:
        pair.volume().trials.link_loss(carrier=False)
    assert "could not heal the link" in caught.value.__notes__[0]


def test_an_undoing_that_is_broken_off_says_what_to_look_at() -> None:
    pair = Pair()

    def strike() -> None:
        if not pair.wired:
            raise KeyboardInterrupt

    pair.hooks[
        "dd if=/dev/urandom of=/dev/drbd0 bs=65536 count=8 seek=8 oflag=direct conv=fsync"
    ] = strike

    def interrupted(attempt: object) -> tuple[str, ...]:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt) as caught:
        patched.setattr("harness.bringup.drbd.conducting.undo_now", interrupted)
        pair.volume().trials.link_loss(carrier=False)
    assert caught.value.__notes__[0].startswith("see that n1, n2 are on and connected: ")


def test_a_lab_that_fails_on_the_way_is_no_evidence() -> None:
    trial = Pair("wire stuck").volume().trials.link_loss(carrier=False)
    assert isinstance(trial, Unread)
    assert "tried to heal the link" in trial.reason
    assert "could not heal the link" in trial.reason
    assert "not in sync again" in trial.reason


def test_a_disk_that_comes_back_no_more_is_mended_by_a_cold_start() -> None:
    pair = Pair("attach refused")
    trial = pair.volume().trials.disk_loss(under_primary=False)
    assert isinstance(trial, DrbdTrial)
    assert pair.nodes["n2"].boots == 2
    assert trial.course.after.in_sync and trial.course.left == ()


def test_on_real_time_nodes_are_asked_at_once_and_kept_in_order() -> None:
    pair = Pair()
    volume = pair.volume()
    pair.time.follows = False  # type: ignore[misc]
    gate = threading.Barrier(2, timeout=10)
    attempt = Attempt(volume, "it")

    def ask(node: str) -> str:
        gate.wait()
        return node

    assert attempt.each(("n2", "n1"), ask) == ["n2", "n1"]


def test_waiting_renews_the_hold() -> None:
    pair, renewed = Pair(), []
    volume = pair.volume(renew=lambda: renewed.append(pair.time.at))
    volume.trials.replica_loss()
    assert renewed


def test_a_disk_of_more_than_this_volume_is_not_taken_away() -> None:
    pair = Pair("disk on lvm")
    trial = pair.volume().trials.disk_loss(under_primary=True)
    assert isinstance(trial, DrbdTrial)
    assert not any("/remove" in asked for _, asked in pair.asked)
    assert ("n1", "drbdadm detach --force r0") in pair.asked


def test_a_promotion_is_never_forced() -> None:
    for claim in ALL:
        pair = Pair()
        verdict_of(claim, pair)
        assert not any("primary --force" in asked for _, asked in pair.asked)


def test_no_place_is_written_beyond_the_volume() -> None:
    for claim in ALL:
        pair = Pair()
        verdict_of(claim, pair)
        assert max(pair.nodes["n1"].data) * BLOCK < 2 * 1024 * 1024


def test_a_fact_is_frozen() -> None:
    trial = Pair().volume().trials.failover()
    with pytest.raises(dataclasses.FrozenInstanceError):
        trial.primary = "n3"  # type: ignore[misc,union-attr]
