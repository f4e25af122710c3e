"""Claims about the disks below a replicated volume, and about I/O that cannot be carried out."""

from __future__ import annotations

from harness.facts.drbd import UP_TO_DATE
from harness.facts.drbdlooks import VERIFYING, Look
from harness.facts.drbdtrials import DiskLoss, QuorumLoss, VerifyFound, Waited
from harness.facts.fact import Unread
from harness.judge.drbd_findings import Findings
from harness.judge.verdict import Verdict
from harness.judge.wording import unread


def drbd_disk_loss(
    under_secondary: DiskLoss | Unread, under_primary: DiskLoss | Unread, subject: str
) -> Verdict:
    """drbd-disk-loss: with the disk gone below either replica, I/O on the Primary goes on, served
    by the other where it has to be; the replica is told as Diskless; with the disk back both are in
    sync through a resync.

    The state before any I/O is recorded and decides nothing: a disk that vanished is UpToDate
    still.
    """
    claim, found = "drbd-disk-loss", Findings()
    for trial in (under_secondary, under_primary):
        if isinstance(trial, Unread):
            found.doubts += [unread(claim, subject, trial).because]
        else:
            _lost_disk(found, trial)
    return found.verdict(claim, subject, under_secondary, under_primary)


def _lost_disk(found: Findings, trial: DiskLoss) -> None:
    course, node = trial.course, trial.node
    before, during = course.written[0], course.written[1]
    found.begins_in_sync(trial)
    found.roles_exchanged(trial.course)
    found.provoked(trial.gone)
    found.acknowledged(before, during)
    found.before(before, trial.gone)
    _served_by_peer(found, trial)
    if not trial.failed.came:
        _not_told(found, trial, f"the disk of {node} is gone, and not told so after I/O")
    found.resynced(course)
    for one in (trial.primary, trial.secondary):
        found.holds_data(course, one, before, during)
    how = "vanished" if trial.vanished else "was detached"
    quiet, failed = trial.quiet.of(node).disk, trial.failed.last.of(node).disk
    found.seen.append(
        f"the disk of {node} {how}, told as {quiet} before and {failed} after I/O; checksums are "
        "the same on both"
    )


def _not_told(found: Findings, trial: DiskLoss, what: str) -> None:
    """A disk that nobody saw let go: broken by what its node says, open where it says nothing."""
    seen = trial.failed.last.of(trial.node)
    (found.doubts if seen.missing else found.broken).append(f"{what}: {seen}")


def _served_by_peer(found: Findings, trial: DiskLoss) -> None:
    """Where the Primary's disk went, a read that followed gave what had been written."""
    if not trial.under_primary:
        return
    read, written = trial.io[0], trial.course.written[0]
    if found.done(read.act) and written.known and read.digest != written.digest:
        told = f"{read.digest[:12] or 'in part only'}, written was {written.digest[:12]}"
        found.broken.append(f"without its disk {read.node} reads {told}")


def drbd_io_policy(disk: DiskLoss | Unread, quorum: QuorumLoss | Unread, subject: str) -> Verdict:
    """drbd-io-policy: what DRBD does with I/O that it cannot carry out is seen in effect.

    ``disk`` is the loss of the Primary's disk: an error of it is not passed on, the disk is let go
    (on-io-error detach). ``quorum`` is seen on DRBD 9: I/O stands still rather than fails
    (on-no-quorum suspend-io). One of the two has to be seen, and neither may contradict: a disk
    that was detached by force shows no policy, for there was no error.
    """
    claim, found = "drbd-io-policy", Findings()
    reasons: list[str] = []
    if isinstance(disk, Unread):
        reasons.append(unread(claim, subject, disk).because)
    elif not disk.vanished:
        reasons.append(f"the disk of {disk.node} was detached by force, which gives no I/O error")
    else:
        _let_go(found, disk)
    if isinstance(quorum, Unread):
        reasons.append(unread(claim, subject, quorum).because)
    else:
        _stood_still(found, quorum)
    if not found.seen:
        found.doubts += reasons
    return found.verdict(claim, subject, disk, quorum)


def _let_go(found: Findings, trial: DiskLoss) -> None:
    found.begins_in_sync(trial)
    found.roles_exchanged(trial.course)
    found.provoked(trial.gone)
    for one in trial.io:
        found.done(one.act)
    if not trial.failed.came:
        _not_told(found, trial, "a disk that failed was not let go")
    found.seen.append(
        f"{len(trial.io)} requests after the disk of {trial.node} vanished succeeded, and it was "
        "let go"
    )


