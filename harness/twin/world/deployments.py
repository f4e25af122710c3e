"""The Deployment controller of a tenant cluster: a ReplicaSet for each template, and its pods.

Kept simple: a changed template replaces the pods at once, as ``Recreate`` would.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions, pods, workloads
from harness.twin.world.objects import Obj, controller_of, deep, meta, owner, terminating
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

APPS = "apps/v1"
COMPONENT = "replicaset-controller"
HASH = "pod-template-hash"


class TenantDeployments:
    """Every Deployment of one tenant cluster."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._world = world
        self._cluster = cluster
        self._queue = Queue(
            world.engine,
            f"deployment-controller of {cluster.store.name}",
            self.reconcile,
            lambda: world.timings.draw("daemonset.step"),
        )
        cluster.on(APPS, "Deployment", self._hear)
        cluster.on("v1", "Pod", self._hear_pod)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_pod(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "ReplicaSet":
            namespace = change.obj["metadata"]["namespace"]
            found = self._cluster.find(APPS, "ReplicaSet", namespace, reference["name"])
            if found is not None:
                self._queue.add(namespace, controller_of(found).get("name", ""))

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a Deployment."""
        found = self._cluster.find(APPS, "Deployment", namespace, name)
        if found is None or terminating(found):
            return
        try:
            current = self._set_of(found)
        except ApiError:
            return  # its namespace is going away, and it with it
        for one in self._sets(found):
            if one["metadata"]["uid"] != current["metadata"]["uid"]:
                self._cluster.delete(one, manager=workloads.MANAGER)
        self._fill(found, current)
        self._count(found, current)

    def _sets(self, found: Obj) -> list[Obj]:
        mine = self._cluster.all(APPS, "ReplicaSet", found["metadata"]["namespace"])
        uid = found["metadata"]["uid"]
        return [one for one in mine if controller_of(one).get("uid") == uid]

    def _set_of(self, found: Obj) -> Obj:
        mark = {HASH: workloads.template_hash(found)}
        for one in self._sets(found):
            if workloads.has_mark(one, mark) and not terminating(one):
                return one
        metadata, template = found["metadata"], found["spec"].get("template") or {}
        given = deep(template, "metadata", "labels")
        labels = {**(given if isinstance(given, dict) else {}), **mark}
        made = {
            "apiVersion": APPS,
            "kind": "ReplicaSet",
            "metadata": meta(
                f"{metadata['name']}-{mark[HASH]}",
                metadata["namespace"],
                labels=labels,
                ownerReferences=[owner(found)],
            ),
            "spec": {
                "replicas": _replicas(found),
                "selector": {"matchLabels": labels},
                "template": template,
            },
        }
        return self._cluster.create(made, manager=workloads.MANAGER)

    def _fill(self, found: Obj, current: Obj) -> None:
        wanted = _replicas(found)
        mark = {HASH: workloads.template_hash(found)}
        alive = [
            pod
            for pod in workloads.pods_of(self._cluster, current)
            if not terminating(pod) and not pods.finished(pod)
        ]
        for pod in alive[wanted:]:
            workloads.drop_pod(self._cluster, current, pod, COMPONENT)
        for _ in range(wanted - len(alive)):
            if not workloads.make_pod(self._cluster, current, COMPONENT, mark=mark):
                delay = self._world.timings.draw("daemonset.retry")
                self._queue.add(found["metadata"]["namespace"], found["metadata"]["name"], delay)
                return

    def _count(self, found: Obj, current: Obj) -> None:
        wanted = _replicas(found)
        mine = [p for p in workloads.pods_of(self._cluster, current) if not terminating(p)]
        ready = sum(1 for pod in mine if workloads.is_ready(pod))
        counts: Obj = {
            "replicas": len(mine),
            "updatedReplicas": len(mine),
            "readyReplicas": ready,
            "availableReplicas": ready,
            "unavailableReplicas": max(0, wanted - ready),
        }
        good = ready >= wanted
        state = conditions.Condition(
            "Available",
            "True" if good else "False",
            "MinimumReplicasAvailable" if good else "MinimumReplicasUnavailable",
            f"Deployment {'has' if good else 'does not have'} minimum availability.",
        )
        generation = found["metadata"].get("generation", 1)

        def change(stored: Obj) -> None:
            status = {key: value for key, value in counts.items() if value}
            status["observedGeneration"] = generation
            kept = deep(stored, "status", "conditions")
            stored["status"] = status | ({"conditions": kept} if kept else {})
            conditions.write(stored, self._world.engine.now, state)

        self._cluster.status(found, change, manager=workloads.MANAGER)
        self._count_set(current, counts)

    def _count_set(self, current: Obj, counts: Obj) -> None:
        status = {key: counts[key] for key in ("replicas", "readyReplicas", "availableReplicas")}
        self._cluster.status(
            current, lambda stored: stored.update(status=status), manager=workloads.MANAGER
        )


def _replicas(found: Obj) -> int:
    wanted = found["spec"].get("replicas")
    return wanted if isinstance(wanted, int) else 1
