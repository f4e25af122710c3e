"""What a watch saw: every revision of every object, in order, and the gaps between.

Presence in a history is proof. Absence is proof only where the history has no gap and nothing of
it was forgotten: both are written down, with the objects that they touch.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from harness.reach.packed import Obj, Packed, Shelf, pack

__all__ = ["Compacted", "Gap", "History", "Key", "Listed", "Obj", "Revision", "key_of", "uid_of"]

Key = tuple[str, str]

HISTORY_BYTES = 32 * 1024 * 1024
"""Bytes of a feed's history above which its oldest revisions are forgotten: about 40,000 heart
beats of Nodes, or three and a half hours of a cluster with 1,000 of them."""

_EACH = 420  # bytes that a revision takes beside its packed object, measured
_MANY = 20_000  # keys above which a compaction no longer says whose revisions are gone


def key_of(obj: Obj) -> Key:
    """(namespace, name) of an object."""
    meta = obj["metadata"]
    return meta.get("namespace") or "", meta["name"]


def uid_of(obj: Obj) -> str:
    """The object's identity; a name may be used again, a UID never is."""
    return str(obj["metadata"].get("uid", ""))


def version_of(obj: Obj) -> str:
    """The object's resourceVersion."""
    return str(obj["metadata"].get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of one object, as it arrived.

    ``arrived`` is the lab's time on arrival (the object's own timestamps have whole seconds
    only); ``source`` is "list", "event" or "probe"; ``change`` is ADDED, MODIFIED or DELETED.
    A DELETED that a list found out carries the last state that was seen. ``version`` is the
    object's resourceVersion, ``order`` its place in the history.
    """

    change: str
    key: Key
    uid: str
    version: str
    arrived: float
    source: str
    packed: Packed
    order: int = 0

    @staticmethod
    def of(change: str, obj: Obj, arrived: float, source: str) -> Revision:
        """A revision that stands in no history."""
        identity = key_of(obj), uid_of(obj), version_of(obj)
        return Revision(change, *identity, arrived, source, pack(obj))

    @property
    def obj(self) -> Obj:
        """The object, without ``metadata.managedFields``. Not to be changed by who looks."""
        return self.packed.obj


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which a phase could have come and gone unseen, and why.

    ``since`` and ``until`` are the lab's time; ``after`` and ``upto`` the resourceVersions
    between which revisions may be missing (the first was seen, the second listed). ``changed``
    are the objects that were not the same after it, None where any may have been another
    meanwhile; ``order`` is its place in the history.
    """

    since: float
    until: float
    reason: str
    after: str = ""
    upto: str = ""
    changed: frozenset[Key] | None = None
    order: int = 0


