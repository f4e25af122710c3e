"""How chaos is carried out: refusals as a real API server words them, answers cut off, resets.

Wordings and shapes are those of kube-apiserver: 410 from its etcd3 storage and watch cache, 429
and 504 from its generic errors, 500 with etcd's own words and no reason ("Error from server:
etcdserver: leader changed", as kubectl prints it).
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import replace

from aiohttp import web

from harness.twin.apiserver.access import unauthorized
from harness.twin.apiserver.calls import Answer
from harness.twin.apiserver.chaos import Rule
from harness.twin.apiserver.errors import UNKNOWN, ApiError
from harness.twin.apiserver.http1 import write_head

_RESET = struct.pack("ii", 1, 0)  # linger on, for no time: close sends RST


def refusal(rule: Rule, forbidden: Callable[[], ApiError]) -> ApiError:
    """What a rule of a refusing kind answers. ``forbidden`` words the 403 of who asked what."""
    match rule.what:
        case "gone":
            return ApiError(410, "The resourceVersion for the provided list is too old.")
        case "throttle":
            return ApiError(
                429,
                "the server has received too many requests and has asked us to try again later",
                details={"retryAfterSeconds": rule.retry_after},
            )
        case "leader-changed":
            return ApiError(500, "etcdserver: leader changed", reason=UNKNOWN)
        case "unavailable":
            return ApiError(503, "the server is currently unable to handle the request")
        case "timeout":
            return ApiError(504, "Timeout: request did not complete within the allotted timeout")
        case "unauthorized":
            return unauthorized()
        case _:
            return forbidden()


def garbled(answer: Answer) -> Answer:
    """An answer whose body breaks off in its middle, though its length says that it is whole."""
    return replace(answer, body=answer.body[: len(answer.body) // 2])


def reset(transport: asyncio.Transport | None) -> None:
    """Ends a connection with a TCP reset."""
    if transport is None or transport.is_closing():
        return
    raw = transport.get_extra_info("socket")
    if raw is not None:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
    transport.abort()


class Stuck:
    """The connections on which nothing moves."""

    def __init__(self) -> None:
        self._transports: set[asyncio.Transport] = set()

    async def delay(self, request: web.BaseRequest, seconds: float) -> None:
        """Lets real seconds pass."""
        passed = asyncio.get_running_loop().create_future()
        timer = asyncio.get_running_loop().call_later(seconds, passed.set_result, None)
        try:
            await self._hold(request, passed)
        finally:
            timer.cancel()

    async def silence(self, request: web.BaseRequest, *, deaf: bool) -> None:
        """Says nothing more for as long as the client stays; ``deaf``: does not hear it go."""
        if deaf and request.transport is not None:
            request.transport.pause_reading()
        await self._hold(request, asyncio.get_running_loop().create_future())

    async def _hold(self, request: web.BaseRequest, until: asyncio.Future[None]) -> None:
        transport = request.transport
        if transport is None:
            return
        self._transports.add(transport)
        try:
            await until
        finally:
            self._transports.discard(transport)

    def release(self) -> None:
        """Ends them all: the server closes."""
        for transport in tuple(self._transports):
            transport.abort()


def cut_off(transport: asyncio.Transport | None, answer: Answer, headers: dict[str, str]) -> None:
    """Sends an answer up to the middle of its body, and resets the connection."""
    if transport is not None:
        sent = answer.body[: len(answer.body) // 2]
        transport.write(write_head(answer.status, len(answer.body), headers) + sent)
    reset(transport)
