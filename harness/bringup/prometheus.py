"""The way to the Prometheus that the inventory names, and what it has of a worker's memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.bringup.boots import Sample
from harness.bringup.connect import ConnectedLab
from harness.facts.boots import BootSample
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.memory import AVAILABLE, MEMINFO, MemoryWindow
from harness.inventory import services
from harness.inventory.secrets import SecretRef, SecretUnavailableError
from harness.observe.memory import meminfo, memory_window
from harness.reach.errors import KeyUnusable, LabError
from harness.reach.prometheus import Credentials, HttpWay, Prometheus, ServiceWay, Way

if TYPE_CHECKING:
    from harness.bringup.worker import Worker

NOT_ASKED = "not asked: the inventory names no `prometheus`"


@contextmanager
def prometheus_of(lab: ConnectedLab) -> Iterator[Prometheus | None]:
    """What scrapes the tenant's workers, with the inventory's credentials; None where it names
    none. Raises LabError where what it names cannot be used.
    """
    named = lab.inventory.prometheus
    if named is None:
        yield None
        return
    prometheus = Prometheus(_way(lab, named), lab.clock)
    try:
        yield prometheus
    finally:
        prometheus.close()


def memory_since(lab: ConnectedLab, node: str, since: float) -> MemoryWindow | Unread:
    """A node's memory from ``since`` (epoch seconds) until now; Unread with the reason where that
    cannot be had, and where nobody is there to be asked."""
    now, named = lab.clock.now, lab.inventory.prometheus
    asked = f"{AVAILABLE} of {node}"
    try:
        with prometheus_of(lab) as prometheus:
            if prometheus is None or named is None:
                return Unread(Origin(now(), "the inventory", ""), asked, NOT_ASKED)
            labels = dict(named.labels)
            return memory_window(
                prometheus, node, since, now=now, label=named.node_label, labels=labels
            )
    except LabError as error:
        return Unread(Origin(now(), "Prometheus", ""), asked, str(error))


def memory_of(worker: Worker, boots: Sequence[Sample]) -> tuple[Fact, ...]:
    """A worker's memory since the boot of the first of these looks began, and its kernel's word of
    it now; empty where no look was at a boot."""
    lab, first = worker.pool.lab, next((one for one in boots if isinstance(one, BootSample)), None)
    if first is None:
        return ()
    seen: list[Fact] = [memory_since(lab, worker.name, first.began)]
    if isinstance(boots[-1], BootSample):
        seen.append(_now(worker))
    return tuple(seen)


def _now(worker: Worker) -> Fact:
    try:
        return meminfo(worker.shell, worker.name)
    except LabError as error:
        now = worker.pool.lab.clock.now()
        return Unread(Origin(now, f"guest {worker.name}", ""), MEMINFO, str(error))


def _way(lab: ConnectedLab, named: services.Prometheus) -> Way:
    if named.service is not None:
        one = named.service
        kube = lab.tenant if one.cluster == "tenant" else lab.management
        return ServiceWay(kube, one.namespace, one.name, one.port, one.scheme)
    url = str(named.url)
    credentials = Credentials(
        ca=_secret(named.ca, url),
        certificate=_secret(named.certificate, url),
        key=_secret(named.key, url),
        token=_secret(named.token, url),
        user=named.user or "",
        password=_secret(named.password, url),
    )
    return HttpWay(url, credentials, lab.clock)


def _secret(named: SecretRef | None, url: str) -> str:
    if named is None:
        return ""
    try:
        return named.document()
    except SecretUnavailableError as missing:
        saw, _, do = str(missing).rpartition(": ")
        raise KeyUnusable(
            f"ask Prometheus at {url}", saw, f"{do} (`prometheus` names it)"
        ) from missing
