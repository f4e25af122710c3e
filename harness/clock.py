"""Time: the only place of the harness that may wait.

`WallClock` is for real labs. `VirtualClock` is for a lab whose time is moved on demand: it moves
only when every registered actor is blocked, and no look counts before every watcher has caught up
with the moment reached, so a run gives the same result each time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Protocol

Look = Callable[[], bool]
Waited = Callable[[str, float, float], None]
"""Is told of a wait that has ended: what it was for, and between which of the lab's moments."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A wait that goes on: what for, and between which of the lab's moments at most."""

    what: str
    since: float
    until: float


class ClockStuck(Exception):
    """Nothing moves: some watcher or actor never caught up. A fault of the harness or the lab."""


@dataclass(frozen=True, slots=True)
class Deadline:
    """A moment on a clock until which something may take."""

    clock: Clock
    at: float
    seconds: float

    def remaining(self) -> float:
        """Seconds left, never below zero."""
        return max(0.0, self.at - self.clock.now())

    @property
    def expired(self) -> bool:
        """Whether the moment has come."""
        return self.remaining() <= 0.0


class Participant(Protocol):
    """A watcher that must have caught up with the lab before a look counts."""

    @property
    def name(self) -> str:
        """How messages name it."""

    def position(self) -> int:
        """The resourceVersion up to which everything has been seen."""


class Clock(Protocol):
    """What every wait of the harness goes through.

    ``follows``: time waits for the watchers (`follow`), so what they show is never behind it.
    """

    follows: bool

    def now(self) -> float:
        """The lab's time, seconds since the epoch."""

    def monotonic(self) -> float:
        """The runner's own monotonic seconds: for the length of I/O, never for the lab's time."""

    def deadline(self, seconds: float) -> Deadline:
        """A deadline that many seconds from now."""

    def wait(
        self, look: Look, deadline: Deadline, what: str, bell: threading.Event | None = None
    ) -> bool:
        """Wait until ``look()`` is true; False when the deadline came and a last look failed.

        With a ``bell``, who rings it says when to look again: `notify` need not wake this wait.
        """

    def sleep(self, seconds: float, what: str = "sleep") -> None:
        """Let that many seconds of the lab's time pass."""

    def notify(self) -> None:
        """Something arrived: whoever waits looks again."""

    def held(self) -> AbstractContextManager[object]:
        """Held by a watcher while it takes in an event, so that its time is the lab's."""

    def follow(self, participant: Participant) -> Callable[[], None]:
        """Count a watcher among those that must catch up; returns the way out."""

    def actor(self, name: str) -> AbstractContextManager[None]:
        """Register the calling thread: time does not move while it computes."""

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        """Pause on real time before trying a transport again; True when told to stop."""


class WallClock:
    """Real time. ``offset`` is the lab's clock minus the runner's, in seconds."""

    follows = False

    def __init__(self, offset: float = 0.0) -> None:
        self.offset = offset
        self.waited: Waited | None = None
        self._arrived = threading.Condition()
        self._arrivals = 0
        self._pending: dict[int, Pending] = {}
        self._waits = 0

    def now(self) -> float:
        """The lab's time, seconds since the epoch."""
        return time.time() + self.offset

    def monotonic(self) -> float:
        """The runner's monotonic seconds."""
        return time.monotonic()

    def deadline(self, seconds: float) -> Deadline:
        """A deadline that many seconds from now."""
        return Deadline(self, self.now() + seconds, seconds)

    def wait(
        self,
        look: Look,
        deadline: Deadline,
        what: str,
        bell: threading.Event | None = None,
    ) -> bool:
        """Wait until ``look()`` is true, looking at each arrival and once at the limit.

        The remaining time is kept on the monotonic clock: a stepped wall clock cannot stretch it.
        """
        ident = threading.get_ident()
        self._waits += 1
        self._pending[ident] = Pending(what, self.now(), deadline.at)
        try:
            with _told(self, self.waited, what):
                return self._wait(look, deadline, bell)
        finally:
            self._pending.pop(ident, None)

    def pending(self) -> Pending | None:
        """What the process's own thread waits for; any thread may ask."""
        return self._pending.get(_main())

    def signs(self) -> int:
        """Grows with each arrival and each wait: as long as it does, something goes on."""
        return self._arrivals + self._waits

    def _wait(self, look: Look, deadline: Deadline, bell: threading.Event | None) -> bool:
        until = time.monotonic() + deadline.remaining()
        if bell is not None:
            return _wait_for_the_bell(look, until, bell)
        while True:
            with self._arrived:
                arrivals = self._arrivals
            if look():
                return True
            left = until - time.monotonic()
            if left <= 0:
                return look()
            with self._arrived:
                if self._arrivals == arrivals:
                    self._arrived.wait(left)

    def sleep(self, seconds: float, what: str = "sleep") -> None:
        """Let real time pass."""
        self.wait(lambda: False, self.deadline(seconds), what)

    def notify(self) -> None:
        """Something arrived: whoever waits looks again."""
        with self._arrived:
            self._arrivals += 1
            self._arrived.notify_all()

    def held(self) -> AbstractContextManager[object]:
        """Nothing to hold: real time moves by itself."""
        return nullcontext()

    def follow(self, participant: Participant) -> Callable[[], None]:  # noqa: ARG002 - protocol
        """Nothing to follow: nobody moves real time."""
        return lambda: None

    def actor(self, name: str) -> AbstractContextManager[None]:  # noqa: ARG002 - protocol
        """Nothing to register: nobody moves real time."""
        return nullcontext()

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        """Pause on real time; True when told to stop."""
        return stop.wait(seconds)


