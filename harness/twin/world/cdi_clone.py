"""CDI's clone populator: from a claim that names a VolumeCloneSource to one that is bound.

A clone is made beside its source, in a claim ``tmp-pvc-<uid>``, brought to size there, and its
volume handed over. Steps, names and what is left of them: clone_path.md sections 4 and 5; their
order and what each waits for: CDI pkg/controller/clone. Each step is written at a moment of its
own, on claim and DataVolume at once, so that whoever watches sees them all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import cdi_planner as planner
from harness.twin.world import cdi_shapes as shapes
from harness.twin.world.cdi_copy import HostCopies
from harness.twin.world.cdi_http import exceeds_quota
from harness.twin.world.cdi_planner import Strategy, Unplannable
from harness.twin.world.cdi_shapes import (
    CLONE_ERROR,
    CLONE_FINALIZER,
    CLONE_PHASE,
    CLONE_REQUEST,
    CLONE_TYPE,
    FALLBACK,
    MANAGER,
    OWNED_BY,
    SOURCE_NAMESPACE,
)
from harness.twin.world.cdi_status import clone_notes
from harness.twin.world.objects import (
    CDI,
    SNAPSHOT,
    Obj,
    annotations_of,
    controller_of,
    deep,
    labels_of,
    meta,
    quantity,
    terminating,
)
from harness.twin.world.reconcile import Activities, Key, Queue
from harness.twin.world.storage_classes import waits_for_consumer

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

CLAIM = "PersistentVolumeClaim"
_SOURCE_AGAIN, _STRATEGY_AGAIN = 2.0, 5.0  # seconds (CDI csi-clone.go, clone-populator.go)
_BY = "clone-populator"


@dataclass(frozen=True, slots=True)
class Clone:
    """A clone at work: the claim to be bound, and the claim it is to be a copy of."""

    target: Obj
    namespace: str
    source: str

    @property
    def uid(self) -> str:
        """The target's, which everything made for it bears."""
        return str(self.target["metadata"]["uid"])


def is_target(claim: Obj) -> bool:
    """Whether a claim is to be filled by the clone populator."""
    return bool(deep(claim, "spec", "dataSourceRef", "kind") == "VolumeCloneSource")


