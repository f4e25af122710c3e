"""Who waits for what on one feed, found by the object they name.

Five hundred waits on a feed of a thousand events a second would be half a million predicates a
second if each wait looked at each event.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from harness.reach.history import Key, Revision

Ending = Literal["met", "terminal", "timed-out", "deleted", "replaced", "gap", "refused"]
Predicate = Callable[[Revision], bool]


class Tally(Protocol):
    """Something that holds, or not, of all the objects of a feed together."""

    def begin(self) -> None:
        """Forget what was taken; a wait begins."""

    def take(self, revision: Revision) -> None:
        """An object is, or is no longer, as this revision says."""

    def holds(self) -> bool:
        """Whether it holds of the objects as they stand."""

    def __str__(self) -> str:
        """How it stands: what is counted, and what is missing."""


@dataclass(slots=True, eq=False)
class Waiter:
    """One wait: offered revisions in order, it ends at the first that decides.

    With a ``tally`` it is asked only at states that the cluster had: after an event, after the
    whole of a list. A predicate's own error is kept, to be raised where the wait was made.
    """

    met: Predicate
    terminal: Predicate | None = None
    uid: str = ""
    key: Key | None = None  # the object's, where it is named, or under which the UID was seen
    tally: Tally | None = None
    kind: Ending | None = None
    answer: Revision | None = None
    failure: BaseException | None = None
    bell: threading.Event = field(default_factory=threading.Event)

    @property
    def over(self) -> bool:
        """Whether it is decided."""
        return self.kind is not None or self.failure is not None

    def offer(self, revision: Revision) -> None:
        """Look at one revision."""
        if self.over:
            return
        try:
            self.kind = self._judge(revision)
        except BaseException as bug:  # noqa: BLE001 - re-raised by the wait that it belongs to
            self.failure = bug
        if self.kind is not None:
            self.answer = revision
        self._ring()

    def settle(self, last: Revision | None) -> None:
        """The state is one that the cluster had; ``last`` is the revision that led to it."""
        if self.tally is None or self.over:
            return
        try:
            if self.tally.holds():
                self.kind, self.answer = "met", last
        except BaseException as bug:  # noqa: BLE001 - re-raised by the wait that it belongs to
            self.failure = bug
        self._ring()

    def _ring(self) -> None:
        if self.over:
            self.bell.set()

    def _judge(self, revision: Revision) -> Ending | None:
        if self.tally is not None:
            self.tally.take(revision)
            return None
        if self.uid and revision.uid != self.uid:
            return "replaced" if revision.key == self.key else None
        if self.uid:
            self.key = revision.key
        if self.met(revision):
            return "met"
        if self.terminal is not None and self.terminal(revision):
            return "terminal"
        return "deleted" if self.uid and revision.change == "DELETED" else None


@dataclass(slots=True, eq=False)
class Waiters:
    """The waits that go on; each is offered what it may be about and nothing else."""

    _any: list[Waiter] = field(default_factory=list)
    _by_key: dict[Key, list[Waiter]] = field(default_factory=dict)
    _by_uid: dict[str, list[Waiter]] = field(default_factory=dict)

    def all(self) -> list[Waiter]:
        """Every wait that goes on."""
        lists = [self._any, *self._by_key.values(), *self._by_uid.values()]
        return [waiter for each in lists for waiter in each]

    def add(self, waiter: Waiter) -> None:
        """Begin to offer."""
        self._place(waiter).append(waiter)

    def remove(self, waiter: Waiter) -> None:
        """Offer no more."""
        self._place(waiter).remove(waiter)
        for table in (self._by_key, self._by_uid):
            _drop_empty(table, waiter.key, waiter.uid)

    def offer(self, revision: Revision) -> None:
        """One more revision, to all that may be about it."""
        for waiter in tuple(self._by_key.get(revision.key, ())):
            waiter.offer(revision)
        if revision.uid in self._by_uid:
            for waiter in self._by_uid.pop(revision.uid):
                waiter.offer(revision)
                self.add(waiter)  # its key is known from now on
        for waiter in tuple(self._any):
            waiter.offer(revision)

    def settle(self, last: Revision | None) -> None:
        """The state that the last revision led to is one that the cluster had."""
        for waiter in tuple(self._any):
            waiter.settle(last)

    def ring(self) -> None:
        """Something happened that ends every wait."""
        for waiter in self.all():
            waiter.bell.set()

    def _place(self, waiter: Waiter) -> list[Waiter]:
        if waiter.key is not None:
            return self._by_key.setdefault(waiter.key, [])
        if waiter.uid:
            return self._by_uid.setdefault(waiter.uid, [])
        return self._any


def _drop_empty(table: dict[Any, list[Waiter]], *places: object) -> None:
    for place in places:
        if place in table and not table[place]:
            del table[place]
