"""What CDI runs and leaves while it fills a disk: pods, temporary claims, clone sources.

A pod is put to a disk by what it carries, never by where it runs: a host-assisted clone with
populators keeps both of its pods in the source's namespace, so that an empty tenant namespace says
nothing (clone_path section 4). Names and labels are those of objects section 7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from harness.facts.fact import Fact, Origin
from harness.facts.goldenname import GOLDENS
from harness.facts.objects import Obj, listed, mapped, name_of, text_at, uid_of
from harness.facts.sights import Seen, Sight

APP_LABEL = "app=containerized-data-importer"
"""Carried by every pod that CDI makes."""
ROLE_LABEL = "cdi.kubevirt.io"
OWNED_BY = "cdi.kubevirt.io/OwnedByUID"

Role = Literal["importer", "upload", "clone source", "prep", ""]
Whose = Literal["this disk", "another", "unknown"]

_ROLES: dict[str, Role] = {
    "importer": "importer",
    "cdi-upload-server": "upload",
    "cdi-clone-source": "clone source",
    "cdi-populator-prep": "prep",
}
_LEFT = ("tmp-pvc-", "prep-", "volume-clone-source-", "tmp-snapshot-", "cdi-upload-tmp-pvc-")


@dataclass(frozen=True, slots=True)
class CdiPod:
    """A pod of CDI's that was seen. ``seconds`` from its first sight to its last, or until one
    looked; ``gone`` is whether it was seen to be deleted."""

    namespace: str
    name: str
    role: Role
    whose: Whose
    since: float
    seconds: float
    gone: bool

    def __str__(self) -> str:
        return f"{self.role or 'CDI'} pod {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class CdiPods(Fact):
    """CDI's pods from a disk's creation until it was full, or until one looked.

    ``doubts`` are the places of which "no such pod" is not known, each with its reason; empty where
    the tenant's namespace, the goldens' and all others were seen whole. ``tenant`` is the tenant's
    namespace.
    """

    disk: str
    tenant: str
    since: float
    until: float
    pods: tuple[CdiPod, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CloneLeftovers(Fact):
    """What CDI made for a disk in the goldens' namespace and that is still there, as "Kind name".

    ``doubts`` are the kinds that could not be read, each with its reason.
    """

    disk: str
    left: tuple[str, ...]
    doubts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Disk:
    """Whose pods are asked for: the disk's name, and every UID that it and its PVC ever had."""

    name: str
    uids: frozenset[str]


def cdi_pods(
    disk: Disk,
    scopes: Sequence[Seen],
    claims: Iterable[Seen],
    *,
    tenant: str,
    since: float,
    until: float,
    at: float,
    cluster: str,
    before: str = "",
) -> CdiPods:
    """Every pod of CDI's that was there between two moments, whoever's it is.

    ``scopes`` are watches of Pods that may overlap; ``claims`` watches of PVCs, through which a
    pod is traced to a disk by what it mounts. ``before`` is why the disk may be older than
    ``since``, "" where its creation was seen.
    """
    known = _Claims(disk, [one.obj for seen in claims for one in seen.sights])
    found: dict[str, CdiPod] = {}
    for scope in scopes:
        for uid in scope.uids():
            pod = _pod(scope.of(uid), known, tenant, at)
            if pod and pod.since <= until and pod.since + pod.seconds >= since:
                found.setdefault(uid, pod)
    doubts = [doubt for doubt in (before, *(one.doubt(since, until) for one in scopes)) if doubt]
    pods = tuple(sorted(found.values(), key=lambda one: (one.since, one.namespace, one.name)))
    raw = "\n".join(f"{one.since} +{one.seconds:g} s {one}: {one.whose}" for one in pods)
    return CdiPods(
        origin=Origin(at, f"{cluster} pods of CDI around DataVolume {disk.name}", raw),
        disk=disk.name,
        tenant=tenant,
        since=since,
        until=until,
        pods=pods,
        doubts=tuple(dict.fromkeys(doubts)),
    )


def leftovers(
    disk: Disk, kinds: Iterable[tuple[str, Seen]], *, at: float, cluster: str
) -> CloneLeftovers:
    """What of a clone is still there, of each kind ("PersistentVolumeClaim") as its watch shows."""
    left, doubts = [], []
    for kind, seen in kinds:
        if seen.since is None or seen.blind:
            doubts.append(f"{seen.what}: {seen.blind or 'it was not watched'}")
        left += [f"{kind} {name_of(one)}" for one in seen.standing() if _is_left(one, disk)]
    source = f"{cluster} what the clone of DataVolume {disk.name} left"
    origin = Origin(at, source, "\n".join(left))
    return CloneLeftovers(origin, disk.name, tuple(left), tuple(doubts))


