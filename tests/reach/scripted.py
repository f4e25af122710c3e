"""A throw-away API server for one kind (pods in "lab"): honest unless a test scripts it otherwise.

Raw sockets and threads, so that a test says which bytes go out in which chunk and how a
connection ends. Nothing of it is shared with the twin.
"""

from __future__ import annotations

import json
import socket
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlsplit

import yaml

from harness.clock import Moment, WallClock
from harness.reach.access import Timeouts, client_from_text
from harness.reach.history import Revision
from harness.reach.kube import Kube

Obj = dict[str, Any]
Script = Callable[["Stream"], None]
PATH = "/api/v1/namespaces/lab/pods"
DISCOVERY = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [{"name": "pods", "kind": "Pod", "namespaced": True}],
}


@dataclass(frozen=True)
class Written:
    """One committed change."""

    version: int
    change: str
    obj: Obj
    past: int = 0  # how often the cluster had been restored before


class Stream:
    """One open watch, written by a script in a thread of its own."""

    def __init__(self, server: Scripted, connection: socket.socket, query: dict[str, str]) -> None:
        self.server = server
        self.query = query
        self.after = int(query["resourceVersion"]) if query["resourceVersion"].isdigit() else 0
        self.past = server.restored
        self.due: deque[bytes] = deque()
        self.gone = False  # the client, or the whole server
        self.told = ""  # "end" or "cut": what the test wants of an honest stream
        self._connection = connection

    def open(self) -> None:
        head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
        self._connection.sendall((head + "Transfer-Encoding: chunked\r\n\r\n").encode())

    def raw(self, data: bytes) -> None:
        """One chunk."""
        self._connection.sendall(f"{len(data):x}\r\n".encode() + data + b"\r\n")

    def event(self, change: str, obj: Obj) -> None:
        self.raw(line(change, obj))

    def follow(self, limit: int = -1) -> None:
        """What an honest server does: everything after the version asked for, then a bookmark.

        Returns after ``limit`` lines, or when told to end.
        """
        with self.server.changed:
            if self.past != self.server.restored:
                self.end()  # the cluster was restored while this stream was being opened
                return
            self.due.extend(self.server.since(self.after))
            self.due.append(self.server.bookmark_line())
            self.server.following.append(self)
            self.server.changed.notify_all()
        try:
            while limit and self._wait():
                self.raw(self.due.popleft())
                limit -= 1
        finally:
            with self.server.changed:
                self.server.following.remove(self)
                self.server.changed.notify_all()
        if self.told == "cut":
            self.cut()
        if not self.gone:
            self.end()

    def _wait(self) -> bool:
        with self.server.changed:
            self.server.changed.wait_for(lambda: self.due or self.told or self.gone, 30)
            return bool(self.due) and not self.gone and self.told != "cut"

    def hold(self) -> None:
        """Stay open and say nothing, until the client goes."""
        self.server.until(lambda: self.gone, "the client to go", 30)

    def end(self) -> None:
        """As a server whose time for this watch is over."""
        self._connection.sendall(b"0\r\n\r\n")

    def cut(self) -> None:
        """As a network that dies."""
        self.gone = True


