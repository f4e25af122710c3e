"""KubeVirt's VirtualMachineInstance: from Pending to Running, with a guest inside.

Phases, conditions, reasons and Event words: objects.md section 6.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions, launcher
from harness.twin.world.conditions import Condition
from harness.twin.world.objects import (
    CDI,
    KUBEVIRT,
    Obj,
    controller_of,
    deep,
    labels_of,
    rfc3339,
    terminating,
)
from harness.twin.world.reconcile import Activities, Queue
from harness.twin.world.storage_classes import SELECTED_NODE

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

CONTROLLER = "virt-controller"
HANDLER = "virt-handler"
FINALIZER = "foregroundDeleteVirtualMachine"


class Instances:
    """virt-controller's and virt-handler's part of a VMI."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._queue = Queue(
            world.engine, "vmi", self.reconcile, lambda: world.timings.draw("virt.step")
        )
        self._cluster.on(KUBEVIRT, "VirtualMachineInstance", self._hear)
        self._cluster.on("v1", "Pod", self._hear_pod)
        self._cluster.on(KUBEVIRT, "KubeVirt", lambda _: self._look_at_pending())
        self._cluster.on(CDI, "DataVolume", self._hear_disk)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_pod(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "VirtualMachineInstance":
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    def _hear_disk(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "VirtualMachine":
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    def _look_at_pending(self) -> None:
        for instance in self._cluster.all(KUBEVIRT, "VirtualMachineInstance"):
            if deep(instance, "status", "phase") in (None, "", "Pending"):
                self._queue.hear_of(instance)

    def launcher_of(self, instance: Obj) -> Obj | None:
        """The instance's virt-launcher pod, or None."""
        uid = instance["metadata"]["uid"]
        for pod in self._cluster.all("v1", "Pod", instance["metadata"]["namespace"]):
            if labels_of(pod).get("kubevirt.io/created-by") == uid:
                return pod
        return None

    # -- reconcile

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a VMI."""
        instance = self._cluster.find(KUBEVIRT, "VirtualMachineInstance", namespace, name)
        if instance is None:
            return
        pod = self.launcher_of(instance)
        if terminating(instance):
            self._stop(instance, pod)
            return
        if FINALIZER not in (instance["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(instance, FINALIZER, manager=CONTROLLER)
            return
        phase = deep(instance, "status", "phase") or ""
        if phase in ("Succeeded", "Failed"):
            return
        if pod is None:
            self._without_pod(instance, phase)
        else:
            self._with_pod(instance, pod, phase)

    def _without_pod(self, instance: Obj, phase: str) -> None:
        if phase in ("Scheduled", "Running"):
            self._lost(instance)
            return
        if phase == "":
            self._phase(instance, "Pending", _NOT_RUNNING, conditions.false("Ready", *_PENDING))
            return
        if not self._disks_ready(instance):
            waiting = conditions.false("DataVolumesReady", "NotAllDVsReady", _NOT_ALL)
            self._phase(instance, "Pending", waiting)
            self._consume(instance)
            return
        try:
            launcher.check_devices(instance, self._world.kubevirt)
        except launcher.NotPermitted as refused:
            self._refused(instance, str(refused))
            return
        self._launch(instance)

    def _disks_ready(self, instance: Obj) -> bool:
        namespace = instance["metadata"]["namespace"]
        names = [v["dataVolume"]["name"] for v in _volumes(instance) if "dataVolume" in v]
        found = [self._cluster.find(CDI, "DataVolume", namespace, name) for name in names]
        return all(deep(volume or {}, "status", "phase") == "Succeeded" for volume in found)

    def _consume(self, instance: Obj) -> None:
        """Be the first consumer that a disk of a late-binding class waits for."""
        namespace = instance["metadata"]["namespace"]
        node = self._world.hosts.place_for(launcher.pod(instance, "probe"))
        if not node:
            return
        for name in [v["dataVolume"]["name"] for v in _volumes(instance) if "dataVolume" in v]:
            volume = self._cluster.find(CDI, "DataVolume", namespace, name)
            claim = self._cluster.find("v1", "PersistentVolumeClaim", namespace, name)
            phase = deep(volume or {}, "status", "phase")
            if claim is None or phase not in ("WaitForFirstConsumer", "PendingPopulation"):
                continue
            self._cluster.edit(
                claim,
                lambda stored: stored["metadata"]["annotations"].update({SELECTED_NODE: node}),
                manager="kube-scheduler",
            )

    def _refused(self, instance: Obj, why: str) -> None:
        text = f"failed to render launch manifest: {why}"
        self._phase(instance, "Pending", conditions.false("Synchronized", "FailedCreate", text))
        self._cluster.events.warning(instance, "FailedCreate", text, CONTROLLER)
        metadata = instance["metadata"]
        delay = self._world.timings.draw("virt.refused")
        self._queue.add(metadata["namespace"], metadata["name"], delay)

    def _launch(self, instance: Obj) -> None:
        log = launcher.logs_console(instance, self._world.kubevirt)
        pod = launcher.pod(instance, self._world.identities.suffix(), log=log)
        made = self._cluster.create(pod, manager=CONTROLLER)
        text = f"Created virtual machine pod {made['metadata']['name']}"
        self._cluster.events.normal(instance, "SuccessfulCreate", text, CONTROLLER)
        self._phase(
            instance,
            "Scheduling",
            conditions.true("DataVolumesReady", "AllDVsReady", "All of the VMI's DVs are ready"),
            drop=("Synchronized",),
        )

    def _with_pod(self, instance: Obj, pod: Obj, phase: str) -> None:
        uid = instance["metadata"]["uid"]
        pod_phase = deep(pod, "status", "phase")
        if pod_phase in ("Failed", "Succeeded") or terminating(pod):
            self._lost(instance)
        elif pod_phase == "Pending":
            self._wait_for_pod(instance, pod)
        elif phase in ("Pending", "Scheduling"):
            self._phase(instance, "Scheduled", drop=("PodScheduled",), pod=pod)
            seconds = self._world.timings.draw("virt.handoff")
            self._work.start(f"start {uid}", seconds, lambda: self._start(instance, pod))

    def _wait_for_pod(self, instance: Obj, pod: Obj) -> None:
        refused = conditions.find(pod, "PodScheduled")
        if refused.get("status") == "False":
            self._phase(
                instance,
                "Scheduling",
                conditions.false("PodScheduled", refused["reason"], refused["message"]),
            )

    def _start(self, instance: Obj, pod: Obj) -> None:
        current, held = self._cluster.current(instance), self._cluster.current(pod)
        if current is None or held is None or terminating(current) or terminating(held):
            return
        self._world.guests.start(current, held)
        can_move = self._migratable(current)
        seen = [conditions.true("Ready"), can_move, conditions.true(_STORAGE)]
        self._phase(current, "Running", *seen, drop=("Synchronized",), pod=held)
        text = "VirtualMachineInstance started."
        self._cluster.events.normal(current, "Started", text, HANDLER)
        if self._world.guests.has_agent(current):
            seconds = self._world.timings.draw("agent.connect")
            key = f"agent {current['metadata']['uid']}"
            self._work.start(key, seconds, lambda: self._connect(current))

    def _migratable(self, instance: Obj) -> Condition:
        """A card binds a machine to its host, and so does a disk that only one host may have."""
        if launcher.gpus(instance):
            text = "VMI uses a PCI host devices"
            return conditions.false("LiveMigratable", "HostDeviceNotLiveMigratable", text)
        namespace = instance["metadata"]["namespace"]
        for name in [v["dataVolume"]["name"] for v in _volumes(instance) if "dataVolume" in v]:
            claim = self._cluster.find("v1", "PersistentVolumeClaim", namespace, name) or {}
            if "ReadWriteMany" not in (deep(claim, "status", "accessModes") or ()):
                text = (
                    f"cannot migrate VMI: PVC {name} is not shared, live migration requires that "
                    "all PVCs must be shared (using ReadWriteMany access mode)"
                )
                return conditions.false("LiveMigratable", "DisksNotLiveMigratable", text)
        return conditions.true("LiveMigratable")

    def _connect(self, instance: Obj) -> None:
        """The guest agent answers once the guest is up; look again until then."""
        current = self._cluster.current(instance)
        if current is None or terminating(current):
            return
        if self._world.guests.agent_answers(current):
            self._cluster.conditions(current, conditions.true("AgentConnected"), manager=HANDLER)
            return
        key = f"agent {current['metadata']['uid']}"
        self._work.start(key, 10.0, lambda: self._connect(current))

    def _lost(self, instance: Obj) -> None:
        """The launcher is gone under a running guest: the VMI has failed."""
        self._world.guests.stop(instance)
        gone = conditions.false("Ready", "PodNotExists", "virt-launcher pod has disappeared")
        self._phase(instance, "Failed", gone)

    def _stop(self, instance: Obj, pod: Obj | None) -> None:
        if pod is not None:
            if not terminating(pod):
                going = conditions.false(
                    "Ready", "PodTerminating", "virt-launcher pod is terminating"
                )
                self._cluster.conditions(instance, going, manager=CONTROLLER)
                self._cluster.delete(pod, manager=CONTROLLER)
            return
        self._world.guests.stop(instance)
        self._work.stop(f"agent {instance['metadata']['uid']}")
        self._cluster.drop_finalizer(instance, FINALIZER, manager=CONTROLLER)

    # -- status

    def _phase(
        self,
        instance: Obj,
        phase: str,
        *found: Condition,
        drop: tuple[str, ...] = (),
        pod: Obj | None = None,
    ) -> None:
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            if status.get("phase", "") != phase:
                times = status.setdefault("phaseTransitionTimestamps", [])
                times.append({"phase": phase, "phaseTransitionTimestamp": rfc3339(now)})
            status["phase"] = phase
            if pod is not None:
                self._place(status, stored, pod)
            conditions.write(stored, now, *found)
            for kind in drop:
                conditions.drop(stored, kind)

        self._cluster.status(instance, change, manager=CONTROLLER)

    @staticmethod
    def _place(status: Obj, instance: Obj, pod: Obj) -> None:
        node = pod["spec"]["nodeName"]
        status["nodeName"] = node
        status["activePods"] = {pod["metadata"]["uid"]: node}
        status["qosClass"] = deep(pod, "status", "qosClass") or "Burstable"
        ip = deep(pod, "status", "podIP")
        if ip:
            first, _, last = ip.rpartition(".")
            mac = "02:00:00:" + ":".join(
                f"{int(part):02x}" for part in (*first.split(".")[1:], last)
            )
            status["interfaces"] = [
                {
                    "name": "default",
                    "ipAddress": ip,
                    "ipAddresses": [ip],
                    "mac": mac,
                    "infoSource": "domain",
                    "queueCount": 1,
                    "podInterfaceName": "eth0",
                    "linkState": "up",
                }
            ]
        status["volumeStatus"] = [
            _volume_status(volume, index) for index, volume in enumerate(_volumes(instance))
        ]


_STORAGE = "StorageLiveMigratable"
_NOT_ALL = "Not all of the VMI's DVs are ready"
_PENDING = ("GuestNotRunning", "Guest VM is not reported as running")
_NOT_RUNNING = conditions.true("Provisioning")


def _volumes(instance: Obj) -> list[Obj]:
    return list(deep(instance, "spec", "volumes") or ())


def _volume_status(volume: Obj, index: int) -> Obj:
    found: Obj = {"name": volume["name"], "target": f"vd{chr(ord('a') + index)}"}
    if "dataVolume" in volume:
        found["persistentVolumeClaimInfo"] = {"claimName": volume["dataVolume"]["name"]}
    return found
