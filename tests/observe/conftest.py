"""A cluster of scripted objects and logs, behind the reading half of `Kube`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from harness.reach.errors import ApiRefused

Obj = dict[str, Any]


class ScriptedCluster:
    """Objects as a cluster would give them; ``logs_of`` are a container's words, by pod.

    A log that is not among them is refused with ``refusing``.
    """

    refusing = 400

    def __init__(self, objects: list[Obj], name: str, logs_of: dict[str, str]) -> None:
        self.name = name
        self.objects = objects
        self.logs_of = logs_of

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Obj | None:
        found = self.list(api_version, kind, namespace)
        return next((one for one in found if one["metadata"]["name"] == name), None)

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Obj]:
        wanted = dict(part.split("=", 1) for part in labels.split(",") if part)
        return [
            copy.deepcopy(one)
            for one in self.objects
            if (one["apiVersion"], one["kind"]) == (api_version, kind)
            and namespace in ("", one["metadata"].get("namespace"))
            and wanted.items() <= one["metadata"].get("labels", {}).items()
            and all(_at(one, *part.split("=", 1)) for part in fields.split(",") if part)
        ]

    def logs(
        self,
        namespace: str,
        pod: str,
        container: str = "",
        *,
        previous: bool = False,
        limit_bytes: int | None = None,
        tail: int | None = None,
    ) -> bytes:
        said = self.logs_of.get(f"{namespace}/{pod}:{container}")
        if said is None:
            raise ApiRefused(self.refusing, "BadRequest", "container is waiting to start")
        assert (limit_bytes, tail) != (None, None), "a log is never asked for without an end"
        return said.encode()


def _at(obj: Any, path: str, value: str) -> bool:
    for step in path.split("."):
        obj = obj.get(step, {})
    return bool(obj == value)


@pytest.fixture
def cluster() -> Callable[..., Any]:
    def make(*objects: Obj, name: str = "tenant lab", logs: dict[str, str] | None = None) -> Any:
        return ScriptedCluster(list(objects), name, logs or {})

    return make


@pytest.fixture
def obj() -> Callable[..., Obj]:
    def make(api_version: str, kind: str, name: str, namespace: str = "", **more: Any) -> Obj:
        metadata = {"name": name, "uid": f"uid-{name}", **more.pop("metadata", {})}
        if namespace:
            metadata["namespace"] = namespace
        return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **more}

    return make
