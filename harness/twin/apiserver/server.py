"""The HTTP front of one simulated API server, on aiohttp.

Everything runs in one event loop: store and backend are called synchronously between two awaits,
so whoever else touches the store must do it from the loop's own thread.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from harness.twin.apiserver import bodies
from harness.twin.apiserver.access import Access, Attributes, User
from harness.twin.apiserver.calls import (
    Answer,
    Call,
    attributes,
    document,
    failure,
    no_such_resource,
    not_allowed,
    unserved,
    verb_of,
)
from harness.twin.apiserver.connections import Connections
from harness.twin.apiserver.discovery import Discovery, version_page
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.execs import Backend, Containers
from harness.twin.apiserver.identity import Authenticator
from harness.twin.apiserver.negotiation import form
from harness.twin.apiserver.openapi import OpenApi
from harness.twin.apiserver.queries import Query, parse
from harness.twin.apiserver.requestlog import Request, RequestLog
from harness.twin.apiserver.reviews import Reviews
from harness.twin.apiserver.routing import Router, Target, segments
from harness.twin.apiserver.store import Store
from harness.twin.apiserver.tls import Authority
from harness.twin.apiserver.tokens import Tokens
from harness.twin.apiserver.verbs import Verbs
from harness.twin.apiserver.watching import Watch, Watches, following

__all__ = ["ApiServer", "Backend", "ExecResult"]

VERSION = "v1.33.4"
_HEALTH = ("healthz", "livez", "readyz")
_WITH_BODY = ("POST", "PUT", "PATCH", "DELETE")


class ApiServer:
    """One cluster's API over HTTPS.

    ``store`` holds its objects, ``backend`` runs its programs. Give ``version`` to say another
    Kubernetes version at /version. ``port`` and ``url`` are set by ``start``.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        authority: Authority,
        request_log: RequestLog,
        version: str = VERSION,
    ) -> None:
        self.store = store
        self.port = 0
        self.url = ""
        self._authority = authority
        self._log = request_log
        self._version = version
        self._router = Router(store.registry)
        self._discovery = Discovery(store.registry)
        self._openapi = OpenApi(self._discovery, version)
        self._access = Access(store)
        self.tokens = Tokens(store, authority.secret, authority.ca_pem)
        store.admission.append(self.tokens.fill)
        self._authenticator = Authenticator(self._access, self.tokens)
        self._verbs = Verbs(store, Reviews(self._access, self.tokens), self.tokens)
        self._containers = Containers(store, backend)
        self._watches = Watches(store)
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one. OSError where the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = Connections(self._handle, handler_cancellation=True, access_log=None)
        self._listener = await loop.create_server(
            self._server, host, port, ssl=self._authority.server_context(), backlog=512
        )
        self.port = self._listener.sockets[0].getsockname()[1]
        self.url = f"https://{host}:{self.port}"

    async def close(self) -> None:
        """Stop: no new connections, open watches end in good order, the store is let go."""
        if self._listener is None or self._server is None:
            return
        self._listener.close()
        for watch in self._watches.open:
            watch.end()
        self._server.pre_shutdown()
        await self._server.shutdown(1.0)
        await self._listener.wait_closed()
        self._listener = None
        self._watches.close()
        self._access.close()
        self.store.admission.remove(self.tokens.fill)

    def bookmark(self) -> None:
        """Every open watch that allows bookmarks gets one with the current revision."""
        self._watches.bookmark()

    @property
    def deliveries(self) -> int:
        """How many watch events (not bookmarks) were put on open watches so far."""
        return self._watches.deliveries

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The watches open now. A fault may ``end`` one, or ``refuse`` it with a 410."""
        return self._watches.open

    # -- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        path, _, query_string = request.raw_path.partition("?")
        target = self._router.target(path)
        entry = _Entry(request.method.lower(), path, query_string)
        try:
            user = self._user(request)
            query = parse(query_string)
            if target is None:
                return self._send(request, entry, self._page(request, path, user))
            entry.verb = verb_of(request.method, target, query)
            self._access.require(user, attributes(target, entry.verb, query))
            if entry.verb == "watch":
                return await self._watch(request, entry, target, query, user)
            if target.subresource in ("exec", "log"):
                return await self._container(request, entry, target, query)
            call = Call(
                target,
                entry.verb,
                user,
                query,
                request.headers.get("User-Agent", ""),
                form(request.headers.get("Accept", "")),
                await _body(request) if request.method in _WITH_BODY else b"",
                request.headers.get("Content-Type", ""),
            )
            return self._send(request, entry, self._verbs.answer(call))
        except ApiError as refused:
            return self._send(request, entry, failure(refused))

    def _user(self, request: web.BaseRequest) -> User:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        return self._authenticator.user(certificate, request.headers)

    def _send(self, request: web.BaseRequest, entry: _Entry, answer: Answer) -> web.Response:
        self._record(request, entry, answer.status)
        headers = {"Content-Type": answer.content_type, "Cache-Control": "no-cache, private"}
        if answer.headers:
            headers |= answer.headers
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    def _record(self, request: web.BaseRequest, entry: _Entry, status: int) -> None:
        agent = request.headers.get("User-Agent", "")
        self._log.add(Request(self.store.name, entry.verb, entry.path, entry.query, status, agent))

    # -- paths that are no resource

    def _page(self, request: web.BaseRequest, path: str, user: User) -> Answer:
        parts = segments(path)
        answer = self._document(parts, request.headers.get("Accept", ""))
        asked = Attributes(request.method.lower(), path="/" + "/".join(parts))
        self._access.require(user, asked if answer else unserved(parts, request.method))
        if answer is None:
            raise no_such_resource()
        if request.method not in ("GET", "HEAD"):
            raise not_allowed()
        return answer

    def _document(self, parts: tuple[str, ...], accept: str) -> Answer | None:
        if parts and parts[0] in _HEALTH and len(parts) == 1:
            return Answer(200, b"ok", "text/plain; charset=utf-8")
        if parts == ("version",):
            return document(version_page(self._version))
        if parts and parts[0] == "openapi":
            found = self._openapi.page(parts)
            return None if found is None else document(found)
        wanted = form(accept)
        aggregated = wanted.discovery and len(parts) == 1
        page = self._discovery.page(parts, aggregated=aggregated)
        if page is None:
            return None
        return document(
            page, content_type=wanted.content_type if aggregated else "application/json"
        )

    # -- streams

    async def _watch(
        self,
        request: web.BaseRequest,
        entry: _Entry,
        target: Target,
        query: Query,
        user: User,
    ) -> web.StreamResponse:
        wanted = form(request.headers.get("Accept", ""))
        asked = following(target.resource, target.namespace, query, wanted)
        watch = self._watches.add(asked, user.name)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(asked.timeout, watch.end) if asked.timeout else None
        try:
            response = web.StreamResponse(headers={"Content-Type": "application/json"})
            self._record(request, entry, 200)
            await response.prepare(request)
            while data := await watch.batch():
                await response.write(data)
            await response.write_eof()
        finally:
            self._watches.remove(watch)
            if timer is not None:
                timer.cancel()
        return response

    async def _container(
        self, request: web.BaseRequest, entry: _Entry, target: Target, query: Query
    ) -> web.StreamResponse:
        if target.subresource == "exec":
            query_string = request.raw_path.partition("?")[2]
            return await self._containers.exec(
                request, target, query_string, lambda: self._record(request, entry, 101)
            )
        if request.method != "GET":
            raise not_allowed()
        text = self._containers.logs(target, query)
        return self._send(request, entry, Answer(200, text, "text/plain"))


class _Entry:
    """What the request log will say of a request, as far as it is known."""

    __slots__ = ("path", "query", "verb")

    def __init__(self, verb: str, path: str, query: str) -> None:
        self.verb = verb
        self.path = path
        self.query = query


async def _body(request: web.BaseRequest) -> bytes:
    if not request.body_exists:
        return b""
    parts: list[bytes] = []
    size = 0
    while data := await request.content.readany():
        size += len(data)
        if size > bodies.LIMIT:
            raise ApiError(
                413,
                f"Request entity too large: limit is {bodies.LIMIT}",
                reason="RequestEntityTooLarge",
            )
        parts.append(data)
    return parts[0] if len(parts) == 1 else b"".join(parts)
