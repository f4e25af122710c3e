"""Why a pod has no card although nodes offer them; what makes a working pod prove nothing."""

from __future__ import annotations

from collections.abc import Iterator

from harness.diagnose.case import TENANT, Thing
from harness.diagnose.causes.operator import LOOK_ADDONS, PLUGIN, cluster_addons
from harness.diagnose.causes.shown import POD_WITHOUT, TIMER_REBOOTS
from harness.diagnose.causes.signs import fits, proves, speaks_against
from harness.diagnose.causes.uptime import at_timer, no_trustd_port, waiting_services, waits_for
from harness.diagnose.findings import Cause, Grade, Seen
from harness.diagnose.things import GPU, advertised, on_node
from harness.diagnose.view import OPERATOR, View
from harness.facts.objects import at_path, epoch, listed, mapped, text_at

_DRIVER_PATHS = ("/etc/containerd", "/run/containerd", "/usr/local", "/run/nvidia", "/etc/cri",
                 "/run/cdi", "/etc/cdi", "/lib/modules")  # fmt: skip


@proves("the cluster's HelmRelease: addons.gpuOperator.valuesOverride", "it sets something")
def _override(view: View) -> Iterator[Seen]:
    for one, found in cluster_addons(view):
        if found.override:
            yield Seen(f"{one.name} overrides {', '.join(found.override)}", one.where, one.name)


@proves("the cluster's HelmRelease: addons.hami.enabled, or a release of HAMi", "it is on")
def _hami(view: View) -> Iterator[Seen]:
    for one, found in cluster_addons(view):
        if found.hami_on:
            yield Seen(f"{one.name} has HAMi on", one.where, one.name)


@proves(
    "DaemonSets of all namespaces of the tenant cluster",
    "one beside the platform's mounts what a driver or containerd live in",
)
def _helper(view: View) -> Iterator[Seen]:
    for thing, one in view.daemonsets:
        at_home = one.namespace.startswith("cozy-") or one.namespace == "kube-system"
        if at_home and (one.owner or one.manager):
            continue
        paths = [p for p in one.host_paths if p.startswith(_DRIVER_PATHS) or p == "/"]
        if paths:
            yield Seen(f"DaemonSet {one} mounts {', '.join(paths)}", thing.where)


@proves("talosctl services of the node", "ext-nvidia-cdi-gen is not Finished, persistenced runs")
def _cdi_gen_waits(view: View) -> Iterator[Seen]:
    stuck = {text.source for service, text, _ in waiting_services(view)
             if service == "ext-nvidia-persistenced"}  # fmt: skip
    for seen in waits_for(view, ("ext-nvidia-cdi-gen",)):
        if seen.source not in stuck:
            yield seen


