"""The server's connections: aiohttp's, with a shorter way for plain requests.

aiohttp makes a task, three objects and a dozen calls of every request, half of what a small GET
costs. A request that arrives whole, while nothing else is going on in its connection, is answered
on the spot; all others (watches, upgrades, chunked or pipelined requests) take aiohttp's way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from aiohttp import web
from aiohttp.web_protocol import RequestHandler

from harness.twin.apiserver import bodies
from harness.twin.apiserver.calls import Answer, failure
from harness.twin.apiserver.chaos import Chaos
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.front import Ask, Front
from harness.twin.apiserver.http1 import END, Head, read_head, write_head
from harness.twin.apiserver.misbehave import reset

_Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Connections(web.Server):
    """An aiohttp server that makes ``Connection``s. ``front`` answers the plain requests.

    What a rule of ``chaos`` is about takes aiohttp's way, where it can be kept waiting.
    """

    def __init__(self, handler: _Handler, front: Front, chaos: Chaos) -> None:
        super().__init__(handler, handler_cancellation=True)
        self._front = front
        self._chaos = chaos

    def __call__(self) -> RequestHandler:
        """A protocol for a new connection."""
        return Connection(self, self._front, self._chaos, self._loop)

    def reset(self) -> None:
        """Ends every connection with a TCP reset."""
        for connection in self.connections:
            reset(connection.transport)


class Connection(RequestHandler):
    """One client's connection.

    ``_whole`` says that everything received so far ended where a request ended: only then is it
    known that the next byte begins one. ``_held`` is a request whose body is still coming in.
    """

    __slots__ = ("_chaos", "_front", "_head", "_held", "_passed", "_whole")

    def __init__(
        self,
        manager: Connections,
        front: Front,
        chaos: Chaos,
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        super().__init__(manager, loop=loop, access_log=None)  # type: ignore[arg-type]  # None: off
        self._front = front
        self._chaos = chaos
        self._whole = True
        self._passed = False
        self._held = bytearray()
        self._head: Head | None = None

    def data_received(self, data: bytes) -> None:
        """Takes what the client sent: answers a whole plain request, passes on the rest."""
        if not self._whole or not self._idle():
            self._pass(data, whole=False)
            return
        if self._held:
            self._held += data
            data = bytes(self._held) if self._is_complete() else b""
            if not data:
                return
            self._held.clear()
        end = data.find(END)
        head = read_head(data[:end]) if end > 0 else None
        if head is None or head.length > bodies.LIMIT:
            self._pass(data, whole=False)
            return
        missing = end + len(END) + head.length - len(data)
        if missing > 0:
            self._head = head
            self._held += data
        elif missing < 0 or not self._answer(head, data[end + len(END) :]):
            self._pass(data, whole=missing == 0)

    def _is_complete(self) -> bool:
        assert self._head is not None
        end = self._held.find(END) + len(END)
        return len(self._held) >= end + self._head.length

    def _idle(self) -> bool:
        """Whether aiohttp is waiting for a request, or has not been given any yet."""
        if self._force_close or self._close:
            return False
        waiter = self._waiter
        return not self._passed or (waiter is not None and not waiter.done() and not self._messages)

    def _pass(self, data: bytes, *, whole: bool) -> None:
        self._whole = self._whole and whole
        self._passed = True
        super().data_received(data)

    def _answer(self, head: Head, body: bytes) -> bool:
        """Answers a request that is one answer; False for one that opens a stream or is struck."""
        transport = self.transport
        if transport is None or self._paused:
            return False
        certificate = transport.get_extra_info("peercert")
        ask = Ask.of(head.method, head.target, head.headers, certificate)
        if self._front.stream(ask) is not None:
            return False
        if self._chaos.armed and self._chaos.concerns(self._front.verb(ask), ask.path):
            return False
        answer = self._answered(ask, body)
        headers = self._front.headers(answer)
        transport.write(write_head(answer.status, len(answer.body), headers) + answer.body)
        self._next_keepalive_close_time = self._loop.time() + self._keepalive_timeout
        return True

    def _answered(self, ask: Ask, body: bytes) -> Answer:
        try:
            return self._front.answer(ask, body)
        # The server's edge: what went wrong here is this server's own fault. It says so, loudly.
        except Exception as bug:  # noqa: BLE001
            self.log_exception("Error answering %s %s", ask.method, ask.path, exc_info=bug)
            return self._front.refuse(ask, internal(bug))

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """The Status for a request that is not HTTP, or that this server failed on."""
        refused = ApiError(status, message or "the request could not be read")
        if status >= 500:
            self.log_exception("Error handling %s", request.raw_path, exc_info=exc)
            refused = internal(exc)
        answer = failure(refused)
        headers = self._front.headers(answer)
        response = web.Response(status=answer.status, body=answer.body, headers=headers)
        response.force_close()
        return response


def internal(bug: BaseException | None) -> ApiError:
    """500 for a fault of this server's own."""
    return ApiError(500, f"Internal error occurred: {bug!r}")
