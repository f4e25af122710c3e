"""Taints that drive pods out, and the pods that are spared when such a taint goes in time.

The node lifecycle controller puts ``not-ready:NoExecute`` on a node whose kubelet reports NotReady,
as it does after each boot. A pod without a toleration of its own has five minutes then (admission
plugin DefaultTolerationSeconds); where the node is Ready before, the taint eviction controller
says so in an Event of each pod that it had marked (kubernetes pkg/controller/tainteviction).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from harness.twin.world import nodefit, pods
from harness.twin.world.objects import Obj, deep, rfc3339

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

LIFECYCLE = "kube-controller-manager"
CONTROLLER = "taint-eviction-controller"
NO_EXECUTE = "NoExecute"


def taint(cluster: Cluster, node: Obj, key: str) -> None:
    """Put a taint on a node that drives pods out."""
    mark = {"key": key, "effect": NO_EXECUTE, "timeAdded": rfc3339(cluster.engine.now)}

    def change(stored: Obj) -> None:
        taints = stored["spec"].setdefault("taints", [])
        if not any(one["key"] == key and one["effect"] == NO_EXECUTE for one in taints):
            taints.append(mark)

    cluster.edit(node, change, manager=LIFECYCLE)


def doomed(cluster: Cluster, node: Obj) -> list[Obj]:
    """The pods of a node that one of its taints is to drive out, when their time is over."""
    taints = [
        one for one in deep(node, "spec", "taints") or () if one["effect"] == NO_EXECUTE
    ]  # fmt: skip
    name, away = node["metadata"]["name"], {"spec": {"taints": taints}}
    return [
        pod
        for pod in (cluster.all("v1", "Pod") if any("timeAdded" in one for one in taints) else ())
        if deep(pod, "spec", "nodeName") == name
        and not pods.finished(pod)
        and nodefit.untolerated(nodefit.listed(deep(pod, "spec", "tolerations")), away)
    ]


def spare(cluster: Cluster, spared: Iterable[Obj]) -> None:
    """Say of these pods that they stay after all."""
    for pod in spared:
        meta = pod["metadata"]
        text = f"Cancelling deletion of Pod {meta['namespace']}/{meta['name']}"
        cluster.events.normal(pod, "TaintManagerEviction", text, CONTROLLER)
