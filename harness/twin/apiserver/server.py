"""One simulated API server: its life, and the streams it keeps open.

Everything runs in one event loop: store and backend are called synchronously between two awaits,
so whoever else touches the store must do it from the loop's own thread.
"""

from __future__ import annotations

import asyncio
import ssl

from aiohttp import web

from harness.twin.apiserver import bodies, misbehave
from harness.twin.apiserver.access import Access, User
from harness.twin.apiserver.calls import Answer
from harness.twin.apiserver.chaos import REFUSALS, STREAMS, Chaos, Rule
from harness.twin.apiserver.connections import Connections
from harness.twin.apiserver.consoles import Consoles
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.execs import Backend, Containers, Harm, LetPass
from harness.twin.apiserver.followedlogs import FollowedLogs
from harness.twin.apiserver.front import Ask, Front
from harness.twin.apiserver.negotiation import form
from harness.twin.apiserver.queries import parse
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.routing import Target
from harness.twin.apiserver.store import Store
from harness.twin.apiserver.tls import Authority
from harness.twin.apiserver.tokens import Tokens
from harness.twin.apiserver.watching import Watch, Watches, following, lifetimes

__all__ = ["ApiServer", "Backend", "ExecResult"]

VERSION = "v1.33.4"


class ApiServer:
    """One cluster's API over HTTPS.

    ``store`` holds its objects, ``backend`` runs its programs. Give ``version`` to say another
    Kubernetes version at /version. ``port`` and ``url`` are set by ``start``; ``tokens`` gives
    bearer tokens of service accounts; ``chaos`` makes it misbehave.

    With ``watch_lifetime`` (real seconds, 0: for ever) a watch that asked for no time of its own
    ends by itself, in good order, somewhere between that and twice that, as
    ``--min-request-timeout`` has it in a real server (1800 s there). ``seed`` draws where.

    ``let_pass`` lets the lab's time pass while somebody waits for a program that stands still.
    """

    def __init__(
        self,
        store: Store,
        backend: Backend,
        *,
        authority: Authority,
        request_log: RequestLog,
        version: str = VERSION,
        watch_lifetime: float = 0,
        seed: int = 1,
        let_pass: LetPass | None = None,
    ) -> None:
        self.store = store
        self.port = 0
        self.url = ""
        self.tokens = Tokens(store, authority.secret, authority.ca_pem)
        store.admission.append(self.tokens.fill)
        self.chaos = Chaos(self._strike_whole)
        self._authority = authority
        self._tls: ssl.SSLContext = authority.server_context()
        self._expired = False
        self._lifetimes = lifetimes(watch_lifetime, f"{seed} {store.name}")
        self._access = Access(store)
        self._containers = Containers(store, backend, let_pass)
        self._consoles = Consoles(backend)
        self._followed = FollowedLogs(store, backend)
        self._front = Front(
            store,
            self._containers,
            access=self._access,
            tokens=self.tokens,
            log=request_log,
            version=version,
        )
        self._watches = Watches(store)
        self._stuck = misbehave.Stuck()
        self._server: Connections | None = None
        self._listener: asyncio.Server | None = None

    async def start(self, host: str = "127.0.0.1", port: int = 0) -> None:
        """Listen; port 0 takes a free one. OSError where the port is taken."""
        loop = asyncio.get_running_loop()
        self._server = Connections(self._handle, self._front, self.chaos)
        self._listener = await loop.create_server(
            self._server, host, port, ssl=self._tls, backlog=512
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
        self._consoles.close()
        self._followed.close()
        self._containers.running.close()
        self._stuck.release()
        self._server.pre_shutdown()
        await self._server.shutdown(1.0)
        # not the listener's wait_closed: since Python 3.12 it waits for clients' goodbyes, too
        self._listener = None
        self._watches.close()
        self._access.close()
        self.store.admission.remove(self.tokens.fill)

    def bookmark(self) -> None:
        """Every open watch that allows bookmarks gets one with the current revision."""
        self._watches.bookmark()

    @property
    def deliveries(self) -> int:
        """How much was put on open streams so far: watch events (not bookmarks), console output,
        followed log lines, output of programs that run on."""
        streams = (self._watches, self._consoles, self._followed, self._containers.running)
        return sum(stream.deliveries for stream in streams)

    async def flushed(self) -> None:
        """Wait until the clients of running programs were sent what there is."""
        await self._containers.running.flushed()

    @property
    def watches(self) -> tuple[Watch, ...]:
        """The watches open now. A fault may ``end`` one, or ``refuse`` it with a 410."""
        return self._watches.open

    # -- one request

    async def _handle(self, request: web.BaseRequest) -> web.StreamResponse:
        transport = request.transport
        certificate = transport.get_extra_info("peercert") if transport is not None else None
        ask = Ask.of(request.method, request.raw_path, request.headers, certificate)
        target = self._front.stream(ask)
        rule = None
        if self.chaos.armed:
            rule = self.chaos.strike(self._front.verb(ask), ask.path)
        try:
            if rule is not None:
                rule = await self._misbehave(request, ask, rule)
            if target is not None:
                return await self._stream(request, ask, target, rule)
            answer = self._front.answer(ask, await _body(request))
        except ApiError as refused:
            answer = self._front.refuse(ask, refused)
        except ConnectionResetError:
            return web.Response()  # the client of a stream went away; nobody is left to be told
        return self._response(request, answer, rule)

    async def _misbehave(self, request: web.BaseRequest, ask: Ask, rule: Rule) -> Rule | None:
        """What a rule does before anything is answered; gives it back if that was not all.

        ApiError where it refuses.
        """
        verb = self._front.verb(ask)
        if rule.what == "slow":
            await self._stuck.delay(request, rule.seconds)
            return None
        if rule.what == "half-open" and not (rule.after and verb in STREAMS):
            self._front.record(ask, 0)
            await self._stuck.silence(request, deaf=True)
        if rule.what in REFUSALS and not (verb == "watch" and (rule.after or rule.what == "gone")):
            raise self._front.refusal(ask, rule)
        return rule

    def _response(
        self, request: web.BaseRequest, answer: Answer, rule: Rule | None
    ) -> web.StreamResponse:
        headers = self._front.headers(answer)
        if rule is not None and rule.what == "drop":
            misbehave.cut_off(request.transport, answer, headers)
        if rule is not None and rule.what == "garbled":
            answer = misbehave.garbled(answer)
        return web.Response(status=answer.status, body=answer.body, headers=headers)

    async def _stream(
        self, request: web.BaseRequest, ask: Ask, target: Target, rule: Rule | None
    ) -> web.StreamResponse:
        user = self._front.admit(ask, target)
        if rule is not None and rule.what == "drop" and self._front.verb(ask) not in STREAMS:
            misbehave.reset(request.transport)
            return web.Response()
        if target.subresource == "console":
            return await self._consoles.attach(
                request, target, lambda: self._front.record(ask, 101)
            )
        if target.subresource == "log":
            return await self._follow(request, ask, target)
        if target.subresource != "exec":
            return await self._watch(request, ask, target, user, rule)
        harm = None
        if rule is not None:
            harm = Harm(rule.after, lambda: self._break(request, rule.what))
        return await self._containers.exec(
            request, target, ask.query, lambda: self._front.record(ask, 101), harm
        )

    async def _follow(
        self, request: web.BaseRequest, ask: Ask, target: Target
    ) -> web.StreamResponse:
        query = parse(ask.query)
        pod, container = self._containers.log(target, query)

        def prepare() -> web.StreamResponse:
            self._front.record(ask, 200)
            return web.StreamResponse(headers=self._front.headers(content_type="text/plain"))

        return await self._followed.serve(request, pod, container, query, prepare)

    async def _watch(
        self,
        request: web.BaseRequest,
        ask: Ask,
        target: Target,
        user: User,
        rule: Rule | None,
    ) -> web.StreamResponse:
        wanted = form(ask.headers.get("Accept", ""))
        asked = following(target.resource, target.namespace, parse(ask.query), wanted)
        watch = self._watches.add(asked, user.name, rule)
        lifetime = asked.timeout or next(self._lifetimes)
        loop = asyncio.get_running_loop()
        timer = loop.call_later(lifetime, watch.end) if lifetime else None
        try:
            headers = self._front.headers(content_type="application/json")
            response = web.StreamResponse(headers=headers)
            self._front.record(ask, 200)
            await response.prepare(request)
            while data := await watch.batch():
                await response.write(data)
            await self._break(request, watch.broken)
            if not watch.broken:
                await response.write_eof()
        finally:
            self._watches.remove(watch)
            if timer is not None:
                timer.cancel()
        return response

    # -- misbehaving

    async def _break(self, request: web.BaseRequest, what: str) -> None:
        """How a stream that was struck ends; in good order it is left to whoever asks."""
        if what == "drop":
            misbehave.reset(request.transport)
        elif what in ("silent", "half-open"):
            await self._stuck.silence(request, deaf=what == "half-open")

    def _strike_whole(self, rule: Rule | None) -> None:
        """Carries out a rule that strikes the whole server; None takes back what lasts."""
        if rule is not None and rule.what == "restart":
            self._restart()
            return
        if rule is None or rule.what == "skew":
            self.store.skew = rule.seconds if rule else 0.0
        expired = rule is not None and (self._expired or rule.what == "expired-certificate")
        if expired != self._expired:
            self._authority.renew(self._tls, expired=expired)
            self._expired = expired

    def _restart(self) -> None:
        self.store.forget()
        for watch in self._watches.open:
            watch.abandon()
        if self._server is not None:
            self._server.reset()


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
