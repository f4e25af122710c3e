"""A proxy in the way: requests, watches and WebSockets go through its tunnel, or say what it said.

The server is called lab.invalid, a name that only the proxy of these tests knows, because nothing
on a loopback address is ever asked for through a proxy.
"""

from __future__ import annotations

import base64
import select
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from harness.reach.access import Timeouts, client_from_file
from harness.reach.errors import KubeconfigUnreadable, Unreachable
from harness.reach.execs import run_in_pod
from harness.reach.kube import Kube

NODE = "/api/v1/nodes/n"
EXEC = "/api/v1/namespaces/ns/pods/p/exec"
PODS = "/api/v1/namespaces/ns/pods"
VARIABLES = [f"{name}_proxy" for name in ("http", "https", "all", "no")]


@dataclass
class Proxy:
    """An HTTP proxy in threads. ``answer`` is said instead of a tunnel; "" hangs up."""

    known: dict[str, int]
    answer: bytes | None = None
    seen: list[str] = field(default_factory=list)
    silent: bool = False
    trickle: bool = False

    def __post_init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._ended = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client: socket.socket) -> None:
        with client:
            head = b""
            while b"\r\n\r\n" not in head:
                piece = client.recv(4096)
                if not piece:
                    return
                head += piece
            self.seen.append(head.decode())
            if self.silent:
                self._ended.wait(10)
            elif self.trickle:
                with suppress(OSError):
                    while not self._ended.wait(0.05):
                        client.sendall(b"x")
            elif self.answer is not None:
                client.sendall(self.answer)
            else:
                name = head.split()[1].decode()
                client.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
                server = socket.create_connection(("127.0.0.1", self.known[name]))
                with server, suppress(OSError):  # either side may go first
                    self._pass_on(client, server)

    def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        other = {client: server, server: client}
        while not self._ended.is_set():
            for ready in select.select([client, server], [], [], 0.2)[0]:
                piece = ready.recv(65536)
                if not piece:
                    return
                other[ready].sendall(piece)


@pytest.fixture
def lab(server: Any, serve: Any) -> Iterator[Any]:
    """The server of the conftest under the name lab.invalid."""

    async def execute(request: web.Request) -> web.StreamResponse:
        opened = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
        await opened.prepare(request)
        await opened.send_bytes(b"\x01hello")
        await opened.send_bytes(b'\x03{"status": "Success"}')
        await opened.close()
        return opened

    async def watch(request: web.Request) -> web.StreamResponse:
        return web.Response(body=b"")

    server.routes[f"GET {NODE}"] = {"kind": "Node"}
    server.routes[f"GET {EXEC}"] = execute
    server.routes[f"GET {PODS}"] = watch
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.ca.issue_cert("lab.invalid").configure_cert(context)
    with serve(server.answer, context) as port:
        server.lab = port
        yield server


@pytest.fixture
def proxy(lab: Any) -> Iterator[Proxy]:
    running = Proxy({"lab.invalid:6443": lab.lab, "[2001:db8::1]:6443": lab.lab})
    yield running
    running.close()


Connect = Callable[..., Kube]


@pytest.fixture
def connect(lab: Any, clock: Any, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connect]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    made = []

    def through(proxy: str = "", *, server: str = "https://lab.invalid:6443", **more: str) -> Kube:
        config = lab.kubeconfig(server=server)
        config["clusters"][0]["cluster"].update(more | ({"proxy-url": proxy} if proxy else {}))
        client = client_from_file(lab.write(config))
        made.append(client)
        return Kube("management", client, clock, timeouts=Timeouts(connect=5.0, read=5.0))

    yield through
    for client in made:
        client.rest_client.close()


def get(kube: Kube) -> None:
    assert kube.get("v1", "Node", "", "n") == {"kind": "Node"}


def execute(kube: Kube) -> None:
    assert run_in_pod(kube, "ns", "p", ["x"], timeout=5).stdout == b"hello"


def watch(kube: Kube) -> None:
    kube.stream(PODS, {"watch": "true"}, read_timeout=5).close()


WAYS = pytest.mark.parametrize("ask", [get, execute, watch])


@WAYS
def test_the_kubeconfigs_proxy(connect: Connect, proxy: Proxy, ask: Callable[[Kube], None]) -> None:
    ask(connect(f"http://127.0.0.1:{proxy.port}"))
    assert proxy.seen and all(
        told.startswith("CONNECT lab.invalid:6443 HTTP/1.") and "authorization" not in told.lower()
        for told in proxy.seen
    )


@WAYS
def test_a_user_and_a_password_for_the_proxy(
    connect: Connect, proxy: Proxy, ask: Callable[[Kube], None]
) -> None:
    ask(connect(f"http://me:p%40ss@127.0.0.1:{proxy.port}"))
    wanted = base64.b64encode(b"me:p@ss").decode()
    assert all(f"proxy-authorization: Basic {wanted}\r\n" in told for told in proxy.seen)
    assert proxy.seen


@WAYS
def test_the_environments_proxy(
    connect: Connect, proxy: Proxy, monkeypatch: pytest.MonkeyPatch, ask: Callable[[Kube], None]
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.port}")  # as curl takes it
    ask(connect())
    assert proxy.seen


