"""A small API server that says exactly what a test tells it to, over real TLS and WebSockets."""

from __future__ import annotations

import asyncio
import json
import ssl
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trustme
import yaml
from aiohttp import web

from harness.reach.access import Timeouts, client_from_file
from harness.reach.kube import Kube
from tests.reach.serial_consoles import KINDS, VMI

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]

CORE = {
    "kind": "APIResourceList",
    "groupVersion": "v1",
    "resources": [
        {"name": "pods", "kind": "Pod", "namespaced": True},
        {"name": "pods/log", "kind": "Pod", "namespaced": True},
        {"name": "nodes", "kind": "Node", "namespaced": False},
        {"name": "namespaces", "kind": "Namespace", "namespaced": False},
    ],
}
LEASES = {
    "kind": "APIResourceList",
    "groupVersion": "coordination.k8s.io/v1",
    "resources": [{"name": "leases", "kind": "Lease", "namespaced": True}],
}


class FakeClock:
    """The lab's time stands where the test puts it; the runner's is real."""

    def __init__(self) -> None:
        self.at = 1767225600.0

    def now(self) -> float:
        return self.at

    def monotonic(self) -> float:
        return time.monotonic()


@dataclass
class Answering:
    """A server in a thread. ``routes`` maps "METHOD path" to a handler or a JSON document."""

    ca: trustme.CA
    directory: Path
    port: int = 0
    routes: dict[str, Handler | dict[str, Any]] = field(default_factory=dict)
    seen: list[tuple[str, str, bytes, dict[str, str]]] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def requests(self, path: str) -> int:
        return sum(1 for _, seen, _, _ in self.seen if seen.partition("?")[0] == path)

    async def answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.seen.append((request.method, request.path_qs, body, dict(request.headers)))
        found = self.routes.get(f"{request.method} {request.path}")
        if found is None:
            return web.json_response({"kind": "Nothing"}, status=404)
        return web.json_response(found) if isinstance(found, dict) else await found(request)

    def kubeconfig(self, *, trusted: trustme.CA | None = None, server: str = "") -> dict[str, Any]:
        ca = self.directory / "ca.pem"
        (trusted or self.ca).cert_pem.write_to_path(ca)
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "management",
            "clusters": [
                {
                    "name": "here",
                    "cluster": {"server": server or self.url, "certificate-authority": str(ca)},
                }
            ],
            "users": [{"name": "me", "user": {"token": "sesame"}}],
            "contexts": [
                {"name": name, "context": {"cluster": "here", "user": "me"}}
                for name in ("management", "tenant-lab")
            ],
        }

    def write(self, config: dict[str, Any]) -> Path:
        path = self.directory / "kubeconfig"
        path.write_text(yaml.safe_dump(config))
        return path


def status(code: int, reason: str, message: str, **details: Any) -> Handler:
    """A handler that refuses as the API does."""
    body = {"kind": "Status", "status": "Failure", "code": code, "reason": reason}

    async def refuse(request: web.Request) -> web.StreamResponse:
        return web.json_response({**body, "message": message, "details": details}, status=code)

    return refuse


@pytest.fixture
def refuse() -> Callable[..., Handler]:
    return status


@pytest.fixture
def serve() -> Callable[..., Any]:
    return served


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture(scope="session")
def authority() -> trustme.CA:
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


@pytest.fixture
def server(authority: trustme.CA, tmp_path: Path) -> Iterator[Answering]:
    answering = Answering(authority, tmp_path)
    answering.routes.update({"GET /api/v1": CORE, "GET /apis/coordination.k8s.io/v1": LEASES})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "localhost").configure_cert(context)
    with served(answering.answer, context) as port:
        answering.port = port
        yield answering


@pytest.fixture
def kube(server: Answering, clock: FakeClock) -> Iterator[Kube]:
    client = client_from_file(server.write(server.kubeconfig()))
    yield Kube("management", client, clock, timeouts=Timeouts(connect=5.0, read=5.0))
    client.rest_client.close()


