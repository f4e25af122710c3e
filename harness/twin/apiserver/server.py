"""One simulated API server: its life, and the streams it keeps open.

Everything runs in one event loop: store and backend are called synchronously between two awaits,
so whoever else touches the store must do it from the loop's own thread.
"""

from __future__ import annotations

import asyncio

from aiohttp import web

from harness.twin.apiserver import bodies
from harness.twin.apiserver.access import Access, User
from harness.twin.apiserver.connections import Connections
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.execs import Backend, Containers
from harness.twin.apiserver.front import Ask, Front
from harness.twin.apiserver.negotiation import form
from harness.twin.apiserver.queries import parse
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.routing import Target
from harness.twin.apiserver.store import Store
from harness.twin.apiserver.tls import Authority
from harness.twin.apiserver.tokens import Tokens
from harness.twin.apiserver.watching import Watch, Watches, following

__all__ = ["ApiServer", "Backend", "ExecResult"]

VERSION = "v1.33.4"


class ApiServer:
    """One cluster's API over HTTPS.

    ``store`` holds its objects, ``backend`` runs its programs. Give ``version`` to say another
    Kubernetes version at /version. ``port`` and ``url`` are set by ``start``; ``tokens`` gives
    bearer tokens of service accounts.
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
        self.tokens = Tokens(store, authority.secret, authority.ca_pem)
        store.admission.append(self.tokens.fill)
        self._authority = authority
        self._access = Access(store)
        self._containers = Containers(store, backend)
        self._front = Front(
            store,
            self._containers,
            access=self._access,
            tokens=self.tokens,
            log=request_log,
            version=version,
        )
        self._watches = Watches(store)
        self._server: Connections | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one. OSError where the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = Connections(self._handle, self._front)
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

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        ask = Ask.of(request.method, request.raw_path, request.headers, certificate)
        target = self._front.stream(ask)
        try:
            if target is None:
                answer = self._front.answer(ask, await _body(request))
            else:
                return await self._stream(request, ask, target)
        except ApiError as refused:
            answer = self._front.refuse(ask, refused)
        headers = self._front.headers(answer)
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _stream(
        self, request: web.BaseRequest, ask: Ask, target: Target
    ) -> web.StreamResponse:
        user = self._front.admit(ask, target)
        if target.subresource == "exec":
            return await self._containers.exec(
                request, target, ask.query, lambda: self._front.record(ask, 101)
            )
        return await self._watch(request, ask, target, user)

    async def _watch(
        self, request: web.BaseRequest, ask: Ask, target: Target, user: User
    ) -> web.StreamResponse:
        wanted = form(ask.headers.get("Accept", ""))
        asked = following(target.resource, target.namespace, parse(ask.query), wanted)
        watch = self._watches.add(asked, user.name)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(asked.timeout, watch.end) if asked.timeout else None
        try:
            headers = self._front.headers(content_type="application/json")
            response = web.StreamResponse(headers=headers)
            self._front.record(ask, 200)
            await response.prepare(request)
            while data := await watch.batch():
                await response.write(data)
            await response.write_eof()
        finally:
            self._watches.remove(watch)
            if timer is not None:
                timer.cancel()
        return response


async def _body(request: web.BaseRequest) -> bytes:
    """The whole body. ApiError 413 for one that is larger than an API server takes."""
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
    return b"".join(parts)
