"""The addons of a tenant cluster by their effect: on each worker, through its DNS, on its disks.

A HelmRelease says which addons are asked for and nothing of whether they work (objects.md sections
2 and 3). What does: pods that are Ready on each worker, a name that resolves, a driver that a
kubelet knows, a claim that is bound and mounted, figures that the metrics API gives out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import (
    Obj,
    at_path,
    condition,
    epoch,
    listed,
    mapped,
    name_of,
    text_at,
)
from harness.facts.reply import Output, quote

CILIUM, COREDNS, CSI = "cilium", "coredns", "csi"
INGRESS, METRICS = "ingress-nginx", "metrics-server"
ASKED = (CILIUM, COREDNS, CSI, INGRESS, METRICS)
"""The addons that are looked at, as the releases' names end (objects.md section 3)."""
DRIVER = "csi.kubevirt.io"
AGENT_TAINT = "node.cilium.io/agent-not-ready"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
NAME = "kubernetes.default.svc.cluster.local"
"""The name that is looked up; a tenant's domain is cluster.local (lanes.md section 2)."""
_SERVER = re.compile(r"Address:\s*(?P<ip>[0-9a-f.:]+?)(?::53|#53)?\s*")
_ANSWER = re.compile(r"Address(?: \d+)?:\s*(?P<ip>[0-9a-f.:]+)(?:\s.*)?")


@dataclass(frozen=True, slots=True)
class NodeAddons:
    """What addons do on one worker.

    ``agent`` tells of cilium's pod there: "Ready", another word for what it is, "" for none.
    ``network`` is the Node's NetworkUnavailable: True, False or "" where it does not say.
    ``waits`` is whether it still has the taint of a node without an agent. ``drivers`` are those
    of its CSINode, None where there is none. ``measured`` is when its metrics were taken, epoch
    seconds, None where none are given out; ``usage`` are their amounts as told.
    """

    node: str
    agent: str
    network: str
    waits: bool
    drivers: tuple[str, ...] | None
    measured: float | None
    usage: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Replicas:
    """A workload's pods: how many it wants, how many are Ready, and its condition Available."""

    name: str
    wanted: int
    ready: int
    available: str


@dataclass(frozen=True, slots=True)
class Backend:
    """A Service and the ready addresses behind it. ``address`` is its own."""

    name: str
    address: str
    behind: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NameLookup(Fact):
    """A name looked up in a pod. ``server`` is who was asked, ``found`` the addresses it gave;
    ``service`` and ``wanted`` are the addresses of DNS' own Service and of the one looked up.
    """

    exit_code: int
    server: str
    found: tuple[str, ...]
    service: str
    wanted: str


@dataclass(frozen=True, slots=True)
class DiskTry(Fact):
    """A claim of the tenant's default class, and a pod that mounts it.

    ``phase`` is the claim's, ``driver`` its volume's. ``pod`` tells how the pod stands, with why in
    ``why``; ``device`` and ``file_system`` are what is mounted at the claim's path, "" for nothing;
    ``wrote`` is the exit status of a write there that was to reach the disk, None where none came.
    """

    storage_class: str
    phase: str
    driver: str
    pod: str
    why: str
    device: str
    file_system: str
    wrote: int | None


@dataclass(frozen=True, slots=True)
class TenantAddons(Fact):
    """The addons of a tenant cluster, as the workers of one pool have them.

    ``there`` are those of `ASKED` that have a release, ``absent`` the others. ``dns`` is CoreDNS'
    Deployment, ``ingress`` the controller's workloads with its Service where it has one, None where
    there is no such object; ``api`` is the metrics APIService' condition Available and its reason.
    ``metrics_problem`` is why the metrics API gave no list, "" where it did.
    """

    there: tuple[str, ...]
    absent: tuple[str, ...]
    workers: tuple[NodeAddons, ...]
    dns: Replicas | None
    dns_service: Backend | None
    ingress: tuple[Replicas, ...]
    ingress_service: Backend | None
    api: tuple[str, str]
    metrics_problem: str
    lookup: NameLookup | Unread | None
    disk: DiskTry | Unread | None


def release_names(cluster: str) -> dict[str, str]:
    """The HelmRelease of each addon, by the addon."""
    return {addon: f"kubernetes-{cluster}-{addon}" for addon in ASKED}


