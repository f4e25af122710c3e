"""A pool as the management cluster holds it: its stored request, its boot source, its nodes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from harness.facts.fact import Fact, Unread
from harness.facts.goldenname import PREFIX
from harness.facts.machineconfig import DeclaredModule, declared_module
from harness.facts.objects import (
    at_path,
    condition,
    epoch,
    listed,
    mapped,
    name_of,
    origin_of,
    text_at,
    uid_of,
)
from harness.facts.reply import quote

_URL = re.compile(r"/image/(?P<schematic>[^/]+)/(?P<version>[^/]+)/(?P<file>[^/]+)")
_GOLDEN = re.compile(
    PREFIX + r"(?P<schematic>[a-z0-9](?:[-a-z0-9]*?[a-z0-9])?)-(?P<version>v\d+\.\d+\.\d+(?:-.+)?)"
)


@dataclass(frozen=True, slots=True)
class RequestedModules:
    """The three states of a pool's kernelModules (gpu_path 1).

    ``listed`` None: the key is absent, the chart chooses; a list, the empty one too, replaces the
    chart's choice.
    """

    listed: tuple[DeclaredModule, ...] | None

    def __str__(self) -> str:
        if self.listed is None:
            return "absent"
        return "[" + ", ".join(" ".join((one.name, *one.parameters)) for one in self.listed) + "]"


ABSENT = RequestedModules(None)
"""The key is not there."""


@dataclass(frozen=True, slots=True)
class PoolRequest(Fact):
    """What the pool's HelmRelease holds: kernelModules, and the resource names under gpus."""

    kernel_modules: RequestedModules
    gpus: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class BootSource(Fact):
    """Where the pool's system disks come from.

    ``form`` is "http" (an image factory's URL) or "pvc" (a golden volume); ``address`` is the URL,
    or namespace/name of the volume (clone_path 1).
    """

    schematic: str
    version: str
    form: str
    address: str


@dataclass(frozen=True, slots=True)
class NodeState(Fact):
    """A tenant Node. ``ready_since`` in epoch seconds, None while it is not Ready."""

    name: str
    uid: str
    ready: bool
    ready_since: float | None
    boot_id: str
    allocatable: dict[str, str]


def pool_request(release: Any, *, at: float, cluster: str) -> PoolRequest | Unread:
    """Read a pool's request out of its HelmRelease's spec.values.

    A kernelModules that is neither absent nor a list of modules (null included) is Unread.
    """
    origin = origin_of(release, at, cluster)
    values = at_path(release, "spec", "values")
    if not isinstance(values, dict):
        return Unread(origin, "spec.values", f"no values in the HelmRelease: {values!r}")
    gpus = tuple(text_at(one, "name") for one in listed(values, "gpus"))
    if not all(gpus):
        return Unread(origin, "gpus", f"an entry without a name: {quote(repr(values['gpus']))}")
    try:
        return PoolRequest(origin, _requested(values), gpus)
    except ValueError as wrong:
        return Unread(origin, "kernelModules", str(wrong))


def _requested(values: dict[str, Any]) -> RequestedModules:
    if "kernelModules" not in values:
        return ABSENT
    written = values["kernelModules"]
    if not isinstance(written, list):
        raise ValueError(f"kernelModules is no list: {quote(repr(written))}")
    return RequestedModules(tuple(declared_module(item) for item in written))


def boot_source(template: Any, *, at: float, cluster: str) -> BootSource | Unread:
    """Read the system disk's source out of a KubevirtMachineTemplate."""
    origin = origin_of(template, at, cluster)
    machine = mapped(template, "spec", "template", "spec", "virtualMachineTemplate", "spec")
    source = mapped(machine, "dataVolumeTemplates", 0, "spec", "source")
    url, claim = text_at(source, "http", "url"), mapped(source, "pvc")
    if url and claim:
        return Unread(origin, "boot source", f"two sources: {quote(repr(source))}")
    where, form = (url, "http") if url else (text_at(claim, "name"), "pvc")
    found = _in_url(where) if url else _GOLDEN.fullmatch(where)
    if found is None:
        return Unread(origin, "boot source", f"names no schematic: {quote(repr(source))}")
    address = url or f"{text_at(claim, 'namespace')}/{where}"
    return BootSource(origin, found["schematic"], found["version"], form, address)


def _in_url(url: str) -> re.Match[str] | None:
    try:
        return _URL.fullmatch(urlsplit(url).path)
    except ValueError:  # a bracket where the host should be
        return None


def node_state(node: Any, *, at: float, cluster: str) -> NodeState:
    """Read a Node; a node without a Ready condition is not ready."""
    ready = condition(node, "Ready")
    is_ready = text_at(ready, "status") == "True"
    return NodeState(
        origin=origin_of(node, at, cluster),
        name=name_of(node),
        uid=uid_of(node),
        ready=is_ready,
        ready_since=epoch(text_at(ready, "lastTransitionTime")) if is_ready else None,
        boot_id=text_at(node, "status", "nodeInfo", "bootID"),
        allocatable={
            key: str(value) for key, value in mapped(node, "status", "allocatable").items()
        },
    )