class ClonePopulator:
    """The controller. ``behaviour`` is where a fault makes it another CDI."""

    def __init__(self, world: World, shown: Callable[[Obj], None]) -> None:
        self._world = world
        self._cluster = world.cluster
        self._shown = shown  # told of each step, with the target
        self.behaviour = planner.CdiBehaviour()
        self.copies = HostCopies(world)
        self._work = Activities(world.engine)
        self._targets: dict[str, Key] = {}  # by UID
        self._queue = Queue(
            world.engine, "clone", self.reconcile, lambda: world.timings.draw("cdi.step")
        )
        self._cluster.on("v1", CLAIM, self._hear_claim)
        self._cluster.on(CDI, "VolumeCloneSource", self._hear_owned)
        self._cluster.on("v1", "Pod", self._hear_owned)
        self._cluster.on(SNAPSHOT, "VolumeSnapshot", self._hear_owned)
        self._steps: dict[str, tuple[tuple[str, Callable[[Clone], bool]], ...]] = {
            planner.CSI_CLONE: (
                ("CSIClone", self._csi),
                ("PrepClaim", self._prep),
                ("Rebind", self._rebind),
            ),
            planner.SNAPSHOT_CLONE: (
                ("Snapshot", self._snapshot),
                ("SnapshotClone", self._restore),
                ("PrepClaim", self._prep),
                ("Rebind", self._rebind),
            ),
            planner.COPY: (("HostClone", self._host), ("Rebind", self._rebind)),
        }

    # -- what is heard

    def _hear_claim(self, change: Change) -> None:
        claim = change.obj
        if not is_target(claim):
            self._hear_owned(change)
        elif change.type != "DELETED":
            metadata = claim["metadata"]
            self._targets[metadata["uid"]] = (metadata["namespace"], metadata["name"])
            self._queue.hear(change)
        else:
            self._targets.pop(claim["metadata"]["uid"], None)

    def _hear_owned(self, change: Change) -> None:
        key = self._targets.get(labels_of(change.obj).get(OWNED_BY, ""))
        if key is not None:
            self._queue.add(*key)

    # -- one claim

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a claim that is to be a clone."""
        target = self._cluster.find("v1", CLAIM, namespace, name)
        if target is None or not is_target(target):
            return
        if terminating(target) or deep(target, "status", "phase") == "Bound":
            self._end(target)
        elif not self._work.running(_scheduled(target)):
            try:
                self._advance(target)
            except Unplannable as failed:
                self._fail(target, str(failed))

    def _advance(self, target: Obj) -> None:
        clone = self._clone_of(target)
        immediate = shapes.BIND_IMMEDIATELY in annotations_of(target)
        waits = waits_for_consumer(self._cluster, target) and not immediate
        if clone is None or waits:
            self._show(target, "Pending")
            return
        kind = annotations_of(target).get(CLONE_TYPE)
        if kind is None or CLONE_FINALIZER not in (target["metadata"].get("finalizers") or ()):
            self._plan(clone)
            return
        for step, take in self._steps[kind]:
            if take(clone):
                self._show(target, step)
                return

    def _clone_of(self, target: Obj) -> Clone | None:
        name = deep(target, "spec", "dataSourceRef", "name") or ""
        own = target["metadata"]["namespace"]
        namespace = annotations_of(target).get(SOURCE_NAMESPACE) or own
        found = self._cluster.find(CDI, "VolumeCloneSource", namespace, name)
        if found is None:
            return None
        return Clone(target, namespace, str(deep(found, "spec", "source", "name") or ""))

    def _plan(self, clone: Clone) -> None:
        target = clone.target
        source = self._cluster.find("v1", CLAIM, clone.namespace, clone.source)
        if source is None:
            text = f"The source pvc {clone.source} doesn't exist"
            self._warn(target, "CloneWithoutSource", text)
            self._show(target, "Pending")
            self._again(target, _STRATEGY_AGAIN)
            return
        if planner.is_smaller(target, source):
            self._warn(target, "ErrIncompatiblePVC", planner.SMALLER)
            text = "The clone doesn't meet the validation requirements"
            self._warn(target, "CloneValidationFailed", text)
            raise Unplannable(planner.SMALLER)
        strategy = planner.choose(self._cluster, target, source, self.behaviour)
        if strategy.reason:
            self._warn(target, strategy.reason, strategy.message)
        self._begin(target, strategy)

    def _begin(self, target: Obj, strategy: Strategy) -> None:
        notes = {CLONE_TYPE: strategy.kind, **clone_notes("Pending")}
        if strategy.reason:
            notes[FALLBACK] = strategy.message

        def change(stored: Obj) -> None:
            stored["metadata"]["annotations"].update(notes)
            stored["metadata"].setdefault("finalizers", []).append(CLONE_FINALIZER)

        seconds = self._world.timings.draw("clone.scheduled")
        self._work.start(_scheduled(target), seconds, lambda: self._again(target, 0.0))
        self._cluster.edit(target, change, manager=MANAGER)
        self._shown(target)

    def _show(self, target: Obj, step: str, error: str = "") -> None:
        """Write the step on the claim, and have the DataVolume say it at the same moment."""
        notes = clone_notes(step, error)
        if annotations_of(target).get(CLONE_PHASE) == step and not error:
            return

        def change(stored: Obj) -> None:
            stored["metadata"]["annotations"].pop(CLONE_ERROR, None)
            stored["metadata"]["annotations"].update(notes)

        self._cluster.edit(target, change, manager=MANAGER)
        self._shown(target)

    def _fail(self, target: Obj, error: str) -> None:
        self._show(target, "Error", error)
        self._again(target, self._world.timings.draw("cdi.retry"))

    def _again(self, target: Obj, delay: float) -> None:
        self._queue.add(target["metadata"]["namespace"], target["metadata"]["name"], delay)

    def _warn(self, target: Obj, reason: str, text: str) -> None:
        self._cluster.events.warning(target, reason, text, _BY)

    # -- the steps: each says whether there is still something to wait for

    def _csi(self, clone: Clone) -> bool:
        return self._copied(clone, {"kind": CLAIM, "name": clone.source}, self._source_is_ready)

    def _snapshot(self, clone: Clone) -> bool:
        name = _snapshot_name(clone)
        found = self._cluster.find(SNAPSHOT, "VolumeSnapshot", clone.namespace, name)
        if found is not None:
            return not self._world.snapshots.handle(clone.namespace, name)
        if self._temporary(clone) is None and self._source_is_ready(clone):
            driver = planner.driver_of(self._cluster, clone.target)
            kind = planner.snapshot_class(self._cluster, driver)
            if kind is None:
                raise Unplannable("no compatible volumesnapshotclass")
            made = _snapshot(clone, kind["metadata"]["name"])
            self._cluster.create(made, manager=MANAGER)
        return True

    def _restore(self, clone: Clone) -> bool:
        group = SNAPSHOT.partition("/")[0]
        source = {"apiGroup": group, "kind": "VolumeSnapshot", "name": _snapshot_name(clone)}
        return self._copied(clone, source, lambda _: True)

    def _copied(self, clone: Clone, reference: Obj, is_ready: Callable[[Clone], bool]) -> bool:
        """Whether the driver is still making the temporary claim from what it is a copy of."""
        temp = self._temporary(clone)
        if temp is None:
            if is_ready(clone):
                source = self._source(clone)
                size = str(deep(source, "status", "capacity", "storage") or "0")
                made = shapes.temporary(clone.target, clone.namespace, size)
                made["spec"] |= {"dataSource": dict(reference), "dataSourceRef": reference}
                self._make(clone, made)
            return True
        late = waits_for_consumer(self._cluster, temp)
        return not late and deep(temp, "status", "phase") != "Bound"

    def _prep(self, clone: Clone) -> bool:
        """Whether the temporary claim still has to be bound or grown; a pod is used for both."""
        temp = self._temporary(clone)
        if temp is None:
            name = f"{clone.namespace}/tmp-pvc-{clone.uid}"
            raise Unplannable(f"claim {name} does not exist")
        wanted = deep(clone.target, "spec", "resources", "requests", "storage")
        capacity = deep(temp, "status", "capacity", "storage")
        grows = self.behaviour.grows
        if grows and capacity and _requested(temp) < quantity(wanted):
            self._ask_for(temp, wanted)
            return True
        needed = not capacity or (grows and quantity(capacity) < quantity(wanted))
        pod_name = f"prep-{clone.uid}"
        pod = self._cluster.find("v1", "Pod", clone.namespace, pod_name)
        if pod is None and needed:
            self._cluster.create(shapes.prep_pod(clone.target, temp), manager=MANAGER)
        elif pod is not None and deep(pod, "status", "phase") == "Succeeded":
            self._cluster.delete(pod, manager=MANAGER)
        return needed or pod is not None

    def _ask_for(self, temp: Obj, size: str) -> None:
        try:
            self._cluster.edit(
                temp,
                lambda stored: stored["spec"]["resources"]["requests"].update(storage=size),
                manager=MANAGER,
            )
        except ApiError as refused:
            raise Unplannable(refused.message) from refused

    def _host(self, clone: Clone) -> bool:
        temp = self._temporary(clone)
        if temp is None:
            if self._source_is_ready(clone):
                size = str(deep(clone.target, "spec", "resources", "requests", "storage"))
                made = shapes.temporary(clone.target, clone.namespace, size)
                made["metadata"]["annotations"] |= {
                    CLONE_REQUEST: f"{clone.namespace}/{clone.source}",
                    shapes.BIND_IMMEDIATELY: "",
                    shapes.RESTARTS: "0",
                }
                self._make(clone, made)
            return True
        return self.copies.advance(temp, clone.uid) != "done"

    def _rebind(self, clone: Clone) -> bool:
        temp = self._temporary(clone)
        if temp is None:
            raise Unplannable("source claim does not exist")
        self._world.claims.hand_over(temp, clone.target)
        return True

    # -- around a clone

    def _temporary(self, clone: Clone) -> Obj | None:
        return self._cluster.find("v1", CLAIM, clone.namespace, f"tmp-pvc-{clone.uid}")

    def _source(self, clone: Clone) -> Obj:
        found = self._cluster.find("v1", CLAIM, clone.namespace, clone.source)
        if found is None:
            raise Unplannable("source claim does not exist")
        return found

    def _make(self, clone: Clone, temp: Obj) -> None:
        try:
            self._cluster.create(temp, manager=MANAGER)
        except ApiError as refused:
            if exceeds_quota(refused):
                self._warn(clone.target, "ErrExceededQuota", refused.message)
            raise Unplannable(refused.message) from refused

    def _source_is_ready(self, clone: Clone) -> bool:
        """Whether nobody writes to the source and it is filled; else it is looked at again."""
        source = self._source(clone)
        users = self._world.data_volumes.users_of(source)
        for pod in users:
            where = f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
            text = f"pod {where} using PersistentVolumeClaim {clone.source}"
            self._warn(clone.target, "CloneSourceInUse", text)
        ready = not users and self._world.data_volumes.is_populated(source)
        if not ready:
            self._again(clone.target, _SOURCE_AGAIN)
        return ready

    def _end(self, target: Obj) -> None:
        """A bound claim is a clone that succeeded; what was made for it goes, and so the hold."""
        if CLONE_FINALIZER not in (target["metadata"].get("finalizers") or ()):
            return
        done = annotations_of(target).get(CLONE_PHASE) == "Succeeded"
        if not terminating(target) and not done:
            self._show(target, "Succeeded")
            return
        self._work.stop(_scheduled(target))
        for api_version, kind in (("v1", "Pod"), ("v1", CLAIM), (SNAPSHOT, "VolumeSnapshot")):
            for obj in self._cluster.all(api_version, kind):
                if labels_of(obj).get(OWNED_BY) == target["metadata"]["uid"]:
                    self._cluster.delete(obj, manager=MANAGER)
        self._cluster.drop_finalizer(target, CLONE_FINALIZER, manager=MANAGER)

    def volume_of(self, target: Obj) -> Obj | None:
        """The DataVolume that a claim belongs to, or None."""
        reference = controller_of(target)
        if reference.get("kind") != "DataVolume":
            return None
        return self._cluster.find(
            CDI, "DataVolume", target["metadata"]["namespace"], reference["name"]
        )


def _scheduled(target: Obj) -> str:
    return f"clone scheduled {target['metadata']['uid']}"


def _requested(claim: Obj) -> int:
    return quantity(deep(claim, "spec", "resources", "requests", "storage") or "0")


def _snapshot_name(clone: Clone) -> str:
    return f"tmp-snapshot-{clone.uid}"


def _snapshot(clone: Clone, kind: str) -> Obj:
    return {
        "apiVersion": SNAPSHOT,
        "kind": "VolumeSnapshot",
        "metadata": meta(_snapshot_name(clone), clone.namespace, labels={OWNED_BY: clone.uid}),
        "spec": {
            "source": {"persistentVolumeClaimName": clone.source},
            "volumeSnapshotClassName": kind,
        },
    }
