"""A worker's system disk as a DataVolume: what it was to be made from, and how it came about.

Source and annotations as clone_path section 1 has them, phases and conditions as section 4 does.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal
from urllib.parse import urlsplit

from harness.facts.fact import Fact, Origin
from harness.facts.goldenname import name_of_golden
from harness.facts.objects import (
    Obj,
    at_path,
    listed,
    mapped,
    name_of,
    origin_of,
    text_at,
    uid_of,
)
from harness.facts.sights import Seen, Sight

USE_POPULATOR = "cdi.kubevirt.io/storage.usePopulator"
GOLDEN = "kubernetes-worker-image.cozystack.io/golden"
POOL = "kubernetes-worker-image.cozystack.io/pool"
SUCCEEDED = "Succeeded"

Form = Literal["absent", "factory", "builtin"]

_URL = re.compile(r"/image/(?P<schematic>[^/]+)/(?P<version>[^/]+)/openstack-amd64\.raw\.xz")


@dataclass(frozen=True, slots=True)
class WantedDisk:
    """What a pool asked its disks to be.

    ``form`` is osImage's ("absent" where the key is left out); ``schematic`` and ``version`` are
    the image's; ``pool`` is what the annotation has to name, ``<clusterName>-<pool>``;
    ``storage_class`` its name, "" where none was asked for; ``size`` is in bytes; ``shared`` is
    whether two hosts may have the disk at once, which only a class with DRBD can give
    (clone_path section 8).
    """

    form: Form
    schematic: str
    version: str
    pool: str
    storage_class: str
    size: int
    shared: bool = True

    @property
    def golden(self) -> str:
        """The name of the golden image's DataVolume."""
        return name_of_golden(self.schematic, self.version)


@dataclass(frozen=True, slots=True)
class DiskSource(Fact):
    """A DataVolume as it is written.

    ``forms`` are the keys under spec.source ("http", "pvc"); ``url`` is the HTTP source's,
    ``schematic`` and ``version`` those in its path, "" where it has none; ``claim`` is the cloned
    PVC's ``namespace/name``. ``golden``, ``pool`` and ``use_populator`` are annotations, None where
    absent. ``storage_class``, ``size`` and ``access_modes`` are what spec.storage (or spec.pvc)
    asks for, "" and empty where it does not say.
    """

    disk: str
    uid: str
    forms: tuple[str, ...]
    url: str
    schematic: str
    version: str
    claim: str
    golden: str | None
    pool: str | None
    use_populator: str | None
    storage_class: str
    size: str
    access_modes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class PhaseSpan:
    """A phase, the lab's time at which it began, and how many seconds it lasted; the last one's
    until somebody looked."""

    phase: str
    since: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Said:
    """What a condition said, from this moment of the lab's time on."""

    at: float
    condition: str
    status: str
    reason: str
    message: str

    def __str__(self) -> str:
        why = f" {self.reason}" if self.reason else ""
        what = f" ({self.message})" if self.message else ""
        return f"{self.condition}={self.status}{why}{what}"


@dataclass(frozen=True, slots=True)
class Told:
    """An Event about the disk or its claim: when it was seen, its reason and its message."""

    at: float
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.reason}: {self.message}"


@dataclass(frozen=True, slots=True)
class DiskHistory(Fact):
    """How a disk came about, from every revision that the watch saw; nothing is polled.

    ``phases`` in their order, each with its time; ``conditions`` as they became, in order;
    ``restarts`` are (time, count) as the importer's or the cloner's restartCount rose;
    ``doubt`` is why some of it may have been missed, "" for a history that is whole: from the
    disk's creation until it Succeeded, or to the look. ``events`` are those about the disk and
    its claim.
    """

    disk: str
    phases: tuple[PhaseSpan, ...]
    conditions: tuple[Said, ...]
    restarts: tuple[tuple[float, int], ...]
    events: tuple[Told, ...]
    doubt: str

    @property
    def phase(self) -> str:
        """The phase it is in, "" where none was ever seen."""
        return self.phases[-1].phase if self.phases else ""

    @property
    def restarted(self) -> int:
        """The highest restartCount that was seen."""
        return max((count for _, count in self.restarts), default=0)

    @property
    def ended(self) -> float | None:
        """When it became Succeeded, None where that was not seen."""
        return next((one.since for one in self.phases if one.phase == SUCCEEDED), None)

    def said(self, condition: str) -> Said | None:
        """What a condition says now, None where the disk has none such."""
        found = [one for one in self.conditions if one.condition == condition]
        return found[-1] if found else None

    def event(self, *reasons: str) -> Told | None:
        """The last Event with one of these reasons."""
        found = [one for one in self.events if one.reason in reasons]
        return found[-1] if found else None


@dataclass(frozen=True, slots=True)
class DiskRefused(Fact):
    """A worker whose disk was never made, because making it was refused; ``message`` says why."""

    worker: str
    message: str


