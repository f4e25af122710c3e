"""A lab that can be reached: its clock, its clusters, and one watch per kind."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING

from harness.bringup.seat import Seat
from harness.clock import Clock, ClockStuck, Moment, VirtualClock, WallClock
from harness.httptime import HttpTimeSource
from harness.inventory.models import Lab
from harness.inventory.naming import cluster_name
from harness.inventory.secrets import SecretUnavailableError
from harness.reach.access import client_from_files, client_from_text, client_in_cluster
from harness.reach.courtesy import courtesy_to
from harness.reach.errors import ApiRefused, KubeconfigMissing, LabError, Unreachable
from harness.reach.kube import Kube
from harness.reach.watch import Observatory

if TYPE_CHECKING:
    from kubernetes.client import ApiClient

    from harness.reach.power import Link, Power

ADMIN_KEY = "super-admin.conf"
"""Key of the tenant's admin Secret that holds the kubeconfig with the external address
(objects.md section 4)."""
TWIN_PLATFORM = b"hil/twin"
"""What a twin says at /version for its platform, and no real API server does."""


@dataclass(frozen=True, slots=True)
class Reachable:
    """How to reach a lab: a kubeconfig, a context, and a clock to move if any.

    ``kubeconfig`` is a file, several of them, the text itself, or None for the service account of
    the pod that this runs in.
    """

    kubeconfig: Path | tuple[Path, ...] | str | None
    context: str
    clock_url: str = ""


def reachable(lab: Lab) -> Reachable:
    """How the inventory says its lab is reached. Raises LabError when it does not say."""
    if lab.management is None:
        raise LabError(
            f"reach the lab {lab.name}",
            "an inventory without `management`",
            "name its kubeconfig and context",
        )
    access, clock_url = lab.management, str(lab.management.clock_url or "")
    if access.kubeconfig is None:
        return Reachable(None, "", clock_url)
    where = access.kubeconfig.where
    try:
        files = access.kubeconfig.files()
        text = access.kubeconfig.document() if len(files) < 2 else ""
    except SecretUnavailableError as missing:
        saw, _, do = str(missing).rpartition(": ")
        do = f"{do} (`management` names it)"
        raise KubeconfigMissing(f"read the kubeconfig {where}", saw, do) from missing
    return Reachable(files or text, str(access.context), clock_url)


class LabTime:
    """A lab's time over HTTP, whose silence is the lab's fault and none of the harness.

    A request that was broken off, by Ctrl-C for one, spoils its connection: the next has its own.
    ``seat`` is how who shares the time with other processes is called, "" for who is alone.
    """

    def __init__(self, url: str, seat: str = "") -> None:
        self._url = url
        self._source = HttpTimeSource(url)
        self._seat = Seat.take(url, seat) if seat else None
        if self._seat is not None:
            self._source.seat = self._seat.ident

    def settle(self) -> Moment:
        """Bring every watch up to date without moving time. Raises Unreachable."""
        return self._ask(lambda source: source.settle())

    def advance(self, until: float) -> Moment:
        """Move to the next visible moment, at the latest to ``until``. Raises Unreachable."""
        return self._ask(lambda source: source.advance(until))

    def close(self) -> None:
        """Let go of the connection, and of the seat."""
        self._source.close()
        if self._seat is not None:
            self._seat.leave()

    def _ask(self, ask: Callable[[HttpTimeSource], Moment]) -> Moment:
        whole = False
        try:
            moment = ask(self._source)
            whole = True
        except (OSError, HTTPException) as gone:
            saw = str(gone) or type(gone).__name__
            do = "see whether the twin still runs (`hil twin state`)"
            raise Unreachable(f"move the time of the lab at {self._url}", saw, do) from gone
        finally:
            if not whole:
                self._source.close()
        return moment


@dataclass(slots=True)
class ConnectedLab:
    """A lab within reach. Close it when done.

    ``power`` of a storage node by its Node's name and ``link``, the wires between those, are None
    where the lab lets nobody touch them.
    """

    inventory: Lab
    clock: Clock
    management: Kube
    observatory: Observatory
    run_id: str
    power: Callable[[str], Power] | None = None
    link: Link | None = None
    _time: LabTime | None = field(default=None)
    _tenant: Kube | None = field(default=None)

    @property
    def tenant(self) -> Kube:
        """The tenant cluster, reached with the kubeconfig that its own Secret holds."""
        if self._tenant is None:
            self._tenant = self._connect_tenant()
        return self._tenant

    def close(self) -> None:
        """Stop watching, and let go of every connection."""
        self.observatory.close()
        for kube in (self.management, self._tenant):
            if kube is not None:
                kube.client.rest_client.pool_manager.clear()
        if self._time is not None:
            self._time.close()

    def _connect_tenant(self) -> Kube:
        place = self.inventory.tenant
        secret_name = f"{cluster_name(place.cluster)}-admin-kubeconfig"
        tried = f"read Secret {place.namespace}/{secret_name} for the tenant's kubeconfig"
        secret = self.management.get("v1", "Secret", place.namespace, secret_name)
        if secret is None:
            raise LabError(tried, "no such Secret", f"is the tenant cluster {place.cluster} there?")
        held = (secret.get("data") or {}).get(ADMIN_KEY)
        if not held:
            raise LabError(tried, f"no key {ADMIN_KEY} in it", "wait for its control plane")
        text = base64.b64decode(held).decode()
        client = client_from_text(text, source=secret_name, foreign=True)
        return _kube(f"tenant {place.cluster}", client, self.clock, place.requests_per_second)


def connect(lab: Lab, way: Reachable, run_id: str, *, seat: str = "") -> ConnectedLab:
    """Connect to a lab. Nothing is written; an unreachable API is found out here.

    ``seat``: who this is, where several processes drive the lab on virtual time; then it moves only
    when all of them wait. "" for who looks on.
    """
    client = _client(way)
    time = LabTime(way.clock_url, seat) if way.clock_url else None
    clock = _clock(time)
    named = lab.management.requests_per_second if lab.management is not None else None
    management = _kube("management", client, clock, named)
    connected = ConnectedLab(lab, clock, management, Observatory(clock), run_id, _time=time)
    try:
        _refuse_a_twin(connected)
        refuse_containers(connected.inventory, connected.management)
        _see_tenant(connected)
    except LabError:
        connected.close()
        raise
    return connected


def _clock(time: LabTime | None) -> Clock:
    if time is None:
        return WallClock()
    try:
        return VirtualClock(time)
    except (LabError, ClockStuck):
        time.close()
        raise


def _client(way: Reachable) -> ApiClient:
    if way.kubeconfig is None:
        return client_in_cluster()
    if isinstance(way.kubeconfig, str):
        return client_from_text(way.kubeconfig, way.context)
    files = (way.kubeconfig,) if isinstance(way.kubeconfig, Path) else way.kubeconfig
    return client_from_files(files, way.context)


def _kube(name: str, client: ApiClient, clock: Clock, named: int | None) -> Kube:
    """A cluster that is asked no faster than it may be; pytest-xdist's workers share that."""
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    courtesy = courtesy_to(client.configuration.host, named, clock, shares=workers)
    return Kube(name, client, clock, courtesy=courtesy)


