"""What a feed shows: its history, how far it has come, and the waits that look at it.

Changed by the one thread that reads the stream, under ``lock``; where that and the clock's gate
are both taken, the gate comes first.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from harness.clock import Clock
from harness.reach.history import History, Listed, Revision, key_of, older, uid_of
from harness.reach.listing import LOOK
from harness.reach.waiters import Waiters
from harness.reach.watchstream import BOOKMARK, Event, OutOfOrder


@dataclass(slots=True, eq=False)
class Picture:
    """The state of a feed. ``version`` is where a stream goes on, "" before the first list.

    ``heard`` is when, on the runner's monotonic clock, the server last said how things stand.
    """

    clock: Clock
    history: History
    waiters: Waiters = field(default_factory=Waiters)
    lock: threading.RLock = field(default_factory=threading.RLock)
    version: str = ""
    heard: float = 0.0
    _seen: tuple[str, float] = ("", 0.0)  # the last version seen, and the lab's time when first

    def event(self, event: Event, tried: str) -> bool:
        """Take in an event or a bookmark; False when it told nothing new.

        Raises OutOfOrder for what goes back and is not known: what is true only a list can tell.
        """
        self.heard = self.clock.monotonic()
        if event.change == BOOKMARK:
            if older(event.version, self.version):
                raise _out_of_order(event, self.version, tried)
            self.reach(event.version)
            self.waiters.settle(None)
            return False
        if self.history.repeats(event.change, event.obj):
            return False
        if older(event.version, self.version) and not self._is_last(event):
            raise _out_of_order(event, self.version, tried)
        taken = self.history.take(event.change, event.obj, self.clock.now(), "event")
        self.waiters.offer(taken)
        self.waiters.settle(taken)
        self.reach(event.version)
        return True

    def relist(self, items: list[Listed], version: str, why: str = "", *, elsewhere: bool) -> None:
        """Take in a list of everything; ``why`` it had to be, where something may be missing.

        ``elsewhere``: its versions may be of another past than those seen.
        """
        elsewhere = elsewhere or older(version, self._seen[0])
        changes = self.history.difference(items)
        if why and (version != self._seen[0] or elsewhere):
            self._gap(f"listed again: {why}", version, None if elsewhere else changes)
        self._take(changes, "list")
        self.reach(version)

    def probed(self, changes: list[tuple[str, Listed]], upto: str) -> None:
        """Take in what a list shows and no stream tells."""
        self._gap("a list showed what no stream told", upto, changes)
        self._take(changes, "probe")

    def _is_last(self, event: Event) -> bool:
        """Whether it is the deletion of an object in its last version."""
        known = self.history.last(key_of(event.obj))
        if known is None or event.change != "DELETED":
            return False
        return (known.uid, known.version) == (uid_of(event.obj), event.version)

    def _take(self, changes: list[tuple[str, Listed]], source: str) -> None:
        now = self.clock.now()
        taken: Revision | None = None
        for change, item in changes:
            taken = self.history.keep(change, item, now, source)
            self.waiters.offer(taken)
        self.heard = self.clock.monotonic()
        self.waiters.settle(taken)

    def _gap(self, reason: str, upto: str, changes: list[tuple[str, Listed]] | None) -> None:
        changed = None if changes is None else frozenset(item.key for _, item in changes)
        after, since = self._seen
        self.history.gap(since, self.clock.now(), reason, after, upto, changed)

    def reach(self, version: str) -> None:
        """Everything up to a version was seen or is in a gap; a stream goes on from there."""
        self.version = version
        if version != self._seen[0]:
            # said again, it proves nothing of the time since: it may have been long on its way
            self._seen = (version, self.clock.now())


def _out_of_order(event: Event, after: str, tried: str) -> OutOfOrder:
    saw = f"revision {event.version} on a stream that had come to {after}"
    return OutOfOrder(tried, saw, LOOK)
