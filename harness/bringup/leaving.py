"""Taking a held pool down while somebody looks, and waiting until nothing of it is left.

The scenario that asks this is the last of its pool: it takes the pool down itself, as the release
would have done a moment later, so that what stays is a verdict and not a note in a log.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.leasing import OF_POOLS
from harness.bringup.linstor import linstor_of
from harness.bringup.ownership import OURS
from harness.bringup.probes import NAMESPACE as PROBES
from harness.bringup.probes import PROBE_OF
from harness.bringup.scratch_volume import ScratchVolume
from harness.facts.fact import Origin, Unread
from harness.facts.objects import listed, name_of, text_at
from harness.facts.remains import Remains, left_over
from harness.inventory.naming import deployment_name, nodes_name
from harness.observe.remains import Traces, remains
from harness.reach.errors import ApiRefused
from harness.reach.lease import API, KIND, lease_state
from harness.reach.watch import Feed

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

BUDGET = 300.0
"""Seconds for volumes and their space to be given back once the machines are gone: what upstream's
own run waits for 90 GiB (field.md section 2; CZ run-kubernetes.sh)."""
PAUSE = 15.0
"""Seconds of the lab's time between two looks: LINSTOR and free space cannot be watched."""


@dataclass(frozen=True, slots=True)
class Departure:
    """A pool before it was asked for and after it was taken down. ``kept``: it was somebody else's
    and stands on purpose.
    """

    before: Remains | Unread
    after: Remains | Unread
    kept: bool


def look(held: HeldPool) -> Remains:
    """What is there of the pool now."""
    lab = held.lab
    with linstor_of(lab) as linstor:
        return remains(lab.management, lab.tenant, linstor, traces_of(held), now=lab.clock.now)


def depart(held: HeldPool) -> Departure:
    """Take the pool down and look at what stays, once nothing goes any more or the budget is over.

    Raises LabError where the lab cannot be reached.
    """
    kept, traces, before = held.stood, traces_of(held), _before(held)
    try:
        held.end()
    except TakeDownIncomplete as stays:
        held.note("take-down", f"{stays}; the claim nothing-left says what is left")
    deadline = held.lab.clock.deadline(BUDGET)
    while True:
        after = replace(_after(held, traces, kept=kept), beside=_beside(held, before))
        known = before if isinstance(before, Remains) else after
        if not left_over(known, after, kept=kept) or deadline.expired:
            return Departure(before, after, kept)
        held.pause(min(PAUSE, deadline.remaining()), f"what pool {held.name} took to be given back")


def _before(held: HeldPool) -> Remains | Unread:
    nobody = Origin(held.lab.clock.now(), held.subject, "")
    return held.before or Unread(nobody, f"what was there of {held.subject}", "nobody looked")


def _after(held: HeldPool, traces: Traces, *, kept: bool) -> Remains:
    """The look; beside a pool that stays, only at what runs put there."""
    lab = held.lab
    if kept:
        own = ScratchVolume(held).name
        traces = Traces(traces.namespace, "", "", frozenset({own}), labels=traces.labels)
    with linstor_of(lab) as linstor:
        return remains(lab.management, lab.tenant, linstor, traces, now=lab.clock.now)


def _beside(held: HeldPool, before: Remains | Unread) -> tuple[str, ...]:
    """Whose other pools stood, came or went since the first look: by their Leases."""
    lab, own = held.lab, held.lease
    try:
        found = lab.management.list(API, KIND, labels=OURS)
    except ApiRefused as refused:
        return (f"anybody (Leases may not be listed: {refused.saw})",)
    now, since = lab.clock.now(), before.origin.at
    others = [one for one in map(lease_state, found) if one.name.startswith(OF_POOLS)]
    return tuple(
        sorted(
            one.name.removeprefix(OF_POOLS)
            for one in others
            if (one.namespace, one.name) != (own.namespace, own.name) and one.held_after(since, now)
        )
    )


def traces_of(held: HeldPool) -> Traces:
    """By what the pool's own is known, from all that was seen of it so far."""
    place, scratch = held.lab.inventory.tenant, ScratchVolume(held).name
    names = held.watched.own_names() | held.watched.node_names() | {scratch}
    card = held.card
    return Traces(
        place.namespace,
        nodes_name(place.cluster, held.name),
        deployment_name(place.cluster, held.name),
        frozenset(names),
        frozenset(_volumes(held, names)),
        {PROBES: f"{PROBE_OF}={held.name}"} if card is not None else {},
        card.resource_name if card is not None else "",
    )


def _volumes(held: HeldPool, names: set[str]) -> set[str]:
    """Every volume that a claim of the pool was ever bound to, and every disk of its VMs."""
    feed = held.watched.disks.feeds.get(("tenant", "claims"))
    if not isinstance(feed, Feed):
        return set()
    bound = {
        text_at(revision.obj, "spec", "volumeName")
        for revision in feed.history.revisions()
        if name_of(revision.obj) in names or _owner_of(revision.obj) in names
    }
    return bound - {""}


def _owner_of(claim: object) -> str:
    return next((text_at(one, "name") for one in listed(claim, "metadata", "ownerReferences")), "")
