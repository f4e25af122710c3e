"""Whether an HTTP proxy stands in the way, and a tunnel through it (CONNECT, RFC 9110 9.3.6).

The official client's requests go through `configuration.proxy`; it leaves out the user and password
of the proxy's URL, and sets a loopback server's `proxy-url` again before each request. So the proxy
is settled once, here, for requests and WebSockets alike.
"""

from __future__ import annotations

import base64
import ipaddress
import re
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from harness.reach.errors import KubeconfigUnreadable, Unreachable

if TYPE_CHECKING:
    from kubernetes.client import Configuration

_SPOKEN = {"http": 80, "https": 443}
_HEAD = 65536  # bytes of an answer's head that are read at most
_QUOTED = 200


def settle(configuration: Configuration, named: str, tried: str) -> None:
    """Decide which proxy the configuration's server is reached through, if any.

    ``named`` is the kubeconfig's `proxy-url`, which NO_PROXY does not overrule (as for kubectl);
    "" leaves it to the environment's HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY. A loopback
    server has none. Raises KubeconfigUnreadable for a proxy that cannot be used.
    """
    proxy = named or str(configuration.proxy or "")
    if not proxy or is_loopback(configuration.host) or not (named or _applies(configuration)):
        configuration.proxy = None
        return
    where = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
    try:
        port = where.port or _SPOKEN.get(where.scheme, 0)
    except ValueError:
        port = 0
    if where.scheme not in _SPOKEN or not where.hostname or not port:
        saw = f"a proxy that is no http:// or https:// address, {_shown(proxy)!r}"
        do = "correct proxy-url in the kubeconfig" if named else "correct the proxy's variable"
        raise KubeconfigUnreadable(tried, saw, do)
    host = f"[{where.hostname}]" if ":" in where.hostname else where.hostname
    configuration.proxy = f"{where.scheme}://{host}:{port}"
    configuration.no_proxy = ""
    if where.username is not None:
        secret = f"{unquote(where.username)}:{unquote(where.password or '')}".encode()
        told = f"Basic {base64.b64encode(secret).decode()}"
        configuration.proxy_headers = {"proxy-authorization": told}


def is_loopback(server: str) -> bool:
    """Whether a server's URL is on this very machine."""
    name = urlsplit(server).hostname or ""
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name == "localhost" or name.endswith(".localhost")


def connect_through(
    configuration: Configuration, host: str, port: int, seconds: float, now: Callable[[], float]
) -> socket.socket:
    """A TCP connection to a host through the configuration's proxy, within so many seconds.

    ``now`` tells the runner's monotonic time. Raises Unreachable with what the proxy answered, or
    that it did not.
    """
    where = urlsplit(str(configuration.proxy))
    proxy = f"{where.hostname}:{where.port}"
    target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    tried = f"open a tunnel to {target} through the proxy {proxy}"
    if where.scheme != "http":
        do = "name an http:// proxy: one that speaks TLS itself serves plain requests only"
        raise Unreachable(tried, "a proxy that speaks TLS", do)
    until = now() + seconds
    try:
        tunnel = socket.create_connection((str(where.hostname), where.port or 80), seconds)
    except OSError as error:
        raise Unreachable(
            tried, f"no connection to the proxy ({error})", "check the proxy"
        ) from error
    try:
        headers = {"Host": target, **(configuration.proxy_headers or {})}
        lines = [f"CONNECT {target} HTTP/1.1", *(f"{k}: {v}" for k, v in headers.items()), "", ""]
        tunnel.sendall("\r\n".join(lines).encode())
        told = _head(tunnel, lambda: until - now())
    except TimeoutError as late:
        tunnel.close()
        do = "check the proxy"
        raise Unreachable(tried, f"no answer of the proxy within {seconds:g} s", do) from late
    except OSError as error:
        tunnel.close()
        raise Unreachable(tried, f"a broken connection ({error})", "check the proxy") from error
    if problem := _problem(told):
        tunnel.close()
        raise Unreachable(tried, *problem)
    return tunnel


def _applies(configuration: Configuration) -> bool:
    from kubernetes.client.rest import should_bypass_proxies

    return not should_bypass_proxies(configuration.host, configuration.no_proxy or "")


def _shown(proxy: str) -> str:
    """A proxy's URL without what stands before an @."""
    return re.sub(r"(://|^)[^/]*@", r"\1", proxy)


def _head(tunnel: socket.socket, left: Callable[[], float]) -> bytes:
    """What the proxy answers, up to and with the empty line."""
    told = b""
    while b"\r\n\r\n" not in told and len(told) < _HEAD:
        if (seconds := left()) <= 0:
            raise TimeoutError("the time allowed is over")
        tunnel.settimeout(seconds)
        piece = tunnel.recv(4096)
        if not piece:
            break
        told += piece
    return told


def _problem(told: bytes) -> tuple[str, str] | None:
    """What is wrong with a proxy's answer, and what to do about it; None for a yes."""
    status = re.match(rb"HTTP/1\.[01] ([0-9]{3})(?: ([^\r\n]*))?\r\n", told)
    if not told:
        return "that the proxy closed the connection without an answer", "check the proxy"
    if status is None:
        return f"an answer of the proxy that is no HTTP, {told[:_QUOTED]!r}", "check the proxy"
    code, words = int(status[1]), (status[2] or b"").decode("utf-8", "replace")
    if code == 407:
        do = "give the proxy's URL a user and password that it takes"
        return f"that the proxy answered {code} {words}", do
    if not 200 <= code < 300:
        do = "see in the proxy's log why, or add the API server's host to NO_PROXY"
        return f"that the proxy answered {code} {words}", do
    if not told.endswith(b"\r\n\r\n"):
        return "a proxy that sends bytes of its own before the server does", "check the proxy"
    return None
