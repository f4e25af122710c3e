"""What a node's CDI specification offers to containers: /run/cdi, written anew at each boot.

Two files: nvidia.yaml by the extension's service (kind nvidia.com/gpu), and the device plugin's
own (kind k8s.device-plugin.nvidia.com/gpu), which the Allocate answer names (gpu_path 6).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.objects import listed, mapped, text_at
from harness.facts.reply import Output, no_such_file, plain, quote, unfinished

SPEC = "/run/cdi/nvidia.yaml"
PLUGIN_SPEC = "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json"
LONGEST = 4_000_000
"""Characters beyond which a file is not read: a specification of many cards has a few 100 000."""

_INDEX = re.compile(r"\d{1,4}|gpu\d{1,4}")
_UUID = re.compile(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NODE = re.compile(r"/dev/nvidia\d{1,4}")
_KEYS = {"cdiVersion", "kind", "devices", "containerEdits"}
_DEVICE_KEYS = {"name", "containerEdits"}
_EDIT_KEYS = {"env", "deviceNodes", "hooks", "mounts"}
_LATER = {"annotations": (0, 6), "additionalGids": (0, 7), "intelRdt": (0, 7)}
"""Keys with the cdiVersion that brought them; an older one's reader refuses the whole file, also
where only the number was lowered."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.:-]*[A-Za-z0-9])?")


@dataclass(frozen=True, slots=True)
class CdiSpec(Fact):
    """A CDI file: its version, its devices' kind ("nvidia.com/gpu") and their names, in order.

    ``nodes`` are the distinct device nodes of cards that those devices bring (/dev/nvidia0);
    ``sources`` are the machine's files that a container is given, which have to be there. ``flaw``
    is why no engine takes the file, though it reads well: each was tried with podman 4.3.1, which
    then says no more than that the device is not resolvable.
    """

    path: str
    version: str
    device_kind: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    sources: tuple[str, ...] = ()
    flaw: str = ""

    @property
    def gpus(self) -> int:
        """How many cards the devices' names tell apart.

        One card may have two names, by index and by UUID; "all" is no card, nor is a MIG device.
        """
        by_index = {name for name in self.devices if _INDEX.fullmatch(name)}
        by_uuid = {name for name in self.devices if _UUID.fullmatch(name)}
        return max(len(by_index), len(by_uuid))


@dataclass(frozen=True, slots=True)
class CdiAbsent(Fact):
    """The node has no such file: what writes it has not finished in this boot."""

    path: str
    said: str


# every scalar stays the text it is, as a device's name "0" and a version "1.0" must
_LOADER = yaml.CBaseLoader if hasattr(yaml, "CBaseLoader") else yaml.BaseLoader


def read_spec(output: Output, path: str, *, at: float, source: str) -> CdiSpec | CdiAbsent | Unread:
    """Read the reply of ``cat`` over a CDI file, YAML or JSON.

    A file that ends early, has no kind or version, or names one device twice is Unread.
    """
    origin = output.origin(at, source)
    if output.exit_code not in (0, None) and no_such_file(path, output.stderr):
        return CdiAbsent(origin, path, output.stderr.strip())
    refused = unfinished(output, path, origin)
    if refused is not None:
        return refused
    if len(output.stdout) > LONGEST:
        return Unread(origin, path, f"it has {len(output.stdout)} characters, too many to be one")
    return _spec(plain(output.stdout), path, origin)


def _spec(text: str, path: str, origin: Origin) -> CdiSpec | Unread:
    try:
        found = yaml.load(text, Loader=_LOADER)
    except (yaml.YAMLError, ValueError, OverflowError, RecursionError) as error:
        return Unread(origin, path, f"neither YAML nor JSON: {_said(error)}: {quote(text)}")
    version, kind = text_at(found, "cdiVersion"), text_at(found, "kind")
    devices = listed(found, "devices")
    names = [text_at(one, "name") for one in devices]
    if not (version and kind) or "/" not in kind:
        return Unread(origin, path, f"it names no cdiVersion and kind: {quote(text)}")
    if not all(names) or len(set(names)) != len(names):
        return Unread(origin, path, f"its devices are not each named once: {quote(repr(names))}")
    return CdiSpec(
        origin,
        path,
        version,
        kind,
        tuple(names),
        tuple(dict.fromkeys(_nodes(devices))),
        tuple(dict.fromkeys(_sources(found, devices))),
        next(_flaws(found, devices), ""),
    )


def _sources(found: Any, devices: list[Any]) -> Iterator[str]:
    for one in (found, *devices):
        edits = mapped(one, "containerEdits")
        for node in listed(edits, "deviceNodes"):
            yield from filter(None, [text_at(node, "hostPath") or text_at(node, "path")])
        for mount in listed(edits, "mounts"):
            yield from filter(None, [text_at(mount, "hostPath")])


def _flaws(found: Any, devices: list[Any]) -> Iterator[str]:
    version = text_at(found, "cdiVersion")
    keys = [*_unknown(found, _KEYS, version), *_unknown_edits(found, version)]
    if not devices:
        yield "it names no device"
    for device in devices:
        name = text_at(device, "name")
        keys += [*_unknown(device, _DEVICE_KEYS, version), *_unknown_edits(device, version)]
        if not _NAME.fullmatch(name):
            yield f"{quote(name)} is no device's name"
        if not any(mapped(device, "containerEdits").values()):
            yield f"its device {name} brings nothing"
    if keys:
        yield f"cdiVersion {version} has no key {keys[0]}"
    for one in (found, *devices):
        for entry in listed(one, "containerEdits", "env"):
            if "=" not in str(entry):
                yield f"{quote(str(entry))} is no variable"


def _unknown_edits(one: Any, version: str) -> list[str]:
    return _unknown(mapped(one, "containerEdits"), _EDIT_KEYS, version)


def _unknown(one: Any, keys: set[str], version: str) -> list[str]:
    """Keys that a reader of this version does not know, in order."""
    parts = version.split(".")
    release = tuple(int(part) for part in parts[:2] if part.isdecimal() and len(part) < 4)
    known = keys | {key for key, since in _LATER.items() if release >= since}
    return sorted(str(key) for key in one if key not in known)


def _nodes(devices: list[Any]) -> Iterator[str]:
    for device in devices:
        for node in listed(device, "containerEdits", "deviceNodes"):
            if _NODE.fullmatch(text_at(node, "path")):
                yield text_at(node, "path")


def _said(error: Exception) -> str:
    return " ".join(str(error).split())
