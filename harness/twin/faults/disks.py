"""Faults of a worker's disk as it comes out: its class, its access mode, its size."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import NO_HOST, NOT_RENDERED
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Fault
from harness.twin.faults.requests import MANAGER, both, class_changed, disk_rules, pools_written
from harness.twin.world.cdi_planner import CdiBehaviour
from harness.twin.world.objects import CDI, STORAGE
from harness.twin.world.storage_classes import DEFAULT_CLASS, VIRT_DEFAULT_CLASS

if TYPE_CHECKING:
    from harness.twin.world.world import World

CLONED = ("cloned",)
DOWNLOADED = (*GPU_POOLS, "plain")
ASKED, LOCAL = "replicated", "local"
TOO_SMALL = "4Gi"


def _cloned_workers(spec: Obj) -> bool:
    return bool(spec.get("minReplicas")) and "builtin" in (spec.get("osImage") or {})


def _downloaded_workers(spec: Obj) -> bool:
    return bool(spec.get("minReplicas")) and "builtin" not in (spec.get("osImage") or {})


def _no_class(spec: Obj) -> None:
    spec["storageClass"] = ""


def _small(spec: Obj) -> None:
    spec["diskSize"] = TOO_SMALL


def _mark(world: World, klass: str, annotation: str, value: str) -> None:
    def change(found: Obj) -> None:
        found["metadata"].setdefault("annotations", {})[annotation] = value

    world.management.edit(STORAGE, "StorageClass", "", klass, change, manager=MANAGER)


def _two_defaults(world: World) -> None:
    """The chart's default is the golden's class, KubeVirt's own is another."""
    _mark(world, LOCAL, DEFAULT_CLASS, "false")
    _mark(world, ASKED, DEFAULT_CLASS, "true")
    _mark(world, LOCAL, VIRT_DEFAULT_CLASS, "true")


def _one_node_only(world: World) -> None:
    """Somebody wrote the StorageProfile's first set anew."""

    def change(profile: Obj) -> None:
        profile["spec"]["claimPropertySets"] = [
            {"accessModes": ["ReadWriteOnce"], "volumeMode": "Block"}
        ]

    world.management.edit(CDI, "StorageProfile", "", ASKED, change, manager=MANAGER)


def _never_grow(world: World) -> None:
    world.data_volumes.clones.behaviour = CdiBehaviour(grows=False)


FAULTS = (
    Fault(
        id="stale-default-class-empty",
        sentence="Pools leave their class empty, and the chart, of before it wrote the class down, "
        "and CDI each take another default for it.",
        seen="the chart compares replicated with the golden's and renders; the disk is of local, "
        "KubeVirt's own default",
        wrong_diagnosis="the golden is broken",
        breaks=frozenset({"disk-shape", "disk-source", "storage-ok"}),
        blinds=frozenset({"class-resolved", "disk-failover", "linstor-agrees", "no-roll"}),
        where=CLONED,
        edit=both(
            _two_defaults,
            disk_rules(class_written=False),
            pools_written(_no_class, of=_cloned_workers),
        ),
        source="S-OSI",
    ),
    Fault(
        id="default-class-moved",
        sentence="Pools leave their class empty, and the cluster's default is not the golden's.",
        seen="InstallFailed: storageClass local differs from golden image; local is the cluster's "
        "default",
        wrong_diagnosis="the golden is broken",
        breaks=frozenset({"node-joins", "spec-applied"}),
        blinds=NOT_RENDERED,
        where=CLONED,
        edit=pools_written(_no_class, of=_cloned_workers),
        source="S-OSI",
    ),
    Fault(
        id="disk-not-grown",
        sentence="The class does not let volumes grow, and this CDI hands the clone over as it is.",
        seen="the PVC asks for 20Gi and has 6Gi; /dev/vda is as large as the golden; DiskPressure "
        "later",
        wrong_diagnosis="the image is too big",
        breaks=frozenset({"disk-shape"}),
        where=CLONED,
        edit=both(class_changed(allowVolumeExpansion=False), _never_grow),
        source="S-OSI (inferred)",
    ),
    Fault(
        id="rwo-worker-disk",
        sentence="The class's StorageProfile was edited: a claim is for one node at a time.",
        seen="the disk's PVC ReadWriteOnce; LiveMigratable False DisksNotLiveMigratable, on a pool "
        "with cards HostDeviceNotLiveMigratable as ever",
        wrong_diagnosis="the card: HostDeviceNotLiveMigratable",
        breaks=frozenset({"disk-shape"}),
        where=ALL_POOLS,
        edit=_one_node_only,
        source="S-OSI; KV",
    ),
    Fault(
        id="disk-smaller-than-image",
        sentence="A client asks for disks of 4Gi, which the image does not fit into.",
        seen="ImportInProgress with restarts: DataVolume too small to contain image; never Failed",
        wrong_diagnosis="the image factory, or the quota",
        breaks=frozenset({"disk-phases", "disk-shape", "node-joins"}),
        blinds=(NO_HOST | {"passthrough"}) - {"disk-shape"},
        where=DOWNLOADED,
        edit=pools_written(_small, of=_downloaded_workers),
        source="S-OSI",
    ),
)
