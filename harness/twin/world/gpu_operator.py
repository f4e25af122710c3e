"""NVIDIA's GPU operator in a tenant cluster: node labels, DaemonSets, the policy's status.

GPO v26.3.1 ``controllers/{clusterpolicy_controller,state_manager,object_controls}.go``. It acts
while a pod of its Deployment is available. A DaemonSet is written again only when what the policy
asks of it has changed, which the operator tells by a hash in an annotation: an edit with kubectl
stays until then.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions, gpu_operands
from harness.twin.world.gpu_chart import NVIDIA, OPERATOR
from harness.twin.world.gpu_features import NFD_PREFIX, FeatureDiscovery, NodeFeatures
from harness.twin.world.gpu_operands import HASH, Operand
from harness.twin.world.gpu_plugin import DevicePlugins, HamiPlugins, await_toolkit
from harness.twin.world.gpu_validator import CUDA_VALIDATOR, CudaWorkload, DriverGate, Validator
from harness.twin.world.kubernetes_chart import GPU_NAMESPACE
from harness.twin.world.objects import (
    Obj,
    annotations_of,
    controller_of,
    deep,
    labels_of,
    owner,
    terminating,
)
from harness.twin.world.passages import Passage, Player
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.tenant import Workers
    from harness.twin.world.world import World

APPS = "apps/v1"
MANAGER = "gpu-operator"
PRESENT = "nvidia.com/gpu.present"
_OPERANDS = "nvidia.com/gpu.deploy.operands"
_HAS_GPU = tuple(f"{NFD_PREFIX}pci-{one}.present" for one in ("10de", "0302_10de", "0300_10de"))
_DEPLOY = (
    "driver",
    "gpu-feature-discovery",
    "container-toolkit",
    "device-plugin",
    "dcgm",
    "dcgm-exporter",
    "node-status-exporter",
    "operator-validator",
)
_STATE_LABELS = {f"nvidia.com/gpu.deploy.{one}": "true" for one in _DEPLOY}
_READY = "ClusterPolicy is ready as all resources have been successfully reconciled"
_NO_NODES = "No GPU node found, watching for new nodes to join the cluster."
_NO_NFD = "No NFD labels found"


class GpuOperator:
    """The operator of one tenant cluster, and what plays its operands' pods."""

    def __init__(self, world: World, workers: Workers) -> None:
        self._world = world
        self._cluster = workers.cluster
        self._queue = Queue(
            world.engine,
            f"{MANAGER} of {self._cluster.store.name}",
            self.reconcile,
            lambda: world.timings.draw("operator.step"),
        )
        self._cluster.on(NVIDIA, "ClusterPolicy", self._hear)
        self._cluster.on("v1", "Node", self._hear_node)
        self._cluster.on(APPS, "DaemonSet", self._hear_operand)
        self._cluster.on(APPS, "Deployment", self._hear_deployment)
        self.features = NodeFeatures(world, workers)
        self.hami = HamiPlugins(world, workers)
        workers.drivers |= {
            gpu_operands.VALIDATOR: Validator(world, workers),
            CUDA_VALIDATOR: CudaWorkload(world, workers),
            gpu_operands.DEVICE_PLUGIN: DevicePlugins(world, workers),
            gpu_operands.FEATURES: FeatureDiscovery(world, workers),
            gpu_operands.EXPORTER: Exporter(world, workers),
            gpu_operands.DRIVER: DriverContainer(world, workers),
            gpu_operands.TOOLKIT: DriverGate(world, workers),
        }

    # -- what wakes it

    def _hear(self, change: Change) -> None:
        before = (change.old or {"metadata": {}})["metadata"].get("generation")
        if change.type == "DELETED":
            self._all()
        elif change.obj["metadata"].get("generation") != before:
            self._queue.hear(change)

    def _hear_node(self, change: Change) -> None:
        before, after = labels_of(change.old) if change.old else {}, labels_of(change.obj)
        if change.type != "MODIFIED" or _told(before) != _told(after):
            self._all()

    def _hear_operand(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "ClusterPolicy":
            self._queue.add("", reference["name"])

    def _hear_deployment(self, change: Change) -> None:
        metadata = change.obj["metadata"]
        if (metadata["namespace"], metadata["name"]) == (GPU_NAMESPACE, OPERATOR):
            self._all()

    def _all(self) -> None:
        if self._runs():
            for policy in self._cluster.all(NVIDIA, "ClusterPolicy"):
                self._queue.hear_of(policy)

    def _runs(self) -> bool:
        found = self._cluster.find(APPS, "Deployment", GPU_NAMESPACE, OPERATOR)
        return bool(deep(found or {}, "status", "availableReplicas"))

    # -- one look

    def reconcile(self, _: str, name: str) -> None:
        """Label the nodes, bring the operands about, say how it stands."""
        policy = self._cluster.find(NVIDIA, "ClusterPolicy", "", name)
        if policy is None or terminating(policy) or not self._runs():
            return
        if self._cluster.all(NVIDIA, "ClusterPolicy")[0]["metadata"]["name"] != name:
            # there is one policy to a cluster: the first
            ignored = {"state": "ignored", "namespace": GPU_NAMESPACE}
            self._cluster.status(policy, lambda s: s.update(status=ignored), manager=MANAGER)
            return
        nodes = [self._labelled(node) for node in self._cluster.all("v1", "Node")]
        with_gpu = any(labels_of(node).get(PRESENT) == "true" for node in nodes)
        with_nfd = any(key.startswith(NFD_PREFIX) for node in nodes for key in labels_of(node))
        try:
            self._runtime_class(policy)
            waiting = self._operands(policy, with_gpu=with_gpu)
        except ApiError as refused:
            self._say(policy, "ReconcileFailed", refused.message, ready=False)
            self._queue.add("", name, self._world.timings.draw("operator.retry"))
            return
        if waiting:
            text = f"ClusterPolicy is not ready, states not ready: [{' '.join(waiting)}]"
            self._say(policy, "OperandNotReady", text, ready=False)
        elif not with_nfd:
            self._say(policy, "NFDLabelsMissing", _NO_NFD, ready=True)
        elif not with_gpu:
            self._say(policy, "NoGPUNodes", _NO_NODES, ready=True)
        else:
            self._say(policy, "Reconciled", _READY, ready=True)

    def _labelled(self, node: Obj) -> Obj:
        """A node with the labels that its cards, or their absence, ask for."""
        labels = labels_of(node)
        wanted = dict(labels)
        if any(labels.get(key) == "true" for key in _HAS_GPU):
            wanted[PRESENT] = "true"
            wanted |= {k: v for k, v in _STATE_LABELS.items() if k not in wanted}
            if wanted.get(_OPERANDS) == "false":
                wanted = {k: v for k, v in wanted.items() if k not in _STATE_LABELS}
        elif labels.get(PRESENT) == "true":
            wanted = {k: v for k, v in wanted.items() if k not in _STATE_LABELS}
            wanted[PRESENT] = "false"
        if wanted == labels:
            return node
        changed = self._cluster.edit(
            node, lambda stored: stored["metadata"].update(labels=wanted), manager=MANAGER
        )
        return changed or node

    def _runtime_class(self, policy: Obj) -> None:
        name = deep(policy, "spec", "operator", "runtimeClass") or "nvidia"
        if self._cluster.find("node.k8s.io/v1", "RuntimeClass", "", name) is None:
            made = {
                "apiVersion": "node.k8s.io/v1",
                "kind": "RuntimeClass",
                "metadata": {
                    "name": name,
                    "labels": {"app.kubernetes.io/component": OPERATOR},
                    "ownerReferences": [owner(policy)],
                },
                "handler": name,
            }
            self._cluster.create(made, manager=MANAGER)

    def _operands(self, policy: Obj, *, with_gpu: bool) -> list[str]:
        """Bring every DaemonSet about; the states that are not ready."""
        return [
            operand.state
            for operand in gpu_operands.operands(policy.get("spec") or {}, GPU_NAMESPACE)
            if not self._brought_about(policy, operand, with_gpu=with_gpu)
        ]

    def _brought_about(self, policy: Obj, operand: Operand, *, with_gpu: bool) -> bool:
        found = self._cluster.find(APPS, "DaemonSet", GPU_NAMESPACE, operand.name)
        if operand.manifest is None:
            if found is not None:
                self._cluster.delete(found, manager=MANAGER)
            return True
        if not with_gpu:
            return True  # nothing is made, and nothing is waited for
        if (
            found is None
            or annotations_of(found).get(HASH) != annotations_of(operand.manifest)[HASH]
        ):
            manifest = operand.manifest
            metadata = {**manifest["metadata"], "ownerReferences": [owner(policy)]}
            found = self._cluster.store.apply({**manifest, "metadata": metadata}, manager=MANAGER)
        return not deep(found, "status", "numberUnavailable")

    def _say(self, policy: Obj, reason: str, text: str, *, ready: bool) -> None:
        """Status as the operator's condition updater writes it: of Ready and Error one is True."""
        if ready:
            told = (conditions.true("Ready", reason, text), conditions.false("Error", "Ready"))
        else:
            told = (conditions.false("Ready", "Error"), conditions.true("Error", reason, text))
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status |= {"namespace": GPU_NAMESPACE, "state": "ready" if ready else "notReady"}
            conditions.write(stored, now, *told, metav1=True)

        self._cluster.status(policy, change, manager=MANAGER)

    def adopt(self) -> None:
        """How the policy stands at the start: written by an operator whose nodes have left."""
        for policy in self._cluster.all(NVIDIA, "ClusterPolicy"):
            self._say(policy, "NFDLabelsMissing", _NO_NFD, ready=True)


def _told(labels: Mapping[str, str]) -> dict[str, str]:
    """What of a node's labels the operator acts on."""
    return {
        key: value
        for key, value in labels.items()
        if key.startswith((NFD_PREFIX, PRESENT, "nvidia.com/gpu.deploy."))
    }


class Exporter(Player):
    """Plays the pods of the DCGM exporter: they serve metrics that nobody can read here."""

    def programs(self) -> Mapping[str, Callable[[Passage], None]]:
        """It waits for the validator's toolkit stage."""
        return {"toolkit-validation": await_toolkit}


class DriverContainer(Player):
    """Plays the pods that would install a driver: on Talos they cannot (S-GPO, faults.md 16)."""

    def main(self, passage: Passage) -> None:
        """Start, find nothing to build a module with, and end, over and over."""
        passage.serve()
        name = "nvidia-driver-ctr"

        def fail() -> None:
            kernel = passage.guest.kernel_version
            passage.say(
                name,
                "========== NVIDIA Software Installer ==========",
                f"Starting installation of NVIDIA driver for Linux kernel version {kernel}",
                f"Could not resolve Linux kernel version {kernel}: no kernel headers",
            )
            passage.crashed(name, lambda: self.main(passage))

        passage.takes("plugin.start", fail, "fails to install a driver")
