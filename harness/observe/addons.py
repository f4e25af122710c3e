"""Ask both clusters about a tenant's addons, and return facts.

Every function raises reach's LabError where a cluster cannot be asked; that the metrics API does
not answer is an answer. ``now`` gives the lab's time in epoch seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from harness.facts import addons
from harness.facts.addons import (
    ASKED,
    CILIUM,
    COREDNS,
    CSI,
    INGRESS,
    METRICS,
    Backend,
    DiskTry,
    NameLookup,
    NodeAddons,
    Replicas,
    TenantAddons,
)
from harness.facts.fact import Origin, Unread
from harness.facts.objects import Obj, name_of
from harness.reach.errors import ApiRefused, Refused
from harness.reach.kube import Kube

HELM = "helm.toolkit.fluxcd.io/v2"
APPS = "apps/v1"
STORAGE = "storage.k8s.io/v1"
DISCOVERY = "discovery.k8s.io/v1"
METRICS_API = "metrics.k8s.io/v1beta1"
REGISTRATION = "apiregistration.k8s.io/v1"
CILIUM_SPACE, DNS_SPACE, INGRESS_SPACE = "cozy-cilium", "kube-system", "cozy-ingress-nginx"
"""Where the releases put them (CZ packages/apps/kubernetes/templates/helmreleases)."""
DNS_SERVICE = "kube-dns"
INGRESS_SERVICE = "ingress-nginx-controller"


def releases(management: Kube, namespace: str, cluster: str) -> tuple[str, ...]:
    """The addons that the tenant cluster has releases for, of those that are looked at."""
    found = {name_of(one) for one in management.list(HELM, "HelmRelease", namespace)}
    return tuple(addon for addon, name in addons.release_names(cluster).items() if name in found)


def tenant_addons(
    tenant: Kube,
    there: Sequence[str],
    nodes: Sequence[str],
    *,
    now: Callable[[], float],
    lookup: NameLookup | Unread | None = None,
    disk: DiskTry | Unread | None = None,
) -> TenantAddons:
    """The addons of ``there`` on these Nodes; what a pod found is taken over as it is."""
    usage, problem = _metrics(tenant) if METRICS in there else ({}, "")
    workers = _workers(tenant, there, nodes, usage)
    dns, dns_service = _dns(tenant) if COREDNS in there else (None, None)
    ingress, ingress_service = _ingress(tenant) if INGRESS in there else ((), None)
    api = (
        addons.api_state(tenant.get(REGISTRATION, "APIService", "", f"v1beta1.{_GROUP}"))
        if METRICS in there
        else ("", "")
    )
    told = {"releases": list(there), "nodes": list(nodes)}
    origin = Origin(now(), f"{tenant.name} addons", json.dumps(told))
    absent = tuple(one for one in ASKED if one not in there)
    return TenantAddons(
        origin,
        tuple(there),
        absent,
        workers,
        dns,
        dns_service,
        ingress,
        ingress_service,
        api,
        problem,
        lookup,
        disk,
    )


_GROUP = METRICS_API.partition("/")[0]


def _workers(
    tenant: Kube, there: Sequence[str], nodes: Sequence[str], usage: dict[str, Obj]
) -> tuple[NodeAddons, ...]:
    found = {name_of(one): one for one in tenant.list("v1", "Node")}
    agents = tenant.list("v1", "Pod", CILIUM_SPACE) if CILIUM in there else []
    csi = tenant.list(STORAGE, "CSINode") if CSI in there else []
    drivers = {name_of(one): one for one in csi}
    return tuple(
        addons.node_addons(
            found.get(name, {"metadata": {"name": name}}),
            agents,
            drivers.get(name),
            usage.get(name),
        )
        for name in nodes
    )


def _dns(tenant: Kube) -> tuple[Replicas | None, Backend | None]:
    found = tenant.get(APPS, "Deployment", DNS_SPACE, COREDNS)
    return addons.replicas(found) if found else None, _backend(tenant, DNS_SPACE, DNS_SERVICE)


def _ingress(tenant: Kube) -> tuple[tuple[Replicas, ...], Backend | None]:
    kinds = ("DaemonSet", "Deployment")
    found = [one for kind in kinds for one in tenant.list(APPS, kind, INGRESS_SPACE)]
    return tuple(map(addons.replicas, found)), _backend(tenant, INGRESS_SPACE, INGRESS_SERVICE)


def _backend(tenant: Kube, namespace: str, name: str) -> Backend | None:
    service = tenant.get("v1", "Service", namespace, name)
    if service is None:
        return None
    return addons.backend(service, tenant.list(DISCOVERY, "EndpointSlice", namespace))


def _metrics(tenant: Kube) -> tuple[dict[str, Obj], str]:
    """What the metrics API gives out of each Node, or why it gives out nothing."""
    try:
        found = tenant.list(METRICS_API, "NodeMetrics")
    except Refused:
        raise  # these credentials may not ask: nothing is known of the API
    except ApiRefused as refused:
        return {}, str(refused)
    return {name_of(one): one for one in found}, ""
