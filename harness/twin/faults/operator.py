"""Faults of the GPU operator in a tenant cluster: its values, its DaemonSets, its helpers."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import NOT_VALIDATED, UNSERVED
from harness.twin.faults.model import GPU_POOLS, Edit, Fault
from harness.twin.faults.requests import MANAGER, TENANT, addons
from harness.twin.world import conditions
from harness.twin.world.chart_behaviour import PLUGIN_ENV, VALIDATOR_ENV
from harness.twin.world.container_runtime import NVIDIA
from harness.twin.world.gpu_chart import NFD
from harness.twin.world.gpu_operands import DEVICE_PLUGIN, PLUGIN_CONTAINER
from harness.twin.world.kubernetes_chart import GPU_NAMESPACE
from harness.twin.world.objects import labels_of
from harness.twin.world.podsecurity import ENFORCE
from harness.twin.world.workload_manifests import daemonset
from harness.twin.world.world import LAB

if TYPE_CHECKING:
    from harness.twin.world.world import World

BEFORE_3585 = "1.6.0"
STRATEGY = "DEVICE_LIST_STRATEGY"
HELPER = "gpu-helper"
NO_INJECTION = frozenset({"cdi-injection", "cuda-runs"})
UNCOVERED = UNSERVED | NOT_VALIDATED | {"operator-default", "operator-live"}


def _listed(env: tuple[tuple[str, str], ...]) -> list[Obj]:
    return [{"name": name, "value": value} for name, value in env]


def _override(**values: Obj) -> Edit:
    """A valuesOverride of the gpu-operator addon; its lists take the place of the chart's."""
    return addons(gpuOperator={"valuesOverride": {"gpu-operator": values}})


def _whole_default() -> Edit:
    """What a workaround from before the release sets: the very values that it now renders."""
    return _override(
        driver={"enabled": False},
        toolkit={"enabled": False},
        validator={"driver": {"env": _listed(VALIDATOR_ENV)}},
        devicePlugin={"env": _listed(PLUGIN_ENV)},
    )


def _by_envvar() -> Edit:
    changed = ((n, "envvar" if n == STRATEGY else v) for n, v in PLUGIN_ENV)
    return _override(devicePlugin={"env": _listed(tuple(changed))})


def _release_before_3585(world: World) -> None:
    world.kubernetes_chart = replace(world.kubernetes_chart, os_driver=False, version=BEFORE_3585)


def _edit_live_plugin(world: World) -> None:
    """Somebody takes one variable out of the running DaemonSet, with kubectl."""

    def change(found: Obj) -> None:
        for container in found["spec"]["template"]["spec"]["containers"]:
            if container["name"] == PLUGIN_CONTAINER:
                container["env"] = [one for one in container["env"] if one["name"] != STRATEGY]

    def made(found: Obj) -> None:
        if found["metadata"]["name"] == DEVICE_PLUGIN:
            world.tenant_clusters[LAB[0]].edit(found, change, manager="kubectl-edit")

    world.on_created("apps/v1", "DaemonSet", made, cluster=TENANT)


def _hide_features(world: World) -> None:
    """NFD's worker cannot be pulled: no Node ever has a label of its."""

    def change(found: Obj) -> None:
        for container in found["spec"]["template"]["spec"]["containers"]:
            container["image"] = "registry.k8s.io/nfd/node-feature-discovery:does-not-exist"

    world.tenants[LAB[0]].edit(
        "apps/v1", "DaemonSet", GPU_NAMESPACE, f"{NFD}-worker", change, manager=MANAGER
    )


