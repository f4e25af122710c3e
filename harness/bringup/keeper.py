"""Holding a pool: lease it, ask for it, wait until it joined, hand it over, take it down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from harness.bringup import hostloss, leaving, preflight
from harness.bringup.boot_ledger import watch_boots
from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.leasing import leased
from harness.bringup.ownership import OWNER_LABELS
from harness.bringup.pool import HeldPool
from harness.bringup.room import find_room
from harness.bringup.scratch_volume import ScratchVolume
from harness.bringup.terms import NO_TERMS, Terms
from harness.bringup.watched import WatchedPool
from harness.facts.joining import Stage
from harness.facts.objects import epoch
from harness.inventory.manifest import kubernetes_nodes
from harness.inventory.naming import nodes_name
from harness.reach.errors import ApiRefused, LabError, LeaseLost
from harness.reach.history import Obj

API, KIND = "apps.cozystack.io/v1alpha1", "KubernetesNodes"
TAKE_DOWN_BUDGET = 1200.0

_USED = "pool {} is there already; it is used as it is"
_CHOICES = ("gpus", "kernelModules", "osImage")
"""Parts of a pool that change it by being absent."""

Log = Callable[[str, str], None]


@contextmanager
def hold(lab: ConnectedLab, name: str, log: Log, terms: Terms = NO_TERMS) -> Iterator[HeldPool]:
    """A pool, held by its Lease from before it is asked for until it is gone.

    It is handed over whether or not its workers joined: that is for a claim to say. Raises
    LeaseHeld when another run has it, and TakeDownIncomplete when something of it stays.
    """
    with leased(lab, name, log, terms.wait) as lease:
        watched = WatchedPool.start(lab, name)
        wanted = kubernetes_nodes(lab.inventory, name, labels={**OWNER_LABELS})
        standing = _standing(lab, name)
        held = HeldPool(lab, name, watched, lease, since=lab.clock.now(), terms=terms, note=log)
        if standing is not None and _is_leftover(standing):
            _clear_leftover(held, log)
            standing = None
        if standing is not None:
            _refuse_another(standing, wanted)
            held.since = epoch(standing["metadata"]["creationTimestamp"]) or held.since
            held.stood = True
        if standing is None:
            preflight.check(held, log)
        held.measured = find_room(held, log, stands=standing is not None)
        if standing is None:
            held.since = lab.clock.now()  # it may have waited for room
        held.ending = partial(_end, held, log, ours=standing is None)
        try:
            _make_room(held, log)
            if terms.leaks:
                held.before = leaving.look(held)
            _ask_for(held, wanted, log) if standing is None else log("bring-up", _USED.format(name))
            _wait_until_joined(held, log)
            if terms.soak:
                held.books = watch_boots(watched)
                held.at_end.append(held.books.close)
            yield held
        finally:
            held.end()


def _standing(lab: ConnectedLab, name: str) -> Obj | None:
    """The pool of this name that is there now."""
    place = lab.inventory.tenant
    return lab.management.get(API, KIND, place.namespace, nodes_name(place.cluster, name))


def _is_leftover(pool: Obj) -> bool:
    """Whether an earlier run made it: who holds the Lease may then clear it away.

    So may one that is being deleted already, whoever made it: nothing can be built on it.
    """
    return _made_by_a_run(pool) or bool(pool["metadata"].get("deletionTimestamp"))


def _made_by_a_run(pool: Obj) -> bool:
    labels = pool["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in OWNER_LABELS.items())


def _clear_leftover(held: HeldPool, log: Log) -> None:
    """Take down what an earlier run left: its workers were made for another request."""
    log("bring-up", f"pool {held.name} was left by an earlier run; it is taken down first")
    _take_down(held, log)
    held.since = held.lab.clock.now()


def _refuse_another(found: Obj, wanted: Obj) -> None:
    """Raise LabError when somebody else's pool is not the one that the inventory asks for."""
    asked, has = wanted["spec"], found.get("spec") or {}
    differ = [key for key in sorted({*asked, *_CHOICES}) if _differ(asked.get(key), has.get(key))]
    if differ:
        saw = "it there, not made by hil, with another " + " and another ".join(differ)
        name = wanted["metadata"]["name"]
        raise LabError(f"use pool {name}", saw, "delete it, or let the inventory say the same")


def _differ(asked: object, has: object) -> bool:
    """Whether what was asked is not what is there; the API may have filled in more."""
    if isinstance(asked, dict) and isinstance(has, dict):
        return any(_differ(value, has.get(key)) for key, value in asked.items())
    return asked != has