def _main() -> int:
    return threading.main_thread().ident or 0


@contextmanager
def _told(clock: Clock, waited: Waited | None, what: str) -> Iterator[None]:
    """Tell of what was waited for in here, however it ends."""
    since = clock.now()
    try:
        yield
    finally:
        if waited is not None:
            waited(what, since, clock.now())


def _wait_for_the_bell(look: Look, until: float, bell: threading.Event) -> bool:
    """Look, and again at each ring and once at ``until``, a monotonic moment."""
    while True:
        bell.clear()
        if look():
            return True
        left = until - time.monotonic()
        if left <= 0:
            return look()
        bell.wait(left)


@dataclass(frozen=True, slots=True)
class Moment:
    """Where a lab's virtual time stands, and the revision that watchers must have seen."""

    now: float
    revision: int


class TimeSource(Protocol):
    """A lab whose time can be moved."""

    def settle(self) -> Moment:
        """Do not move time; bring every watch up to date (a bookmark each)."""

    def advance(self, until: float) -> Moment:
        """Move to the next moment that some watch can see, at the latest to ``until``."""


@dataclass(slots=True)
class _Blocked:
    name: str
    what: str
    until: float
    since: float = 0.0
    looked: int = -1  # the turn at which this actor last looked in vain


@dataclass(slots=True)
class _Arbiter:
    """Who may act, who is blocked, and how far the turns have come."""

    actors: dict[int, str] = field(default_factory=dict)
    blocked: dict[int, _Blocked] = field(default_factory=dict)
    turn: int = 0
    entries: int = 0  # how often somebody came to wait
    settled_at: int = -1  # the entries that the last settling knew of
    busy: bool = False

    @property
    def settled(self) -> bool:
        """Whether the watchers have caught up with all that those who wait may have written."""
        return self.settled_at == self.entries

    def ready(self) -> bool:
        """Whether every actor is blocked and has looked in vain since the last turn."""
        return (
            not self.busy
            and all(ident in self.blocked for ident in self.actors)
            and all(b.looked == self.turn for b in self.blocked.values())
        )


