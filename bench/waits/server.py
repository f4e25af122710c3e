"""The servers that the tools talk to: the twin's API server in this process, on real time.

Each tool has one of its own, so that what is counted is its own. A site knows when each state of
each pod was committed (CLOCK_MONOTONIC), what was asked, and how many bytes went each way.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

from bench.serving import NoBackend
from bench.waits.timelines import Step, Timeline
from harness.clock import WallClock
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.kubeconfigs import kubeconfig
from harness.twin.apiserver.requestlog import Request, RequestLog
from harness.twin.apiserver.resources import Obj, Registry
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.store import Identities, Options, Revisions, Store
from harness.twin.apiserver.tls import Authority

NAMESPACE = "waits"
BOOKMARKS = 0.5
"""Seconds between two bookmarks; a real server sends one a minute, and waits last minutes there."""

_CLOCK = WallClock()
_READY = {"Running": "True"}


class MeteringLoop(asyncio.SelectorEventLoop):
    """An event loop that counts the bytes of each port it listens on, as the peers see them.

    Counted above TLS: what the clients' libraries ask for and get, without the handshakes.
    """

    def __init__(self) -> None:
        super().__init__()
        self.carried: Counter[int] = Counter()

    async def create_server(self, protocol_factory: Any, *args: Any, **options: Any) -> Any:
        """As asyncio's, with a meter between each protocol and its transport."""
        return await super().create_server(
            lambda: _Metered(protocol_factory(), self.carried), *args, **options
        )


class _Metered(asyncio.Protocol):
    """Passes everything on, and counts."""

    def __init__(self, inner: asyncio.Protocol, carried: Counter[int]) -> None:
        self._inner = inner
        self._carried = carried
        self._port = 0
        self.eof_received = inner.eof_received
        self.connection_lost = inner.connection_lost
        self.pause_writing = inner.pause_writing
        self.resume_writing = inner.resume_writing

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._port = transport.get_extra_info("sockname")[1]
        self._inner.connection_made(_Counting(transport, self._port, self._carried))

    def data_received(self, data: bytes) -> None:
        self._carried[self._port] += len(data)
        self._inner.data_received(data)


class _Counting(asyncio.Transport):
    """A transport that counts what is written to it."""

    def __init__(self, inner: Any, port: int, carried: Counter[int]) -> None:
        super().__init__()
        self._inner = inner
        self._port = port
        self._carried = carried

    def __getattribute__(self, name: str) -> Any:
        own = ("_inner", "_port", "_carried", "write", "writelines")
        if name in own:
            return object.__getattribute__(self, name)
        return getattr(object.__getattribute__(self, "_inner"), name)

    def write(self, data: Any) -> None:
        self._carried[self._port] += len(data)
        self._inner.write(data)

    def writelines(self, list_of_data: Iterable[Any]) -> None:
        self.write(b"".join(list_of_data))


class _Heard(RequestLog):
    """A request log that passes on what comes in."""

    def __init__(self, heard: Callable[[Request], None]) -> None:
        super().__init__()
        self._heard = heard

    def add(self, request: Request) -> None:
        super().add(request)
        self._heard(request)


