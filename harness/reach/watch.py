"""List, then watch: one stream per kind, namespace and selector, shared by everybody who waits.

The stream resumes by version when it is cut, lists again on 410 and writes that down as a gap, and
is probed by a list when it has been silent for too long. A stream that ends is never an answer.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import urllib3

from harness.clock import Clock, Deadline
from harness.reach.errors import ApiRefused, LabError
from harness.reach.history import Gap, History, Key, Obj, Revision, key_of

SILENCE = 70.0
"""Real seconds without a byte after which a stream is probed (the API bookmarks about once a
minute, so a healthy one is never silent that long)."""

BACK_OFF = (0.0, 0.1, 0.5, 1.0, 2.0, 5.0)
"""Real seconds before each new attempt in a row; the last is repeated."""


class Cluster(Protocol):
    """What a watch needs of a cluster; `harness.reach.kube.Kube` has it."""

    name: str

    def path_of(self, api_version: str, kind: str, namespace: str) -> str:
        """The URL path of a collection."""

    def list_raw(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> tuple[list[Obj], str]:
        """All objects and the list's resourceVersion."""

    def stream(self, path: str, query: dict[str, str], *, read_timeout: float | None) -> Any:
        """A streaming GET."""


@dataclass(frozen=True, slots=True)
class Target:
    """What is watched."""

    api_version: str
    kind: str
    namespace: str = ""
    labels: str = ""
    fields: str = ""

    def __str__(self) -> str:
        scope = self.namespace or "all namespaces"
        chosen = " ".join(part for part in (self.labels, self.fields) if part)
        return f"{self.kind} in {scope}" + (f" where {chosen}" if chosen else "")


class _Restart(Exception):
    """The stream can't be resumed: list again."""


@dataclass(slots=True)
class _Waiter:
    met: Callable[[Revision], bool]
    answer: Revision | None = None
    failure: BaseException | None = None  # a bug in the predicate: raised where the wait was made


