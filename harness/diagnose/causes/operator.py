"""What goes wrong between a driver that works and a pod that has a card: GPU operator, CDI."""

from __future__ import annotations

from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, TENANT, Kind, Text, Thing
from harness.diagnose.causes.modules import not_loaded, undeclared
from harness.diagnose.causes.shown import NO_GPU, POD_WITHOUT
from harness.diagnose.causes.signs import fits, proves, rules_out
from harness.diagnose.causes.uptime import PAST_TIMER
from harness.diagnose.findings import Cause, Seen
from harness.diagnose.things import advertised, on_node, settled, stuck
from harness.diagnose.view import OPERATOR, Pool, View
from harness.facts.containers import Variable
from harness.facts.nvidia import SmiCards
from harness.facts.objects import listed
from harness.facts.operator import (
    Addons,
    OperatorValues,
    addons,
    operator_policy,
    operator_values,
)

PLUGIN = "nvidia-device-plugin-daemonset"
VALIDATOR = "nvidia-operator-validator"
PLUGIN_CONTAINER = "nvidia-device-plugin"
DRIVER_SETS = ("nvidia-driver-daemonset", "nvidia-container-toolkit-daemonset")
REQUIRED = (
    "DEVICE_LIST_STRATEGY",
    "DEVICE_ID_STRATEGY",
    "NVIDIA_DRIVER_ROOT",
    "NVIDIA_CTK_PATH",
    "CDI_ANNOTATION_PREFIX",
)
"""The variables that the chart gives the device plugin (gpu_path 5)."""
_NONE_DETECTED = "No pre-installed driver detected on the host"
_GREEN = ("NoGPUNodes", "NFDLabelsMissing")


def _values(view: View) -> Iterator[tuple[Thing, OperatorValues]]:
    """The GPU operator's releases, read."""
    for one in view.things("HelmRelease", MANAGEMENT):
        if one.name.endswith("-gpu-operator"):
            found = operator_values(one.obj, at=0.0, cluster=MANAGEMENT)
            if isinstance(found, OperatorValues):
                yield one, found


def cluster_addons(view: View) -> Iterator[tuple[Thing, Addons]]:
    """The tenant clusters' releases, read for their addons."""
    releases = {one.name for one in view.things("HelmRelease", MANAGEMENT)}
    for one in view.clusters:
        hami = f"{one.name}-hami" in releases
        found = addons(one.obj, hami_release=hami, at=0.0, cluster=MANAGEMENT)
        if isinstance(found, Addons):
            yield one, found


def _plugin_env(view: View) -> tuple[str, dict[str, str | None]] | None:
    """What the running device plugin's container is given, and where that is read."""
    found = view.daemonset(PLUGIN)
    container = found[1].container(PLUGIN_CONTAINER) if found else None
    return (found[0].where, container.variables) if found and container else None


# -- an operator that brings a driver of its own


@proves("DaemonSets in cozy-gpu-operator of the tenant cluster", f"{DRIVER_SETS[0]} is there")
def _driver_daemonset(view: View) -> Iterator[Seen]:
    for name in DRIVER_SETS:
        found = view.has_daemonset(name)
        if found.name:
            yield Seen(f"DaemonSet {name} is there", found.where)


@fits("HelmRelease kubernetes-<cluster>-gpu-operator: driver.enabled, toolkit.enabled", "not false")
def _driver_enabled(view: View) -> Iterator[Seen]:
    for one, values in _values(view):
        on = [n for n, v in (("driver", values.driver_enabled), ("toolkit", values.toolkit_enabled))
              if v is not False]  # fmt: skip
        if on and not values.values_from:
            yield Seen(f"{one.name} does not turn {' and '.join(on)} off", one.where)


@rules_out(
    "DaemonSets of the tenant cluster, listed whole",
    f"no {DRIVER_SETS[0]}, and {PLUGIN} is there: the operator has made what it makes",
)
def _no_driver_daemonset(view: View) -> Iterator[Seen]:
    made = any(view.has_daemonset(name).name for name in (PLUGIN, VALIDATOR))
    brought = any(view.has_daemonset(name).name for name in DRIVER_SETS)
    if view.lacks("DaemonSet", TENANT, OPERATOR) and made and not brought:
        yield Seen(f"the tenant cluster has no {DRIVER_SETS[0]}")


