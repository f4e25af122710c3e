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


@dataclass(frozen=True, slots=True)
class Revision:
    """One version of one object, as it arrived.

    ``arrived`` is the lab's time on arrival (the object's own timestamps have whole seconds
    only); ``source`` is "list", "event" or "probe"; ``change`` is ADDED, MODIFIED or DELETED.
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
        """The object's identity; a name may be used again, a UID never is."""
        return str(self.obj["metadata"].get("uid", ""))

    @property
    def version(self) -> str:
        """The object's resourceVersion: good for equality only."""
        return str(self.obj["metadata"].get("resourceVersion", ""))


@dataclass(frozen=True, slots=True)
class Gap:
    """A stretch in which a phase could have come and gone unseen, and why."""

    since: float
    until: float
    reason: str


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
