"""CDI's DataVolumes: one look at each, and to whom it falls to fill it.

An HTTP import works on the DataVolume's own claim or through a populator (`cdi_http`), a clone
through a populator (`cdi_clone`) or from pod to pod (`cdi_copy`). What may be cloned by whom is
asked as it is asked for (`cdi_authorize`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import cdi_planner as planner
from harness.twin.world import cdi_shapes as shapes
from harness.twin.world.cdi_adopt import adopt, may_adopt
from harness.twin.world.cdi_authorize import Authorization
from harness.twin.world.cdi_clone import ClonePopulator
from harness.twin.world.cdi_http import HttpImports, exceeds_quota, image_of
from harness.twin.world.cdi_shapes import (
    CLONE_REQUEST,
    CLONE_TYPE,
    FALLBACK,
    MANAGER,
    SOURCE_NAMESPACE,
    USE_POPULATOR,
    VOLUME_FINALIZER,
    source_of,
)
from harness.twin.world.cdi_status import VolumeStatus, clone_notes
from harness.twin.world.objects import (
    CDI,
    Obj,
    annotations_of,
    controller_of,
    deep,
    terminating,
)
from harness.twin.world.pods import finished
from harness.twin.world.reconcile import Queue
from harness.twin.world.storage_classes import (
    NotRendered,
    claim_spec,
    find_class,
    waits_for_consumer,
)

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

CLAIM = "PersistentVolumeClaim"
_QUOTA = "ErrExceededQuota"
_SOURCE_AGAIN = 5.0  # seconds (CDI pvc-clone-controller.go)


class DataVolumes:
    """CDI's DataVolume controllers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._status = VolumeStatus(world)
        self.imports = HttpImports(world, self._status)
        self.authorization = Authorization(world.access)
        self._queue = Queue(
            world.engine, "datavolume", self.reconcile, lambda: world.timings.draw("virt.step")
        )
        self._copies = Queue(
            world.engine, "datavolume copy", self.reconcile, lambda: world.timings.draw("cdi.step")
        )
        self.clones = ClonePopulator(world, self._show_clone)
        self._cluster.on(CDI, "DataVolume", self._hear)
        self._cluster.on("v1", CLAIM, self._hear_claim)
        self._cluster.on("v1", "Pod", self._hear_pod)

    # -- what is heard

    def _hear(self, change: Change) -> None:
        if change.type == "DELETED":
            return
        self._filled(change.obj)
        self.look_at(change.obj)

    def _filled(self, volume: Obj) -> None:
        """What was imported is in the volume, before the story begins as well."""
        url = deep(volume, "spec", "source", "http", "url")
        if url and deep(volume, "status", "phase") == "Succeeded":
            metadata = volume["metadata"]
            claim = self._cluster.find("v1", CLAIM, metadata["namespace"], metadata["name"])
            if claim is not None and self._world.claims.content_of(claim) is None:
                self._world.claims.fill(claim, image_of(url))

    def look_at(self, volume: Obj) -> None:
        """Reconcile a DataVolume soon."""
        self._queue_of(volume).hear_of(volume)

    def _queue_of(self, volume: Obj) -> Queue:
        own = annotations_of(volume).get(USE_POPULATOR) == "false"
        return self._queue if own and deep(volume, "spec", "source", "http") else self._copies

    def _look_at(self, namespace: str, name: str) -> None:
        volume = self._cluster.find(CDI, "DataVolume", namespace, name)
        if volume is not None:
            self.look_at(volume)
        else:
            self._queue.add(namespace, name)

    def _hear_claim(self, change: Change) -> None:
        reference, namespace = controller_of(change.obj), change.obj["metadata"]["namespace"]
        if reference.get("kind") == "DataVolume":
            self._look_at(namespace, reference["name"])
        elif reference.get("kind") == CLAIM:
            self._look_at(namespace, self._behind(namespace, reference["name"]))

    def _hear_pod(self, change: Change) -> None:
        reference, namespace = controller_of(change.obj), change.obj["metadata"]["namespace"]
        read_for = annotations_of(change.obj).get(shapes.OWNER_REF)
        if reference.get("kind") == CLAIM:
            self._look_at(namespace, self._behind(namespace, reference["name"]))
        elif read_for:
            where, _, name = read_for.partition("/")
            if self._cluster.find(CDI, "DataVolume", where, name) is not None:
                self._look_at(where, name)

    def _behind(self, namespace: str, name: str) -> str:
        """The DataVolume that a claim is filled for: a claim of a populator has its target's."""
        claim = self._cluster.find("v1", CLAIM, namespace, name) or {"metadata": {}}
        reference = controller_of(claim)
        return str(reference["name"]) if reference.get("kind") == CLAIM else name

    # -- what others ask

    def is_populated(self, claim: Obj) -> bool:
        """Whether a claim has what its DataVolume is to bring; one without a DataVolume has."""
        reference = controller_of(claim)
        if reference.get("kind") != "DataVolume":
            return True
        namespace = claim["metadata"]["namespace"]
        volume = self._cluster.find(CDI, "DataVolume", namespace, reference["name"])
        return bool(deep(volume or {}, "status", "phase") == "Succeeded")

    def users_of(self, claim: Obj) -> list[Obj]:
        """The pods that may write to a claim."""
        name = claim["metadata"]["name"]

        def writes(pod: Obj) -> bool:
            used = [v.get("persistentVolumeClaim") or {} for v in pod["spec"].get("volumes") or ()]
            return any(u.get("claimName") == name and not u.get("readOnly") for u in used)

        found = self._cluster.all("v1", "Pod", claim["metadata"]["namespace"])
        return [pod for pod in found if not finished(pod) and writes(pod)]

    # -- one DataVolume

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a DataVolume."""
        volume = self._cluster.find(CDI, "DataVolume", namespace, name)
        if volume is None:
            return
        if terminating(volume) or self._is_over(volume):
            self._let_go(volume)
            return
        claim = self._cluster.find("v1", CLAIM, namespace, name)
        if claim is not None and may_adopt(volume, claim):
            adopt(self._cluster, self._status, volume, claim)
            return
        source = deep(volume, "spec", "source") or {}
        if not deep(source, "http", "url") and not source.get("pvc"):
            self._status.show(volume, "Pending", "Pending", "no source that can be populated")
            return
        try:
            self._fill(volume)
        except NotRendered as why:
            self._refuse(volume, "ErrClaimNotValid", str(why))
        except ApiError as refused:
            if not exceeds_quota(refused):
                raise
            self._refuse(volume, _QUOTA, refused.message)

    def _refuse(self, volume: Obj, reason: str, text: str) -> None:
        self._status.refuse(volume, reason, text)
        metadata = volume["metadata"]
        delay = self._world.timings.draw("cdi.retry")
        self._queue_of(volume).add(metadata["namespace"], metadata["name"], delay)

    def _fill(self, volume: Obj) -> None:
        populator = self._uses_populator(volume)
        if deep(volume, "spec", "source", "pvc"):
            self._clone(volume, populator)
            return
        claim = self._claim(volume, populator)
        if is_imported(claim):
            self.imports.populate(volume, claim)
        else:
            self.imports.advance(volume, claim)

    def _uses_populator(self, volume: Obj) -> str:
        """What the annotation says, else what the class's driver can: "true" or "false"."""
        said = annotations_of(volume).get(USE_POPULATOR)
        if said is not None:
            return "true" if said == "true" else "false"
        spec = claim_spec(self._cluster, deep(volume, "spec", "storage") or {})
        klass = find_class(self._cluster, spec["storageClassName"])
        return "true" if klass is not None else "false"

    def _claim(self, volume: Obj, populator: str) -> Obj:
        """The DataVolume's claim, made where it is not there. Raises NotRendered, ApiError."""
        name, namespace = volume["metadata"]["name"], volume["metadata"]["namespace"]
        found = self._cluster.find("v1", CLAIM, namespace, name)
        if found is not None:
            return found
        spec = claim_spec(self._cluster, deep(volume, "spec", "storage") or {})
        if deep(volume, "spec", "source", "pvc"):
            made = self._clone_claim(volume, spec, populator)
        elif populator == "true":
            source = shapes.import_source(volume)
            spec = shapes.populated(spec, "VolumeImportSource", source["metadata"]["name"])
            notes = {shapes.CONTENT_TYPE: "kubevirt", USE_POPULATOR: "true"}
            made = shapes.claim(name, volume, spec, notes | _asked_at_once(volume))
            self._cluster.create(source, manager=MANAGER)
        else:
            notes = self.imports.notes(volume, name, populator="false")
            made = shapes.claim(name, volume, spec, notes)
        return self._cluster.create(made, manager=MANAGER)

    # -- clones

    def _clone_claim(self, volume: Obj, spec: Obj, populator: str) -> Obj:
        name = volume["metadata"]["name"]
        namespace, source = source_of(volume)
        notes = {shapes.CONTENT_TYPE: "kubevirt", USE_POPULATOR: populator}
        if populator != "true":
            copy = planner.NO_POPULATOR
            notes |= {CLONE_REQUEST: f"{namespace}/{source}", CLONE_TYPE: copy.kind}
            notes |= {FALLBACK: copy.message, shapes.RESTARTS: "0", **clone_notes("Pending")}
            del notes[shapes.CLONE_PHASE]
            return shapes.claim(name, volume, spec, notes)
        if namespace != volume["metadata"]["namespace"]:
            notes[SOURCE_NAMESPACE] = namespace
        by_name = f"volume-clone-source-{volume['metadata']['uid']}"
        spec = shapes.populated(spec, "VolumeCloneSource", by_name)
        return shapes.claim(name, volume, spec, notes | _asked_at_once(volume))

    def _clone(self, volume: Obj, populator: str) -> None:
        name, namespace = volume["metadata"]["name"], volume["metadata"]["namespace"]
        claim = self._cluster.find("v1", CLAIM, namespace, name)
        if claim is None:
            if not self._may_begin(volume):
                return
            claim = self._claim(volume, populator)
            self._begin(volume, claim, populator)
        if populator == "true":
            self._show(volume, claim)
        else:
            self._copy(volume, claim)

    def _show(self, volume: Obj, claim: Obj) -> None:
        now = shapes.BIND_IMMEDIATELY in annotations_of(claim)
        unbound = deep(claim, "status", "phase") != "Bound"
        if unbound and not now and waits_for_consumer(self._cluster, claim):
            self._status.show_copy(volume, claim, "PendingPopulation")
        else:
            self._status.show_clone(volume, claim)

    def _may_begin(self, volume: Obj) -> bool:
        """Whether the source is there, and no larger than what is to be its copy."""
        namespace, name = source_of(volume)
        source = self._cluster.find("v1", CLAIM, namespace, name)
        if source is None:
            self._refuse(volume, "CloneWithoutSource", f"The source pvc {name} doesn't exist")
            return False
        spec = claim_spec(self._cluster, deep(volume, "spec", "storage") or {})
        if planner.is_smaller({"spec": spec}, source):
            text = "The clone doesn't meet the validation requirements"
            by = "datavolume-pvc-clone-controller"
            self._cluster.events.warning(volume, "CloneValidationFailed", text, by)
            self._refuse(volume, "ErrIncompatiblePVC", planner.SMALLER)
            return False
        return True

    def _begin(self, volume: Obj, claim: Obj, populator: str) -> None:
        if populator != "true":
            copy = planner.NO_POPULATOR
            by = "datavolume-pvc-clone-controller"
            self._cluster.events.warning(claim, copy.reason, copy.message, by)
            return
        source = shapes.clone_source(volume, claim)
        if source["metadata"]["namespace"] != volume["metadata"]["namespace"]:
            self._cluster.add_finalizer(volume, VOLUME_FINALIZER, manager=MANAGER)
        self._cluster.create(source, manager=MANAGER)

    def _show_clone(self, target: Obj) -> None:
        """A step of the populator, on the DataVolume at the same moment."""
        volume, claim = self.clones.volume_of(target), self._cluster.current(target)
        if volume is None or claim is None or terminating(volume):
            return
        self._show(volume, claim)
        kind = annotations_of(claim).get(CLONE_TYPE)
        if kind and annotations_of(volume).get(CLONE_TYPE) != kind:
            self._cluster.edit(volume, lambda stored: _say(stored, kind), manager=MANAGER)

    def _copy(self, volume: Obj, claim: Obj) -> None:
        """One look at a clone from pod to pod into the DataVolume's own claim."""
        metadata = volume["metadata"]
        source = self._cluster.find("v1", CLAIM, *source_of(volume))
        bound = deep(claim, "status", "phase") == "Bound"
        stage = "scheduled"
        if bound and source is not None and not self._is_free(volume, source):
            self._copies.add(metadata["namespace"], metadata["name"], _SOURCE_AGAIN)
        elif bound and source is not None:
            stage = self.clones.copies.advance(claim, claim["metadata"]["uid"])
        steps = {"scheduled": "Pending", "running": "HostClone", "done": "Succeeded"}
        notes = clone_notes(steps[stage])
        del notes[shapes.CLONE_PHASE]
        noted = self._cluster.edit(
            claim, lambda stored: stored["metadata"]["annotations"].update(notes), manager=MANAGER
        )
        phases = {"scheduled": "CloneScheduled", "running": "CloneInProgress", "done": "Succeeded"}
        self._status.show_copy(volume, noted or claim, phases[stage])

    def _is_free(self, volume: Obj, source: Obj) -> bool:
        users = self.users_of(source)
        for pod in users:
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            text = f"pod {where} using PersistentVolumeClaim {source['metadata']['name']}"
            by = "datavolume-pvc-clone-controller"
            self._cluster.events.warning(volume, "CloneSourceInUse", text, by)
        return not users and self.is_populated(source)

    # -- the end

    def _let_go(self, volume: Obj) -> None:
        """The source object of a DataVolume that is done, or going, goes; so do copying pods."""
        namespace, _ = source_of(volume)
        name = f"volume-clone-source-{volume['metadata']['uid']}"
        found = self._cluster.find(CDI, "VolumeCloneSource", namespace, name)
        if found is not None:
            self._cluster.delete(found, manager=MANAGER)
        if VOLUME_FINALIZER in (volume["metadata"].get("finalizers") or ()):
            self._cluster.drop_finalizer(volume, VOLUME_FINALIZER, manager=MANAGER)

    def _is_over(self, volume: Obj) -> bool:
        """Whether nothing more is to be done. A claim that has lost its volume is a failure."""
        namespace, name = volume["metadata"]["namespace"], volume["metadata"]["name"]
        claim = self._cluster.find("v1", CLAIM, namespace, name)
        if deep(claim or {}, "status", "phase") == "Lost":
            self._status.lose(volume)
            return True
        return deep(volume, "status", "phase") in ("Succeeded", "Failed")


def is_imported(claim: Obj) -> bool:
    """Whether a claim is to be filled by the import populator."""
    return bool(deep(claim, "spec", "dataSourceRef", "kind") == "VolumeImportSource")


def _asked_at_once(volume: Obj) -> dict[str, str]:
    asked = annotations_of(volume).get(shapes.BIND_IMMEDIATELY)
    return {} if asked is None else {shapes.BIND_IMMEDIATELY: asked}


def _say(volume: Obj, kind: str) -> None:
    volume["metadata"].setdefault("annotations", {})[CLONE_TYPE] = kind
