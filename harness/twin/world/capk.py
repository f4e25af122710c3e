"""The KubeVirt infrastructure provider: KubevirtMachine to VirtualMachine (objects.md 1 and 5)."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions
from harness.twin.world.conditions import Condition
from harness.twin.world.machines import PROVIDER
from harness.twin.world.objects import (
    CAPI,
    INFRA,
    KUBEVIRT,
    Obj,
    controller_of,
    deep,
    labels_of,
    meta,
    owner,
    terminating,
)
from harness.twin.world.pool_chart import CLUSTER_NAME
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "capk-manager"
FINALIZER = "kubevirtmachine.infrastructure.cluster.x-k8s.io"
CLOUD_INIT = "cloudinitvolume"
_LABEL = "capk.cluster.x-k8s.io/kubevirt-machine"


class KubevirtMachines:
    """The KubevirtMachine controller. KubevirtMachine, VM and VMI share one name."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._queue = Queue(
            world.engine, "kubevirtmachine", self.reconcile, lambda: world.timings.draw("capk.step")
        )
        world.revisit_when_resumed(INFRA, "KubevirtMachine", self._queue)
        self._cluster.on(INFRA, "KubevirtMachine", self._hear)
        for api_version, kind in (
            (CAPI, "Machine"),
            (KUBEVIRT, "VirtualMachine"),
            (KUBEVIRT, "VirtualMachineInstance"),
        ):
            self._cluster.on(api_version, kind, self._hear_other)
        for tenant in world.tenant_clusters.values():
            tenant.on("v1", "Node", self._hear_node)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_other(self, change: Change) -> None:
        metadata = change.obj["metadata"]
        if self._find(metadata["namespace"], metadata["name"]) is not None:
            self._queue.hear(change)

    def _hear_node(self, change: Change) -> None:
        if change.type != "ADDED":
            return
        for machine in self._cluster.all(INFRA, "KubevirtMachine"):
            if machine["metadata"]["name"] == change.obj["metadata"]["name"]:
                self._queue.hear_of(machine)

    def _find(self, namespace: str, name: str) -> Obj | None:
        return self._cluster.find(INFRA, "KubevirtMachine", namespace, name)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a KubevirtMachine."""
        own = self._find(namespace, name)
        if own is None or self._world.is_paused(own):
            return
        machine_vm = self._cluster.find(KUBEVIRT, "VirtualMachine", namespace, name)
        if terminating(own):
            if machine_vm is not None:
                self._cluster.delete(machine_vm, manager=MANAGER)
            else:
                self._cluster.drop_finalizer(own, FINALIZER, manager=MANAGER)
            return
        if FINALIZER not in (own["metadata"].get("finalizers") or ()):
            self._cluster.add_finalizer(own, FINALIZER, manager=MANAGER)
            return
        if machine_vm is None:
            self._provision(own)
        else:
            self._report(own, machine_vm)

    def _provision(self, own: Obj) -> None:
        namespace = own["metadata"]["namespace"]
        reference = controller_of(own)
        if reference.get("kind") != "Machine":
            return
        if not self._world.infrastructure_ready(own):
            self._wait(own, "WaitingForClusterInfrastructure")
            self._queue.add(namespace, own["metadata"]["name"], 5.0)
            return
        machine = self._cluster.find(CAPI, "Machine", namespace, reference["name"])
        secret = deep(machine or {}, "spec", "bootstrap", "dataSecretName")
        if not secret:
            self._wait(own, "WaitingForBootstrapData")
            return
        try:
            self._copy_user_data(own, secret)
            self._cluster.create(self._machine(own, f"{secret}-userdata"), manager=MANAGER)
        except ApiError as refused:
            failed = conditions.false("VMProvisioned", "VMCreateFailed", refused.message, "Error")
            self._cluster.conditions(own, failed, manager=MANAGER)
            self._queue.add(namespace, own["metadata"]["name"], 10.0)

    def _wait(self, own: Obj, reason: str) -> None:
        def change(stored: Obj) -> None:
            stored.setdefault("status", {}).setdefault("ready", False)
            waiting = conditions.false("VMProvisioned", reason, "", "Info")
            conditions.write(stored, self._world.engine.now, waiting)

        self._cluster.status(own, change, manager=MANAGER)

    def _copy_user_data(self, own: Obj, name: str) -> None:
        namespace = own["metadata"]["namespace"]
        source = self._cluster.find("v1", "Secret", namespace, name)
        if source is None:
            raise ApiError(404, f'secrets "{name}" not found')
        copy_of_it = {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": meta(
                f"{name}-userdata",
                namespace,
                labels={CLUSTER_NAME: labels_of(own).get(CLUSTER_NAME, "")},
                ownerReferences=[owner(own)],
            ),
            "type": "cluster.x-k8s.io/secret",
            "data": {"userdata": (source.get("data") or {}).get("value", "")},
        }
        self._cluster.store.apply(copy_of_it, manager=MANAGER)

    def _machine(self, own: Obj, secret: str) -> Obj:
        name, namespace = own["metadata"]["name"], own["metadata"]["namespace"]
        template = deep(own, "spec", "virtualMachineTemplate") or {}
        spec: Obj = copy.deepcopy(template.get("spec") or {})
        names: dict[str, str] = {}
        for disk in spec.get("dataVolumeTemplates") or ():
            names[disk["metadata"]["name"]] = f"{name}-{disk['metadata']['name']}"
            disk["metadata"]["name"] = names[disk["metadata"]["name"]]
        instance = spec["template"]
        for volume in instance["spec"].get("volumes") or ():
            held = volume.get("dataVolume")
            if held:
                held["name"] = names.get(held["name"], held["name"])
        instance["spec"].setdefault("volumes", []).append(
            {"name": CLOUD_INIT, "cloudInitConfigDrive": {"secretRef": {"name": secret}}}
        )
        instance["spec"]["domain"].setdefault("devices", {}).setdefault("disks", []).append(
            {"name": CLOUD_INIT, "disk": {"bus": "virtio"}}
        )
        labels = {**(deep(template, "metadata", "labels") or {}), **labels_of(own)}
        named = {
            "kubevirt.io/vm": name,
            "name": name,
            f"{_LABEL}-name": name,
            f"{_LABEL}-namespace": namespace,
        }
        held_labels = instance.setdefault("metadata", {}).get("labels") or {}
        instance["metadata"]["labels"] = {**labels, **held_labels, **named}
        return {
            "apiVersion": KUBEVIRT,
            "kind": "VirtualMachine",
            # no owner: a VM may live in another cluster than its KubevirtMachine (CAPK)
            "metadata": meta(name, namespace, labels={**labels, **named}),
            "spec": spec,
        }

    def _report(self, own: Obj, machine: Obj) -> None:
        name, namespace = own["metadata"]["name"], own["metadata"]["namespace"]
        instance = self._cluster.find(KUBEVIRT, "VirtualMachineInstance", namespace, name) or {}
        addresses = [
            {"type": "InternalIP", "address": interface["ipAddress"]}
            for interface in deep(instance, "status", "interfaces") or ()
            if interface.get("ipAddress")
        ]
        ready = bool(deep(machine, "status", "ready")) and bool(addresses)
        if ready:
            provider = f"{PROVIDER}{name}"
            self._cluster.edit(
                own, lambda stored: stored["spec"].update(providerID=provider), manager=MANAGER
            )
            self._mark_node(own)
        found = _states(instance, ready=ready)
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status["ready"] = ready
            status.setdefault("nodeupdated", False)
            status.setdefault("loadBalancerConfigured", False)
            if addresses:
                status["addresses"] = [{"type": "Hostname", "address": name}, *addresses]
            conditions.write(stored, now, *found)

        self._cluster.status(own, change, manager=MANAGER)

    def _mark_node(self, own: Obj) -> None:
        """Write the provider id on the Node once it is there (``nodeupdated``)."""
        if deep(own, "status", "nodeupdated") or self._node(own) is None:
            return
        seconds = self._world.timings.draw("capk.provider-id")
        self._work.start(own["metadata"]["uid"], seconds, lambda: self._write_provider(own))

    def _node(self, own: Obj) -> Obj | None:
        tenant = self._world.tenant_of(labels_of(own).get(CLUSTER_NAME, ""))
        return tenant.find("v1", "Node", "", own["metadata"]["name"]) if tenant else None

    def _write_provider(self, own: Obj) -> None:
        tenant = self._world.tenant_of(labels_of(own).get(CLUSTER_NAME, ""))
        node, current = self._node(own), self._cluster.current(own)
        if tenant is None or node is None or current is None:
            return
        provider = f"{PROVIDER}{own['metadata']['name']}"
        tenant.edit(
            node, lambda stored: stored["spec"].update(providerID=provider), manager=MANAGER
        )
        self._cluster.status(
            current, lambda stored: stored["status"].update(nodeupdated=True), manager=MANAGER
        )


def _states(instance: Obj, *, ready: bool) -> list[Condition]:
    if not ready:
        text = "the virtual machine is not running yet"
        return [
            conditions.false("VMProvisioned", "VMNotReady", text, "Info"),
            conditions.false("Ready", "VMNotReady", text, "Info"),
        ]
    # no BootstrapExecSucceeded: with checkStrategy none nobody looks (CAPK)
    found = [conditions.true("VMProvisioned")]
    migratable = conditions.find(instance, "LiveMigratable")
    if migratable.get("status") == "True":
        found.append(conditions.true("VMLiveMigratable"))
    elif migratable:
        reason = migratable.get("reason") or "VMNotLiveMigratable"
        found.append(conditions.false("VMLiveMigratable", reason, "", "Info"))
    return [conditions.true("Ready"), *found]
