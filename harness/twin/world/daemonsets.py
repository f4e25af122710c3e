"""The DaemonSet controller of a tenant cluster: a pod on each node that fits, and its roll.

Rules: Kubernetes' DaemonSet controller. Unlike there a pod has its node from the first, not from
the scheduler; no ControllerRevisions are kept, so there is nothing to roll back to.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import nodefit, workloads
from harness.twin.world.objects import Obj, controller_of, deep, labels_of, terminating
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

APPS = "apps/v1"
COMPONENT = "daemonset-controller"
HASH = "controller-revision-hash"
_TOLERATED = (
    ("node.kubernetes.io/not-ready", "NoExecute"),
    ("node.kubernetes.io/unreachable", "NoExecute"),
    ("node.kubernetes.io/disk-pressure", "NoSchedule"),
    ("node.kubernetes.io/memory-pressure", "NoSchedule"),
    ("node.kubernetes.io/pid-pressure", "NoSchedule"),
    ("node.kubernetes.io/unschedulable", "NoSchedule"),
)
_TOLERATIONS = [{"key": key, "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]


class DaemonSets:
    """Every DaemonSet of one cluster."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self._queue = Queue(
            world.engine,
            f"{COMPONENT} of {cluster.store.name}",
            self.reconcile,
            lambda: world.timings.draw("daemonset.step"),
        )
        cluster.on(APPS, "DaemonSet", self._hear)
        cluster.on("v1", "Pod", self._hear_pod)
        cluster.on("v1", "Node", self._hear_node)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_pod(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "DaemonSet":
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    def _hear_node(self, change: Change) -> None:
        if change.type == "MODIFIED" and _place(change.old or {}) == _place(change.obj):
            return
        for found in self._cluster.all(APPS, "DaemonSet"):
            self._queue.hear_of(found)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a DaemonSet: pods made, taken away, rolled, counted."""
        found = self._cluster.find(APPS, "DaemonSet", namespace, name)
        if found is None or terminating(found):
            return
        nodes = {
            node["metadata"]["name"]: node
            for node in self._cluster.all("v1", "Node")
            if not terminating(node) and fits(found, node)
        }
        self._clear(found, nodes)
        self._fill(found, nodes)
        self._roll(found)
        self._count(found, len(nodes))

    def _clear(self, found: Obj, nodes: dict[str, Obj]) -> None:
        """Take away the pods of nodes that do not fit any more, and those that failed."""
        for pod in workloads.pods_of(self._cluster, found):
            where = deep(pod, "spec", "nodeName")
            failed = deep(pod, "status", "phase") == "Failed"
            if not terminating(pod) and (failed or where not in nodes):
                workloads.drop_pod(self._cluster, found, pod, COMPONENT)

    def _fill(self, found: Obj, nodes: dict[str, Obj]) -> None:
        held = {deep(pod, "spec", "nodeName") for pod in workloads.pods_of(self._cluster, found)}
        spec = deep(found, "spec", "template", "spec") or {}
        tolerations = [*nodefit.listed(spec.get("tolerations")), *_TOLERATIONS]
        mark = {HASH: workloads.template_hash(found)}
        for name in nodes:
            if name in held:
                continue
            made = workloads.make_pod(
                self._cluster, found, COMPONENT, mark=mark, nodeName=name, tolerations=tolerations
            )
            if not made:
                delay = self._world.timings.draw("daemonset.retry")
                self._queue.add(found["metadata"]["namespace"], found["metadata"]["name"], delay)
                return

    def _roll(self, found: Obj) -> None:
        """Replace pods of an older template, no more at a time than may be unavailable."""
        strategy = found["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return
        mark = {HASH: workloads.template_hash(found)}
        mine = workloads.pods_of(self._cluster, found)
        old = [p for p in mine if not workloads.has_mark(p, mark) and not terminating(p)]
        if not old:
            return
        most = _amount(deep(strategy, "rollingUpdate", "maxUnavailable"), len(mine))
        for pod in [p for p in old if not workloads.is_ready(p)]:
            workloads.drop_pod(self._cluster, found, pod, COMPONENT)
        down = sum(1 for p in mine if not workloads.is_ready(p))
        for pod in [p for p in old if workloads.is_ready(p)][: max(0, most - down)]:
            workloads.drop_pod(self._cluster, found, pod, COMPONENT)

    def _count(self, found: Obj, wanted: int) -> None:
        mine = workloads.pods_of(self._cluster, found)
        mark = {HASH: workloads.template_hash(found)}
        ready = sum(1 for pod in mine if workloads.is_ready(pod))
        status = {
            "currentNumberScheduled": min(wanted, len(mine)),
            "desiredNumberScheduled": wanted,
            "numberAvailable": ready,
            "numberMisscheduled": 0,
            "numberReady": ready,
            "numberUnavailable": max(0, wanted - ready),
            "observedGeneration": found["metadata"].get("generation", 1),
            "updatedNumberScheduled": sum(1 for pod in mine if workloads.has_mark(pod, mark)),
        }
        kept = {key: value for key, value in status.items() if value or key not in _OMITTED}
        if found.get("status") != kept:
            self._cluster.status(
                found, lambda stored: stored.update(status=kept), manager=workloads.MANAGER
            )


_OMITTED = ("numberAvailable", "numberUnavailable", "updatedNumberScheduled")


def fits(found: Obj, node: Obj) -> bool:
    """Whether a DaemonSet's pod belongs on a node."""
    spec = deep(found, "spec", "template", "spec") or {}
    tolerations = [*nodefit.listed(spec.get("tolerations")), *_TOLERATIONS]
    return nodefit.selects(spec, node) and nodefit.tolerates(tolerations, node)


def _place(node: Obj) -> tuple[object, object]:
    """What of a node decides whether pods belong there."""
    if not node:
        return None, None
    return labels_of(node), deep(node, "spec", "taints")


def _amount(value: object, total: int) -> int:
    """``maxUnavailable`` as a number of pods: a count or a share, at least one."""
    text = str(value if value is not None else 1)
    if text.endswith("%") and text[:-1].isdigit():
        return max(1, -(-total * int(text[:-1]) // 100))
    return max(1, int(text)) if text.isdigit() else 1
