"""A replicated volume of a cluster to do with as one likes: a claim of the pool's own class.

It is made on first use and deleted with the pool. What an earlier run left is deleted first.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.bringup.drbd.volume import Replica, Volume
from harness.bringup.errors import PoolNotReady
from harness.facts.drbd import DrbdHistory, DrbdStatus
from harness.observe.drbd import drbd_history, drbd_status
from harness.observe.satellites import bound_volume, satellites
from harness.reach.errors import LabError

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool
    from harness.reach.nodeshell import NodeShell

SIZE = 64 * 1024 * 1024
"""Bytes: as much as the mini-lab's guests replicate, so that both take alike."""
BUDGET = 300.0
"""Seconds for the claim to be bound and for its replicas to be in step."""
_API, _KIND = "v1", "PersistentVolumeClaim"


def _backing(shell: NodeShell, resource: str) -> str:
    """The disk below a replica, as DRBD's list of events names it; "" where it names none."""
    found = drbd_history(shell, resource)
    named = (
        found.states("device", "backing_dev", resource) if isinstance(found, DrbdHistory) else ()
    )
    return next((name for name in reversed(named) if name.startswith("/dev/")), "")


def cluster_volume(pool: HeldPool, resource: str, size: int) -> Volume:
    """A DRBD resource of a pool's cluster, as its storage nodes show it; ``size`` in bytes, 0 for
    what the kernels say. Raises PoolNotReady where no satellite shows it.
    """
    shells = satellites(pool.lab.management)
    seen = {node: drbd_status(shell, resource) for node, shell in shells.items()}
    having = {
        node: one
        for node, one in seen.items()
        if isinstance(one, DrbdStatus) and one.find(resource) is not None
    }
    devices = {
        node: found.devices[0]
        for node, one in having.items()
        for found in (one.find(resource),)
        if found is not None and found.devices
    }
    minors = {device.minor for device in devices.values()}
    if not having or len(minors) != 1:
        told = ", ".join(f"{node}: {type(one).__name__}" for node, one in seen.items())
        told = told or "there is no satellite"
        raise PoolNotReady(f"no satellite shows the volume {resource} ({told})")
    power = pool.lab.power
    return Volume(
        resource=resource,
        device=f"/dev/drbd{minors.pop()}",
        replicas=tuple(
            Replica(
                node,
                shells[node],
                power(node) if power else None,
                reopen=partial(_shell_on, pool, node),
                backing=_backing(shells[node], resource),
            )
            for node in devices
        ),
        link=pool.lab.link,
        clock=pool.lab.clock,
        size=size or min(one.size or 0 for one in devices.values()),
        renew=pool.renew,
    )


def _shell_on(pool: HeldPool, node: str) -> NodeShell:
    """The satellite on a node that was away. Raises LabError while none runs there."""
    found = satellites(pool.lab.management).get(node)
    if found is None:
        raise LabError(
            f"ask DRBD on storage node {node}", "no running satellite there", "wait for it"
        )
    return found


class ScratchVolume:
    """The scratch volume of one held pool."""

    def __init__(self, pool: HeldPool) -> None:
        self._pool = pool
        self._volume: Volume | None = None
        self._place = pool.lab.inventory.tenant

    @property
    def name(self) -> str:
        """The claim's name in the tenant's namespace."""
        return f"hil-scratch-{self._place.cluster}-{self._pool.name}"

    def get(self) -> Volume:
        """The volume, made on first use. Raises PoolNotReady where it does not come about."""
        if self._volume is None:
            self._volume = self._make()
        return self._volume

    def clear(self) -> None:
        """Delete the claim, and with it the volume; none is fine."""
        self._pool.lab.management.delete(_API, _KIND, self._place.namespace, self.name)
        self._volume = None

    def _make(self) -> Volume:
        pool, kube = self._pool, self._pool.lab.management
        self.clear()
        if not pool.wait(self._is_gone, BUDGET, f"an earlier {self.name} to be gone"):
            raise PoolNotReady(f"an earlier claim {self.name} is not gone after {BUDGET:.0f} s")
        kube.create(self._claim())
        if not pool.wait(lambda: bool(self._bound()), BUDGET, f"{self.name} to be bound"):
            raise PoolNotReady(f"the claim {self.name} is not bound after {BUDGET:.0f} s")
        return cluster_volume(pool, self._bound(), SIZE)

    def _bound(self) -> str:
        return bound_volume(self._pool.lab.management, self._place.namespace, self.name)

    def _is_gone(self) -> bool:
        found = self._pool.lab.management.get(_API, _KIND, self._place.namespace, self.name)
        return found is None

    def _claim(self) -> dict[str, object]:
        return {
            "apiVersion": _API,
            "kind": _KIND,
            "metadata": {
                "name": self.name,
                "namespace": self._place.namespace,
                "labels": {"app.kubernetes.io/managed-by": "hil"},
            },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "volumeMode": "Block",
                "storageClassName": self._pool.request.storage_class,
                "resources": {"requests": {"storage": str(SIZE)}},
            },
        }
