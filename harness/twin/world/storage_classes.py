"""StorageClasses: which one an empty name means, and what CDI makes of one (its StorageProfile).

Defaults: clone_path.md section 3; profiles: objects.md section 7. CDI's own default annotation and
what it says where it cannot tell an access mode: CDI pkg/controller/common, datavolume/pvc-util.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.objects import CDI, STORAGE, Obj, annotations_of, deep
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.cluster import Cluster
    from harness.twin.world.world import World

LINSTOR = "linstor.csi.linbit.com"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"
BETA_DEFAULT_CLASS = "storageclass.beta.kubernetes.io/is-default-class"
VIRT_DEFAULT_CLASS = "storageclass.kubevirt.io/is-default-virt-class"
CLONE_STRATEGY = "cdi.kubevirt.io/clone-strategy"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_MANAGER = "cdi-controller"
_LOCAL = (("ReadWriteOnce", "Block"), ("ReadWriteOnce", "Filesystem"))
_REPLICATED = (("ReadWriteMany", "Block"), *_LOCAL)


class NotRendered(Exception):
    """No claim can be made of a DataVolume's ``storage``; the message is what CDI says."""


def find_class(cluster: Cluster, name: str) -> Obj | None:
    """A StorageClass, or None."""
    return cluster.find(STORAGE, "StorageClass", "", name) if name else None


def default_class(cluster: Cluster, *, virt: bool = False) -> str:
    """The default class's name, "" without one. Of several the newest, then the first by name.

    ``virt``: as CDI looks for a disk of a virtual machine, where its own annotation goes first.
    """
    classes = cluster.all(STORAGE, "StorageClass")
    if virt:
        chosen = _newest([one for one in classes if _says(one, VIRT_DEFAULT_CLASS)])
        if chosen:
            return chosen
    return _newest([o for o in classes if _says(o, DEFAULT_CLASS) or _says(o, BETA_DEFAULT_CLASS)])


def _says(klass: Obj, annotation: str) -> bool:
    return annotations_of(klass).get(annotation) == "true"


def _newest(classes: list[Obj]) -> str:
    by_name = sorted(classes, key=lambda one: str(one["metadata"]["name"]))
    if not by_name:
        return ""
    newest = max(by_name, key=lambda one: str(one["metadata"]["creationTimestamp"]))
    return str(newest["metadata"]["name"])


def waits_for_consumer(cluster: Cluster, claim: Obj) -> bool:
    """Whether a claim's class binds late, and nobody has chosen a node for it yet."""
    klass = find_class(cluster, deep(claim, "spec", "storageClassName") or "") or {}
    late = klass.get("volumeBindingMode") == "WaitForFirstConsumer"
    return late and SELECTED_NODE not in annotations_of(claim)


def has_drbd(klass: Obj) -> bool:
    """Whether volumes of a class are replicated, and so reachable from several hosts at once."""
    layers = (klass.get("parameters") or {}).get(f"{LINSTOR}/layerList", "")
    return "drbd" in layers.split()


def claim_spec(cluster: Cluster, storage: Obj) -> Obj:
    """A claim's spec from a DataVolume's ``spec.storage``. Raises NotRendered.

    What is not said comes from the first of the StorageProfile's sets that fits what is said.
    """
    klass = storage.get("storageClassName") or default_class(cluster, virt=True)
    asked = {key: storage[key] for key in ("accessModes", "volumeMode") if storage.get(key)}
    properties = {**_properties(cluster, klass, asked), **asked}
    return {
        "accessModes": properties["accessModes"],
        "volumeMode": properties["volumeMode"],
        "resources": storage.get("resources") or {},
        "storageClassName": klass,
    }


def _properties(cluster: Cluster, klass: str, asked: Obj) -> Obj:
    if not klass and "accessModes" not in asked:
        raise NotRendered(
            "DataVolume.storage spec is missing accessMode and no storageClass to choose profile"
        )
    profile = cluster.find(CDI, "StorageProfile", "", klass) if klass else None
    for one in deep(profile or {}, "status", "claimPropertySets") or ():
        found: Obj = {
            "accessModes": list(one.get("accessModes") or ()),
            "volumeMode": one.get("volumeMode", "Filesystem"),
        }
        if all(found[key] == value for key, value in asked.items()):
            return found
    if "accessModes" in asked:
        return {"volumeMode": "Filesystem"}
    raise NotRendered(
        "DataVolume.storage spec is missing accessMode and volumeMode, cannot get access mode "
        f"from StorageProfile {klass}"
    )


class StorageProfiles:
    """CDI's profile controller: one for each class, its spec before what is known of the driver."""

    def __init__(self, world: World) -> None:
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine, "storageprofile", self.reconcile, lambda: world.timings.draw("cdi.step")
        )
        self._cluster.on(STORAGE, "StorageClass", self._hear)
        self._cluster.on(CDI, "StorageProfile", self._hear)

    def _hear(self, change: Change) -> None:
        self._queue.hear(change)

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a class and its profile."""
        klass = find_class(self._cluster, name)
        profile = self._cluster.find(CDI, "StorageProfile", namespace, name)
        if klass is None:
            if profile is not None:
                self._cluster.delete(profile, manager=_MANAGER)
            return
        if profile is None:
            metadata = {"name": name}
            made = {"apiVersion": CDI, "kind": "StorageProfile", "metadata": metadata, "spec": {}}
            profile = self._cluster.create(made, manager=_MANAGER)
        status = _profiled(klass, profile.get("spec") or {})
        self._cluster.status(profile, lambda stored: stored.update(status=status), manager=_MANAGER)


def _profiled(klass: Obj, spec: Obj) -> Obj:
    strategy = spec.get("cloneStrategy") or annotations_of(klass).get(CLONE_STRATEGY)
    known = klass["provisioner"] == LINSTOR
    pairs = (_REPLICATED if has_drbd(klass) else _LOCAL) if known else ()
    sets = [{"accessModes": [mode], "volumeMode": volume} for mode, volume in pairs]
    found: Obj = {
        "storageClass": klass["metadata"]["name"],
        "provisioner": klass["provisioner"],
        "cloneStrategy": strategy or ("csi-clone" if known else "snapshot"),
        "claimPropertySets": spec.get("claimPropertySets") or sets,
    }
    return found if found["claimPropertySets"] else {k: v for k, v in found.items()
                                                     if k != "claimPropertySets"}  # fmt: skip