class Scripted:
    """The server. ``lists`` and ``watches`` hold scripts for the next requests of that sort."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.revision = 100
        self.step = 1  # from one version to the next
        self.restored = 0
        self.page = 0  # objects in a page of a list, 0 for all
        self.between_pages: Callable[[], object] = lambda: None
        self.pages: dict[str, tuple[str, list[Obj]]] = {}  # what continue tokens stand for
        self.written: list[Written] = []  # everything ever committed, of every past
        self.floor = 0  # watches from before this version get 410
        self.expire_by_http = False
        self.pods: dict[str, Obj] = {}
        self.log: list[Written] = []
        self.lists: deque[tuple[int, Obj]] = deque()
        self.watches: deque[Script | tuple[int, Obj]] = deque()
        self.always: Script | tuple[int, Obj] | None = None  # for every watch without a script
        self.seen: list[tuple[str, dict[str, str]]] = []
        self.following: list[Stream] = []
        self.open: set[socket.socket] = set()
        self.mute = False  # watches get no answer at all, not even headers
        self._uids = 0
        self._threads: list[threading.Thread] = []
        self.port = 0
        self.up()

    # -- the cluster -----------------------------------------------------------------------------

    def write(self, name: str, phase: str = "Pending", **more: Any) -> Obj:
        """Create or change a pod."""
        with self.changed:
            known = self.pods.get(name)
            self._uids += known is None
            self.revision += self.step
            uid = known["metadata"]["uid"] if known else f"uid-{self._uids}"
            meta = {"name": name, "namespace": "lab", "uid": uid}
            self.pods[name] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {**meta, "resourceVersion": str(self.revision)},
                "status": {"phase": phase, **more},
            }
            return self._commit("MODIFIED" if known else "ADDED", self.pods[name])

    def delete(self, name: str) -> Obj:
        with self.changed:
            self.revision += self.step
            last = self.pods.pop(name)
            meta = {**last["metadata"], "resourceVersion": str(self.revision)}
            return self._commit("DELETED", {**last, "metadata": meta})

    def _commit(self, change: str, obj: Obj) -> Obj:
        self.log.append(Written(self.revision, change, obj, self.restored))
        self.written.append(self.log[-1])
        for stream in self.following:
            stream.due.append(line(change, obj))
        self.changed.notify_all()
        return obj

    def since(self, version: int) -> list[bytes]:
        return [line(w.change, w.obj) for w in self.log if w.version > version]

    def restore(self, version: int) -> None:
        """Go back to a version, as from a backup: what came after it never was."""
        with self.changed:
            self.restored += 1
            self.log = [each for each in self.log if each.version <= version]
            self.pods = {}
            for each in self.log:
                name = each.obj["metadata"]["name"]
                self.pods.pop(name, None)
                if each.change != "DELETED":
                    self.pods[name] = each.obj
            self.revision = version
            self.tell("cut")

    def compact(self) -> None:
        """Forget the past: whoever resumes from before now has to list again."""
        with self.changed:
            self.floor = self.revision

    def bookmark_line(self) -> bytes:
        meta = {"resourceVersion": str(self.revision)}
        return line("BOOKMARK", {"apiVersion": "v1", "kind": "Pod", "metadata": meta})

    def bookmark(self) -> None:
        """One on every honest stream, behind what is queued there."""
        with self.changed:
            for stream in self.following:
                stream.due.append(self.bookmark_line())
            self.changed.notify_all()

    def tell(self, what: str) -> None:
        """ "end" or "cut" every honest stream that is open."""
        with self.changed:
            for stream in self.following:
                stream.told = what
            self.changed.notify_all()

    # -- the wire --------------------------------------------------------------------------------

    def up(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", self.port), reuse_port=False)
        self.port = self._listener.getsockname()[1]
        self._spawn(self._accept, self._listener)

    def down(self) -> None:
        """Refuse connections and cut those there are."""
        with self.changed:
            if self._listener.fileno() >= 0:
                self._listener.shutdown(socket.SHUT_RDWR)
                self._listener.close()
            for connection in self.open:
                with suppress(OSError):  # it may just have ended by itself
                    connection.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.down()
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive(), thread.name

    def until(self, holds: Callable[[], Any], what: str, limit: float = 5.0) -> None:
        """Wait until something holds of this server."""
        with self.changed:
            assert self.changed.wait_for(holds, limit), f"no sign of {what}"

    def asked(self, sort: str = "") -> int:
        """How many lists or watches were asked for."""
        return sum(1 for seen, _ in self.seen if sort in ("", seen))

    def _spawn(self, run: Callable[..., None], *args: Any) -> None:
        thread = threading.Thread(target=run, args=args, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with self.changed:
                if listener is not self._listener or listener.fileno() < 0:
                    connection.close()  # it came as the server went down
                    return
                self.open.add(connection)
            self._spawn(self._serve, connection)

    def _serve(self, connection: socket.socket) -> None:
        streams: list[Stream] = []
        try:
            with connection.makefile("rb") as incoming:
                while request := incoming.readline():
                    while incoming.readline() not in (b"\r\n", b""):
                        pass
                    self._answer(connection, request.decode().split()[1], streams)
        except OSError:
            pass
        finally:
            with self.changed:
                for stream in streams:
                    stream.gone = True
                self.open.discard(connection)
                self.changed.notify_all()
            connection.close()

    def _answer(self, connection: socket.socket, target: str, streams: list[Stream]) -> None:
        parts = urlsplit(target)
        query = {name: values[0] for name, values in parse_qs(parts.query).items()}
        if parts.path == "/api/v1":
            self._json(connection, 200, DISCOVERY)
        elif query.get("watch") == "true":
            stream = Stream(self, connection, query)
            script = self._script(stream)
            if isinstance(script, tuple):
                self._json(connection, *script)
            else:
                streams.append(stream)
                self._spawn(self._play, stream, script, connection)
        else:
            self._json(connection, *self._list(query))

    def _script(self, stream: Stream) -> Script | tuple[int, Obj]:
        with self.changed:
            self.seen.append(("watch", stream.query))
            self.changed.notify_all()
            if self.watches:
                return self.watches.popleft()
            if stream.after > self.revision:
                return too_large(stream.after, self.revision)
            if stream.after < self.floor:
                return expired() if self.expire_by_http else expire
            return self.always or Stream.follow

    def _list(self, query: dict[str, str]) -> tuple[int, Obj]:
        with self.changed:
            self.seen.append(("list", query))
            self.changed.notify_all()
            if self.lists:
                return self.lists.popleft()
            name = query.get("fieldSelector", "").partition("metadata.name=")[2]
            version, items = self.pages.pop(query.get("continue", ""), (str(self.revision), None))
            if items is None:
                items = [obj for each, obj in self.pods.items() if name in ("", each)]
            meta = {"resourceVersion": version}
            if self.page and len(items) > self.page:
                meta["continue"] = f"token-{len(self.seen)}"
                self.pages[meta["continue"]] = version, items[self.page :]
                items = items[: self.page]
                self.between_pages()
            return 200, {"kind": "PodList", "metadata": meta, "items": items}

    def _play(self, stream: Stream, script: Script, connection: socket.socket) -> None:
        try:
            if not self.mute:
                stream.open()
            script(stream)
            connection.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # the client went first

    def _json(self, connection: socket.socket, code: int, body: Obj) -> None:
        data = json.dumps(body).encode()
        head = f"HTTP/1.1 {code} Told\r\nContent-Type: application/json\r\n"
        connection.sendall(f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data)


@dataclass
class Brisk(WallClock):
    """The wall clock, with pauses between attempts written down and not made."""

    pauses: list[float] = field(default_factory=list)
    ahead: float = 0.0  # how far a test has put the runner's monotonic clock forward

    def __post_init__(self) -> None:
        super().__init__()

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead

    def back_off(self, seconds: float, stop: threading.Event) -> bool:
        self.pauses.append(seconds)
        return stop.wait(min(seconds, 0.002))


@dataclass
class Timetable:
    """A lab's virtual time over a scripted server: what happens when."""

    server: Scripted
    due: list[tuple[float, Callable[[], object]]] = field(default_factory=list)
    now: float = 1767225600.0

    def at(self, after: float, do: Callable[[], object]) -> None:
        self.due.append((1767225600.0 + after, do))
        self.due.sort(key=lambda pair: pair[0])

    def settle(self) -> Moment:
        self.server.bookmark()
        return Moment(self.now, self.server.revision)

    def advance(self, until: float) -> Moment:
        self.now = min([until, *(when for when, _ in self.due)])
        while self.due and self.due[0][0] <= self.now:
            self.due.pop(0)[1]()
        return self.settle()


