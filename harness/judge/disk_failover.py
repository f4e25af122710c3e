"""disk-failover: a worker goes on with its disk while storage nodes are lost, and loses nothing.

What proves it: writes that the worker's own ``dd`` ended with success or did not, what the storage
nodes' kernels say of the disk meanwhile, a resync seen to run and to end, checksums read from the
disk, and the worker's boot id (faults.md rows 54 and 55; lab/qemu_drbd.md, "Traps").
"""

from __future__ import annotations

from harness.facts.diskfailover import (
    DiskFailover,
    Freeze,
    KeptFile,
    NodeLoss,
    NotTried,
)
from harness.facts.fact import Unread
from harness.judge.drbd_findings import Findings
from harness.judge.verdict import Verdict
from harness.judge.wording import unread

CLAIM = "disk-failover"
IN_TIME = 30.0
"""Seconds within which a write has to be on the disk after a storage node is gone. DRBD's defaults
give a silent peer up after 10.5 s at most (drbd.conf: ping-int, ping-timeout; timeout 6 s)."""
STILL = 9.0
"""Seconds for which a write has to have stood still, by the worker's own uptime."""


def disk_failover(trial: DiskFailover | Unread, subject: str) -> Verdict:
    """disk-failover: the loss of one storage node, then, where it could be tried, of the quorum."""
    if isinstance(trial, Unread):
        return unread(CLAIM, subject, trial)
    found = Findings()
    found.begins_in_sync(trial)
    _worked_through(found, trial.first, "before anything was lost")
    _lost_node(found, trial, trial.loss)
    if isinstance(trial.freeze, NotTried):
        found.seen.append(f"not tried: the loss of the quorum ({trial.freeze.why})")
    else:
        _froze(found, trial, trial.freeze)
    _kept(found, trial)
    _same_boot(found, trial)
    found.resynced(trial.course)
    found.doubts += [f"not undone: {one}" for one in trial.course.left]
    return found.verdict(CLAIM, subject, trial, trial.hosts)


def _worked_through(found: Findings, file: KeptFile, when: str) -> None:
    """A file was written, and its bytes went to this very disk."""
    if file.wrote.refused:
        found.broken.append(f"{when} a write failed: {file.wrote}")
    elif not file.wrote.done:
        found.doubts.append(f"{when} a write did not tell how it ended: {file.wrote}")
    elif not file.digest:
        found.doubts.append(f"what was written {when} could not be read back at once")
    _counted(found, file.before.written, file.after.written, file.size, f"what was written {when}")


def _counted(found: Findings, before: int | None, after: int | None, size: int, what: str) -> None:
    """The storage node's kernel counted the bytes: they went through this disk."""
    if before is None or after is None:
        found.doubts.append(f"the storage node does not count {what}")
    elif after - before < size:
        counted = f"{after - before} of {size} bytes"
        found.unfit.append(f"{what} did not go through this disk: {counted} were counted there")


def _lost_node(found: Findings, trial: DiskFailover, loss: NodeLoss) -> None:
    found.provoked(loss.off)
    found.rebooted(loss.node, loss.boots)
    if loss.node == trial.primary:
        found.unfit.append(f"{loss.node} is the node that the worker's disk was used on")
    if not loss.noticed.came:
        found.broken.append(
            f"{loss.node} was taken for connected after {loss.noticed.limit:.0f} s: "
            f"{loss.noticed.last}"
        )
    took = loss.wrote.took
    if loss.wrote.wrote.at < loss.off.at:
        found.unfit.append("the write was begun before the node was lost")
    _worked_through(found, loss.wrote, f"with {loss.node} switched off")
    if took is None:
        found.doubts.append(f"{trial.worker} did not tell how long its write took")
    elif loss.wrote.wrote.done and took > IN_TIME:
        found.broken.append(
            f"with {loss.node} switched off a write took {took:.1f} s of {IN_TIME:.0f}"
        )
    if took is not None:
        told = f"with {loss.node} switched off, in {took:.1f} s"
        found.seen.append(f"{trial.worker} wrote on {told}")


def _froze(found: Findings, trial: DiskFailover, freeze: Freeze) -> None:
    """Without a quorum a write stands still and is not failed; with one it goes on."""
    own = trial.primary
    for act in freeze.parted:
        found.provoked(act)
    if freeze.moved:
        found.doubts.append(f"{trial.worker} got another VMI while {own} was without a quorum")
        return
    view = freeze.lost.last.of(own)
    if not freeze.lost.came:
        found.broken.append(f"{own} was parted from the others and has a quorum: {view}")
    elif view.suspended is None:
        found.doubts.append(f"{own} does not say whether its I/O stands still: {view}")
    elif "quorum" not in view.suspended:
        found.broken.append(f"{own} has no quorum, and its I/O is not suspended for it: {view}")
    _write_stood(found, freeze)
    if freeze.resynced is None or not freeze.resynced.came:
        last = freeze.resynced.last if freeze.resynced is not None else "nobody looked"
        found.broken.append(f"not in sync again after the quorum was back: {last}")


def _write_stood(found: Findings, freeze: Freeze) -> None:
    began, over = freeze.spanned
    for act in (freeze.pending, freeze.ended):
        if act.refused:
            found.broken.append(f"a write without a quorum failed: {act}")
    if freeze.pending.done:
        found.broken.append("a write ended with success without a quorum")
    if freeze.ended.exit_code is None and began is not None:
        found.broken.append(f"the write did not go on with the quorum back: {freeze.ended.said}")
    elif began is None or over is None:
        found.doubts.append("the worker did not tell how long its write took")
    elif over - began < STILL:
        found.broken.append(f"without a quorum a write took {over - began:.1f} s only")
    else:
        how = "with two nodes switched off" if freeze.switched_off else "cut off from the others"
        found.seen.append(
            f"{how} it stood still without an error, suspended for its quorum, and went on "
            f"({over - began:.1f} s for one write)"
        )


def _kept(found: Findings, trial: DiskFailover) -> None:
    """Every file reads as it was written, and was read from the disk."""
    due = 2 if isinstance(trial.freeze, NotTried) or trial.freeze.moved else 3
    if len(trial.files) < due:
        found.doubts.append(f"{len(trial.files)} of {due} files were read back")
    for file in trial.files:
        if not file.read:
            found.doubts.append(f"{file.path} could not be read in the end")
        elif not file.digest:
            found.doubts.append(f"what {file.path} held was not read just after it was written")
        elif file.read != file.digest:
            told = f"{file.read[:12]}, written was {file.digest[:12]}"
            found.broken.append(f"{file.path} reads as {told}")
    if not trial.dropped.done:
        found.doubts.append(f"the worker's page cache was not dropped: {trial.dropped}")
    size = sum(one.size for one in trial.files if one.read)
    before, after = trial.reading
    if before.read is None or after.read is None:
        found.doubts.append("the storage node does not count what is read")
    elif after.read - before.read < size:
        counted = f"{after.read - before.read} of {size} bytes"
        found.doubts.append(f"not all was read from the disk: {counted} were counted there")
    found.seen.append(f"{len(trial.files)} files read from the disk as they were written")


def _same_boot(found: Findings, trial: DiskFailover) -> None:
    before, after = trial.boots
    if not before or not after:
        found.doubts.append(f"the boot id of {trial.worker} was not read before and after")
    elif before != after:
        found.broken.append(f"{trial.worker} is on another boot: {after}, was {before}")
    else:
        found.seen.append(f"{trial.worker} is on the same boot")
