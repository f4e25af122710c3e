"""List, then watch: one stream per kind, namespace and selector, shared by everybody who waits.

The stream resumes by version when it is cut, lists again on 410 and writes that down as a gap, and
is probed by a list when it has been silent for too long. A stream that ends is never an answer.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, replace

from harness.clock import Clock, Deadline
from harness.reach.errors import ApiRefused, BadCertificate, LabError
from harness.reach.following import CLOSING, Follower
from harness.reach.history import HISTORY_BYTES, Compacted, History, Obj, Revision
from harness.reach.involved import EventSource, told_of
from harness.reach.looking import LEAD, Look
from harness.reach.packed import Shelf
from harness.reach.picture import Picture
from harness.reach.trouble import BACK_OFF
from harness.reach.waited import LAST, ROWS, Waited, newest
from harness.reach.waiters import Ending, Predicate, Tally, Waiter
from harness.reach.watchstream import Cluster, Target

__all__ = ["BACK_OFF", "SILENCE", "Cluster", "Feed", "Observatory", "Target", "Waited"]

SILENCE = 70.0
"""Real seconds without a byte after which a stream is given up (the API bookmarks about once a
minute, so a healthy one is never silent that long)."""

SILENCE_FOLLOWED = 20.0
"""The same where time waits for the watch. A lab on virtual time bookmarks at each turn, and its
clock has given up after a minute without one."""

_FEW = 50  # revisions that a new wait may look at while the feed is held up


@dataclass(slots=True, eq=False)
class _Wait:
    """A wait and what was so when it began."""

    waiter: Waiter
    what: str
    began: float
    cuts: int
    gaps: int  # how many there were that do not count: of a count, those before it
    forgotten: Compacted | None = None


class Feed:
    """One shared watch with its history. Get one from `Observatory.feed`.

    Predicates run in the watching thread, once for each revision; they may look at the feed, and
    must not wait. A wait that names its object is offered that object's revisions only.
    """

    def __init__(
        self,
        cluster: Cluster,
        clock: Clock,
        target: Target,
        *,
        silence: float | None = None,
        history: History | None = None,
    ) -> None:
        self.cluster = cluster
        self.clock = clock
        self.target = target
        if silence is None:
            silence = SILENCE_FOLLOWED if clock.follows else SILENCE
        self._picture = Picture(clock, history or History())
        self._follower = Follower(cluster, clock, target, self._picture, silence)
        self._look = Look(clock, self._picture, self._follower)
        self._starting = threading.Lock()

    @property
    def name(self) -> str:
        """For messages: what is watched where."""
        return self._follower.name

    @property
    def history(self) -> History:
        """Every revision that was seen, and where some may be missing."""
        return self._picture.history

    @property
    def cuts(self) -> list[str]:
        """Why each attempt to follow ended."""
        return self._follower.cuts

    @property
    def requests(self) -> int:
        """How many requests were made."""
        return self._follower.requests

    @property
    def refused(self) -> LabError | None:
        """The error after which no more requests are made."""
        return self._follower.refused

    @property
    def started(self) -> bool:
        """Whether the first list has succeeded."""
        return self._follower.started

    def position(self) -> int:
        """The resourceVersion up to which everything was seen or is in a gap that is written down;
        none of them until a first stream was tried.

        Only a lab on virtual time is asked: its versions are numbers that grow. Raises LabError
        for any other.
        """
        version = self._picture.version or "0"
        if not (version.isascii() and version.isdigit()):
            raise LabError(
                f"put {self.name} in order with the lab's time",
                f"resourceVersion {version!r}, which is no number",
                "use the real clock: such versions are good for equality only",
            )
        return int(version) if self._follower.tried else -1

    def start(self) -> None:
        """List now, in the caller's thread, then follow in another; errors are the caller's.

        Does nothing when it has been started.
        """
        with self._starting:
            if not self.started:
                self._follower.start(self)

    def stop(self) -> None:
        """Tell the watcher to end; the history stays."""
        self._follower.stop()

    def join(self, seconds: float) -> None:
        """Wait so many of the runner's seconds for a watcher that was told to end."""
        self._follower.join(seconds)

    def close(self) -> None:
        """Stop following and wait until that is so; the history stays."""
        self.stop()
        self.join(CLOSING)

    def objects(self) -> list[Obj]:
        """The objects as last seen, sorted by namespace and name.

        Raises the refusal after which nothing more is seen: what is not among them any more would
        still be, and what has come since would not. ``history`` tells what was seen until then.
        """
        self._raise_if_refused()
        with self._picture.lock:
            standing = self.history.standing()
        return [revision.obj for revision in standing]

    def object(self, name: str, namespace: str = "") -> Obj | None:
        """One object as last seen, or None; the namespace is the feed's own unless named.

        Raises as `objects` does.
        """
        self._raise_if_refused()
        with self._picture.lock:
            last = self.history.last((namespace or self.target.namespace, name))
        return last.obj if last else None

    def healthy(self) -> bool:
        """Whether nothing can have been missed or forgotten, and nothing is being missed now."""
        with self._picture.lock:
            whole = not self.history.gaps() and self.history.compacted is None
            return self.refused is None and whole and not self._blind()

    def wait(
        self, met: Predicate, deadline: Deadline, what: str, *, name: str = "", namespace: str = ""
    ) -> Revision | None:
        """The first revision, from the start of the history, for which ``met`` holds.

        None when the deadline came first. What happened before the wait began counts. With
        ``name``, only that object's revisions are looked at, in the feed's own namespace unless
        one is named. Raises the refusal when the cluster no longer lets us look, and the
        predicate's own error.
        """
        wait = self._new(Waiter(met, key=self._key(name, namespace)), what)
        self._wait(wait, deadline)
        if wait.waiter.kind is None:
            self._raise_if_refused()
        return wait.waiter.answer

    def outcome(
        self,
        met: Predicate,
        deadline: Deadline,
        what: str,
        *,
        uid: str = "",
        name: str = "",
        namespace: str = "",
        terminal: Predicate | None = None,
        events: EventSource | None = None,
    ) -> Waited:
        """Wait as `wait` does, and say how it ended.

        With ``uid`` only that very object counts, and its deletion or replacement ends the wait.
        ``terminal`` holds for a state from which ``met`` cannot come any more; of one revision,
        ``met`` is asked first. ``events`` is where the object's Events are had from when the
        wait was in vain. Raises the predicate's own error, and LabError for a closed feed.
        """
        key = None if uid else self._key(name, namespace)
        return self._outcome(Waiter(met, terminal, uid, key), deadline, what, events)

    def standing(
        self, tally: Tally, deadline: Deadline, what: str, *, events: EventSource | None = None
    ) -> Waited:
        """Wait until something holds of all the objects together, and say how it ended.

        From now on: it is asked of the objects as they stand now, as after each event, and as
        after the whole of a list, never of a state in between that the cluster did not have. A
        tally is good for one wait. Raises as `outcome` does.
        """
        return self._outcome(Waiter(_never, tally=tally), deadline, what, events)

    # -- waiting -----------------------------------------------------------------------------

    def _key(self, name: str, namespace: str) -> tuple[str, str] | None:
        if namespace and not name:
            raise ValueError(f"namespace {namespace!r} without a name: which object is meant?")
        return (namespace or self.target.namespace, name) if name else None

    def _new(self, waiter: Waiter, what: str) -> _Wait:
        with self._picture.lock:
            gaps = len(self.history.gaps()) if waiter.tally else 0
            return _Wait(waiter, what, self.clock.now(), len(self.cuts), gaps)

    def _outcome(
        self, waiter: Waiter, deadline: Deadline, what: str, events: EventSource | None
    ) -> Waited:
        wait = self._new(waiter, what)
        self._wait(wait, deadline)
        with self._picture.lock:
            waited = self._waited(wait)
        return waited if waited.kind == "met" or not events else _with_events(waited, events)

    def _wait(self, wait: _Wait, deadline: Deadline) -> None:
        waiter = wait.waiter
        self._begin(wait)
        try:
            self._until(waiter, deadline, wait.what)
        finally:
            with self._picture.lock:
                self._picture.waiters.remove(waiter)
        if waiter.failure is not None:
            raise waiter.failure
        if waiter.kind is None:
            self._raise_if_ended(wait.what)

    def _until(self, waiter: Waiter, deadline: Deadline, what: str) -> None:
        """Wait on the clock; shortly before the limit of a wait in vain, ask a silent server.

        One that was heard shortly before that may have fallen silent a little later.
        """
        lead = min(LEAD, deadline.remaining() / 4)
        for left in () if self.clock.follows else (lead, lead / 2):
            early = self.clock.deadline(deadline.remaining() - left)
            if self.clock.wait(lambda: self._over(waiter), early, what, waiter.bell):
                return
            if self._look.begin(waiter.key, left):
                break
        self.clock.wait(lambda: self._over(waiter), deadline, what, waiter.bell)

    def _begin(self, wait: _Wait) -> None:
        """Offer what is known, then whatever comes; nothing in between is left out."""
        waiter, history = wait.waiter, self.history
        if waiter.tally is not None:
            self._count(waiter, waiter.tally)
            return
        upto = 0
        while True:
            with self._picture.lock:
                wait.forgotten = history.compacted
                new = [r for r in self._about(waiter) if r.order > upto]
                if len(new) <= _FEW:
                    for revision in new:
                        waiter.offer(revision)
                    self._picture.waiters.add(waiter)
                    return
            for revision in new:  # long: the feed goes on meanwhile
                waiter.offer(revision)
            upto = new[-1].order

    def _count(self, waiter: Waiter, tally: Tally) -> None:
        """Offer the objects as they stand, then whatever comes."""
        with self._picture.lock:
            place, forgotten = self.history.place, self.history.compacted
            new = self.history.standing()
        tally.begin()
        for revision in new:
            waiter.offer(revision)
        with self._picture.lock:
            new = [r for r in self.history.revisions() if r.order > place]
            if self.history.compacted is not forgotten:  # a deletion may be among what is gone
                tally.begin()
                new = self.history.standing()
            for revision in new:
                waiter.offer(revision)
            old = not self.clock.follows and self._look.due()
            if not (old or self._blind()):
                waiter.settle(None)
            self._picture.waiters.add(waiter)
        if old:  # they may not stand so any more: an answer settles it
            self._look.begin(None, LEAD)

    def _about(self, waiter: Waiter) -> list[Revision]:
        """The revisions that a wait is to look at."""
        if waiter.key is not None:
            return list(self.history.revisions(waiter.key[1], waiter.key[0]))
        if waiter.uid:
            key = next((r.key for r in self.history.revisions() if r.uid == waiter.uid), None)
            return list(self.history.revisions(key[1], key[0])) if key else []
        return list(self.history.revisions())

    def _over(self, waiter: Waiter) -> bool:
        return waiter.over or self._follower.over

    def _raise_if_refused(self) -> None:
        if self.refused is not None:
            raise self.refused

    def _raise_if_ended(self, what: str) -> None:
        refused = self.refused
        if refused is not None and not isinstance(refused, ApiRefused | BadCertificate):
            raise refused  # a bug of ours, and no answer of the cluster's
        if self._follower.stopped:
            raise LabError(f"wait for {what}", f"{self.name} closed", "close feeds after the waits")

    def _waited(self, wait: _Wait) -> Waited:
        waiter, refused = wait.waiter, self.refused
        gaps = self.history.gaps(waiter.key)[wait.gaps :]
        forgotten = wait.forgotten and self._forgotten(wait)
        blind = self._blind()
        healthy = not (gaps or forgotten or blind or refused)
        kind, answer = waiter.kind, waiter.answer
        of_it = self._last(waiter)
        if kind == "deleted" and of_it and of_it[-1].uid != waiter.uid:
            kind, answer = "replaced", of_it[-1]
        in_vain: Ending = "refused" if refused else ("timed-out" if healthy else "gap")
        return Waited(
            kind=kind or in_vain,
            what=wait.what,
            where=self.name,
            revision=answer,
            seconds=self.clock.now() - wait.began,
            healthy=healthy,
            last=tuple(of_it[-LAST:]),
            cuts=tuple(self.cuts[wait.cuts :]),
            gaps=tuple(gaps),
            blind=blind,
            error=str(refused) if refused and not kind else "",
            compacted=forgotten,
            unheard=self.clock.monotonic() - self._picture.heard,
            stands=str(waiter.tally) if waiter.tally else "",
            began=wait.began,
            seen=tuple(of_it[-ROWS:]),
            before=newest(of_it[:-ROWS], of_it[-ROWS:]),
            earlier=max(0, len(of_it) - ROWS),
        )

    def _forgotten(self, wait: _Wait) -> Compacted | None:
        """What was forgotten before the wait began, if it may have been about its object."""
        told, key = wait.forgotten, wait.waiter.key
        if told is None or key is None or told.keys is None or key in told.keys:
            return told
        return None

    def _last(self, waiter: Waiter) -> list[Revision]:
        if waiter.key is not None:
            return list(self.history.revisions(waiter.key[1], waiter.key[0]))
        return [] if waiter.uid else list(self.history.revisions())

    def _blind(self) -> str:
        return self._follower.blind() or self._look.doubt()


