"""How far each worker of a pool got on its way to a Ready node, and where it is stuck.

A worker is followed along the objects that make it: Machine, KubevirtMachine, VM, disk, VMI,
launcher pod, Node (objects 1 and 5). A HelmRelease that is Ready says nothing of workers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from harness.facts import chain
from harness.facts.fact import Fact, Origin
from harness.facts.objects import (
    Obj,
    condition,
    epoch,
    listed,
    name_of,
    origin_of,
    text_at,
    uid_of,
)

EVENTS_KEPT = 10
_ROUNDING = 1.0  # seconds; Kubernetes' timestamps have no fractions


class Stage(StrEnum):
    """How far a worker got, in order."""

    REQUESTED = "requested"  # no Machine yet
    MACHINE = "machine"  # a Machine, without bootstrap data
    BOOTSTRAPPED = "bootstrapped"  # bootstrap data, no VM yet
    CREATED = "created"  # a VM whose guest does not run
    RUNNING = "running"  # the guest runs, no Node yet
    REGISTERED = "registered"  # a Node that is not Ready
    READY = "ready"


@dataclass(frozen=True, slots=True)
class JoinStep:
    """A step of the way and when it was done, by the cluster's time in epoch seconds; None where
    the object does not say. ``kind`` and ``name`` are the object's that tells."""

    what: str
    kind: str
    name: str
    at: float | None


