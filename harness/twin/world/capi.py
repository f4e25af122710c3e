"""Cluster API: MachineDeployments to MachineSets to Machines (objects.md section 5)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from harness.twin.apiserver.store import Admission
from harness.twin.world import conditions
from harness.twin.world.objects import (
    CAPI,
    Obj,
    annotations_of,
    controller_of,
    deep,
    digest,
    labels_of,
    meta,
    owner,
    terminating,
)
from harness.twin.world.pool_chart import MAX_SIZE, MIN_SIZE
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "capi-controller-manager"
HASH = "machine-template-hash"
DEPLOYMENT_FINALIZER = "cluster.x-k8s.io/machinedeployment"


def default_replicas(question: Admission) -> Obj:
    """The webhook that fills ``spec.replicas``: the old count within the autoscaler's bounds.

    A new MachineDeployment gets the min-size annotation's value, 1 where there is none.
    """
    obj = question.obj
    if question.resource.kind != "MachineDeployment" or question.subresource:
        return obj
    if question.verb == "DELETE" or deep(obj, "spec", "replicas") is not None:
        return obj
    notes = annotations_of(obj)
    least = int(notes.get(MIN_SIZE, "1"))
    most = int(notes.get(MAX_SIZE, str(max(least, 1))))
    before = deep(question.old or {}, "spec", "replicas")
    replicas = least if before is None else min(max(before, least), max(most, least))
    return {**obj, "spec": {**obj["spec"], "replicas": replicas}}


def is_ready(machine: Obj) -> bool:
    """Whether a Machine counts as ready: it has a healthy Node."""
    return bool(deep(machine, "status", "nodeRef")) and conditions.holds(machine, "NodeHealthy")


class Deployments:
    """The MachineDeployment controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine,
            "machinedeployment",
            self.reconcile,
            lambda: world.timings.draw("capi.step"),
        )
        world.revisit_when_resumed(CAPI, "MachineDeployment", self._queue)
        self._cluster.on(CAPI, "MachineDeployment", self._hear)
        self._cluster.on(CAPI, "MachineSet", self._hear_set)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_set(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference:
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    def sets_of(self, deployment: Obj) -> list[Obj]:
        """Its MachineSets, the oldest first."""
        uid = deployment["metadata"]["uid"]
        namespace = deployment["metadata"]["namespace"]
        mine = [
            s
            for s in self._cluster.all(CAPI, "MachineSet", namespace)
            if controller_of(s).get("uid") == uid
        ]
        return sorted(mine, key=age)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a MachineDeployment."""
        deployment = self._cluster.find(CAPI, "MachineDeployment", namespace, name)
        if deployment is None or self._world.is_paused(deployment):
            return
        sets = self.sets_of(deployment)
        if terminating(deployment):
            self._take_down(deployment, sets)
            return
        if DEPLOYMENT_FINALIZER not in (deployment["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(deployment, DEPLOYMENT_FINALIZER, manager=MANAGER)
            return
        current = next((s for s in sets if _same_template(s, deployment)), None)
        if current is None:
            self._create_set(deployment)
            return
        old = [s for s in sets if s is not current]
        if not deep(deployment, "spec", "paused"):
            self._scale(deployment, current, old)
            self._forget(deployment, old)
        self._report(deployment, current, sets)

    def _take_down(self, deployment: Obj, sets: list[Obj]) -> None:
        for one in sets:
            self._cluster.delete(one, manager=MANAGER)
        if not self.sets_of(deployment):
            self._cluster.drop_finalizer(deployment, DEPLOYMENT_FINALIZER, manager=MANAGER)

    def _create_set(self, deployment: Obj) -> None:
        metadata, spec = deployment["metadata"], deployment["spec"]
        template = copy.deepcopy(spec["template"])
        labels = {**(deep(template, "metadata", "labels") or {}), HASH: _template_hash(deployment)}
        template.setdefault("metadata", {})["labels"] = labels
        made = {
            "apiVersion": CAPI,
            "kind": "MachineSet",
            "metadata": meta(
                f"{metadata['name']}-{self._world.identities.suffix()}",
                metadata["namespace"],
                labels={**labels_of(deployment), **labels},
                ownerReferences=[owner(deployment)],
            ),
            "spec": {
                "clusterName": spec["clusterName"],
                "replicas": 0,
                "deletePolicy": "Random",
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
        stored = self._cluster.create(made, manager=MANAGER)
        text = f"Created MachineSet {stored['metadata']['name']}"
        self._cluster.events.normal(deployment, "SuccessfulCreate", text, "machinedeployment")

    def _scale(self, deployment: Obj, current: Obj, old: list[Obj]) -> None:
        """One step of a rolling update (maxSurge, maxUnavailable as numbers)."""
        desired = deployment["spec"]["replicas"]
        rolling = deep(deployment, "spec", "strategy", "rollingUpdate") or {}
        surge, unavailable = int(rolling.get("maxSurge", 1)), int(rolling.get("maxUnavailable", 0))
        total = sum(wanted_replicas(s) for s in [current, *old])
        have = wanted_replicas(current)
        if have > desired:
            self._resize(deployment, current, desired)
        elif have < desired:
            room = max(desired + surge - total, 0) if old else desired
            self._resize(deployment, current, min(desired, have + room))
        least = max(desired - unavailable, 0)
        self._shrink(deployment, current, old, least)

    def _shrink(self, deployment: Obj, current: Obj, old: list[Obj], least: int) -> None:
        available = _available(current)
        room = sum(wanted_replicas(s) for s in [current, *old]) - least
        room -= wanted_replicas(current) - available
        for one in old:
            unhealthy = max(wanted_replicas(one) - _available(one), 0)
            step = max(min(unhealthy, room), 0)
            if step:
                self._resize(deployment, one, wanted_replicas(one) - step)
                room -= step
        spare = sum(_available(s) for s in [current, *old]) - least
        for one in old:
            held = self._cluster.current(one)
            step = max(min(wanted_replicas(held), spare, room), 0) if held else 0
            if held and step:
                self._resize(deployment, held, wanted_replicas(held) - step)
                spare, room = spare - step, room - step

    def _resize(self, deployment: Obj, one: Obj, replicas: int) -> None:
        if wanted_replicas(one) == replicas:
            return
        up = replicas > wanted_replicas(one)
        self._cluster.edit(
            one, lambda stored: stored["spec"].update(replicas=replicas), manager=MANAGER
        )
        text = f"Scaled {'up' if up else 'down'} MachineSet {one['metadata']['name']} to {replicas}"
        self._cluster.events.normal(deployment, "SuccessfulScale", text, "machinedeployment")

    def _forget(self, deployment: Obj, old: list[Obj]) -> None:
        keep = deep(deployment, "spec", "revisionHistoryLimit")
        empty = [s for s in old if not wanted_replicas(s) and not deep(s, "status", "replicas")]
        for one in empty[: max(len(empty) - (1 if keep is None else keep), 0)]:
            self._cluster.delete(one, manager=MANAGER)

    def _report(self, deployment: Obj, current: Obj, sets: list[Obj]) -> None:
        desired = deployment["spec"]["replicas"]
        replicas = sum(_count(s, "replicas") for s in sets)
        ready = sum(_count(s, "readyReplicas") for s in sets)
        available = sum(_available(s) for s in sets)
        phase = "Running"
        if replicas > desired:
            phase = "ScalingDown"
        elif ready < desired:
            phase = "ScalingUp"
        unavailable = int(
            deep(deployment, "spec", "strategy", "rollingUpdate", "maxUnavailable") or 0
        )
        least = max(desired - unavailable, 0)
        counts = {"availableReplicas": available, "readyReplicas": ready}
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status |= {
                **counts,
                "replicas": replicas,
                "updatedReplicas": _count(current, "replicas"),
                "unavailableReplicas": max(desired - available, 0),
                "observedGeneration": stored["metadata"]["generation"],
                "phase": phase,
                "selector": selector_text(stored),
                "v1beta2": {**counts, "upToDateReplicas": _count(current, "replicas")},
            }
            conditions.write(stored, now, *_states(available, least, ready, desired))

        self._cluster.status(deployment, change, manager=MANAGER)


def _states(available: int, least: int, ready: int, desired: int) -> list[conditions.Condition]:
    if available >= least:
        enough = conditions.true("Available")
    else:
        text = f"Minimum availability requires {least} replicas, current {available} available"
        enough = conditions.false("Available", "WaitingForAvailableMachines", text, "Warning")
    if ready >= desired:
        return [enough, conditions.true("MachineSetReady"), _as("Ready", enough)]
    text = f"{ready} of {desired} completed"
    waiting = conditions.false("MachineSetReady", "ScalingUp", text, "Info")
    return [enough, waiting, _as("Ready", enough)]


def _as(kind: str, condition: conditions.Condition) -> conditions.Condition:
    return conditions.Condition(
        kind, condition.status, condition.reason, condition.message, condition.severity
    )


def _same_template(one: Obj, deployment: Obj) -> bool:
    return _template_facts(one) == _template_facts(deployment)


def _template_facts(obj: Obj) -> list[Any]:
    spec = deep(obj, "spec", "template", "spec") or {}
    return [
        deep(spec, "bootstrap", "configRef", "name"),
        deep(spec, "infrastructureRef", "name"),
        spec.get("version"),
        spec.get("clusterName"),
    ]


def _template_hash(deployment: Obj) -> str:
    return digest(_template_facts(deployment))[:10]


def age(obj: Obj) -> tuple[str, int, str]:
    """A sort key: the oldest first."""
    metadata = obj["metadata"]
    return metadata["creationTimestamp"], len(metadata["name"]), metadata["name"]


def wanted_replicas(one: Obj) -> int:
    """``spec.replicas``, 0 where it is not set."""
    return int(deep(one, "spec", "replicas") or 0)


def _count(one: Obj, field: str) -> int:
    return int(deep(one, "status", field) or 0)


def _available(one: Obj) -> int:
    return _count(one, "availableReplicas")


def selector_text(obj: Obj) -> str:
    """``status.selector``: the labels of ``spec.selector`` as a selector string."""
    labels = deep(obj, "spec", "selector", "matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))
