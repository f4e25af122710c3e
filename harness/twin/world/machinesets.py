"""Cluster API's MachineSet controller: clones templates into Machines (objects.md section 5)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.capi import MANAGER, age, is_ready, selector_text, wanted_replicas
from harness.twin.world.objects import (
    CAPI,
    Obj,
    controller_of,
    deep,
    meta,
    owner,
    selected,
    terminating,
)
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

SET_FINALIZER = "cluster.x-k8s.io/machineset"
_FIRST_RETRY, _LAST_RETRY = 0.64, 82.0


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
        return sorted(mine, key=age)

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
        missing = wanted_replicas(one) - len(active)
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
                "selector": selector_text(stored),
            }
            created = trouble or conditions.true("MachinesCreated")
            done = len(machines) == wanted_replicas(stored)
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
