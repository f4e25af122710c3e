"""The power of the hypervisors: what stops when one is switched off, and how it comes back.

A host that is off answers nobody. Its pods stay where they are, as the API server knows no better;
what it ran is told to have ended once its kubelet is back. Pods are not evicted from it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions
from harness.twin.world.heartbeats import node_conditions
from harness.twin.world.objects import KUBEVIRT, Obj, controller_of, rfc3339
from harness.twin.world.reconcile import Activities
from harness.twin.world.satellites import is_satellite
from harness.twin.world.tenant import GRACE

if TYPE_CHECKING:
    from harness.twin.world.world import World

ON, OFF, BOOTS, STANDS_STILL = "on", "off", "booting", "paused"
_UNREACHABLE = "node.kubernetes.io/unreachable"
_CONTROLLER = "kube-controller-manager"


class HostPower:
    """The power of every hypervisor. ``states``: on, off, booting or paused, by host."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._work = Activities(world.engine)
        self.states: dict[str, str] = {}

    def state(self, host: str) -> str:
        """How a host is. ApiError 404 for one that there is none of."""
        if host not in self._world.storage.hosts():
            known = ", ".join(self._world.storage.hosts())
            raise ApiError(404, f"no hypervisor {host!r}; there are {known}")
        return self.states.get(host, ON)

    def check_answers(self, host: str) -> None:
        """ApiError 500, as an API server words it, where a host's kubelet cannot be reached."""
        if self.states.get(host, ON) != ON:
            address = self._world.hosts.address_of(host)
            why = f"dial tcp {address}:10250: connect: no route to host"
            raise ApiError(500, f"error dialing backend: {why}")

    def off(self, host: str) -> None:
        """Pull the plug; a host that is off stays so."""
        if self.state(host) == OFF:
            return
        self.states[host] = OFF
        self._work.stop(f"{host} boots")
        self._world.storage.host_stops(host, loses_memory=True)
        self._world.satellites.host_stops(host)
        self._world.linstor.host_stops(host)
        for instance in self._instances_on(host):
            self._world.guests.stop(instance)
        self._fall_silent(host)

    def on(self, host: str) -> None:
        """Switch on; a host that is on, or on its way, stays so."""
        if self.state(host) != OFF:
            return
        self.states[host] = BOOTS
        seconds = self._world.timings.draw("host.boot")
        self._work.start(f"{host} boots", seconds, lambda: self._booted(host))

    def reset(self, host: str) -> None:
        """Press the reset button. ApiError 409 for a host that is off."""
        if self.state(host) == OFF:
            raise ApiError(409, f"{host} is switched off: it cannot be reset")
        self.off(host)
        self.on(host)

    def pause(self, host: str) -> None:
        """Have a host stand still. ApiError 409 for one that is not on, or runs machines."""
        if self.state(host) == STANDS_STILL:
            return
        if self.state(host) != ON:
            raise ApiError(409, f"{host} is {self.state(host)}: it cannot be paused")
        if self._instances_on(host):
            raise ApiError(409, f"{host} runs virtual machines, and pausing those is not modelled")
        self.states[host] = STANDS_STILL
        self._world.storage.host_stops(host, loses_memory=False)
        self._world.linstor.host_stops(host)
        self._fall_silent(host)

    def resume(self, host: str) -> None:
        """Let a paused host go on; one that is not paused is fine."""
        if self.state(host) != STANDS_STILL:
            return
        self.states[host] = ON
        self._world.storage.host_goes_on(host)
        self._world.linstor.host_goes_on(host)
        self._work.stop(f"{host} is silent")
        self._world.hosts.kubelet_goes_on(host, booted=False)
        self._report(host, "")

    # -- what follows

    def _instances_on(self, host: str) -> list[Obj]:
        found = []
        for pod in self._world.hosts.pods_on(host):
            reference = controller_of(pod)
            if reference.get("kind") == "VirtualMachineInstance":
                instance = self._world.cluster.find(
                    KUBEVIRT, reference["kind"], pod["metadata"]["namespace"], reference["name"]
                )
                if instance is not None and self._world.guests.of(instance) is not None:
                    found.append(instance)
        return found

    def _fall_silent(self, host: str) -> None:
        self._world.hosts.kubelet_stops(host)
        self._work.stop(f"{host} is silent")
        self._work.start(f"{host} is silent", GRACE, lambda: self._unknown(host))

    def _unknown(self, host: str) -> None:
        """Nothing heard for too long: the Node is Unknown."""
        cluster, now = self._world.cluster, self._world.engine.now
        node = cluster.find("v1", "Node", "", host)
        if node is None:
            return
        text = "Kubelet stopped posting node status."
        kinds = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
        lost = [conditions.unknown(kind, "NodeStatusUnknown", text) for kind in kinds]
        cluster.status(
            node, lambda stored: conditions.write(stored, now, *lost), manager=_CONTROLLER
        )
        taint = {"key": _UNREACHABLE, "effect": "NoSchedule", "timeAdded": rfc3339(now)}
        cluster.edit(
            node,
            lambda stored: stored["spec"].setdefault("taints", []).append(taint),
            manager=_CONTROLLER,
        )
        told = f"Node {host} status is now: NodeNotReady"
        cluster.events.normal(node, "NodeNotReady", told, "node-controller")

    def _booted(self, host: str) -> None:
        boot = self._world.storage.host_boots(host)
        seconds = self._world.timings.draw("host.kubelet")
        self._work.start(f"{host} boots", seconds, lambda: self._kubelet_up(host, boot))

    def _kubelet_up(self, host: str, boot: str) -> None:
        self.states[host] = ON
        self._work.stop(f"{host} is silent")
        self._report(host, boot)
        self._world.hosts.kubelet_goes_on(host, booted=True)
        seconds = self._world.timings.draw("satellite.up")
        self._work.start(f"{host} has storage", seconds, lambda: self._storage_up(host))

    def _storage_up(self, host: str) -> None:
        if self.state(host) != ON:
            return
        running = [
            pod
            for pod in self._world.hosts.pods_on(host)
            if is_satellite(pod) and conditions.holds(pod, "Ready")
        ]
        if not running:  # LINSTOR configures DRBD through its satellite
            self._work.start(f"{host} has storage", 1.0, lambda: self._storage_up(host))
            return
        self._world.storage.satellite_up(host)
        self._world.linstor.satellite_up(host)

    def _report(self, host: str, boot: str) -> None:
        cluster, now = self._world.cluster, self._world.engine.now
        node = cluster.find("v1", "Node", "", host)
        if node is None:
            return

        def change(stored: Obj) -> None:
            if boot:
                stored["status"]["nodeInfo"]["bootID"] = boot
            for one in node_conditions(now, ready=True):
                told = (one["type"], one["status"], one["reason"], one["message"])
                conditions.write(stored, now, conditions.Condition(*told))

        cluster.status(node, change, manager="kubelet")

        def untaint(stored: Obj) -> None:
            left = [t for t in stored["spec"].get("taints") or () if t["key"] != _UNREACHABLE]
            stored["spec"].pop("taints", None)
            if left:
                stored["spec"]["taints"] = left

        cluster.edit(node, untaint, manager=_CONTROLLER)
        if boot:
            text = f"Node {host} has been rebooted, boot id: {boot}"
            cluster.events.warning(node, "Rebooted", text, "kubelet")
