"""Cluster API's Machine controller and the Talos bootstrap provider (objects.md section 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import conditions
from harness.twin.world.capi import MANAGER
from harness.twin.world.conditions import Condition
from harness.twin.world.objects import (
    BOOTSTRAP,
    CAPI,
    INFRA,
    Obj,
    controller_of,
    deep,
    encode,
    meta,
    owner,
    rfc3339,
    terminating,
)
from harness.twin.world.pool_chart import CLUSTER_NAME
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

FINALIZER = "machine.cluster.x-k8s.io"
PROVIDER = "kubevirt://"
_TALOS = "talos-bootstrap-controller"


class Machines:
    """The Machine controller: from bootstrap data to nodeRef, and back on deletion."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._queue = Queue(
            world.engine, "machine", self.reconcile, lambda: world.timings.draw("capi.step")
        )
        world.revisit_when_resumed(CAPI, "Machine", self._queue)
        self._cluster.on(CAPI, "Machine", self._hear)
        for api_version, kind in ((BOOTSTRAP, "TalosConfig"), (INFRA, "KubevirtMachine")):
            # the three share one name
            self._cluster.on(api_version, kind, self._queue.hear)
        for tenant in world.tenant_clusters.values():
            tenant.on("v1", "Node", self._hear_node)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_node(self, change: Change) -> None:
        """A Node came, went, or became something else: heartbeats are not news."""
        if change.old is not None and change.type == "MODIFIED":
            before, after = change.old, change.obj
            if _node_facts(before) == _node_facts(after):
                return
        # Machine and Node share a name through the VM
        for machine in self._cluster.all(CAPI, "Machine"):
            if machine["metadata"]["name"] == change.obj["metadata"]["name"]:
                self._queue.hear_of(machine)

    # -- coming up

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a Machine."""
        machine = self._cluster.find(CAPI, "Machine", namespace, name)
        if machine is None or self._world.is_paused(machine):
            return
        if terminating(machine):
            self._take_down(machine)
            return
        if FINALIZER not in (machine["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(machine, FINALIZER, manager=MANAGER)
            return
        config, infrastructure = _parts_of(self._world, machine)
        for part in (config, infrastructure):
            if part is not None:
                self._adopt(part, machine)
        self._fill(machine, config, infrastructure)
        node = self._node(machine)
        if node is not None and not deep(machine, "status", "nodeRef"):
            seconds = self._world.timings.draw("capi.node-ref")
            uid = machine["metadata"]["uid"]
            self._work.start(f"ref {uid}", seconds, lambda: self._refer(machine))
        self._report(machine, config, infrastructure, node)

    def _adopt(self, part: Obj, machine: Obj) -> None:
        if controller_of(part).get("uid") == machine["metadata"]["uid"] or terminating(part):
            return
        self._cluster.edit(
            part,
            lambda stored: stored["metadata"].update(ownerReferences=[owner(machine)]),
            manager=MANAGER,
        )

    def _fill(self, machine: Obj, config: Obj | None, infrastructure: Obj | None) -> None:
        secret = deep(config or {}, "status", "dataSecretName")
        provider = deep(infrastructure or {}, "spec", "providerID")

        def change(stored: Obj) -> None:
            if secret:
                stored["spec"]["bootstrap"]["dataSecretName"] = secret
            if provider:
                stored["spec"]["providerID"] = provider

        self._cluster.edit(machine, change, manager=MANAGER)

    def _tenant(self, machine: Obj) -> Cluster | None:
        return self._world.tenant_of(deep(machine, "spec", "clusterName") or "")

    def _node(self, machine: Obj) -> Obj | None:
        """The Node that carries the Machine's provider id."""
        tenant = self._tenant(machine)
        if tenant is None:
            return None
        node = tenant.find("v1", "Node", "", machine["metadata"]["name"])
        expected = f"{PROVIDER}{machine['metadata']['name']}"
        return node if node and deep(node, "spec", "providerID") == expected else None

    def _refer(self, machine: Obj) -> None:
        current = self._cluster.current(machine)
        node = self._node(machine)
        if current is None or node is None:
            return
        reference = {
            "apiVersion": "v1",
            "kind": "Node",
            "name": node["metadata"]["name"],
            "uid": node["metadata"]["uid"],
        }
        self._cluster.status(
            current, lambda stored: stored["status"].update(nodeRef=reference), manager=MANAGER
        )
        text = f"set machine's noderef to {node['metadata']['name']}"
        self._cluster.events.normal(current, "SuccessfulSetNodeRef", text, "machine-controller")
        tenant = self._tenant(machine)
        if tenant is not None:
            notes = _node_annotations(current)
            tenant.edit(
                node,
                lambda stored: stored["metadata"].setdefault("annotations", {}).update(notes),
                manager=MANAGER,
            )

    def _report(
        self, machine: Obj, config: Obj | None, infrastructure: Obj | None, node: Obj | None
    ) -> None:
        booted = bool(deep(config or {}, "status", "ready"))
        provided = bool(deep(infrastructure or {}, "status", "ready"))
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            referred = bool(status.get("nodeRef"))
            status |= {
                "bootstrapReady": booted,
                "infrastructureReady": provided,
                "observedGeneration": stored["metadata"]["generation"],
            }
            addresses = deep(infrastructure or {}, "status", "addresses")
            if addresses:
                status["addresses"] = addresses
            if node is not None and referred:
                status["nodeInfo"] = deep(node, "status", "nodeInfo")
            before = status.get("phase")
            status["phase"] = _phase(stored, booted=booted, provided=provided)
            if status["phase"] != before:
                status["lastUpdated"] = rfc3339(now)
            found = _states(booted=booted, provided=provided, referred=referred, node=node)
            conditions.write(stored, now, *found)

        self._cluster.status(machine, change, manager=MANAGER)

    # -- going away

    def _take_down(self, machine: Obj) -> None:
        """Drain, delete the VM, the bootstrap, the Node: in this order, one at a time."""
        self._mark_deleting(machine)
        config, infrastructure = _parts_of(self._world, machine)
        tenant = self._tenant(machine)
        node = tenant.find("v1", "Node", "", machine["metadata"]["name"]) if tenant else None
        uid = machine["metadata"]["uid"]
        drained = conditions.holds(machine, "DrainingSucceeded") or infrastructure is None
        if tenant is not None and node is not None and not drained:
            self._drain(tenant, node)
            seconds = self._world.timings.draw("node.drain")
            self._work.start(f"drain {uid}", seconds, lambda: self._drained(machine))
            return
        if infrastructure is not None:
            self._cluster.delete(infrastructure, manager=MANAGER)
            return
        if config is not None:
            self._cluster.delete(config, manager=MANAGER)
            return
        if node is not None and tenant is not None:
            tenant.delete(node, manager=MANAGER)
        self._cluster.drop_finalizer(machine, FINALIZER, manager=MANAGER)

    def _mark_deleting(self, machine: Obj) -> None:
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            if status.get("phase") != "Deleting":
                status |= {"phase": "Deleting", "lastUpdated": rfc3339(now)}
            conditions.write(stored, now, conditions.false("NodeHealthy", "Deleting", "", "Info"))

        self._cluster.status(machine, change, manager=MANAGER)

    def _drain(self, tenant: Cluster, node: Obj) -> None:
        tenant.edit(node, lambda stored: stored["spec"].update(unschedulable=True), manager=MANAGER)
        for pod in tenant.all("v1", "Pod"):
            ours = deep(pod, "spec", "nodeName") == node["metadata"]["name"]
            if ours and controller_of(pod).get("kind") != "DaemonSet":
                tenant.delete(pod, manager=MANAGER)

    def _drained(self, machine: Obj) -> None:
        self._cluster.conditions(machine, conditions.true("DrainingSucceeded"), manager=MANAGER)