@dataclass(frozen=True, slots=True)
class Compacted:
    """The oldest revisions, forgotten to keep the history in bounds.

    ``since`` and ``until`` are the lab's time at which the first and the last of them arrived;
    ``upto`` is the last one's resourceVersion; ``keys`` whose they were, None for "many".
    """

    since: float
    until: float
    revisions: int
    upto: str
    keys: frozenset[Key] | None

    def __str__(self) -> str:
        lasted = f"{self.until - self.since:g} s"
        return (
            f"the {self.revisions} oldest revisions, of {lasted} up to {self.upto}, are forgotten"
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """An object of a list."""

    key: Key
    uid: str
    version: str
    packed: Packed


Entry = Revision | Gap | Compacted


@dataclass(slots=True)
class History:
    """Everything one watch saw, oldest first, and the state it adds up to.

    One thread at a time may change it; any may read. ``limit`` is in bytes: when there is more,
    the oldest revisions are forgotten down to three quarters of it, except those of the state as
    it stands; ``compacted`` says so, and stands first in ``entries``.
    """

    limit: int = HISTORY_BYTES
    shelf: Shelf = field(default_factory=Shelf)
    entries: list[Entry] = field(default_factory=list)
    compacted: Compacted | None = None
    bytes: int = 0
    _now: dict[Key, Revision] = field(default_factory=dict)
    _of: dict[Key, list[Revision]] = field(default_factory=dict)
    _gaps: list[Gap] = field(default_factory=list)
    _order: int = 0
    _another: int = 0  # where the last gap is after which versions may be given a second time
    _compact_at: int = 0

    @property
    def current(self) -> Mapping[Key, Obj]:
        """The objects as last seen; each is parsed when it is looked at."""
        return Standing(self._now)

    def standing(self) -> list[Revision]:
        """The last revision of each object that is there, by key."""
        return [revision for _, revision in sorted(self._now.items())]

    def last(self, key: Key) -> Revision | None:
        """The last revision of an object that is there."""
        return self._now.get(key)

    def packed(self, obj: Obj) -> Packed:
        """An object as it is kept: without what is not, as a difference to what is known of it."""
        obj["metadata"].pop("managedFields", None)  # half of a Node, and nobody's evidence
        known = self._now.get(key_of(obj))
        return pack(obj, known.packed if known else None, self.shelf)

    def take(self, change: str, obj: Obj, arrived: float, source: str) -> Revision:
        """Add an object's new version and update the state that all of them add up to."""
        return self.keep(change, self.listed(obj), arrived, source)

    def keep(self, change: str, listed: Listed, arrived: float, source: str) -> Revision:
        """`take` for an object that is packed already."""
        known = self._now.get(listed.key)
        key = known.key if known else listed.key  # one tuple, one UID for all its revisions
        uid = known.uid if known and known.uid == listed.uid else listed.uid
        revision = Revision(
            change, key, uid, listed.version, arrived, source, listed.packed, self._next_order()
        )
        self.entries.append(revision)
        self._of.setdefault(key, []).append(revision)
        if change == "DELETED":
            self._now.pop(key, None)
        else:
            self._now[key] = revision
        self.bytes += _cost(revision)
        if self.bytes > max(self.limit, self._compact_at):
            self._compact()
        return revision

    def repeats(self, change: str, obj: Obj) -> bool:
        """Whether an event tells what is known: a server that resumed too early says it again.

        Known is a version of the same object that was seen, and one older than that: versions
        that are numbers grow (KEP-5504); of others, only what was seen is known.
        """
        uid, version = uid_of(obj), version_of(obj)
        of_it = self._of.get(key_of(obj), [])
        if of_it and of_it[-1].order > self._another and older(of_it[-1].version, version):
            return False  # newer than all that is known; a long history is not searched for it
        seen = [one for one in of_it if one.uid == uid]
        if not seen:
            return False
        newest = seen[-1]
        if change == "DELETED" and newest.change != "DELETED" and newest.version == version:
            return False  # a deletion may come under the last version
        told = [one.version for one in seen if one is newest or one.order > self._another]
        return version in told or older(version, newest.version)

    def difference(self, listed: Iterable[Listed]) -> list[tuple[str, Listed]]:
        """The changes that lead from the state as it stands to a list of everything.

        What is gone comes first. An object that was replaced under its name is a deletion and an
        addition. Versions in between are not in a list: the caller says whether there can be any.
        """
        found = {item.key: item for item in listed}
        gone: dict[Key, tuple[str, Listed]] = {
            key: ("DELETED", Listed(key, known.uid, known.version, known.packed))
            for key, known in sorted(self._now.items())
            if key not in found or found[key].uid != known.uid
        }
        there = [
            ("MODIFIED" if key in self._now and key not in gone else "ADDED", item)
            for key, item in found.items()
            if not self._knows(item)
        ]
        return [*gone.values(), *there]

    def listed(self, obj: Obj) -> Listed:
        """A list's object, packed unless this very version is the state as it stands."""
        key, uid, version = key_of(obj), uid_of(obj), version_of(obj)
        known = self._now.get(key)
        if known is not None and (known.uid, known.version) == (uid, version):
            return Listed(key, uid, version, known.packed)
        return Listed(key, uid, version, self.packed(obj))

    def kept_back(self, listed: Iterable[Listed], asked: int) -> list[tuple[str, Listed]]:
        """Of a list's `difference`, what no stream told; ``asked`` is `place` before the list.

        A list is older than what a stream tells while it is on its way.
        """
        return [
            (change, item)
            for change, item in self.difference(listed)
            if not (change != "DELETED" and self._told(item))
            and not (item.key in self._now and self._now[item.key].order > asked)
        ]

    @property
    def place(self) -> int:
        """The order of the last entry."""
        return self._order

    def _knows(self, item: Listed) -> bool:
        known = self._now.get(item.key)
        return known is not None and (known.uid, known.version) == (item.uid, item.version)

    def _told(self, item: Listed) -> bool:
        identity = item.uid, item.version
        return any((one.uid, one.version) == identity for one in self._of.get(item.key, ()))

    def gap(
        self,
        since: float,
        until: float,
        reason: str,
        after: str = "",
        upto: str = "",
        changed: frozenset[Key] | None = None,
    ) -> None:
        """Write down that something may have been missed."""
        gap = Gap(since, until, reason, after, upto, changed, self._next_order())
        self.entries.append(gap)
        self._gaps.append(gap)
        if changed is None:
            self._another = gap.order

    def revisions(self, name: str = "", namespace: str = "") -> Iterator[Revision]:
        """The revisions of one object (or of all), oldest first."""
        if name:
            return iter(tuple(self._of.get((namespace, name), ())))
        return (entry for entry in tuple(self.entries) if isinstance(entry, Revision))

    def gaps(self, key: Key | None = None) -> list[Gap]:
        """Where the history is not whole; with a key, for that object.

        An object that was there, in the same version before and after, was not written meanwhile.
        """
        if key is None:
            return list(self._gaps)
        return [gap for gap in self._gaps if not self._untouched(key, gap)]

    def forgotten(self, key: Key | None = None) -> Compacted | None:
        """What was forgotten; with a key, only if some of it may be that object's."""
        told = self.compacted
        if told is None or key is None or told.keys is None or key in told.keys:
            return told
        return None

    def _untouched(self, key: Key, gap: Gap) -> bool:
        if gap.changed is None or key in gap.changed:
            return False
        before = [one for one in self._of.get(key, ()) if one.order < gap.order]
        return bool(before) and before[-1].change != "DELETED"

    def _next_order(self) -> int:
        self._order += 1
        return self._order

    def _compact(self) -> None:
        """Forget the oldest revisions, but for those of the state as it stands."""
        kept: list[Entry] = []
        gone: list[Revision] = []
        for entry in self.entries:
            if isinstance(entry, Compacted):
                continue
            full = self.bytes > self.limit * 3 // 4
            if full and isinstance(entry, Revision) and self._now.get(entry.key) is not entry:
                gone.append(entry)
                self.bytes -= _cost(entry)
            else:
                kept.append(entry)
        if gone:
            self._forget(gone)
            self.compacted = _added(self.compacted, gone)
        self.entries = [*([self.compacted] if self.compacted else []), *kept]
        self._compact_at = self.bytes + self.limit // 4

    def _forget(self, gone: Iterable[Revision]) -> None:
        """Of each object, those that are gone are its oldest."""
        for key, count in Counter(one.key for one in gone).items():
            del self._of[key][:count]
            if not self._of[key]:
                del self._of[key]


class Standing(Mapping[Key, Obj]):
    """The objects of a state, parsed one by one as they are looked at."""

    def __init__(self, revisions: Mapping[Key, Revision]) -> None:
        self._revisions = revisions

    def __getitem__(self, key: Key) -> Obj:
        return self._revisions[key].obj

    def __iter__(self) -> Iterator[Key]:
        return iter(tuple(self._revisions))

    def __len__(self) -> int:
        return len(self._revisions)


def older(version: str, than: str) -> bool:
    """Whether a resourceVersion is certainly older than another: both must be numbers."""
    numbers = all(each.isascii() and each.isdigit() for each in (version, than))
    return numbers and int(version) < int(than)


def _cost(revision: Revision) -> int:
    return len(revision.packed.data) + _EACH


def _added(known: Compacted | None, gone: list[Revision]) -> Compacted:
    keys: frozenset[Key] | None = frozenset(one.key for one in gone)
    if known is not None:
        keys = None if known.keys is None or keys is None else known.keys | keys
    if keys is not None and len(keys) > _MANY:
        keys = None
    return Compacted(
        known.since if known else gone[0].arrived,
        gone[-1].arrived,
        len(gone) + (known.revisions if known else 0),
        gone[-1].version,
        keys,
    )
