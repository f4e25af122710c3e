"""Taking away what dead runs left: each pool under its own Lease, so that no run is in the way.

Whatever breaks it off, it can be begun again: what is gone is gone, and the Lease runs out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from harness.bringup.connect import ConnectedLab
from harness.bringup.leasing import RUN, lease_of
from harness.cleaning.leftovers import POOLS, Leftover
from harness.facts.objects import mapped, name_of, text_at, uid_of
from harness.inventory.naming import deployment_name, release_name
from harness.observe.pool import CAPI, DEPLOYMENT_LABEL, HELM
from harness.reach.errors import ApiRefused, LeaseHeld, LeaseLost
from harness.reach.kube import Kube
from harness.reach.lease import KIND as LEASE

BUDGET = 1200.0
"""Seconds for a pool to go; all else takes less."""
STEP = 240.0
"""Seconds after which the Lease is renewed while something goes."""


@dataclass(frozen=True, slots=True)
class Done:
    """What became of one: ``gone``, or ``why`` it stays."""

    leftover: Leftover
    gone: bool
    why: str = ""


def remove(lab: ConnectedLab, found: Sequence[Leftover], *, run: str = "") -> Iterator[Done]:
    """Remove what is given, pool by pool, told one by one. ``run``: the run whose own these are,
    which is known to be dead: its Lease counts as ours. Raises LabError where the lab cannot be
    reached.
    """
    for pool, group in groupby(sorted(found, key=_order), key=lambda one: one.pool):
        items = list(group)
        if not pool:
            yield from (_remove(lab, one, lambda: None) for one in items)
            continue
        yield from _under_lease(lab, pool, items, run)


def _order(one: Leftover) -> tuple[str, bool, str]:
    return one.pool, one.kind == LEASE, one.what


def _under_lease(
    lab: ConnectedLab, pool: str, items: Sequence[Leftover], run: str
) -> Iterator[Done]:
    lease = lease_of(lab, pool, {RUN: run or lab.run_id})
    try:
        lease.acquire(run or lab.run_id, lab.clock)
    except LeaseHeld as held:
        yield from (Done(one, False, f"left: {held.saw}") for one in items)
        return
    try:
        for one in items:
            if one.kind == LEASE:
                yield Done(one, True)
            else:
                yield _remove(lab, one, lambda: lease.renew(lab.clock))
    except LeaseLost as lost:
        yield from (Done(one, False, f"left: {lost}") for one in items)
    finally:
        lease.release()


def _remove(lab: ConnectedLab, one: Leftover, renew: Callable[[], None]) -> Done:
    kube = lab.management if one.cluster == lab.management.name else lab.tenant
    try:
        kube.delete(one.api_version, one.kind, one.namespace, one.name, uid=one.uid)
        gone = _is_gone(lab, kube, one)
    except ApiRefused as refused:
        return Done(one, False, refused.saw)
    deadline = lab.clock.deadline(BUDGET)
    while not deadline.expired:
        step = lab.clock.deadline(min(STEP, deadline.remaining()))
        if lab.clock.wait(gone, step, f"{one.what} to be gone"):
            return Done(one, True)
        renew()
    return Done(one, False, f"deleted, and still there after {BUDGET:.0f} s")


def _is_gone(lab: ConnectedLab, kube: Kube, one: Leftover) -> Callable[[], bool]:
    """Whether that very object is gone and, of a pool, its release and machines too."""
    own = lab.observatory.feed(kube, one.api_version, one.kind, one.namespace)
    if (one.api_version, one.kind) != POOLS:
        return lambda: all(uid_of(obj) != one.uid for obj in own.objects())
    place = lab.inventory.tenant
    pool = one.name.removeprefix(f"{place.cluster}-")
    release, deployment = release_name(place.cluster, pool), deployment_name(place.cluster, pool)
    releases = lab.observatory.feed(kube, HELM, "HelmRelease", place.namespace)
    machines = lab.observatory.feed(kube, CAPI, "Machine", place.namespace)

    def gone() -> bool:
        labels = (mapped(obj, "metadata", "labels") for obj in machines.objects())
        return (
            all(uid_of(obj) != one.uid for obj in own.objects())
            and all(name_of(obj) != release for obj in releases.objects())
            and all(text_at(found, DEPLOYMENT_LABEL) != deployment for found in labels)
        )

    return gone