class TalosBootstrap:
    """Writes the machine config of each TalosConfig into a Secret (CABPT)."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._queue = Queue(
            world.engine, "talosconfig", self.reconcile, lambda: world.timings.draw("capi.step")
        )
        world.revisit_when_resumed(BOOTSTRAP, "TalosConfig", self._queue)
        self._cluster.on(BOOTSTRAP, "TalosConfig", self._hear)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a TalosConfig."""
        config = self._cluster.find(BOOTSTRAP, "TalosConfig", namespace, name)
        if config is None or terminating(config) or deep(config, "status", "ready"):
            return
        if self._world.is_paused(config):
            return
        if controller_of(config).get("kind") != "Machine":
            return  # nobody owns it yet
        if not self._world.infrastructure_ready(config):
            text = "the cluster's infrastructure is not ready"
            waiting = conditions.false(
                "DataSecretAvailable", "WaitingForClusterInfrastructure", text, "Info"
            )
            self._cluster.conditions(config, waiting, manager=_TALOS)
            self._queue.add(namespace, name, 5.0)
            return
        seconds = self._world.timings.draw("bootstrap.secret")
        uid = config["metadata"]["uid"]
        self._work.start(uid, seconds, lambda: self._generate(config))

    def _generate(self, config: Obj) -> None:
        current = self._cluster.current(config)
        if current is None or terminating(current):
            return
        metadata = current["metadata"]
        name = f"{metadata['name']}-bootstrap-data"
        cluster = (metadata.get("labels") or {}).get(CLUSTER_NAME, "")
        secret = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta(
                name,
                metadata["namespace"],
                labels={CLUSTER_NAME: cluster},
                ownerReferences=[owner(current)],
            ),
            "type": "cluster.x-k8s.io/secret",
            "data": {"value": encode(deep(current, "spec", "data") or "")},
        }
        self._cluster.store.apply(secret, manager=_TALOS)
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status |= {"ready": True, "dataSecretName": name}
            status["observedGeneration"] = stored["metadata"]["generation"]
            good = [conditions.true(kind) for kind in ("DataSecretAvailable", "Ready")]
            conditions.write(stored, now, *good)

        self._cluster.status(current, change, manager=_TALOS)