def _ask_for(held: HeldPool, wanted: Obj, log: Log) -> None:
    log("bring-up", f"asking for pool {held.name}: {_summary(wanted)}")
    held.lab.management.apply(wanted)


def _end(held: HeldPool, log: Log, *, ours: bool) -> None:
    """Leave nothing behind that this run made, whatever else fails."""
    try:
        hostloss.note_lost(held, log)
        while held.at_end:
            held.at_end.pop(0)()
        held.close_shells()
        held.clear_scratch_volume()
        _clear_scratch(held)
    finally:
        if not ours:
            log("take-down", f"pool {held.name} was there before this run and is left standing")
        elif _made(held):
            _take_down(held, log)
        else:
            log("take-down", f"pool {held.name} was not made; there is nothing of it to take down")


def _make_room(held: HeldPool, log: Log) -> None:
    """See that probes can be made in time, and that none of an earlier run's is in the way.

    An API that will not have that is told, and costs the claims that need a probe, not the pool.
    """
    try:
        if held.card is not None:
            held.probes.prepare()
        held.trials.clear()
        ScratchVolume(held).clear()
    except ApiRefused as refused:
        log("bring-up", f"probes of pool {held.name} may be missing: {refused}")


def _clear_scratch(held: HeldPool) -> None:
    """Delete probes and scratch pools, unless another run has taken the pool over meanwhile."""
    try:
        held.lease.renew(held.lab.clock)
    except LeaseLost:
        return  # the take-down of the pool itself says so
    if held.card is not None:
        held.probes.clear()
    held.trials.clear()


def _made(held: HeldPool) -> bool:
    """Whether asking for the pool made it: a refused request must not cost somebody theirs."""
    found = _standing(held.lab, held.name)
    return found is not None and _made_by_a_run(found)


def _summary(wanted: Obj) -> str:
    spec = wanted["spec"]
    cards = ", ".join(card["name"] for card in spec.get("gpus", [])) or "no GPU"
    return f"{spec['minReplicas']} x {spec['instanceType']}, {cards}"


def _wait_until_joined(held: HeldPool, log: Log) -> None:
    """Wait for every worker, at the longest for the pool's join budget.

    On a node with cards a pod is made as soon as its Node exists, before the GPU operator gets
    there: what it must not get is to be seen later.
    """
    replicas = held.request.replicas

    def unprobed() -> list[str]:
        early = held.card is not None and not held.stood
        return sorted(held.watched.node_names() - set(held.probes.early)) if early else []

    def joined() -> bool:
        ready = [t for t in held.watched.tracks(held.since) if t.stage is Stage.READY]
        return len(ready) >= replicas

    deadline = held.lab.clock.deadline(held.request.join_budget.seconds)
    what = f"{replicas} Ready workers of pool {held.name}"
    while held.wait(lambda: bool(unprobed()) or joined(), deadline.remaining(), what):
        if joined() and not unprobed():
            break
        for node in unprobed():
            held.probes.make_early(node)
    for track in held.join:
        where = "" if track.stage is Stage.READY else f" at {track.stuck_kind} {track.stuck_name}"
        log("bring-up", f"worker {track.machine or '(none)'}: {track.stage}{where}")


def _take_down(held: HeldPool, log: Log) -> None:
    """Delete the pool and see it go. Raises TakeDownIncomplete.

    A pool that another run has taken over meanwhile is that run's, and stays.
    """
    lab, place = held.lab, held.lab.inventory.tenant
    try:
        held.lease.renew(lab.clock)
    except LeaseLost as lost:
        log("take-down", f"pool {held.name} is not ours any more and is left alone: {lost}")
        return
    log("take-down", f"deleting pool {held.name}")
    lab.management.delete(API, KIND, place.namespace, nodes_name(place.cluster, held.name))
    names = {track.node for track in held.join if track.node}

    def gone() -> bool:
        nodes = {name for _, name in held.watched.nodes.history.current}
        return not held.watched.leftovers() and not names & nodes

    if not held.wait(gone, TAKE_DOWN_BUDGET, f"pool {held.name} to be gone"):
        left = ", ".join(held.watched.leftovers()) or "its tenant Nodes"
        log("take-down", f"pool {held.name} is not gone: {left}")
        raise TakeDownIncomplete(f"pool {held.name} was deleted, still there: {left}")
    log("take-down", f"pool {held.name} is gone")
