"""Faults of the end: what a pool leaves behind when it is taken down."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Fault
from harness.twin.faults.requests import MANAGER
from harness.twin.world.objects import STORAGE
from harness.twin.world.pods import requests

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

HELD = "vfio.example.com/in-use"
LEFT = frozenset({"nothing-left"})


def _retain(world: World) -> None:
    """The class keeps the volumes of claims that are gone."""

    def change(klass: Obj) -> None:
        klass["reclaimPolicy"] = "Retain"

    world.management.edit(STORAGE, "StorageClass", "", "replicated", change, manager=MANAGER)


def _never_deleted(world: World) -> None:
    """LINSTOR marks resources as deleted, and no satellite takes them away."""
    world.linstor.deletes = False


def _hold_launchers(world: World) -> None:
    """Something on the host still has the card when a worker's machine has ended."""

    def starts(_: Guest, instance: Obj) -> None:
        launcher = world.instances.launcher_of(instance)
        if launcher is not None and any("nvidia.com/" in name for name in requests(launcher)):
            world.cluster.add_finalizer(launcher, HELD, manager=MANAGER)

    world.on_guest.append(starts)


FAULTS = (
    Fault(
        id="volumes-retained",
        sentence="The StorageClass keeps the volumes of claims that are deleted.",
        seen="PersistentVolumes Released with the claims of pools that are gone; free_capacity "
        "falls from run to run",
        wrong_diagnosis="every object of the pool is gone, so nothing is left",
        breaks=LEFT,
        where=ALL_POOLS,
        edit=_retain,
        source="field.md section 5",
    ),
    Fault(
        id="drbd-resource-stuck-deleting",
        sentence="LINSTOR marks the disks' resources as deleted, and they never go.",
        seen="no PersistentVolume is left; LINSTOR lists the resources with the flag DELETE, and "
        "their space is not given back",
        wrong_diagnosis="the volumes are gone, so their space is free",
        breaks=LEFT,
        where=ALL_POOLS,
        edit=_never_deleted,
        source="field.md section 5 (LINBIT/linstor-server#101)",
    ),
    Fault(
        id="launcher-keeps-card",
        sentence="The launcher of a worker's machine does not go, and keeps its card.",
        seen="virt-launcher being deleted for ever, with a finalizer; VMI and Machine wait for it; "
        "the host has one card fewer to give",
        wrong_diagnosis="the pool was deleted, so its card is free",
        breaks=LEFT,
        where=GPU_POOLS,
        edit=_hold_launchers,
        source="field.md section 5",
    ),
)