def _node_facts(node: Obj) -> list[object]:
    return [
        conditions.find(node, "Ready").get("status"),
        deep(node, "spec", "providerID"),
        deep(node, "status", "nodeInfo"),
        terminating(node),
    ]


def _node_annotations(machine: Obj) -> dict[str, str]:
    metadata = machine["metadata"]
    reference = controller_of(machine)
    return {
        "cluster.x-k8s.io/cluster-name": deep(machine, "spec", "clusterName"),
        "cluster.x-k8s.io/cluster-namespace": metadata["namespace"],
        "cluster.x-k8s.io/machine": metadata["name"],
        "cluster.x-k8s.io/owner-kind": reference.get("kind", ""),
        "cluster.x-k8s.io/owner-name": reference.get("name", ""),
    }


def _phase(machine: Obj, *, booted: bool, provided: bool) -> str:
    if deep(machine, "status", "nodeRef"):
        return "Running"
    if provided:
        return "Provisioned"
    return "Provisioning" if booted else "Pending"


def _states(*, booted: bool, provided: bool, referred: bool, node: Obj | None) -> list[Condition]:
    found = [
        conditions.true("BootstrapReady")
        if booted
        else conditions.false("BootstrapReady", "WaitingForDataSecret", "", "Info"),
        conditions.true("InfrastructureReady")
        if provided
        else conditions.false("InfrastructureReady", "WaitingForInfrastructure", "", "Info"),
        _node_health(node, referred=referred),
    ]
    worst = next((c for c in found if c.status != "True"), None)
    ready = (
        conditions.true("Ready")
        if worst is None
        else Condition("Ready", worst.status, worst.reason, worst.message, worst.severity)
    )
    return [ready, *found]


def _node_health(node: Obj | None, *, referred: bool) -> Condition:
    if not referred:
        return conditions.false("NodeHealthy", "WaitingForNodeRef", "", "Info")
    if node is None:
        return conditions.false("NodeHealthy", "NodeNotFound", "", "Error")
    ready = conditions.find(node, "Ready")
    if ready.get("status") == "True":
        return conditions.true("NodeHealthy")
    text = f"Condition Ready on node is reporting status {ready.get('status', 'Unknown')}."
    if ready.get("status") == "Unknown" or not ready:
        return conditions.unknown("NodeHealthy", "NodeConditionsFailed", text)
    return conditions.false("NodeHealthy", "NodeConditionsFailed", text, "Warning")


def _parts_of(world: World, machine: Obj) -> tuple[Obj | None, Obj | None]:
    """A Machine's TalosConfig and KubevirtMachine, as they are now."""
    cluster, namespace = world.cluster, machine["metadata"]["namespace"]
    config = deep(machine, "spec", "bootstrap", "configRef") or {}
    infrastructure = deep(machine, "spec", "infrastructureRef") or {}
    return (
        cluster.find(config["apiVersion"], config["kind"], namespace, config["name"])
        if config
        else None,
        cluster.find(INFRA, "KubevirtMachine", namespace, infrastructure.get("name", "")),
    )
