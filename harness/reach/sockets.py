"""WebSockets to one cluster, with its client's TLS, credentials and proxy, bounded in time."""

from __future__ import annotations

import socket
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode, urlsplit

from harness.reach.access import auth_headers, tls_context, transport_error
from harness.reach.errors import Unreachable, refusal

if TYPE_CHECKING:
    from kubernetes.client import Configuration
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
    import websocket

    until = kube.clock.monotonic() + timeout
    tried = f"{verb} {path} at {kube.name}"
    encoded = urlencode(query)
    with kube.recorded(verb, path, encoded) as answered:
        try:
            opened, bounded = _upgrade(kube, f"{path}?{encoded}", protocols, until)
        except websocket.WebSocketBadStatusException as error:
            answered(error.status_code)
            raise refusal(error.status_code, error.resp_body or b"", tried) from error
        except websocket.WebSocketTimeoutException as error:
            do = "check the API server and the node's kubelet"
            raise Unreachable(tried, f"no WebSocket within {timeout:g} s", do) from error
        except websocket.WebSocketException as error:
            if str(error) == "Invalid WebSocket Header":
                saw = f"a WebSocket without any of {', '.join(protocols)}"
                raise Unreachable(tried, saw, "use a server that speaks one of them") from error
            raise transport_error(error, tried) from error
        answered(101)
    return opened, bounded


def _upgrade(
    kube: Kube, target: str, protocols: Sequence[str], until: float
) -> tuple[WebSocket, Bounded]:
    import websocket

    configuration = kube.client.configuration
    inner = _connect(configuration, min(kube.timeouts.connect, until - kube.clock.monotonic()))
    bounded = Bounded(inner, kube.clock, until)
    opened = websocket.WebSocket(enable_multithread=True)
    try:
        connect: Callable[..., None] = opened.connect
        connect(
            kube.url.replace("http", "ws", 1) + target,
            socket=bounded,
            subprotocols=list(protocols),
            header=auth_headers(kube.client),
            suppress_origin=True,
        )
    finally:
        if not opened.connected:
            inner.close()
    return opened, bounded


def _connect(configuration: Configuration, timeout: float) -> socket.socket:
    """TCP and TLS to the API server. websocket-client's own way cannot be told to use no proxy."""
    where = urlsplit(configuration.host)
    host = where.hostname or ""
    secure = where.scheme == "https"
    plain = _tcp(configuration, host, where.port or (443 if secure else 80), timeout)
    if not secure:
        return plain
    try:
        context = tls_context(configuration)
        name = configuration.tls_server_name or host
        return context.wrap_socket(plain, server_hostname=name)
    except OSError:
        plain.close()
        raise


def _tcp(configuration: Configuration, host: str, port: int, timeout: float) -> socket.socket:
    from kubernetes.client.rest import should_bypass_proxies

    proxy = configuration.proxy
    if not proxy or should_bypass_proxies(configuration.host, configuration.no_proxy or ""):
        direct = socket.create_connection((host, port), timeout)
        direct.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return direct
    raise Unreachable(
        f"open a WebSocket to {host}:{port}",
        f"the proxy {urlsplit(proxy).hostname} in the way, supported for plain requests only",
        "add the API server's host to no_proxy, or run where no proxy is needed",
    )