def disk_source(volume: Obj, *, at: float, cluster: str) -> DiskSource:
    """Read a DataVolume's source, annotations and request."""
    source = mapped(volume, "spec", "source")
    url = text_at(source, "http", "url")
    found = _in_url(url)
    marks = mapped(volume, "metadata", "annotations")
    asked = mapped(volume, "spec", "storage") or mapped(volume, "spec", "pvc")
    cloned = (text_at(source, "pvc", "namespace"), text_at(source, "pvc", "name"))
    return DiskSource(
        origin=origin_of(volume, at, cluster),
        disk=name_of(volume),
        uid=uid_of(volume),
        forms=tuple(sorted(source)),
        url=url,
        schematic=found["schematic"] if found else "",
        version=found["version"] if found else "",
        claim="/".join(cloned) if any(cloned) else "",
        golden=_mark(marks, GOLDEN),
        pool=_mark(marks, POOL),
        use_populator=_mark(marks, USE_POPULATOR),
        storage_class=text_at(asked, "storageClassName"),
        size=str(at_path(asked, "resources", "requests", "storage") or ""),
        access_modes=tuple(str(mode) for mode in listed(asked, "accessModes")),
    )


def disk_history(
    uid: str, volumes: Seen, events: Seen, *, claims: Iterable[str] = (), at: float, cluster: str
) -> DiskHistory:
    """Put together what was seen of one DataVolume, by its UID.

    ``volumes`` are the sights of DataVolumes, with the gaps that can concern this one; ``claims``
    the UIDs of its PVC; ``at`` is when one looked.
    """
    sights = volumes.of(uid)
    name = name_of(sights[-1].obj) if sights else ""
    phases = tuple(_spans(sights, at))
    return DiskHistory(
        origin=Origin(at, f"{cluster} DataVolume {name}, every revision", _lines(sights)),
        disk=name,
        phases=phases,
        conditions=tuple(_conditions(sights)),
        restarts=tuple(_restarts(sights)),
        events=told_of(events, {uid, *claims}, {name}),
        doubt=_doubt(volumes, sights, phases, at),
    )


def told_of(events: Seen, uids: set[str], names: set[str]) -> tuple[Told, ...]:
    """The Events about these objects, once each, in the order in which they were seen.

    By UID; by the names of DataVolumes and PVCs where an Event carries none.
    """
    found: dict[tuple[str, str], Told] = {}
    for one in events.sights:
        about = mapped(one.obj, "involvedObject")
        uid, kind = text_at(about, "uid"), text_at(about, "kind")
        named = kind in ("DataVolume", "PersistentVolumeClaim") and text_at(about, "name") in names
        if one.change != "DELETED" and (uid in uids if uid else named):
            told = Told(one.at, text_at(one.obj, "reason"), text_at(one.obj, "message"))
            found.setdefault((told.reason, told.message), told)
    return tuple(found.values())


def restart_count(volume: Obj) -> int:
    """status.restartCount, 0 where it is not there."""
    found = at_path(volume, "status", "restartCount")
    return found if isinstance(found, int) and not isinstance(found, bool) else 0


def _mark(marks: dict[str, object], key: str) -> str | None:
    """An annotation; what is no text, which no cluster serves, as it stands there."""
    return None if key not in marks else str(marks[key])


def _in_url(url: str) -> re.Match[str] | None:
    try:
        parts = urlsplit(url)
    except ValueError:  # a bracket where the host should be
        return None
    return _URL.fullmatch(parts.path) if parts.scheme in ("http", "https") else None


def _spans(sights: Iterable[Sight], at: float) -> Iterator[PhaseSpan]:
    """Phases in their order; the same one in several revisions is one. What has none is not one."""
    begun: list[tuple[str, float]] = []
    for one in sights:
        phase = text_at(one.obj, "status", "phase")
        if phase and (not begun or begun[-1][0] != phase):
            begun.append((phase, one.at))
    for (phase, since), (_, end) in pairwise([*begun, ("", at)]):
        yield PhaseSpan(phase, since, max(0.0, end - since))


def _conditions(sights: Iterable[Sight]) -> Iterator[Said]:
    known: dict[str, tuple[str, str, str]] = {}
    for one in sights:
        for found in listed(one.obj, "status", "conditions"):
            kind = text_at(found, "type")
            told = (text_at(found, "status"), text_at(found, "reason"), text_at(found, "message"))
            if kind and known.get(kind) != told:
                known[kind] = told
                yield Said(one.at, kind, *told)


def _restarts(sights: Iterable[Sight]) -> Iterator[tuple[float, int]]:
    known = 0
    for one in sights:
        count = restart_count(one.obj)
        if count > known:
            known = count
            yield one.at, count


def unseen_birth(sights: Sequence[Sight]) -> str:
    """Why an object may be older than its first sight, "" where it was seen to be made."""
    if not sights:
        return "no revision of it was seen"
    if sights[0].listed or sights[0].change != "ADDED":
        return "the disk was there before its watch, and what was before that is not known"
    return ""


def _doubt(
    volumes: Seen, sights: tuple[Sight, ...], phases: tuple[PhaseSpan, ...], at: float
) -> str:
    """Up to the end of its path: no phase comes after Succeeded that a gap could hide."""
    over = phases and phases[-1].phase == SUCCEEDED
    return unseen_birth(sights) or volumes.doubt(sights[0].at, phases[-1].since if over else at)


def _lines(sights: Iterable[Sight]) -> str:
    """The raw text: one line for each revision, with what of it is looked at."""
    return "\n".join(
        json.dumps(
            {
                "at": one.at,
                "change": one.change,
                "version": text_at(one.obj, "metadata", "resourceVersion"),
                "status": mapped(one.obj, "status"),
            },
            sort_keys=True,
            default=str,
        )
        for one in sights
    )
