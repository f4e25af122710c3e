"""Containers that go on beside a pod's others and have to be up before them.

Init containers with restartPolicy Always (KEP-753); of the management cluster's pods, launchers
alone have some: guest-console-log.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from harness.twin.world import init_stages
from harness.twin.world.objects import Obj

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

BACK_OFF = 300.0
"""Seconds between two starts of a container that fails: the most that a kubelet waits."""


def start(cluster: Cluster, pod: Obj, broken: Collection[str], now: float) -> bool:
    """Start a pod's; whether one of them fails, so that the pod stays PodInitializing."""
    names = [one["name"] for one in init_stages.init_containers(pod)]
    if not names:
        return False
    failing = [name for name in names if name in broken]

    def change(stored: Obj) -> None:
        for name in names:
            if name in failing:
                init_stages.fell_back(stored, name, BACK_OFF, now)
            else:
                init_stages.beside(stored, name, now)

    cluster.status(pod, change, manager="kubelet")
    for name in failing:
        text = f"Back-off restarting failed container {name} in pod {pod['metadata']['name']}"
        cluster.events.warning(pod, "BackOff", text, "kubelet")
    return bool(failing)
