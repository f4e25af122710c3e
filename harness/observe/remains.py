"""Look for what is there of a pool, wherever a pool leaves traces.

The management cluster's objects, volumes and cards; the tenant's Nodes and pods of ours; LINSTOR's
resources and pools. What the API will not say is told in ``unread``; where it cannot be reached at
all, reach's LabError passes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.facts.fact import Origin, Unread
from harness.facts.objects import listed, mapped, name_of, text_at
from harness.facts.quantity import bytes_of
from harness.facts.remains import (
    HostCards,
    Remains,
    Space,
    Thing,
    replicas_as_things,
    spaces_of,
)
from harness.observe import linstor as controller
from harness.observe.pool import CAPI, DATA_VOLUMES, DEPLOYMENT_LABEL, INFRASTRUCTURE, KUBEVIRT
from harness.reach.errors import ApiRefused
from harness.reach.history import Obj
from harness.reach.kube import Kube
from harness.reach.linstor import Linstor

_NAMED: Mapping[str, str] = {
    "KubevirtMachine": INFRASTRUCTURE,
    "VirtualMachine": KUBEVIRT,
    "VirtualMachineInstance": KUBEVIRT,
    "DataVolume": DATA_VOLUMES,
    "PersistentVolumeClaim": "v1",
}
"""Kinds that are the pool's where their name is one of its machines' or disks'."""


@dataclass(frozen=True, slots=True)
class Traces:
    """By what something is known as the pool's.

    ``request`` is its KubernetesNodes, ``deployment`` its MachineDeployment; ``names`` those of its
    machines and disks, ``volumes`` the PersistentVolumes that its claims were ever bound to;
    ``labels`` mark pods of ours in the tenant, by namespace; ``resource`` is its card, "" for none.
    """

    namespace: str
    request: str
    deployment: str
    names: frozenset[str] = frozenset()
    volumes: frozenset[str] = frozenset()
    labels: Mapping[str, str] = field(default_factory=dict)
    resource: str = ""


class _Looking:
    """One look in the making."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.things: list[Thing] = []
        self.unread: list[str] = []

    def objects(self, kube: Kube, version: str, kind: str, where: str, **how: str) -> list[Obj]:
        """What the API lists; what it refuses is told."""
        try:
            return kube.list(version, kind, where, **how)
        except ApiRefused as refused:
            self.unread.append(f"{kind} of {kube.name}: {refused.saw}")
            return []

    def keep(self, kind: str, found: Iterable[Obj]) -> None:
        """Objects that are the pool's."""
        self.things += [Thing(f"{kind} {name_of(one)}", _how(one)) for one in found]


def remains(
    management: Kube,
    tenant: Kube | None,
    linstor: Linstor | None,
    traces: Traces,
    *,
    now: Callable[[], float],
) -> Remains:
    """One look at all of it."""
    look = _Looking(now)
    _pool_objects(look, management, traces)
    if tenant is not None:
        _tenant_objects(look, tenant, traces)
    volumes: tuple[str, ...] = ()
    spaces: tuple[Space, ...] = ()
    if linstor is not None:
        volumes, spaces = _storage(look, linstor, traces)
    cards = tuple(_cards(look, management, traces.resource)) if traces.resource else ()
    raw = json.dumps(sorted(map(str, look.things)), indent=1)
    origin = Origin(now(), f"{management.name} what is there of {traces.request}", raw)
    things = tuple(sorted(look.things, key=str))
    return Remains(origin, things, volumes, spaces, cards, tuple(look.unread))


def _pool_objects(look: _Looking, kube: Kube, traces: Traces) -> None:
    where = traces.namespace
    requests = look.objects(kube, "apps.cozystack.io/v1alpha1", "KubernetesNodes", where)
    look.keep("KubernetesNodes", (one for one in requests if name_of(one) == traces.request))
    label = f"{DEPLOYMENT_LABEL}={traces.deployment}"
    look.keep("Machine", look.objects(kube, CAPI, "Machine", where, labels=label))
    for kind, version in _NAMED.items():
        found = look.objects(kube, version, kind, where)
        look.keep(kind, (one for one in found if name_of(one) in traces.names))
    pods = look.objects(kube, "v1", "Pod", where)
    look.keep("Pod", (one for one in pods if _machine_of(one) in traces.names))
    volumes = look.objects(kube, "v1", "PersistentVolume", "")
    look.keep("PersistentVolume", (one for one in volumes if _was_of(one, traces)))


def _tenant_objects(look: _Looking, tenant: Kube, traces: Traces) -> None:
    nodes = look.objects(tenant, "v1", "Node", "")
    look.keep("tenant Node", (one for one in nodes if name_of(one) in traces.names))
    for namespace, label in traces.labels.items():
        pods = look.objects(tenant, "v1", "Pod", namespace, labels=label)
        look.keep(f"tenant Pod {namespace}/", pods)


def _storage(
    look: _Looking, linstor: Linstor, traces: Traces
) -> tuple[tuple[str, ...], tuple[Space, ...]]:
    resources = controller.resources(linstor, now=look.now)
    pools = controller.pools(linstor, now=look.now)
    for fact in (resources, pools):
        if isinstance(fact, Unread):
            look.unread.append(f"LINSTOR {fact.asked}: {fact.reason}")
        elif not fact.whole:
            look.unread.append(f"LINSTOR: entries that cannot be read: {'; '.join(fact.strange)}")
    names: tuple[str, ...] = ()
    if not isinstance(resources, Unread):
        look.things += replicas_as_things(resources.replicas, traces.volumes)
        names = tuple(sorted({one.name for one in resources.replicas}))
    return names, () if isinstance(pools, Unread) else spaces_of(pools)


def _cards(look: _Looking, kube: Kube, resource: str) -> Iterator[HostCards]:
    pods = look.objects(kube, "v1", "Pod", "")
    for node in look.objects(kube, "v1", "Node", ""):
        offered = mapped(node, "status", "allocatable").get(resource)
        if offered is None:
            continue
        users = [
            f"{text_at(pod, 'metadata', 'namespace')}/{name_of(pod)}"
            for pod in pods
            if text_at(pod, "spec", "nodeName") == name_of(node)
            and text_at(pod, "status", "phase") not in ("Succeeded", "Failed")
            for _ in range(_asks(pod, resource))
        ]
        yield HostCards(name_of(node), resource, bytes_of(offered) or 0, tuple(sorted(users)))


def _asks(pod: Obj, resource: str) -> int:
    containers = listed(pod, "spec", "containers")
    return sum(
        bytes_of(mapped(one, "resources", "limits").get(resource)) or 0 for one in containers
    )


def _machine_of(pod: Obj) -> str:
    """The virtual machine that a launcher runs, or the disk that an importer fills."""
    labels = mapped(pod, "metadata", "labels")
    owners = listed(pod, "metadata", "ownerReferences")
    named = text_at(labels, "vm.kubevirt.io/name") or text_at(labels, "kubevirt.io/vm")
    return named or next((text_at(one, "name") for one in owners), "")


def _was_of(volume: Obj, traces: Traces) -> bool:
    claim = mapped(volume, "spec", "claimRef")
    own = text_at(claim, "namespace") == traces.namespace and text_at(claim, "name") in traces.names
    return own or name_of(volume) in traces.volumes


def _how(found: Obj) -> str:
    phase = text_at(found, "status", "phase")
    leaving = text_at(found, "metadata", "deletionTimestamp")
    if not leaving:
        return phase or "not being deleted"
    holds = ", ".join(map(str, listed(found, "metadata", "finalizers"))) or "none"
    return f"being deleted since {leaving}, finalizers: {holds}"
