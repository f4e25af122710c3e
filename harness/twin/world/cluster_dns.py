"""Names of a tenant cluster's Services, as ``nslookup`` in one of its pods finds them.

The answer comes from CoreDNS through its Service, hence only while that has an endpoint. busybox'
words (networking/nslookup.c of 1.37).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from harness.twin.apiserver.execresult import ExecResult
from harness.twin.world.addons_chart import COREDNS, DNS_SERVICE, NAMESPACES
from harness.twin.world.endpoints import ready_addresses
from harness.twin.world.objects import Obj, deep

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

DOMAIN = ".svc.cluster.local"
_NOBODY = ";; connection timed out; no servers could be reached\n\n"


def nslookup(cluster: Cluster, pod: Obj, arguments: Sequence[str]) -> ExecResult:
    """``nslookup NAME [SERVER]``."""
    if not 1 <= len(arguments) <= 2 or any(one.startswith("-") for one in arguments):
        asked = " ".join(("nslookup", *arguments))
        return ExecResult(b"", b"", 1, f"not modelled on this machine: {asked}")
    place = NAMESPACES[COREDNS]
    service = cluster.find("v1", "Service", place, DNS_SERVICE) or {}
    address = str(deep(service, "spec", "clusterIP") or "")
    outside = deep(pod, "spec", "hostNetwork") and len(arguments) == 1
    asked = arguments[1] if len(arguments) == 2 else address
    if outside or asked != address or not ready_addresses(cluster, place, DNS_SERVICE):
        return ExecResult(_NOBODY.encode(), b"", 1)
    head = f"Server:\t\t{address}\nAddress:\t{address}:53\n\n"
    found = _address(cluster, arguments[0].rstrip("."))
    if not found:
        text = f"** server can't find {arguments[0]}: NXDOMAIN\n\n"
        return ExecResult(f"{head}{text}{text}".encode(), b"", 1)
    told = f"Name:\t{arguments[0].rstrip('.')}\nAddress: {found}\n\n"
    return ExecResult(f"{head}\n{told}".encode(), b"", 0)


def _address(cluster: Cluster, name: str) -> str:
    service, _, namespace = name.removesuffix(DOMAIN).partition(".")
    if not name.endswith(DOMAIN) or "." in namespace:
        return ""
    found = cluster.find("v1", "Service", namespace, service) or {}
    return str(deep(found, "spec", "clusterIP") or "")
