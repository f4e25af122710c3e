"""LINSTOR's CSI driver: a DRBD resource for each replicated volume, and disks that machines use.

A resource bears its PersistentVolume's name. What the class asks of DRBD: objects.md section 8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world.drbd_resource import Resource
from harness.twin.world.drbd_state import Settings
from harness.twin.world.guest_disk import GuestDisk
from harness.twin.world.linstor import host_wanted
from harness.twin.world.objects import STORAGE, Obj, deep, labels_of, quantity
from harness.twin.world.pool_chart import CLUSTER_NAME
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

DRIVER = "linstor.csi.linbit.com"
_PROPERTY = f"property.{DRIVER}/DrbdOptions"
_KEPT_ALIVE = 40.0
"""Seconds of frozen I/O after which a kubelet is silent (order: a Lease lives for 40 s)."""
_AGAIN = 2.0  # seconds between two tries to open a disk (order)
_HUNG = 120.0  # the kernel's hung_task_timeout_secs


@dataclass(frozen=True, slots=True)
class _Held:
    """A disk that a machine has open on a host."""

    host: str
    cluster: str
    guest: Guest


class LinstorCsi:
    """Keeps DRBD resources in step with PersistentVolumes, and machines with their disks."""

    def __init__(self, world: World) -> None:
        self._world = world
        # called with each disk that a machine opens, and the host where it does
        self.on_disk: list[Callable[[Resource, str], None]] = []
        self._held: dict[str, _Held] = {}  # by resource
        self._silent: set[str] = set()
        self._disks: dict[str, GuestDisk] = {}  # what machines have on them, by resource
        self._work = Activities(world.engine)
        world.cluster.on("v1", "PersistentVolume", self._hear)
        world.on_guest.append(self._starts)

    # -- volumes

    def _hear(self, change: Change) -> None:
        volume = change.obj
        name = volume["metadata"]["name"]
        if change.type == "DELETED":
            self._world.storage.remove(name)
            self._world.linstor.delete(name)
            self._held.pop(name, None)
            self._disks.pop(name, None)
        elif deep(volume, "spec", "csi", "driver") == DRIVER:
            size = quantity(deep(volume, "spec", "capacity", "storage") or "0")
            kib = -(-size // 4096) * 4
            if change.type == "ADDED":
                self._create(name, volume, kib)
            elif self._world.linstor.grow(name, kib):
                self._world.storage.grow(name, kib)

    def _create(self, name: str, volume: Obj, kib: int) -> None:
        cluster = self._world.cluster
        klass = deep(volume, "spec", "storageClassName") or ""
        found = cluster.find(STORAGE, "StorageClass", "", klass) or {"metadata": {"name": klass}}
        holder = deep(volume, "spec", "claimRef") or {}
        space, claim = holder.get("namespace", ""), holder.get("name", "")
        wanted = host_wanted(volume, cluster.find("v1", "PersistentVolumeClaim", space, claim))
        hosts = self._world.linstor.place(name, kib, found, wanted)
        parameters = found.get("parameters") or {}
        if "drbd" in parameters.get(f"{DRIVER}/layerList", "").split():
            settings = _settings(self._world, parameters)
            made = self._world.storage.create(name, kib, settings, hosts)
            made.watchers.append(self._look)

    # -- machines

    def _starts(self, guest: Guest, instance: Obj) -> None:
        """A machine opens its disk on the host where it runs, and closes it when it stops."""
        launcher = self._world.instances.launcher_of(instance) or {}
        host = deep(launcher, "spec", "nodeName") or ""
        resource = self._disk(instance)
        if resource is None:
            return
        name = resource.name
        self._open(resource, _Held(host, labels_of(instance).get(CLUSTER_NAME, ""), guest))

        def stops() -> None:
            self._work.stop(f"opens {name}")
            self._forget(name)
            held = self._held.pop(name, None)
            replica = resource.on(held.host) if held is not None else None
            if replica is not None:
                resource.io.close(replica)

        self._world.guests.when_stopped(instance, stops)

    def _open(self, resource: Resource, held: _Held) -> None:
        """Open a disk as soon as its host has it: after a boot its satellite brings it up first.

        On a host without a replica the first one's is used, over the network.
        """
        hosts = [one.host for one in resource.replicas]
        host = held.host if held.host in hosts else hosts[0]
        replica = resource.on(host)
        if replica is None or resource.io.open(replica, writes=True):
            again = partial(self._open, resource, held)
            self._work.start(f"opens {resource.name}", _AGAIN, again)
            return
        self._held[resource.name] = replace(held, host=host)
        held.guest.root.disk = self._disks.setdefault(resource.name, GuestDisk())
        held.guest.root.disk.attach(resource, replica)
        for hook in self.on_disk:
            hook(resource, host)

    def _disk(self, instance: Obj) -> Resource | None:
        namespace = instance["metadata"]["namespace"]
        for volume in deep(instance, "spec", "volumes") or ():
            name = deep(volume, "dataVolume", "name")
            claim = self._world.cluster.find("v1", "PersistentVolumeClaim", namespace, name or "")
            found = self._world.storage.resources.get(deep(claim or {}, "spec", "volumeName") or "")
            if found is not None:
                return found
        return None

    def host_of(self, resource: str, machine: str) -> str:
        """The host on which a machine has a disk open; "" where it has not."""
        held = self._held.get(resource)
        return held.host if held is not None and held.guest.hostname == machine else ""

    # -- I/O that stands still

    def _look(self, resource: Resource) -> None:
        """A machine whose disk stands still says nothing more after a while."""
        held = self._held.get(resource.name)
        replica = resource.on(held.host) if held is not None else None
        if held is None or replica is None:
            return
        name = resource.name
        if not replica.frozen:
            if name in self._silent:
                self._tell(held, frozen=False)
            self._forget(name)
            return
        self._work.start(f"freezes {name}", _KEPT_ALIVE, lambda: self._freeze(name))
        self._work.start(f"hangs {name}", _HUNG, lambda: self._hang(name))

    def _freeze(self, name: str) -> None:
        held = self._held.get(name)
        if held is not None:
            self._silent.add(name)
            self._tell(held, frozen=True)

    def _hang(self, name: str) -> None:
        held = self._held.get(name)
        if held is not None and held.guest.running:
            text = "INFO: task kworker/u16:2:71 blocked for more than 120 seconds."
            held.guest.kernel.log(text)

    def _forget(self, name: str) -> None:
        self._silent.discard(name)
        self._work.stop(f"freezes {name}")
        self._work.stop(f"hangs {name}")

    def _tell(self, held: _Held, *, frozen: bool) -> None:
        workers = self._world.workers_of(held.cluster)
        if workers is not None:
            (workers.frozen if frozen else workers.thawed)(held.guest.hostname)


def _settings(world: World, parameters: Obj) -> Settings:
    """What a class asks of DRBD; what it does not ask for is DRBD's default."""
    asked = parameters.get(f"{_PROPERTY}/auto-quorum", "off")
    outdated = parameters.get(f"{_PROPERTY}/Resource/on-suspended-primary-outdated", "disconnect")
    return replace(
        world.storage.settings,
        quorum="off" if asked in ("off", "disabled") else "majority",
        on_no_quorum=asked if asked in ("suspend-io", "io-error") else "suspend-io",
        on_no_data_accessible=parameters.get(
            f"{_PROPERTY}/Resource/on-no-data-accessible", "io-error"
        ),
        on_suspended_primary_outdated=outdated,
        rr_conflict=parameters.get(f"{_PROPERTY}/Net/rr-conflict", "disconnect"),
    )
