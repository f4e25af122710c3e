"""Keeping up with one kind: list, stream, and again whenever the stream is lost, in a thread."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from harness.clock import Clock
from harness.reach.errors import ApiRefused, LabError
from harness.reach.history import Listed
from harness.reach.listing import read_list
from harness.reach.packed import Obj
from harness.reach.picture import Picture
from harness.reach.trouble import AHEAD, Trouble
from harness.reach.watchstream import Cluster, OutOfOrder, Target, event_of, lines

RESUMED_SILENCE = 5.0
"""Real seconds that the stream after a silent one gets: what a dead connection kept back is sent
at once, and nothing is lost. Silent again, the server is asked plainly."""

BLIND = 1.0
"""Real seconds without an open stream after which what was not seen counts for nothing."""

CLOSING = 5.0
"""Real seconds to wait for a watcher to end."""


@dataclass(slots=True, eq=False)
class Follower:
    """The thread that keeps a picture true. ``silence`` is in real seconds.

    ``cuts`` is why each attempt ended, ``requests`` how many were made, ``refused`` the error
    after which no more are.
    """

    cluster: Cluster
    clock: Clock
    target: Target
    picture: Picture
    silence: float
    refused: LabError | None = None
    cuts: list[str] = field(default_factory=list)
    requests: int = 0
    _relist: str = ""  # why a list has to come before the next stream
    _elsewhere: bool = False  # whether our version is of another past than the cluster's
    _given_up: str = ""
    _listing: bool = False
    _tried: bool = False  # whether a first stream was opened, or could not be
    _trouble: Trouble = field(default_factory=Trouble)
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

    @property
    def tried(self) -> bool:
        """Whether a first stream was opened or could not be: until then a lab on virtual time does
        not know what is followed here, and would pass over it.
        """
        return self._tried

    @property
    def stopped(self) -> bool:
        """Whether it was told to end."""
        return self._stop.is_set()

    @property
    def over(self) -> bool:
        """Whether nothing more will be seen."""
        return self.refused is not None or self._stop.is_set()

    def start(self, participant: Any) -> None:
        """List now, in the caller's thread, then follow in another; errors are the caller's."""
        self._take_list()
        self._trouble.await_stream(self.clock.monotonic())
        self._leave = self.clock.follow(participant)
        thread = threading.Thread(target=self._run, name=f"watch {self.name}", daemon=True)
        thread.start()
        self._thread = thread

    def stop(self) -> None:
        """Tell the thread to end."""
        with self.picture.lock:
            self._stop.set()
            if self._response is not None:
                _cut(self._response)
        self._leave()
        self._ring()

    def join(self, seconds: float) -> None:
        """Wait until the thread has ended; one whose stream does not open ends later, by itself."""
        if self._thread is not None:
            self._thread.join(seconds)

    @property
    def listing(self) -> bool:
        """Whether a list is on its way here that may be older than one taken meanwhile."""
        return self._listing

    def give_up(self, why: str) -> None:
        """Take the stream that is open for dead; the next one goes on from the same version."""
        with self.picture.lock:
            if self._response is not None:
                self._given_up = why
                _cut(self._response)

    def blind(self) -> str:
        """Why nothing can be seen now; "" while a stream is open or was so a moment ago."""
        since = self.clock.monotonic() - self._trouble.blind_since
        return self._trouble.blind if since > BLIND else ""

    def ask(self, name: str = "") -> tuple[list[Listed], str]:
        """Every object (or those of a name), packed where it is new, and the list's version."""
        target, tried = self.target, f"list {self.name}"
        path = self.cluster.path_of(target.api_version, target.kind, target.namespace)
        items: list[Listed] = []

        def page(query: dict[str, str]) -> bytes:
            with self.picture.lock:
                self.requests += 1
            return self.cluster.request("list", "GET", path, query)

        def take(obj: Obj) -> None:
            # items of built-in kinds come without the two, those of custom kinds with them
            kind = {"apiVersion": target.api_version, "kind": target.kind}
            items.append(self.picture.history.listed({**kind, **obj}))

        version = read_list(page, target.chosen(name), take, tried)
        return items, version

    # -- the thread --------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            self._follow()
        finally:
            if not self.over:
                do = "see the traceback: this is a bug of the harness"
                self._refuse(LabError(f"follow {self.name}", "the watcher broke", do))

    def _follow(self) -> None:
        while not self.clock.back_off(self._trouble.pace(), self._stop):
            try:
                self._attempt()
            except LabError as trouble:
                if self._trouble.is_over(trouble):
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
            self._trouble.ended(self.clock.monotonic() - began)

    def _learn(self, error: LabError) -> None:
        """What an attempt that failed means for the next one."""
        self._trouble.learn(error)
        self._elsewhere |= self._trouble.ahead >= AHEAD
        self._elsewhere |= isinstance(error, OutOfOrder)
        expired = isinstance(error, ApiRefused) and error.code == 410
        if expired or self._elsewhere or self._trouble.garbled > 1:
            self._relist = self._relist or str(error)
        self._failed(str(error))

    def _failed(self, why: str) -> None:
        with self.picture.lock:
            self._tried = True
            if not self._stop.is_set():
                why, self._given_up = self._given_up or why, ""
                self._trouble.fail(why, self.clock.monotonic())
                self.cuts.append(why)
        self.clock.notify()

    def _refuse(self, refusal: LabError) -> None:
        with self.picture.lock:
            self.refused = refusal
        self._leave()
        self._ring()

    def _ring(self) -> None:
        with self.picture.lock:
            self.picture.waiters.ring()
        self.clock.notify()

    # -- listing -----------------------------------------------------------------------------

    @contextmanager
    def _taken(self) -> Iterator[tuple[list[Listed], str]]:
        """A list of everything, to be taken in before anybody looks."""
        self._listing = True
        try:
            found = self.ask()
            with self.clock.held(), self.picture.lock:
                yield found
        finally:
            self._listing = False
        self.clock.notify()

    def _take_list(self) -> None:
        """Take a list in; after the first one, what happened since the last version is a gap."""
        with self._taken() as (items, version):
            self.picture.relist(items, version, self._relist, elsewhere=self._elsewhere)
            self._relist, self._elsewhere, self._trouble.ahead = "", False, 0

    def _probe(self) -> None:
        """Ask plainly what a silent stream may be keeping back, and say so when it did.

        When it kept nothing back, the stream goes on from its own version: an object that came
        and went meanwhile is in no list.
        """
        with self._taken() as (items, version):
            self._trouble.silent = 0
            kept_back = self.picture.history.difference(items)
            if kept_back:
                self.picture.probed(kept_back, version)
                self.picture.reach(version)

    # -- streaming ---------------------------------------------------------------------------

    def _stream(self) -> None:
        """Follow one connection to its end. Raises what ended it, unless that was the server."""
        target, tried = self.target, f"watch {self.name}"
        path = self.cluster.path_of(target.api_version, target.kind, target.namespace)
        limit = self.silence if not self._trouble.silent else min(self.silence, RESUMED_SILENCE)
        self.requests += 1
        response = self.cluster.stream(path, target.query(self.picture.version), read_timeout=limit)
        try:
            self._opened(response)
            for line in lines(response, tried):
                self._event(line, tried)
        except ValueError:
            # a TLS socket that another thread shut down says that it is closed in this way
            if not (self._stop.is_set() or self._given_up):
                raise
        finally:
            with self.picture.lock:
                self._response = None
            response.close()

    def _opened(self, response: Any) -> None:
        with self.picture.lock:
            self._tried = True
            self._trouble.opened()
            self._response = response
            if self._stop.is_set():
                _cut(response)
        self.clock.notify()

    def _event(self, line: bytes, tried: str) -> None:
        event = event_of(line, tried)
        with self.clock.held(), self.picture.lock:
            if self._stop.is_set():
                return
            self._trouble.heard()
            if self.picture.event(event, tried):
                self._trouble.failures = 0
        self.clock.notify()


def _cut(response: Any) -> None:
    """End a stream that another thread is reading."""
    try:
        response.shutdown()
    except (ValueError, RuntimeError, OSError):  # already ended
        return
