"""The server's connections: whatever goes wrong below the API is answered as a Status too."""

from __future__ import annotations

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from harness.twin.apiserver.calls import failure
from harness.twin.apiserver.errors import ApiError


class Connections(web.Server):
    """An aiohttp server that makes ``Connection``s."""

    def __call__(self) -> RequestHandler:
        """A protocol for a new connection."""
        return Connection(self, loop=self._loop, **self._kwargs)


class Connection(RequestHandler):
    """One client's connection."""

    __slots__ = ()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The Status for a request that is not HTTP, or that this server failed on."""
        if status >= 500:
            self.log_exception("Error handling request %s", request.raw_path, exc_info=exc)
            message = f"Internal error occurred: {exc!r}"
        answer = failure(ApiError(status, message or "the request could not be read"))
        response = web.Response(
            status=answer.status, body=answer.body, headers={"Content-Type": answer.content_type}
        )
        response.force_close()
        return response