def drbd_quorum(trial: QuorumLoss | Unread, subject: str) -> Verdict:
    """drbd-quorum: without the majority the Primary's I/O stands still and does not fail, and it
    goes on once the majority is back.
    """
    claim = "drbd-quorum"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found = Findings()
    _stood_still(found, trial)
    found.acknowledged(trial.course.written[0])
    found.resynced(trial.course, seen=False)
    for node in (trial.primary, trial.secondary):
        found.holds_data(trial.course, node, trial.course.written[0])
    return found.verdict(claim, subject, trial)


def _stood_still(found: Findings, trial: QuorumLoss) -> None:
    node = trial.primary
    found.begins_in_sync(trial)
    found.roles_exchanged(trial.course)
    if trial.course.before.of(node).quorum is not True:
        found.unfit.append(f"{node} had no quorum to lose: {trial.course.before}")
    if not trial.lost.came:
        found.broken.append(f"cut off from the majority, and it has a quorum: {trial.lost.last}")
    if trial.pending.done:
        found.broken.append("a write was acknowledged without a majority")
    elif trial.pending.refused:
        found.broken.append(f"a write without a majority failed: {trial.pending}")
    elif "quorum" not in (trial.lost.last.of(node).suspended or ()):
        found.doubts.append(f"nobody said that I/O is suspended: {trial.lost.last}")
    if trial.ended.refused:
        found.broken.append(f"the write failed once the majority was back: {trial.ended}")
    elif not trial.ended.done:
        found.doubts.append(f"the write was not seen to go on: {trial.ended}")
    found.seen.append(
        f"without the majority a write on {node} stood still, and it went on with it "
        "(on-no-quorum suspend-io)"
    )


def drbd_verify(trial: VerifyFound | Unread, subject: str) -> Verdict:
    """drbd-verify: a verify finds blocks that differ while both sides say UpToDate, a resync makes
    them the same, and another verify finds none.

    Unknown where verify has no algorithm (exit status 11), and where the verify was not seen.
    """
    claim = "drbd-verify"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found, course = Findings(), trial.course
    found.begins_in_sync(trial)
    found.roles_exchanged(trial.course)
    found.provoked(trial.damaged)
    found.acknowledged(trial.sound)
    found.before(trial.sound, trial.damaged)
    if not trial.quiet.in_sync:
        found.unfit.append(f"the damage was known before the verify: {trial.quiet}")
    for act in course.acts:
        if act.what.startswith("drbdadm verify"):
            found.provoked(act)
    first = _out_of_sync(trial.found)
    if not first:
        _without_result(found, trial, 0, f"a verify found nothing: {trial.found}")
    elif any(view.disk != UP_TO_DATE for view in trial.found.views if not view.client):
        found.doubts.append(f"the states had told of it: {trial.found}")
    found.resynced(course)
    second = _out_of_sync(trial.clean)
    if second:
        found.broken.append(f"{second} bytes differ after the resync: {trial.clean}")
    else:
        _without_result(found, trial, 1, "")
    for node in (trial.primary, trial.secondary):
        found.holds_data(course, node, trial.sound)
    found.seen.append(
        f"a verify found {first} bytes out of sync between two UpToDate disks; none after the "
        "resync, by a second verify"
    )
    return found.verdict(claim, subject, trial)


def _without_result(found: Findings, trial: VerifyFound, number: int, wrong: str) -> None:
    """A verify after which nothing is out of sync: was there one, and did it end?"""
    wait = trial.verified[number]
    if not (wait.came and _ran(trial, wait, number)):
        found.doubts.append(f"a verify was not seen to run and to end: {wait.last}")
    elif wrong:
        found.broken.append(wrong)


def _ran(trial: VerifyFound, wait: Waited, number: int) -> bool:
    """Whether a verify was seen under way, or a kernel log has as many that ended."""
    states = {peer.replication for look in wait.looks for v in look.views for peer in v.peers}
    ended = max((record.count("verify done") for record in trial.course.records), default=0)
    return bool(states & set(VERIFYING)) or ended > number


def _out_of_sync(look: Look) -> int:
    """Bytes that some side says are out of sync; 0 also where none says."""
    return max((view.out_of_sync or 0 for view in look.views), default=0)
