"""What a pod template's containers are given: variables, host paths, privileges."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.facts.objects import Obj, at_path, listed, mapped, text_at


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a container. ``value`` is None where it comes from elsewhere (valueFrom).

    A value that is no text, which Kubernetes refuses, keeps its JSON with a remark.
    """

    name: str
    value: str | None

    def __str__(self) -> str:
        return f"{self.name}={'(valueFrom)' if self.value is None else self.value}"


@dataclass(frozen=True, slots=True)
class Container:
    """One container of a pod. ``mounts`` are the host's paths among its mounts."""

    name: str
    init: bool
    image: str
    env: tuple[Variable, ...]
    privileged: bool
    mounts: tuple[str, ...]

    @property
    def variables(self) -> dict[str, str | None]:
        """Variables by name; of a name given twice the last, as the kubelet takes it."""
        return {one.name: one.value for one in self.env}


def variable(entry: Any) -> Variable:
    """One entry of an ``env`` list. Raises ValueError for one that names no variable."""
    name = text_at(entry, "name")
    if not name:
        raise ValueError(f"this entry names no variable: {entry!r}")
    if "valueFrom" in entry:
        return Variable(name, None)
    value = entry.get("value", "")
    if value is None:
        return Variable(name, "")
    return Variable(name, value if isinstance(value, str) else f"{json.dumps(value)} (no text)")


def containers(spec: Any) -> tuple[Container, ...]:
    """The containers of a pod's spec, those that initialise first, in their order."""
    paths = _host_paths(spec)
    return tuple(
        _container(one, paths, init=key == "initContainers")
        for key in ("initContainers", "containers")
        for one in listed(spec, key)
    )


def host_paths(spec: Any) -> tuple[str, ...]:
    """The host's paths among a pod's volumes, mounted or not, in their order."""
    return tuple(dict.fromkeys(_host_paths(spec).values()))


def _host_paths(spec: Any) -> dict[str, str]:
    volumes = listed(spec, "volumes")
    paths = {text_at(one, "name"): text_at(one, "hostPath", "path") for one in volumes}
    return {name: path for name, path in paths.items() if path}


def _container(one: Any, paths: dict[str, str], *, init: bool) -> Container:
    return Container(
        name=text_at(one, "name"),
        init=init,
        image=text_at(one, "image"),
        env=tuple(_variables(one)),
        privileged=mapped(one, "securityContext").get("privileged") is True,
        mounts=tuple(_mounted(one, paths)),
    )


def _variables(container: Obj) -> Iterator[Variable]:
    for entry in listed(container, "env"):
        if text_at(entry, "name"):
            yield variable(entry)


def _mounted(container: Any, paths: dict[str, str]) -> Iterator[str]:
    for mount in listed(container, "volumeMounts"):
        volume = at_path(mount, "name")
        if isinstance(volume, str) and volume in paths:
            yield paths[volume]
