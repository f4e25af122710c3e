"""The scheduler of a tenant cluster: a node for each pod that has none, and why there is none."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.twin.world import conditions, nodefit, pods
from harness.twin.world.objects import Obj, deep, labels_of, terminating
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

MANAGER = "kube-scheduler"
COMPONENT = "default-scheduler"
_UNBOUND = "pod has unbound immediate PersistentVolumeClaims"


class Scheduler:
    """Places pods of one cluster; those that fit nowhere are tried again when something changed."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._cluster = cluster
        self._engine = world.engine
        self._waiting: dict[tuple[str, str], None] = {}
        # the claims of a pod that are not bound
        self.unbound: Callable[[Obj], list[str]] = lambda pod: []  # noqa: ARG005 - nobody knows
        self._queue = Queue(
            world.engine,
            f"scheduler of {cluster.store.name}",
            self._schedule,
            lambda: world.timings.draw("scheduler"),
        )
        cluster.on("v1", "Pod", self._hear)
        cluster.on("v1", "Node", self._hear_node)
        cluster.on("v1", "PersistentVolumeClaim", self._hear_claim)

    def _hear(self, change: Change) -> None:
        pod = change.obj
        if change.type == "ADDED" and not deep(pod, "spec", "nodeName"):
            self._queue.hear(change)
        freed = change.type == "DELETED" or (
            pods.finished(pod) and not pods.finished(change.old or {})
        )
        if freed and deep(pod, "spec", "nodeName"):
            self._again()

    def _hear_node(self, change: Change) -> None:
        if change.type != "MODIFIED" or _told(change.old or {}) != _told(change.obj):
            self._again()

    def _hear_claim(self, change: Change) -> None:
        if deep(change.obj, "status", "phase") == "Bound":
            self._again()

    def _again(self) -> None:
        for namespace, name in self._waiting:
            self._queue.add(namespace, name)

    def _schedule(self, namespace: str, name: str) -> None:
        pod = self._cluster.find("v1", "Pod", namespace, name)
        if pod is None or deep(pod, "spec", "nodeName") or terminating(pod) or pods.finished(pod):
            self._waiting.pop((namespace, name), None)
            return
        nodes = self._cluster.all("v1", "Node")
        if self.unbound(pod):
            self._waiting[namespace, name] = None
            self._refuse(pod, f"0/{len(nodes)} nodes are available: {_UNBOUND}.")
            return
        running = self._running()
        refusals = {
            node["metadata"]["name"]: nodefit.refusals(
                pod, node, running.get(node["metadata"]["name"], [])
            )
            for node in nodes
        }
        fits = [name for name, reasons in refusals.items() if not reasons]
        if fits:
            self._waiting.pop((namespace, name), None)
            self._bind(pod, min(fits, key=lambda one: (len(running.get(one, ())), one)))
            return
        self._waiting[namespace, name] = None
        self._unschedulable(pod, list(refusals.values()))

    def _running(self) -> dict[str, list[Obj]]:
        found: dict[str, list[Obj]] = {}
        for pod in self._cluster.all("v1", "Pod"):
            node = deep(pod, "spec", "nodeName")
            if node and not pods.finished(pod):
                found.setdefault(node, []).append(pod)
        return found

    def _unschedulable(self, pod: Obj, refusals: list[list[str]]) -> None:
        self._refuse(pod, _words(refusals))

    def _refuse(self, pod: Obj, why: str) -> None:
        refused = conditions.false("PodScheduled", "Unschedulable", why)

        def change(stored: Obj) -> None:
            stored.setdefault("status", {})["phase"] = "Pending"
            conditions.write(stored, self._engine.now, refused)

        self._cluster.status(pod, change, manager=MANAGER)
        self._cluster.events.warning(pod, "FailedScheduling", why, COMPONENT)

    def _bind(self, pod: Obj, node: str) -> None:
        now = self._engine.now
        self._cluster.status(pod, lambda stored: pods.scheduled(stored, now), manager=MANAGER)
        self._cluster.edit(pod, lambda stored: stored["spec"].update(nodeName=node),
                           manager=MANAGER)  # fmt: skip
        place = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
        text = f"Successfully assigned {place} to {node}"
        self._cluster.events.normal(pod, "Scheduled", text, COMPONENT)


def _words(refusals: list[list[str]]) -> str:
    total = len(refusals)
    if not total:
        return "no nodes available to schedule pods"
    counts = Counter(reason for reasons in refusals for reason in reasons)
    told = ", ".join(f"{count} {reason}" for reason, count in sorted(counts.items()))
    return (
        f"0/{total} nodes are available: {told}. preemption: 0/{total} nodes are available: "
        f"{total} No preemption victims found for incoming pod."
    )


def _told(node: Obj) -> tuple[object, ...]:
    """What of a node decides which pods it can take."""
    if not node:
        return ()
    spec = node.get("spec") or {}
    return (
        labels_of(node),
        spec.get("taints"),
        spec.get("unschedulable"),
        deep(node, "status", "allocatable"),
        conditions.holds(node, "Ready"),
    )
