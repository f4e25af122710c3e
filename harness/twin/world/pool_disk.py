"""Where a worker's system disk comes from, and what the chart refuses of it by itself.

Forms: clone_path.md section 1; refusals R1 to R4: section 3. What it refuses of a golden is in
`golden_guard`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from harness.twin.world.chart_behaviour import DiskRules
from harness.twin.world.objects import Obj

PUBLIC = "cozy-public"
HELPERS = "kubernetes-nodes/templates/_helpers.tpl"
NODEGROUP = "kubernetes-nodes/templates/nodegroup.yaml"
GOLDEN = "kubernetes-worker-image.cozystack.io/golden"
GOLDEN_POOL = "kubernetes-worker-image.cozystack.io/pool"
USE_POPULATOR = "cdi.kubevirt.io/storage.usePopulator"
_SCHEMATIC = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_RELEASE = re.compile(r"v\d+\.\d+\.\d+(-[0-9A-Za-z.-]+)?")
_URL = re.compile(r"https?://[^\s\"']+")


def _nothing(*_: str) -> list[Obj]:
    return []


@dataclass(frozen=True, slots=True)
class Release:
    """What Helm knows beside the values.

    ``find`` is the chart's ``lookup`` of one object (apiVersion, kind, namespace, name), ``all``
    that of a kind in a namespace ("": everywhere). Both raise RenderRefused where the release may
    not look; neither finds anything in an offline render.
    """

    name: str
    namespace: str
    find: Callable[[str, str, str, str], Obj | None]
    all: Callable[[str, str, str], list[Obj]] = _nothing


@dataclass(frozen=True, slots=True)
class Disk:
    """Where the system disk comes from: ``form`` is ``""``, ``factory`` or ``builtin``."""

    form: str
    schematic: str
    version: str
    factory: str
    platform: str = "openstack"

    @property
    def golden(self) -> str:
        """Name of the catalogue DataVolume."""
        return golden_name(self.schematic, self.version)

    @property
    def url(self) -> str:
        """The image's address at the factory."""
        return image_url(self.factory, self.schematic, self.version, self.platform)


def golden_name(schematic: str, version: str) -> str:
    """What the catalogue calls the golden of an image, and a pool looks for."""
    return f"talos-worker-{schematic}-{version}"


def image_url(factory: str, schematic: str, version: str, platform: str = "openstack") -> str:
    """Where a factory gives an image of a platform."""
    return f"{factory.rstrip('/')}/image/{schematic}/{version}/{platform}-amd64.raw.xz"


def is_identifier(schematic: str) -> bool:
    """R2: whether it can be part of a name and of a URL."""
    return _SCHEMATIC.fullmatch(schematic) is not None


def is_release(version: str) -> bool:
    """R3: whether it is vMAJOR.MINOR.PATCH, with or without a suffix."""
    return _RELEASE.fullmatch(version) is not None


def is_url(text: str) -> bool:
    """R4: whether it is a plain http(s) URL."""
    return _URL.fullmatch(text) is not None


def quoted(text: str) -> str:
    """A value as a chart's ``%q`` writes it."""
    return json.dumps(text, ensure_ascii=False)


def resolve(values: Obj, pool: str, rules: DiskRules) -> Disk:
    """The disk that a pool (its short name) asks for, in full. Raises RenderRefused (R1 to R4)."""
    image = values.get("osImage") or {}
    image = image if rules.empty_counts else {key: own for key, own in image.items() if own}
    who = f"nodeGroup {quoted(pool)}"
    if "builtin" in image and "factory" in image:
        text = f"{who}: set only one of osImage.builtin or osImage.factory"
        rules.refuse("R1", f"{NODEGROUP}:31:8", text)
    form = next((key for key in ("factory", "builtin") if key in image), "")
    own = (image.get(form) or {}) if form else {}
    talos = values["talos"]
    disk = Disk(
        form,
        str(own.get("schematicID") or talos["schematicID"]),
        str(own.get("version") or talos["version"]),
        str(own.get("imageFactoryURL") or talos["imageFactoryURL"] or "").rstrip("/"),
        rules.platform,
    )
    _check(disk, str(talos["version"]), who, rules)
    return disk


def _check(disk: Disk, talos_version: str, who: str, rules: DiskRules) -> None:
    if not is_identifier(disk.schematic):
        text = f"Talos schematicID {quoted(disk.schematic)} is not a plain lowercase alphanumeric"
        rules.refuse("R2", f"{HELPERS}:52:6", f"{who}: {text} identifier")
    for version in (talos_version, disk.version):
        if not is_release(version):
            text = f"Talos version {quoted(version)} is not a vMAJOR.MINOR.PATCH release"
            rules.refuse("R3", f"{HELPERS}:58:6", f"{who}: {text}")
    if disk.form != "builtin" and not is_url(disk.factory):
        text = f"imageFactoryURL {quoted(disk.factory)} is not a plain http(s) URL"
        rules.refuse("R4", f"{HELPERS}:64:6", f"{who}: {text}")
