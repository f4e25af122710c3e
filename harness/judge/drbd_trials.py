"""Claims about a replicated volume that a trial was made of: roles, losses, splits, disks.

Each part of a claim needs something that was seen: a checksum written before and read after, a
resync seen to run and to end, states told by both sides. What contradicts it breaks it; what was
not seen leaves it unknown, and so does a trial that did not come about (lab/qemu_drbd.md, "Traps
that a judge must know").
"""

from __future__ import annotations

from harness.facts.drbd import CONNECTED, PRIMARY, UP_TO_DATE
from harness.facts.drbdtrials import (
    NOT_ALLOWED,
    LinkLoss,
    OutdatedRefused,
    PlannedFailover,
    PrimaryLoss,
    ReplicaLoss,
    SplitBrain,
)
from harness.facts.fact import Unread
from harness.judge.drbd_findings import Findings
from harness.judge.verdict import Verdict
from harness.judge.wording import unread

IN_TIME = 30.0
"""Seconds within which a node has to know that its peer is gone. DRBD's defaults ask the peer every
10 s and allow an answer half a second, a request on its way 6 s (drbd.conf: ping-int, ping-timeout,
timeout)."""


def drbd_failover(trial: PlannedFailover | Unread, subject: str) -> Verdict:
    """drbd-failover: the Primary demoted and the other promoted, without force; what was written
    before reads the same there, and what is written there reads the same back here.
    """
    claim = "drbd-failover"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found, course = Findings(), trial.course
    found.begins_in_sync(trial)
    found.roles_exchanged(course)
    first, second = course.written[0], course.written[1]
    if trial.demoted.done and trial.moved.of(trial.primary).role == PRIMARY:
        found.broken.append(f"demoted, and Primary still: {trial.moved}")
    if trial.promoted.done:
        _is_primary(found, trial)
    found.acknowledged(first, second)
    found.before(first, trial.demoted)
    found.holds_data(course, trial.secondary, first)
    found.holds_data(course, trial.primary, first, second)
    if not course.after.in_sync:
        found.doubts.append(f"not in sync in the end: {course.after}")
    took = trial.demoted.seconds + trial.promoted.seconds
    found.seen.append(
        f"{trial.secondary} took over from {trial.primary} in {took:.1f} s and gave it back; "
        "checksums are the same on both"
    )
    return found.verdict(claim, subject, trial)


def drbd_replica_loss(trial: ReplicaLoss | Unread, subject: str) -> Verdict:
    """drbd-replica-loss: with the Secondary's machine off the Primary goes on writing; back on, the
    replica is resynced to the last block, and both hold the same.
    """
    claim = "drbd-replica-loss"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found, course = Findings(), trial.course
    before, during = course.written[0], course.written[1]
    found.begins_in_sync(trial)
    found.roles_exchanged(course)
    found.provoked(trial.off)
    found.rebooted(trial.secondary, trial.boots)
    if not trial.alone.came:
        found.broken.append(_unnoticed(trial.primary, trial.alone.limit))
    found.acknowledged(before, during)
    found.before(before, trial.off)
    found.resynced(course)
    for node in (trial.primary, trial.secondary):
        found.holds_data(course, node, before, during)
    found.seen.append(
        f"{trial.primary} wrote on with {trial.secondary} switched off (one write took "
        f"{during.act.seconds:.1f} s); checksums are the same on both"
    )
    return found.verdict(claim, subject, trial)


def drbd_primary_loss(trial: PrimaryLoss | Unread, subject: str) -> Verdict:
    """drbd-primary-loss: with the Primary's machine off the other is promoted without force and has
    all that was acknowledged; the old one comes back as Secondary and is resynced.
    """
    claim = "drbd-primary-loss"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found, course = Findings(), trial.course
    acknowledged, newer = course.written[0], course.written[1]
    found.begins_in_sync(trial)
    found.roles_exchanged(course)
    found.provoked(trial.off)
    found.rebooted(trial.primary, trial.boots)
    if "--force" in trial.promoted.what:
        found.unfit.append(f"it was promoted by force: {trial.promoted.what}")
    if not trial.alone.came:
        found.broken.append(_unnoticed(trial.secondary, trial.alone.limit))
    found.acknowledged(acknowledged, newer)
    found.before(acknowledged, trial.off)
    found.holds_data(course, trial.secondary, acknowledged)
    found.holds_data(course, trial.primary, acknowledged, newer)
    if trial.rejoined.of(trial.primary).role == PRIMARY:
        found.broken.append(f"the old Primary came back as one: {trial.rejoined}")
    found.resynced(course)
    found.seen.append(
        f"{trial.secondary} was promoted without force, had all that was acknowledged, and "
        f"{trial.primary} came back as Secondary"
    )
    return found.verdict(claim, subject, trial)


def drbd_link_loss(silent: LinkLoss | Unread, carrier: LinkLoss | Unread, subject: str) -> Verdict:
    """drbd-link-loss: cut silently and with its carrier, both nodes notice in time, the Primary
    goes on writing, and after healing both are in sync through a resync, with the same bytes.
    """
    claim, found = "drbd-link-loss", Findings()
    for trial in (silent, carrier):
        if isinstance(trial, Unread):
            found.doubts += [unread(claim, subject, trial).because]
        else:
            _lost_link(found, trial)
    return found.verdict(claim, subject, silent, carrier)