# -- overrides


@proves(
    "the operator's HelmRelease: devicePlugin.env beside the override",
    "the override lists it, and variables of the chart are gone",
)
def _env_replaced(view: View) -> Iterator[Seen]:
    overridden = [
        one for one, a in cluster_addons(view) if any("devicePlugin.env" in k for k in a.override)
    ]
    for one, values in _values(view):
        missing = _missing(values.plugin_env or ())
        if overridden and values.plugin_env is not None and missing:
            yield Seen(f"{one.name} gives the device plugin no {', '.join(missing)}: the override "
                       "of its list replaced them", one.where)  # fmt: skip


@fits("DaemonSet nvidia-device-plugin-daemonset: env", "variables of the chart are missing")
def _env_lacks(view: View) -> Iterator[Seen]:
    found = _plugin_env(view)
    missing = [name for name in REQUIRED if found and name not in found[1]]
    if found and missing:
        yield Seen(f"the running device plugin has no {', '.join(missing)}", found[0])


def _missing(env: tuple[Variable, ...]) -> list[str]:
    there = {one.name for one in env}
    return [name for name in REQUIRED if name not in there]


@rules_out("DaemonSet nvidia-device-plugin-daemonset: env", "all five are there")
def _env_whole(view: View) -> Iterator[Seen]:
    found = _plugin_env(view)
    if found and all(name in found[1] for name in REQUIRED):
        yield Seen("the running device plugin has all five of the chart's variables", found[0])


@proves("DaemonSet nvidia-device-plugin-daemonset: DEVICE_LIST_STRATEGY", "envvar, and no cdi-*")
def _by_envvar(view: View) -> Iterator[Seen]:
    found = _plugin_env(view)
    value = found[1].get(REQUIRED[0]) if found else None
    if found and value and "cdi" not in value:
        yield Seen(f"the running device plugin has DEVICE_LIST_STRATEGY={value}", found[0])


@rules_out("DaemonSet nvidia-device-plugin-daemonset: DEVICE_LIST_STRATEGY", "it names cdi-*")
def _by_cdi(view: View) -> Iterator[Seen]:
    found = _plugin_env(view)
    value = found[1].get(REQUIRED[0]) if found else None
    if found and value and "cdi" in value:
        yield Seen(f"the running device plugin has DEVICE_LIST_STRATEGY={value}", found[0])


@proves(
    "DaemonSet nvidia-device-plugin-daemonset: env, beside the operator's HelmRelease",
    "the values have a variable that the DaemonSet lacks, or has otherwise",
)
def _edited(view: View) -> Iterator[Seen]:
    live = _plugin_env(view)
    for one, values in _values(view) if live else ():
        assert live is not None
        differ = [
            f"{want.name} (rendered {want.value}, running {live[1].get(want.name, 'without it')})"
            for want in values.plugin_env or ()
            if want.value is not None and live[1].get(want.name) != want.value
        ]
        if differ:
            yield Seen(f"{one.name} renders what does not run: {', '.join(differ)}", live[0])


# -- discovery, validator, HAMi, helpers


@proves(
    "ClusterPolicy: conditions, beside the pools",
    "Ready with NoGPUNodes or NFDLabelsMissing, and a worker with a card has joined",
)
def _green(view: View) -> Iterator[Seen]:
    carded = [node for pool in view.pools if pool.has_nvidia for node in pool.nodes]
    joined = list(filter(settled, carded))
    for one in view.things("ClusterPolicy", TENANT):
        policy = operator_policy(one.obj, at=0.0, cluster=TENANT)
        if joined and any(said.reason in _GREEN for said in policy.conditions):
            yield Seen(f"{policy}, and {joined[0].name} has a card", one.where)