@fits("reboots of nodes that offer their cards", "each boot lasts about 4206 s")
def _serving_reboots(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        pool = view.pool_of(node.name)
        if pool and pool.has_nvidia and advertised(node):
            yield Seen(f"{node.name} offers its card and reboots: {boots.told}", node.source,
                       pool.subject)  # fmt: skip


@speaks_against(
    "reboots of nodes without a card", "they reboot in the same way: not a service of NVIDIA's"
)
def _cardless_reboots(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        pool = view.pool_of(node.name)
        if pool and pool.cardless:
            yield Seen(f"{node.name} has no card and reboots too: {boots.told}", node.source)


@speaks_against("Service kubernetes-<cluster>, spec.ports", "no 50001: that alone explains it")
def _port_missing(view: View) -> Iterator[Seen]:
    for seen in no_trustd_port(view):
        yield Seen(seen.text, seen.source)


@fits("a pod with a card, and the device plugin's pod on its node", "the pod's container is older")
def _older_than_plugin(view: View) -> Iterator[Seen]:
    plugins = {on_node(pod): _started(pod) for pod in view.pods(PLUGIN)}
    for pod in view.things("Pod", TENANT):
        began, plugin = _started(pod), plugins.get(on_node(pod))
        if pod.namespace != OPERATOR and _asks(pod) and began and plugin and began < plugin:
            yield Seen(f"{pod.namespace}/{pod.name} began {plugin - began:.0f} s before the device "
                       "plugin of its node", pod.where, pod.name)  # fmt: skip


@proves("a pod with a card, outside the operator's namespace: runtimeClassName", "nvidia")
def _runtime_class(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod", TENANT):
        if pod.namespace == OPERATOR or not _asks(pod):
            continue
        if text_at(pod.obj, "spec", "runtimeClassName") == "nvidia":
            yield Seen(f"{pod.namespace}/{pod.name} has runtimeClassName nvidia", pod.where,
                       pod.name)  # fmt: skip


def _asks(pod: Thing) -> bool:
    """Whether a container of a pod asks for a card."""
    containers = listed(pod.obj, "spec", "containers")
    return any(GPU in mapped(one, "resources", "limits") for one in containers)


def _started(pod: Thing) -> float | None:
    """When a pod's container that runs began."""
    state = at_path(pod.obj, "status", "containerStatuses", 0, "state", "running")
    return epoch(text_at(state, "startedAt"))


CAUSES = (
    Cause(
        id="cdi-file-not-made",
        family="operator",
        title="ext-nvidia-cdi-gen never finishes",
        story="The service that writes /run/cdi/nvidia.yaml does not finish, so that no boot does: "
        "cards are served by the device plugin's own file, until Talos reboots the worker after 70 "
        "minutes.",
        signs=(_cdi_gen_waits, _serving_reboots, _cardless_reboots, _port_missing),
        wrong="its log says Could not locate",
        why_wrong="a healthy node's log has eleven to thirteen such lines; whether it is Finished "
        "is what tells.",
        check="the state of ext-nvidia-cdi-gen, and of ext-nvidia-persistenced, for which it waits",
        command="talosctl -n <node> services; talosctl -n <node> logs ext-nvidia-cdi-gen",
        symptoms=(TIMER_REBOOTS,),
    ),
    Cause(
        id="pod-older-than-plugin",
        family="operator",
        title="The pod is older than what injects cards",
        story="Devices are decided when a container is made: a pod from before the device plugin "
        "or the CDI file, or that came up first after a reboot, never gets its card.",
        signs=(_older_than_plugin,),
        wrong="CDI is broken",
        why_wrong="a new pod has the card.",
        check="whether a new pod of the same image has its card",
        command="kubectl delete pod <pod> (its controller makes another), then nvidia-smi -L in it",
        symptoms=(POD_WITHOUT,),
    ),
    Cause(
        id="hami-on",
        family="operator",
        title="HAMi deals out the cards, which nobody has tried on Talos",
        story="The addon HAMi is on: the operator's device plugin is off, and HAMi's has no CDI "
        "wiring on Talos, so that pods get no libraries. Upstream does not cover it.",
        signs=(_hami,),
        wrong="a bug of the chart",
        why_wrong="the chart does as it is told; the combination is not supported.",
        check="whether HAMi is wanted at all",
        command=LOOK_ADDONS,
        symptoms=(POD_WITHOUT,),
        grade=Grade.HAZARD,
    ),
    Cause(
        id="override-hides-default",
        family="operator",
        title="An override sets what the chart's default should",
        story="valuesOverride of the GPU operator is set: what works, works by the override, and "
        "nothing is known of the default.",
        signs=(_override,),
        wrong="the default is verified: all works",
        why_wrong="the default is not in use. Take the override away, and look again.",
        check="whether the override is still needed",
        command=LOOK_ADDONS,
        grade=Grade.HAZARD,
    ),
    Cause(
        id="helper-brings-driver",
        family="operator",
        title="A DaemonSet of somebody's own brings a driver or edits containerd",
        story="Beside the platform's DaemonSets there is one that reaches into what a driver and "
        "the container runtime live in: by whose doing pods work cannot be told.",
        signs=(_helper,),
        wrong="the feature works",
        why_wrong="it may be the helper that does.",
        check="what it does, and whether all works without it",
        command="kubectl get daemonsets -A (of the tenant cluster)",
        grade=Grade.HAZARD,
    ),
    Cause(
        id="runtime-class-hides-cdi",
        family="operator",
        title="The pod has runtimeClassName nvidia: that it works proves nothing of CDI",
        story="A pod with this runtime class gets its card from NVIDIA's runtime, with or without "
        "CDI.",
        signs=(_runtime_class,),
        wrong="CDI is proven",
        why_wrong="the runtime injects by itself. A pod without the class tells.",
        check="a pod without runtimeClassName, of an image without a driver",
        command="kubectl get pods -A -o custom-columns=N:.metadata.name,R:.spec.runtimeClassName",
        grade=Grade.HAZARD,
    ),
)  # fmt: skip
