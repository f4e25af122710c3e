"""What a tenant's addons do once their pods run: register a CSI driver, serve metrics.

Whether a node plugin is registered, a CSINode says, which the node's kubelet writes; whether the
metrics API is served, the APIService of the aggregation layer, from the endpoints of its Service.
Names: CZ ``packages/system/kubevirt-csi-node``; conditions: kube-aggregator
``pkg/controllers/status``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world import conditions, workloads
from harness.twin.world.addons_chart import CSI_NODE, DRIVER, METRICS_API, REGISTRATION
from harness.twin.world.endpoints import DISCOVERY, SERVICE_NAME, ready_addresses
from harness.twin.world.objects import (
    STORAGE,
    Obj,
    controller_of,
    deep,
    labels_of,
    meta,
    owner,
    rfc3339,
)
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

METRICS = "metrics.k8s.io/v1beta1"
_KUBELET, _AGGREGATOR, _SERVER = "kubelet", "kube-apiserver", "metrics-server"


class Addons:
    """The addons of one tenant cluster."""

    def __init__(self, world: World, workers: Workers) -> None:
        self._world, self._workers, self._cluster = world, workers, workers.cluster
        self._work = Activities(world.engine)
        self._cluster.on("v1", "Node", self._hear_node)
        self._cluster.on("v1", "Pod", self._hear_pod)
        self._cluster.on(REGISTRATION, "APIService", self._hear_service)
        self._cluster.on(DISCOVERY, "EndpointSlice", self._hear_endpoints)

    # -- the CSI driver of a node

    def _hear_node(self, change: Change) -> None:
        node = change.obj
        if change.type == "ADDED":
            name = node["metadata"]["name"]
            self._work.start(f"CSINode {name}", 0.0, partial(self._make_node, node))
        elif change.type == "DELETED":
            found = self._cluster.find("v1", "Node", "", node["metadata"]["name"])
            if found is None:
                self._forget(node["metadata"]["name"])

    def _make_node(self, node: Obj) -> None:
        name = node["metadata"]["name"]
        here = self._cluster.current(node) is not None
        if here and self._cluster.find(STORAGE, "CSINode", "", name) is None:
            made = {
                "apiVersion": STORAGE,
                "kind": "CSINode",
                "metadata": meta(name, ownerReferences=[owner(node, controller=False)]),
                "spec": {"drivers": []},
            }
            self._cluster.create(made, manager=_KUBELET)

    def _forget(self, name: str) -> None:
        found = self._cluster.find(METRICS, "NodeMetrics", "", name)
        if found is not None:
            self._cluster.delete(found, manager=_SERVER)

    def _hear_pod(self, change: Change) -> None:
        pod = change.obj
        if controller_of(pod).get("name") != CSI_NODE:
            return
        node = str(deep(pod, "spec", "nodeName") or "")
        ready = change.type != "DELETED" and workloads.is_ready(pod)
        if ready != (change.old is not None and workloads.is_ready(change.old)) or not ready:
            seconds = self._world.timings.draw("csi.register") if ready else 0.0
            self._work.stop(f"driver of {node}")
            self._work.start(f"driver of {node}", seconds, partial(self._register, node, ready))

    def _register(self, node: str, ready: bool) -> None:  # noqa: FBT001 - as it turned out
        self._work.stop(f"CSINode {node}")
        found = self._cluster.find("v1", "Node", "", node)
        if found is not None:
            self._make_node(found)
        csi = self._cluster.find(STORAGE, "CSINode", "", node)
        has = csi is not None and any(one["name"] == DRIVER for one in csi["spec"]["drivers"])
        if csi is None or has == ready:
            return
        drivers = [{"name": DRIVER, "nodeID": node, "topologyKeys": None}] if ready else []
        self._cluster.edit(csi, lambda stored: stored["spec"].update(drivers=drivers),
                           manager=_KUBELET)  # fmt: skip

    def has_driver(self, node: str) -> bool:
        """Whether a node's kubelet knows the driver."""
        found = self._cluster.find(STORAGE, "CSINode", "", node) or {}
        return any(one["name"] == DRIVER for one in deep(found, "spec", "drivers") or ())

    # -- the metrics API

    def _hear_service(self, change: Change) -> None:
        if change.type == "ADDED":
            self._look_soon(change.obj["metadata"]["name"])

    def _hear_endpoints(self, change: Change) -> None:
        metadata = change.obj["metadata"]
        for service in self._cluster.all(REGISTRATION, "APIService"):
            backend = deep(service, "spec", "service") or {}
            named = labels_of(change.obj).get(SERVICE_NAME)
            if (metadata["namespace"], named) == (backend.get("namespace"), backend.get("name")):
                self._look_soon(service["metadata"]["name"])

    def _look_soon(self, name: str) -> None:
        seconds = self._world.timings.draw("apiservice.step")
        self._work.start(f"APIService {name}", seconds, lambda: self._look(name))

    def _look(self, name: str) -> None:
        service = self._cluster.find(REGISTRATION, "APIService", "", name)
        backend = deep(service or {}, "spec", "service")
        if service is None or not backend:
            return
        place = (str(backend.get("namespace")), str(backend.get("name")))
        if ready_addresses(self._cluster, *place):
            state = conditions.true("Available", "Passed", "all checks passed")
        else:
            text = f'endpoints for service/{place[1]} in "{place[0]}" have no addresses'
            state = conditions.false("Available", "MissingEndpoints", text)
        self._cluster.conditions(service, state, manager=_AGGREGATOR)
        if name == METRICS_API and state.status == "True":
            self._work.start("scrape", self._world.timings.draw("metrics.first"), self._scrape)
        elif name == METRICS_API:
            self._work.stop("scrape")
            for one in self._cluster.all(METRICS, "NodeMetrics"):
                self._cluster.delete(one, manager=_SERVER)

    def _scrape(self) -> None:
        """Ask every kubelet that answers; what one does not tell is not served any longer."""
        for node in self._cluster.all("v1", "Node"):
            name = node["metadata"]["name"]
            if self._workers.guest_of(name) is not None and conditions.holds(node, "Ready"):
                self._tell(node)
            else:
                self._forget(name)
        self._work.start("scrape", self._world.timings.draw("metrics.scrape"), self._scrape)

    def _tell(self, node: Obj) -> None:
        name, now = node["metadata"]["name"], rfc3339(self._world.engine.now)
        usage = {"cpu": "187m", "memory": "612Mi"}
        told: Obj = {"timestamp": now, "window": "15.0s", "usage": usage}
        found = self._cluster.find(METRICS, "NodeMetrics", "", name)
        if found is None:
            made = {"apiVersion": METRICS, "kind": "NodeMetrics", "metadata": meta(name), **told}
            self._cluster.create(made, manager=_SERVER)
        else:
            self._cluster.edit(found, lambda stored: stored.update(told), manager=_SERVER)
