"""A kubelet's device manager and what of a pod it admits: registered plugins, handed-out devices.

Rules: kubernetes ``pkg/kubelet/cm/devicemanager/manager.go`` and ``pkg/kubelet/lifecycle/
predicate.go``. Three cases look alike and are not. A resource that this node has never had is not
looked at: a pod bound by its nodeName is admitted and runs without it, for good. One that the
kubelet knows and that lacks devices is an UnexpectedAdmissionError. One that the Node counts too
little of is an OutOf<resource>.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.twin.world import pods
from harness.twin.world.gpu_devices import Allocation, DevicePlugin
from harness.twin.world.objects import Obj

UNEXPECTED = "UnexpectedAdmissionError"
OUT_OF = "OutOf"
STOP_GRACE = 300.0
"""Seconds after which a resource without its plugin is forgotten (endpointStopGracePeriod)."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a pod is not admitted, as its status says it: the reason, and the message's end."""

    reason: str
    message: str


@dataclass(slots=True)
class DeviceManager:
    """One node's. ``plugins`` and ``stopped`` are by resource; what is handed out is by pod UID."""

    plugins: dict[str, DevicePlugin] = field(default_factory=dict)
    stopped: dict[str, int] = field(default_factory=dict)  # devices it had; 0 after a reboot
    _held: dict[str, dict[tuple[str, str], tuple[str, ...]]] = field(default_factory=dict)
    _answers: dict[tuple[str, str], Allocation] = field(default_factory=dict)

    # -- plugins

    def register(self, plugin: DevicePlugin) -> None:
        """A plugin has registered; it takes the place of an earlier one for its resource."""
        self.stopped.pop(plugin.resource, None)
        self.plugins[plugin.resource] = plugin

    def lose(self, resource: str) -> bool:
        """A plugin's socket is gone; whether there was one."""
        plugin = self.plugins.pop(resource, None)
        if plugin is not None:
            self.stopped[resource] = len(plugin.devices())
        return plugin is not None

    def forget(self, resource: str) -> None:
        """The grace is over: nothing is known of the resource any more."""
        self.stopped.pop(resource, None)

    def reboot(self) -> None:
        """The kubelet starts again: of resources it knows the names, from its checkpoint."""
        known = (*self.plugins, *self.stopped)
        self.plugins.clear()
        self.stopped = dict.fromkeys(known, 0)

    def count(self, resource: str) -> tuple[int, int]:
        """(capacity, allocatable): without its plugin a resource has capacity alone."""
        plugin = self.plugins.get(resource)
        if plugin is not None:
            return len(plugin.devices()), len(plugin.devices())
        return self.stopped.get(resource, 0), 0

    # -- pods

    def admit(self, pod: Obj, allocatable: Mapping[str, str], others: list[Obj]) -> Refusal | None:
        """Hand a pod its devices, or say why it is not admitted.

        ``others`` are the node's other pods that have not ended; ``allocatable`` the Node's.
        """
        refusal = self._allocate(pod) or _room(pod, allocatable, others)
        if refusal is not None:
            self.release(pod["metadata"]["uid"])
        return refusal

    def allocation(self, pod: Obj, container: str) -> Allocation:
        """What the plugins answered for a container, in all; nothing where it was given nothing."""
        return self._answers.get((pod["metadata"]["uid"], container), Allocation())

    def release(self, uid: str) -> None:
        """A pod has ended or is gone: its devices are free."""
        for container, _ in self._held.pop(uid, {}):
            self._answers.pop((uid, container), None)

    def _allocate(self, pod: Obj) -> Refusal | None:
        uid = pod["metadata"]["uid"]
        for container in pod["spec"]["containers"]:
            asked = pods.requests({"spec": {"containers": [container]}})
            for resource, count in asked.items():
                problem = self._take(uid, container["name"], resource, count)
                if problem:
                    return Refusal(
                        UNEXPECTED, f"Allocate failed due to {problem}, which is unexpected"
                    )
        return None

    def _take(self, uid: str, container: str, resource: str, count: int) -> str:
        """Devices for one container, or the device manager's words."""
        plugin = self.plugins.get(resource)
        if plugin is None and resource not in self.stopped:
            return ""  # not a device plugin's resource, as far as this kubelet knows
        healthy = plugin.devices() if plugin is not None else ()
        if plugin is None or not healthy:
            return f"no healthy devices present; cannot allocate unhealthy devices {resource}"
        before = self._held.get(uid, {}).get((container, resource))
        if before is not None and set(before) <= set(healthy):
            chosen: tuple[str, ...] = before
        elif before is not None:
            text = "previously allocated devices are no longer healthy"
            return f"{text}; cannot allocate unhealthy devices {resource}"
        else:
            free = [one for one in healthy if one not in self._in_use(resource)]
            if len(free) < count:
                text = f"requested number of devices unavailable for {resource}"
                return f"{text}. Requested: {count}, Available: {len(free)}"
            chosen = tuple(free[:count])
        if chosen:
            self._held.setdefault(uid, {})[container, resource] = chosen
            known = self._answers.get((uid, container), Allocation())
            self._answers[uid, container] = _joined(known, plugin.allocate(chosen))
        return ""

    def _in_use(self, resource: str) -> set[str]:
        return {
            one
            for held in self._held.values()
            for (_, name), ids in held.items()
            if name == resource
            for one in ids
        }


def _joined(one: Allocation, other: Allocation) -> Allocation:
    return Allocation(
        {**one.env, **other.env},
        (*one.cdi_devices, *(d for d in other.cdi_devices if d not in one.cdi_devices)),
        (*one.device_nodes, *(d for d in other.device_nodes if d not in one.device_nodes)),
    )


def _room(pod: Obj, allocatable: Mapping[str, str], others: list[Obj]) -> Refusal | None:
    """The scheduler's own check, which the kubelet repeats; a resource unknown to the Node passes.

    A pod that runs without what it asked for counts all the same.
    """
    for resource, count in sorted(pods.requests(pod).items()):
        if resource not in allocatable or not count:
            continue
        used = sum(pods.requests(other).get(resource, 0) for other in others)
        capacity = int(allocatable[resource])
        if used + count > capacity:
            text = f"Node didn't have enough resource: {resource}, requested: {count}"
            return Refusal(f"{OUT_OF}{resource}", f"{text}, used: {used}, capacity: {capacity}")
    return None
