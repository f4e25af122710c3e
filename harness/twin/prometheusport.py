"""The tenant's Prometheus over HTTP on loopback: who has no token does not get in.

Plain HTTP, as behind a cluster's own ingress; the bearer token is what an authenticating proxy in
front of it takes (Prometheus itself knows none).
"""

from __future__ import annotations

import secrets

from aiohttp import web

from harness.twin.apiserver.requestlog import Request, RequestLog
from harness.twin.world.prometheus_api import PrometheusApi

NAME = "prometheus"
"""What the request log calls it."""
_LAST_WORD = 0.5  # real seconds that an answer may still take when the twin ends


class PrometheusPort:
    """One server's port. ``token`` lets a client in; it is of this twin alone."""

    def __init__(self, api: PrometheusApi, log: RequestLog) -> None:
        self._api, self._log = api, log
        self._runner: web.AppRunner | None = None
        self.token = secrets.token_urlsafe(24)
        self.url = ""

    async def open(self, port: int = 0) -> None:
        """Listen on loopback; ``url`` says where. Raises OSError."""
        app = web.Application()
        app.router.add_route("*", "/{page:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=_LAST_WORD)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", port).start()
        host, bound = self._runner.addresses[0][:2]
        self.url = f"http://{host}:{bound}"

    async def close(self) -> None:
        """Listen no more."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _answer(self, request: web.Request) -> web.Response:
        answer = await self._reply(request)
        agent = request.headers.get("User-Agent", "")
        method, query = request.method.lower(), request.query_string
        self._log.add(Request(NAME, method, request.path, query, answer.status, agent))
        return answer

    async def _reply(self, request: web.Request) -> web.Response:
        shown = request.headers.get("Authorization", "")
        if not secrets.compare_digest(shown.encode(), f"Bearer {self.token}".encode()):
            told = {"WWW-Authenticate": 'Bearer realm="prometheus"'}
            return web.Response(status=401, text="Unauthorized\n", headers=told)
        if request.method not in ("GET", "POST"):
            return web.Response(status=405, text="Method Not Allowed\n")
        given: dict[str, list[str]] = {}
        form = await request.post() if request.method == "POST" else {}
        for key, value in (*request.query.items(), *form.items()):
            if isinstance(value, str):
                given.setdefault(key, []).append(value)
        reply = self._api.answer(request.path, given)
        if reply is None:
            return web.Response(status=404, text="404 page not found\n")
        return web.json_response(reply.document, status=reply.status)
