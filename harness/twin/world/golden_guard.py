"""What the pool chart asks of the golden that a builtin pool clones: R5 to R9.

Conditions, fragments and what is no refusal: clone_path.md section 3.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.twin.world import conditions, pool_classes
from harness.twin.world.chart_behaviour import DiskRules
from harness.twin.world.objects import CDI, Obj, deep, quantity
from harness.twin.world.pool_classes import Class
from harness.twin.world.pool_disk import HELPERS, PUBLIC, Disk, Release

_RESTARTS = 3  # R7


@dataclass(frozen=True, slots=True)
class _Golden:
    """What a look-up finds of a golden; ``volume`` and ``claim`` are empty where not there."""

    name: str
    volume: Obj
    claim: Obj


def storage_class(disk: Disk, values: Obj, pool: str, release: Release, rules: DiskRules) -> str:
    """The class to write on a builtin pool's disks, "" for none. Raises RenderRefused.

    ``pool`` is what the disks' annotation says, kubernetes-<c>-<p>.
    """
    golden = _Golden(
        disk.golden,
        release.find(CDI, "DataVolume", PUBLIC, disk.golden) or {},
        release.find("v1", "PersistentVolumeClaim", PUBLIC, disk.golden) or {},
    )
    cloned = pool_classes.clones(disk.golden, pool, release, rules)
    if not (cloned and rules.clones_exempt):
        _check_import(golden, rules)
    mine = pool_classes.of_pool(str(values["storageClass"]), cloned, release, rules)
    if golden.volume or (golden.claim and rules.claim_counts):
        _compare(golden, mine, values, release, rules)
    return mine.name if rules.class_written else str(values["storageClass"])


def _check_import(golden: _Golden, rules: DiskRules) -> None:
    if not golden.volume:
        if not (golden.claim and rules.claim_counts):
            rules.refuse("R5", f"{HELPERS}:80:8", _absent(golden.name, rules))
        return
    phase = deep(golden.volume, "status", "phase")
    if phase == "Failed":
        text = f"golden DataVolume {golden.name} failed to import (phase Failed)"
        rules.refuse("R6", f"{HELPERS}:84:8", text)
    restarts = int(deep(golden.volume, "status", "restartCount") or 0)
    stopped = conditions.find(golden.volume, "Running").get("status") == "False"
    broken = phase != "Succeeded" and stopped and restarts >= _RESTARTS
    if rules.importer_guard and broken:
        text = f"keeps failing to import ({restarts} importer restarts)"
        rules.refuse("R7", f"{HELPERS}:87:8", f"golden DataVolume {golden.name} {text}")
    if not rules.waits_for_import and phase != "Succeeded":
        text = f"golden DataVolume {golden.name} is not ready (phase {phase})"
        rules.refuse("", f"{HELPERS}:86:8", text)


def _absent(name: str, rules: DiskRules) -> str:
    also = " (neither DataVolume nor PVC)" if rules.claim_counts else ""
    return (
        f"osImage.builtin requested golden DataVolume {name}, not found in {PUBLIC}{also}: "
        "enable package cozystack.kubernetes-worker-image and list this image in "
        "kubernetesWorkerImage.images"
    )


def _compare(golden: _Golden, mine: Class, values: Obj, release: Release, rules: DiskRules) -> None:
    theirs = pool_classes.of_golden(golden.volume, golden.claim, release, rules)
    if mine.name != theirs.name:
        rules.refuse("R8", f"{HELPERS}:91:8", _differs(golden.name, mine, theirs))
    storage, size = pool_classes.size_of_golden(golden.volume, golden.claim), values["diskSize"]
    if storage and quantity(size) < quantity(storage):
        text = f"diskSize {size} is smaller than golden image {golden.name} storage {storage}"
        rules.refuse("R9", f"{HELPERS}:96:8", text)


def _differs(name: str, mine: Class, theirs: Class) -> str:
    sides = (("the pool", mine), ("the golden image", theirs))
    taken = [f"{side} has {one.name!r}" for side, one in sides if one.by_default]
    note = f" (of the cluster's default class: {', '.join(taken)})" if taken else ""
    return (
        f"storageClass {mine.name} differs from golden image {name}, whose class is "
        f"{theirs.name}{note}. Neither side can be moved in place: recreate the pool with that "
        "class, or list another image"
    )
