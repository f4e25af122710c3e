"""LINSTOR's resource groups: one for each class of its CSI driver, and what fits in them.

A class's parameters become a group's selection and properties (piraeus linstor-csi); the words of
a placement that fails are LINSTOR's (linstor-server issues 457 and 839, piraeus-operator 440).
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass

from harness.twin.world.linstor_pools import DATA
from harness.twin.world.objects import Obj

DRIVER = "linstor.csi.linbit.com"
DEFAULT_GROUP = "DfltRscGrp"
_NAMES = uuid.UUID("18e8a1d0-6a5e-4c5c-9d0c-1f6a3c2f7b10")
_PROPERTY = f"property.{DRIVER}/"


@dataclass(frozen=True, slots=True)
class Group:
    """A resource group: how many copies in which pool, through which layers."""

    name: str
    place_count: int
    pool: str
    layers: tuple[str, ...]
    props: Mapping[str, str]
    remote: bool = True

    @property
    def replicated(self) -> bool:
        """Whether its volumes are DRBD's."""
        return "DRBD" in self.layers


@dataclass(frozen=True, slots=True)
class Space:
    """A node that a volume could be placed on, and the KiB that are free there."""

    host: str
    free: int
    total: int


DEFAULT = Group(DEFAULT_GROUP, 2, "", ("DRBD", "STORAGE"), {})


def group_of(klass: Obj) -> Group:
    """The group of a StorageClass."""
    parameters = klass.get("parameters") or {}
    own = {
        key.removeprefix(f"{DRIVER}/"): value
        for key, value in parameters.items()
        if key.startswith(f"{DRIVER}/")
    }
    props = {
        key.removeprefix(_PROPERTY): value
        for key, value in parameters.items()
        if key.startswith(_PROPERTY)
    }
    name = own.get("resourceGroup") or f"sc-{uuid.uuid5(_NAMES, repr(sorted(parameters.items())))}"
    layers = own.get("layerList", "drbd storage").upper().split()
    return Group(
        name,
        int(own.get("autoPlace", own.get("placementCount", "1"))),
        own.get("storagePool", DATA),
        tuple(layers),
        props,
        own.get("allowRemoteVolumeAccess", "true") != "false",
    )


def chosen(spaces: list[Space], count: int) -> list[Space]:
    """The nodes that LINSTOR's autoplacer takes: those with the most free space."""
    return sorted(spaces, key=lambda one: (-one.free, one.host))[:count]


def largest(spaces: list[Space], count: int) -> int | None:
    """KiB of the largest volume that fits so many times; None where there are too few nodes."""
    best = chosen(spaces, count)
    return best[-1].free if count and len(best) == count else None


def too_few(name: str, kib: int, klass: str, group: Group) -> str:
    """What the claim's Event says when LINSTOR finds no place."""
    layers = "".join(f"\n      {layer}" for layer in group.layers)
    details = (
        "Not enough nodes fulfilling the following auto-place criteria:\n"
        f" * has a deployed storage pool named [{group.pool}]\n"
        f" * the storage pools have to have at least '{kib}' free space\n"
        " * the current access context has enough privileges to use the node and the storage "
        "pool\n"
        " * the node is online\n\n"
        "Auto-place configuration details:\n"
        f"   Replica count: {group.place_count}\n"
        f"   Storage pool name:\n      {group.pool}\n"
        f"   Layer stack:{layers}\n"
        "   Diskless on remaining: false\n"
    )
    return (
        f'failed to provision volume with StorageClass "{klass}": rpc error: code = Internal '
        f"desc = CreateVolume failed for {name}: rpc error: code = ResourceExhausted desc = "
        "failed to enough replicas on requisite nodes: Message: 'Not enough available nodes'; "
        f"Details: '{details}'"
    )


def no_topology(klass: str) -> str:
    """What the claim's Event says where LINSTOR has no node at all (linstor-csi issue 116)."""
    return (
        f'failed to provision volume with StorageClass "{klass}": error generating accessibility '
        "requirements: no available topology found"
    )


def cannot_grow(name: str, kib: int, hosts: list[str], pool: str) -> str:
    """What csi-resizer is told when a larger volume does not fit."""
    told = ", ".join(
        f"storage pool '{pool}' on node '{host}' does not have enough free space" for host in hosts
    )
    return (
        "rpc error: code = Internal desc = ControllerExpandVolume - expand volume failed for "
        f"volume id {name}: Message: 'cannot resize volume to {kib} KiB'; Details: '{told}'"
    )