@contextmanager
def scripted() -> Iterator[Scripted]:
    server = Scripted()
    try:
        yield server
    finally:
        server.close()


def kube(server: Scripted, clock: Any) -> Kube:
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "management",
        "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
        "users": [{"name": "u", "user": {"token": "sesame"}}],
        "contexts": [{"name": "management", "context": {"cluster": "c", "user": "u"}}],
    }
    client = client_from_text(yaml.safe_dump(config))
    return Kube("management", client, clock, timeouts=Timeouts(connect=5.0, read=5.0))


def line(change: str, obj: Obj) -> bytes:
    return json.dumps({"type": change, "object": obj}, ensure_ascii=False).encode() + b"\n"


def status(code: int, reason: str, message: str, **details: Any) -> Obj:
    told = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return {**told, "message": message, "details": details}


def refusal(code: int, reason: str, message: str, **details: Any) -> tuple[int, Obj]:
    return code, status(code, reason, message, **details)


def too_large(version: int, current: int) -> tuple[int, Obj]:
    said = f"Too large resource version: {version}, current: {current}"
    return refusal(504, "Timeout", said, retryAfterSeconds=1)


def expired() -> tuple[int, Obj]:
    return refusal(410, "Expired", "too old resource version")


def expire(stream: Stream) -> None:
    stream.event("ERROR", expired()[1])
    stream.end()


def end_at_once(stream: Stream) -> None:
    stream.end()


def cut_at_once(stream: Stream) -> None:
    stream.cut()


def phase(wanted: str, name: str = "") -> Callable[[Revision], bool]:
    return lambda r: r.obj["status"]["phase"] == wanted and name in ("", r.key[1])


def seen(feed: Any) -> list[tuple[str, str, str]]:
    """(change, name, phase) of the whole history, gaps as ("GAP", "", "")."""
    return [
        (e.change, e.key[1], e.obj["status"]["phase"])
        if isinstance(e, Revision)
        else ("GAP", "", "")
        for e in feed.history.entries
    ]
