"""The EndpointSlices of a tenant cluster: for each Service with a selector, one with its pods.

Rules: Kubernetes' endpointslice controller; kept small: one slice for each Service, whatever its
size, and port numbers as the Service names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions, pods
from harness.twin.world.objects import Obj, deep, digest, labels_of, meta, owner, terminating
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

DISCOVERY = "discovery.k8s.io/v1"
SERVICE_NAME = "kubernetes.io/service-name"
_MANAGED_BY = "endpointslice.kubernetes.io/managed-by"
_MANAGER = "kube-controller-manager"


class EndpointSlices:
    """Every EndpointSlice of one cluster."""

    def __init__(self, world: World, cluster: Cluster) -> None:
        self._cluster = cluster
        self._queue = Queue(
            world.engine,
            f"endpointslice-controller of {cluster.store.name}",
            self.reconcile,
            lambda: world.timings.draw("endpoints.step"),
        )
        cluster.on("v1", "Service", self._hear)
        cluster.on("v1", "Pod", self._hear_pod)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED" and deep(change.obj, "spec", "selector"):
            self._queue.hear(change)

    def _hear_pod(self, change: Change) -> None:
        pod = change.obj
        if change.type == "MODIFIED" and _served(change.old or {}) == _served(pod):
            return
        for service in self._cluster.all("v1", "Service", pod["metadata"]["namespace"]):
            if _selects(service, pod):
                self._queue.hear_of(service)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a Service."""
        service = self._cluster.find("v1", "Service", namespace, name)
        if service is None or terminating(service):
            return
        mine = [pod for pod in self._cluster.all("v1", "Pod", namespace) if _selects(service, pod)]
        endpoints = [_endpoint(pod) for pod in mine if deep(pod, "status", "podIP")]
        ports = [
            {"name": one.get("name", ""), "port": one["port"], "protocol": one["protocol"]}
            for one in deep(service, "spec", "ports") or ()
        ]
        self._write(service, {"endpoints": endpoints, "ports": ports})

    def _write(self, service: Obj, content: Obj) -> None:
        metadata = service["metadata"]
        name = f"{metadata['name']}-{digest(metadata['uid'])[:5]}"
        found = self._cluster.find(DISCOVERY, "EndpointSlice", metadata["namespace"], name)
        if found is None:
            labels = {
                SERVICE_NAME: metadata["name"],
                _MANAGED_BY: "endpointslice-controller.k8s.io",
            }
            made = meta(
                name, metadata["namespace"], labels=labels, ownerReferences=[owner(service)]
            )
            obj = {"apiVersion": DISCOVERY, "kind": "EndpointSlice", "metadata": made}
            self._cluster.create({**obj, "addressType": "IPv4", **content}, manager=_MANAGER)
        elif {key: found.get(key) for key in content} != content:
            self._cluster.edit(found, lambda stored: stored.update(content), manager=_MANAGER)


def ready_addresses(cluster: Cluster, namespace: str, service: str) -> list[str]:
    """The addresses behind a Service that are ready."""
    return [
        address
        for one in cluster.all(DISCOVERY, "EndpointSlice", namespace)
        if labels_of(one).get(SERVICE_NAME) == service
        for endpoint in one.get("endpoints") or ()
        if deep(endpoint, "conditions", "ready")
        for address in endpoint["addresses"]
    ]


def _selects(service: Obj, pod: Obj) -> bool:
    selector = deep(service, "spec", "selector") or {}
    labels = labels_of(pod)
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def _served(pod: Obj) -> tuple[object, ...]:
    ready = conditions.holds(pod, "Ready") if pod else False
    return deep(pod, "status", "podIP"), ready, terminating(pod) if pod else False


def _endpoint(pod: Obj) -> Obj:
    gone = terminating(pod) or pods.finished(pod)
    serving = conditions.holds(pod, "Ready")
    metadata = pod["metadata"]
    return {
        "addresses": [pod["status"]["podIP"]],
        "conditions": {"ready": serving and not gone, "serving": serving, "terminating": gone},
        "nodeName": pod["spec"].get("nodeName", ""),
        "targetRef": {
            "kind": "Pod",
            "namespace": metadata["namespace"],
            "name": metadata["name"],
            "uid": metadata["uid"],
        },
    }