class served:  # noqa: N801 - reads as `with served(...)`
    """Serve a handler on a loopback port, from a thread, while in the block."""

    def __init__(self, handler: Handler, context: ssl.SSLContext | None) -> None:
        self._handler = handler
        self._context = context
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> int:
        self._thread.start()
        return asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        # the transports' goodbyes are still to be said, in the loop's next few rounds
        self._loop.call_soon_threadsafe(self._loop.call_later, 0.05, self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> int:
        application = web.Application(client_max_size=1 << 28)
        application.router.add_route("*", "/{path:.*}", self._handler)
        self._runner = web.AppRunner(application, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context)
        await site.start()
        return int(self._runner.addresses[0][1])

    async def _stop(self) -> None:
        await self._runner.cleanup()


@dataclass
class Objects:
    """A few stored objects with resourceVersions, enough to refuse a stale write."""

    server: Answering
    stored: dict[str, dict[str, Any]] = field(default_factory=dict)
    version: int = 100

    def serve(self, collection: str, *names: str) -> Objects:
        self.server.routes[f"POST {collection}"] = self._create
        self.server.routes[f"GET {collection}"] = self._list
        for name in names:
            path = f"{collection}/{name}"
            methods = {"GET": self._get, "PUT": self._put, "DELETE": self._delete}
            for method, handler in {**methods, "PATCH": self._patch}.items():
                self.server.routes[f"{method} {path}"] = handler
        return self

    def put(self, path: str, obj: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = {**obj["metadata"], "resourceVersion": str(self.version)}
        self.stored[path] = {**obj, "metadata": metadata}
        return self.stored[path]

    async def _create(self, request: web.Request) -> web.StreamResponse:
        obj = await request.json()
        generated = f"{obj['metadata'].get('generateName')}{self.version}"
        name = obj["metadata"].setdefault("name", generated)
        path = f"{request.path}/{name}"
        if path in self.stored:
            return await status(409, "AlreadyExists", f'"{name}" already exists')(request)
        return web.json_response(self.put(path, obj), status=201)

    async def _list(self, request: web.Request) -> web.StreamResponse:
        items = [o for p, o in self.stored.items() if p.rpartition("/")[0] == request.path]
        wanted = dict(w.split("=") for w in request.query.get("labelSelector", "").split(",") if w)
        items = [o for o in items if wanted.items() <= o["metadata"].get("labels", {}).items()]
        return web.json_response(
            {"kind": "List", "metadata": {"resourceVersion": str(self.version)}, "items": items}
        )

    async def _get(self, request: web.Request) -> web.StreamResponse:
        found = self.stored.get(request.path)
        return web.json_response(found) if found else await self._absent(request)

    async def _put(self, request: web.Request) -> web.StreamResponse:
        obj = await request.json()
        found = self.stored.get(request.path)
        if found is None:
            return await self._absent(request)
        if obj["metadata"].get("resourceVersion") != found["metadata"]["resourceVersion"]:
            return await status(409, "Conflict", "the object has been modified")(request)
        return web.json_response(self.put(request.path, obj))

    async def _patch(self, request: web.Request) -> web.StreamResponse:
        found = self.stored[request.path]
        for key, value in json.loads(await request.text())["metadata"]["labels"].items():
            found["metadata"].setdefault("labels", {})[key] = value
        return web.json_response(self.put(request.path, found))

    async def _delete(self, request: web.Request) -> web.StreamResponse:
        if request.path not in self.stored:
            return await self._absent(request)
        return web.json_response(self.stored.pop(request.path))

    async def _absent(self, request: web.Request) -> web.StreamResponse:
        name = request.path.rpartition("/")[2]
        return await status(404, "NotFound", f'things "{name}" not found', name=name)(request)


@pytest.fixture
def vmi(server: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "apiVersion": "kubevirt.io/v1",
        "kind": "VirtualMachineInstance",
        "metadata": {"name": "vm", "namespace": "ns", "uid": "u-1"},
        "status": {"phase": "Running"},
    }
    server.routes["GET /apis/kubevirt.io/v1"] = KINDS
    server.routes[f"GET {VMI}"] = found
    return found


@pytest.fixture
def objects(server: Answering) -> Objects:
    return Objects(server)
