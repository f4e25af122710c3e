"""WebSockets to one cluster, with its client's TLS, credentials and proxy, bounded in time."""

from __future__ import annotations

import math
import select
import socket
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from harness.reach.access import tls_context, transport_error
from harness.reach.errors import Unreachable, refusal, unsure
from harness.reach.proxies import connect_through

if TYPE_CHECKING:
    from websocket import WebSocket

    from harness.clock import Clock
    from harness.reach.kube import Kube


class Bounded:
    """A socket whose reads and writes all end by one moment of the runner's monotonic clock.

    A plain socket timeout starts anew with each piece read, so a trickle would outlast it.
    Past the moment, every read and write raises TimeoutError.
    """

    def __init__(self, inner: socket.socket, clock: Clock, until: float) -> None:
        self.until = until
        self._inner = inner
        self._clock = clock

    def recv(self, size: int) -> bytes:
        """Some bytes, b"" at the end of the stream."""
        self._limit()
        return self._inner.recv(size)

    def send(self, data: bytes) -> int:
        """How many of the bytes were sent."""
        self._limit()
        return self._inner.send(data)

    def ready(self, seconds: float, *, writing: bool = False, beside: int = -1) -> str:
        """What can be done without waiting: "read", "write" (if asked for), or "" for nothing yet.

        Returns after ``seconds`` at the latest, and at once when the descriptor ``beside`` has
        something to read. One thread that asks here may both read and write: two at once on one
        TLS connection are not safe in CPython before 3.13.
        """
        pending = getattr(self._inner, "pending", None)
        if pending is not None and pending():
            return "read"
        poll = select.poll()
        poll.register(self._inner, select.POLLIN | (select.POLLOUT if writing else 0))
        if beside >= 0:
            poll.register(beside, select.POLLIN)
        happened = dict(poll.poll(max(0, math.ceil(seconds * 1000))))
        told = happened.get(self._inner.fileno(), 0)
        if told & ~select.POLLOUT:
            return "read"
        return "write" if told else ""

    def _limit(self) -> None:
        left = self.until - self._clock.monotonic()
        if left <= 0:
            raise TimeoutError("the time allowed is over")
        self._inner.settimeout(left)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def open_socket(
    kube: Kube,
    verb: str,
    path: str,
    query: Sequence[tuple[str, str]],
    protocols: Sequence[str],
    timeout: float,
) -> tuple[WebSocket, Bounded]:
    """Open a WebSocket within ``timeout`` seconds, which then also bounds its use.

    Move ``Bounded.until`` to allow more or less. A refusal is raised as ApiRefused with the
    server's message, no connection as Unreachable or BadCertificate; the request is recorded in
    ``kube.calls``. The caller shuts it down.
    """
    return kube.authorized(
        lambda headers: _open(kube, verb, path, query, protocols, timeout, headers)
    )


def _open(
    kube: Kube,
    verb: str,
    path: str,
    query: Sequence[tuple[str, str]],
    protocols: Sequence[str],
    timeout: float,
    headers: Mapping[str, str],
) -> tuple[WebSocket, Bounded]:
    import websocket

    tried = f"{verb} {path} at {kube.name}"
    encoded = urlencode(query)
    with kube.recorded(verb, path, encoded) as answered:
        until = kube.clock.monotonic() + timeout
        try:
            opened, bounded = _upgrade(kube, f"{path}?{encoded}", protocols, until, headers)
        except websocket.WebSocketBadStatusException as error:
            answered(error.status_code)
            asked = (error.resp_headers or {}).get("retry-after", "")
            raise refusal(error.status_code, error.resp_body or b"", tried, asked) from error
        except websocket.WebSocketTimeoutException as error:
            do = "check the API server and the node's kubelet"
            if verb == "exec":
                do = f"{do}; {unsure(verb)}"
            raise Unreachable(tried, f"no WebSocket within {timeout:g} s", do) from error
        except websocket.WebSocketException as error:
            if str(error) == "Invalid WebSocket Header":
                saw = f"a WebSocket without any of {', '.join(protocols)}"
                raise Unreachable(tried, saw, "use a server that speaks one of them") from error
            raise transport_error(error, tried) from error
        answered(101)
    return opened, bounded


def _upgrade(
    kube: Kube, target: str, protocols: Sequence[str], until: float, headers: Mapping[str, str]
) -> tuple[WebSocket, Bounded]:
    import websocket

    inner = _connect(kube, min(kube.timeouts.connect, until - kube.clock.monotonic()))
    bounded = Bounded(inner, kube.clock, until)
    # bytes are bytes here, in a text message too
    opened = websocket.WebSocket(enable_multithread=True, skip_utf8_validation=True)
    try:
        connect: Callable[..., None] = opened.connect
        connect(
            kube.url.replace("http", "ws", 1) + target,
            socket=bounded,
            subprotocols=list(protocols),
            header=dict(headers),
            suppress_origin=True,
        )
    finally:
        if not opened.connected:
            inner.close()
    return opened, bounded


def _connect(kube: Kube, timeout: float) -> socket.socket:
    """TCP and TLS to the API server. websocket-client's own way cannot be told to use no proxy."""
    configuration = kube.client.configuration
    where = urlsplit(configuration.host)
    host = where.hostname or ""
    secure = where.scheme == "https"
    plain = _tcp(kube, host, where.port or (443 if secure else 80), timeout)
    if not secure:
        return plain
    try:
        plain.settimeout(timeout)
        context = tls_context(configuration)
        name = configuration.tls_server_name or host
        return context.wrap_socket(plain, server_hostname=name)
    except OSError:
        plain.close()
        raise


def _tcp(kube: Kube, host: str, port: int, timeout: float) -> socket.socket:
    configuration = kube.client.configuration
    if configuration.proxy:
        plain = connect_through(configuration, host, port, timeout, kube.clock.monotonic)
    else:
        plain = socket.create_connection((host, port), timeout)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return plain
