"""What a tenant's monitoring has scraped: its workers' exporters, and its pods as objects.

Every target is asked each 30 s at moments of its own. One that is down gives no sample, and what
it gave before is stale from that scrape on: a worker that reboots has a gap (Prometheus,
"Staleness"). Nothing is stored; a machine's memory is a function of its uptime, and what changes
by steps is kept as its steps.
"""

from __future__ import annotations

import math
import zlib
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world.memory import Boot
from harness.twin.world.objects import Obj, deep

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

SCRAPE = 30.0
"""Seconds between two scrapes of one target."""
_KIB = 1024.0
_MEMORY = {
    "node_memory_MemTotal_bytes": "total",
    "node_memory_MemFree_bytes": "free",
    "node_memory_MemAvailable_bytes": "available",
    "node_memory_Buffers_bytes": "buffers",
    "node_memory_Cached_bytes": "cached",
}
_NODE = (*_MEMORY, "node_boot_time_seconds", "node_vmstat_oom_kill", "up")
_RESTARTS = "kube_pod_container_status_restarts_total"
NAMES = (*_NODE, _RESTARTS)
"""Every metric that is scraped."""

Sample = tuple[float, float]
"""A moment in epoch seconds, and the value scraped then."""


@dataclass(slots=True)
class _Machine:
    """A worker's exporter: its labels, and the machines of that name, one after the other."""

    labels: dict[str, str]
    guests: list[Guest] = field(default_factory=list)

    def boot_at(self, at: float) -> Boot | None:
        """The boot in which the exporter answered at a moment."""
        for boot in (boot for guest in reversed(self.guests) for boot in reversed(guest.boots)):
            if boot.began <= at:
                over = boot.ended is not None and at >= boot.ended
                return boot if boot.served is not None and boot.served <= at and not over else None
        return None

    def known_at(self, at: float) -> bool:
        """Whether the target had been found by then: its Node was there once."""
        boots = (boot for guest in self.guests for boot in guest.boots)
        return any(boot.served is not None and boot.served <= at for boot in boots)


@dataclass(slots=True)
class _Container:
    """A container's restarts as the API had them: moments and counts; ``gone`` when it went."""

    labels: dict[str, str]
    moments: list[float] = field(default_factory=list)
    counts: list[int] = field(default_factory=list)
    gone: float = math.inf


@dataclass(frozen=True, slots=True)
class Series:
    """One series: its labels, the metric's name among them, and its samples on demand."""

    labels: Mapping[str, str]
    _value: _Read

    def samples(self, begin: float, end: float) -> list[Sample]:
        """The samples after ``begin`` and up to ``end``, as scraped."""
        found = ((at, self._value(at)) for at in self._scrapes(begin, end))
        return [(at, value) for at, value in found if value is not None]

    def at(self, moment: float, lookback: float = 300.0) -> float | None:
        """The value that counts at a moment: of the last scrape, unless that found nobody."""
        scrapes = self._scrapes(moment - min(lookback, SCRAPE), moment)
        return self._value(scrapes[-1]) if scrapes else None

    def _scrapes(self, begin: float, end: float) -> list[float]:
        offset = _offset(self.labels)
        first = math.floor((begin - offset) / SCRAPE) + 1
        last = math.floor((end - offset) / SCRAPE)
        return [offset + SCRAPE * index for index in range(first, last + 1)]


class _Read:
    """Reads one metric of one target at a scrape; None where the target does not answer."""

    def __call__(self, at: float) -> float | None:
        """The value, or None."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class _OfMachine(_Read):
    name: str
    machine: _Machine

    def __call__(self, at: float) -> float | None:
        boot = self.machine.boot_at(at)
        if self.name == "up":
            return float(boot is not None) if self.machine.known_at(at) else None
        if boot is None:
            return None
        if self.name in _MEMORY:
            levels = boot.memory.at(at - boot.began)
            return float(getattr(levels, _MEMORY[self.name])) * _KIB
        if self.name == "node_boot_time_seconds":
            return float(math.floor(boot.began))
        return float(bisect_right(boot.kills, at))


@dataclass(frozen=True, slots=True)
class _OfContainer(_Read):
    container: _Container

    def __call__(self, at: float) -> float | None:
        index = bisect_right(self.container.moments, at) - 1
        if index < 0 or at >= self.container.gone:
            return None
        return float(self.container.counts[index])


class Metrics:
    """Everything that the monitoring of the lab's tenant has scraped since the lab began."""

    def __init__(self, world: World) -> None:
        self._machines: dict[str, _Machine] = {}  # by the Node's name
        self._containers: dict[tuple[str, str], _Container] = {}
        self._now = partial(getattr, world.engine, "now")
        world.on_guest.append(lambda guest, _: self.meet(guest))
        for cluster in world.tenant_clusters.values():
            cluster.on("v1", "Pod", self._hear)

    def meet(self, guest: Guest) -> None:
        """A machine is there whose exporter is to be scraped once its kubelet is up."""
        labels = {
            "container": "node-exporter",
            "instance": f"{guest.hostname}:9100",
            "job": "node-exporter",
            "namespace": "cozy-monitoring",
            "node": guest.hostname,
        }
        self._machines.setdefault(guest.hostname, _Machine(labels)).guests.append(guest)

    def series(self) -> Iterator[Series]:
        """Every series that there is or was, in the order in which its target was met."""
        for machine in self._machines.values():
            for name in _NODE:
                yield Series({"__name__": name, **machine.labels}, _OfMachine(name, machine))
        for container in self._containers.values():
            yield Series({"__name__": _RESTARTS, **container.labels}, _OfContainer(container))

    def _hear(self, change: Change) -> None:
        pod, gone = change.obj, change.type == "DELETED"
        uid = pod["metadata"]["uid"]
        for status in deep(pod, "status", "containerStatuses") or ():
            kept = self._containers.get((uid, status["name"]))
            if kept is None:
                kept = _Container(_pod_labels(pod, status["name"], uid))
                self._containers[uid, status["name"]] = kept
            if gone:
                kept.gone = self._now()
            elif not kept.counts or kept.counts[-1] != status.get("restartCount", 0):
                kept.moments.append(self._now())
                kept.counts.append(status.get("restartCount", 0))


def _pod_labels(pod: Obj, container: str, uid: str) -> dict[str, str]:
    return {
        "container": container,
        "instance": "kube-state-metrics:8080",
        "job": "kube-state-metrics",
        "namespace": pod["metadata"]["namespace"],
        "node": deep(pod, "spec", "nodeName") or "",
        "pod": pod["metadata"]["name"],
        "uid": uid,
    }


def _offset(labels: Mapping[str, str]) -> float:
    """When within the interval a target is scraped: by its address, as Prometheus spreads them."""
    return zlib.crc32(labels["instance"].encode()) % int(SCRAPE * 1000) / 1000
