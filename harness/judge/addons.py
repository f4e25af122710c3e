"""addons-up: the tenant's addons work on every worker of a pool, each judged by its effect.

A HelmRelease that is Ready says that manifests were applied (objects.md section 2); it names the
addons to be asked about here and is evidence of nothing else.
"""

from __future__ import annotations

from harness.facts.addons import (
    CILIUM,
    COREDNS,
    CSI,
    DRIVER,
    INGRESS,
    METRICS,
    DiskTry,
    NameLookup,
    NodeAddons,
    TenantAddons,
)
from harness.facts.fact import Fact, Unread
from harness.judge.drbd_findings import Findings
from harness.judge.verdict import Verdict
from harness.judge.wording import counted, named

CLAIM = "addons-up"
DUE = (CILIUM, COREDNS, CSI, METRICS)
"""Addons of every tenant (objects.md section 3); ingress-nginx is one that a tenant may have."""
FRESH = 300.0
"""Seconds that a worker's metrics may be old; metrics-server takes them every 15 s by default."""


def addons_up(seen: TenantAddons, subject: str) -> Verdict:
    """addons-up: every addon that has a release does its work on every worker.

    Broken by any that does not; unknown where one could not be asked, where there are no workers
    or no releases to judge by, and where one that every tenant has is without a release. An
    ingress-nginx without one is told, and not asked.
    """
    found = Findings()
    if not seen.workers:
        found.unfit.append("there is no worker to look at")
    if not seen.there:
        found.unfit.append(f"no release of {named(seen.absent)} is there: nothing was asked for")
    asked = {
        CILIUM: _cilium,
        COREDNS: _coredns,
        CSI: _csi,
        INGRESS: _ingress,
        METRICS: _metrics,
    }
    for addon in seen.there:
        asked[addon](found, seen)
    found.doubts += [
        f"{one} has no release, and was not asked" for one in seen.absent if one in DUE
    ]
    if INGRESS in seen.absent:
        found.seen.append(f"not asked, without a release: {INGRESS}")
    more: list[Fact] = [one for one in (seen.lookup, seen.disk) if one is not None]
    return found.verdict(CLAIM, subject, seen, *more)


def _on(workers: tuple[NodeAddons, ...]) -> str:
    return f"on {counted(len(workers), 'worker')}"


def _cilium(found: Findings, seen: TenantAddons) -> None:
    for one in seen.workers:
        if one.agent != "Ready":
            found.broken.append(f"cilium's pod on {one.node} is {one.agent or 'not there'}")
        if one.waits:
            found.broken.append(f"{one.node} has the taint of a node without cilium's agent")
        if one.network == "True":
            found.broken.append(f"{one.node} says that its network is unavailable")
        elif one.network != "False":
            found.doubts.append(f"{one.node} does not say whether it has a network")
    found.seen.append(f"cilium Ready {_on(seen.workers)}, their network available")


def _coredns(found: Findings, seen: TenantAddons) -> None:
    dns, service = seen.dns, seen.dns_service
    if dns is None:
        found.broken.append("there is no Deployment coredns")
    elif dns.available != "True":
        found.broken.append(f"coredns has {dns.ready} of {dns.wanted} pods Ready: not available")
    if service is None or not service.behind:
        found.broken.append("nothing is behind the Service kube-dns")
    if seen.lookup is None or isinstance(seen.lookup, Unread):
        why = seen.lookup.reason if seen.lookup is not None else "nobody tried"
        found.doubts.append(f"no name was looked up: {why}")
    else:
        _resolved(found, seen.lookup)


def _resolved(found: Findings, lookup: NameLookup) -> None:
    if not lookup.service or not lookup.wanted:
        found.doubts.append("the Services kube-dns and kubernetes have no address to compare with")
    elif lookup.exit_code != 0 or not lookup.found:
        said = " ".join(lookup.origin.raw.split())
        found.broken.append(f"a pod could not resolve a Service's name: {said:.160}")
    elif lookup.server != lookup.service:
        asked = lookup.server or "nobody that is named"
        found.doubts.append(f"the pod asked {asked}, kube-dns is at {lookup.service}")
    elif lookup.wanted not in lookup.found:
        found.broken.append(
            f"a Service at {lookup.wanted} resolves to {named(lookup.found)} through kube-dns"
        )
    else:
        found.seen.append(f"a pod resolves a Service's name through kube-dns ({lookup.server})")


def _csi(found: Findings, seen: TenantAddons) -> None:
    for one in seen.workers:
        if one.drivers is None:
            found.broken.append(f"{one.node} has no CSINode")
        elif DRIVER not in one.drivers:
            found.broken.append(f"{one.node} has no driver {DRIVER}: {named(one.drivers)}")
    found.seen.append(f"{DRIVER} registered {_on(seen.workers)}")
    if seen.disk is None or isinstance(seen.disk, Unread):
        why = seen.disk.reason if seen.disk is not None else "nobody tried"
        found.doubts.append(f"no disk was asked for: {why}")
    else:
        _mounted(found, seen.disk)


def _mounted(found: Findings, disk: DiskTry) -> None:
    told = f"a claim of class {disk.storage_class}"
    if disk.phase != "Bound":
        found.broken.append(f"{told} is {disk.phase or 'not there'}: {disk.why or disk.pod}")
    elif disk.driver != DRIVER:
        found.broken.append(f"{told} is a volume of {disk.driver or 'no CSI driver'}")
    elif disk.pod != "Ready":
        found.broken.append(f"{told} is bound, and the pod that mounts it {disk.pod}: {disk.why}")
    elif not disk.device:
        found.doubts.append(f"{told} is bound, and what its pod has mounted could not be read")
    elif disk.wrote is None:
        found.doubts.append(f"whether {told} can be written to was not told")
    elif disk.wrote != 0:
        found.broken.append(f"{told} is mounted, and a write to it ended with {disk.wrote}")
    else:
        where = f"{disk.file_system} of {disk.device}"
        found.seen.append(f"{told} bound, mounted by a pod ({where}) and written to")


def _ingress(found: Findings, seen: TenantAddons) -> None:
    if not seen.ingress:
        found.broken.append("ingress-nginx has no DaemonSet and no Deployment")
    for one in seen.ingress:
        if not one.wanted:
            found.doubts.append(f"ingress-nginx' {one.name} wants no pod on any node")
        elif one.ready < one.wanted:
            found.broken.append(f"{one.name} has {one.ready} of {one.wanted} pods Ready")
    service = seen.ingress_service
    if service is None:
        found.seen.append("ingress-nginx Ready, without a Service (exposeMethod Proxied)")
    elif not service.behind:
        found.broken.append(f"nothing is behind the Service {service.name}")
    else:
        found.seen.append(f"ingress-nginx Ready, {counted(len(service.behind), 'endpoint')}")


def _metrics(found: Findings, seen: TenantAddons) -> None:
    available, reason = seen.api
    if available != "True":
        told = reason or "it does not say why" if available else "there is none"
        found.broken.append(f"APIService v1beta1.metrics.k8s.io is not available: {told}")
    if seen.metrics_problem:
        found.broken.append(f"the metrics API gives no list: {seen.metrics_problem}")
        return
    for one in seen.workers:
        if one.measured is None or not one.usage:
            found.broken.append(f"the metrics API has nothing of {one.node}")
        elif seen.origin.at - one.measured > FRESH:
            old = seen.origin.at - one.measured
            found.broken.append(f"the metrics of {one.node} are {old:.0f} s old")
    found.seen.append(f"metrics of {counted(len(seen.workers), 'worker')} through the API")
