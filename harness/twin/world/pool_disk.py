"""Where a worker's system disk comes from, and what the chart refuses of it (clone_path.md)."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.twin.world.chart_behaviour import RenderRefused
from harness.twin.world.objects import CDI, Obj, deep, quantity

PUBLIC = "cozy-public"
HELPERS = "kubernetes-nodes/templates/_helpers.tpl"
NODEGROUP = "kubernetes-nodes/templates/nodegroup.yaml"
_SCHEMATIC = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_RELEASE = re.compile(r"^v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?$")
_URL = re.compile(r"^https?://[^\s\"']+$")


@dataclass(frozen=True, slots=True)
class Release:
    """What Helm knows beside the values. ``find`` is the chart's ``lookup``."""

    name: str
    namespace: str
    find: Callable[[str, str, str, str], Obj | None]


@dataclass(frozen=True, slots=True)
class Disk:
    """Where the system disk comes from: ``form`` is ``""``, ``factory`` or ``builtin``."""

    form: str
    schematic: str
    version: str
    factory: str

    @property
    def golden(self) -> str:
        """Name of the catalogue DataVolume (clone_path.md section 1)."""
        return f"talos-worker-{self.schematic}-{self.version}"

    @property
    def url(self) -> str:
        """The image's address at the factory."""
        return f"{self.factory}/image/{self.schematic}/{self.version}/openstack-amd64.raw.xz"


def resolve(values: Obj, release: Release) -> Disk:
    """The disk a pool asks for, in full. Raises RenderRefused."""
    image = values.get("osImage") or {}
    if "builtin" in image and "factory" in image:
        text = "set only one of osImage.builtin or osImage.factory"
        raise RenderRefused(f"{NODEGROUP}:31:8", text)
    form = next((key for key in ("factory", "builtin") if key in image), "")
    own = (image.get(form) or {}) if form else {}
    talos = values["talos"]
    disk = Disk(
        form,
        str(own.get("schematicID") or talos["schematicID"]),
        str(own.get("version") or talos["version"]),
        str(own.get("imageFactoryURL", talos["imageFactoryURL"]) or "").rstrip("/"),
    )
    _check_disk(disk, str(talos["version"]))
    if form == "builtin":
        _check_golden(disk, values, release)
    return disk


def _check_disk(disk: Disk, talos_version: str) -> None:
    if not _SCHEMATIC.match(disk.schematic):
        text = f"schematicID {disk.schematic!r} is not a plain lowercase alphanumeric identifier"
        raise RenderRefused(f"{HELPERS}:52:6", text)
    for version in (talos_version, disk.version):
        if not _RELEASE.match(version):
            text = f"version {version!r} is not a vMAJOR.MINOR.PATCH release"
            raise RenderRefused(f"{HELPERS}:58:6", text)
    if disk.form != "builtin" and not _URL.match(disk.factory):
        text = f"imageFactoryURL {disk.factory!r} is not a plain http(s) URL"
        raise RenderRefused(f"{HELPERS}:64:6", text)


def _check_golden(disk: Disk, values: Obj, release: Release) -> None:
    golden = release.find(CDI, "DataVolume", PUBLIC, disk.golden)
    if golden is None:
        text = (
            f"osImage.builtin requested golden DataVolume {disk.golden}, not found in {PUBLIC}; "
            "enable package cozystack.kubernetes-worker-image and list this image"
        )
        raise RenderRefused(f"{HELPERS}:80:8", text)
    if deep(golden, "status", "phase") == "Failed":
        text = f"golden DataVolume {disk.golden} failed to import (phase Failed)"
        raise RenderRefused(f"{HELPERS}:84:8", text)
    storage = deep(golden, "spec", "storage") or {}
    klass = storage.get("storageClassName", "")
    if klass != values["storageClass"]:
        text = (
            f"storageClass {values['storageClass']} differs from golden image {klass}. "
            "Neither side can be moved in place"
        )
        raise RenderRefused(f"{HELPERS}:91:8", text)
    size = deep(storage, "resources", "requests", "storage") or "0"
    if quantity(values["diskSize"]) < quantity(size):
        text = f"diskSize {values['diskSize']} is smaller than golden image {disk.golden}"
        raise RenderRefused(f"{HELPERS}:96:8", f"{text} storage {size}")
