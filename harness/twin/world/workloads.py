"""Pods made from a template: what the controllers of DaemonSets and Deployments have in common."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.world import conditions, pods
from harness.twin.world.objects import (
    Obj,
    controller_of,
    deep,
    digest,
    labels_of,
    owner,
    terminating,
)

if TYPE_CHECKING:
    from harness.twin.world.cluster import Cluster

MANAGER = "kube-controller-manager"


def template_hash(obj: Obj) -> str:
    """What tells two pod templates apart, as it is written on their pods."""
    return digest(obj["spec"].get("template") or {})[:10]


def pods_of(cluster: Cluster, obj: Obj) -> list[Obj]:
    """The pods that an object controls, oldest first."""
    uid = obj["metadata"]["uid"]
    found = cluster.all("v1", "Pod", obj["metadata"]["namespace"])
    return [pod for pod in found if controller_of(pod).get("uid") == uid]


def make_pod(cluster: Cluster, obj: Obj, component: str, *, mark: Obj, **spec: object) -> bool:
    """Create a pod of an object's template, labelled with ``mark`` too; ``spec`` is laid over.

    A refusal is told as an Event on the object; whether a pod was made.
    """
    template = copy.deepcopy(obj["spec"].get("template") or {})
    labels, notes = (deep(template, "metadata", key) for key in ("labels", "annotations"))
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "generateName": f"{obj['metadata']['name']}-",
            "namespace": obj["metadata"]["namespace"],
            "labels": {**(labels if isinstance(labels, dict) else {}), **mark},
            "annotations": notes if isinstance(notes, dict) else {},
            "ownerReferences": [owner(obj)],
        },
        "spec": {**(template.get("spec") or {}), **spec},
    }
    try:
        made = cluster.create(pod, manager=MANAGER)
    except ApiError as refused:
        text = f"Error creating: {refused.message}"
        cluster.events.warning(obj, "FailedCreate", text, component)
        return False
    text = f"Created pod: {made['metadata']['name']}"
    cluster.events.normal(obj, "SuccessfulCreate", text, component)
    return True


def drop_pod(cluster: Cluster, obj: Obj, pod: Obj, component: str) -> None:
    """Delete a pod of an object, and say so."""
    cluster.delete(pod, manager=MANAGER)
    cluster.events.normal(obj, "SuccessfulDelete", f"Deleted pod: {pod['metadata']['name']}",
                          component)  # fmt: skip


def is_ready(pod: Obj) -> bool:
    """Whether a pod serves."""
    return conditions.holds(pod, "Ready") and not terminating(pod) and not pods.finished(pod)


def has_mark(pod: Obj, mark: Obj) -> bool:
    """Whether a pod is of the template that ``mark`` stands for."""
    return all(labels_of(pod).get(key) == value for key, value in mark.items())