def role_of(pod: Obj) -> Role:
    """What a pod does for CDI: by its label, else by its name; "" for a pod of no such kind."""
    labelled = _ROLES.get(text_at(mapped(pod, "metadata", "labels"), ROLE_LABEL))
    name = name_of(pod)
    if labelled:
        return labelled
    if name.startswith("importer-"):
        return "importer"
    if name.startswith("cdi-upload-"):
        return "upload"
    if name.endswith("-source-pod"):
        return "clone source"
    return "prep" if name.startswith("prep-") else ""


@dataclass(frozen=True, slots=True)
class _Claims:
    """The PVCs that were seen, to find out whose a pod is."""

    disk: Disk
    seen: list[Obj]

    def whose(self, pod: Obj, tenant: str) -> Whose:
        """The pod's disk: by label and owners, a UID in its name, the claims that it mounts.

        A pod mounts claims of its own namespace only, and the disk's are in the tenant's and in the
        goldens': one elsewhere that does not lead to it is another's.
        """
        if _leads_to(pod, self.disk) or self._named_for(pod, tenant):
            return "this disk"
        related = list(self._related(pod))
        if any(self._is_its(claim, tenant) for claim in related):
            return "this disk"
        home = text_at(pod, "metadata", "namespace")
        labelled = bool(text_at(mapped(pod, "metadata", "labels"), OWNED_BY))
        stranger = labelled or home not in (tenant, GOLDENS)
        return "another" if stranger or related else "unknown"

    def _named_for(self, pod: Obj, tenant: str) -> bool:
        names = {f"importer-{self.disk.name}", f"cdi-upload-{self.disk.name}"}
        return text_at(pod, "metadata", "namespace") == tenant and name_of(pod) in names

    def _related(self, pod: Obj) -> Iterator[Obj]:
        """PVCs that own it, whose UID stands in its name, or that it mounts."""
        space = text_at(pod, "metadata", "namespace")
        owners = set(_owners(pod))
        mounted = {
            text_at(one, "persistentVolumeClaim", "claimName")
            for one in listed(pod, "spec", "volumes")
        } - {""}
        for claim in self.seen:
            uid, home = uid_of(claim), text_at(claim, "metadata", "namespace")
            named = _stands_in(uid, name_of(pod))
            if uid in owners or named or (home == space and name_of(claim) in mounted):
                yield claim

    def _is_its(self, claim: Obj, tenant: str) -> bool:
        home, name = text_at(claim, "metadata", "namespace"), name_of(claim)
        own = home == tenant and name in (self.disk.name, f"{self.disk.name}-scratch")
        return own or uid_of(claim) in self.disk.uids or _leads_to(claim, self.disk)


def _pod(sights: Sequence[Sight], known: _Claims, tenant: str, at: float) -> CdiPod | None:
    last = sights[-1].obj
    role = role_of(last)
    if not role:
        return None
    gone = sights[-1].change == "DELETED"
    first, end = sights[0].at, sights[-1].at if gone else at
    return CdiPod(
        namespace=text_at(last, "metadata", "namespace"),
        name=name_of(last),
        role=role,
        whose=known.whose(last, tenant),
        since=first,
        seconds=max(0.0, end - first),
        gone=gone,
    )


def _owners(obj: Obj) -> Iterator[str]:
    for owner in listed(obj, "metadata", "ownerReferences"):
        if uid := text_at(owner, "uid"):
            yield uid


def _leads_to(obj: Obj, disk: Disk) -> bool:
    """Whether an object names a disk's UID: its label, an owner, or within its own name."""
    if text_at(mapped(obj, "metadata", "labels"), OWNED_BY) in disk.uids:
        return True
    return any(uid in disk.uids for uid in _owners(obj)) or any(
        _stands_in(uid, name_of(obj)) for uid in disk.uids
    )


def _stands_in(uid: str, name: str) -> bool:
    """Whether a UID is a part of a name, and no other's beginning or end."""
    return bool(uid) and bool(re.search(rf"(?<![0-9A-Za-z]){re.escape(uid)}(?![0-9A-Za-z])", name))


def _is_left(obj: Obj, disk: Disk) -> bool:
    temporary = name_of(obj).startswith(_LEFT) or name_of(obj).endswith("-source-pod")
    return temporary and _leads_to(obj, disk)
