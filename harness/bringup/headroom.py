"""Room for a pool's disks: measured before it is asked for, and refused where there is none.

Free capacity is LINSTOR's own figure, never worked out from what is there or gone: ZFS gives back
late what was deleted (clone_path.md section 7).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from harness.bringup.connect import ConnectedLab
from harness.bringup.linstor import linstor_of
from harness.facts.fact import Origin
from harness.facts.goldenname import name_of_golden
from harness.facts.headroom import Headroom, PoolDemand
from harness.facts.reckoning import reckon
from harness.observe import headroom as observe
from harness.observe import linstor as controller
from harness.observe.satellites import pool_disks
from harness.reach.errors import LabError
from harness.reach.linstor import Linstor

Log = Callable[[str, str], None]


class NoHeadroom(LabError):
    """The storage or the tenant's quota has no room for the pool at its peak, as ``measured``."""

    def __init__(self, tried: str, saw: str, do: str, *, measured: Headroom) -> None:
        super().__init__(tried, saw, do)
        self.measured = measured


def gate(
    lab: ConnectedLab, pool: str, log: Log, *, stands: bool, beside: Iterable[str] = ()
) -> Headroom | None:
    """What there is room for, before anything of the pool is written; None where nobody can tell.

    ``beside`` are the pools that have been promised room already. Raises NoHeadroom, with the sum,
    where one that does not stand yet cannot fit, and LabError where LINSTOR's address or
    certificates are wrong. What is not known is told and refuses nothing.
    """
    with linstor_of(lab) as linstor:
        if linstor is None:
            told = "the inventory says nothing of LINSTOR's controller"
            log("headroom", f"the headroom of pool {pool} was not measured: {told}")
            return None
        found = measure(lab, linstor, pool, beside)
    reckoning = reckon(found)
    if reckoning.fits is False and not stands:
        raise NoHeadroom(
            f"make room for pool {pool} on class {lab.inventory.pools[pool].storage_class}",
            reckoning.because,
            "free space in the storage pool or raise the quota, or ask for fewer or smaller disks",
            measured=found,
        )
    outcome = {True: "fits", False: "does not fit, and stands already", None: "may not fit"}
    log("headroom", f"pool {pool} {outcome[reckoning.fits]}: {reckoning.because}")
    return found


def measure(lab: ConnectedLab, linstor: Linstor, pool: str, beside: Iterable[str] = ()) -> Headroom:
    """All that the sum is made of. Raises LabError where the lab cannot be reached.

    Capacities come first: a disk that another pool makes meanwhile is then not counted twice.
    """
    kube, now, inventory = lab.management, lab.clock.now, lab.inventory
    name = inventory.pools[pool].storage_class
    pools, nodes = controller.pools(linstor, now=now), controller.nodes(linstor, now=now)
    others = [one for one in beside if one != pool and inventory.pools[one].storage_class == name]
    return Headroom(
        inventory.storage_classes[name].replicas,
        (_demand(lab, pool), *(_demand(lab, one) for one in others)),
        observe.placement(kube, name, now=now),
        nodes,
        pools,
        observe.quotas(kube, inventory.tenant.namespace, now=now),
    )


def _demand(lab: ConnectedLab, name: str) -> PoolDemand:
    """What a pool is going to take; its workers are as many at least as at most (its manifest)."""
    inventory, place = lab.inventory, lab.inventory.tenant
    asked, clones = inventory.pools[name], inventory.pools[name].os_image == "builtin"
    golden = name_of_golden(inventory.schematic_of(name).id, asked.talos_version)
    told = {"pool": name, "diskSize": str(asked.disk_size), "replicas": asked.replicas}
    return PoolDemand(
        Origin(lab.clock.now(), f"inventory pool {name}", json.dumps(told)),
        name,
        asked.storage_class,
        workers=asked.replicas,
        standing=len(pool_disks(lab.management, place.namespace, place.cluster, name)),
        surge=asked.replicas,
        disk=asked.disk_size.bytes,
        clone=clones,
        golden=observe.golden_size(lab.management, golden) if clones else None,
    )
