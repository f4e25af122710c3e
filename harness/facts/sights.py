"""What a watch saw of one kind in one place, and where it may have missed something.

Presence among the sights is proof. Absence is proof only of a stretch that was seen whole: it lies
after the watch began, no gap reaches into it, nothing of it was forgotten, and the watch could
still see at its end.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.facts.objects import Obj, name_of, text_at, uid_of


@dataclass(frozen=True, slots=True)
class Sight:
    """One version of one object, as it arrived; ``at`` is the lab's time of that.

    ``change`` is ADDED, MODIFIED or DELETED. ``listed``: a list showed it, so that earlier versions
    may have been.
    """

    at: float
    change: str
    obj: Obj
    listed: bool = False


@dataclass(frozen=True, slots=True)
class Missed:
    """A stretch of the lab's time in which something may have come and gone unseen, and why."""

    since: float
    until: float
    reason: str


@dataclass(frozen=True, slots=True)
class Seen:
    """All that one watch saw, oldest first.

    ``what`` names it ("Pod in cozy-public"); ``since`` is when it had begun, None for a watch that
    never did; ``blind`` is why nothing could be seen at the end, "" where it could.
    """

    what: str
    since: float | None
    sights: tuple[Sight, ...] = ()
    missed: tuple[Missed, ...] = ()
    blind: str = ""

    def doubt(self, since: float, until: float) -> str:
        """Why something between two moments may not have been seen, "" where all of it was."""
        if self.since is None:
            return f"{self.what} was not watched: {self.blind or 'no reason told'}"
        if self.since > since:
            return f"{self.what} was watched from {self.since - since:.1f} s too late"
        for one in self.missed:
            if one.since <= until and one.until >= since:
                lasted = f"{one.until - one.since:.1f} s"
                return f"the history of {self.what} has a gap of {lasted}: {one.reason}"
        return f"{self.what} could not be seen at the end: {self.blind}" if self.blind else ""

    def of(self, uid: str) -> tuple[Sight, ...]:
        """The versions of one object, by its UID."""
        return tuple(one for one in self.sights if uid_of(one.obj) == uid)

    def uids(self) -> list[str]:
        """The UID of every object that was ever seen, in the order of their first sight."""
        return list(dict.fromkeys(uid_of(one.obj) for one in self.sights))

    def last(self, name: str, namespace: str = "") -> Obj:
        """The last version seen of an object of this name that is there; empty where none is."""
        found = [one for one in self.sights if _is(one.obj, name, namespace)]
        return found[-1].obj if found and found[-1].change != "DELETED" else {}

    def ever(self, name: str, namespace: str = "") -> list[Obj]:
        """Every version of every object that had this name."""
        return [one.obj for one in self.sights if _is(one.obj, name, namespace)]

    def standing(self) -> Iterator[Obj]:
        """The objects that are there, as last seen."""
        for uid in self.uids():
            last = self.of(uid)[-1]
            if last.change != "DELETED":
                yield last.obj


def _is(obj: Obj, name: str, namespace: str) -> bool:
    space = text_at(obj, "metadata", "namespace")
    return name_of(obj) == name and (not namespace or space == namespace)
