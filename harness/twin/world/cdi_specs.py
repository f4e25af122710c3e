"""CDI specifications as containerd reads them: files to devices, device names to container edits.

Which files count, which names are valid and what makes a device unresolvable: CDI ``pkg/cdi``
(cache.go, spec.go, version.go) as containerd 2.1 carries it; lab/captures/cdi_host_podman43_runc.
A file that is no valid spec is left out, and so is a device that two files define. What podman
4.3.1 was seen to do with it too: a key that nobody knows and a device that brings nothing spoil the
whole file, a name may be any scalar, and both endings are read as YAML, which JSON is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

DIRECTORY = "/run/cdi"
"""The only directory of Talos' containerd (gpu_path.md section 6)."""
_VERSIONS = ("0.1.0", "0.2.0", "0.3.0", "0.4.0", "0.5.0", "0.6.0", "0.7.0", "0.8.0", "1.0.0")
_KIND = re.compile(r"[A-Za-z]([A-Za-z0-9_.-]*[A-Za-z0-9])?/[A-Za-z]([A-Za-z0-9_-]*[A-Za-z0-9])?")
_KEYS = frozenset({"cdiVersion", "kind", "annotations", "devices", "containerEdits"})
_DEVICE_KEYS = frozenset({"name", "annotations", "containerEdits"})
_EDIT_KEYS = frozenset(
    {"env", "deviceNodes", "netDevices", "hooks", "mounts", "intelRdt", "additionalGids"}
)
_DEVICE = re.compile(r"[A-Za-z0-9]([A-Za-z0-9_.:-]*[A-Za-z0-9])?")
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Unresolvable(Exception):
    """No valid spec defines these devices; ``str()`` is the CDI library's sentence."""


@dataclass(frozen=True, slots=True)
class Mount:
    """A path of the host, and where it appears in the container."""

    host: str
    inside: str


@dataclass(frozen=True, slots=True)
class Hook:
    """A program of the host that the runtime runs while it makes the container."""

    name: str
    path: str


@dataclass(frozen=True, slots=True)
class Edits:
    """What a spec does to a container. ``nodes``: path in the container to path on the host."""

    env: tuple[str, ...] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    mounts: tuple[Mount, ...] = ()
    hooks: tuple[Hook, ...] = ()

    def and_then(self, other: Edits) -> Edits:
        """These edits, then others."""
        return Edits(
            (*self.env, *other.env),
            {**self.nodes, **other.nodes},
            (*self.mounts, *other.mounts),
            (*self.hooks, *other.hooks),
        )


@dataclass(frozen=True, slots=True)
class Spec:
    """One valid spec: what every container gets that gets any of its devices, and each device."""

    kind: str
    common: Edits
    devices: Mapping[str, Edits]


class _Invalid(Exception):
    pass


def parse(path: str, content: bytes) -> Spec | None:
    """The spec in a file, or None where the CDI library would not take it."""
    try:
        return _spec(_document(path, content))
    except _Invalid:
        return None


def resolve(files: Mapping[str, bytes], names: Iterable[str]) -> Edits:
    """The edits for qualified device names, from files by absolute path. Raises Unresolvable."""
    wanted = list(dict.fromkeys(names))
    specs = [
        parse(path, content)
        for path, content in sorted(files.items())
        if path.rpartition("/")[0] == DIRECTORY
    ]
    found: dict[str, list[tuple[Spec, Edits]]] = {}
    for spec in (one for one in specs if one is not None):
        for name, edits in spec.devices.items():
            found.setdefault(f"{spec.kind}={name}", []).append((spec, edits))
    missing = [name for name in wanted if len(found.get(name, ())) != 1]
    if missing:
        raise Unresolvable(f"unresolvable CDI devices {', '.join(missing)}")
    result, seen = Edits(), list[Spec]()
    for name in wanted:
        ((spec, edits),) = found[name]
        if spec not in seen:
            seen.append(spec)
            result = result.and_then(spec.common)
        result = result.and_then(edits)
    return result


def _document(path: str, content: bytes) -> Any:
    if not path.endswith((".json", ".yaml")):
        raise _Invalid
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        pass  # it may be YAML all the same
    try:
        return yaml.load(content, Loader=_LOADER)
    except (ValueError, yaml.YAMLError, RecursionError) as broken:
        raise _Invalid from broken


def _spec(document: Any) -> Spec:
    if not isinstance(document, dict) or document.get("cdiVersion") not in _VERSIONS:
        raise _Invalid
    kind = document.get("kind")
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise _Invalid
    _known(document, _KEYS)
    devices: dict[str, Edits] = {}
    for one in _rows(document.get("devices")):
        _known(one, _DEVICE_KEYS)
        name = _name(one.get("name"))
        edits = one.get("containerEdits")
        if not _DEVICE.fullmatch(name) or name in devices:
            raise _Invalid
        if not isinstance(edits, dict) or not any(edits.values()):
            raise _Invalid  # it brings nothing
        devices[name] = _edits(edits)
    if not devices:
        raise _Invalid
    return Spec(kind, _edits(document.get("containerEdits")), devices)


def _edits(value: Any) -> Edits:
    if value is None:
        return Edits()
    if not isinstance(value, dict):
        raise _Invalid
    _known(value, _EDIT_KEYS)
    env = value.get("env") or []
    if not isinstance(env, list) or not all(isinstance(one, str) and "=" in one for one in env):
        raise _Invalid
    nodes = {
        _path(one, "path"): _path(one, "hostPath" if one.get("hostPath") else "path")
        for one in _rows(value, "deviceNodes")
    }
    mounts = tuple(
        Mount(_path(one, "hostPath"), _path(one, "containerPath")) for one in _rows(value, "mounts")
    )
    hooks = tuple(Hook(_path(one, "hookName"), _path(one, "path")) for one in _rows(value, "hooks"))
    return Edits(tuple(env), nodes, mounts, hooks)


def _known(row: dict[Any, Any], keys: frozenset[str]) -> None:
    if not keys.issuperset(row):
        raise _Invalid


def _name(value: Any) -> str:
    """A device's name; YAML's numbers and truth values are turned to text, as the library does."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""


def _rows(value: Any, key: str = "") -> list[dict[str, Any]]:
    rows = (value.get(key) if key else value) or []
    if not isinstance(rows, list) or not all(isinstance(one, dict) for one in rows):
        raise _Invalid
    return rows


def _path(row: dict[str, Any], key: str) -> str:
    found = row.get(key)
    if not isinstance(found, str) or not found:
        raise _Invalid
    return found