def _help_in_secret(world: World) -> None:
    """A DaemonSet of somebody's own that puts a driver on nodes and rewrites containerd's files."""
    tenant = world.tenant_clusters[LAB[0]]
    labels = {"kubernetes.io/metadata.name": HELPER, ENFORCE: "privileged"}
    metadata = {"name": HELPER, "labels": labels}
    tenant.create({"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}, manager="helm")
    paths = {"driver": "/usr/local", "containerd": "/etc/containerd", "sockets": "/run/containerd"}
    container = {
        "name": "install",
        "image": "ghcr.io/example/gpu-helper:v3",
        "securityContext": {"privileged": True},
        "volumeMounts": [{"name": one, "mountPath": f"/host/{one}"} for one in paths],
    }
    spec = {
        "nodeSelector": {"gpu": "on"},
        "tolerations": [{"operator": "Exists"}],
        "hostPID": True,
        "containers": [container],
        "volumes": [{"name": one, "hostPath": {"path": path}} for one, path in paths.items()],
    }
    made = daemonset("nvidia-driver-installer", HELPER, {"app": HELPER}, spec)
    tenant.create(made, manager="kubectl")
    tenant.on("v1", "Pod", lambda change: _take_effect(world, change.obj))


def _take_effect(world: World, pod: Obj) -> None:
    """Where the helper runs, containerd's default runtime is NVIDIA's."""
    if labels_of(pod).get("app") == HELPER and conditions.holds(pod, "Ready"):
        guest = world.workers[LAB[0]].guest_of(pod["spec"]["nodeName"])
        if guest is not None:
            guest.default_runtime = NVIDIA


FAULTS = (
    Fault(
        id="legacy-operator-default",
        sentence="The release predates the default of a driver that the operating system provides.",
        seen="nvidia-driver-daemonset is there and crashes; the validator loops in its first "
        "stage; the device plugin stays in Init",
        wrong_diagnosis="kernel headers are missing",
        breaks=NOT_VALIDATED | {"operator-default", "operator-live"},
        blinds=UNSERVED,
        where=GPU_POOLS,
        edit=_release_before_3585,
        source="S-GPO",
    ),
    Fault(
        id="override-masks-default",
        sentence="A valuesOverride left from a workaround sets the values that are now default.",
        seen="everything works; the tenant cluster's values hold the override",
        wrong_diagnosis="the default is verified",
        breaks=frozenset(),
        blinds=frozenset({"operator-default"}),
        where=GPU_POOLS,
        edit=_whole_default(),
        source="S-GPO",
    ),
    Fault(
        id="env-list-replaced",
        sentence="A valuesOverride sets one variable of the device plugin, which drops the five.",
        seen="the running DaemonSet lacks the five; pods are served all the same, by the "
        "operator's own defaults",
        wrong_diagnosis="a bug of NVIDIA's; or none, for the pods work",
        breaks=frozenset({"operator-default", "operator-live"}),
        where=GPU_POOLS,
        edit=_override(devicePlugin={"env": [{"name": "MIG_STRATEGY", "value": "none"}]}),
        source="S-DOC, GPO",
    ),
    Fault(
        id="strategy-envvar",
        sentence="An override hands cards out by a variable, which the default runtime ignores.",
        seen="allocatable fine; the pod starts without libraries, nvidia-smi not found",
        wrong_diagnosis="the image lacks a driver",
        breaks=NO_INJECTION | {"operator-default", "operator-live"},
        blinds=frozenset({"early-pod-unserved"}),
        where=GPU_POOLS,
        edit=_by_envvar(),
        source="NDP",
    ),
    Fault(
        id="plugin-env-edited-live",
        sentence="Somebody took DEVICE_LIST_STRATEGY out of the running device plugin by kubectl.",
        seen="rendered values and allocatable fine; the next pod gets no libraries; the edit stays "
        "until the ClusterPolicy changes",
        wrong_diagnosis="the values are right, so the operator is",
        breaks=NO_INJECTION | {"operator-live"},
        blinds=frozenset({"early-pod-unserved"}),
        where=GPU_POOLS,
        edit=_edit_live_plugin,
        source="GPO, NDP (inferred)",
    ),
    Fault(
        id="clusterpolicy-green-no-gpu",
        sentence="Node feature discovery does not run, so the operator takes no Node for a GPU's.",
        seen="ClusterPolicy ready, reason NFDLabelsMissing; none of the operator's DaemonSets; the "
        "card and its driver are fine",
        wrong_diagnosis="the operator is healthy",
        breaks=NOT_VALIDATED | {"operator-live"},
        blinds=UNSERVED,
        where=GPU_POOLS,
        edit=_hide_features,
        source="GPO",
    ),
    Fault(
        id="rogue-driver-daemonset",
        sentence="A DaemonSet of somebody's own installs a driver and edits containerd.",
        seen="one DaemonSet more; every pod works, by whose doing cannot be told",
        wrong_diagnosis="the feature works",
        breaks=frozenset({"no-hidden-helper"}),
        blinds=NO_INJECTION,
        where=GPU_POOLS,
        edit=_help_in_secret,
        source="S-GPO",
    ),
    Fault(
        id="hami-unsupported",
        sentence="The addon HAMi is on, whose device plugin has no wiring for CDI on Talos.",
        seen="the operator's device plugin is absent, HAMi's is there; allocatable; pods get no "
        "libraries",
        wrong_diagnosis="a bug of the chart; upstream does not cover it",
        breaks=frozenset(),
        blinds=UNCOVERED,
        where=GPU_POOLS,
        edit=addons(hami={"enabled": True}),
        source="S-GPO, S-DOC",
    ),
)
