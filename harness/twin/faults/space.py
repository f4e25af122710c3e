"""Faults of where disks lie: no room below LINSTOR, a quota, no satellites, a stale view."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import NOT_ASKED_FOR
from harness.twin.faults.model import ALL_POOLS, Fault
from harness.twin.faults.requests import MANAGER
from harness.twin.world.landscape import HOSTS
from harness.twin.world.objects import deep, meta
from harness.twin.world.satellites import is_satellite
from harness.twin.world.world import LAB

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

GIB = 2**20  # KiB
LEFT = 30 * GIB
"""What is left in each pool: room for a worker's disk, and not for what making it takes."""
SLOW = 7 * 24 * 3600.0
NO_ROOM = frozenset({"headroom"})


def _fill(world: World) -> None:
    """Other tenants' volumes have taken nearly all of every node's storage pool."""
    for host in HOSTS:
        pool = world.linstor.pools.on(host)
        pool.volumes["pvc-archive"] = pool.total - sum(pool.volumes.values()) - LEFT


def _free_late(world: World) -> None:
    """They were deleted, and ZFS is a week about freeing them."""
    _fill(world)
    due = world.engine.now + SLOW
    for host in HOSTS:
        world.linstor.pools.on(host).release("pvc-archive", due)


def _quota(world: World) -> None:
    hard, used = {"requests.storage": "100Gi"}, {"requests.storage": "0"}
    quota = {
        "apiVersion": "v1",
        "kind": "ResourceQuota",
        "metadata": meta("tenant-hil", LAB[1]),
        "spec": {"hard": hard},
        "status": {"hard": hard, "used": used},
    }
    world.cluster.create(quota, manager=MANAGER)


def _no_satellites(world: World) -> None:
    """The satellites' main containers end at once: the kernels have no DRBD to log."""
    for pod in world.cluster.all("v1", "Pod", "cozy-linstor"):
        if is_satellite(pod):
            world.cluster.status(pod, _crashed, manager="kubelet")


def _crashed(pod: Obj) -> None:
    for status in pod["status"]["containerStatuses"]:
        waits = {"reason": "CrashLoopBackOff", "message": "back-off 5m0s restarting failed"}
        status.update(ready=False, state={"waiting": waits})
    for condition in pod["status"]["conditions"]:
        if condition["type"] in ("Ready", "ContainersReady"):
            condition.update(status="False", reason="ContainersNotReady")


def _go_stale(world: World) -> None:
    """Before a worker opens its disk, its host's satellite tells nothing more."""

    def starts(_: Guest, instance: Obj) -> None:
        launcher = world.instances.launcher_of(instance) or {}
        world.linstor.hang(str(deep(launcher, "spec", "nodeName")))

    world.on_guest.insert(0, starts)


FAULTS = (
    Fault(
        id="tenant-quota-scratch",
        sentence="The tenant's quota has room for a pool's disks, and not for the scratch space "
        "that their imports take beside them.",
        seen="asked for all the same: ErrExceededQuota on a claim ...-scratch; the storage has "
        "room",
        wrong_diagnosis="LINSTOR is full",
        breaks=NO_ROOM,
        blinds=NOT_ASKED_FOR | {"golden-ready"},
        where=("plain",),
        edit=_quota,
        source="CZ",
    ),
    Fault(
        id="pool-space-exhausted",
        sentence="The storage pools are full of other tenants' volumes.",
        seen="free_capacity low on every node; asked for all the same: claims stay Pending, not "
        "enough free space",
        wrong_diagnosis="autoPlace asks for too many copies",
        breaks=NO_ROOM,
        blinds=NOT_ASKED_FOR | {"golden-ready"},
        where=ALL_POOLS,
        edit=_fill,
        source="CZ",
    ),
    Fault(
        id="pool-space-freed-late",
        sentence="The volumes that filled the storage pools are deleted, and not freed yet by ZFS.",
        seen="no resource that takes much, and free_capacity low on every node all the same",
        wrong_diagnosis="the volumes are gone, so there is room",
        breaks=NO_ROOM,
        blinds=NOT_ASKED_FOR | {"golden-ready"},
        where=ALL_POOLS,
        edit=_free_late,
        source="CZ",
    ),
    Fault(
        id="zero-linstor-nodes",
        sentence="No satellite has ever come up: the hosts' kernels lack the DRBD module.",
        seen="/v1/nodes is empty, LinstorSatellite Available False, the satellites' pods crash; "
        "claims stay Pending, no available topology found",
        wrong_diagnosis="a bug of the CSI driver",
        breaks=NO_ROOM,
        blinds=NOT_ASKED_FOR | {"golden-ready"},
        where=ALL_POOLS,
        edit=_no_satellites,
        source="CZ",
    ),
    Fault(
        id="linstor-view-stale",
        sentence="The satellite of a worker's host hangs: connected, and telling nothing new.",
        seen="LINSTOR: ONLINE, and the disk in use nowhere; the kernel: Primary, in use",
        wrong_diagnosis="the node is ONLINE, so what it says is current",
        breaks=frozenset({"linstor-agrees", "nothing-left"}),
        where=ALL_POOLS,
        edit=_go_stale,
        source="objects.md section 8 (inferred)",
    ),
)
