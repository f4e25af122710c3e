"""What watches show of disks and goldens, and what is asked once, as facts.

Every function raises reach's LabError where the cluster cannot be asked.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.facts import diskclaims
from harness.facts.diskclaims import DiskClass, DiskVolume
from harness.facts.fact import Origin, Unread
from harness.facts.guestdisk import SECTORS, GuestDisk, read_disk_size
from harness.facts.objects import Obj
from harness.facts.sights import Missed, Seen, Sight
from harness.observe.guest import output_of
from harness.reach.errors import ApiRefused, LabError, UnknownKind
from harness.reach.history import Revision
from harness.reach.kube import Kube
from harness.reach.nodeshell import NodeShell
from harness.reach.watch import Feed

Now = Callable[[], float]
SETTLE = 5.0
"""Seconds that a silent server may take to say how things stand, before a watch counts as blind."""


class _Standing:
    """A tally that holds of whatever is there: a wait for it ends once the picture is the
    cluster's."""

    def begin(self) -> None:
        """Nothing is counted."""

    def take(self, revision: Revision) -> None:
        """Nothing is counted."""

    def holds(self) -> bool:
        """Of any state that the cluster had."""
        return True

    def __str__(self) -> str:
        return ""


def seen(feed: Feed | LabError, since: float, what: str, *, about: str = "") -> Seen:
    """What a feed saw; with ``about``, the gaps are those that can concern the object of this name.

    ``since`` is the lab's time at which it had certainly begun. A feed that the API refused is one
    that saw nothing, with that reason; a kind that is not served has no objects at all.
    """
    if isinstance(feed, UnknownKind):
        return Seen(what, since)
    if isinstance(feed, LabError):
        return Seen(what, None, blind=str(feed))
    waited = feed.standing(_Standing(), feed.clock.deadline(SETTLE), f"how {what} stands")
    history = feed.history
    key = (feed.target.namespace, about) if about else None
    missed = [Missed(one.since, one.until, one.reason) for one in history.gaps(key)]
    gone = history.forgotten(key)
    if gone is not None:
        missed.append(Missed(gone.since, gone.until, str(gone)))
    sights = tuple(
        Sight(one.arrived, one.change, one.obj, one.source != "event")
        for one in history.revisions()
    )
    return Seen(what, since, sights, tuple(missed), _blind(waited.kind, str(waited)))


def _blind(kind: str, told: str) -> str:
    return "" if kind == "met" else told


def listed_once(kube: Kube, api_version: str, kind: str, namespace: str, *, at: float) -> Seen:
    """What is there of a kind that is not watched; it says nothing of what was."""
    what = f"{kind} in {namespace}"
    try:
        found = kube.list(api_version, kind, namespace)
    except UnknownKind:
        return Seen(what, at)
    except ApiRefused as refused:
        return Seen(what, None, blind=str(refused))
    return Seen(what, at, tuple(Sight(at, "ADDED", {**one, "kind": kind}, True) for one in found))


def disk_volume(kube: Kube, name: str, *, now: Now) -> DiskVolume | Unread:
    """The PersistentVolume of this name."""
    found = _get(kube, "v1", "PersistentVolume", name, now)
    if isinstance(found, Unread):
        return found
    return diskclaims.disk_volume(found, at=now(), cluster=kube.name)


def disk_class(kube: Kube, name: str, *, now: Now) -> DiskClass | Unread:
    """The StorageClass of this name."""
    found = _get(kube, "storage.k8s.io/v1", "StorageClass", name, now)
    if isinstance(found, Unread):
        return found
    return diskclaims.disk_class(found, at=now(), cluster=kube.name)


def guest_disk(shell: NodeShell) -> GuestDisk | Unread:
    """The size of the system disk, as the guest's kernel has it."""
    reply = shell.run(["cat", SECTORS])
    return read_disk_size(output_of(reply), at=reply.ended, source=f"{shell.where}:{SECTORS}")


def _get(kube: Kube, api_version: str, kind: str, name: str, now: Now) -> Obj | Unread:
    what = f"{kind} {name or '(no name)'}"
    origin = Origin(now(), f"{kube.name} {what}", "")
    if not name:
        return Unread(origin, what, "nothing names one")
    try:
        found = kube.get(api_version, kind, "", name)
    except ApiRefused as refused:
        return Unread(origin, what, str(refused))
    return Unread(origin, what, "it is not there") if found is None else found
