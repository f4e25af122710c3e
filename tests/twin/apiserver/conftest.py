"""A real server on loopback in a thread of its own, and a raw client for it."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest
import urllib3
import websocket

from harness.twin.apiserver.builtin_kinds import BUILTIN, RBAC
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.resources import Column, Obj, Projection, Registry, Resource
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.store import Identities, Revisions, Store
from harness.twin.apiserver.tls import Authority

T = TypeVar("T")
EPOCH = 1767225600.0
WIDGET = Resource(
    group="example.org",
    version="v1",
    kind="Widget",
    plural="widgets",
    status=True,
    scale=True,
    short_names=("wd",),
    columns=(Column("Phase", "status.phase"), Column("Age", "metadata.creationTimestamp", "date")),
)


def _card(config: Obj) -> Obj | None:
    """A ConfigMap whose name begins with card-, shown as a kind of its own."""
    metadata = config["metadata"]
    if not metadata["name"].startswith("card-"):
        return None
    shown = {"name": metadata["name"].removeprefix("card-"), "namespace": metadata["namespace"]}
    return {"metadata": shown, "spec": config.get("data", {})}


CARD = Resource(
    group="cards.example.org",
    version="v1",
    kind="Card",
    plural="cards",
    projection=Projection(
        source=("v1", "ConfigMap"),
        show=_card,
        keep=lambda shown, _: {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": shown["metadata"],
            "data": shown.get("spec", {}),
        },
        stored_name=lambda name: f"card-{name}",
    ),
)


CONSOLES = Resource(
    group="subresources.kubevirt.io",
    version="v1",
    kind="VirtualMachineInstance",
    plural="virtualmachineinstances",
    stored=False,
)


@dataclass(eq=False)
class ScriptedLine:
    """A console that prints and ends when a test says so; records what was typed."""

    machine: str
    heard: Callable[[bytes], None]
    ended: Callable[[], None]
    typed: bytes = b""
    left: threading.Event = field(default_factory=threading.Event)

    def type(self, data: bytes) -> None:
        self.typed += data

    def leave(self) -> None:
        self.left.set()


@dataclass
class ScriptedBackend:
    """Answers what a test lays out; records what it was asked."""

    results: dict[str, ExecResult] = field(default_factory=dict)
    log: bytes = b"one\ntwo\n"
    asked: list[tuple[str, str, str, list[str], bytes]] = field(default_factory=list)
    queries: list[dict[str, str]] = field(default_factory=list)
    readers: list[Callable[[bytes], None]] = field(default_factory=list)
    lines: list[ScriptedLine] = field(default_factory=list)

    def reads_stdin(self, argv: list[str]) -> bool:
        return True

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], stdin: bytes
    ) -> ExecResult:
        self.asked.append((namespace, pod, container, argv, stdin))
        if argv[0] == "refused":
            raise ApiError(503, "the node does not answer")
        return self.results.get(argv[0], ExecResult(stdin, b"", 0))

    def logs(self, namespace: str, pod: str, container: str, query: Mapping[str, str]) -> bytes:
        self.queries.append(dict(query))
        return self.log

    def follow_logs(
        self, namespace: str, pod: str, container: str, heard: Callable[[bytes], None]
    ) -> Callable[[], None]:
        self.readers.append(heard)
        return lambda: self.readers.remove(heard)

    def console(
        self, namespace: str, name: str, heard: Callable[[bytes], None], ended: Callable[[], None]
    ) -> ScriptedLine:
        if name.startswith("refused"):
            raise ApiError(400, "VMI is not running")
        line = ScriptedLine(name, heard, ended)
        self.lines.append(line)
        return line


@dataclass
class Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Stream:
    """An open watch: one event at a time, a deadline on each."""

    def __init__(self, response: urllib3.BaseHTTPResponse) -> None:
        self.response = response
        self.status = response.status
        self._rest = b""
        self._chunks = response.stream(65536)

    def next(self) -> Obj:
        while b"\n" not in self._rest:
            self._rest += next(self._chunks)
        line, self._rest = self._rest.split(b"\n", 1)
        return json.loads(line)

    def take(self, count: int) -> list[Obj]:
        return [self.next() for _ in range(count)]

    def ends(self) -> bool:
        """Waits for the end of the stream; False where another event comes first."""
        return not self._rest and next(self._chunks, None) is None


class Cluster:
    """One server, its store and a client of it."""

    def __init__(self, authority: Authority) -> None:
        self.now = EPOCH
        self.authority = authority
        self.log = RequestLog()
        self.backend = ScriptedBackend()
        self.loop = asyncio.new_event_loop()
        self._contexts: dict[tuple[str, tuple[str, ...]], ssl.SSLContext] = {}
        self._pools: dict[tuple[str, tuple[str, ...]], urllib3.PoolManager] = {}
        self._thread = threading.Thread(target=self.loop.run_forever, daemon=True)
        self._thread.start()
        self.store = self.run(self._store)
        self.server = self.run(self._server)
        self.wait(self.server.start())

    def _store(self) -> Store:
        return Store(
            "twin",
            Registry((*BUILTIN, WIDGET, CARD, CONSOLES)),
            now=lambda: self.now,
            revisions=Revisions(),
            identities=Identities(1),
            history=64,
        )

    def _server(self) -> ApiServer:
        return ApiServer(self.store, self.backend, authority=self.authority, request_log=self.log)

    def wait(self, coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(10)

    def run(self, do: Callable[[], T]) -> T:
        """Runs something in the server's thread, where the store lives."""

        async def run() -> T:
            return do()

        return self.wait(run())

    def close(self) -> None:
        for pool in self._pools.values():
            pool.clear()
        self.wait(self.server.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()

    def context(self, user: str, groups: Sequence[str] = ()) -> ssl.SSLContext:
        key = (user, tuple(groups))
        if key not in self._contexts:
            self._contexts[key] = self.authority.client_context(user, groups)
        return self._contexts[key]

    def pool(self, user: str, groups: Sequence[str] = ()) -> urllib3.PoolManager:
        key = (user, tuple(groups))
        if key not in self._pools:
            context = self.context(user, groups)
            self._pools[key] = urllib3.PoolManager(ssl_context=context, retries=False, timeout=10)
        return self._pools[key]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        user: str = "admin",
        groups: Sequence[str] | None = None,
        **headers: str,
    ) -> Answer:
        """One request. A header's name is a keyword: ``content_type=``, ``authorization=``."""
        if groups is None:
            groups = ("system:masters",) if user == "admin" else ()
        named = {key.replace("_", "-"): value for key, value in headers.items()}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        if data is not None:
            named.setdefault("content-type", "application/json")
        answer = self.pool(user, groups).request(
            method, self.server.url + path, body=data, headers=named
        )
        return Answer(answer.status, answer.data, answer.headers)

    def get(self, path: str, **more: Any) -> Answer:
        return self.ask("GET", path, **more)

    def post(self, path: str, body: Any, **more: Any) -> Answer:
        return self.ask("POST", path, body, **more)

    def watch(self, path: str, **headers: str) -> Stream:
        answer = self.pool("admin", ("system:masters",)).request(
            "GET",
            self.server.url + path,
            preload_content=False,
            headers={key.replace("_", "-"): value for key, value in headers.items()},
        )
        return Stream(answer)

    def socket(self, path: str, *protocols: str) -> websocket.WebSocket:
        return websocket.create_connection(
            self.server.url.replace("https", "wss") + path,
            subprotocols=list(protocols),
            sslopt={"context": self.context("admin", ("system:masters",))},
            timeout=10,
        )

    def make(self, obj: Obj) -> Obj:
        return self.run(lambda: self.store.apply(obj, manager="test"))

    def config_map(self, name: str, namespace: str = "default", **data: str) -> Obj:
        return self.make(named("v1", "ConfigMap", name, namespace, data=data))

    def pod(self, name: str = "web", *containers: str) -> Obj:
        spec = {
            "nodeName": "node-1",
            "containers": [
                {"name": c, "image": "example.org/i:1"} for c in containers or ("main",)
            ],
        }
        made = self.make(named("v1", "Pod", name, "default", spec=spec))

        def runs(obj: Obj) -> None:
            obj["status"] = {"phase": "Running"}

        def edit() -> Obj:
            return self.store.edit(
                "v1", "Pod", "default", name, runs, manager="test", subresource="status"
            )

        return self.run(edit) if made else made

    def until(self, true: Callable[[], bool], seconds: float = 5.0) -> None:
        """Waits until something is so in the server's thread."""

        async def wait() -> None:
            loop = asyncio.get_running_loop()
            ends = loop.time() + seconds
            while not true():
                assert loop.time() < ends
                turn = loop.create_future()
                loop.call_later(0.005, turn.set_result, None)
                await turn

        self.wait(wait())

    def container_is(self, status: Obj, phase: str = "Running") -> None:
        """Gives pod web one container status."""

        def change(obj: Obj) -> None:
            obj["status"] = {"phase": phase, "containerStatuses": [status]}

        self.run(
            lambda: self.store.edit(
                "v1", "Pod", "default", "web", change, manager="test", subresource="status"
            )
        )

    def allow(self, user: str, *rules: Obj, namespace: str = "") -> None:
        """Lets a user do what the rules say: everywhere, or in one namespace."""
        kind = "Role" if namespace else "ClusterRole"
        self.make(named(f"{RBAC}/v1", kind, user, namespace, rules=list(rules)))
        self.make(
            named(
                f"{RBAC}/v1",
                f"{kind}Binding",
                user,
                namespace,
                roleRef={"apiGroup": RBAC, "kind": kind, "name": user},
                subjects=[{"kind": "User", "apiGroup": RBAC, "name": user}],
            )
        )


def named(api_version: str, kind: str, name: str, namespace: str = "", **rest: Any) -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **rest}


@pytest.fixture(scope="session")
def authority() -> Authority:
    return Authority()


@pytest.fixture
def cluster(authority: Authority) -> Iterator[Cluster]:
    made = Cluster(authority)
    made.make(named("v1", "Namespace", "default"))
    yield made
    made.close()
