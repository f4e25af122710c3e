"""Getting a pool's Lease, with the cards that go with it: at once, or after waiting for a live run.

A Lease is on a pool. Two pools, of one lab or of two, may draw on the same hosts' cards: each Lease
says how many of which card its pool takes (annotation `hil.dev/cards`), and whoever comes later
counts those that an earlier holder was promised and does not use yet. A card itself is never given
twice: the host's device plugin sees to that. What the count prevents is a run that waits half an
hour for a card that another was promised, and then blames the product.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from harness.bringup.connect import ConnectedLab
from harness.bringup.ownership import OURS
from harness.bringup.skew import LEASE_SECONDS, refuse_far_apart
from harness.facts.objects import mapped, name_of, text_at
from harness.facts.quantity import bytes_of
from harness.inventory.naming import deployment_name
from harness.reach.errors import ApiRefused, LeaseHeld
from harness.reach.history import Obj
from harness.reach.lease import API, KIND, LeaseState, PoolLease, lease_state, micro_time

Log = Callable[[str, str], None]

CARDS = "hil.dev/cards"
"""Annotation of a Lease: the cards that its pool takes, as JSON."""
ROOM = "hil.dev/room"
"""Annotation of a Lease: "yes" once its pool has been promised room (`harness.bringup.room`)."""
RUN = "hil.dev/run"
"""Annotation of a Lease: the run that has it, or had it last."""
LAB = "hil.dev/lab"
"""Annotation of a Lease: the inventory's name."""
CARDS_TAKEN = "cards-taken"
"""Kind of the note that others have the cards that a pool needs (`harness.report.environment`)."""
OF_POOLS = "hil-pool-"
"""How the name of every Lease on a pool begins."""
AGAIN = 30.0
"""The longest that a wait goes on without reading the Lease again, in seconds of the lab's time."""
TELL = 60.0
"""Seconds of the lab's time between two lines of progress."""


def lease_name(cluster: str, pool: str) -> str:
    """Name of the Lease on a pool, in the tenant's namespace."""
    return f"{OF_POOLS}{cluster}-{pool}"


def lease_of(lab: ConnectedLab, pool: str, notes: dict[str, str]) -> PoolLease:
    """A pool's Lease, not held yet; ``notes`` are its annotations."""
    place = lab.inventory.tenant
    name = lease_name(place.cluster, pool)
    return PoolLease(lab.management, place.namespace, name, duration=LEASE_SECONDS, notes=notes)


@dataclass(frozen=True, slots=True)
class Promise:
    """Cards that a Lease promises to its pool: which, how many, and whose the Lease is."""

    state: LeaseState
    resource: str
    count: int
    prefix: str
    """How the names of its pool's virtual machines begin."""


@contextmanager
def leased(lab: ConnectedLab, pool: str, log: Log, wait: float = 0.0) -> Iterator[PoolLease]:
    """A pool's Lease, released at the end. ``wait``: seconds of the lab's time to wait for a run
    that holds it, or was promised the last cards; 0 refuses at once. Raises LeaseHeld, and
    LabError where the clocks are too far apart to tell who has it.
    """
    clocks = refuse_far_apart(lab)
    lease = lease_of(lab, pool, _notes(lab, pool))
    _acquire(lab, pool, lease, log, wait)
    log("lease", f"pool {pool} is leased; {clocks}")
    try:
        yield lease
    finally:
        lease.release()


def _notes(lab: ConnectedLab, pool: str) -> dict[str, str]:
    card, asked = lab.inventory.card(pool), lab.inventory.pools[pool]
    # what an earlier holder was promised stays on its Lease, and is nothing of this one's
    notes = {LAB: lab.inventory.name, RUN: lab.run_id, CARDS: "", ROOM: ""}
    if card is not None:
        taken = {
            "resource": card.resource_name,
            "count": asked.replicas * asked.cards,
            "machines": f"{deployment_name(lab.inventory.tenant.cluster, pool)}-",
        }
        notes[CARDS] = json.dumps(taken, sort_keys=True)
    return notes


def _acquire(lab: ConnectedLab, pool: str, lease: PoolLease, log: Log, wait: float) -> None:
    deadline = lab.clock.deadline(wait)
    told = lab.clock.now() - TELL
    while True:
        try:
            lease.acquire(lab.run_id, lab.clock)
            try:
                refuse_promised(lab, pool, lease, log)
            except LeaseHeld:
                lease.release()
                raise
            return
        except LeaseHeld as held:
            if deadline.expired:
                raise
            if lab.clock.now() - told >= TELL:
                log("lease", _waiting(pool, held, deadline.remaining()))
                told = lab.clock.now()
            _pause(lab, held, deadline.remaining())


def _waiting(pool: str, held: LeaseHeld, left: float) -> str:
    since = "an unknown time" if held.since is None else micro_time(held.since)
    return (
        f"pool {pool} waits for run {held.holder}, which holds {held.what} since {since}; "
        f"{left / 60:.0f} more minutes at the longest"
    )