@dataclass(slots=True, eq=False)
class Feed:
    """One shared watch with its history. Get one from `Observatory.feed`."""

    cluster: Cluster
    clock: Clock
    target: Target
    silence: float = SILENCE
    history: History = field(default_factory=History)
    refused: LabError | None = None
    cuts: list[str] = field(default_factory=list)
    requests: int = 0
    _version: str = ""
    _waiters: list[_Waiter] = field(default_factory=list)
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _listed: threading.Event = field(default_factory=threading.Event)
    _thread: threading.Thread | None = None
    _response: Any = None
    _leave: Callable[[], None] = lambda: None

    @property
    def name(self) -> str:
        """For messages: what is watched where."""
        return f"{self.cluster.name} {self.target}"

    def position(self) -> int:
        """The resourceVersion up to which everything has been seen."""
        return int(self._version or 0)

    def start(self) -> None:
        """List now, in the caller's thread, then follow in another; errors are the caller's."""
        self._list("list")
        self._leave = self.clock.follow(self)
        self._thread = threading.Thread(target=self._follow, name=f"watch {self.name}", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop following; the history stays."""
        self._stop.set()
        self._leave()
        response = self._response
        if response is not None:
            _cut(response)
        if self._thread is not None:
            self._thread.join(5)

    def objects(self) -> list[Obj]:
        """The objects as last seen, sorted by namespace and name."""
        with self._lock:
            return [self.history.current[key] for key in sorted(self.history.current)]

    def object(self, name: str) -> Obj | None:
        """One object as last seen, or None."""
        with self._lock:
            return self.history.current.get((self.target.namespace, name))

    def healthy(self) -> bool:
        """Whether nothing can have been missed so far."""
        with self._lock:
            return self.refused is None and not self.history.gaps()

    def wait(
        self, met: Callable[[Revision], bool], deadline: Deadline, what: str
    ) -> Revision | None:
        """The first revision, from the start of the history, for which ``met`` holds.

        None when the deadline came first. What happened before the wait began counts. Raises
        the refusal when the cluster no longer lets us look, and the predicate's own error.
        """
        waiter = _Waiter(met)
        with self._lock:
            for revision in self.history.revisions():
                _offer(waiter, revision)
            self._waiters.append(waiter)
        try:
            self.clock.wait(lambda: self._over(waiter), deadline, what)
        finally:
            with self._lock:
                self._waiters.remove(waiter)
        if waiter.failure is not None:
            raise waiter.failure
        if waiter.answer is None and self.refused is not None:
            raise self.refused
        return waiter.answer

    def _over(self, waiter: _Waiter) -> bool:
        return waiter.answer is not None or waiter.failure is not None or self.refused is not None

    # -- following ---------------------------------------------------------------------------

    def _follow(self) -> None:
        failures = 0
        while not self._stop.is_set():
            if self.clock.back_off(BACK_OFF[min(failures, len(BACK_OFF) - 1)], self._stop):
                return
            try:
                if not self._version:
                    self._list("list")
                arrived = self._stream()
                failures = 0 if arrived else failures + 1
            except _Restart:
                failures += 1
                self._version_lost()
            except ApiRefused as refusal:
                if refusal.code == 410:
                    self._version_lost()
                failures += 1
                self._note(str(refusal))
            except LabError as refusal:
                if _final(refusal):
                    self._refuse(refusal)
                    return
                failures += 1
                self._note(str(refusal))
            except (urllib3.exceptions.HTTPError, OSError) as cut:
                failures += 1
                self._note(f"{type(cut).__name__}: {cut}")

    def _list(self, source: str) -> None:
        """Take a list in; after the first one, what happened in between is a gap."""
        again = bool(self.history.entries) or self._listed.is_set()
        since = self.clock.now()
        self.requests += 1
        items, version = self.cluster.list_raw(
            self.target.api_version,
            self.target.kind,
            self.target.namespace,
            labels=self.target.labels,
            fields=self.target.fields,
        )
        with self.clock.held(), self._lock:
            if again:
                self.history.gap(Gap(since, self.clock.now(), "listed again"))
            self._adopt(items, source)
            self._version = version
        self._listed.set()
        self.clock.notify()

    def _adopt(self, items: list[Obj], source: str) -> None:
        """Turn a list into revisions: what is new, what changed, what is gone."""
        listed: dict[Key, Obj] = {key_of(item): item for item in items}
        for key, gone in sorted(self.history.current.items()):
            if key not in listed:
                self._take(Revision("DELETED", gone, self.clock.now(), source))
        for key, item in listed.items():
            known = self.history.current.get(key)
            if known is None:
                self._take(Revision("ADDED", item, self.clock.now(), source))
            elif known["metadata"]["resourceVersion"] != item["metadata"]["resourceVersion"]:
                self._take(Revision("MODIFIED", item, self.clock.now(), source))

    def _stream(self) -> bool:
        """Follow one connection to its end; True when anything arrived on it."""
        query = {
            "watch": "true",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
        }
        if self.target.labels:
            query["labelSelector"] = self.target.labels
        if self.target.fields:
            query["fieldSelector"] = self.target.fields
        path = self.cluster.path_of(
            self.target.api_version, self.target.kind, self.target.namespace
        )
        self.requests += 1
        response = self.cluster.stream(path, query, read_timeout=self.silence)
        self._response = response
        arrived = False
        try:
            for line in _lines(response):
                self._event(line)
                arrived = True
            self._note("the server ended the stream")
        except urllib3.exceptions.ReadTimeoutError:
            self._probe()
            arrived = True
        finally:
            self._response = None
            response.close()
        return arrived

    def _event(self, line: bytes) -> None:
        try:
            event = json.loads(line)
            change, obj = event["type"], event["object"]
        except (ValueError, KeyError, TypeError) as junk:
            raise _Restart(f"not a watch event: {line[:200]!r}") from junk
        if change == "ERROR":
            self._note(f"{obj.get('code')} {obj.get('reason')}: {obj.get('message')}")
            raise _Restart(obj.get("message", ""))
        with self.clock.held(), self._lock:
            if change != "BOOKMARK":
                self._take(Revision(change, obj, self.clock.now(), "event"))
            self._version = obj["metadata"]["resourceVersion"]
        self.clock.notify()

    def _take(self, revision: Revision) -> None:
        self.history.take(revision)
        for waiter in self._waiters:
            _offer(waiter, revision)

    def _probe(self) -> None:
        """The stream was silent for long: ask plainly, and say so when it had kept things back."""
        self.requests += 1
        items, version = self.cluster.list_raw(
            self.target.api_version,
            self.target.kind,
            self.target.namespace,
            labels=self.target.labels,
            fields=self.target.fields,
        )
        with self.clock.held(), self._lock:
            before = len(self.history.entries)
            since = self.clock.now() - self.silence
            self._adopt(items, "probe")
            if len(self.history.entries) > before:
                self.history.gap(Gap(since, self.clock.now(), "the stream was open but silent"))
            self._version = version
        self.clock.notify()

    def _version_lost(self) -> None:
        self._version = ""

    def _refuse(self, refusal: LabError) -> None:
        with self._lock:
            self.refused = refusal
        self._leave()
        self.clock.notify()

    def _note(self, why: str) -> None:
        if not self._stop.is_set():
            self.cuts.append(why)


class Observatory:
    """All the feeds of a run: asking twice for the same target gives the same feed."""

    def __init__(self, clock: Clock, *, silence: float = SILENCE) -> None:
        self.clock = clock
        self._silence = silence
        self._feeds: dict[tuple[str, Target], Feed] = {}

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
        """The shared feed of a kind in a namespace ("" = all); starts it when it is new."""
        target = Target(api_version, kind, namespace, labels, fields)
        known = self._feeds.get((cluster.name, target))
        if known is not None:
            return known
        feed = Feed(cluster, self.clock, target, silence=self._silence)
        feed.start()
        self._feeds[cluster.name, target] = feed
        return feed

    def feeds(self) -> list[Feed]:
        """Every feed started so far."""
        return list(self._feeds.values())

    def close(self) -> None:
        """Stop every feed."""
        for feed in self._feeds.values():
            feed.close()


def _offer(waiter: _Waiter, revision: Revision) -> None:
    if waiter.answer is not None or waiter.failure is not None:
        return
    try:
        if waiter.met(revision):
            waiter.answer = revision
    except Exception as bug:  # noqa: BLE001 - the predicate's bug is re-raised by its own wait
        waiter.failure = bug


def _lines(response: Any) -> Iterator[bytes]:
    """The complete lines of a streaming response, as they arrive."""
    rest = b""
    for chunk in response.stream(65536, decode_content=True):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line.strip())


def _final(refusal: LabError) -> bool:
    """Whether trying again cannot help: we are not let in."""
    return type(refusal).__name__ in {"Refused", "BadCertificate"}


def _cut(response: Any) -> None:
    """End a stream that another thread is reading."""
    try:
        response.shutdown()
    except (ValueError, OSError):  # already ended
        return
