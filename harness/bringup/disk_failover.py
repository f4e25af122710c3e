"""The loss of storage nodes beneath a worker that runs: its own disk is put to it, and mended.

First a node with another replica is switched off and on again while the worker writes; then, where
its class suspends I/O and the lab allows it, the node that it works on is parted from the majority
and joined again. All of it is undone whatever happens in between (`drbd.conducting`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from harness.bringup.disk_hosts import POWER, Means, Plan, plan
from harness.bringup.drbd.attempt import Attempt
from harness.bringup.drbd.conducting import Finish, conduct
from harness.bringup.drbd.losses import NOTICE_LIMIT, heal_link, switch_off
from harness.bringup.drbd.restoring import bring_up, power_on
from harness.bringup.drbd.volume import Volume
from harness.bringup.guest_files import GuestFiles
from harness.bringup.scratch_volume import cluster_volume
from harness.facts.diskfailover import DiskFailover, Freeze, NodeLoss, NotTried, StorageHosts
from harness.facts.drbd import CONNECTED, PRIMARY
from harness.facts.drbdlooks import Look
from harness.facts.drbdtrials import Act, Waited
from harness.facts.fact import Origin, Unread
from harness.facts.guest import BootId
from harness.observe.diskhosts import WorkersDisk, class_policy, storage_hosts, workers_disks
from harness.observe.guest import boot_id
from harness.reach.errors import LabError
from harness.reach.nodeshell import NodeShell

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

WHAT = "loss of storage nodes beneath a worker"
SYNC_LIMIT = 900.0
"""Seconds for a worker's disk to be in sync again: of 20 GiB more than the trial's own files may
have to be copied where two nodes were away at once."""
STANDS_STILL = 10.0
"""Seconds for which a write is watched that is to stand still; a Node takes longer to be lost."""


@dataclass(frozen=True, slots=True)
class _Chosen:
    """The worker whose disk is put to it, and what is tried on it."""

    disk: WorkersDisk
    volume: Volume
    plan: Plan
    policy: str
    hosts: StorageHosts


def disk_failover(pool: HeldPool) -> DiskFailover | Unread:
    """Lose storage nodes beneath the worker of a pool on whose disk most can be tried.

    Unread where none may be lost, with the reason. Raises PoolNotReady without a worker.
    """
    chosen = _choose(pool)
    if isinstance(chosen, Unread):
        return chosen
    worker = next(one for one in pool.workers if one.name == chosen.disk.node)
    shell = worker.shell
    return conduct(chosen.volume, WHAT, lambda attempt: _fail_over(attempt, pool, chosen, shell))


def _choose(pool: HeldPool) -> _Chosen | Unread:
    """The worker on whose disk most can be tried, or why nothing can be on any."""
    lab, place = pool.lab, pool.lab.inventory.tenant
    kube, names = lab.management, {one.name for one in pool.workers if not one.absent}
    hosts = storage_hosts(kube, place.namespace, place.cluster, now=lab.clock.now)
    policy = class_policy(kube, pool.request.storage_class)
    found = workers_disks(kube, place.namespace, place.cluster, pool.name)
    ours = [machine for machine in _machines(hosts) if _is_of(machine, found)]
    means = Means(lab.power is not None, lab.link is not None)
    best: _Chosen | None = None
    told = []
    for disk in found:
        if disk.node not in names:
            continue
        volume = cluster_volume(pool, disk.resource, 0)
        seen = _primary(volume, disk)
        if isinstance(seen, str):
            told.append(seen)
            continue
        own, replicas = seen
        planned = plan(hosts, own, replicas, policy, means, ours)
        told.append(planned.why)
        if planned.victim and (best is None or planned.rank > best.plan.rank):
            best = _Chosen(disk, _ordered(volume, planned), planned, policy, hosts)
    if best is None:
        why = "; ".join(dict.fromkeys(filter(None, told))) or "no worker has a DRBD disk"
        origin = Origin(lab.clock.now(), f"{kube.name} pool {pool.name}", "")
        return Unread(origin, f"the {WHAT} of {pool.subject}", f"not tried: {why}")
    return best


def _machines(hosts: StorageHosts) -> list[str]:
    return [machine for one in hosts.hosts for machine in one.machines]


def _is_of(machine: str, found: Sequence[WorkersDisk]) -> bool:
    """Whether a VMI is one of the pool's: a Node bears its VMI's name (objects.md section 1)."""
    return machine.rpartition("/")[2] in {one.node for one in found}


def _primary(volume: Volume, disk: WorkersDisk) -> tuple[str, tuple[str, ...]] | str:
    """Where the disk is Primary, and the nodes that have a replica of it; else what is wrong."""
    look = Attempt(volume, WHAT).look()
    primaries = look.primaries
    if len(primaries) != 1:
        return f"{disk.resource} has {len(primaries)} Primaries: {look}"
    if disk.host and disk.host != primaries[0] and look.of(disk.host).role:
        return f"{disk.resource} is Primary on {primaries[0]}, its VMI runs on {disk.host}"
    return primaries[0], tuple(one.node for one in look.views if not one.client and not one.missing)


def _ordered(volume: Volume, planned: Plan) -> Volume:
    """The volume with the node that is to be lost as the first of the others."""

    def rank(node: str) -> int:
        return 0 if node == planned.own else 1 if node == planned.victim else 2

    volume.replicas = sorted(volume.replicas, key=lambda one: rank(one.node))
    return volume


def _fail_over(
    attempt: Attempt, pool: HeldPool, chosen: _Chosen, shell: NodeShell
) -> Finish[DiskFailover]:
    files = GuestFiles(attempt, chosen.disk.node, shell)
    try:
        before = _boot(shell)
        first = files.write()
        loss = _lose(attempt, files, chosen.plan.victim)
        freeze = _freeze(attempt, files, pool, chosen)
        ended = files.finished(freeze.ended) if isinstance(freeze, Freeze) else None
        dropped = files.drop()
        start = files.counters()
        kept = [files.read(one) for one in (first, loss.wrote, ended) if one is not None]
        reading = (start, files.counters())
        boots = (before, _boot(shell))
    finally:
        files.clear()
    primary, secondary = attempt.primary, attempt.secondary
    return lambda origin, course: DiskFailover(
        origin,
        course,
        primary,
        secondary,
        worker=chosen.disk.node,
        policy=chosen.policy,
        hosts=chosen.hosts,
        first=kept[0],
        loss=loss,
        freeze=freeze,
        dropped=dropped,
        reading=reading,
        files=tuple(kept),
        boots=boots,
    )


def _lose(attempt: Attempt, files: GuestFiles, victim: str) -> NodeLoss:
    """Switch a storage node off, have the worker write at once, and switch it on again."""
    old = _boot(attempt.volume.replica(victim).shell)
    off = switch_off(attempt, victim)
    wrote = files.write()
    remain = attempt.volume.others(victim)

    def noticed(look: Look) -> bool:
        peers = [look.of(one).peer(victim) for one in remain]
        return all(one is not None and one.connection != CONNECTED for one in peers)

    seen = attempt.wait(f"the loss of {victim} to be noticed", noticed, NOTICE_LIMIT)
    back = _back(attempt, victim)
    resynced = _await_sync(attempt) if back else None
    new = _boot(attempt.volume.replica(victim).shell) if back else ""
    return NodeLoss(victim, off, wrote, seen, (old, new), resynced)


def _freeze(
    attempt: Attempt, files: GuestFiles, pool: HeldPool, chosen: _Chosen
) -> Freeze | NotTried:
    """Part the worker's node from the majority with a write under way, wait, and join it again."""
    planned, own = chosen.plan, attempt.primary
    if not planned.how:
        return NotTried(planned.why_not)
    if not attempt.look().in_sync:
        return NotTried("the replicas were not in sync again after the loss of a node")
    resynced = attempt.resynced
    parted, switched = _part(attempt, planned)
    files.begin()

    def without(look: Look) -> bool:
        return look.of(own).quorum is False

    lost = attempt.wait(f"{own} to know of no quorum", without, NOTICE_LIMIT)
    attempt.volume.clock.sleep(STANDS_STILL, "the worker's write to stand still")
    pending, _ = files.came_of()
    _join(attempt, switched)
    back = _await_sync(attempt)
    ended, spanned = files.await_end()
    attempt.resynced = resynced  # that of the lost node is the one that a trial is judged by
    moved = pool.vmi_uid(chosen.disk.machine) != chosen.disk.vmi
    return Freeze(parted, switched, lost, pending, ended, spanned, back, moved)


