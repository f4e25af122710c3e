"""A tenant cluster's workers: Nodes that join, beat, go down and leave, and the pods on them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world import conditions, pods, worker_node
from harness.twin.world.conditions import Condition
from harness.twin.world.heartbeats import Heartbeat, node_conditions
from harness.twin.world.objects import Obj, deep, rfc3339, terminating
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

MANAGER = "kubelet"
CONTROLLER = "kube-controller-manager"
GRACE = 50.0
"""Seconds without a beat until a Node is Unknown (node-monitor-grace-period, Kubernetes 1.32+)."""


@dataclass(slots=True)
class Worker:
    """One machine's kubelet: ``up`` in this boot, ``network`` once the CNI is there."""

    guest: Guest
    instance: Obj
    identity: tuple[str, str]
    heartbeat: Heartbeat
    up: bool = False
    network: bool = False
    images: dict[str, None] = field(default_factory=dict)
    addresses: int = 0


class Workers:
    """Every worker of one tenant cluster."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self.cluster = cluster
        self._engine = world.engine
        self._workers: dict[str, Worker] = {}
        self._numbers = 0
        self._work = Activities(world.engine)
        self._waiting: dict[tuple[str, str], None] = {}
        self._queue = Queue(
            world.engine,
            f"scheduler of {cluster.store.name}",
            self._schedule,
            lambda: world.timings.draw("scheduler"),
        )
        cluster.on("v1", "Pod", self._hear_pod)
        cluster.on("v1", "Node", self._hear_node)
        cluster.on("v1", "Secret", self._hear_secret)

    def guest_of(self, node: str) -> Guest | None:
        """The machine behind a Node, where its kubelet answers."""
        worker = self._workers.get(node)
        return worker.guest if worker is not None and worker.up else None

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
        self._work.stop(f"cni {name}")
        self._work.start(f"silent {name}", GRACE, lambda: self._silent(name))

    def _join(self, worker: Worker) -> None:
        name = worker.guest.hostname
        node = self.cluster.find("v1", "Node", "", name)
        _, token = worker_node.kubelet_facts(worker.guest.machine_config)
        if node is None:
            # a kubelet without a known bootstrap token stays system:anonymous
            secret = f"bootstrap-token-{token}"
            if not token or self.cluster.find("v1", "Secret", "kube-system", secret) is None:
                return
            self._register(worker)
        else:
            self._return(worker, node)
        worker.heartbeat.start()
        self._work.stop(f"silent {name}")
        seconds = self._world.timings.draw("node.cni")
        self._work.start(f"cni {name}", seconds, lambda: self._connect(worker))
        self._sync_pods(worker)

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
            _overwrite(stored, node_conditions(now, ready=False, message=worker_node.NO_NETWORK))

        self.cluster.status(node, change, manager=MANAGER)
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
        self._drop_taints(node, dropped)
        self.cluster.events.normal(node, "NodeReady", "Node status is now: NodeReady", MANAGER)
        self._sync_pods(worker)
        self._again()

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

    # -- pods

    def _hear_pod(self, change: Change) -> None:
        pod = change.obj
        uid = pod["metadata"]["uid"]
        if change.type == "DELETED":
            self._work.stop(f"start {uid}")
            self._work.stop(f"kill {uid}")
            return
        node = deep(pod, "spec", "nodeName")
        if not node:
            if change.type == "ADDED":
                self._queue.hear(change)
            return
        worker = self._workers.get(node)
        if worker is not None and worker.up:
            self._sync(worker, pod)

    def _sync_pods(self, worker: Worker) -> None:
        for pod in self.cluster.all("v1", "Pod"):
            if deep(pod, "spec", "nodeName") != worker.guest.hostname:
                continue
            if deep(pod, "status", "phase") == "Running" and not worker.network:
                self._interrupt(pod)
            self._sync(worker, self.cluster.current(pod) or pod)

    def _interrupt(self, pod: Obj) -> None:
        now = self._engine.now
        self.cluster.status(pod, lambda stored: pods.interrupted(stored, now), manager=MANAGER)
        text = "Pod sandbox changed, it will be killed and re-created."
        self.cluster.events.normal(pod, "SandboxChanged", text, MANAGER)

    def _sync(self, worker: Worker, pod: Obj) -> None:
        """What a kubelet does about one pod, given how it stands."""
        uid = pod["metadata"]["uid"]
        if terminating(pod):
            self._kill(pod)
        elif (
            not pods.finished(pod)
            and not conditions.holds(pod, "Ready")
            and (worker.network or deep(pod, "spec", "hostNetwork"))
            and not self._work.running(f"start {uid}")
        ):
            self._start(worker, pod)

    def _start(self, worker: Worker, pod: Obj) -> None:
        now, uid = self._engine.now, pod["metadata"]["uid"]
        ip = worker_node.address(worker.instance)
        image = pod["spec"]["containers"][0].get("image", "")
        seconds = self._world.timings.draw(
            "tenant.cached" if image in worker.images else "tenant.pull"
        )
        # begun before the status is written: that write comes back here
        self._work.start(f"start {uid}", seconds, lambda: self._run(worker, pod))
        if not deep(pod, "status", "startTime"):
            self.cluster.status(pod, lambda stored: pods.creating(stored, ip, now), manager=MANAGER)
            if image not in worker.images:
                text = f'Pulling image "{image}"'
                self.cluster.events.normal(pod, "Pulling", text, MANAGER)

    def _run(self, worker: Worker, pod: Obj) -> None:
        current = self.cluster.current(pod)
        if current is None or terminating(current) or not worker.up:
            return
        for container in current["spec"]["containers"]:
            worker.images[container.get("image", "")] = None
        ip, now = self._address(worker, current), self._engine.now
        self.cluster.status(current, lambda stored: pods.running(stored, ip, now), manager=MANAGER)
        for container in current["spec"]["containers"]:
            text = f"Started container {container['name']}"
            self.cluster.events.normal(current, "Started", text, MANAGER)

    def _address(self, worker: Worker, pod: Obj) -> str:
        if deep(pod, "spec", "hostNetwork"):
            return worker_node.address(worker.instance)
        worker.addresses += 1
        node = self.cluster.find("v1", "Node", "", worker.guest.hostname) or {}
        network = str(deep(node, "spec", "podCIDR") or "10.243.0.0/24").rpartition(".")[0]
        return f"{network}.{2 + worker.addresses % 250}"

    def _kill(self, pod: Obj) -> None:
        uid = pod["metadata"]["uid"]
        self._work.stop(f"start {uid}")
        grace = float(pod["metadata"].get("deletionGracePeriodSeconds", 0))
        seconds = min(grace, self._world.timings.draw("tenant.kill"))
        self._work.start(f"kill {uid}", seconds, lambda: self.cluster.remove(pod))

    # -- scheduling

    def _again(self) -> None:
        for namespace, name in self._waiting:
            self._queue.add(namespace, name)

    def _schedule(self, namespace: str, name: str) -> None:
        pod = self.cluster.find("v1", "Pod", namespace, name)
        if pod is None or deep(pod, "spec", "nodeName") or terminating(pod):
            self._waiting.pop((namespace, name), None)
            return
        nodes = self.cluster.all("v1", "Node")
        load = self._load()
        fits = sorted(
            (load.get(node["metadata"]["name"], 0), node["metadata"]["name"])
            for node in nodes
            if _fits(pod, node)
        )
        if fits:
            self._waiting.pop((namespace, name), None)
            self._bind(pod, fits[0][1])
            return
        self._waiting[namespace, name] = None
        why = f"0/{len(nodes)} nodes are available: no node fits the pod's taints and selectors."
        if not nodes:
            why = "no nodes available to schedule pods"
        refused = conditions.false("PodScheduled", "Unschedulable", why)

        def change(stored: Obj) -> None:
            stored.setdefault("status", {})["phase"] = "Pending"
            conditions.write(stored, self._engine.now, refused)

        self.cluster.status(pod, change, manager="kube-scheduler")
        self.cluster.events.warning(pod, "FailedScheduling", why, "default-scheduler")

    def _load(self) -> dict[str, int]:
        load: dict[str, int] = {}
        for pod in self.cluster.all("v1", "Pod"):
            node = deep(pod, "spec", "nodeName")
            if node and not pods.finished(pod):
                load[node] = load.get(node, 0) + 1
        return load

    def _bind(self, pod: Obj, node: str) -> None:
        now = self._engine.now
        self.cluster.status(
            pod, lambda stored: pods.scheduled(stored, now), manager="kube-scheduler"
        )
        self.cluster.edit(
            pod, lambda stored: stored["spec"].update(nodeName=node), manager="kube-scheduler"
        )
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        text = f"Successfully assigned {place} to {node}"
        self.cluster.events.normal(pod, "Scheduled", text, "default-scheduler")


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


def _fits(pod: Obj, node: Obj) -> bool:
    spec = node.get("spec") or {}
    if spec.get("unschedulable") or not conditions.holds(node, "Ready"):
        return False
    labels = node["metadata"].get("labels") or {}
    wanted = deep(pod, "spec", "nodeSelector") or {}
    if any(labels.get(key) != value for key, value in wanted.items()):
        return False
    tolerations = deep(pod, "spec", "tolerations") or ()
    hard = [t for t in spec.get("taints") or () if t["effect"] in ("NoSchedule", "NoExecute")]
    if not all(any(_tolerates(t, taint) for t in tolerations) for taint in hard):
        return False
    allocatable = deep(node, "status", "allocatable") or {}
    return all(int(allocatable.get(name, 0)) >= count for name, count in pods.requests(pod).items())


def _tolerates(toleration: Obj, taint: Obj) -> bool:
    if toleration.get("effect") not in (None, "", taint["effect"]):
        return False
    if toleration.get("operator") == "Exists":
        return toleration.get("key") in (None, "", taint["key"])
    same_value = toleration.get("value", "") == taint.get("value", "")
    return bool(toleration.get("key") == taint["key"] and same_value)