class Site:
    """One API server with its pods, in the running loop.

    ``anchor`` is the verb by which a tool follows an object (watch or get; "" is any): a pod's
    time begins with the first such request that is about it; ``heard`` is set when all pods' have
    begun. ``also`` are words that steps may
    use besides those of `_WRITES`.
    """

    def __init__(self, name: str, authority: Authority, *, anchor: str = "") -> None:
        self.name = name
        self.anchor = anchor
        self.also: dict[str, Callable[[Site, str], None]] = {}
        self.heard = asyncio.Event()
        self.commits: defaultdict[str, list[tuple[str, float]]] = defaultdict(list)
        self.log = _Heard(self._heard)
        self.store = Store(
            name,
            Registry(BUILTIN),
            now=_CLOCK.now,
            revisions=Revisions(),
            identities=Identities(1),
        )
        self._authority = authority
        self._waiting: dict[str, tuple[Step, ...]] = {}
        self._held: dict[str, tuple[Step, ...]] = {}
        self._gathered: dict[str, tuple[Step, ...]] | None = None
        self._timers: set[asyncio.TimerHandle] = set()
        self.store.apply(_object("Namespace", NAMESPACE, ""), manager="bench")
        self.server = ApiServer(self.store, NoBackend(), authority=authority, request_log=self.log)

    async def start(self, folder: Path, credentials: tuple[bytes, bytes]) -> Path:
        """Listen, and write a kubeconfig; its path."""
        await self.server.start()
        told = (self.server.url, self._authority.ca_pem, *credentials)
        file = folder / f"{self.name}.kubeconfig"
        file.write_text(json.dumps(kubeconfig({self.name: told}, self.name)), encoding="utf-8")
        self._bookmark()
        return file

    async def close(self) -> None:
        """Stop, also what was still to happen."""
        for timer in self._timers:
            timer.cancel()
        await self.server.close()

    @property
    def carried(self) -> int:
        """Bytes so far, both ways."""
        loop = asyncio.get_running_loop()
        assert isinstance(loop, MeteringLoop)
        return loop.carried[self.server.port]

    def asked(self) -> tuple[int, int]:
        """Requests so far: those about pods, and all others (discovery)."""
        entries = self.log.entries()
        pods = sum(_about_pods(entry.path) for entry in entries)
        return pods, len(entries) - pods

    def put(self, timeline: Timeline, *, begins: str = "Pending") -> None:
        """Lay out a pod; its steps are taken once the tool is heard of."""
        self.write(timeline.name, "create")
        if begins:
            self.write(timeline.name, begins)
        self.commits[timeline.name].clear()
        self._waiting[timeline.name] = timeline.steps

    def together(self) -> None:
        """Begin the pods' time once all of them were heard of, and not before."""
        self._gathered = {}

    def in_turn(self) -> None:
        """Begin the first pod's time as usual, that of each other when told to."""
        _, *others = self._waiting
        self._held = {name: self._waiting.pop(name) for name in others}

    def begin(self, name: str) -> None:
        """Begin the time of a pod that is held."""
        self._play(name, self._held.pop(name, ()))

    def write(self, name: str, do: str) -> None:
        """One change of one pod, or of the server: a phase, or a word of `_WRITES`."""
        at = _CLOCK.monotonic()
        made = _WRITES.get(do) or self.also.get(do) or _phase(do)
        made(self, name)
        self.commits[name].append((do, at))

    def status(self, name: str, change: Callable[[Obj], None]) -> None:
        """Edit a pod's status."""
        self.store.edit("v1", "Pod", NAMESPACE, name, change, manager="bench", subresource="status")

    def edit(self, name: str, change: Callable[[Obj], None]) -> None:
        """Edit a pod outside its status."""
        self.store.edit("v1", "Pod", NAMESPACE, name, change, manager="bench")

    def delete(self, name: str) -> None:
        """Delete a pod, at once."""
        resource = self.store.registry.by_kind("v1", "Pod")
        self.store.delete(resource, NAMESPACE, name, options=Options(manager="bench", grace=0))

    # -- time

    def _heard(self, request: Request) -> None:
        if not self._waiting or not _about_pods(request.path):
            return
        if self.anchor and _verb(request) != self.anchor:
            return
        named = _named(request)
        begun = {
            name: self._waiting.pop(name)
            for name in ([named] if named else list(self._waiting))
            if name in self._waiting
        }
        if not self._waiting:
            self.heard.set()
        if self._gathered is not None:
            self._gathered.update(begun)
            begun = {} if self._waiting else self._gathered
        for name, steps in begun.items():
            self._play(name, steps)

    def _play(self, name: str, steps: tuple[Step, ...]) -> None:
        if not steps:
            return

        def take() -> None:
            # what is to happen at one moment happens before anybody is served again
            together = 1 + next((n for n, s in enumerate(steps[1:]) if s.after), len(steps) - 1)
            for step in steps[:together]:
                self.write(name, step.do)
            self._play(name, steps[together:])

        self._later(steps[0].after, take)

    def _bookmark(self) -> None:
        self.server.bookmark()
        self._later(BOOKMARKS, self._bookmark)

    def _later(self, seconds: float, do: Callable[[], None]) -> None:
        def run() -> None:
            self._timers.discard(timer)
            do()

        timer = asyncio.get_running_loop().call_later(seconds, run)
        self._timers.add(timer)


def _phase(phase: str) -> Callable[[Site, str], None]:
    """A pod's phase, with the condition that goes with it."""

    def change(pod: Obj) -> None:
        ready = {"type": "Ready", "status": _READY.get(phase, "False")}
        pod["status"] = {
            "phase": phase,
            "observedGeneration": pod["metadata"]["generation"],
            "conditions": [{**ready, "observedGeneration": pod["metadata"]["generation"]}],
        }

    return lambda site, name: site.status(name, change)


def _create(site: Site, name: str) -> None:
    containers = [{"name": "main", "image": "example.org/app:1"}]
    pod = {**_object("Pod", name, NAMESPACE), "spec": {"containers": containers}}
    site.store.apply(pod, manager="bench")


def _new_image(site: Site, name: str) -> None:
    def change(pod: Obj) -> None:
        pod["spec"]["containers"][0]["image"] = "example.org/app:2"

    site.edit(name, change)


def _touch(site: Site, name: str) -> None:
    def change(pod: Obj) -> None:
        pod["metadata"]["labels"] = {"touched": "yes"}

    site.edit(name, change)


def _end_watches(site: Site, _: str) -> None:
    for watch in site.server.watches:
        watch.end()


_WRITES: dict[str, Callable[[Site, str], None]] = {
    "create": _create,
    "delete": Site.delete,
    "new-image": _new_image,
    "touch": _touch,
    "end-watches": _end_watches,
}


def _object(kind: str, name: str, namespace: str) -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def _about_pods(path: str) -> bool:
    return "/pods" in path


def _verb(request: Request) -> str:
    """The API's verb, also of a request that was never looked at (`half-open`)."""
    return "watch" if "watch=" in request.query else request.verb


def _named(request: Request) -> str:
    """The pod that a request is about; "" for one about all of them."""
    after = request.path.partition("/pods/")[2]
    if after:
        return after
    selector = parse_qs(request.query).get("fieldSelector", [""])[0]
    return selector.partition("metadata.name=")[2].lstrip("=").split(",")[0]
