"""CDI's HTTP import path: DataVolume to PVC, scratch PVC and importer pod.

Phases, condition reasons, annotations and names: objects.md section 7 and clone_path.md section 4
(HTTP, usePopulator false).
"""

from __future__ import annotations

import re
import uuid
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from harness.twin.world import conditions
from harness.twin.world.conditions import Condition
from harness.twin.world.images import UnknownSchematic
from harness.twin.world.objects import (
    CDI,
    STORAGE,
    Obj,
    annotations_of,
    controller_of,
    deep,
    meta,
    owner,
    terminating,
)
from harness.twin.world.reconcile import Activities, Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

MANAGER = "cdi-controller"
IMPORT = "cdi.kubevirt.io/storage.import"
CONDITION = "cdi.kubevirt.io/storage.condition"
POD_PHASE = "cdi.kubevirt.io/storage.pod.phase"
RESTARTS = "cdi.kubevirt.io/storage.pod.restarts"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
_IMAGE = re.compile(
    r"^/image/(?P<schematic>[^/]+)/(?P<version>[^/]+)/(?P<kind>[a-z]+)-amd64\.raw\.xz$"
)
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def image_of(url: str) -> tuple[str, str, str] | None:
    """(schematic, version, kind) that an image-factory address names, or None."""
    found = _IMAGE.match(urlsplit(url).path)
    return (found["schematic"], found["version"], found["kind"]) if found else None