def test_no_proxy_is_heeded(
    connect: Connect, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    monkeypatch.setenv("NO_PROXY", "example.test,.invalid")
    kube = connect()
    assert kube.client.configuration.proxy is None
    for ask in (get, execute, watch):
        with pytest.raises(Unreachable):  # the name means nothing to anybody else
            ask(kube)
    assert proxy.seen == []


def test_a_kubeconfigs_proxy_is_not_overruled(
    connect: Connect, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_PROXY", "lab.invalid")
    kube = connect(f"http://127.0.0.1:{proxy.port}")
    for ask in (get, execute, watch):
        ask(kube)
    assert len(proxy.seen) == 3  # the first, with the discovery on its connection, and two more


def test_loopback_is_never_asked_through_a_proxy(
    lab: Any, connect: Connect, proxy: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.port}")
    for server in (lab.url, lab.url.replace("127.0.0.1", "localhost")):
        for named in ("", f"http://127.0.0.1:{proxy.port}"):
            kube = connect(named, server=server)
            for ask in (get, execute, watch):
                ask(kube)
    assert proxy.seen == []


def test_an_address_of_version_6(connect: Connect, proxy: Proxy) -> None:
    name = {"tls-server-name": "lab.invalid"}
    kube = connect(f"http://127.0.0.1:{proxy.port}", server="https://[2001:db8::1]:6443", **name)
    get(kube)
    execute(kube)


@pytest.mark.parametrize(
    ("answer", "says", "do"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", "407 Proxy", "user and password"),
        (b"HTTP/1.1 403 Not from here\r\nA: b\r\n\r\nbody", "403 Not from here", "NO_PROXY"),
        (b"HTTP/1.0 502\r\n\r\n", "502", "NO_PROXY"),
    ],
)
@WAYS
def test_what_the_proxy_answers(
    connect: Connect,
    proxy: Proxy,
    ask: Callable[[Kube], None],
    answer: bytes,
    says: str,
    do: str,
) -> None:
    proxy.answer = answer
    with pytest.raises(Unreachable, match="proxy") as caught:
        ask(connect(f"http://me:hush@127.0.0.1:{proxy.port}"))
    assert says in caught.value.saw and do in caught.value.do
    assert "hush" not in str(caught.value)
    assert len(proxy.seen) == 1


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (b"", "closed the connection without an answer"),
        (b"SSH-2.0-x\r\n\r\n", "no HTTP, b'SSH-2.0-x"),
        (b"HTTP/1.1 200 OK\r\n\r\nmore", "bytes of its own"),
        (b"HTTP/1.1 200 OK\r\nA: b", "bytes of its own"),
        (b"a" * 70_000, "no HTTP"),
    ],
)
def test_what_no_proxy_answers(connect: Connect, proxy: Proxy, answer: bytes, says: str) -> None:
    proxy.answer = answer
    with pytest.raises(Unreachable) as caught:
        execute(connect(f"http://127.0.0.1:{proxy.port}"))
    assert says in caught.value.saw
    assert f"tunnel to lab.invalid:6443 through the proxy 127.0.0.1:{proxy.port}" in str(
        caught.value
    )


@WAYS
def test_a_proxy_that_says_nothing(
    connect: Connect, proxy: Proxy, ask: Callable[[Kube], None]
) -> None:
    proxy.silent = True
    kube = connect(f"http://127.0.0.1:{proxy.port}")
    hasty = Kube("management", kube.client, kube.clock, timeouts=Timeouts(connect=0.2, read=5))
    with pytest.raises(Unreachable) as caught:
        ask(hasty)
    assert "proxy" in caught.value.saw or "timed out" in caught.value.saw
    assert hasty.calls[-1].seconds < 3


def test_a_proxy_that_never_comes_to_an_end(connect: Connect, proxy: Proxy) -> None:
    proxy.trickle = True
    kube = connect(f"http://127.0.0.1:{proxy.port}")
    hasty = Kube("management", kube.client, kube.clock, timeouts=Timeouts(connect=0.3, read=5))
    with pytest.raises(Unreachable, match=r"no answer of the proxy within 0\.3 s"):
        run_in_pod(hasty, "ns", "p", ["x"], timeout=5)
    assert hasty.calls[-1].seconds < 3


def test_the_whole_time_allowed_bounds_the_tunnel(connect: Connect, proxy: Proxy) -> None:
    proxy.silent = True
    kube = connect(f"http://127.0.0.1:{proxy.port}")
    with pytest.raises(Unreachable, match="no answer of the proxy"):
        run_in_pod(kube, "ns", "p", ["x"], timeout=0.2)
    assert kube.calls[-1].seconds < 3


@WAYS
def test_a_proxy_that_is_not_there(connect: Connect, ask: Callable[[Kube], None]) -> None:
    with pytest.raises(Unreachable, match="refused"):
        ask(connect("http://127.0.0.1:1"))


@pytest.mark.parametrize(
    "named", ["socks5://proxy:1080", "http://", "http://h:port", "ftp://me:hush@proxy"]
)
def test_a_proxy_that_cannot_be_used(connect: Connect, named: str) -> None:
    with pytest.raises(KubeconfigUnreadable, match="no http:// or https://") as caught:
        connect(named)
    assert "hush" not in str(caught.value) and "proxy-url" in caught.value.do


def test_a_variable_that_cannot_be_used(connect: Connect, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://proxy:1080")
    with pytest.raises(KubeconfigUnreadable, match="variable"):
        connect()


def test_websockets_do_not_go_through_a_proxy_that_speaks_tls(connect: Connect) -> None:
    with pytest.raises(Unreachable, match="a proxy that speaks TLS"):
        execute(connect("https://proxy.invalid:3129"))
