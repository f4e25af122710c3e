"""The scale subresource: an ``autoscaling/v1 Scale`` in front of spec.replicas."""

from __future__ import annotations

from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.trees import dig

_IDENTITY = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(obj: Obj, *, builtin: bool = True) -> Obj:
    """The Scale that an object's replicas show.

    A built-in kind's default is one. Raises 500, as the API does, for a custom object that does
    not say how many it wants.
    """
    if not builtin and dig(obj, ("spec", "replicas")) is None:
        text = 'the spec replicas field ".spec.replicas" does not exist'
        raise ApiError(
            500, f"Internal error occurred: {text}", details={"causes": [{"message": text}]}
        )
    metadata = obj["metadata"]
    scale: Obj = {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {key: metadata[key] for key in _IDENTITY if key in metadata},
        "spec": {"replicas": dig(obj, ("spec", "replicas"), 1)},
        "status": {"replicas": dig(obj, ("status", "replicas"), 0)},
    }
    selector = _selector(obj)
    if selector:
        scale["status"]["selector"] = selector
    return scale


def _selector(obj: Obj) -> str:
    shown = dig(obj, ("status", "selector"))
    if isinstance(shown, str):
        return shown
    labels = dig(obj, ("spec", "selector", "matchLabels"), {})
    return ",".join(f"{key}={value}" for key, value in sorted(labels.items()))


def scaled(obj: Obj, scale: Any) -> Obj:
    """An object with the replicas of a Scale, and the resourceVersion the Scale was read at.

    Raises 400 for what is no Scale, 422 for a number of replicas that cannot be.
    """
    if not isinstance(scale, dict):
        raise ApiError(400, f"a Scale was expected, not {scale!r:.80}")
    replicas = dig(scale, ("spec", "replicas"), 0)
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise ApiError(400, f"spec.replicas: a number was expected, not {replicas!r:.80}")
    if replicas < 0:
        name = obj["metadata"]["name"]
        raise ApiError(
            422,
            f'Scale.autoscaling "{name}" is invalid: spec.replicas: Invalid value: {replicas}: '
            "must be greater than or equal to 0",
        )
    metadata = dict(obj["metadata"])
    said = dig(scale, ("metadata", "resourceVersion"))
    if said:
        metadata["resourceVersion"] = said
    else:
        metadata.pop("resourceVersion", None)
    return {**obj, "metadata": metadata, "spec": {**obj.get("spec", {}), "replicas": replicas}}
