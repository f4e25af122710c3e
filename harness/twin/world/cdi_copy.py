"""CDI's host-assisted clone: one pod reads the source, another writes what it sends to a claim.

With a populator the claim written to is a temporary one, and both pods run beside the source;
without one it is the DataVolume's own, and only the reader does (clone_path.md section 4).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world import cdi_shapes as shapes
from harness.twin.world.cdi_shapes import CLONE_REQUEST, MANAGER, POD_PHASE
from harness.twin.world.objects import Obj, annotations_of, deep, labels_of, terminating
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World


class HostCopies:
    """The upload and clone controllers: claims that carry a CloneRequest."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._cluster = world.cluster
        self._work = Activities(world.engine)
        self._cluster.on("v1", "Pod", self._hear_pod)
        self._cluster.on("v1", "PersistentVolumeClaim", self._hear_claim)

    def _hear_claim(self, change: Change) -> None:
        """The reader of a claim that is gone has nobody to send to."""
        asked = annotations_of(change.obj).get(CLONE_REQUEST, "")
        if change.type == "DELETED" and asked:
            name = f"{change.obj['metadata']['uid']}-source-pod"
            pod = self._cluster.find("v1", "Pod", asked.partition("/")[0], name)
            if pod is not None:
                self._cluster.delete(pod, manager=MANAGER)

    def _hear_pod(self, change: Change) -> None:
        """A prep pod has done its work as soon as it runs."""
        pod = change.obj
        running = deep(pod, "status", "phase") == "Running" and change.type != "DELETED"
        if running and labels_of(pod).get(shapes.COMPONENT) == shapes.PREP:
            seconds = self._world.timings.draw("prep.program")
            key = f"prep {pod['metadata']['uid']}"
            self._work.start(key, seconds, partial(self._world.hosts.finish, pod))

    def advance(self, receiving: Obj, uid: str) -> str:
        """One look at a claim with a CloneRequest. ``uid``: of the claim it is for in the end.

        "scheduled" until both pods run, then "running", at the end "done".
        """
        if annotations_of(receiving).get(POD_PHASE) == "Succeeded":
            return "done"
        pods = self._pods(receiving, uid)
        if not all(deep(pod, "status", "phase") == "Running" for pod in pods):
            return "scheduled"
        key = f"copy {receiving['metadata']['uid']}"
        seconds = self._world.timings.draw("clone.copy")
        self._work.start(key, seconds, partial(self._copied, receiving, pods))
        return "running"

    def _pods(self, receiving: Obj, uid: str) -> list[Obj]:
        namespace, _, name = annotations_of(receiving)[CLONE_REQUEST].partition("/")
        wanted = (
            shapes.upload_pod(receiving, uid),
            shapes.source_pod(receiving, namespace, name, uid),
        )
        return [self._made(pod) for pod in wanted]

    def _made(self, pod: Obj) -> Obj:
        metadata = pod["metadata"]
        found = self._cluster.find("v1", "Pod", metadata["namespace"], metadata["name"])
        return found or self._cluster.create(pod, manager=MANAGER)

    def _copied(self, receiving: Obj, pods: list[Obj]) -> None:
        current = self._cluster.current(receiving)
        if current is None or terminating(current):
            return
        namespace, _, name = annotations_of(current)[CLONE_REQUEST].partition("/")
        source = self._cluster.find("v1", "PersistentVolumeClaim", namespace, name) or {}
        self._world.claims.fill(current, self._world.claims.content_of(source))
        for pod in pods:
            running = self._cluster.current(pod)
            if running is not None:
                self._world.hosts.say(running, "Clone Complete")
                self._world.hosts.finish(running)
                self._cluster.delete(running, manager=MANAGER)
        self._cluster.edit(
            current,
            lambda stored: stored["metadata"]["annotations"].update({POD_PHASE: "Succeeded"}),
            manager=MANAGER,
        )
