"""Which StorageClass an empty one stands for, as the pool chart finds it out.

clone_path.md section 3, "Empty-class resolution": a pool that has cloned has the class of its own
bound claim, a golden without a class that of its claim, anything else the cluster's default.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.twin.world.chart_behaviour import DiskRules
from harness.twin.world.objects import CDI, STORAGE, Obj, annotations_of, deep
from harness.twin.world.pool_disk import GOLDEN, GOLDEN_POOL, Release

DEFAULTS = (
    "storageclass.kubernetes.io/is-default-class",
    "storageclass.beta.kubernetes.io/is-default-class",
)
KUBEVIRT_DEFAULT = "storageclass.kubevirt.io/is-default-virt-class"


@dataclass(frozen=True, slots=True)
class Class:
    """A StorageClass by name, "" for none; ``by_default``: it is the cluster's choice."""

    name: str
    by_default: bool = False


def cluster_default(release: Release, rules: DiskRules) -> Class:
    """The cluster's default class: of several the newest, as Kubernetes chooses."""
    classes = release.all(STORAGE, "StorageClass", "")
    ordered = [(KUBEVIRT_DEFAULT,), DEFAULTS] if rules.kubevirt_default else [DEFAULTS]
    for keys in ordered:
        marked = [one for one in classes if _says(one, keys)]
        if marked:
            by_name = sorted(marked, key=lambda one: str(one["metadata"]["name"]))
            newest = max(by_name, key=lambda one: str(deep(one, "metadata", "creationTimestamp")))
            return Class(str(newest["metadata"]["name"]), by_default=True)
    return Class("", by_default=True)


def _says(klass: Obj, keys: tuple[str, ...]) -> bool:
    return any(annotations_of(klass).get(key) == "true" for key in keys)


def of_pool(asked: str, cloned: list[Obj], release: Release, rules: DiskRules) -> Class:
    """The class of a pool's disks; ``cloned`` are its disks that have come from the golden."""
    if asked:
        return Class(asked)
    for volume in cloned if rules.own_class else ():
        claim = claim_of(volume, release)
        name = deep(claim, "spec", "storageClassName")
        if name and deep(claim, "status", "phase") == "Bound":
            return Class(str(name))
    return cluster_default(release, rules)


def of_golden(golden: Obj, claim: Obj, release: Release, rules: DiskRules) -> Class:
    """The class of a golden, of which DataVolume or claim may be empty (not there)."""
    declared = _declared(golden, "storageClassName")
    if not declared and rules.golden_claim:
        declared = deep(claim, "spec", "storageClassName")
    return Class(str(declared)) if declared else cluster_default(release, rules)


def size_of_golden(golden: Obj, claim: Obj) -> str:
    """The storage that a golden asks for, as text; "" where neither of the two says."""
    declared = _declared(golden, "resources", "requests", "storage")
    return str(declared or deep(claim, "spec", "resources", "requests", "storage") or "")


def _declared(golden: Obj, *path: str) -> object:
    return deep(golden, "spec", "storage", *path) or deep(golden, "spec", "pvc", *path)


def claim_of(volume: Obj, release: Release) -> Obj:
    """A DataVolume's claim, empty where there is none."""
    metadata = volume["metadata"]
    name = deep(volume, "status", "claimName") or metadata["name"]
    namespace = metadata.get("namespace", "")
    return release.find("v1", "PersistentVolumeClaim", namespace, str(name)) or {}


def clones(golden: str, pool: str, release: Release, rules: DiskRules) -> list[Obj]:
    """The pool's disks that came from this golden whole, by annotations."""
    found = []
    for volume in release.all(CDI, "DataVolume", release.namespace):
        notes = annotations_of(volume)
        holder = notes.get(GOLDEN_POOL, "")
        mine = holder == pool if rules.exact_pool else holder.startswith(pool)
        done = deep(volume, "status", "phase") == "Succeeded"
        if mine and done and notes.get(GOLDEN) == golden:
            found.append(volume)
    return found