class VirtualClock:
    """A lab's virtual time, moved by one arbiter when everybody waits.

    ``patience`` is how many *real* seconds may pass without any movement before `ClockStuck`.
    """

    follows = True

    def __init__(self, source: TimeSource, *, patience: float = 60.0) -> None:
        self._source = source
        self._patience = patience
        self._gate = threading.Lock()
        self._changed = threading.Condition()
        self._participants: list[Participant] = []
        self._arbiter = _Arbiter()
        self.waited: Waited | None = None
        self._now = source.settle().now

    def now(self) -> float:
        """The lab's time, seconds since the epoch."""
        return self._now

    def monotonic(self) -> float:
        """The runner's monotonic seconds."""
        return time.monotonic()

    def deadline(self, seconds: float) -> Deadline:
        """A deadline that many seconds of the lab's time from now."""
        return Deadline(self, self._now + seconds, seconds)

    def wait(
        self,
        look: Look,
        deadline: Deadline,
        what: str,
        bell: threading.Event | None = None,  # noqa: ARG002 - everybody looks after each turn
    ) -> bool:
        """Wait until ``look()`` is true; time moves while every actor waits."""
        ident = threading.get_ident()
        name = self._arbiter.actors.get(ident, threading.current_thread().name)
        waiting = _Blocked(name, what, deadline.at, self._now)
        with self._changed:
            # whoever comes to wait may have written something: settle before time moves
            self._arbiter.entries += 1
            self._arbiter.blocked[ident] = waiting
        try:
            with _told(self, self.waited, what):
                return self._wait_turns(look, deadline, waiting)
        finally:
            with self._changed:
                del self._arbiter.blocked[ident]
                self._changed.notify_all()

    def sleep(self, seconds: float, what: str = "sleep") -> None:
        """Let that many seconds of the lab's time pass."""
        self.wait(lambda: False, self.deadline(seconds), what)

    def notify(self) -> None:
        """Something arrived: whoever waits looks again."""
        with self._changed:
            self._changed.notify_all()

    def held(self) -> AbstractContextManager[object]:
        """Held while an event is taken in: its time is that of the moment it belongs to."""
        return self._gate

    def follow(self, participant: Participant) -> Callable[[], None]:
        """Count a watcher among those that must catch up; returns the way out."""
        with self._changed:
            self._participants.append(participant)

        def leave() -> None:
            with self._changed:
                if participant in self._participants:
                    self._participants.remove(participant)
                self._changed.notify_all()

        return leave

    @contextmanager
    def actor(self, name: str) -> Iterator[None]:
        """Register the calling thread: time does not move while it computes."""
        ident = threading.get_ident()
        with self._changed:
            self._arbiter.actors[ident] = name
        try:
            yield
        finally:
            with self._changed:
                del self._arbiter.actors[ident]
                self._changed.notify_all()

    def pending(self) -> Pending | None:
        """What the process's own thread waits for; any thread may ask."""
        found = self._arbiter.blocked.get(_main())
        return None if found is None else Pending(found.what, found.since, found.until)

    def signs(self) -> int:
        """Grows with each turn and each wait: as long as it does, something goes on."""
        return self._arbiter.turn + self._arbiter.entries

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        """Pause on real time: the lab's time may be waiting for this very watcher."""
        return stop.wait(seconds)

    def _wait_turns(self, look: Look, deadline: Deadline, waiting: _Blocked) -> bool:
        while True:
            turn = self._arbiter.turn
            if look():
                return True
            if self._arbiter.settled and self._now >= deadline.at:
                return look()
            with self._changed:
                waiting.looked = turn
                if not self._arbiter.ready():
                    self._changed.notify_all()
                    self._stand_by(turn)
                    continue
                self._arbiter.busy = True
            try:
                self._take_turn()
            finally:
                with self._changed:
                    self._arbiter.busy = False
                    self._arbiter.turn += 1
                    self._changed.notify_all()

    def _stand_by(self, turn: int) -> None:
        """Wait, with the condition held, for another actor's turn to end."""
        moved = self._changed.wait_for(
            lambda: self._arbiter.turn != turn or self._arbiter.ready(), self._patience
        )
        if not moved:
            raise ClockStuck(self._who_is_blocked("no actor moved"))

    def _take_turn(self) -> None:
        """Settle first; only when nothing came of that, move time."""
        entries = self._arbiter.entries
        with self._gate:
            if self._arbiter.settled:
                until = min(b.until for b in self._arbiter.blocked.values())
                moment = self._source.advance(max(until, self._now))
            else:
                moment = self._source.settle()
            self._now = moment.now
        self._catch_up(moment.revision)
        self._arbiter.settled_at = entries

    def _catch_up(self, revision: int) -> None:
        with self._changed:
            caught_up = self._changed.wait_for(
                lambda: all(p.position() >= revision for p in self._participants), self._patience
            )
            if not caught_up:
                raise ClockStuck(self._who_is_blocked(f"not everybody saw revision {revision}"))

    def _who_is_blocked(self, why: str) -> str:
        waiting = [f"{b.name} waits for {b.what}" for b in self._arbiter.blocked.values()]
        computing = [
            f"{name} computes"
            for ident, name in self._arbiter.actors.items()
            if ident not in self._arbiter.blocked
        ]
        behind = [f"{p.name} is at revision {p.position()}" for p in self._participants]
        told = "; ".join(waiting + computing + behind) or "nobody waits"
        return f"time stands still for {self._patience:.0f} real seconds: {why}: {told}"
