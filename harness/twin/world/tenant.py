"""A tenant cluster's workers: Nodes that join, beat, go down and leave, and the pods on them."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world import (
    conditions,
    device_manager,
    kubelet_certificates,
    taint_manager,
    worker_node,
)
from harness.twin.world.conditions import Condition
from harness.twin.world.container_runtime import Container
from harness.twin.world.heartbeats import Heartbeat, node_conditions
from harness.twin.world.kubelet import Kubelets
from harness.twin.world.objects import Obj, deep, rfc3339, terminating
from harness.twin.world.podlogs import PodLogs
from harness.twin.world.reconcile import Activities
from harness.twin.world.scheduler import Scheduler
from harness.twin.world.worker import Worker

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.gpu_devices import DevicePlugin, PodDriver
    from harness.twin.world.guest import Guest
    from harness.twin.world.kubevirt_csi import KubevirtCsi
    from harness.twin.world.world import World

MANAGER = "kubelet"
CONTROLLER = "kube-controller-manager"
GRACE = 50.0
"""Seconds without a beat until a Node is Unknown (node-monitor-grace-period, Kubernetes 1.32+)."""


class Workers:
    """Every worker of one tenant cluster."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self.cluster = cluster
        self._engine = world.engine
        # called when a node's kubelet is Ready in this boot, and when it falls silent
        self.on_up: list[Callable[[str, Guest], None]] = []
        self.on_down: list[Callable[[str], None]] = []
        self._numbers = 0
        self._work = Activities(world.engine)
        self._kubelets = Kubelets(world, cluster)
        self._workers = self._kubelets.workers
        self._scheduler = Scheduler(world, cluster)
        cluster.on("v1", "Node", self._hear_node)
        cluster.on("v1", "Secret", self._hear_secret)

    @property
    def drivers(self) -> dict[str, PodDriver]:
        """Who plays pods instead of their kubelet, by the pods' label app."""
        return self._kubelets.drivers

    @drivers.setter
    def drivers(self, drivers: dict[str, PodDriver]) -> None:
        self._kubelets.drivers = drivers

    @property
    def logs(self) -> PodLogs:
        """What the containers of this cluster have written."""
        return self._kubelets.logs

    def address_for(self, pod: Obj) -> str:
        """An address for a pod that starts on its node."""
        return self._kubelets.address_for(pod)

    def container(self, pod: Obj, name: str) -> Container:
        """A container that runs on a worker, as it was made."""
        return self._kubelets.container(pod, name)

    def guest_of(self, node: str) -> Guest | None:
        """The machine behind a Node, where its kubelet answers."""
        worker = self._workers.get(node)
        return worker.guest if worker is not None and worker.up else None

    def use(self, disks: KubevirtCsi) -> None:
        """Pods wait for the disks that they mount."""
        self._kubelets.mounted = disks.mounted
        self._scheduler.unbound = disks.unbound
        disks.on_mounted.append(self._kubelets.look_at)

    # -- device plugins

    def plug(self, node: str, plugin: DevicePlugin) -> None:
        """A device plugin registers with a node's kubelet, for this boot."""
        worker = self._workers.get(node)
        if worker is not None and worker.up:
            worker.devices.register(plugin)
            self._work.stop(f"forgets {plugin.resource} on {node}")
            self._advertise(worker, plugin.resource)

    def unplug(self, node: str, resource: str) -> None:
        """A device plugin's socket is gone: nothing is allocatable, and later nothing is there.

        The capacity stays for five minutes, as a kubelet has it.
        """
        worker = self._workers.get(node)
        if worker is None or not worker.devices.lose(resource):
            return
        self._advertise(worker, resource)

        def forget() -> None:
            worker.devices.forget(resource)
            self._advertise(worker, resource)

        self._work.start(f"forgets {resource} on {node}", device_manager.STOP_GRACE, forget)

    def _advertise(self, worker: Worker, resource: str) -> None:
        node = self.cluster.find("v1", "Node", "", worker.name)
        if node is None:
            return
        capacity, allocatable = worker.devices.count(resource)
        self.cluster.status(
            node,
            lambda stored: worker_node.advertise(stored, resource, capacity, allocatable),
            manager=MANAGER,
        )

    # -- a machine comes and goes

    def kubelet_up(self, guest: Guest, instance: Obj) -> None:
        """The kubelet of a machine has started, in this boot or the next."""
        worker = self._workers.get(guest.hostname)
        if worker is None or worker.guest is not guest:
            identity = worker_node.machine_identity(self._world.rng(f"machine {guest.hostname}"))
            beat = Heartbeat(self.cluster, guest.hostname)
            worker = Worker(guest, instance, identity, beat)
            self._workers[guest.hostname] = worker
        worker.instance = self._world.cluster.current(instance) or instance
        worker.up, worker.network = True, False
        self._join(worker)

    def went_down(self, name: str) -> None:
        """The machine rebooted or lost power: its kubelet is silent."""
        worker = self._workers.get(name)
        if worker is None:
            return
        worker.up = worker.network = False
        worker.heartbeat.stop()
        for resource in (*worker.devices.plugins, *worker.devices.stopped):
            self._work.stop(f"forgets {resource} on {name}")
        self._kubelets.down(worker)
        for tell in self.on_down:
            tell(name)
        self._work.stop(f"cni {name}")
        self._work.start(f"silent {name}", GRACE, lambda: self._silent(name))

    def frozen(self, name: str) -> None:
        """The machine's disk stands still, and its kubelet with it: nothing more is heard of it."""
        worker = self._workers.get(name)
        if worker is not None and worker.up:
            worker.heartbeat.stop()
            self._work.start(f"silent {name}", GRACE, lambda: self._silent(name))

    def thawed(self, name: str) -> None:
        """The disk goes on, and the kubelet says that all is well."""
        worker = self._workers.get(name)
        if worker is None or not worker.up:
            return
        self._work.stop(f"silent {name}")
        worker.heartbeat.start()
        node = self.cluster.find("v1", "Node", "", name)
        if node is not None and not conditions.holds(node, "Ready"):
            now = self._engine.now
            ready = node_conditions(now, ready=True)
            self.cluster.status(node, lambda stored: _overwrite(stored, ready), manager=MANAGER)
            self._drop_taints(node, (_UNREACHABLE,))

    def _join(self, worker: Worker) -> None:
        name = worker.guest.hostname
        node = self.cluster.find("v1", "Node", "", name)
        _, token = worker_node.kubelet_facts(worker.guest.machine_config)
        if node is None:
            # a kubelet without a known bootstrap token stays system:anonymous
            secret = f"bootstrap-token-{token}"
            if not token or self.cluster.find("v1", "Secret", "kube-system", secret) is None:
                return
            kubelet_certificates.ask(self.cluster, self._world.engine, name, token)
            self._register(worker)
        else:
            self._return(worker, node)
        worker.heartbeat.start()
        self._work.stop(f"silent {name}")
        seconds = self._world.timings.draw("node.cni")
        self._work.start(f"cni {name}", seconds, lambda: self._connect(worker))
        self._kubelets.came_up(worker)

    def _register(self, worker: Worker) -> None:
        self._numbers += 1
        made = worker_node.node(
            worker.guest, worker.instance, worker.identity, self._numbers, self._engine.now
        )
        node = self.cluster.create(made, manager=MANAGER)
        self.cluster.events.normal(node, "Starting", "Starting kubelet.", MANAGER)
        name = worker.guest.hostname
        text = f"Node {name} event: Registered Node {name} in Controller"
        self.cluster.events.normal(node, "RegisteredNode", text, "node-controller")

    def _return(self, worker: Worker, node: Obj) -> None:
        info = worker_node.node_info(worker.guest, worker.identity)
        before = deep(node, "status", "nodeInfo", "bootID")
        now = self._engine.now

        def change(stored: Obj) -> None:
            stored["status"]["nodeInfo"] = info
            # what device plugins said before the reboot; they have yet to come back
            for resource in [name for name in stored["status"]["capacity"] if "/" in name]:
                worker_node.advertise(stored, resource, 0, 0)
            _overwrite(stored, node_conditions(now, ready=False, message=worker_node.NO_NETWORK))

        self.cluster.status(node, change, manager=MANAGER)
        taint_manager.taint(self.cluster, node, worker_node.NOT_READY)
        self.cluster.events.normal(node, "Starting", "Starting kubelet.", MANAGER)
        if before != info["bootID"]:
            name = worker.guest.hostname
            text = f"Node {name} has been rebooted, boot id: {info['bootID']}"
            self.cluster.events.warning(node, "Rebooted", text, MANAGER)

    def _connect(self, worker: Worker) -> None:
        """The CNI is there: the Node becomes Ready and loses the taints of joining."""
        node = self.cluster.find("v1", "Node", "", worker.guest.hostname)
        if node is None or not worker.up:
            return
        worker.network = True
        now = self._engine.now

        def change(stored: Obj) -> None:
            _overwrite(stored, node_conditions(now, ready=True))
            cilium = Condition(
                "NetworkUnavailable", "False", "CiliumIsUp", "Cilium is running on this node"
            )
            conditions.write(stored, now, cilium)

        self.cluster.status(node, change, manager=MANAGER)
        dropped = (worker_node.CNI_TAINT, worker_node.NOT_READY, _UNREACHABLE)
        spared = taint_manager.doomed(self.cluster, node)
        self._drop_taints(node, dropped)
        taint_manager.spare(self.cluster, spared)
        self.cluster.events.normal(node, "NodeReady", "Node status is now: NodeReady", MANAGER)
        for tell in self.on_up:
            tell(worker.guest.hostname, worker.guest)
        self._kubelets.connected(worker)

    def _drop_taints(self, node: Obj, keys: tuple[str, ...]) -> None:
        def change(stored: Obj) -> None:
            left = [t for t in stored["spec"].get("taints") or () if t["key"] not in keys]
            stored["spec"].pop("taints", None)
            if left:
                stored["spec"]["taints"] = left

        self.cluster.edit(node, change, manager=CONTROLLER)

    def _silent(self, name: str) -> None:
        """Nothing heard for too long: the controller calls the Node unknown."""
        node = self.cluster.find("v1", "Node", "", name)
        if node is None or terminating(node):
            return
        now = self._engine.now
        lost = [
            conditions.unknown(kind, "NodeStatusUnknown", "Kubelet stopped posting node status.")
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
        ]

        def change(stored: Obj) -> None:
            beats = {c["type"]: c.get("lastHeartbeatTime") for c in stored["status"]["conditions"]}
            conditions.write(stored, now, *lost)
            for condition in stored["status"]["conditions"]:
                if beats.get(condition["type"]):
                    condition["lastHeartbeatTime"] = beats[condition["type"]]

        self.cluster.status(node, change, manager=CONTROLLER)
        taint = {"key": _UNREACHABLE, "effect": "NoSchedule", "timeAdded": rfc3339(now)}
        self.cluster.edit(
            node,
            lambda stored: stored["spec"].setdefault("taints", []).append(taint),
            manager=CONTROLLER,
        )
        text = f"Node {name} status is now: NodeNotReady"
        self.cluster.events.normal(node, "NodeNotReady", text, "node-controller")

    # -- changes

    def _hear_node(self, change: Change) -> None:
        name = change.obj["metadata"]["name"]
        if change.type == "DELETED":
            worker = self._workers.get(name)
            if worker is not None:
                worker.heartbeat.stop()
            for key in ("cni", "silent"):
                self._work.stop(f"{key} {name}")
            seconds = self._world.timings.draw("tenant.kill")
            self._engine.after(seconds, lambda: self._sweep(name), f"pods of {name} are collected")
        elif deep(change.obj, "spec", "providerID") and not deep(
            change.old or {}, "spec", "providerID"
        ):
            # the cloud controller knows the machine now
            self._engine.after(
                0.0,
                lambda: self._drop_taints(change.obj, (worker_node.UNINITIALIZED,)),
                f"{name} is initialised",
            )

    def _sweep(self, name: str) -> None:
        if self.cluster.find("v1", "Node", "", name) is not None:
            return
        for pod in self.cluster.all("v1", "Pod"):
            if deep(pod, "spec", "nodeName") == name:
                self.cluster.remove(pod)

    def _hear_secret(self, change: Change) -> None:
        if not change.obj["metadata"]["name"].startswith("bootstrap-token-"):
            return
        for worker in self._workers.values():
            if worker.up and self.cluster.find("v1", "Node", "", worker.guest.hostname) is None:
                self._engine.after(1.0, partial(self._join, worker), "kubelet tries again")


_UNREACHABLE = "node.kubernetes.io/unreachable"


def _overwrite(node: Obj, fresh: list[Obj]) -> None:
    """Replace conditions by type; the transition time moves only with the status."""
    stored = node["status"].setdefault("conditions", [])
    for condition in fresh:
        before = next((c for c in stored if c["type"] == condition["type"]), None)
        if before is None:
            stored.append(condition)
            continue
        if before["status"] == condition["status"]:
            condition["lastTransitionTime"] = before["lastTransitionTime"]
        stored[stored.index(before)] = condition
