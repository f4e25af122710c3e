"""The kubelets of a tenant cluster's workers: which pods they admit, start, play and end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.twin.world import container_runtime, container_states, pods, worker_node
from harness.twin.world.container_runtime import CannotCreate, CannotStart, Container
from harness.twin.world.objects import Obj, deep, labels_of, terminating
from harness.twin.world.podlife import PodLife
from harness.twin.world.podlogs import PodLogs
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.gpu_devices import PodDriver
    from harness.twin.world.worker import Worker
    from harness.twin.world.world import World

MANAGER = "kubelet"


class Kubelets:
    """Every worker's kubelet. ``drivers``, by the label app, play pods that the world knows."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self.world = world
        self.cluster = cluster
        self.workers: dict[str, Worker] = {}  # by Node
        self.drivers: dict[str, PodDriver] = {}
        self.logs = PodLogs()
        # whether the disks of a pod are at its node
        self.mounted: Callable[[Obj], bool] = lambda pod: True  # noqa: ARG005 - nobody knows
        self._work = Activities(world.engine)
        # of each node's boot: pods admitted, pods handed to a driver, pods that live here
        self._admitted: dict[str, str] = {}  # UID to Node
        self._played: dict[str, str] = {}
        self._lives: dict[str, PodLife] = {}
        self._made: dict[tuple[str, str], tuple[str, Container]] = {}  # by UID and container
        cluster.on("v1", "Pod", self._hear)

    # -- nodes

    def down(self, worker: Worker) -> None:
        """A node is down: nothing of its pods goes on, its kubelet will know no device."""
        for uid in [uid for uid, node in self._admitted.items() if node == worker.name]:
            if uid in self._lives:
                self._lives.pop(uid).stop()
            del self._admitted[uid]
            self._played.pop(uid, None)
            self._drop(uid)
        worker.devices.reboot()

    def came_up(self, worker: Worker) -> None:
        """A kubelet has started: what ran before the machine went down does not run."""
        for pod in self._pods_on(worker):
            if deep(pod, "status", "phase") == "Running":
                self._interrupt(pod)
            self._sync(worker, self.cluster.current(pod) or pod)

    def connected(self, worker: Worker) -> None:
        """The node's network is there, for which its pods have waited."""
        for pod in self._pods_on(worker):
            self._sync(worker, self.cluster.current(pod) or pod)

    def _pods_on(self, worker: Worker) -> list[Obj]:
        found = self.cluster.all("v1", "Pod")
        return [pod for pod in found if deep(pod, "spec", "nodeName") == worker.name]

    def _interrupt(self, pod: Obj) -> None:
        now = self.world.engine.now
        never = pod["spec"].get("restartPolicy") == "Never"

        def change(stored: Obj) -> None:
            if never:
                container_states.lost(stored, now)
            else:
                pods.interrupted(stored, now)

        self.cluster.status(pod, change, manager=MANAGER)
        text = "Pod sandbox changed, it will be killed and re-created."
        self.cluster.events.normal(pod, "SandboxChanged", text, MANAGER)

    # -- pods

    def _hear(self, change: Change) -> None:
        pod = change.obj
        worker = self.workers.get(str(deep(pod, "spec", "nodeName") or ""))
        if change.type == "DELETED":
            self._forget(worker, pod)
        elif worker is not None and worker.up:
            if self._driver(pod) is not None:
                self._note(worker, pod)
            self._sync(worker, pod)

    def look_at(self, pod: Obj) -> None:
        """What a pod has waited for is there."""
        worker = self.workers.get(str(deep(pod, "spec", "nodeName") or ""))
        if worker is not None and worker.up:
            self._sync(worker, self.cluster.current(pod) or pod)

    def _forget(self, worker: Worker | None, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._work.stop(f"kill {uid}")
        if uid in self._lives:
            self._lives.pop(uid).stop()
        driver = self._driver(pod)
        if driver is not None:
            driver.removed(pod)
        if worker is not None:
            worker.devices.release(uid)
        self._admitted.pop(uid, None)
        self._played.pop(uid, None)
        self._drop(uid)
        self.logs.forget(pod)

    def _drop(self, uid: str) -> None:
        for key in [key for key in self._made if key[0] == uid]:
            del self._made[key]

    def _driver(self, pod: Obj) -> PodDriver | None:
        return self.drivers.get(labels_of(pod).get("app", ""))

    def _sync(self, worker: Worker, pod: Obj) -> None:
        """What a kubelet does about one pod, given how it stands."""
        uid = pod["metadata"]["uid"]
        if terminating(pod):
            self._kill(pod)
        elif pods.finished(pod):
            worker.devices.release(uid)
        elif (uid in self._admitted or self._admit(worker, pod)) and (
            worker.network or deep(pod, "spec", "hostNetwork")
        ):
            self._start(worker, pod)

    def _admit(self, worker: Worker, pod: Obj) -> bool:
        """Whether the pod may run here. What it is given of devices is decided now."""
        uid, now = pod["metadata"]["uid"], self.world.engine.now
        node = self.cluster.find("v1", "Node", "", worker.name) or {}
        others = [
            other
            for other in self._pods_on(worker)
            if other["metadata"]["uid"] in self._admitted and not pods.finished(other)
        ]
        allocatable = deep(node, "status", "allocatable") or {}
        refusal = worker.devices.admit(pod, allocatable, others)
        if refusal is not None:
            reason, text = refusal.reason, refusal.message
            self.cluster.status(
                pod,
                lambda stored: container_states.refused(stored, reason, text, now),
                manager=MANAGER,
            )
            self.cluster.events.warning(pod, reason, text, MANAGER)
            return False
        self._admitted[uid] = worker.name
        if self._driver(pod) is None and not deep(pod, "status", "startTime"):
            ip = worker_node.address(worker.instance)
            self.cluster.status(pod, lambda stored: pods.creating(stored, ip, now), manager=MANAGER)
        return True

    def _start(self, worker: Worker, pod: Obj) -> None:
        driver, uid = self._driver(pod), pod["metadata"]["uid"]
        if driver is None:
            if uid not in self._lives and self.mounted(pod):
                life = self._lives[uid] = PodLife(self, worker, pod)
                life.begin()
        elif uid not in self._played:
            self._played[uid] = worker.name
            driver.admitted(pod, worker.guest)

    def _kill(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        if uid in self._lives:
            self._lives[uid].stop()
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        seconds = min(grace, self.world.timings.draw("tenant.kill"))
        self._work.start(f"kill {uid}", seconds, lambda: self.cluster.remove(pod))

    def address_for(self, pod: Obj) -> str:
        """An address for a pod that starts on its node: the host's, or the next of the network."""
        worker = self.workers[pod["spec"]["nodeName"]]
        if deep(pod, "spec", "hostNetwork"):
            return worker_node.address(worker.instance)
        worker.addresses += 1
        node = self.cluster.find("v1", "Node", "", worker.name) or {}
        network = str(deep(node, "spec", "podCIDR") or "10.243.0.0/24").rpartition(".")[0]
        return f"{network}.{2 + worker.addresses % 250}"

    # -- containers

    def handler(self, pod: Obj) -> str:
        """The runtime handler of a pod's RuntimeClass; "" for the default one, or where none is."""
        name = str(pod["spec"].get("runtimeClassName") or "")
        found = self.cluster.find("node.k8s.io/v1", "RuntimeClass", "", name) if name else None
        return str((found or {}).get("handler", ""))

    def no_sandbox(self, worker: Worker, pod: Obj) -> str:
        """Why a node cannot make the pod's sandbox; "" where it can."""
        name = str(pod["spec"].get("runtimeClassName") or "")
        if not name:
            return ""
        handler = self.handler(pod)
        if not handler:
            return f'failed to get runtime handler: RuntimeClass.node.k8s.io "{name}" not found'
        toolkit = handler == container_runtime.NVIDIA and worker.guest.image.has_toolkit
        if toolkit or handler == container_runtime.RUNC:
            return ""
        text = f'failed to get sandbox runtime: no runtime for "{handler}" is configured'
        return f"rpc error: code = Unknown desc = {text}"

    def made(self, pod: Obj, name: str, container: Container) -> None:
        """A container was made; it takes the place of an earlier one."""
        self._made[pod["metadata"]["uid"], name] = ("", container)

    def container(self, pod: Obj, name: str) -> Container:
        """A container that runs, as it was made."""
        found = self._made.get((pod["metadata"]["uid"], name))
        return found[1] if found is not None else container_runtime.bare(pod, _spec(pod, name))

    def _note(self, worker: Worker, pod: Obj) -> None:
        """Make the containers that a driver says are running, as they are said to."""
        for status in deep(pod, "status", "containerStatuses") or ():
            name, identity = status["name"], status.get("containerID", "")
            key = (pod["metadata"]["uid"], name)
            if "running" not in status["state"] or self._made.get(key, ("",))[0] == identity:
                continue
            spec, guest = _spec(pod, name), worker.guest
            allocation = worker.devices.allocation(pod, name)
            handler = self.handler(pod) or guest.default_runtime
            try:
                container = container_runtime.create(pod, spec, guest, allocation, handler)
            except (CannotCreate, CannotStart):
                container = container_runtime.bare(pod, spec)  # its driver said that it runs
            self._made[key] = (identity, container)


def _spec(pod: Obj, name: str) -> Obj:
    found: Obj = next(one for one in pod["spec"]["containers"] if one["name"] == name)
    return found
