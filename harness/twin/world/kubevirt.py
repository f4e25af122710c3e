"""KubeVirt's VirtualMachine: its disks first, then its instance (objects.md section 6)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions
from harness.twin.world.objects import (
    CDI,
    INSTANCETYPE,
    KUBEVIRT,
    Obj,
    controller_of,
    deep,
    meta,
    owner,
    terminating,
)
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "virt-controller"
FINALIZER = "kubevirt.io/virtualMachineControllerFinalize"


class VirtualMachines:
    """The VirtualMachine controller."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine, "vm", self.reconcile, lambda: world.timings.draw("virt.step")
        )
        self._cluster.on(KUBEVIRT, "VirtualMachine", self._hear)
        self._cluster.on(KUBEVIRT, "VirtualMachineInstance", self._hear_owned)
        self._cluster.on(CDI, "DataVolume", self._hear_owned)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_owned(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "VirtualMachine":
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a VirtualMachine."""
        machine = self._cluster.find(KUBEVIRT, "VirtualMachine", namespace, name)
        if machine is None:
            return
        instance = self._cluster.find(KUBEVIRT, "VirtualMachineInstance", namespace, name)
        if terminating(machine):
            self._take_down(machine, instance)
            return
        if FINALIZER not in (machine["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(machine, FINALIZER, manager=MANAGER)
            return
        templates = deep(machine, "spec", "dataVolumeTemplates") or ()
        volumes = [self._volume(machine, template) for template in templates]
        if instance is not None and deep(instance, "status", "phase") in ("Failed", "Succeeded"):
            # runStrategy Always: an instance that ended is replaced
            self._cluster.delete(instance, manager=MANAGER)
        elif instance is None and all(_is_usable(volume) for volume in volumes):
            instance = self._start(machine)
        self._report(machine, instance, volumes)

    def _take_down(self, machine: Obj, instance: Obj | None) -> None:
        if instance is not None:
            self._cluster.delete(instance, manager=MANAGER)
            self._report(machine, instance, [])
            return
        self._cluster.drop_finalizer(machine, FINALIZER, manager=MANAGER)

    def _volume(self, machine: Obj, template: Obj) -> Obj | None:
        namespace, name = machine["metadata"]["namespace"], template["metadata"]["name"]
        found = self._cluster.find(CDI, "DataVolume", namespace, name)
        if found is not None:
            return found
        volume = {
            "apiVersion": CDI,
            "kind": "DataVolume",
            "metadata": meta(
                name,
                namespace,
                labels={"kubevirt.io/created-by": machine["metadata"]["uid"]},
                annotations=dict(template["metadata"].get("annotations") or {}),
                ownerReferences=[owner(machine)],
            ),
            "spec": copy.deepcopy(template["spec"]),
        }
        try:
            return self._cluster.create(volume, manager=MANAGER)
        except ApiError as refused:
            text = f"Failed to create DataVolume {name}: {refused.message}"
            self._cluster.events.warning(machine, "FailedDataVolumeCreate", text, MANAGER)
            self._queue.add(namespace, machine["metadata"]["name"], 10.0)
            return None

    def _start(self, machine: Obj) -> Obj | None:
        namespace, name = machine["metadata"]["namespace"], machine["metadata"]["name"]
        template = deep(machine, "spec", "template")
        spec = copy.deepcopy(template["spec"])
        if not self._size(machine, spec):
            return None
        instance = {
            "apiVersion": KUBEVIRT,
            "kind": "VirtualMachineInstance",
            "metadata": meta(
                name,
                namespace,
                labels=dict(deep(template, "metadata", "labels") or {}),
                annotations=dict(deep(template, "metadata", "annotations") or {}),
                ownerReferences=[owner(machine)],
            ),
            "spec": spec,
        }
        made = self._cluster.create(instance, manager=MANAGER)
        text = f"Started the virtual machine by creating the new virtual machine instance {name}"
        self._cluster.events.normal(machine, "SuccessfulCreate", text, "virtualmachine-controller")
        return made

    def _size(self, machine: Obj, spec: Obj) -> bool:
        """Lay the instance type into the domain; False (and a Failure) where there is none."""
        name = deep(machine, "spec", "instancetype", "name")
        if not name:
            return True
        kind = self._cluster.find(INSTANCETYPE, "VirtualMachineClusterInstancetype", "", name)
        if kind is None:
            text = (
                "Failure: virtualmachineclusterinstancetypes.instancetype.kubevirt.io "
                f'"{name}" not found'
            )
            failed = conditions.true("Failure", "FailedCreate", text)
            self._cluster.conditions(machine, failed, manager=MANAGER)
            self._cluster.events.warning(
                machine, "FailedFindInstancetype", text, "virtualmachine-controller"
            )
            self._queue.add(machine["metadata"]["namespace"], machine["metadata"]["name"], 10.0)
            return False
        count = deep(kind, "spec", "cpu", "guest")
        spec["domain"]["cpu"] = {
            "cores": 1,
            "sockets": count,
            "threads": 1,
            "maxSockets": count * 4,
        }
        spec["domain"]["memory"] = {"guest": deep(kind, "spec", "memory", "guest")}
        return True

    def _report(self, machine: Obj, instance: Obj | None, volumes: list[Obj | None]) -> None:
        shown = _printable(machine, instance, volumes)
        ready = conditions.find(instance or {}, "Ready")
        running = ready.get("status") == "True" and shown == "Running"
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status |= {
                "printableStatus": shown,
                "created": instance is not None,
                "ready": running,
                "runStrategy": "Always",
                "observedGeneration": stored["metadata"]["generation"],
                "desiredGeneration": stored["metadata"]["generation"],
            }
            found = (
                conditions.true("Ready")
                if running
                else conditions.false("Ready", *_why_not(instance, ready))
            )
            conditions.write(stored, now, found)
            if instance is not None:
                conditions.drop(stored, "Failure")
            for kind in ("LiveMigratable", "StorageLiveMigratable", "AgentConnected"):
                held = conditions.find(instance or {}, kind)
                if held:
                    told = (held["status"], held.get("reason", ""), held.get("message", ""))
                    conditions.write(stored, now, conditions.Condition(kind, *told))

        self._cluster.status(machine, change, manager=MANAGER)


def _is_usable(volume: Obj | None) -> bool:
    """Whether an instance may be started on a disk: filled, or waiting for its consumer."""
    phase = deep(volume or {}, "status", "phase")
    return phase in ("Succeeded", "WaitForFirstConsumer", "PendingPopulation")


def _why_not(instance: Obj | None, ready: Obj) -> tuple[str, str]:
    if instance is None:
        return "VMINotExists", "VMI does not exist"
    default = "Guest VM is not reported as running"
    return ready.get("reason") or "GuestNotRunning", ready.get("message") or default


def _printable(machine: Obj, instance: Obj | None, volumes: list[Obj | None]) -> str:
    if terminating(machine):
        return "Terminating"
    if instance is None:
        return "Provisioning" if not all(_is_usable(v) for v in volumes) else "Starting"
    if terminating(instance):
        return "Stopping"
    if conditions.find(instance, "PodScheduled").get("status") == "False":
        return "ErrorUnschedulable"
    waiting = [v for v in volumes if deep(v or {}, "status", "phase") == "WaitForFirstConsumer"]
    if waiting:
        return "WaitingForVolumeBinding"
    return "Running" if deep(instance, "status", "phase") == "Running" else "Starting"
