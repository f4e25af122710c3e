"""Trials in which something goes away under a volume that is in use: a machine, or the link."""

from __future__ import annotations

from harness.bringup.drbd.attempt import Attempt
from harness.bringup.drbd.conducting import Finish, cannot, conduct
from harness.bringup.drbd.restoring import (
    await_sync,
    bring_up,
    exchange_roles,
    power_on,
)
from harness.bringup.drbd.volume import Volume
from harness.facts.drbd import CONNECTED
from harness.facts.drbdlooks import Look
from harness.facts.drbdtrials import Act, Extent, LinkLoss, PrimaryLoss, ReplicaLoss, Waited
from harness.facts.fact import Unread
from harness.facts.guest import BootId
from harness.observe.guest import boot_id
from harness.reach.errors import LabError

NOTICE_LIMIT = 60.0
"""Seconds for a node to know that its peer is gone. Stock timeouts need some 10 s, those of the
mini-lab 1.9 to 5 (lab/qemu_drbd.md)."""


def replica_loss(volume: Volume) -> ReplicaLoss | Unread:
    """Switch the Secondary's machine off, write at once, switch it on, and see it catch up."""
    what = "loss of a replica"
    if any(one.power is None for one in volume.replicas):
        return cannot(volume, what, "this lab cannot switch the machines off")
    return conduct(volume, what, _replica_loss)


def primary_loss(volume: Volume) -> PrimaryLoss | Unread:
    """Switch the Primary's machine off, promote the other without force, switch it on again."""
    what = "loss of the Primary"
    if any(one.power is None for one in volume.replicas):
        return cannot(volume, what, "this lab cannot switch the machines off")
    return conduct(volume, what, _primary_loss)


def link_loss(volume: Volume, *, carrier: bool) -> LinkLoss | Unread:
    """Cut the link between Primary and Secondary, write at once, heal it, and see them catch up."""
    what = "loss of the link's carrier" if carrier else "silent loss of the link"
    if volume.link is None:
        return cannot(volume, what, "this lab cannot cut the link")
    return conduct(volume, what, lambda attempt: _link_loss(attempt, carrier=carrier))


def cut_link(attempt: Attempt, *, carrier: bool = False) -> Act:
    """Cut the wire between Primary and Secondary."""
    link = attempt.volume.link
    assert link is not None, "asked before the trial began"
    attempt.cut = True
    how = "with the carrier" if carrier else "silently"
    a, b = attempt.primary, attempt.secondary
    return attempt.do(f"cut the link to {b} {how}", a, lambda: link.cut(a, b, carrier=carrier))


def heal_link(attempt: Attempt) -> Act:
    """Mend all wires."""
    link = attempt.volume.link
    assert link is not None, "asked before the trial began"
    healed = attempt.do("heal the link", attempt.primary, link.heal)
    attempt.cut = False
    return healed


def await_alone(attempt: Attempt, *nodes: str) -> Waited:
    """Wait until each of these nodes has noticed that the other is gone."""
    others = {one: _other(attempt, one) for one in nodes}

    def noticed(look: Look) -> bool:
        return all(_knows_gone(look, one, other) for one, other in others.items())

    return attempt.wait(f"{' and '.join(nodes)} to notice", noticed, NOTICE_LIMIT)


def _replica_loss(attempt: Attempt) -> Finish[ReplicaLoss]:
    primary, lost = attempt.primary, attempt.secondary
    before = attempt.write(primary, attempt.place(0))
    old = _boot(attempt, lost)
    off = switch_off(attempt, lost)
    during = attempt.write(primary, attempt.place(1))
    alone = await_alone(attempt, primary)
    boots = _back(attempt, lost, old)
    await_sync(attempt)
    read_on_both(attempt, before, during)
    return lambda origin, course: ReplicaLoss(origin, course, primary, lost, off, alone, boots)


def _primary_loss(attempt: Attempt) -> Finish[PrimaryLoss]:
    lost, survivor = attempt.primary, attempt.secondary
    acknowledged = attempt.write(lost, attempt.place(0))
    old = _boot(attempt, lost)
    off = switch_off(attempt, lost)
    alone = await_alone(attempt, survivor)
    promoted = attempt.drbdadm(survivor, "primary")
    attempt.read_back(acknowledged, survivor)
    newer = attempt.write(survivor, attempt.place(1))
    boots = _back(attempt, lost, old)
    rejoined = await_sync(attempt).last
    exchange_roles(attempt, survivor, lost)
    for extent in (acknowledged, newer):
        attempt.read_back(extent, lost)
    return lambda origin, course: PrimaryLoss(
        origin, course, lost, survivor, off, alone, boots, promoted, rejoined
    )


def _link_loss(attempt: Attempt, *, carrier: bool) -> Finish[LinkLoss]:
    primary, secondary = attempt.primary, attempt.secondary
    before = attempt.write(primary, attempt.place(0))
    cut = cut_link(attempt, carrier=carrier)
    during = attempt.write(primary, attempt.place(1))
    apart = await_alone(attempt, primary, secondary)
    noticed = tuple((one, _since(cut, apart, attempt, one)) for one in (primary, secondary))
    heal_link(attempt)
    await_sync(attempt)
    read_on_both(attempt, before, during)
    return lambda origin, course: LinkLoss(
        origin, course, primary, secondary, carrier, cut, apart, noticed
    )


def switch_off(attempt: Attempt, node: str) -> Act:
    """Switch a machine off; from then on nobody asks it."""
    power = attempt.volume.replica(node).power
    assert power is not None, "asked before the trial began"
    attempt.off.add(node)
    return attempt.do("switch off", node, power.off)


def _back(attempt: Attempt, node: str, old: str) -> tuple[str, str]:
    """Switch a machine on and have it take part; its boot ids before and after."""
    if not power_on(attempt, node):
        return old, ""
    bring_up(attempt, node)
    return old, _boot(attempt, node)


def _boot(attempt: Attempt, node: str) -> str:
    try:
        found = boot_id(attempt.volume.replica(node).shell)
    except LabError:
        return ""
    return found.boot_id if isinstance(found, BootId) else ""


def read_on_both(attempt: Attempt, *extents: Extent) -> None:
    """Read extents on the Primary, then on the Secondary, which is Primary for that long."""
    primary, secondary = attempt.primary, attempt.secondary
    for extent in extents:
        attempt.read_back(extent, primary)
    exchange_roles(attempt, primary, secondary)
    for extent in extents:
        attempt.read_back(extent, secondary)
    exchange_roles(attempt, secondary, primary)


def _other(attempt: Attempt, node: str) -> str:
    return attempt.secondary if node == attempt.primary else attempt.primary


def _knows_gone(look: Look, node: str, other: str) -> bool:
    peer = look.of(node).peer(other)
    return peer is not None and peer.connection != CONNECTED


def _since(cut: Act, apart: Waited, attempt: Attempt, node: str) -> float | None:
    """Seconds from the cut to the first look at which this node had noticed."""
    other = _other(attempt, node)
    found = (one.at - cut.at for one in apart.looks if _knows_gone(one, node, other))
    return next(found, None)