def _refuse_a_twin(lab: ConnectedLab) -> None:
    """A twin behind an inventory that calls it a cluster would sign releases."""
    if lab.inventory.kind != "cluster":
        return
    kube = lab.management
    try:
        told = kube.request("get", "GET", "/version")
    except ApiRefused:
        return  # a twin refuses it to nobody
    if TWIN_PLATFORM in told:
        raise LabError(
            f"take lab {lab.inventory.name} for a cluster of real machines",
            f"a simulated one at {kube.url}",
            "write `kind: twin` into the inventory, or correct its kubeconfig",
        )


def refuse_containers(lab: Lab, management: Kube) -> None:
    """Nodes that are containers, behind an inventory that calls them machines, would sign releases.

    Talos on a machine runs its own kernel, whose release ends in "-talos"; in a container it is
    whatever the machine runs. kind says itself what it is, in a Node's providerID. Where Nodes may
    not be listed, the inventory is believed. Raises LabError.
    """
    if lab.substrate != "cluster":
        return
    try:
        nodes = management.list("v1", "Node")
    except ApiRefused:
        return
    for node in nodes:
        told = (node.get("status") or {}).get("nodeInfo") or {}
        image, kernel = str(told.get("osImage", "")), str(told.get("kernelVersion", ""))
        provider = str((node.get("spec") or {}).get("providerID", ""))
        alien = image.startswith("Talos") and kernel and not kernel.endswith("-talos")
        if alien or provider.startswith("kind://"):
            name = (node.get("metadata") or {}).get("name")
            raise LabError(
                f"take lab {lab.name} for a cluster of real machines",
                f"Node {name} in a container: {provider or image}, kernel {kernel}",
                "write `nodes: containers` into the inventory, or correct its kubeconfig",
            )


def _see_tenant(lab: ConnectedLab) -> None:
    namespace = lab.inventory.tenant.namespace
    if lab.management.get("v1", "Namespace", "", namespace) is None:
        raise LabError(
            f"find the tenant's namespace {namespace} on the management cluster",
            "no such Namespace",
            "create the tenant, or correct `tenant` in the inventory",
        )
