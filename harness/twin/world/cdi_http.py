"""CDI's HTTP import: importer pod, scratch space, restarts; with and without the populator.

Without: the pod works on the DataVolume's own claim. With it (the golden image): on a claim
``prime-<uid>`` beside it, whose volume is handed over at the end. A broken import never becomes
Failed: its restarts are counted (clone_path.md section 4).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import cdi_shapes as shapes
from harness.twin.world.cdi_shapes import CONDITION, MANAGER, POD_PHASE, RESTARTS
from harness.twin.world.cdi_status import VolumeStatus, import_notes
from harness.twin.world.claims import Content
from harness.twin.world.images import RAW_BYTES, UnknownSchematic
from harness.twin.world.objects import Obj, annotations_of, deep, quantity, terminating
from harness.twin.world.reconcile import Activities
from harness.twin.world.storage_classes import waits_for_consumer

if TYPE_CHECKING:
    from harness.twin.world.world import World

_IMAGE = re.compile(
    r"^/image/(?P<schematic>[^/]+)/(?P<version>[^/]+)/(?P<kind>[a-z]+)-amd64\.raw\.xz$"
)
_NOT_THERE = "expected status code 200, got 404. Status: 404 Not Found"
_TOO_SMALL = "DataVolume too small to contain image"
_QUOTA = "ErrExceededQuota"


def image_of(url: str) -> Content | None:
    """The image that an image-factory address names, or None."""
    found = _IMAGE.match(urlsplit(url).path)
    return Content(found["schematic"], found["version"], found["kind"]) if found else None


def exceeds_quota(refused: ApiError) -> bool:
    """Whether a claim was refused by a ResourceQuota."""
    return refused.code == 403 and "exceeded quota" in refused.message


@dataclass(frozen=True, slots=True)
class Import:
    """One import at work: the claim of the DataVolume, and the one that the pod writes to."""

    volume: Obj
    target: Obj
    working: Obj
    url: str

    @property
    def populates(self) -> bool:
        """Whether a populator does it."""
        return bool(self.target["metadata"]["name"] != self.working["metadata"]["name"])

    @property
    def claims(self) -> tuple[Obj, ...]:
        """Whose annotations tell how far it is."""
        return (self.working, self.target) if self.populates else (self.working,)


class HttpImports:
    """Importer pods, and what they do to claims and DataVolumes."""

    def __init__(self, world: World, status: VolumeStatus) -> None:
        self._world = world
        self._cluster = world.cluster
        self._status = status
        self._work = Activities(world.engine)

    # -- without a populator

    def notes(self, volume: Obj, name: str, *, populator: str) -> dict[str, str]:
        """The annotations of a claim ``name`` that an import is to fill."""
        return {
            f"{shapes.IMPORT}.endpoint": str(deep(volume, "spec", "source", "http", "url")),
            f"{shapes.IMPORT}.source": "http",
            f"{shapes.IMPORT}.importPodName": f"importer-{name}",
            shapes.CONTENT_TYPE: "kubevirt",
            shapes.USE_POPULATOR: populator,
        }

    def advance(self, volume: Obj, claim: Obj) -> None:
        """One look at an import into the DataVolume's own claim."""
        url = str(deep(volume, "spec", "source", "http", "url"))
        if deep(claim, "status", "phase") != "Bound":
            waits = waits_for_consumer(self._cluster, claim)
            phase = "WaitForFirstConsumer" if waits else "Pending"
            self._status.show(volume, phase, "Pending", "")
            return
        self._import(Import(volume, claim, claim, url))

    # -- with it

    def populate(self, volume: Obj, target: Obj) -> None:
        """One look at an import through the populator."""
        if deep(target, "status", "phase") == "Bound":
            self._populated(volume, target)
            return
        now = shapes.BIND_IMMEDIATELY in annotations_of(target)
        waits = waits_for_consumer(self._cluster, target) and not now
        working = self._prime(volume, target, make=not waits)
        if working is None:
            self._status.show(volume, "PendingPopulation" if waits else "Pending", "Pending", "")
            return
        url = str(deep(volume, "spec", "source", "http", "url"))
        # the pod itself is the consumer that a late class waits for
        late = waits_for_consumer(self._cluster, working) or self._importer(working) is not None
        if late or deep(working, "status", "phase") == "Bound":
            self._import(Import(volume, target, working, url))
        else:
            self._status.show(volume, "Pending", "Pending", "")

    def _prime(self, volume: Obj, target: Obj, *, make: bool) -> Obj | None:
        namespace, uid = target["metadata"]["namespace"], target["metadata"]["uid"]
        name = f"prime-{uid}"
        found = self._cluster.find("v1", "PersistentVolumeClaim", namespace, name)
        if found is not None or not make:
            return found
        notes = {**self.notes(volume, name, populator="true"), shapes.BIND_IMMEDIATELY: ""}
        try:
            made = self._cluster.create(shapes.prime(target, notes), manager=MANAGER)
        except ApiError as refused:
            if not exceeds_quota(refused):
                raise
            self._cluster.events.warning(target, _QUOTA, refused.message, "import-populator")
            self._status.refuse(volume, _QUOTA, refused.message)
            return None
        self._note(target, {shapes.PRIME: name})
        return made

    def _populated(self, volume: Obj, target: Obj) -> None:
        working = self._prime(volume, target, make=False)
        if working is not None:
            self._cluster.delete(working, manager=MANAGER)
        self._succeed(volume)

    # -- the importer pod

    def _importer(self, working: Obj) -> Obj | None:
        metadata = working["metadata"]
        name = f"importer-{metadata['name']}"
        return self._cluster.find("v1", "Pod", metadata["namespace"], name)

    def _import(self, job: Import) -> None:
        pod = self._importer(job.working)
        if pod is None:
            if annotations_of(job.working).get(POD_PHASE) == "Succeeded":
                self._hand_over(job)
                return
            self._status.show(job.volume, "Pending" if job.populates else "PVCBound", "Pending", "")
            self._start_importer(job)
            return
        phase = deep(pod, "status", "phase")
        if phase == "Running":
            self._transfer(job, pod)
        elif phase == "Succeeded":
            self._finish(job, pod)
        elif self._has_scratch(job, pod):
            self._show(job, "ImportScheduled", "Pending", "")
            text = f"Import into {job.volume['metadata']['name']} scheduled"
            self._status.say_once(job.volume, "ImportScheduled", text)

    def _start_importer(self, job: Import) -> None:
        made = self._cluster.create(shapes.importer(job.working), manager=MANAGER)
        self._has_scratch(job, made)
        self._note(job.working, {POD_PHASE: "Pending"})

    def _has_scratch(self, job: Import, pod: Obj) -> bool:
        """Whether the importer has what it unpacks in, made here where the quota lets it."""
        claim = shapes.scratch(job.working, pod)
        key = (claim["metadata"]["namespace"], claim["metadata"]["name"])
        if self._cluster.find("v1", "PersistentVolumeClaim", *key) is not None:
            return True
        try:
            self._cluster.create(claim, manager=MANAGER)
        except ApiError as refused:
            if not exceeds_quota(refused):
                raise
            self._without_scratch(job, refused.message)
            return False
        return True

    def _without_scratch(self, job: Import, why: str) -> None:
        notes = {
            f"{CONDITION}.bound": "false",
            f"{CONDITION}.bound.message": why,
            f"{CONDITION}.bound.reason": _QUOTA,
        }
        for claim in job.claims:
            self._note(claim, notes)
        for obj in (job.working, job.volume):
            self._cluster.events.warning(obj, _QUOTA, why, "import-controller")
        self._show(job, "ImportScheduled", "Pending", why, reason=_QUOTA)
        volume = job.volume
        self._work.start(
            f"scratch {volume['metadata']['uid']}",
            self._world.timings.draw("cdi.retry"),
            lambda: self._world.data_volumes.look_at(volume),
        )

    def _transfer(self, job: Import, pod: Obj) -> None:
        key = f"import {pod['metadata']['uid']}"
        if self._work.running(key):
            return
        for claim in job.claims:
            self._note(claim, import_notes(claim, "Running", "true", "Pod is running"))
        self._show(job, "ImportInProgress", "True", "Pod is running", progress="0.00%")
        text = f"Import into {job.volume['metadata']['name']} in progress"
        self._status.say_once(job.volume, "ImportInProgress", text)
        entry = "import.populate" if job.populates else "import.transfer"
        seconds = self._world.timings.draw(entry)
        self._work.start(key, seconds, partial(self._arrived, job, pod))

    def _arrived(self, job: Import, pod: Obj) -> None:
        current = self._cluster.current(pod)
        if current is None or terminating(current):
            return
        trouble = self._trouble(job)
        if trouble:
            self._retry(job, current, trouble)
            return
        self._world.hosts.say(current, "Import Complete")
        self._world.hosts.finish(current)

    def _trouble(self, job: Import) -> str:
        """Why the image does not come, or not fit; "" where it does both."""
        silence = self._world.factory.silence(job.url)
        if silence:
            return f"unable to connect to http data source: {silence}"
        image = image_of(job.url)
        if image is None:
            return _NOT_THERE
        try:
            self._world.factory.image(image.schematic, image.version)
        except UnknownSchematic:
            return _NOT_THERE
        size = quantity(deep(job.working, "status", "capacity", "storage") or "0")
        return _TOO_SMALL if size < RAW_BYTES else ""

    def _retry(self, job: Import, pod: Obj, trouble: str) -> None:
        """The importer failed and is started again: the phase never becomes Failed."""
        text = f"Unable to process data: {trouble}"
        self._world.hosts.say(pod, text)

        def restarted(stored: Obj) -> None:
            for container in stored["status"]["containerStatuses"]:
                container["restartCount"] += 1

        now = self._cluster.status(pod, restarted, manager="kubelet")
        count = now["status"]["containerStatuses"][0]["restartCount"] if now else 0
        for claim in job.claims:
            self._note(claim, {RESTARTS: str(count)})
        self._show(job, "ImportInProgress", "False", text, reason="Error", restarts=count)
        self._cluster.events.warning(job.volume, "ErrImportFailed", text, "import-controller")
        seconds = self._world.timings.draw("import.retry") + 2.0 * count
        again = partial(self._arrived, job, pod)
        self._work.start(f"import {pod['metadata']['uid']}", seconds, again)

    def _finish(self, job: Import, pod: Obj) -> None:
        if annotations_of(job.working).get(POD_PHASE) == "Succeeded":
            return
        for claim in job.claims:
            self._note(claim, import_notes(claim, "Succeeded", "false", "Import Complete"))
        seconds = self._world.timings.draw("import.finish")
        self._work.start(f"finish {pod['metadata']['uid']}", seconds, partial(self._tidy, job, pod))

    def _tidy(self, job: Import, pod: Obj) -> None:
        # the scratch claim belongs to the pod and goes with it
        self._cluster.remove(pod)
        self._hand_over(job)

    def _hand_over(self, job: Import) -> None:
        if not job.populates:
            self._succeed(job.volume)
            return
        working, target = self._cluster.current(job.working), self._cluster.current(job.target)
        if working is not None and target is not None:
            self._world.claims.hand_over(working, target)

    def _succeed(self, volume: Obj) -> None:
        self._status.show(
            volume, "Succeeded", "False", "Import Complete", reason="Completed", progress="100.0%"
        )
        text = f"Successfully imported into PVC {volume['metadata']['name']}"
        self._status.say_once(volume, "ImportSucceeded", text)

    # -- small

    def _show(
        self,
        job: Import,
        phase: str,
        running: str,
        message: str,
        *,
        reason: str = "",
        progress: str = "N/A",
        restarts: int | None = None,
    ) -> None:
        self._status.show(
            job.volume,
            phase,
            running,
            message,
            reason=reason,
            progress=progress,
            restarts=restarts,
            bound=not job.populates,
        )

    def _note(self, claim: Obj, notes: dict[str, str]) -> None:
        self._cluster.edit(
            claim, lambda stored: stored["metadata"]["annotations"].update(notes), manager=MANAGER
        )
