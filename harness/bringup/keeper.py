"""Holding a pool: lease it, ask for it, wait until it joined, hand it over, take it down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.pool import HeldPool
from harness.bringup.watched import WatchedPool
from harness.facts.joining import Stage
from harness.inventory.manifest import kubernetes_nodes
from harness.inventory.naming import nodes_name
from harness.reach.history import Obj
from harness.reach.lease import PoolLease

API, KIND = "apps.cozystack.io/v1alpha1", "KubernetesNodes"
OWNER_LABELS = {"app.kubernetes.io/managed-by": "hil"}
RUN_LABEL = "hil.dev/run"

LEASE_SECONDS = 900
RENEW_EVERY = 240.0
"""The longest a wait goes on without renewing the lease, in seconds of the lab's time."""
TAKE_DOWN_BUDGET = 1200.0

Log = Callable[[str, str], None]


@contextmanager
def hold(lab: ConnectedLab, name: str, log: Log) -> Iterator[HeldPool]:
    """A pool, held by its Lease from before it is asked for until it is gone.

    It is handed over whether or not its workers joined: that is for a claim to say. Raises
    LeaseHeld when another run has it, and TakeDownIncomplete when something of it stays.
    """
    place = lab.inventory.tenant
    lease = PoolLease(
        lab.management, place.namespace, f"hil-pool-{place.cluster}-{name}", duration=LEASE_SECONDS
    )
    lease.acquire(lab.run_id, lab.clock)
    try:
        watched = WatchedPool.start(lab, name)
        ours = _ask_for(lab, name, log)
        held = HeldPool(lab, name, watched, lease, since=lab.clock.now())
        try:
            _wait_until_joined(held, log)
            yield held
        finally:
            held.close_shells()
            if ours:
                _take_down(held, log)
            else:
                log("take-down", f"pool {name} was there before this run and is left standing")
    finally:
        lease.release()


def _ask_for(lab: ConnectedLab, name: str, log: Log) -> bool:
    """Ask for the pool; False when the very same one is there already and is not ours."""
    place = lab.inventory.tenant
    wanted = kubernetes_nodes(lab.inventory, name, labels={**OWNER_LABELS})
    found = lab.management.get(API, KIND, place.namespace, nodes_name(place.cluster, name))
    if found is not None and not _is_ours(found):
        log("bring-up", f"pool {name} is there already; it is used as it is")
        return False
    log("bring-up", f"asking for pool {name}: {_summary(wanted)}")
    lab.management.apply(wanted)
    return True


def _is_ours(obj: Obj) -> bool:
    labels = obj["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in OWNER_LABELS.items())


def _summary(wanted: Obj) -> str:
    spec = wanted["spec"]
    cards = ", ".join(card["name"] for card in spec.get("gpus", [])) or "no GPU"
    return f"{spec['minReplicas']} x {spec['instanceType']}, {cards}"


def _wait_until_joined(held: HeldPool, log: Log) -> None:
    """Wait for every worker, at the longest for the pool's join budget, renewing the lease."""
    replicas = held.request.replicas
    deadline = held.lab.clock.deadline(held.request.join_budget.seconds)

    def joined() -> bool:
        if len(held.watched.nodes.objects()) < replicas:
            return False  # most looks end here; following each machine's chain costs more
        ready = [t for t in held.watched.tracks(held.since) if t.stage is Stage.READY]
        return len(ready) >= replicas

    what = f"{replicas} Ready workers of pool {held.name}"
    while not deadline.expired:
        turn = held.lab.clock.deadline(min(RENEW_EVERY, deadline.remaining()))
        if held.lab.clock.wait(joined, turn, what):
            break
        held.lease.renew_if_due(held.lab.clock)
    for track in held.join:
        where = "" if track.stage is Stage.READY else f" at {track.stuck_kind} {track.stuck_name}"
        log("bring-up", f"worker {track.machine or '(none)'}: {track.stage}{where}")


def _take_down(held: HeldPool, log: Log) -> None:
    """Delete the pool and see it go."""
    lab, place = held.lab, held.lab.inventory.tenant
    lab.management.delete(API, KIND, place.namespace, nodes_name(place.cluster, held.name))
    names = {track.node for track in held.join if track.node}

    def gone() -> bool:
        nodes = {obj["metadata"]["name"] for obj in held.watched.nodes.objects()}
        return not held.watched.leftovers() and not names & nodes

    deadline = lab.clock.deadline(TAKE_DOWN_BUDGET)
    if not lab.clock.wait(gone, deadline, f"pool {held.name} to be gone"):
        left = ", ".join(held.watched.leftovers()) or "its tenant Nodes"
        log("take-down", f"pool {held.name} is not gone: {left}")
        raise TakeDownIncomplete(f"pool {held.name} was deleted, still there: {left}")
    log("take-down", f"pool {held.name} is gone")
