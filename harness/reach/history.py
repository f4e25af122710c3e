"""What a watch saw: every revision of every object, in order, and the gaps between.

Presence in a history is proof. Absence is proof only where the history has no gap.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

Obj = dict[str, Any]
Key = tuple[str, str]


def key_of(obj: Obj) -> Key:
    """(namespace, name) of an object."""
    meta = obj["metadata"]
    return meta.get("namespace", ""), meta["name"]


def uid_of(obj: Obj) -> str:
    """The object's identity; a name may be used again, a UID never is."""
    return str(obj["metadata"].get("uid", ""))


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of one object, as it arrived.

    ``arrived`` is the lab's time on arrival (the object's own timestamps have whole seconds
    only); ``source`` is "list", "event" or "probe"; ``change`` is ADDED, MODIFIED or DELETED.
    A DELETED that a list found out carries the last state that was seen.
    """

    change: str
    obj: Obj
    arrived: float
    source: str

    @property
    def key(self) -> Key:
        """(namespace, name)."""
        return key_of(self.obj)

    @property
    def uid(self) -> str:
        """The object's identity."""
        return uid_of(self.obj)

    @property
    def version(self) -> str:
        """The object's resourceVersion: good for equality only."""
        return str(self.obj["metadata"].get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which a phase could have come and gone unseen, and why.

    ``since`` and ``until`` are the lab's time; ``after`` and ``upto`` the resourceVersions
    between which revisions may be missing (the first was seen, the second listed).
    """

    since: float
    until: float
    reason: str
    after: str = ""
    upto: str = ""


@dataclass(slots=True)
class History:
    """Everything one watch saw, oldest first, and the state it adds up to."""

    entries: list[Revision | Gap] = field(default_factory=list)
    current: dict[Key, Obj] = field(default_factory=dict)

    def take(self, revision: Revision) -> None:
        """Add a revision and update the state it adds up to."""
        self.entries.append(revision)
        if revision.change == "DELETED":
            self.current.pop(revision.key, None)
        else:
            self.current[revision.key] = revision.obj

    def repeats(self, revision: Revision) -> bool:
        """Whether this is the state as it stands: a server that resumed too early says it again."""
        known = self.current.get(revision.key)
        return revision.change != "DELETED" and known is not None and _same(known, revision.obj)

    def difference(self, listed: list[Obj], at: float, source: str) -> list[Revision]:
        """The revisions that lead from the state as it stands to a list of everything.

        What is gone comes first. An object that was replaced under its name is a deletion and an
        addition. Versions in between are not in a list: the caller says whether there can be any.
        """
        found = {key_of(item): item for item in listed}
        gone = [
            Revision("DELETED", known, at, source)
            for key, known in sorted(self.current.items())
            if key not in found or uid_of(found[key]) != uid_of(known)
        ]
        gone_keys = {revision.key for revision in gone}
        there = [
            Revision(
                "MODIFIED" if key in self.current and key not in gone_keys else "ADDED",
                item,
                at,
                source,
            )
            for key, item in found.items()
            if key not in self.current or not _same(self.current[key], item)
        ]
        return gone + there

    def gap(self, gap: Gap) -> None:
        """Write down that something may have been missed."""
        self.entries.append(gap)

    def revisions(self, name: str = "", namespace: str = "") -> Iterator[Revision]:
        """The revisions of one object (or of all), oldest first."""
        for entry in self.entries:
            if isinstance(entry, Revision) and (not name or entry.key == (namespace, name)):
                yield entry

    def gaps(self) -> list[Gap]:
        """Where the history is not whole."""
        return [entry for entry in self.entries if isinstance(entry, Gap)]


def _same(one: Obj, other: Obj) -> bool:
    """The same version of the same object."""
    versions = [obj["metadata"].get("resourceVersion") for obj in (one, other)]
    return uid_of(one) == uid_of(other) and versions[0] == versions[1]
