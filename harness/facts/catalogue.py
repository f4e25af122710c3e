"""The platform's golden catalogue: its release, and a golden from its entry to its last phase.

One DataVolume for each (schematic, version), kept when its entry goes (clone_path 2). A broken
import does not come to the phase Failed: it goes on with rising restarts (clone_path 4).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.facts.applied import Allowed, AppliedPool
from harness.facts.fact import Fact, Unread
from harness.facts.goldenname import GOLDENS, name_of_golden
from harness.facts.objects import (
    Obj,
    at_path,
    condition,
    listed,
    mapped,
    name_of,
    origin_of,
    text_at,
    uid_of,
)
from harness.facts.poolstate import digest
from harness.facts.refusals import RefusalTrial

IMAGE_FILE = "openstack-amd64.raw.xz"
STORAGE, STORAGE_CLASS = "6Gi", "replicated"
"""What the catalogue takes where nobody says otherwise (clone_path 2)."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of the catalogue, resolved: what its golden is to be made of.

    ``url`` is the image's address at the factory, "" where the release does not name the factory.
    """

    schematic: str
    version: str
    storage: str
    storage_class: str
    url: str

    @property
    def golden(self) -> str:
        """The name of its golden."""
        return name_of_golden(self.schematic, self.version)


@dataclass(frozen=True, slots=True)
class CatalogueRelease(Fact):
    """The catalogue's HelmRelease. ``images`` are the goldens that its values name, in their order;
    ``ready`` is as said of its present generation, "" before that; ``revision`` is the newest of
    its history, 0 where there is none."""

    images: tuple[str, ...]
    generation: int
    ready: str
    reason: str
    message: str
    revision: int


@dataclass(frozen=True, slots=True)
class GoldenVolume(Fact):
    """A golden's DataVolume. ``leaving``: it is being deleted; ``content`` is a digest of its spec;
    ``marks`` its annotations, ``labels`` its labels."""

    name: str
    uid: str
    leaving: bool
    phase: str
    restarts: int
    running: str
    content_type: str
    url: str
    storage: str
    storage_class: str
    content: str
    marks: dict[str, str] = field(hash=False)
    labels: dict[str, str] = field(hash=False)


@dataclass(frozen=True, slots=True)
class Phase:
    """A golden in one phase: the most restarts told in it, and seconds since its entry was written
    when it was first seen in it."""

    phase: str
    restarts: int
    after: float


@dataclass(frozen=True, slots=True)
class GoldenImport(Fact):
    """How a golden came about, phase by phase, as a watch saw it from before its entry was written.

    ``phases`` holds each run of one phase; ``seconds`` from the entry to Succeeded, None where it
    did not come to that; ``waited`` seconds in all; ``doubt`` why phases may have been missed.
    """

    name: str
    phases: tuple[Phase, ...]
    seconds: float | None
    waited: float
    doubt: str

    @property
    def restarts(self) -> int:
        """The most restarts that were told."""
        return max((one.restarts for one in self.phases), default=0)


@dataclass(frozen=True, slots=True)
class Imported:
    """A new entry, and what came of it; ``meanwhile`` is a pool that asked for the golden while
    that was being imported, Unread where none could."""

    entry: Entry | Unread
    release: CatalogueRelease | Unread
    golden: GoldenVolume | Unread
    history: GoldenImport | Unread
    meanwhile: Allowed | Unread


@dataclass(frozen=True, slots=True)
class Dropped:
    """A golden and its release before its entry was taken out, and after."""

    before: GoldenVolume | Unread
    release_before: CatalogueRelease | Unread
    after: GoldenVolume | Unread
    release_after: CatalogueRelease | Unread


@dataclass(frozen=True, slots=True)
class Resolved:
    """What empty classes were taken for: ``rendered`` are pools that had to be rendered, with the
    class that is due, ``refused`` one whose two sides come to different classes (R8)."""

    rendered: tuple[Allowed | Unread, ...]
    refused: RefusalTrial | Unread


@dataclass(frozen=True, slots=True)
class Outlived:
    """A pool with one worker that has cloned: as it was then (``before``), with its class taken out
    where the cluster's default is another (``classless``), and without its golden (``without``)."""

    before: AppliedPool | Unread
    classless: Allowed | Unread
    without: Allowed | Unread