class Observatory:
    """All the feeds of a run: asking twice for the same target of a cluster gives the same feed.

    ``history`` is the most bytes that a feed's history may take; the objects that are kept parsed
    are shared between the feeds.
    """

    def __init__(
        self, clock: Clock, *, silence: float | None = None, history: int = HISTORY_BYTES
    ) -> None:
        self.clock = clock
        self._silence = silence
        self._history = history
        self._shelf = Shelf()
        self._feeds: dict[tuple[int, Target], Feed] = {}  # by the cluster's identity, not its name
        self._lock = threading.Lock()

    def feed(
        self,
        cluster: Cluster,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> Feed:
        """The shared feed of a kind in a namespace ("" = all); starts it when it is new.

        Raises what the first list raises; asked again, it tries again.
        """
        target = Target(api_version, kind, namespace, labels, fields)
        with self._lock:
            feed = self._feeds.get((id(cluster), target))
            if feed is None:
                history = History(self._history, self._shelf)
                feed = Feed(cluster, self.clock, target, silence=self._silence, history=history)
                self._feeds[id(cluster), target] = feed
        feed.start()
        return feed

    def feeds(self) -> list[Feed]:
        """Every feed started so far."""
        with self._lock:
            return [feed for feed in self._feeds.values() if feed.started]

    def close(self) -> None:
        """Stop every feed, all at once; it takes no longer than closing one."""
        feeds = self.feeds()
        for feed in feeds:
            feed.stop()
        until = self.clock.monotonic() + CLOSING
        for feed in feeds:
            feed.join(max(0.0, until - self.clock.monotonic()))


def _never(revision: Revision) -> bool:  # noqa: ARG001 - a tally decides
    return False


def _with_events(waited: Waited, source: EventSource) -> Waited:
    """An outcome with the Events of the object it is about; failing to get them is said."""
    about = waited.revision or (waited.last[-1] if waited.last else None)
    if about is None:
        return replace(waited, events_unread="no object was ever seen")
    try:
        found = source.of(str(about.obj.get("kind", "")), *about.key)
    except LabError as error:
        return replace(waited, events_unread=str(error))
    return replace(waited, events=told_of(about, found))
