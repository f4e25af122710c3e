"""List, then watch: one stream per kind, namespace and selector, shared by everybody who waits.

The stream resumes by version when it is cut, lists again on 410 and writes that down as a gap, and
is probed by a list when it has been silent for too long. A stream that ends is never an answer.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.clock import Clock, Deadline
from harness.reach.errors import ApiRefused, LabError
from harness.reach.history import Gap, History, Obj, Revision
from harness.reach.trouble import BACK_OFF, Trouble, is_final
from harness.reach.waited import LAST, Predicate, Waited, Waiter
from harness.reach.watchstream import BOOKMARK, Cluster, Target, event_of, lines, named

__all__ = ["BACK_OFF", "SILENCE", "Cluster", "Feed", "Observatory", "Target", "Waited"]

SILENCE = 70.0
"""Real seconds without a byte after which a stream is given up (the API bookmarks about once a
minute, so a healthy one is never silent that long)."""

RESUMED_SILENCE = 5.0
"""Real seconds that the stream after a silent one gets: what a dead connection kept back is sent
at once, and nothing is lost. Silent again, the server is asked plainly."""

BLIND = 1.0
"""Real seconds without an open stream after which what was not seen counts for nothing."""

CLOSING = 5.0
"""Real seconds to wait for a watcher to end."""


@dataclass(slots=True, eq=False)
class Feed:
    """One shared watch with its history. Get one from `Observatory.feed`.

    ``cuts`` is why each attempt ended, ``requests`` how many were made, ``refused`` the error
    after which no more are. Predicates run in the watching thread, once for each revision; they
    may look at the feed, and must not wait.
    """

    cluster: Cluster
    clock: Clock
    target: Target
    silence: float = SILENCE
    history: History = field(default_factory=History)
    refused: LabError | None = None
    cuts: list[str] = field(default_factory=list)
    requests: int = 0
    _version: str = ""
    _seen: tuple[str, float] = ("", 0.0)  # the last version seen, and the lab's time when first
    _relist: str = ""  # why a list has to come before the next stream
    _trouble: Trouble = field(default_factory=Trouble)
    _waiters: list[Waiter] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _starting: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _response: Any = None
    _leave: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        """For messages: what is watched where."""
        return f"{self.cluster.name} {self.target}"

    @property
    def started(self) -> bool:
        """Whether the first list has succeeded."""
        return self._thread is not None

    def position(self) -> int:
        """The resourceVersion up to which everything was seen or is in a gap that is written down.

        Only a lab on virtual time is asked: its versions are numbers that grow. Raises LabError
        for any other.
        """
        version = self._version or "0"
        if not (version.isascii() and version.isdigit()):
            raise LabError(
                f"put {self.name} in order with the lab's time",
                f"resourceVersion {version!r}, which is no number",
                "use the real clock: such versions are good for equality only",
            )
        return int(version)

    def start(self) -> None:
        """List now, in the caller's thread, then follow in another; errors are the caller's.

        Does nothing when it has been started.
        """
        with self._starting:
            if self.started:
                return
            self._take_list()
            self._leave = self.clock.follow(self)
            thread = threading.Thread(target=self._run, name=f"watch {self.name}", daemon=True)
            thread.start()
            self._thread = thread

    def stop(self) -> None:
        """Tell the watcher to end; the history stays."""
        with self._lock:
            self._stop.set()
            if self._response is not None:
                _cut(self._response)
        self._leave()
        self.clock.notify()

    def close(self) -> None:
        """Stop following and wait until that is so; the history stays."""
        self.stop()
        if self._thread is not None:
            self._thread.join(CLOSING)

    def objects(self) -> list[Obj]:
        """The objects as last seen, sorted by namespace and name."""
        with self._lock:
            return [self.history.current[key] for key in sorted(self.history.current)]

    def object(self, name: str, namespace: str = "") -> Obj | None:
        """One object as last seen, or None; the namespace is the feed's own unless named."""
        with self._lock:
            return self.history.current.get((namespace or self.target.namespace, name))

    def healthy(self) -> bool:
        """Whether nothing can have been missed so far, and nothing is being missed now."""
        with self._lock:
            return self.refused is None and not self.history.gaps() and not self._blind()

    def wait(self, met: Predicate, deadline: Deadline, what: str) -> Revision | None:
        """The first revision, from the start of the history, for which ``met`` holds.

        None when the deadline came first. What happened before the wait began counts. Raises
        the refusal when the cluster no longer lets us look, and the predicate's own error.
        """
        waiter = Waiter(met)
        self._wait(waiter, deadline, what)
        return waiter.answer

    def outcome(
        self,
        met: Predicate,
        deadline: Deadline,
        what: str,
        *,
        uid: str = "",
        terminal: Predicate | None = None,
    ) -> Waited:
        """Wait as `wait` does, and say how it ended.

        With ``uid`` only that very object counts, and its deletion or replacement ends the wait.
        ``terminal`` holds for a state from which ``met`` cannot come any more; of one revision,
        ``met`` is asked first. Raises as `wait` does.
        """
        waiter = Waiter(met, terminal, uid)
        began, cuts = self.clock.now(), len(self.cuts)
        self._wait(waiter, deadline, what)
        with self._lock:
            return self._waited(waiter, what, self.clock.now() - began, tuple(self.cuts[cuts:]))

    # -- waiting -----------------------------------------------------------------------------

    def _wait(self, waiter: Waiter, deadline: Deadline, what: str) -> None:
        with self._lock:
            for revision in self.history.revisions():
                waiter.offer(revision)
            self._waiters.append(waiter)
        try:
            self.clock.wait(lambda: self._over(waiter), deadline, what)
        finally:
            with self._lock:
                self._waiters.remove(waiter)
        if waiter.failure is not None:
            raise waiter.failure
        if waiter.kind is None:
            self._raise_if_ended(what)

    def _over(self, waiter: Waiter) -> bool:
        return waiter.over or self.refused is not None or self._stop.is_set()

    def _raise_if_ended(self, what: str) -> None:
        if self.refused is not None:
            raise self.refused
        if self._stop.is_set():
            raise LabError(f"wait for {what}", f"{self.name} closed", "close feeds after the waits")

    def _waited(self, waiter: Waiter, what: str, seconds: float, cuts: tuple[str, ...]) -> Waited:
        healthy = self.healthy()
        kind, answer = waiter.kind, waiter.answer
        of_it = [r for r in self.history.revisions() if waiter.key in (None, r.key)]
        if kind == "deleted" and of_it[-1].uid != waiter.uid:
            kind, answer = "replaced", of_it[-1]
        return Waited(
            kind=kind or ("timed-out" if healthy else "gap"),
            what=what,
            where=self.name,
            revision=answer,
            seconds=seconds,
            healthy=healthy,
            last=tuple(of_it[-LAST:]),
            cuts=cuts,
            gaps=tuple(self.history.gaps()),
            blind=self._blind(),
        )

    def _blind(self) -> str:
        """Why nothing can be seen now; "" while a stream is open or was so a moment ago."""
        since = self.clock.monotonic() - self._trouble.blind_since
        return self._trouble.blind if since > BLIND else ""

    # -- following ---------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            if self.refused is None and not self._stop.is_set():
                do = "see the traceback: this is a bug of the harness"
                self._refuse(LabError(f"follow {self.name}", "the watcher broke", do))

    def _follow(self) -> None:
        while not self.clock.back_off(self._trouble.pace(), self._stop):
            try:
                self._attempt()
            except LabError as trouble:
                if is_final(trouble):
                    self._refuse(trouble)
                    return
                self._learn(trouble)
            else:
                self._failed("the server ended the stream")

    def _attempt(self) -> None:
        """One stream from its opening to its end, after the list that it may need."""
        if self._relist:
            self._take_list()
        elif self._trouble.silent > 1:
            self._probe()
        began = self.clock.monotonic()
        try:
            self._stream()
        finally:
            if self.clock.monotonic() - began >= BACK_OFF[-1]:
                self._trouble.failures = 0  # it held for long: not one failure in a row

    def _learn(self, error: LabError) -> None:
        """What an attempt that failed means for the next one."""
        self._trouble.learn(error)
        expired = isinstance(error, ApiRefused) and error.code == 410
        if expired or self._trouble.garbled > 1:
            self._lose(str(error))
        self._failed(str(error))

    def _lose(self, why: str) -> None:
        """The stream can't be resumed: list again, and say that something may be missing."""
        with self._lock:
            self._relist = why

    def _failed(self, why: str) -> None:
        with self._lock:
            if not self._stop.is_set():
                self._trouble.fail(why, self.clock.monotonic())
                self.cuts.append(why)
        self.clock.notify()

    def _refuse(self, refusal: LabError) -> None:
        with self._lock:
            self.refused = refusal
        self._leave()
        self.clock.notify()

    # -- listing -----------------------------------------------------------------------------

    def _listed(self) -> tuple[list[Obj], str]:
        target = self.target
        self.requests += 1
        items, version = self.cluster.list_raw(
            target.api_version,
            target.kind,
            target.namespace,
            labels=target.labels,
            fields=target.fields,
        )
        return named(items, version, f"list {self.name}"), version

    def _take_list(self) -> None:
        """Take a list in; after the first one, what happened since the last version is a gap."""
        items, version = self._listed()
        with self.clock.held(), self._lock:
            if self._relist and version != self._seen[0]:
                self._gap(f"listed again: {self._relist}", version)
            for revision in self.history.difference(items, self.clock.now(), "list"):
                self._take(revision)
            self._relist = ""
            self._reach(version)
        self.clock.notify()

    def _probe(self) -> None:
        """Ask plainly what a silent stream may be keeping back, and say so when it did.

        When it kept nothing back, the stream goes on from its own version: an object that came
        and went meanwhile is in no list.
        """
        items, version = self._listed()
        with self.clock.held(), self._lock:
            self._trouble.silent = 0
            kept_back = self.history.difference(items, self.clock.now(), "probe")
            if kept_back:
                self._gap("the stream was open but silent", version)
                for revision in kept_back:
                    self._take(revision)
                self._reach(version)
        self.clock.notify()

    def _gap(self, reason: str, upto: str) -> None:
        after, since = self._seen
        self.history.gap(Gap(since, self.clock.now(), reason, after, upto))

    # -- streaming ---------------------------------------------------------------------------

    def _stream(self) -> None:
        """Follow one connection to its end. Raises what ended it, unless that was the server."""
        target, tried = self.target, f"watch {self.name}"
        path = self.cluster.path_of(target.api_version, target.kind, target.namespace)
        limit = self.silence if not self._trouble.silent else min(self.silence, RESUMED_SILENCE)
        self.requests += 1
        response = self.cluster.stream(path, target.query(self._version), read_timeout=limit)
        try:
            self._opened(response)
            for line in lines(response, tried):
                self._event(line, tried)
        except ValueError:
            # a TLS socket that another thread shut down says that it is closed in this way
            if not self._stop.is_set():
                raise
        finally:
            with self._lock:
                self._response = None
            response.close()

    def _opened(self, response: Any) -> None:
        with self._lock:
            self._trouble.opened()
            self._response = response
            if self._stop.is_set():
                _cut(response)

    def _event(self, line: bytes, tried: str) -> None:
        event = event_of(line, tried)
        with self.clock.held(), self._lock:
            if self._stop.is_set():
                return
            self._trouble.heard()
            revision = Revision(event.change, event.obj, self.clock.now(), "event")
            if event.change == BOOKMARK:
                self._reach(event.version)
            elif not self.history.repeats(revision):
                self._trouble.failures = 0
                self._take(revision)
                self._reach(event.version)
        self.clock.notify()

    def _take(self, revision: Revision) -> None:
        self.history.take(revision)
        for waiter in self._waiters:
            waiter.offer(revision)

    def _reach(self, version: str) -> None:
        self._version = version
        if version != self._seen[0]:
            # said again, it proves nothing of the time since: it may have been long on its way
            self._seen = (version, self.clock.now())


class Observatory:
    """All the feeds of a run: asking twice for the same target gives the same feed."""

    def __init__(self, clock: Clock, *, silence: float = SILENCE) -> None:
        self.clock = clock
        self._silence = silence
        self._feeds: dict[tuple[str, Target], Feed] = {}
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
            feed = self._feeds.get((cluster.name, target))
            if feed is None:
                feed = Feed(cluster, self.clock, target, silence=self._silence)
                self._feeds[cluster.name, target] = feed
        feed.start()
        return feed

    def feeds(self) -> list[Feed]:
        """Every feed started so far."""
        with self._lock:
            return [feed for feed in self._feeds.values() if feed.started]

    def close(self) -> None:
        """Stop every feed, all at once."""
        feeds = self.feeds()
        for feed in feeds:
            feed.stop()
        for feed in feeds:
            feed.close()


def _cut(response: Any) -> None:
    """End a stream that another thread is reading."""
    try:
        response.shutdown()
    except (ValueError, RuntimeError, OSError):  # already ended
        return