def catalogue_release(release: Any, *, at: float, cluster: str) -> CatalogueRelease:
    """Read the catalogue's HelmRelease."""
    said = condition(release, "Ready")
    generation = _number(at_path(release, "metadata", "generation"))
    current = said.get("observedGeneration") == generation
    images = listed(release, "spec", "values", "images")
    return CatalogueRelease(
        origin=origin_of(release, at, cluster),
        images=tuple(golden_name(one) for one in images),
        generation=generation,
        ready=text_at(said, "status") if current else "",
        reason=text_at(said, "reason"),
        message=text_at(said, "message"),
        revision=_number(at_path(listed(release, "status", "history"), 0, "version")),
    )


def golden_name(entry: Any) -> str:
    """The golden that an entry of the catalogue names."""
    return name_of_golden(text_at(entry, "schematicID"), text_at(entry, "version"))


def resolved(entry: Any, release: Any) -> Entry:
    """An entry with what the catalogue's own values give where it says nothing."""
    values = mapped(release, "spec", "values")
    schematic, version = text_at(entry, "schematicID"), text_at(entry, "version")

    def of(key: str, otherwise: str) -> str:
        return text_at(entry, key) or text_at(values, key) or otherwise

    factory = of("imageFactoryURL", "").rstrip("/")
    return Entry(
        schematic=schematic,
        version=version,
        storage=of("storage", STORAGE),
        storage_class=of("storageClass", STORAGE_CLASS),
        url=f"{factory}/image/{schematic}/{version}/{IMAGE_FILE}" if factory else "",
    )


def golden_volume(volume: Any, *, at: float, cluster: str) -> GoldenVolume:
    """Read a golden's DataVolume."""
    running = condition(volume, "Running")
    said = (text_at(running, key) for key in ("status", "reason", "message"))
    storage = mapped(volume, "spec", "storage")
    return GoldenVolume(
        origin=origin_of(volume, at, cluster),
        name=name_of(volume),
        uid=uid_of(volume),
        leaving=bool(text_at(volume, "metadata", "deletionTimestamp")),
        phase=text_at(volume, "status", "phase"),
        restarts=_number(at_path(volume, "status", "restartCount")),
        running=" ".join(part for part in said if part),
        content_type=text_at(volume, "spec", "contentType"),
        url=text_at(volume, "spec", "source", "http", "url"),
        storage=str(at_path(storage, "resources", "requests", "storage") or ""),
        storage_class=text_at(storage, "storageClassName"),
        content=digest(at_path(volume, "spec")),
        marks=_texts(volume, "annotations"),
        labels=_texts(volume, "labels"),
    )


def golden_import(
    name: str,
    versions: Sequence[tuple[float, Obj]],
    *,
    since: float,
    doubt: str,
    at: float,
    cluster: str,
) -> GoldenImport:
    """Put together what a watch saw of a golden, each version with the lab's time it arrived."""
    phases: list[Phase] = []
    for arrived, volume in versions:
        phase = text_at(volume, "status", "phase")
        restarts = _number(at_path(volume, "status", "restartCount"))
        if phases and phases[-1].phase == phase:
            known = phases[-1]
            phases[-1] = Phase(phase, max(known.restarts, restarts), known.after)
        elif phase:
            phases.append(Phase(phase, restarts, max(0.0, arrived - since)))
    done = next((one.after for one in phases if one.phase == "Succeeded"), None)
    last = versions[-1][1] if versions else {"kind": "DataVolume", "metadata": {"name": name}}
    return GoldenImport(
        origin=origin_of(last, at, cluster),
        name=name,
        phases=tuple(phases),
        seconds=done,
        waited=max(0.0, at - since),
        doubt=doubt,
    )


def users_of(golden: str, volumes: Iterable[Obj]) -> tuple[str, ...]:
    """The disks that are of a golden or still to be, by annotation or source: "namespace/name"."""
    return tuple(
        f"{text_at(one, 'metadata', 'namespace')}/{name_of(one)}"
        for one in volumes
        if _names(one, golden)
    )


def sources_of(template: Obj) -> set[str]:
    """The goldens that a machine template clones from."""
    path = ("spec", "template", "spec", "virtualMachineTemplate", "spec", "dataVolumeTemplates")
    claims = [mapped(one, "spec", "source", "pvc") for one in listed(template, *path)]
    return {text_at(one, "name") for one in claims if text_at(one, "namespace") == GOLDENS}


def _names(volume: Obj, golden: str) -> bool:
    marks = mapped(volume, "metadata", "annotations")
    source = mapped(volume, "spec", "source", "pvc")
    cloned = (text_at(source, "namespace"), text_at(source, "name")) == (GOLDENS, golden)
    return cloned or marks.get("kubernetes-worker-image.cozystack.io/golden") == golden


def _texts(obj: Obj, key: str) -> dict[str, str]:
    return {name: str(value) for name, value in mapped(obj, "metadata", key).items()}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
