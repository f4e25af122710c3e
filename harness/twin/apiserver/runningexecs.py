"""Execs of programs that take the lab's time: their output as it comes, until they end."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from aiohttp import WSMsgType, web

from harness.twin.apiserver.execresult import ExecResult, Running

_LEFT = frozenset({WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR})
Messages = Callable[[ExecResult], list[bytes]]


class RunningExecs:
    """The running programs of one server. ``deliveries`` counts pieces of output, and ends."""

    def __init__(self) -> None:
        self._open: set[_Outgoing] = set()
        self.deliveries = 0

    def close(self) -> None:
        """End every stream, without telling how its program did."""
        for outgoing in self._open:
            outgoing.end()

    async def flushed(self) -> None:
        """Wait until clients have been sent everything that programs have written so far."""
        for outgoing in tuple(self._open):
            await outgoing.sent()

    async def serve(
        self,
        socket: web.WebSocketResponse,
        program: Running,
        piece: Callable[[bytes], list[bytes]],
        last: Messages,
        most: int | None,
    ) -> bool:
        """Send what a program writes until it ends or its client leaves.

        ``piece`` and ``last`` make messages of output and of the end. Whether it was sent whole:
        False after ``most`` messages.
        """
        outgoing = _Outgoing(most)

        def heard(data: bytes) -> None:
            self.deliveries += 1
            outgoing.add(piece(data))

        def ended(result: ExecResult) -> None:
            self.deliveries += 1
            outgoing.add(last(result))
            outgoing.end()

        self._open.add(outgoing)
        stop = program.follow(heard, ended)
        try:
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(_until_left(socket, outgoing))
                await outgoing.run(socket)
                listening.cancel()
        finally:
            self._open.discard(outgoing)
            stop()
        return not outgoing.cut


class _Outgoing:
    """Messages on their way to one client."""

    def __init__(self, most: int | None) -> None:
        self._waiting: deque[bytes] = deque()
        self._news, self._idle = asyncio.Event(), asyncio.Event()
        self._ended = False
        self._left = most
        self.cut = False
        self._idle.set()

    def add(self, messages: list[bytes]) -> None:
        if not self._ended and messages:
            self._waiting.extend(messages)
            self._idle.clear()
            self._news.set()

    def end(self) -> None:
        self._ended = True
        self._news.set()

    async def sent(self) -> None:
        await self._idle.wait()

    async def run(self, socket: web.WebSocketResponse) -> None:
        try:
            while await self._next():
                message = self._waiting.popleft()
                if self._left == 0:
                    self.cut = True
                    return
                self._left = None if self._left is None else self._left - 1
                if not socket.closed:
                    await socket.send_bytes(message)
        finally:
            self._idle.set()

    async def _next(self) -> bool:
        while not self._waiting:
            self._idle.set()
            if self._ended:
                return False
            self._news.clear()
            await self._news.wait()
        return True


async def _until_left(socket: web.WebSocketResponse, outgoing: _Outgoing) -> None:
    while (await socket.receive()).type not in _LEFT:
        pass
    outgoing.end()