def node_addons(
    node: Obj, agents: Iterable[Obj], csi_node: Obj | None, metrics: Obj | None
) -> NodeAddons:
    """Read what addons do on a Node; ``agents`` are the pods of cilium's namespace."""
    name = name_of(node)
    taints = [text_at(one, "key") for one in listed(node, "spec", "taints")]
    usage = mapped(metrics, "usage")
    return NodeAddons(
        name,
        _agent(name, agents),
        text_at(condition(node, "NetworkUnavailable"), "status"),
        AGENT_TAINT in taints,
        None
        if csi_node is None
        else tuple(text_at(one, "name") for one in listed(csi_node, "spec", "drivers")),
        epoch(text_at(metrics, "timestamp")),
        tuple((key, str(usage[key])) for key in sorted(usage)),
    )


def _agent(node: str, pods: Iterable[Obj]) -> str:
    """How the agent's pod on a node stands: that of a DaemonSet called cilium."""
    here = [
        pod
        for pod in pods
        if text_at(pod, "spec", "nodeName") == node and owner_of(pod) == ("DaemonSet", "cilium")
    ]
    told = [standing(pod) for pod in here]
    return "Ready" if "Ready" in told else next(iter(told), "")


def owner_of(pod: Obj) -> tuple[str, str]:
    """Kind and name of a pod's first owner, two "" without one."""
    owner = at_path(pod, "metadata", "ownerReferences", 0)
    return text_at(owner, "kind"), text_at(owner, "name")


def standing(pod: Obj) -> str:
    """How a pod stands: "Ready", why a container waits, or its phase."""
    if text_at(pod, "metadata", "deletionTimestamp"):
        return "Terminating"
    if text_at(condition(pod, "Ready"), "status") == "True":
        return "Ready"
    waiting = [
        text_at(one, "state", "waiting", "reason")
        for one in listed(pod, "status", "containerStatuses")
    ]
    return next(filter(None, waiting), "") or text_at(pod, "status", "phase") or "unknown"


def replicas(obj: Obj) -> Replicas:
    """Read a Deployment, or a DaemonSet."""
    daemon = text_at(obj, "kind") == "DaemonSet"
    wanted, ready = (
        (at_path(obj, "status", "desiredNumberScheduled"), at_path(obj, "status", "numberReady"))
        if daemon
        else (at_path(obj, "spec", "replicas"), at_path(obj, "status", "readyReplicas"))
    )
    available = text_at(condition(obj, "Available"), "status")
    return Replicas(name_of(obj), _number(wanted), _number(ready), available)


def backend(service: Obj, slices: Iterable[Obj]) -> Backend:
    """Read a Service and its EndpointSlices."""
    name = name_of(service)
    behind = [
        address
        for one in slices
        if mapped(one, "metadata", "labels").get("kubernetes.io/service-name") == name
        for endpoint in listed(one, "endpoints")
        if at_path(endpoint, "conditions", "ready") is True
        for address in listed(endpoint, "addresses")
        if isinstance(address, str)
    ]
    return Backend(name, text_at(service, "spec", "clusterIP"), tuple(behind))


def default_class(classes: Sequence[Obj]) -> str:
    """The class that claims without one get, "" where none or more than one is marked."""
    marked = [
        name_of(one)
        for one in classes
        if mapped(one, "metadata", "annotations").get(DEFAULT_CLASS) == "true"
    ]
    return marked[0] if len(marked) == 1 else ""


def read_lookup(
    output: Output, *, at: float, source: str, service: str, wanted: str
) -> NameLookup | Unread:
    """Read what ``nslookup NAME`` of busybox or of bind printed.

    A name that is not found is an answer; a program that is not there, or did not end, is none.
    """
    origin: Origin = output.origin(at, source)
    if output.exit_code is None or output.exit_code in (126, 127):
        why = output.problem or quote(output.text.strip())
        return Unread(origin, f"nslookup {NAME}", why)
    head, _, rest = output.stdout.partition("Name:")
    servers = [found["ip"] for line in head.splitlines() if (found := _SERVER.fullmatch(line))]
    answers = [found["ip"] for line in rest.splitlines() if (found := _ANSWER.fullmatch(line))]
    server = servers[0] if servers else ""
    return NameLookup(origin, output.exit_code, server, tuple(answers), service, wanted)


def mounted_at(path: str, text: str) -> tuple[str, str]:
    """Device and file system of what /proc/mounts has at a path, the last one; two "" for none."""
    rows = [line.split() for line in text.splitlines()]
    found = [(row[0], row[2]) for row in rows if len(row) >= 3 and row[1] == path]
    return found[-1] if found else ("", "")


def api_state(service: Obj | None) -> tuple[str, str]:
    """An APIService' condition Available and its reason; two "" where there is none."""
    told = condition(service or {}, "Available")
    return text_at(told, "status"), text_at(told, "reason")


def volume_driver(volume: Any) -> str:
    """The CSI driver of a PersistentVolume, "" for one of none."""
    return text_at(volume, "spec", "csi", "driver")


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
