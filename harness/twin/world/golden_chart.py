"""The chart of golden images: one DataVolume for each image of the catalogue.

clone_path.md section 2 (CZ ``packages/system/kubernetes-worker-image/templates/dv.yaml``). That
values are compared as text is inferred.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.twin.world.chart_behaviour import CatalogueChart, RenderRefused
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import CDI, Obj, deep
from harness.twin.world.pool_disk import (
    PUBLIC,
    USE_POPULATOR,
    Release,
    golden_name,
    image_url,
    is_identifier,
    is_release,
    is_url,
    quoted,
)
from harness.twin.world.pool_values import ValuesRefused, listed, sizes
from harness.twin.world.shapes import same_type, type_of

CHART = "kubernetes-worker-image"
ARTIFACT = f"cozystack-{CHART}-default-{CHART}"
"""The packaged chart that a release of it names (inferred)."""
TEMPLATE = f"{CHART}/templates/dv.yaml"
KEEP_POLICY = "helm.sh/resource-policy"
SCHEMATIC = "kubernetes-worker-image.cozystack.io/schematic-id"
TALOS = "kubernetes-worker-image.cozystack.io/talos-version"
BIND_NOW = "cdi.kubevirt.io/storage.bind.immediate.requested"
_FIXED = {
    "storage": ("storage", "resources", "requests", "storage"),
    "storageClass": ("storage", "storageClassName"),
    "source URL": ("source", "http", "url"),
}
# tied to the pool chart's defaults by the drift guards of clone_path.md section 2
DEFAULTS: Obj = {
    "imageFactoryURL": "https://factory.talos.dev",
    "storageClass": "replicated",
    "storage": "6Gi",
    "images": [{"schematicID": VANILLA, "version": "v1.13.6"}],
}


def render(values: Mapping[str, Any], release: Release, chart: CatalogueChart) -> list[Obj]:
    """The goldens. Raises RenderRefused."""
    full = {**DEFAULTS, **{key: value for key, value in values.items() if value is not None}}
    _check_types(full)
    found: dict[str, Obj] = {}
    for entry in full["images"]:
        image = _Image.of(full, entry)
        if chart.name_guard:
            _check_names(image)
        golden = _golden(image, keep=chart.keeps)
        name = golden["metadata"]["name"]
        if chart.duplicate_guard and name in found:
            text = f"two images[] entries resolve to the same golden DataVolume {quoted(name)}"
            raise _refuse(24, text)
        if chart.change_guard:
            _check_unchanged(image, golden, release)
        found[name] = golden
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Image:
    """One entry with what it takes over from the catalogue."""

    schematic: str
    version: str
    factory: str
    storage: str | int
    storage_class: str

    @classmethod
    def of(cls, catalogue: Obj, entry: Obj) -> _Image:
        full = {**catalogue, **{key: value for key, value in entry.items() if value}}
        return cls(
            full["schematicID"],
            full["version"],
            full["imageFactoryURL"].rstrip("/"),
            full["storage"],
            full["storageClass"],
        )


def _refuse(line: int, text: str) -> RenderRefused:
    return RenderRefused(f"{TEMPLATE}:{line}:6", f"{CHART}: {text}")


def _check_types(values: Obj) -> None:
    problems = list(_mistyped(values, DEFAULTS, ""))
    rows = values["images"] if isinstance(values["images"], list) else ()
    for index, entry in enumerate(rows):
        where = f"/images/{index}"
        if not isinstance(entry, dict):
            problems.append((where, f"got {type_of(entry)}, want object"))
            continue
        wanted = ("schematicID", "version")
        problems += [(where, f"missing property '{key}'") for key in wanted if key not in entry]
        problems += _mistyped(entry, {**DEFAULTS, "schematicID": "", "version": ""}, where)
    if not problems:
        for one in (values, *rows):
            problems += sizes(one, "storage") if one.get("storage") else []
    if problems:
        raise ValuesRefused(CHART, listed(problems))


def _mistyped(values: Obj, model: Obj, path: str) -> Iterator[tuple[str, str]]:
    for key, default in model.items():
        if key in values and not same_type(values[key], default):
            yield f"{path}/{key}", f"got {type_of(values[key])}, want {type_of(default)}"


def _check_names(image: _Image) -> None:
    """A pool must be able to put the golden's name together again."""
    if not is_identifier(image.schematic):
        text = f"images[] entry schematicID {quoted(image.schematic)} is not a plain lowercase"
        raise _refuse(16, f"{text} alphanumeric identifier")
    if not is_release(image.version):
        text = f"images[] entry version {quoted(image.version)} is not a vMAJOR.MINOR.PATCH"
        raise _refuse(20, f"{text} Talos release")
    if not is_url(image.factory):
        raise _refuse(12, f"imageFactoryURL {quoted(image.factory)} is not a plain http(s) URL")


def _check_unchanged(image: _Image, golden: Obj, release: Release) -> None:
    """What is there cannot be patched into something else."""
    name = golden["metadata"]["name"]
    found = release.find(CDI, "DataVolume", PUBLIC, name)
    for what, path in _FIXED.items() if found is not None else ():
        before, after = (str(deep(one or {}, "spec", *path) or "") for one in (found, golden))
        if before != after:
            raise _refuse(
                33,
                f"images[] entry ({image.schematic}, {image.version}) changed after its golden "
                f"DataVolume {quoted(name)} was created: {what} {quoted(before)} -> "
                f"{quoted(after)}",
            )


def _golden(image: _Image, *, keep: bool) -> Obj:
    storage: Obj = {"resources": {"requests": {"storage": image.storage}}}
    if image.storage_class:
        storage["storageClassName"] = image.storage_class
    notes = {
        BIND_NOW: "true",
        USE_POPULATOR: "true",
        SCHEMATIC: image.schematic,
        TALOS: image.version,
    }
    return {
        "apiVersion": CDI,
        "kind": "DataVolume",
        "metadata": {
            "name": golden_name(image.schematic, image.version),
            "namespace": PUBLIC,
            "labels": {"app.kubernetes.io/managed-by": "cozystack"},
            "annotations": notes | ({KEEP_POLICY: "keep"} if keep else {}),
        },
        "spec": {
            "contentType": "kubevirt",
            "source": {"http": {"url": image_url(image.factory, image.schematic, image.version)}},
            "storage": storage,
        },
    }
