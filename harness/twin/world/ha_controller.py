"""LINSTOR's high-availability controller, as far as the domain knows it: taints of storage nodes.

objects.md section 8: ``drbd.linbit.com/lost-quorum`` on a Node where a volume in use has no quorum,
``drbd.linbit.com/force-io-error`` where a frozen Primary gave way to newer data. It moves no pod
here; a real one may end a pod whose volume can be used elsewhere.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world.drbd_state import PRIMARY
from harness.twin.world.objects import Obj, deep, rfc3339
from harness.twin.world.reconcile import Activities

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource
    from harness.twin.world.world import World

LOST_QUORUM = "drbd.linbit.com/lost-quorum"
FORCE_IO_ERROR = "drbd.linbit.com/force-io-error"
_MANAGER = "ha-controller"


class HaController:
    """Keeps the taints of every storage node in step with its volumes."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._work = Activities(world.engine)
        world.storage.on_created.append(self._watch)

    def _watch(self, resource: Resource) -> None:
        resource.watchers.append(self._look)

    def _look(self, resource: Resource) -> None:
        for replica in resource.replicas:
            if self._wanted(replica.host) != self._has(replica.host):
                seconds = self._world.timings.draw("ha.taint")
                tell = partial(self._taint, replica.host)
                self._work.start(f"taints of {replica.host}", seconds, tell)

    def _wanted(self, host: str) -> set[str]:
        here = [one.on(host) for one in self._world.storage.resources.values()]
        found = [one for one in here if one is not None and self._world.storage.runs(host)]
        used = [one for one in found if one.role == PRIMARY]
        lost = {LOST_QUORUM} if any(not one.quorum for one in used) else set()
        return lost | ({FORCE_IO_ERROR} if any(one.failing for one in found) else set())

    def _has(self, host: str) -> set[str]:
        node = self._world.cluster.find("v1", "Node", "", host) or {}
        keys = {str(taint.get("key")) for taint in deep(node, "spec", "taints") or ()}
        return keys & {LOST_QUORUM, FORCE_IO_ERROR}

    def _taint(self, host: str) -> None:
        node, wanted = self._world.cluster.find("v1", "Node", "", host), self._wanted(host)
        if node is None or wanted == self._has(host):
            return
        now = self._world.engine.now

        def change(stored: Obj) -> None:
            kept = [
                taint
                for taint in stored["spec"].pop("taints", None) or ()
                if taint["key"] not in (LOST_QUORUM, FORCE_IO_ERROR)
            ]
            kept += [
                {"key": key, "effect": "NoSchedule", "timeAdded": rfc3339(now)}
                for key in sorted(wanted)
            ]
            if kept:
                stored["spec"]["taints"] = kept

        self._world.cluster.edit(node, change, manager=_MANAGER)
