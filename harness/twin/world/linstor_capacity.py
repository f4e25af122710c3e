"""CSIStorageCapacity objects, which csi-provisioner keeps for each class of LINSTOR's driver.

One for each class whose volumes are reached from everywhere, else one for each node; looked at
again once a minute where something changed (csi-provisioner ``--enable-capacity``, objects.md
section 8).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import linstor_groups as groups
from harness.twin.world.linstor_groups import DRIVER, Group
from harness.twin.world.objects import STORAGE, Obj, meta
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.world.linstor import Linstor
    from harness.twin.world.world import World

TOPOLOGY = "linbit.com/hostname"
_NAMESPACE = "cozy-linstor"
_MANAGER = "csi-provisioner"
_EVERY = 60.0  # csi-provisioner's --capacity-poll-interval


class Capacities:
    """Every CSIStorageCapacity of the lab."""

    def __init__(self, world: World, linstor: Linstor) -> None:
        self._world, self._linstor = world, linstor
        self._work = Activities(world.engine)
        self._rng = world.rng("csi storage capacities")
        self._names: dict[tuple[str, str], str] = {}  # by class and host

    def changed(self) -> None:
        """Something was placed, deleted, or came and went: the next look finds it."""
        self._work.start("csi-provisioner's capacities", _EVERY, self.refresh)

    def refresh(self) -> None:
        """Write what each class's volumes could take now."""
        for klass in self._world.cluster.all(STORAGE, "StorageClass"):
            if klass.get("provisioner") != DRIVER:
                continue
            group = groups.group_of(klass)
            spaces = self._linstor.spaces(group.pool)
            places = [""] if group.remote else self._world.storage.hosts()
            for host in places:
                here = [one for one in spaces if host in ("", one.host)]
                self._write(klass, host, _capacity(group, here))
        if any(pool.frees_at > self._world.engine.now for pool in self._linstor.pools):
            self.changed()

    def _write(self, klass: Obj, host: str, kib: int) -> None:
        key = (klass["metadata"]["name"], host)
        name = self._names.get(key)
        found = name and self._world.cluster.find(STORAGE, "CSIStorageCapacity", _NAMESPACE, name)
        if not found:
            self._names[key] = f"csisc-{self._rng.getrandbits(28):07x}"
            self._world.cluster.create(_object(self._names[key], key, kib), manager=_MANAGER)
        elif found["capacity"] != f"{kib}Ki":
            self._world.cluster.edit(
                found, lambda stored: stored.update(capacity=f"{kib}Ki"), manager=_MANAGER
            )


def _capacity(group: Group, spaces: list[groups.Space]) -> int:
    return groups.largest(spaces, group.place_count) or 0


def _object(name: str, key: tuple[str, str], kib: int) -> Obj:
    klass, host = key
    return {
        "apiVersion": STORAGE,
        "kind": "CSIStorageCapacity",
        "metadata": meta(name, _NAMESPACE, labels={"csi.storage.k8s.io/drivername": DRIVER}),
        "storageClassName": klass,
        "nodeTopology": {"matchLabels": {TOPOLOGY: host}} if host else {},
        "capacity": f"{kib}Ki",
    }
