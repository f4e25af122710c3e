"""The twin's own small HTTP port: move time, show the state, plant a fault.

Plain HTTP on loopback, beside the Kubernetes APIs and never part of them:
``POST /clock/settle``, ``POST /clock/advance?until=EPOCH[&run=all]``, ``GET /clock/seat?name=WHO``
(a seat, for as long as the connection lasts; `harness.twin.seats`), ``GET /state``,
``POST /faults/NAME``, ``GET /requests``, ``POST``, ``GET`` and ``DELETE /chaos``, ``GET /power``,
``POST /power/HOST``, ``GET`` and ``POST /links``. A refusal is a sentence with status 400 (what was
asked makes no sense), 404 (no such fault, or host), 409 (it does not fit the lab as it is) or 500
(the simulated lab failed; the sentence says at what).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.server import ApiServer
from harness.twin.chaosport import ChaosPort
from harness.twin.engine import Engine
from harness.twin.faults.catalogue import UnknownFault
from harness.twin.pace import LATEST, Pace, WorldFailed
from harness.twin.powerport import PowerPort
from harness.twin.seats import NoSuchSeat, Seats, TimeStandsStill

_LAST_WORD = 0.5  # real seconds that an advance under way may still take when the twin ends
_Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Admin:
    """The admin port of one running twin."""

    def __init__(
        self,
        engine: Engine,
        servers: list[ApiServer],
        *,
        pace: Pace,
        revision: Callable[[], int],
        describe: Callable[[], dict[str, Any]],
        plant: Callable[[str], None],
        requests: RequestLog,
        power: PowerPort | None = None,
    ) -> None:
        self._engine = engine
        self._servers = servers
        self._pace = pace
        self._revision = revision
        self._describe = describe
        self._plant = plant
        self._requests = requests
        self._power = power
        self._seats = Seats(self._move_on, revision)
        self._marked = -1
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; ``url`` says where."""
        app = web.Application(middlewares=[_say_what_failed])
        app.router.add_post("/clock/settle", self._settle)
        app.router.add_post("/clock/advance", self._advance)
        app.router.add_get("/clock/seat", self._seat)
        app.router.add_get("/state", self._state)
        app.router.add_post("/faults/{name}", self._fault)
        app.router.add_get("/requests", self._request_log)
        ChaosPort(self._servers).add_to(app)
        if self._power is not None:
            self._power.add_to(app)
        # who gives up waiting for an advance ends it
        self._runner = web.AppRunner(
            app, access_log=None, handler_cancellation=True, shutdown_timeout=_LAST_WORD
        )
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _moment(self, *, seated: bool = False) -> web.Response:
        # a watch that was opened since the last bookmarks has had its own
        if not (seated and self._marked == self._revision()):
            for server in self._servers:
                server.bookmark()
        self._marked = self._revision()
        # as of the bookmarks: another client may write while this one's bytes go out
        told = self._told()
        await self._flush()
        return web.json_response(told)

    def _told(self) -> dict[str, float]:
        return {"now": self._engine.now, "revision": self._revision()}

    async def _settle(self, request: web.Request) -> web.Response:
        self._seats.heard(request.query.get("seat", ""))
        # what the last write set off at this very moment happens before anybody looks
        self._pace.move(self._engine.now)
        self._seats.look_again()
        return await self._moment()

    async def _advance(self, request: web.Request) -> web.Response:
        until = _moment_asked(request)
        if request.query.get("run") == "all":
            await self._pace.glide(until)
        elif "seat" in request.query:
            await self._seats.ask(request.query["seat"], until, _revision_seen(request))
            return await self._moment(seated=True)
        else:
            self._move_on(until)
        self._seats.look_again()
        return await self._moment()

    def _move_on(self, until: float) -> None:
        # in one go: a request that came in between would make two equal runs differ
        before = self._deliveries()
        self._pace.move(until, stop=lambda: self._deliveries() != before)

    async def _seat(self, request: web.Request) -> web.StreamResponse:
        """A line with the seat and the time; the seat is left when the connection ends."""
        answer = web.StreamResponse()
        await answer.prepare(request)
        seat = self._seats.take(request.query.get("name", "somebody"))
        try:
            told = {"seat": seat, **self._told()}
            await answer.write(json.dumps(told).encode() + b"\n")
            await asyncio.get_running_loop().create_future()
        finally:
            self._seats.leave(seat)
        return answer

    async def _flush(self) -> None:
        """Whoever is told the time has been sent what programs wrote until then, unless it reads
        nothing."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_WORD):
                for server in self._servers:
                    await server.flushed()

    def _deliveries(self) -> int:
        return sum(server.deliveries for server in self._servers)

    async def _state(self, _: web.Request) -> web.Response:
        return web.json_response(self._describe())

    async def _fault(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        self._plant(name)
        return web.json_response({"planted": name})

    async def _request_log(self, _: web.Request) -> web.Response:
        return web.json_response(self._requests.summary())


def _moment_asked(request: web.Request) -> float:
    try:
        until = float(request.query["until"])
    except (KeyError, ValueError):
        until = math.nan
    if not until <= LATEST:  # not a number, too
        raise web.HTTPBadRequest(
            text="time moves to until=EPOCH, in seconds, at the latest to 2099-01-01"
        )
    return until


def _revision_seen(request: web.Request) -> int:
    try:
        return int(request.query["seen"])
    except (KeyError, ValueError):
        raise web.HTTPBadRequest(
            text="who asks from a seat says what it has seen: seen=REVISION"
        ) from None


@web.middleware
async def _say_what_failed(request: web.Request, handler: _Handler) -> web.StreamResponse:
    try:
        return await handler(request)
    except UnknownFault as unknown:
        return web.Response(status=404, text=str(unknown))
    except ApiError as refused:
        return web.Response(status=409, text=refused.message)
    except NoSuchSeat as unknown:
        return web.Response(status=404, text=str(unknown))
    except TimeStandsStill as still:
        return web.Response(status=409, text=str(still))
    except WorldFailed as failed:
        return web.Response(status=500, text=str(failed))
