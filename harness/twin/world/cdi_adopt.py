"""CDI's adoption of a claim that was there before its DataVolume.

A DataVolume of a claim's name is turned down, unless it says that it may adopt it; then the claim
becomes its own as it is, whatever its source says (CDI doc/datavolumes.md, claim adoption). That
a claim is adopted before it is bound is inferred.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.cdi_shapes import GROUP, MANAGER
from harness.twin.world.cdi_status import VolumeStatus
from harness.twin.world.objects import Obj, annotations_of, controller_of, deep, owner

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

ADOPT = f"{GROUP}/allowClaimAdoption"
POPULATED_FOR = f"{GROUP}/storage.populatedFor"


def may_adopt(volume: Obj, claim: Obj) -> bool:
    """Whether a DataVolume may take a claim of its name for its own, or has."""
    metadata = volume["metadata"]
    if annotations_of(claim).get(POPULATED_FOR) == metadata["name"]:
        return bool(controller_of(claim).get("uid") == metadata["uid"])
    return annotations_of(volume).get(ADOPT) == "true" and not controller_of(claim)


def adopt(cluster: Cluster, status: VolumeStatus, volume: Obj, claim: Obj) -> None:
    """Take the claim, and say how far it is: it holds what it is to hold once it is bound."""

    def take(stored: Obj) -> None:
        stored["metadata"].setdefault("annotations", {})[POPULATED_FOR] = volume["metadata"]["name"]
        stored["metadata"]["ownerReferences"] = [owner(volume)]

    if not controller_of(claim):
        cluster.edit(claim, take, manager=MANAGER)
    if deep(claim, "status", "phase") == "Bound":
        status.show(volume, "Succeeded", "Completed", "", progress="100.0%")
    else:
        status.show(volume, "Pending", "Pending", "")
