"""What to wait for, of many objects together: `Feed.standing` takes these.

Nothing holds of nothing: every count has a smallest number, and "gone" needs the list that every
feed begins with to have succeeded.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from harness.reach.history import Key, Revision
from harness.reach.waiters import Predicate, Tally

_NAMED = 5  # objects that a sentence names


@dataclass(slots=True)
class Everyone:
    """All the objects that ``where`` chooses are as wanted, and there are at least so many.

    Zero objects are never all ready: ``least`` is one or more, else ValueError at once.
    """

    wanted: Predicate
    least: int
    where: Predicate | None = None
    _is: dict[Key, bool] = field(default_factory=dict, init=False)
    _met: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        if isinstance(self.least, bool) or self.least < 1:
            raise ValueError(f"at least {self.least} objects: zero are never all as wanted")

    def begin(self) -> None:
        """Forget what was counted."""
        self._is.clear()
        self._met = 0

    def take(self, revision: Revision) -> None:
        """Count an object as it is now, or no longer."""
        self._met -= self._is.pop(revision.key, False)
        if revision.change != "DELETED" and (self.where is None or self.where(revision)):
            self._is[revision.key] = bool(self.wanted(revision))
            self._met += self._is[revision.key]

    def holds(self) -> bool:
        """Whether enough are there and all are as wanted."""
        return len(self._is) >= self.least and self._met == len(self._is)

    def __str__(self) -> str:
        stand = f"{self._met} of {len(self._is)} as wanted, at least {self.least} expected"
        return stand + _without(key for key, met in self._is.items() if not met)


@dataclass(slots=True)
class AtLeast(Everyone):
    """At least so many of the objects that ``where`` chooses are as wanted."""

    def holds(self) -> bool:
        """Whether enough are as wanted, whatever the others are."""
        return self._met >= self.least


@dataclass(slots=True)
class Gone:
    """None of the objects that ``where`` chooses (or of a name) is there.

    Never asked before the feed's first list has succeeded: what could not be read is not gone.
    """

    name: str = ""
    namespace: str = ""
    where: Predicate | None = None
    _there: set[Key] = field(default_factory=set, init=False)

    def __post_init__(self) -> None:
        if bool(self.name) == (self.where is not None):
            raise ValueError("what is to be gone: a name, or a predicate that chooses")

    def begin(self) -> None:
        """Forget what was there."""
        self._there.clear()

    def take(self, revision: Revision) -> None:
        """Take an object for there, or for gone."""
        self._there.discard(revision.key)
        if revision.change != "DELETED" and self._chosen(revision):
            self._there.add(revision.key)

    def holds(self) -> bool:
        """Whether none is there."""
        return not self._there

    def _chosen(self, revision: Revision) -> bool:
        if self.where is not None:
            return self.where(revision)
        return revision.key[1] == self.name and self.namespace in ("", revision.key[0])

    def __str__(self) -> str:
        return f"{len(self._there)} still there" + _without(self._there, "")


class AllOf:
    """Several tallies hold of the same state."""

    def __init__(self, *parts: Tally) -> None:
        if not parts:
            raise ValueError("all of nothing holds always: name what to count")
        self._parts = parts

    def begin(self) -> None:
        """Begin each."""
        for part in self._parts:
            part.begin()

    def take(self, revision: Revision) -> None:
        """Give each of them a revision."""
        for part in self._parts:
            part.take(revision)

    def holds(self) -> bool:
        """Whether all hold."""
        return all(part.holds() for part in self._parts)

    def __str__(self) -> str:
        return "; ".join(map(str, self._parts))


def _without(keys: Iterable[Key], word: str = "not: ") -> str:
    named = sorted("/".join(part for part in key if part) for key in keys)
    if not named:
        return ""
    more = f" and {len(named) - _NAMED} more" if len(named) > _NAMED else ""
    return f" ({word}{', '.join(named[:_NAMED])}{more})"