def _part(attempt: Attempt, planned: Plan) -> tuple[tuple[Act, ...], tuple[str, ...]]:
    if planned.how == POWER:
        acts = [switch_off(attempt, one) for one in planned.others]
        return tuple(acts), planned.others
    link, own = attempt.volume.link, attempt.primary
    assert link is not None, "asked when it was planned"
    attempt.cut = True
    acts = [
        attempt.do(f"cut the link to {one}", own, partial(link.cut, own, one))
        for one in planned.others
    ]
    return tuple(acts), ()


def _join(attempt: Attempt, switched: Sequence[str]) -> None:
    if attempt.cut:
        heal_link(attempt)
    for node in switched:
        power = attempt.volume.replica(node).power
        assert power is not None, "it was switched off"
        attempt.do("switch on", node, power.on)
    for node in switched:
        _back(attempt, node)


def _back(attempt: Attempt, node: str) -> bool:
    """Switch a node on and have it take part; False where it did not come back in time."""
    if not power_on(attempt, node):
        return False
    bring_up(attempt, node)
    return attempt.look().of(node).role not in ("", PRIMARY)


def _await_sync(attempt: Attempt) -> Waited:
    what = "all replicas to be in sync"
    attempt.resynced = attempt.wait(what, lambda look: look.in_sync, SYNC_LIMIT)
    return attempt.resynced


def _boot(shell: NodeShell) -> str:
    try:
        found = boot_id(shell)
    except LabError:
        return ""
    return found.boot_id if isinstance(found, BootId) else ""
