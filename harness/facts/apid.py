"""Whether Talos' API can come up on workers: the control plane's ports, and who listens there.

apid gets its certificate through port 50001 of the Service kubernetes-<cluster> and listens on
50000 only then (objects.md section 4; uptime_and_diagnosis section 2, cause B).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import Obj, at_path, listed, text_at
from harness.facts.reply import Output, quote, unfinished

SOCKETS = ("/proc/1/net/tcp", "/proc/1/net/tcp6")
"""Of the host's own init, for a pod's /proc/net is that of whoever reads it."""
_ROW = re.compile(
    r"^\s*\d+: (?:[0-9A-F]{8}|[0-9A-F]{32}):(?P<port>[0-9A-F]{4}) "
    r"(?:[0-9A-F]{8}|[0-9A-F]{32}):[0-9A-F]{4} (?P<state>[0-9A-F]{2}) "
)
_HEAD = "local_address"
_LISTEN = "0A"  # TCP_LISTEN, include/net/tcp_states.h


@dataclass(frozen=True, slots=True)
class ControlPlanePorts(Fact):
    """The ports of a Service, in its order."""

    namespace: str
    name: str
    ports: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Listening(Fact):
    """The TCP ports on which somebody listens on a machine, ascending."""

    node: str
    ports: tuple[int, ...]


def control_plane_ports(
    service: Obj | None, namespace: str, name: str, *, at: float, cluster: str
) -> ControlPlanePorts | Unread:
    """The ports of the Service of a tenant's control plane; Unread where there is none."""
    source = f"{cluster} Service {namespace}/{name}"
    origin = Origin(at, source, repr(at_path(service or {}, "spec", "ports")))
    if service is None:
        return Unread(origin, f"ports of Service {name}", "there is no such Service")
    ports = [at_path(one, "port") for one in listed(service, "spec", "ports")]
    numbers = tuple(one for one in ports if isinstance(one, int))
    if len(numbers) != len(ports) or not numbers:
        return Unread(origin, f"ports of Service {name}", f"no list of ports: {ports!r:.120}")
    metadata = (text_at(service, "metadata", "namespace"), text_at(service, "metadata", "name"))
    return ControlPlanePorts(origin, *metadata, numbers)


def read_listening(node: str, output: Output, *, at: float, source: str) -> Listening | Unread:
    """Read the reply of ``cat`` over `SOCKETS`, one table after the other."""
    origin = output.origin(at, source)
    refused = unfinished(output, " ".join(SOCKETS), origin)
    if refused is not None:
        return refused
    lines = output.stdout.splitlines()
    if not any(_HEAD in line for line in lines):
        why = f"no table of sockets: {quote(output.stdout)}"
        return Unread(origin, " ".join(SOCKETS), why)
    odd = next((line for line in lines if _HEAD not in line and not _ROW.match(line)), None)
    if odd is not None:
        return Unread(origin, " ".join(SOCKETS), f"no row of such a table: {quote(odd)}")
    return Listening(origin, node, tuple(sorted(set(_listening(lines)))))


def _listening(lines: list[str]) -> Iterator[int]:
    for line in lines:
        row = _ROW.match(line)
        if row and row["state"] == _LISTEN:
            yield int(row["port"], 16)
