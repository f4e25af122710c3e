"""Watches: where a stream begins, what it is sent, and when it ends.

Everything here is synchronous and runs in the server's event loop; only ``Watch.batch`` waits.
A stream's events and bookmarks stand in one queue, so a bookmark never overtakes an event.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from harness.twin.apiserver.chaos import REFUSALS, Rule
from harness.twin.apiserver.errors import UNKNOWN, ApiError, invalid_options
from harness.twin.apiserver.misbehave import refusal
from harness.twin.apiserver.negotiation import PLAIN, Form
from harness.twin.apiserver.queries import Query, boolean, number
from harness.twin.apiserver.resources import Obj, Resource
from harness.twin.apiserver.selectors import matcher
from harness.twin.apiserver.store import Change, Store
from harness.twin.apiserver.tables import partial, table

_INITIAL_END = {"k8s.io/initial-events-end": "true"}
_MATCH = "NotOlderThan"
MOST_QUEUED: Final = 8192
"""Events and bookmarks that wait for a client to read; one that lags further is let go."""
Lines = dict[tuple[str, str, str, bool], bytes]


@dataclass(frozen=True, slots=True)
class Following:
    """What a client asked to watch. ``timeout`` is in seconds of wall-clock, None for no end."""

    resource: Resource
    namespace: str = ""
    labels: str = ""
    fields: str = ""
    version: str = ""
    initial: bool | None = None
    bookmarks: bool = False
    timeout: int | None = None
    form: Form = PLAIN
    include: str = ""


def following(resource: Resource, namespace: str, query: Query, form: Form) -> Following:
    """Reads a watch's parameters. ApiError 422 for a combination the API forbids, 400 for text
    that does not parse.
    """
    initial = boolean(query, "sendInitialEvents") if "sendInitialEvents" in query else None
    match = query.get("resourceVersionMatch", "")
    if initial is None and match:
        raise _forbidden(
            "resourceVersionMatch",
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )
    if initial is not None and match != _MATCH:
        raise _forbidden(
            "resourceVersionMatch",
            f"sendInitialEvents requires setting resourceVersionMatch to {_MATCH}",
        )
    return Following(
        resource,
        namespace,
        labels=query.get("labelSelector", ""),
        fields=query.get("fieldSelector", ""),
        version=query.get("resourceVersion", ""),
        initial=initial,
        bookmarks=boolean(query, "allowWatchBookmarks"),
        timeout=number(query, "timeoutSeconds"),
        form=form,
        include=query.get("includeObject", ""),
    )


def revision_of(version: str) -> int:
    """A resourceVersion as a number, 0 for none. ApiError 500, as in the API, for other text."""
    if not version:
        return 0
    if not version.isascii() or not version.isdigit():
        text = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": '
        raise ApiError(500, f"resourceVersion: {text}invalid syntax", reason=UNKNOWN)
    return int(version)


def lifetimes(shortest: float, seed: str) -> Iterator[float]:
    """After how many seconds each watch is to end: up to twice the shortest; 0 for never."""
    drawn = random.Random(seed)
    while True:
        yield shortest * (1 + drawn.random())


class Watch:
    """One open watch. ``asked`` says what it follows, ``user`` who opened it.

    ``sent`` counts the events (not bookmarks) put on it; those up to revision ``after`` it leaves
    out. ``harm`` is the rule of chaos that is to
    strike it; ``broken`` says, once it is ended, that it does not end in good order: "drop" or
    "half-open".
    """

    def __init__(self, asked: Following, user: str, store: Store, harm: Rule | None = None) -> None:
        self.asked = asked
        self.user = user
        self.sent = 0
        self.after = 0
        self.ended = False
        self.broken = ""
        self._harm = harm
        self._silent = False
        self._garbles = False
        self._most: int | None = None
        self._store = store
        self._chosen = matcher(asked.resource, asked.labels, asked.fields)
        self._pending: list[bytes] = []
        self._wake = asyncio.Event()
        self._headed = False

    def covers(self, obj: Obj | None) -> bool:
        """Whether an object is among those this watch follows."""
        if obj is None:
            return False
        namespace = self.asked.namespace
        if namespace and obj["metadata"].get("namespace") != namespace:
            return False
        return self._chosen is None or self._chosen(obj)

    def offer(self, change: Change, lines: Lines) -> bool:
        """Puts a change on the stream if the watch follows it; True if it was put there.

        An object that enters the selection is ADDED, one that leaves it DELETED. ``lines`` keeps
        the change's encodings for the other watches that follow it.
        """
        if change.revision <= self.after:
            return False
        before, after = self.covers(change.old), self.covers(change.obj)
        if change.type == "DELETED":
            kind = "DELETED" if before or after else ""
        else:
            kind = _CROSSING[before, after]
        if not kind:
            return False
        obj = change.obj
        if kind == "DELETED" and change.type != "DELETED" and change.old is not None:
            obj = _dated(change.old, change.revision)
        return self._event(kind, obj, lines)

    def bookmark(self, revision: int, annotations: Obj | None = None) -> None:
        """Puts a bookmark behind what is queued, if the client allows bookmarks."""
        if self.asked.bookmarks and not self.ended:
            self._put(self._line("BOOKMARK", _bare(self.asked.resource, revision, annotations)))

    def begin(self, objects: Iterable[Obj]) -> None:
        """Puts the objects that are there now on the stream."""
        for obj in objects:
            self._event("ADDED", obj, {})

    def bound(self) -> None:
        """From now on, a client that lags by more than MOST_QUEUED is let go."""
        self._most = len(self._pending) + MOST_QUEUED

    def misbehave(self) -> None:
        """Lets the rule strike, if as many events were sent as it leaves alone."""
        harm = self._harm
        if harm is None or self.sent < harm.after or self.ended:
            return
        self._harm = None
        if harm.what in REFUSALS:
            self.refuse(self._refusal(harm))
        elif harm.what == "silent":
            self._silent = True
        elif harm.what == "garbled":
            self._garbles = True
        else:
            self.broken = "" if harm.what == "cut" else harm.what
            self.end()

    def refuse(self, error: ApiError) -> None:
        """Ends the stream with an ERROR event, as a version that has expired does."""
        self._put(b'{"type":"ERROR","object":' + _json(error.status()) + b"}\n")
        self.end()

    def end(self) -> None:
        """Ends the stream in good order, after what is queued."""
        self.ended = True
        self._wake.set()

    def abandon(self) -> None:
        """Forgets what is queued, and waits for the connection to go."""
        self.ended = True
        self._pending.clear()

    async def batch(self) -> bytes:
        """Everything queued so far, waiting for the first of it; b"" once the watch has ended."""
        while not self._pending and not self.ended:
            self._wake.clear()
            await self._wake.wait()
        data = b"".join(self._pending)
        self._pending.clear()
        return data

    def _refusal(self, harm: Rule) -> ApiError:
        if harm.what != "gone":
            return refusal(harm, lambda: ApiError(403, f'User "{self.user}" may no longer watch'))
        if not self.sent and self.asked.version:
            now = self._store.revision
            return ApiError(410, f"too old resource version: {self.asked.version} ({now})")
        return ApiError(410, "The resourceVersion for the provided watch is too old.")

    def _event(self, kind: str, obj: Obj, lines: Lines) -> bool:
        key = (self.asked.form.transform, self.asked.include, kind, self._headed)
        line = lines.get(key)
        if line is None:
            line = lines[key] = self._line(kind, obj)
        self._headed = True
        if self._garbles:
            self._garbles = False
            line = line[: len(line) // 2] + b"\n"
        if not self._put(line):
            return False
        self.sent += 1
        self.misbehave()
        return True

    def _put(self, line: bytes) -> bool:
        if self.ended or self._silent:
            return False
        if self._most is not None and len(self._pending) >= self._most:
            # as a real API server does with a watcher whose buffer stays full: it may resume
            self.end()
            return False
        self._pending.append(line)
        self._wake.set()
        return True

    def _line(self, kind: str, obj: Obj) -> bytes:
        asked = self.asked
        if asked.form.table:
            metadata = {"resourceVersion": obj["metadata"]["resourceVersion"]}
            body = _json(
                table(
                    asked.resource,
                    [obj],
                    now=self._store.now(),
                    metadata=metadata,
                    include=asked.include,
                    headed=not self._headed,
                )
            )
        elif asked.form.partial:
            body = _json(partial(obj))
        else:
            body = self._store.encoded(obj) if kind != "BOOKMARK" else _json(obj)
        return b'{"type":"%b","object":%b}\n' % (kind.encode(), body)


# (selected before, selected after) -> what the change is to the watch
_CROSSING = {
    (False, False): "",
    (False, True): "ADDED",
    (True, True): "MODIFIED",
    (True, False): "DELETED",
}


class Watches:
    """The open watches of one server, fed from its store.

    ``deliveries`` counts the events (not bookmarks) put on open watches so far.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._by_kind: dict[tuple[str, str, str], list[Watch]] = {}
        self.deliveries = 0
        for resource in store.registry:
            _keep_shown(store, resource)
        self.close: Callable[[], None] = store.subscribe(self._changed)

    @property
    def open(self) -> tuple[Watch, ...]:
        """The watches that are open now."""
        return tuple(watch for watches in self._by_kind.values() for watch in watches)

    def add(self, asked: Following, user: str, harm: Rule | None = None) -> Watch:
        """Opens a watch with its first events queued.

        ApiError 400 for a selector. A version that the history no longer holds is no error here:
        the stream says so itself. One that is still to come is waited for, as in the API;
        504 for it only where it was asked for with what is there now. ``harm`` is the rule
        of chaos that is to strike it.
        """
        watch = Watch(asked, user, self._store, harm)
        _keep_shown(self._store, asked.resource)
        revision = watch.after = revision_of(asked.version)
        if asked.initial:
            check_reached(self._store, revision)
        watch.misbehave()
        try:
            self._begin(watch, revision)
        except ApiError as expired:
            if expired.code != 410:
                raise
            watch.refuse(expired)
        watch.bound()
        self.deliveries += watch.sent
        self._by_kind.setdefault(_key(asked.resource), []).append(watch)
        return watch

    def remove(self, watch: Watch) -> None:
        """Forgets a watch whose stream is over."""
        watch.ended = True
        self._by_kind[_key(watch.asked.resource)].remove(watch)

    def bookmark(self) -> None:
        """A bookmark with the current revision on every watch that allows them."""
        for watch in self.open:
            watch.bookmark(self._store.revision)

    def _begin(self, watch: Watch, revision: int) -> None:
        asked = watch.asked
        if asked.initial or (asked.initial is None and not revision):
            listing = self._store.list(
                asked.resource, asked.namespace, labels=asked.labels, fields=asked.fields
            )
            watch.begin(listing.items)
            if asked.initial:
                watch.bookmark(self._store.revision, _INITIAL_END)
        elif 0 < revision <= self._store.revision:
            for change in self._store.since(asked.resource, revision):
                watch.offer(change, {})
            # who resumes learns at once how far it has come, not at the next round of bookmarks
            watch.bookmark(self._store.revision)

    def _changed(self, change: Change) -> None:
        watches = self._by_kind.get(_key(change.resource))
        if not watches:
            return
        lines: Lines = {}
        for watch in watches:
            if not watch.ended and watch.offer(change, lines):
                self.deliveries += 1


def check_reached(store: Store, revision: int) -> None:
    """ApiError 504 for a revision that the store has not come to."""
    if revision > store.revision:
        raise ApiError(
            504,
            f"Timeout: Too large resource version: {revision}, current: {store.revision}",
            details={
                "causes": [
                    {"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}
                ],
                "retryAfterSeconds": 1,
            },
        )


def _keep_shown(store: Store, resource: Resource) -> None:
    """Has the store follow a projection: it begins to when the kind is first read."""
    if resource.projection is not None:
        store.list(resource, limit=1)


def _key(resource: Resource) -> tuple[str, str, str]:
    return resource.group, resource.version, resource.plural


def _dated(obj: Obj, revision: int) -> Obj:
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": str(revision)}}


def _bare(resource: Resource, revision: int, annotations: Obj | None) -> Obj:
    metadata: Obj = {"resourceVersion": str(revision)}
    if annotations:
        metadata["annotations"] = annotations
    return {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def _forbidden(field: str, why: str) -> ApiError:
    return invalid_options("ListOptions", field, f"Forbidden: {why}")