def _pause(lab: ConnectedLab, held: LeaseHeld, left: float) -> None:
    """Wait until the Lease in the way changes hands or runs out, and not for long at a time."""
    namespace = lab.inventory.tenant.namespace
    feed = lab.observatory.feed(lab.management, API, KIND, namespace)

    def released() -> bool:
        found = feed.object(held.what.removeprefix("lease "))
        return found is not None and lease_state(found).holder != held.holder

    until = AGAIN if held.until is None else max(1.0, held.until - lab.clock.now())
    step = min(AGAIN, until, left)
    lab.clock.wait(released, lab.clock.deadline(step), f"run {held.holder} to let go")


def refuse_promised(lab: ConnectedLab, pool: str, lease: PoolLease, log: Log) -> None:
    """Raise LeaseHeld where the cards that are left were promised to a run that came before.

    Cards that others took without a Lease refuse nothing: that is noted, for whoever asks why no
    worker joined.
    """
    card, asked = lab.inventory.card(pool), lab.inventory.pools[pool]
    if card is None:
        return
    try:
        promises = promised(lab, card.resource_name, lease)
        offered, users = cards_in_use(lab, card.resource_name)
    except ApiRefused as refused:
        log("lease", f"whose the cards of pool {pool} are could not be looked at: {refused}")
        return
    own = f"{deployment_name(lab.inventory.tenant.cluster, pool)}-"
    need = asked.replicas * asked.cards - _used_by(users, own)
    ahead = [(one, one.count - _used_by(users, one.prefix)) for one in promises]
    open_ = sum(max(0, count) for _, count in ahead)
    free = offered - sum(count for _, count in users)
    if free - open_ >= need or need <= 0 or offered == 0:
        return
    if open_ == 0 or free < need:
        names = ", ".join(dict.fromkeys(name for name, _ in users)) or "nobody"
        said = f"{free} of {offered} cards {card.resource_name} free, {need} needed; taken by"
        log(CARDS_TAKEN, f"pool {pool} lacks cards: {said} {names}")
        return
    first = next(one.state for one, count in ahead if count > 0)
    raise LeaseHeld(
        f"take {need} cards {card.resource_name} for pool {pool}",
        f"{free} of {offered} free, of which {open_} are promised to run {first.holder} "
        f"(lease {first.name})",
        f"wait till it ends, use another card, or end {first.holder}",
        holder=first.holder,
        since=first.since,
        until=first.until,
        what=f"lease {first.name}",
    )


def promised(lab: ConnectedLab, resource: str, own: PoolLease | None) -> list[Promise]:
    """Cards of a kind that live Leases of other runs promise; with ``own``, earlier ones only."""
    now = lab.clock.now()
    found = lab.management.list(API, KIND, labels=OURS)
    states = {(s.namespace, s.name): (s, one) for one in found for s in [lease_state(one)]}
    mine = states.get((own.namespace, own.name)) if own is not None else None
    before = (mine[0].since or now, mine[0].name) if mine else None
    result = []
    for state, lease in states.values():
        told = _cards_of(lease)
        if told is None or told["resource"] != resource or not state.live(now):
            continue
        if state.holder == lab.run_id or (own is not None and state.name == own.name):
            continue
        if before is None or (state.since or 0.0, state.name) < before:
            result.append(Promise(state, resource, told["count"], told["machines"]))
    return result


def cards_in_use(lab: ConnectedLab, resource: str) -> tuple[int, list[tuple[str, int]]]:
    """How many cards of a kind the hosts offer, and each pod that has some, with how many."""
    offered = sum(
        bytes_of(mapped(node, "status", "allocatable").get(resource)) or 0
        for node in lab.management.list("v1", "Node")
    )
    users = []
    for pod in lab.management.list("v1", "Pod"):
        if text_at(pod, "status", "phase") in ("Succeeded", "Failed"):
            continue
        count = cards_of_pod(pod, resource)
        if count and text_at(pod, "spec", "nodeName"):
            users.append((f"{text_at(pod, 'metadata', 'namespace')}/{name_of(pod)}", count))
    return offered, users


def cards_of_pod(pod: Obj, resource: str) -> int:
    """How many cards of a kind the containers of a pod ask for together."""
    containers = (pod.get("spec") or {}).get("containers") or []
    return sum(
        bytes_of(mapped(one, "resources", "limits").get(resource)) or 0 for one in containers
    )


def _used_by(users: Sequence[tuple[str, int]], machines: str) -> int:
    """Cards of the launchers of a pool, whose names carry their machines'."""
    begins = f"virt-launcher-{machines}"
    return sum(count for name, count in users if name.rpartition("/")[2].startswith(begins))


def _cards_of(lease: Obj) -> dict[str, Any] | None:
    try:
        told = json.loads(str(mapped(lease, "metadata", "annotations").get(CARDS)))
    except ValueError:
        return None
    wanted = {"resource": str, "count": int, "machines": str}
    fits = isinstance(told, dict) and all(isinstance(told.get(k), t) for k, t in wanted.items())
    return told if fits else None
