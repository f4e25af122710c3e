"""LINSTOR in the lab: its volumes and where they are, its nodes, and what its controller knows.

The controller decides by what it knows, and what it knows comes from its satellites
(`linstor_reports`); DRBD in the kernels goes on without it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.twin.world import linstor_groups as groups
from harness.twin.world.linstor_capacity import Capacities
from harness.twin.world.linstor_groups import DRIVER, Group, Space
from harness.twin.world.linstor_nodes import Nodes
from harness.twin.world.linstor_pools import DATA, Pools, gross, net
from harness.twin.world.linstor_reports import Reports
from harness.twin.world.objects import STORAGE, Obj, annotations_of, deep, meta

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource
    from harness.twin.world.world import World

NAMESPACE, SERVICE = "cozy-linstor", "linstor-controller"
_SELECTED_NODE = "volume.kubernetes.io/selected-node"


@dataclass(frozen=True, slots=True)
class Volume:
    """A resource definition with its one volume. ``kib`` is what its user sees."""

    name: str
    kib: int
    group: Group
    hosts: tuple[str, ...]
    created: float

    @property
    def allocated(self) -> int:
        """KiB that each copy takes."""
        return gross(self.kib) if self.group.replicated else net(self.kib)


@dataclass(frozen=True, slots=True)
class ErrorReport:
    """One of the controller's or a satellite's error reports."""

    node: str
    moment: float
    exception: str
    message: str


class Linstor:
    """The controller. ``error_reports`` are its own and the satellites', oldest first."""

    def __init__(self, world: World) -> None:
        self._world = world
        engine, draw = world.engine, world.timings.draw
        self.pools = Pools(lambda: engine.now, lambda: draw("zfs.free"))
        self.nodes = Nodes(world, self._came, self._went)
        self.reports = Reports(
            lambda: engine.now, lambda: draw("linstor.report"), self.nodes.online
        )
        self.capacities = Capacities(world, self)
        self.volumes: dict[str, Volume] = {}
        self.deletes = True
        """Whether satellites take away what is deleted; else it stays in ``deleting``."""
        self.deleting: set[str] = set()
        self.error_reports: list[ErrorReport] = []
        self._told_free: dict[str, int] = {}  # KiB, of hosts whose satellite hangs
        world.storage.on_created.append(self._follow)
        engine.after(0.0, self._begin, "LINSTOR begins")

    def build(self) -> None:
        """The controller's Service, which has its REST API."""
        ports = [
            {"name": name, "port": port, "protocol": "TCP", "targetPort": port}
            for name, port in (("http", 3370), ("https", 3371))
        ]
        selector = {"app.kubernetes.io/component": SERVICE}
        self._world.cluster.create(
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": meta(SERVICE, NAMESPACE, labels=dict(selector)),
                "spec": {"type": "ClusterIP", "ports": ports, "selector": selector},
            },
            manager="piraeus-operator",
        )

    def _begin(self) -> None:
        self.nodes.begin()
        self.capacities.refresh()

    # -- what provisioning asks

    def refusal(self, name: str, size: int, klass: Obj) -> str:
        """Why no volume of ``size`` bytes of a StorageClass can be made now; "" where it can.

        It is the whole text of the claim's ProvisioningFailed Event.
        """
        group, kib = groups.group_of(klass), _kib(size)
        if not self.nodes.names():
            return groups.no_topology(klass["metadata"]["name"])
        wanted = gross(kib) if group.replicated else net(kib)
        fits = [one for one in self.spaces(group.pool) if one.free >= wanted]
        if len(fits) >= group.place_count:
            return ""
        return groups.too_few(name, kib, klass["metadata"]["name"], group)

    def refusal_to_grow(self, name: str, size: int) -> str:
        """Why a volume cannot be made ``size`` bytes large now; "" where it can."""
        volume = self.volumes.get(name)
        if volume is None:
            return ""
        more = replace(volume, kib=_kib(size)).allocated - volume.allocated
        short = [host for host in volume.hosts if self.pools.free(host) < more]
        if not short:
            return ""
        return groups.cannot_grow(name, _kib(size), short, volume.group.pool)

    def spaces(self, pool: str) -> list[Space]:
        """The nodes that may take a copy: online, with the pool asked for ("" is any)."""
        if pool not in ("", DATA):
            return []
        return [
            Space(host, free, self.pools.on(host).total)
            for host in self.nodes.names()
            if (free := self.free(host)) is not None
        ]

    def free(self, host: str) -> int | None:
        """KiB free on a node as far as the controller knows; None where it knows nothing."""
        if not self.nodes.online(host):
            return None
        return self._told_free.get(host, self.pools.free(host))

    def groups(self) -> list[Group]:
        """Every resource group, by name; two classes of equal parameters share one."""
        classes = self._world.cluster.all(STORAGE, "StorageClass")
        found = {groups.DEFAULT.name: groups.DEFAULT}
        for klass in classes:
            if klass.get("provisioner") == DRIVER:
                group = groups.group_of(klass)
                found.setdefault(group.name, group)
        for volume in self.volumes.values():
            found.setdefault(volume.group.name, volume.group)
        return sorted(found.values(), key=lambda one: one.name)

    # -- volumes

    def place(self, name: str, kib: int, klass: Obj, wanted: str = "") -> Sequence[str]:
        """Make room for a volume; the hosts that hold it.

        ``wanted`` is the host that a volume without replicas has to be on. Who did not ask first
        whether it fits gets it all the same, where the most room is.
        """
        group = groups.group_of(klass)
        everywhere = [Space(host, self.pools.free(host), 0) for host in self._world.storage.hosts()]
        online = [one for one in everywhere if self.nodes.online(one.host)]
        spaces = online if len(online) >= group.place_count else everywhere
        spaces = [one for one in spaces if one.host == wanted] or spaces
        hosts = sorted(one.host for one in groups.chosen(spaces, group.place_count))
        volume = Volume(name, kib, group, tuple(hosts), self._world.engine.now)
        self.volumes[name] = volume
        self._allocate(volume)
        return hosts

    def grow(self, name: str, kib: int) -> bool:
        """A volume is larger from now on; False where it is not, or there is none."""
        volume = self.volumes.get(name)
        if volume is None or kib <= volume.kib:
            return False
        self.volumes[name] = replace(volume, kib=kib)
        self._allocate(self.volumes[name])
        return True

    def delete(self, name: str) -> None:
        """A volume is gone; one that is not there is fine."""
        if not self.deletes and name in self.volumes:
            self.deleting.add(name)
        elif self.volumes.pop(name, None) is not None:
            self.pools.release(name)
            self.reports.forget(name)
            self.capacities.changed()

    def _allocate(self, volume: Volume) -> None:
        for host in volume.hosts:
            self.pools.on(host).volumes[volume.name] = volume.allocated
        self.capacities.changed()

    # -- satellites

    def hang(self, host: str) -> None:
        """A node's satellite stays connected and tells nothing more: what it said last stands."""
        self._told_free[host] = self.pools.free(host)
        self.reports.hang(host)

    def recover(self, host: str) -> None:
        """A satellite that hung goes on."""
        self._told_free.pop(host, None)
        self.reports.recover(host, self._world.storage.resources)

    def host_stops(self, host: str) -> None:
        """A host answers nobody any more."""
        self.nodes.host_stops(host)

    def host_goes_on(self, host: str) -> None:
        """A host that stood still answers again."""
        self.nodes.host_goes_on(host)

    def satellite_up(self, host: str) -> None:
        """A host has booted, and its satellite has brought its resources up."""
        self.nodes.satellite_up(host)

    def _came(self, host: str) -> None:
        self.reports.sync(host, self._world.storage.resources)
        self.capacities.changed()

    def _went(self, host: str) -> None:
        self._told_free.pop(host, None)
        self.reports.lose(host)
        self.capacities.changed()

    def _follow(self, resource: Resource) -> None:
        resource.watchers.append(self._hear)
        self._hear(resource)

    def _hear(self, resource: Resource) -> None:
        self.reports.hear(resource)
        volume = self.volumes.get(resource.name)
        hosts = tuple(replica.host for replica in resource.replicas)
        if volume is not None and volume.hosts != hosts:  # somebody took a replica away
            self.volumes[resource.name] = replace(volume, hosts=hosts)
            self.pools.release(resource.name, keep=hosts)


def host_wanted(volume: Obj, claim: Obj | None) -> str:
    """The host that a volume has to be on: by its node affinity, or what its claim waited for."""
    terms: list[Obj] = deep(volume, "spec", "nodeAffinity", "required", "nodeSelectorTerms") or []
    for term in terms:
        for expression in term.get("matchExpressions") or []:
            values = expression.get("values") or []
            if len(values) == 1:
                return str(values[0])
    return annotations_of(claim).get(_SELECTED_NODE, "") if claim else ""


def _kib(size: int) -> int:
    """Bytes in KiB, in whole blocks of 4 KiB."""
    return -(-size // 4096) * 4
