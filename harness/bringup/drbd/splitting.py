"""The trial in which both replicas are Primary apart from each other, and meet again."""

from __future__ import annotations

from harness.bringup.drbd.attempt import Attempt
from harness.bringup.drbd.conducting import Finish, cannot, conduct
from harness.bringup.drbd.losses import await_alone, cut_link, heal_link
from harness.bringup.drbd.restoring import await_sync, exchange_roles
from harness.bringup.drbd.volume import Volume
from harness.facts.drbd import STANDALONE
from harness.facts.drbdlooks import Look
from harness.facts.drbdtrials import SplitBrain, Waited
from harness.facts.fact import Unread

MEET_LIMIT = 60.0
"""Seconds for two sides to meet after the link is back, and to part again: 5.7 in the mini-lab
(lab/qemu_drbd.md); stock settings try to connect every 10."""


def split_brain(volume: Volume) -> SplitBrain | Unread:
    """Cut the link, promote the Secondary too, write to both, heal it; then give up its side."""
    what = "split brain"
    if volume.link is None:
        return cannot(volume, what, "this lab cannot cut the link")
    return conduct(volume, what, _split_brain)


def _split_brain(attempt: Attempt) -> Finish[SplitBrain]:
    survivor, victim = attempt.primary, attempt.secondary
    cut = cut_link(attempt)
    await_alone(attempt, survivor, victim)
    kept = attempt.write(survivor, attempt.place(0))
    promoted = attempt.drbdadm(victim, "primary")
    attempt.victim = victim
    lost = attempt.write(victim, attempt.place(0))
    heal_link(attempt)
    met = _await_parting(attempt, survivor, victim)
    plain = tuple((one, attempt.drbdadm(one, "status").said) for one in (survivor, victim))
    attempt.drbdadm(victim, "secondary")
    if not _stands_alone(met.last, victim):
        attempt.drbdadm(victim, "disconnect")
    discarded = attempt.drbdadm(victim, "connect", "--discard-my-data")
    if _stands_alone(attempt.look(), survivor):
        attempt.drbdadm(survivor, "connect")
    await_sync(attempt)
    attempt.read_back(kept, survivor)
    exchange_roles(attempt, survivor, victim)
    attempt.read_back(kept, victim)
    exchange_roles(attempt, victim, survivor)
    return lambda origin, course: SplitBrain(
        origin, course, survivor, victim, cut, promoted, kept, lost, met, plain, discarded
    )


def _await_parting(attempt: Attempt, *nodes: str) -> Waited:
    def parted(look: Look) -> bool:
        return all(_stands_alone(look, one) for one in nodes)

    return attempt.wait(f"{' and '.join(nodes)} to stand alone", parted, MEET_LIMIT)


def _stands_alone(look: Look, node: str) -> bool:
    view = look.of(node)
    # no peer listed is no proof: 8.4's text lacks it for a moment while the two shake hands
    return bool(view.peers) and all(one.connection == STANDALONE for one in view.peers)
