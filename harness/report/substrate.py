"""On what a run was made: a simulated lab, containers, real guests on one machine, or a cluster.

What each can establish: lanes.md sections 1, 3 and 4; of the mini-lab lab/qemu_drbd.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Substrate(StrEnum):
    """What stood beneath a run, from nothing real to all of it."""

    UNRECORDED = "not recorded"
    SIMULATED = "simulated"
    CONTAINERS = "containers"
    MINI_LAB = "mini-lab"
    CLUSTER = "cluster"


IN_WORDS: Mapping[Substrate, str] = {
    Substrate.UNRECORDED: "the lab may have been real or simulated",
    Substrate.SIMULATED: "no machine of this lab was real",
    Substrate.CONTAINERS: "the cluster's nodes were containers on one kernel, no machines",
    Substrate.MINI_LAB: "QEMU guests and DRBD on one machine, no Cozystack in them",
    Substrate.CLUSTER: "clusters of real machines",
}
"""What it means, in a few words."""
_OF_KIND: Mapping[str, Substrate] = {
    "twin": Substrate.SIMULATED,
    "containers": Substrate.CONTAINERS,
    "qemu": Substrate.MINI_LAB,
    "cluster": Substrate.CLUSTER,
}


def substrate_of(kind: str) -> Substrate:
    """The substrate of a lab of this kind, as an inventory says it ("twin", "qemu", "cluster"), or
    "containers" for a cluster whose nodes are some.

    A kind that is not known, or not recorded, is never taken for real.
    """
    return _OF_KIND.get(kind, Substrate.UNRECORDED)
