"""A golden image of the platform's catalogue: the DataVolume that workers' disks are cloned from.

Its shape is that of clone_path section 2. An import that fails does not come to the phase Failed
(CDI v1.64: only a lost claim does); it shows as restarts and in the Running condition (section 4).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.facts.clones import Told, restart_count, told_of
from harness.facts.fact import Fact, Origin
from harness.facts.objects import (
    Obj,
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
from harness.facts.quantity import bytes_of
from harness.facts.sights import Seen

KEEP = ("helm.sh/resource-policy", "keep")
BIND = ("cdi.kubevirt.io/storage.bind.immediate.requested", "true")
POPULATOR = ("cdi.kubevirt.io/storage.usePopulator", "true")
SCHEMATIC = "kubernetes-worker-image.cozystack.io/schematic-id"
VERSION = "kubernetes-worker-image.cozystack.io/talos-version"


@dataclass(frozen=True, slots=True)
class Golden(Fact):
    """A golden's DataVolume and PVC.

    ``running`` is its Running condition as (status, reason, message), empty texts where there is
    none; ``restarts`` its restartCount; ``age`` seconds since it was made, None where it does not
    say; ``leaving``: it is being deleted; ``marks`` its annotations; ``url`` its HTTP source.
    ``asked_class`` and ``asked`` (bytes) are what it requests. ``claim`` is the PVC's name, ""
    where there is none, with its ``bound`` (status.phase), ``storage_class``, ``access_modes`` and
    ``capacity`` (bytes).
    """

    golden: str
    phase: str
    progress: str
    running: tuple[str, str, str]
    restarts: int
    age: float | None
    leaving: bool
    content_type: str
    url: str
    marks: dict[str, str] = field(hash=False)
    asked_class: str
    asked: int | None
    claim: str
    bound: str
    storage_class: str
    access_modes: tuple[str, ...]
    capacity: int | None
    events: tuple[Told, ...]

    @property
    def said(self) -> str:
        """The Running condition in words."""
        status, reason, message = self.running
        return f"Running={status or 'not told'} {reason}".strip() + f" ({message})" * bool(message)


@dataclass(frozen=True, slots=True)
class GoldenAbsent(Fact):
    """No DataVolume of this name. ``claim`` is the PVC of that name, "" where there is none either;
    ``others`` are the goldens that are there."""

    golden: str
    claim: str
    others: tuple[str, ...]


def golden(
    name: str, volumes: Seen, claims: Seen, events: Seen, *, at: float, cluster: str
) -> Golden | GoldenAbsent:
    """Put a golden together from what is there of it in its namespace."""
    volume, claim = volumes.last(name), claims.last(name)
    if not volume:
        others = tuple(sorted(name_of(one) for one in volumes.standing()))
        source = f"{cluster} DataVolume {name}"
        return GoldenAbsent(Origin(at, source, "\n".join(others)), name, name_of(claim), others)
    uids = {uid_of(volume), uid_of(claim)} - {""}
    return _golden(volume, claim, told_of(events, uids, {name}), at, cluster)


def _golden(volume: Obj, claim: Obj, events: tuple[Told, ...], at: float, cluster: str) -> Golden:
    running = condition(volume, "Running")
    asked = mapped(volume, "spec", "storage") or mapped(volume, "spec", "pvc")
    born = epoch(text_at(volume, "metadata", "creationTimestamp"))
    return Golden(
        origin=origin_of(volume, at, cluster),
        golden=name_of(volume),
        phase=text_at(volume, "status", "phase"),
        progress=text_at(volume, "status", "progress"),
        running=(
            text_at(running, "status"),
            text_at(running, "reason"),
            text_at(running, "message"),
        ),
        restarts=restart_count(volume),
        age=None if born is None else max(0.0, at - born),
        leaving=any(at_path(one, "metadata", "deletionTimestamp") for one in (volume, claim)),
        content_type=text_at(volume, "spec", "contentType"),
        url=text_at(volume, "spec", "source", "http", "url"),
        marks={key: str(one) for key, one in mapped(volume, "metadata", "annotations").items()},
        asked_class=text_at(asked, "storageClassName"),
        asked=bytes_of(at_path(asked, "resources", "requests", "storage")),
        claim=name_of(claim),
        bound=text_at(claim, "status", "phase"),
        storage_class=text_at(claim, "spec", "storageClassName"),
        access_modes=tuple(str(mode) for mode in listed(claim, "spec", "accessModes")),
        capacity=bytes_of(at_path(claim, "status", "capacity", "storage")),
        events=events,
    )
