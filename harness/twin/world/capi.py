"""Cluster API: MachineDeployments to MachineSets to Machines (objects.md section 5)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from harness.twin.apiserver.store import Admission
from harness.twin.world import conditions
from harness.twin.world.objects import (
    CAPI,
    INFRA,
    Obj,
    annotations_of,
    controller_of,
    deep,
    digest,
    labels_of,
    meta,
    owner,
    selected,
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
SET_FINALIZER = "cluster.x-k8s.io/machineset"
_FIRST_RETRY, _LAST_RETRY = 0.64, 82.0


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
        return sorted(mine, key=_age)

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
        total = sum(_replicas(s) for s in [current, *old])
        have = _replicas(current)
        if have > desired:
            self._resize(deployment, current, desired)
        elif have < desired:
            room = max(desired + surge - total, 0) if old else desired
            self._resize(deployment, current, min(desired, have + room))
        least = max(desired - unavailable, 0)
        self._shrink(deployment, current, old, least)

    def _shrink(self, deployment: Obj, current: Obj, old: list[Obj], least: int) -> None:
        available = _available(current)
        room = sum(_replicas(s) for s in [current, *old]) - least
        room -= _replicas(current) - available
        for one in old:
            unhealthy = max(_replicas(one) - _available(one), 0)
            step = max(min(unhealthy, room), 0)
            if step:
                self._resize(deployment, one, _replicas(one) - step)
                room -= step
        spare = sum(_available(s) for s in [current, *old]) - least
        for one in old:
            held = self._cluster.current(one)
            step = max(min(_replicas(held), spare, room), 0) if held else 0
            if held and step:
                self._resize(deployment, held, _replicas(held) - step)
                spare, room = spare - step, room - step

    def _resize(self, deployment: Obj, one: Obj, replicas: int) -> None:
        if _replicas(one) == replicas:
            return
        up = replicas > _replicas(one)
        self._cluster.edit(
            one, lambda stored: stored["spec"].update(replicas=replicas), manager=MANAGER
        )
        text = f"Scaled {'up' if up else 'down'} MachineSet {one['metadata']['name']} to {replicas}"
        self._cluster.events.normal(deployment, "SuccessfulScale", text, "machinedeployment")

    def _forget(self, deployment: Obj, old: list[Obj]) -> None:
        keep = deep(deployment, "spec", "revisionHistoryLimit")
        empty = [s for s in old if not _replicas(s) and not deep(s, "status", "replicas")]
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
                "selector": _selector(stored),
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


class Sets:
    """The MachineSet controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._retries: dict[str, float] = {}
        self._queue = Queue(
            world.engine, "machineset", self.reconcile, lambda: world.timings.draw("capi.step")
        )
        world.revisit_when_resumed(CAPI, "MachineSet", self._queue)
        self._cluster.on(CAPI, "MachineSet", self._hear)
        self._cluster.on(CAPI, "Machine", self._hear_machine)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)
        else:
            self._retries.pop(change.obj["metadata"]["uid"], None)

    def _hear_machine(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference:
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    def machines_of(self, one: Obj) -> list[Obj]:
        """Its Machines, the oldest first."""
        uid = one["metadata"]["uid"]
        mine = [
            machine
            for machine in self._cluster.all(CAPI, "Machine", one["metadata"]["namespace"])
            if controller_of(machine).get("uid") == uid
        ]
        return sorted(mine, key=_age)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a MachineSet."""
        one = self._cluster.find(CAPI, "MachineSet", namespace, name)
        if one is None or self._world.is_paused(one):
            return
        machines = self.machines_of(one)
        if terminating(one):
            for machine in machines:
                self._cluster.delete(machine, manager=MANAGER)
            if not self.machines_of(one):
                self._cluster.drop_finalizer(one, SET_FINALIZER, manager=MANAGER)
            return
        if SET_FINALIZER not in (one["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(one, SET_FINALIZER, manager=MANAGER)
            return
        self._remediate(machines)
        active = [machine for machine in machines if not terminating(machine)]
        missing = _replicas(one) - len(active)
        trouble = self._add(one, missing) if missing > 0 else None
        for machine in _least_wanted(active)[: max(-missing, 0)]:
            self._cluster.delete(machine, manager=MANAGER)
        self._report(one, trouble)

    def _remediate(self, machines: list[Obj]) -> None:
        for machine in machines:
            if conditions.find(machine, "OwnerRemediated").get("status") == "False":
                self._cluster.delete(machine, manager=MANAGER)

    def _add(self, one: Obj, count: int) -> conditions.Condition | None:
        """Create Machines; or say what could not be cloned."""
        spec = deep(one, "spec", "template", "spec")
        for reference, word in (
            (spec["bootstrap"]["configRef"], "Bootstrap"),
            (spec["infrastructureRef"], "Infrastructure"),
        ):
            found = self._cluster.find(
                reference["apiVersion"],
                reference["kind"],
                reference["namespace"],
                reference["name"],
            )
            if found is None:
                return self._cannot_clone(one, reference, word)
        self._retries.pop(one["metadata"]["uid"], None)
        for _ in range(count):
            self._create_machine(one)
        return None

    def _cannot_clone(self, one: Obj, reference: Obj, word: str) -> conditions.Condition:
        uid = one["metadata"]["uid"]
        # controller-runtime's rate limiter doubles the delay; it watches no templates
        delay = self._retries.get(uid, _FIRST_RETRY)
        self._retries[uid] = min(delay * 2, _LAST_RETRY)
        self._queue.add(one["metadata"]["namespace"], one["metadata"]["name"], delay)
        group = reference["apiVersion"].partition("/")[0]
        text = (
            f"failed to clone {word.lower()} configuration: {reference['kind'].lower()}s.{group} "
            f'"{reference["name"]}" not found'
        )
        return conditions.false("MachinesCreated", f"{word}TemplateCloningFailed", text, "Error")

    def _create_machine(self, one: Obj) -> None:
        metadata = one["metadata"]
        template = deep(one, "spec", "template")
        name = f"{metadata['name']}-{self._world.identities.suffix()}"
        labels = {
            **(deep(template, "metadata", "labels") or {}),
            "cluster.x-k8s.io/set-name": metadata["name"],
        }
        bootstrap = template["spec"]["bootstrap"]["configRef"]
        config = self._clone(one, bootstrap, "TalosConfig", name, labels)
        machine_ref = self._clone(
            one, template["spec"]["infrastructureRef"], "KubevirtMachine", name, labels
        )
        machine = {
            "apiVersion": CAPI,
            "kind": "Machine",
            "metadata": meta(
                name, metadata["namespace"], labels=labels, ownerReferences=[owner(one)]
            ),
            "spec": {
                **copy.deepcopy(template["spec"]),
                "bootstrap": {"configRef": config},
                "infrastructureRef": machine_ref,
            },
        }
        self._cluster.create(machine, manager=MANAGER)
        self._cluster.events.normal(
            one, "SuccessfulCreate", f"Created machine {name}", "machineset-controller"
        )

    def _clone(self, one: Obj, reference: Obj, kind: str, name: str, labels: dict[str, str]) -> Obj:
        template = self._cluster.find(
            reference["apiVersion"], reference["kind"], reference["namespace"], reference["name"]
        )
        assert template is not None  # looked up just before
        notes = {
            "cluster.x-k8s.io/cloned-from-name": reference["name"],
            "cluster.x-k8s.io/cloned-from-groupkind": (
                f"{reference['kind']}.{reference['apiVersion'].partition('/')[0]}"
            ),
        }
        made = self._cluster.create(
            {
                "apiVersion": reference["apiVersion"],
                "kind": kind,
                "metadata": meta(
                    name,
                    one["metadata"]["namespace"],
                    labels=labels,
                    annotations=notes,
                    # the Machine takes over as the controlling owner
                    ownerReferences=[owner(one, controller=False)],
                ),
                "spec": copy.deepcopy(deep(template, "spec", "template", "spec")),
            },
            manager=MANAGER,
        )
        return {
            "apiVersion": made["apiVersion"],
            "kind": kind,
            "name": name,
            "namespace": one["metadata"]["namespace"],
            "uid": made["metadata"]["uid"],
        }

    def _report(self, one: Obj, trouble: conditions.Condition | None) -> None:
        machines = self.machines_of(one)
        ready = sum(1 for machine in machines if is_ready(machine))
        labels = deep(one, "spec", "selector", "matchLabels") or {}
        labelled = sum(1 for machine in machines if selected(machine, labels))
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            stored["status"] = {
                **(stored.get("status") or {}),
                "replicas": len(machines),
                "fullyLabeledReplicas": labelled,
                "readyReplicas": ready,
                "availableReplicas": ready,
                "observedGeneration": stored["metadata"]["generation"],
                "selector": _selector(stored),
            }
            created = trouble or conditions.true("MachinesCreated")
            done = len(machines) == _replicas(stored)
            resized = (
                conditions.true("Resized")
                if done
                else conditions.false("Resized", "ScalingUp", "", "Info")
            )
            conditions.write(stored, now, created, resized)

        self._cluster.status(one, change, manager=MANAGER)


def _least_wanted(machines: list[Obj]) -> list[Obj]:
    """Whom a scale-down takes first: those without a Node, then the newest."""
    newest_first = machines[::-1]
    return sorted(newest_first, key=is_ready)


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


def _age(obj: Obj) -> tuple[str, int, str]:
    metadata = obj["metadata"]
    return metadata["creationTimestamp"], len(metadata["name"]), metadata["name"]


def _replicas(one: Obj) -> int:
    return int(deep(one, "spec", "replicas") or 0)


def _count(one: Obj, field: str) -> int:
    return int(deep(one, "status", field) or 0)


def _available(one: Obj) -> int:
    return _count(one, "availableReplicas")


def _selector(obj: Obj) -> str:
    labels = deep(obj, "spec", "selector", "matchLabels") or {}
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def machines_named_after(world: World, machine: Obj) -> tuple[Obj | None, Obj | None]:
    """A Machine's TalosConfig and KubevirtMachine, as they are now."""
    cluster, namespace = world.cluster, machine["metadata"]["namespace"]
    config = deep(machine, "spec", "bootstrap", "configRef") or {}
    infrastructure = deep(machine, "spec", "infrastructureRef") or {}
    return (
        cluster.find(config["apiVersion"], config["kind"], namespace, config["name"])
        if config
        else None,
        cluster.find(INFRA, "KubevirtMachine", namespace, infrastructure.get("name", "")),
    )