@fits("pods of node feature discovery", "not running")
def _nfd_down(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod", TENANT):
        if "node-feature-discovery" not in pod.name:
            continue
        for status in listed(pod.obj, "status", "containerStatuses"):
            why = stuck(status)
            if why:
                yield Seen(f"{pod.name}: {why}", pod.where)


def _undetected(view: View) -> Iterator[tuple[Pool, str, Text]]:
    """Pools of whose nodes the validator says that they have no driver of the host's own."""
    for text in view.texts(Kind.LOG):
        if _NONE_DETECTED in text.text:
            name = text.node.split("/")[1] if "/" in text.node else ""
            node = on_node(view.find("Pod", name, TENANT))
            pool = view.pool_of(node)
            if pool:
                yield pool, node, text


@proves(
    "the validator's log, container driver-validation, beside nvidia-smi -L in the host's root",
    "No pre-installed driver detected on the host, and nvidia-smi lists the card",
)
def _not_detected(view: View) -> Iterator[Seen]:
    works = {t.node for t, said in view.smi_lists if isinstance(said, SmiCards) and said.cards}
    for pool, node, text in _undetected(view):
        if node in works:
            yield Seen(f"{_NONE_DETECTED}; nvidia-smi lists the card of {node}", text.source,
                       pool.subject)  # fmt: skip


@proves(
    "the validator's log beside the node's uptime, on an image with NVIDIA's extensions",
    "No pre-installed driver detected, and one boot past 75 minutes: the image's services, which "
    "wait for the driver, are up",
)
def _up_and_not_detected(view: View) -> Iterator[Seen]:
    for pool, node, text in _undetected(view):
        known = pool.boot and pool.boot.schematic in view.nvidia_schematics
        current = view.boots[node].current if node in view.boots else None
        if known and current is not None and current > PAST_TIMER:
            yield Seen(f"{_NONE_DETECTED}, and {node} is on one boot for {current:.0f} s",
                       text.source, pool.subject)  # fmt: skip


@fits(
    "the validator's log, container driver-validation",
    "No pre-installed driver detected on the host",
)
def _says_not_detected(view: View) -> Iterator[Seen]:
    for pool, _, text in _undetected(view):
        yield Seen(_NONE_DETECTED, text.source, pool.subject)


@rules_out("machine.kernel.modules, /proc/modules", "nvidia is not declared, or not loaded")
def _no_module(view: View) -> Iterator[Seen]:
    for pool, _ in undeclared(view):
        yield Seen(f"{pool.subject} declares no nvidia", pool.config_template.where, pool.subject)
    yield from not_loaded.find(view)


@rules_out("what the pool's schematic holds", "no NVIDIA extension: there is no driver to detect")
def _nothing_to_detect(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        if pool.has_nvidia and pool.boot and view.lacks_nvidia(pool.boot.schematic):
            yield Seen(f"{pool.subject} boots an image without NVIDIA's extensions", "",
                       pool.subject)  # fmt: skip


@rules_out("the Node's allocatable", "nvidia.com/gpu is offered, and not by HAMi's own plugin")
def _offered(view: View) -> Iterator[Seen]:
    if any(found.hami_on for _, found in cluster_addons(view)):
        return  # its plugin waits for no validator
    for pool in view.pools:
        for node in pool.nodes:
            if pool.has_nvidia and advertised(node):
                yield Seen(f"{node.name} offers its card", node.source, pool.subject)


# -- CDI, pods


LOOK_ADDONS = (
    "kubectl -n <tenant> get helmrelease kubernetes-<cluster> -o jsonpath='{.spec.values.addons}'"
)
_ENV = (
    "kubectl -n cozy-gpu-operator get daemonset nvidia-device-plugin-daemonset -o yaml "
    "(of the tenant cluster)"
)

CAUSES = (
    Cause(
        id="operator-brings-driver",
        family="operator",
        title="The GPU operator brings a driver of its own",
        story="The platform's release predates the default of an OS-provided driver: the operator "
        "runs a driver container, which compiles against nothing on Talos and fails; validator and "
        "device plugin wait for it.",
        signs=(_driver_daemonset, _driver_enabled, _no_driver_daemonset),
        wrong="kernel headers are missing",
        why_wrong="they are, and need not be there: the image has a driver, and the operator has "
        "only to be told to use it.",
        check="whether nvidia-driver-daemonset exists, in the tenant cluster and not the "
        "management "
        "one, which has a namespace of the same name",
        command="kubectl -n cozy-gpu-operator get daemonsets (of the tenant cluster)",
        symptoms=(NO_GPU,),
    ),
    Cause(
        id="plugin-env-replaced",
        family="operator",
        title="An override of devicePlugin.env drops the chart's variables",
        story="addons.gpuOperator.valuesOverride sets devicePlugin.env, and lists are replaced "
        "whole: the five variables of the chart are gone. Pods may be served all the same, by the "
        "operator's own defaults.",
        signs=(_env_replaced, _env_lacks, _env_whole),
        wrong="a bug of NVIDIA's; or none, for pods work",
        why_wrong="the override asked for it. That pods work is the operator's luck, not the "
        "chart's default.",
        check="the override, and the running DaemonSet's variables",
        command=f"{LOOK_ADDONS}; {_ENV}",
        symptoms=(POD_WITHOUT,),
    ),
    Cause(
        id="cards-by-envvar",
        family="operator",
        title="Cards are handed out by a variable, which the runtime ignores",
        story="DEVICE_LIST_STRATEGY is envvar, and containerd's default runtime is not NVIDIA's: a "
        "pod gets the variable and no libraries.",
        signs=(_by_envvar, _by_cdi),
        wrong="the pod's image lacks a driver",
        why_wrong="no image needs one: CDI brings it in. Allocatable is right, and a new pod has "
        "nothing either.",
        check="the strategy of the running device plugin",
        command=_ENV,
        symptoms=(POD_WITHOUT,),
    ),
    Cause(
        id="plugin-edited-by-hand",
        family="operator",
        title="Somebody edited the running device plugin",
        story="The DaemonSet does not have what the platform renders: it was edited in the "
        "cluster, "
        "and stays so until the ClusterPolicy changes.",
        signs=(_edited,),
        wrong="the values are right, so the operator is",
        why_wrong="the values are what was rendered, the DaemonSet is what runs.",
        check="the running DaemonSet beside the release's values",
        command=_ENV,
        symptoms=(POD_WITHOUT,),
    ),
    Cause(
        id="no-node-discovered",
        family="operator",
        title="The operator takes no node for a GPU's",
        story="Node feature discovery has labelled no node, so that the operator deploys nothing, "
        "and its ClusterPolicy is ready.",
        signs=(_green, _nfd_down, _offered),
        wrong="the operator is healthy: ClusterPolicy says ready",
        why_wrong="ready with NoGPUNodes or NFDLabelsMissing means that there was nothing to do.",
        check="the reason beside Ready, and the pods of node feature discovery",
        command="kubectl get clusterpolicy cluster-policy -o jsonpath='{.status.conditions}'; "
        "kubectl -n cozy-gpu-operator get pods",
        symptoms=(NO_GPU,),
    ),
    Cause(
        id="driver-not-detected",
        family="operator",
        title="The validator does not find the driver that is there",
        story="The image has no /usr/bin/nvidia-smi where the validator looks (an older Talos): "
        "driver-validation loops, and the device plugin waits for it.",
        signs=(
            _not_detected, _up_and_not_detected, _says_not_detected, _nothing_to_detect,
            _no_module, _offered,
        ),
        wrong="DRIVER_ROOT has to be set",
        why_wrong="the validator does not read it; it looks for nvidia-smi below the host's root.",
        check="the validator's log, and whether nvidia-smi works in the host's root",
        command="kubectl -n cozy-gpu-operator logs <nvidia-operator-validator> -c "
        "driver-validation | head; chroot /host /usr/local/bin/nvidia-smi -L",
        symptoms=(NO_GPU,),
    ),
)  # fmt: skip
