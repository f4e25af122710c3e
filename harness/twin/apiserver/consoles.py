"""Serial consoles over WebSockets, as KubeVirt's subresource API serves them.

Subprotocol ``plain.kubevirt.io``: raw bytes both ways, no channels (uptime_and_diagnosis.md
section 4). What was printed before a client attached is not shown. A machine has one reader: a
second attachment ends the first without a close frame, as virt-handler does (KubeVirt
pkg/virt-handler/rest/console.go), so its client sees a connection that is simply over.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from aiohttp import WSMessage, WSMsgType, web

from harness.twin.apiserver.calls import not_allowed
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.routing import Target

PLAIN = "plain.kubevirt.io"
_MOST_TYPED = 1024 * 1024  # bytes in one message
_LEFT = frozenset({WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR})


class Line(Protocol):
    """One machine's serial line, for the client that is attached to it."""

    @property
    def machine(self) -> str:
        """Identity of the machine: of two attachments to one, the later ends the earlier."""

    def type(self, data: bytes) -> None:
        """Give the machine what the client typed."""

    def leave(self) -> None:
        """Hear no more of it; leaving twice is fine."""


class Backend(Protocol):
    """Where the consoles are; given by the world."""

    def console(
        self,
        namespace: str,
        name: str,
        heard: Callable[[bytes], None],
        ended: Callable[[], None],
    ) -> Line:
        """Attach to a VMI's console. ``heard`` gets what it prints from now on, ``ended`` is
        called when the machine is no more. ApiError for one that has no console to attach to."""


class Pieces:
    """What is to be sent, in the order in which it came; ``None`` is the end."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[WSMsgType, bytes]] = deque()
        self._ended = False
        self._news = asyncio.Event()

    def add(self, data: bytes, kind: WSMsgType = WSMsgType.BINARY) -> None:
        """One more piece; after the end it is dropped."""
        if not self._ended:
            self._waiting.append((kind, data))
            self._news.set()

    def end(self) -> None:
        """Nothing comes after what is here."""
        self._ended = True
        self._news.set()

    async def next(self) -> tuple[WSMsgType, bytes] | None:
        """The next piece; pieces of the same kind that are there already come as one."""
        while not self._waiting:
            if self._ended:
                return None
            self._news.clear()
            await self._news.wait()
        kind, data = self._waiting.popleft()
        more = [data]
        while kind is WSMsgType.BINARY and self._waiting and self._waiting[0][0] is kind:
            more.append(self._waiting.popleft()[1])
        return kind, b"".join(more)


class Consoles:
    """The attached clients of one server.

    ``deliveries`` counts pieces of output given to them, and ends of machines.
    """

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self._readers: dict[str, Pieces] = {}
        self.deliveries = 0

    def close(self) -> None:
        """End every attachment."""
        for pieces in self._readers.values():
            pieces.end()

    async def attach(
        self, request: web.BaseRequest, target: Target, upgraded: Callable[[], None]
    ) -> web.StreamResponse:
        """Attach a client until it leaves, another one comes, or the machine is no more.

        ``upgraded`` is called once the request is accepted; ApiError before that.
        """
        _check_upgrade(request)
        pieces = Pieces()
        line = self._backend.console(
            target.namespace,
            target.name,
            lambda data: self._hear(pieces, data),
            lambda: self._end(pieces),
        )
        before = self._readers.get(line.machine)
        if before is not None:
            before.end()
        self._readers[line.machine] = pieces
        try:
            return await self._talk(request, line, pieces, upgraded)
        finally:
            line.leave()
            if self._readers.get(line.machine) is pieces:
                del self._readers[line.machine]

    def _end(self, pieces: Pieces) -> None:
        self.deliveries += 1
        pieces.end()

    def _hear(self, pieces: Pieces, data: bytes) -> None:
        self.deliveries += 1
        pieces.add(data)

    async def _talk(
        self, request: web.BaseRequest, line: Line, pieces: Pieces, upgraded: Callable[[], None]
    ) -> web.StreamResponse:
        socket = web.WebSocketResponse(
            protocols=(PLAIN,), compress=False, autoping=False, max_msg_size=_MOST_TYPED
        )
        await socket.prepare(request)
        upgraded()
        async with asyncio.TaskGroup() as tasks:
            typing = tasks.create_task(_listen(socket, line, pieces))
            while (piece := await pieces.next()) is not None:
                await _send(socket, *piece)
            typing.cancel()
        if request.transport is not None:
            request.transport.close()
        return socket


def _check_upgrade(request: web.BaseRequest) -> None:
    if request.method != "GET":
        raise not_allowed()
    if request.headers.get("Upgrade", "").lower() != "websocket":
        raise ApiError(400, "websocket: the client is not using the websocket protocol")
    offered = ",".join(request.headers.getall("Sec-WebSocket-Protocol", []))
    if PLAIN not in {name.strip() for name in offered.split(",")}:
        raise ApiError(400, f"unable to upgrade: none of {offered!r} is {PLAIN}")


async def _listen(socket: web.WebSocketResponse, line: Line, pieces: Pieces) -> None:
    """Take in what the client sends, until it leaves.

    A ping is answered behind the output that came before it: its pong tells the client that it
    has everything printed until then. A real server answers at once, and the pong tells nothing.
    """
    while True:
        message: WSMessage = await socket.receive()
        if message.type in _LEFT:
            pieces.end()
            return
        if message.type is WSMsgType.PING:
            pieces.add(bytes(message.data), WSMsgType.PONG)
        elif message.type is WSMsgType.BINARY:
            line.type(message.data)
        elif message.type is WSMsgType.TEXT:
            line.type(message.data.encode())


async def _send(socket: web.WebSocketResponse, kind: WSMsgType, data: bytes) -> None:
    if socket.closed:
        return
    if kind is WSMsgType.PONG:
        await socket.pong(data)
    else:
        await socket.send_bytes(data)