class DataVolumes:
    """CDI's controllers and the storage provisioner, as far as an HTTP import needs them."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._said: dict[tuple[str, str], None] = {}
        self._rng = world.rng("volumes")
        self._queue = Queue(
            world.engine, "datavolume", self.reconcile, lambda: world.timings.draw("virt.step")
        )
        self._claims = Queue(
            world.engine, "claim", self._bind_claim, lambda: world.timings.draw("claim.bind")
        )
        self._cluster.on(CDI, "DataVolume", self._hear)
        self._cluster.on("v1", "PersistentVolumeClaim", self._hear_claim)
        self._cluster.on("v1", "Pod", self._hear_pod)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_claim(self, change: Change) -> None:
        claim = change.obj
        if change.type == "DELETED":
            self._release(claim)
        elif deep(claim, "status", "phase") != "Bound":
            self._claims.hear(change)
        reference = controller_of(claim)
        if reference.get("kind") == "DataVolume":
            self._queue.add(claim["metadata"]["namespace"], reference["name"])

    def _hear_pod(self, change: Change) -> None:
        reference = controller_of(change.obj)
        if reference.get("kind") == "PersistentVolumeClaim":
            self._queue.add(change.obj["metadata"]["namespace"], reference["name"])

    # -- one DataVolume

    def reconcile(self, namespace: str, name: str) -> None:
        """One look at a DataVolume."""
        volume = self._cluster.find(CDI, "DataVolume", namespace, name)
        if volume is None or terminating(volume) or deep(volume, "status", "phase") == "Succeeded":
            return
        url = deep(volume, "spec", "source", "http", "url")
        if not url:
            self._phase(volume, "Pending", "Pending", "no source that can be populated")
            return
        claim = self._claim(volume)
        if deep(claim, "status", "phase") != "Bound":
            waits = self._waits_for_consumer(claim)
            self._phase(volume, "WaitForFirstConsumer" if waits else "Pending", "Pending", "")
            return
        self._import(volume, claim, str(url))

    def _claim(self, volume: Obj) -> Obj:
        name, namespace = volume["metadata"]["name"], volume["metadata"]["namespace"]
        found = self._cluster.find("v1", "PersistentVolumeClaim", namespace, name)
        if found is not None:
            return found
        storage = deep(volume, "spec", "storage") or {}
        klass = storage.get("storageClassName") or self._default_class()
        spec = {
            **self._profile(klass),
            "resources": storage.get("resources") or {},
            "storageClassName": klass,
        }
        for key in ("accessModes", "volumeMode"):
            if storage.get(key):
                spec[key] = storage[key]
        notes = {
            f"{IMPORT}.endpoint": deep(volume, "spec", "source", "http", "url"),
            f"{IMPORT}.source": "http",
            f"{IMPORT}.importPodName": f"importer-{name}",
            "cdi.kubevirt.io/storage.contentType": "kubevirt",
            "cdi.kubevirt.io/storage.usePopulator": annotations_of(volume).get(
                "cdi.kubevirt.io/storage.usePopulator", "false"
            ),
        }
        return self._cluster.create(_new_claim(name, volume, spec, notes), manager=MANAGER)

    def _default_class(self) -> str:
        chosen = [
            one["metadata"]["name"]
            for one in self._cluster.all(STORAGE, "StorageClass")
            if annotations_of(one).get(DEFAULT_CLASS) == "true"
        ]
        return str(chosen[0]) if chosen else ""

    def _profile(self, klass: str) -> Obj:
        profile = self._cluster.find(CDI, "StorageProfile", "", klass)
        sets = deep(profile or {}, "status", "claimPropertySets") or ()
        first = sets[0] if sets else {}
        return {
            "accessModes": list(first.get("accessModes") or ("ReadWriteOnce",)),
            "volumeMode": first.get("volumeMode", "Filesystem"),
        }

    def _import(self, volume: Obj, claim: Obj, url: str) -> None:
        namespace = claim["metadata"]["namespace"]
        pod = self._cluster.find("v1", "Pod", namespace, f"importer-{claim['metadata']['name']}")
        if pod is None:
            if annotations_of(claim).get(POD_PHASE) == "Succeeded":
                self._succeed(volume)
                return
            self._phase(volume, "PVCBound", "Pending", "")
            self._start_importer(claim)
            return
        phase = deep(pod, "status", "phase")
        if phase == "Running":
            self._transfer(volume, claim, pod, url)
        elif phase == "Succeeded":
            self._finish(volume, claim, pod)
        else:
            self._phase(volume, "ImportScheduled", "Pending", "")
            self._say_once(volume, "ImportScheduled", f"Import into {_name(volume)} scheduled")

    def _start_importer(self, claim: Obj) -> None:
        # an xz image is unpacked on the way and needs room for that
        scratch = f"{claim['metadata']['name']}-scratch"
        importer = _importer(claim, scratch)
        made = self._cluster.create(importer, manager=MANAGER)
        spec = {key: claim["spec"][key] for key in ("storageClassName", "resources")}
        spec |= {"accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem"}
        extra = _new_claim(scratch, made, spec, {})
        extra["metadata"]["labels"]["cdi.kubevirt.io/storage.scratch"] = "true"
        self._cluster.create(extra, manager=MANAGER)
        self._cluster.edit(
            claim,
            lambda stored: stored["metadata"]["annotations"].update({POD_PHASE: "Pending"}),
            manager=MANAGER,
        )

    def _transfer(self, volume: Obj, claim: Obj, pod: Obj, url: str) -> None:
        if self._work.running(f"import {pod['metadata']['uid']}"):
            return
        self._mark(claim, "Running", "true", "Pod is running")
        self._phase(volume, "ImportInProgress", "True", "Pod is running", progress="0.00%")
        self._say_once(volume, "ImportInProgress", f"Import into {_name(volume)} in progress")
        seconds = self._world.timings.draw("import.transfer")
        self._work.start(
            f"import {pod['metadata']['uid']}", seconds, lambda: self._arrived(volume, pod, url)
        )

    def _arrived(self, volume: Obj, pod: Obj, url: str) -> None:
        current = self._cluster.current(pod)
        if current is None or terminating(current):
            return
        trouble = self._trouble(url)
        if not trouble:
            self._world.hosts.say(current, "Import Complete")
            self._world.hosts.finish(current)
            return
        self._retry(volume, current, trouble)

    def _trouble(self, url: str) -> str:
        """Why the factory does not give the image; "" where it does."""
        image = image_of(url)
        if image is None:
            return "expected status code 200, got 404. Status: 404 Not Found"
        try:
            self._world.factory.image(image[0], image[1])
        except UnknownSchematic:
            return "expected status code 200, got 404. Status: 404 Not Found"
        return ""

    def _retry(self, volume: Obj, pod: Obj, trouble: str) -> None:
        """The importer failed and is started again: the phase never becomes Failed."""
        text = f"Unable to process data: {trouble}"
        self._world.hosts.say(pod, text)

        def restarted(stored: Obj) -> None:
            for container in stored["status"]["containerStatuses"]:
                container["restartCount"] += 1

        now = self._cluster.status(pod, restarted, manager="kubelet")
        count = now["status"]["containerStatuses"][0]["restartCount"] if now else 0
        claim = self._claim(volume)
        self._cluster.edit(
            claim,
            lambda stored: stored["metadata"]["annotations"].update({RESTARTS: str(count)}),
            manager=MANAGER,
        )
        self._phase(volume, "ImportInProgress", "False", text, reason="Error", restarts=count)
        self._cluster.events.warning(volume, "ErrImportFailed", text, "import-controller")
        seconds = self._world.timings.draw("import.retry") + 2.0 * count
        url = str(deep(volume, "spec", "source", "http", "url"))
        self._work.start(
            f"import {pod['metadata']['uid']}", seconds, lambda: self._arrived(volume, pod, url)
        )

    def _finish(self, volume: Obj, claim: Obj, pod: Obj) -> None:
        if annotations_of(claim).get(POD_PHASE) == "Succeeded":
            return
        self._mark(claim, "Succeeded", "false", "Import Complete")
        seconds = self._world.timings.draw("import.finish")
        self._work.start(
            f"finish {pod['metadata']['uid']}", seconds, lambda: self._tidy(volume, pod)
        )

    def _tidy(self, volume: Obj, pod: Obj) -> None:
        # the scratch claim belongs to the pod and goes with it
        self._cluster.remove(pod)
        self._succeed(volume)

    def _succeed(self, volume: Obj) -> None:
        self._phase(
            volume, "Succeeded", "False", "Import Complete", reason="Completed", progress="100.0%"
        )
        text = f"Successfully imported into PVC {_name(volume)}"
        self._say_once(volume, "ImportSucceeded", text)

    def _mark(self, claim: Obj, pod_phase: str, running: str, message: str) -> None:
        notes = {
            POD_PHASE: pod_phase,
            RESTARTS: annotations_of(claim).get(RESTARTS, "0"),
            f"{CONDITION}.running": running,
            f"{CONDITION}.running.message": message,
            f"{CONDITION}.running.reason": "Completed" if running == "false" else "Pod is running",
            f"{CONDITION}.bound": "true",
            f"{CONDITION}.bound.message": "",
            f"{CONDITION}.bound.reason": "Bound",
        }
        self._cluster.edit(
            claim, lambda stored: stored["metadata"]["annotations"].update(notes), manager=MANAGER
        )

    def _phase(
        self,
        volume: Obj,
        phase: str,
        running: str,
        message: str,
        *,
        reason: str = "",
        progress: str = "N/A",
        restarts: int | None = None,
    ) -> None:
        name, now = _name(volume), self._world.engine.now

        def change(stored: Obj) -> None:
            status = stored.setdefault("status", {})
            status |= {"phase": phase, "claimName": name}
            if progress != "N/A" or "progress" not in status:
                status["progress"] = progress
            if restarts is not None:
                status["restartCount"] = restarts
            conditions.write(stored, now, *_states(phase, running, message, reason, name))

        self._cluster.status(volume, change, manager=MANAGER)

    def _say_once(self, volume: Obj, reason: str, text: str) -> None:
        key = (volume["metadata"]["uid"], reason)
        if key not in self._said:
            self._said[key] = None
            self._cluster.events.normal(volume, reason, text, "datavolume-import-controller")

    # -- claims

    def _waits_for_consumer(self, claim: Obj) -> bool:
        klass = self._cluster.find(STORAGE, "StorageClass", "", claim["spec"]["storageClassName"])
        late = (klass or {}).get("volumeBindingMode") == "WaitForFirstConsumer"
        return late and SELECTED_NODE not in annotations_of(claim)

    def _bind_claim(self, namespace: str, name: str) -> None:
        claim = self._cluster.find("v1", "PersistentVolumeClaim", namespace, name)
        if claim is None or terminating(claim) or deep(claim, "status", "phase") == "Bound":
            return
        klass = self._cluster.find(
            STORAGE, "StorageClass", "", deep(claim, "spec", "storageClassName") or ""
        )
        if klass is None:
            text = (
                f'storageclass.storage.k8s.io "{claim["spec"].get("storageClassName")}" not found'
            )
            self._cluster.events.warning(
                claim, "ProvisioningFailed", text, "persistentvolume-controller"
            )
            self._claims.add(namespace, name, 15.0)
            return
        scratch = "cdi.kubevirt.io/storage.scratch" in (claim["metadata"].get("labels") or {})
        if self._waits_for_consumer(claim) and not scratch:
            return
        self._provision(claim, klass)

    def _provision(self, claim: Obj, klass: Obj) -> None:
        name = f"pvc-{claim['metadata']['uid']}"
        size = deep(claim, "spec", "resources", "requests", "storage")
        modes = claim["spec"]["accessModes"]
        handle = str(uuid.UUID(int=self._rng.getrandbits(128), version=4))
        self._cluster.create(
            {
                "apiVersion": "v1",
                "kind": "PersistentVolume",
                "metadata": {
                    "name": name,
                    "annotations": {"pv.kubernetes.io/provisioned-by": klass["provisioner"]},
                },
                "spec": {
                    "capacity": {"storage": size},
                    "accessModes": modes,
                    "volumeMode": claim["spec"].get("volumeMode", "Filesystem"),
                    "storageClassName": klass["metadata"]["name"],
                    "persistentVolumeReclaimPolicy": klass.get("reclaimPolicy", "Delete"),
                    "csi": {"driver": klass["provisioner"], "volumeHandle": name},
                    "claimRef": {
                        "apiVersion": "v1",
                        "kind": "PersistentVolumeClaim",
                        "name": claim["metadata"]["name"],
                        "namespace": claim["metadata"]["namespace"],
                        "uid": claim["metadata"]["uid"],
                    },
                },
                "status": {"phase": "Bound"},
            },
            manager=f"csi-provisioner-{handle[:8]}",
        )
        bound = {"phase": "Bound", "accessModes": modes, "capacity": {"storage": size}}
        self._cluster.edit(
            claim, lambda stored: stored["spec"].update(volumeName=name), manager="pv-controller"
        )
        self._cluster.status(
            claim, lambda stored: stored.update(status=bound), manager="pv-controller"
        )

    def _release(self, claim: Obj) -> None:
        volume = deep(claim, "spec", "volumeName")
        found = self._cluster.find("v1", "PersistentVolume", "", volume) if volume else None
        if found is not None and deep(found, "spec", "persistentVolumeReclaimPolicy") == "Delete":
            self._cluster.delete(found, manager="csi-provisioner")


def _name(volume: Obj) -> str:
    return str(volume["metadata"]["name"])


def _states(phase: str, running: str, message: str, reason: str, name: str) -> list[Condition]:
    bound = phase not in ("Pending", "WaitForFirstConsumer")
    done = phase == "Succeeded"
    working = {"True": ("True", "Pod is running"), "False": ("False", reason)}
    status, why = working.get(running, ("False", reason))
    return [
        conditions.true("Bound", "Bound", f"PVC {name} Bound")
        if bound
        else conditions.false("Bound", "Pending", f"PVC {name} Pending"),
        conditions.true("Ready") if done else conditions.false("Ready", "TransferRunning"),
        Condition("Running", status, why, message),
    ]


def _new_claim(name: str, holder: Obj, spec: Obj, notes: dict[str, str]) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": name,
            "namespace": holder["metadata"]["namespace"],
            "labels": {"app": "containerized-data-importer"},
            "annotations": notes,
            "ownerReferences": [owner(holder)],
        },
        "spec": spec,
        "status": {"phase": "Pending"},
    }


def _importer(claim: Obj, scratch: str) -> Obj:
    name = claim["metadata"]["name"]
    container = {
        "name": "importer",
        "image": "quay.io/kubevirt/cdi-importer:v1.64.0",
        "args": ["-v=1"],
        "env": [
            {"name": "IMPORTER_SOURCE", "value": "http"},
            {
                "name": "IMPORTER_ENDPOINT",
                "value": annotations_of(claim).get(f"{IMPORT}.endpoint", ""),
            },
        ],
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": meta(
            f"importer-{name}",
            claim["metadata"]["namespace"],
            labels={"app": "containerized-data-importer", "cdi.kubevirt.io": "importer"},
            ownerReferences=[owner(claim)],
        ),
        "spec": {
            "restartPolicy": "OnFailure",
            "containers": [container],
            "volumes": [
                {"name": "cdi-data-vol", "persistentVolumeClaim": {"claimName": name}},
                {"name": "cdi-scratch-vol", "persistentVolumeClaim": {"claimName": scratch}},
            ],
        },
    }
