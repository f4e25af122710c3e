"""The twin's own small HTTP port: move time, show the state, plant a fault.

Plain HTTP on loopback, beside the Kubernetes APIs and never part of them:
``POST /clock/settle``, ``POST /clock/advance?until=EPOCH[&run=all]``, ``GET /state``,
``POST /faults/NAME``, ``GET /requests``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from aiohttp import web

from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.server import ApiServer
from harness.twin.engine import Engine


class Admin:
    """The admin port of one running twin."""

    def __init__(
        self,
        engine: Engine,
        servers: list[ApiServer],
        *,
        revision: Callable[[], int],
        describe: Callable[[], dict[str, Any]],
        plant: Callable[[str], None],
        requests: RequestLog,
    ) -> None:
        self._engine = engine
        self._servers = servers
        self._revision = revision
        self._describe = describe
        self._plant = plant
        self._requests = requests
        self._runner: web.AppRunner | None = None
        self.url = ""

    async def start(self, port: int = 0) -> None:
        """Listen on loopback; ``url`` says where."""
        app = web.Application()
        app.router.add_post("/clock/settle", self._settle)
        app.router.add_post("/clock/advance", self._advance)
        app.router.add_get("/state", self._state)
        app.router.add_post("/faults/{name}", self._fault)
        app.router.add_get("/requests", self._request_log)
        self._runner = web.AppRunner(app, access_log=None)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", port)
        await site.start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    async def close(self) -> None:
        """Stop listening."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _moment(self) -> web.Response:
        for server in self._servers:
            server.bookmark()
        return web.json_response({"now": self._engine.now, "revision": self._revision()})

    async def _settle(self, _: web.Request) -> web.Response:
        # what the last write set off at this very moment happens before anybody looks
        self._engine.run_until(self._engine.now)
        return self._moment()

    async def _advance(self, request: web.Request) -> web.Response:
        try:
            until = float(request.query["until"])
        except (KeyError, ValueError):
            return web.Response(status=400, text="until=EPOCH is needed, in seconds")
        if request.query.get("run") == "all":
            self._engine.run_until(until)
            return self._moment()
        before = self._deliveries()
        self._engine.run_until(until, stop=lambda: self._deliveries() != before)
        return self._moment()

    def _deliveries(self) -> int:
        return sum(server.deliveries for server in self._servers)

    async def _state(self, _: web.Request) -> web.Response:
        return web.json_response(self._describe())

    async def _fault(self, request: web.Request) -> web.Response:
        name = request.match_info["name"]
        try:
            self._plant(name)
        except KeyError as unknown:
            return web.Response(status=404, text=str(unknown.args[0]))
        return web.json_response({"planted": name})

    async def _request_log(self, _: web.Request) -> web.Response:
        return web.json_response(self._requests.summary())