def _lost_link(found: Findings, trial: LinkLoss) -> None:
    course = trial.course
    before, during = course.written[0], course.written[1]
    how = "with its carrier" if trial.carrier else "silently"
    found.begins_in_sync(trial)
    found.roles_exchanged(course)
    found.provoked(trial.cut)
    late = [node for node, seconds in trial.noticed if seconds is None]
    if len(late) == len(trial.noticed) and during.act.done:
        found.unfit.append(f"cut {how}, the peer acknowledged all the same: the link was not cut")
    found.broken += [f"cut {how}: {_unnoticed(one, trial.apart.limit)}" for one in late]
    for node, seconds in trial.noticed:
        if seconds is not None and seconds > IN_TIME:
            found.broken.append(f"cut {how}, {node} noticed after {seconds:.1f} s of {IN_TIME:.0f}")
    found.acknowledged(before, during)
    found.before(before, trial.cut)
    found.resynced(course)
    for node in (trial.primary, trial.secondary):
        found.holds_data(course, node, before, during)
    told = ", ".join(f"{node} after {at:.1f} s" for node, at in trial.noticed if at is not None)
    found.seen.append(f"cut {how}, noticed by {told}; checksums are the same on both")


def drbd_split_brain(trial: SplitBrain | Unread, subject: str) -> Verdict:
    """drbd-split-brain: two sides that were both written to do not connect, the kernel log calls it
    by its name, and with a victim named the survivor's bytes are on both and the victim's are gone.

    Unknown where the second side could not be promoted, as a quorum has it: nothing was provoked.
    """
    claim = "drbd-split-brain"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found, course = Findings(), trial.course
    found.begins_in_sync(trial)
    found.roles_exchanged(course, trial.promoted)
    found.provoked(trial.cut)
    found.provoked(trial.promoted)
    for one in (trial.kept, trial.lost):
        if not one.known:
            found.unfit.append(f"{one.node} was not written to while apart: {one.act}")
    _recognised(found, trial)
    found.done(trial.discarded)
    found.resynced(course)
    for node in (trial.primary, trial.secondary):
        found.holds_data(course, node, trial.kept)
    found.seen.append(
        f"the bytes of {trial.primary} are on both, those of {trial.secondary} are gone; "
        f"{_plain(trial)}"
    )
    return found.verdict(claim, subject, trial)


def _recognised(found: Findings, trial: SplitBrain) -> None:
    """Both keep apart, and a kernel log says why; that they do is no more than a state."""
    met = trial.met.last
    if any(peer.connection == CONNECTED for view in met.views for peer in view.peers):
        found.broken.append(f"the two sides connected as if they had not diverged: {met}")
    elif not trial.met.came:
        found.broken.append(f"not StandAlone on both after {trial.met.seconds:.0f} s: {met}")
    named = [one.node for one in trial.course.records if one.logged("split brain")]
    if not named:
        lost = [one.log.reason for one in trial.course.records if isinstance(one.log, Unread)]
        found.doubts.append("; ".join(("no kernel log calls it a split brain", *lost)))
    found.seen.append(f"StandAlone on both after {trial.met.seconds:.1f} s, named in the log")


def _plain(trial: SplitBrain) -> str:
    shown = [node for node, text in trial.plain if "connection:StandAlone" in text]
    return f"drbdadm status showed it on {', '.join(shown) or 'neither'}"


def drbd_outdated_refused(trial: OutdatedRefused | Unread, subject: str) -> Verdict:
    """drbd-outdated-refused: an Outdated replica refuses to become Primary for want of UpToDate
    data (exit status 17), and is UpToDate again once connected, with what was written meanwhile.
    """
    claim = "drbd-outdated-refused"
    if isinstance(trial, Unread):
        return unread(claim, subject, trial)
    found, course = Findings(), trial.course
    newer = course.written[1]
    found.begins_in_sync(trial)
    found.roles_exchanged(course, trial.promoted)
    disk = trial.outdated.of(trial.secondary).disk
    if disk != "Outdated":
        found.unfit.append(f"{trial.secondary} was {disk or 'not seen'}, not Outdated")
    after = trial.refused.of(trial.secondary)
    if trial.promoted.done or after.role == PRIMARY:
        found.broken.append(f"an Outdated replica was promoted: {after}")
    elif trial.promoted.exit_code != NOT_ALLOWED or not after.role:
        found.doubts.append(f"it was not refused for want of data: {trial.promoted}; {after}")
    found.acknowledged(newer)
    found.before(newer, trial.promoted)
    found.resynced(course)
    found.holds_data(course, trial.secondary, newer)
    found.seen.append(
        f"{trial.secondary}, Outdated, was refused with exit status {NOT_ALLOWED} and is "
        f"{UP_TO_DATE} again"
    )
    return found.verdict(claim, subject, trial)


def _unnoticed(node: str, limit: float) -> str:
    return f"{node} took its peer for connected after {limit:.0f} s"


def _is_primary(found: Findings, trial: PlannedFailover) -> None:
    view = trial.moved.of(trial.secondary)
    if view.missing:
        found.doubts.append(f"nobody saw its new role: {view}")
    elif view.role != PRIMARY:
        found.broken.append(f"promoted, and not Primary: {view}")