@dataclass(frozen=True, slots=True)
class JoinTrack(Fact):
    """One worker's way to a Ready node.

    ``machine`` and ``node`` are names, "" where there is none yet. ``stuck_kind``, ``stuck_name``
    and ``why`` name the object that it waits on, empty once Ready; ``events`` are that object's
    last ones, oldest first. ``seconds`` from the pool's request to the first Ready, None before
    it and for a Ready older than the request; ``waited`` seconds since the request; ``budget``
    what it may take. ``steps`` are those that were done, from the request on, with their times.
    """

    machine: str
    node: str
    stage: Stage
    stuck_kind: str
    stuck_name: str
    why: str
    events: tuple[str, ...]
    seconds: float | None
    waited: float
    budget: float
    steps: tuple[JoinStep, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinObjects:
    """The objects of one pool. ``nodes`` may hold earlier versions too, from a watch's history:
    without them a node that rebooted since shows only its latest Ready."""

    machines: Sequence[Obj] = ()
    kubevirt_machines: Sequence[Obj] = ()
    virtual_machines: Sequence[Obj] = ()
    data_volumes: Sequence[Obj] = ()
    vmis: Sequence[Obj] = ()
    pods: Sequence[Obj] = ()
    nodes: Sequence[Obj] = ()
    machine_sets: Sequence[Obj] = ()
    machine_deployments: Sequence[Obj] = ()
    helm_releases: Sequence[Obj] = ()
    events: Sequence[Obj] = ()


@dataclass(frozen=True, slots=True)
class _Stop:
    """Where a worker stands: the stage it reached and the object it waits on."""

    stage: Stage
    obj: Obj
    why: str


def join_track(
    objects: JoinObjects, *, since: float, at: float, budget: float, cluster: str
) -> tuple[JoinTrack, ...]:
    """One track per Machine that is not being deleted, by name; one without a machine if none is.

    ``since`` is when the pool was asked for and ``at`` when the objects were read, epoch seconds;
    ``budget`` in seconds.
    """
    staying = chain.staying(objects.machines)
    if not staying:
        stop = _before_machines(objects)
        return (_track(objects, {}, stop, since, at, budget, cluster),)
    return tuple(
        _track(objects, one, _stop(objects, one), since, at, budget, cluster)
        for one in sorted(staying, key=name_of)
    )


def _track(
    objects: JoinObjects,
    machine: Obj,
    stop: _Stop,
    since: float,
    at: float,
    budget: float,
    cluster: str,
) -> JoinTrack:
    is_ready = stop.stage is Stage.READY
    has_node = text_at(stop.obj, "kind") == "Node"
    ready = _first_ready(objects.nodes, stop.obj) if is_ready else None
    return JoinTrack(
        origin=origin_of(stop.obj, at, cluster) if stop.obj else Origin(at, cluster, ""),
        machine=name_of(machine),
        node=name_of(stop.obj) if has_node else "",
        stage=stop.stage,
        stuck_kind="" if is_ready else text_at(stop.obj, "kind"),
        stuck_name="" if is_ready else name_of(stop.obj),
        why="" if is_ready else stop.why,
        events=() if is_ready else _events_of(objects.events, stop.obj),
        seconds=_elapsed(ready, since),
        waited=max(0.0, at - since),
        budget=budget,
        steps=tuple(_steps(objects, machine, since)),
    )


def _steps(objects: JoinObjects, machine: Obj, since: float) -> Iterator[JoinStep]:
    """What was done of the way, each with the moment that its object gives.

    Those older than the request, of a pool that stood already, have no time on this way.
    """
    yield JoinStep("pool asked for", "", "", since)
    for what, obj, at in _milestones(objects, machine):
        if obj:
            timed = at if at is not None and at >= since - _ROUNDING else None
            on_way = max(timed, since) if timed is not None else None
            yield JoinStep(what, text_at(obj, "kind"), name_of(obj), on_way)


def _milestones(objects: JoinObjects, machine: Obj) -> Iterator[tuple[str, Obj, float | None]]:
    """(step, the object that tells of it, its moment), in order; {} for no object.

    Sources: creationTimestamp, conditions' lastTransitionTime, and a VMI's
    status.phaseTransitionTimestamps (objects 1 and 5).
    """
    vm = chain.vm_of(
        chain.kubevirt_machine_of(machine, objects.kubevirt_machines), objects.virtual_machines
    )
    vmi = chain.vmi_of(vm, objects.vmis)
    yield "Machine made", machine, _made(machine)
    yield "bootstrap data there", *_became(machine, "BootstrapReady")
    yield "VM made", vm, _made(vm)
    for volume in chain.disks_of(vm, objects.data_volumes):
        yield "disk filled", *_became(volume, "Ready")
    yield "launcher pod placed", *_became(chain.launcher_of(vmi, objects.pods), "PodScheduled")
    running = next(
        (
            text_at(one, "phaseTransitionTimestamp")
            for one in listed(vmi, "status", "phaseTransitionTimestamps")
            if text_at(one, "phase") == "Running"
        ),
        "",
    )
    yield "guest running", vmi if running else {}, epoch(running)
    node = chain.node_of(machine, vmi, objects.nodes)
    yield "Node registered", node, _made(node)
    first = _first_ready(objects.nodes, node) if node else None
    yield "Node Ready", node if first is not None else {}, first


def _made(obj: Obj) -> float | None:
    return epoch(text_at(obj, "metadata", "creationTimestamp"))


def _became(obj: Obj, kind: str) -> tuple[Obj, float | None]:
    """The object and since when the condition is True; no object where it is not."""
    found = condition(obj, kind)
    is_true = text_at(found, "status") == "True"
    return (obj, epoch(text_at(found, "lastTransitionTime"))) if is_true else ({}, None)


def _stop(objects: JoinObjects, machine: Obj) -> _Stop:
    owner = chain.kubevirt_machine_of(machine, objects.kubevirt_machines)
    vm = chain.vm_of(owner, objects.virtual_machines)
    vmi = chain.vmi_of(vm, objects.vmis)
    node = chain.node_of(machine, vmi, objects.nodes)
    if node:
        ready = text_at(condition(node, "Ready"), "status") == "True"
        return _Stop(Stage.READY if ready else Stage.REGISTERED, node, _said(node, "Ready"))
    if text_at(vmi, "status", "phase") == "Running":
        why = f"the guest runs, no Node registered; {_said(machine, 'NodeHealthy')}"
        return _Stop(Stage.RUNNING, vmi, why)
    if vm:
        return _guest_not_running(objects, vm, vmi)
    if _bootstrapped(machine):
        waiting = owner or machine
        kind = "VMProvisioned" if owner else "InfrastructureReady"
        return _Stop(Stage.BOOTSTRAPPED, waiting, _said(waiting, kind))
    return _Stop(Stage.MACHINE, machine, _said(machine, "BootstrapReady"))


def _guest_not_running(objects: JoinObjects, vm: Obj, vmi: Obj) -> _Stop:
    """What keeps the guest down: a refusal, a disk, a pod, or the VM itself, in that order."""
    refused = condition(vmi, "Synchronized")
    if text_at(refused, "status") == "False":
        return _Stop(Stage.CREATED, vmi, _said(vmi, "Synchronized"))
    for volume in chain.disks_of(vm, objects.data_volumes):
        if text_at(volume, "status", "phase") != "Succeeded":
            why = f"phase {text_at(volume, 'status', 'phase')}; {_said(volume, 'Running')}"
            return _Stop(Stage.CREATED, volume, why)
    pod = chain.launcher_of(vmi, objects.pods)
    if pod and text_at(pod, "status", "phase") != "Running":
        why = f"phase {text_at(pod, 'status', 'phase')}; {_said(pod, 'PodScheduled')}"
        return _Stop(Stage.CREATED, pod, why)
    if vmi:
        why = f"phase {text_at(vmi, 'status', 'phase')}; {_said(vmi, 'Ready')}"
        return _Stop(Stage.CREATED, vmi, why)
    why = f"{text_at(vm, 'status', 'printableStatus')}; {_said(vm, 'Failure')}"
    return _Stop(Stage.CREATED, vm, why)


def _before_machines(objects: JoinObjects) -> _Stop:
    """Why there is no Machine: asked of the nearest object above it that exists."""
    for machine_set in objects.machine_sets:
        if text_at(condition(machine_set, "MachinesCreated"), "status") == "False":
            return _Stop(Stage.REQUESTED, machine_set, _said(machine_set, "MachinesCreated"))
    for deployment in objects.machine_deployments:
        why = f"no Machine; {_said(deployment, 'MachineSetReady')}"
        return _Stop(Stage.REQUESTED, deployment, why)
    for release in objects.helm_releases:
        why = f"no MachineDeployment; {_said(release, 'Ready')}"
        return _Stop(Stage.REQUESTED, release, why)
    return _Stop(Stage.REQUESTED, {}, "the pool has no HelmRelease")


def _said(obj: Obj, kind: str) -> str:
    """A condition in words: type, status, reason and message."""
    found = condition(obj, kind)
    if not found:
        return f"no condition {kind}"
    why = ": ".join(part for part in (text_at(found, "reason"), text_at(found, "message")) if part)
    return f"{kind}={text_at(found, 'status')} {why}".rstrip()


def _bootstrapped(machine: Obj) -> bool:
    return bool(text_at(machine, "spec", "bootstrap", "dataSecretName"))


def _first_ready(nodes: Iterable[Obj], node: Obj) -> float | None:
    """When this very node was first seen to be Ready, by the cluster's time."""
    moments = [
        epoch(text_at(condition(one, "Ready"), "lastTransitionTime"))
        for one in (*nodes, node)
        if uid_of(one) == uid_of(node) and text_at(condition(one, "Ready"), "status") == "True"
    ]
    return min((moment for moment in moments if moment is not None), default=None)


def _elapsed(ready: float | None, since: float) -> float | None:
    """Seconds from the request to Ready; None for a Ready that is older than the request.

    Such a one is no answer to it: two clocks disagree, or the node was there before.
    """
    if ready is None or ready < since - _ROUNDING:
        return None
    return max(0.0, ready - since)


def _events_of(events: Iterable[Obj], obj: Obj) -> tuple[str, ...]:
    def when(event: Obj) -> str:
        return text_at(event, "lastTimestamp") or text_at(event, "eventTime")

    about = [
        one
        for one in events
        if (uid_of(obj) and text_at(one, "involvedObject", "uid") == uid_of(obj))
        or (
            not text_at(one, "involvedObject", "uid")
            and text_at(one, "involvedObject", "kind") == text_at(obj, "kind")
            and text_at(one, "involvedObject", "name") == name_of(obj)
        )
    ]
    told = [f"{text_at(e, 'reason')}: {text_at(e, 'message')}" for e in sorted(about, key=when)]
    return tuple(told[-EVENTS_KEPT:])
