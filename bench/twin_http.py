"""How many GET and PATCH a second one simulated API server answers: `python -m bench.twin_http`.

The server runs in a process of its own. The client keeps 8 HTTPS connections busy with one request
each and does as little as it can. Each figure is the median of five runs, with least and most.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.serving import NoBackend
from harness.twin.apiserver.builtin_kinds import BUILTIN
from harness.twin.apiserver.requestlog import RequestLog
from harness.twin.apiserver.resources import Obj, Registry
from harness.twin.apiserver.server import ApiServer
from harness.twin.apiserver.store import Identities, Revisions, Store
from harness.twin.apiserver.tls import Authority

CONNECTIONS = 8
PATH = "/api/v1/namespaces/default/configmaps/bench"
HEAD = "{method} {path} HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\n{more}\r\n"


async def _serve(directory: Path) -> None:
    authority = Authority()
    store = Store(
        "bench",
        Registry(BUILTIN),
        now=lambda: 1767225600.0,
        revisions=Revisions(),
        identities=Identities(1),
    )
    store.apply(_named("Namespace", "default", ""), manager="bench")
    data = {f"key-{number}": "x" * 40 for number in range(10)}
    store.apply({**_named("ConfigMap", "bench", "default"), "data": data}, manager="bench")
    server = ApiServer(store, NoBackend(), authority=authority, request_log=RequestLog())
    await server.start()
    certificate, key = authority.client("bench", ("system:masters",))
    (directory / "ca.pem").write_bytes(authority.ca_pem)
    (directory / "client.pem").write_bytes(certificate + key)
    print(server.port, flush=True)
    await asyncio.Event().wait()


def _named(kind: str, name: str, namespace: str) -> Obj:
    metadata = {"name": name, **({"namespace": namespace} if namespace else {})}
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata}


def _connect(port: int, directory: Path) -> list[ssl.SSLSocket]:
    context = ssl.create_default_context(cafile=str(directory / "ca.pem"))
    context.load_cert_chain(directory / "client.pem")
    opened = []
    for _ in range(CONNECTIONS):
        raw = socket.create_connection(("127.0.0.1", port))
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        opened.append(context.wrap_socket(raw, server_hostname="localhost"))
    return opened


def _get() -> Iterator[bytes]:
    request = HEAD.format(method="GET", path=PATH, more="Accept: application/json\r\n").encode()
    while True:
        yield request


def _patch() -> Iterator[bytes]:
    number = 0
    while True:
        number += 1
        body = b'{"data":{"turn":"%d"}}' % number
        more = f"Content-Type: application/merge-patch+json\r\nContent-Length: {len(body)}\r\n"
        yield HEAD.format(method="PATCH", path=PATH, more=more).encode() + body


def _receive(connection: ssl.SSLSocket) -> None:
    data = connection.recv(65536)
    if not data.startswith(b"HTTP/1.1 200 "):
        raise SystemExit(f"not answered with 200: {data[:300]!r}")
    head, _, body = data.partition(b"\r\n\r\n")
    size = int(head.lower().partition(b"content-length: ")[2].split(b"\r\n", 1)[0])
    left = size - len(body)
    while left > 0:
        left -= len(connection.recv(65536))


def _rate(connections: list[ssl.SSLSocket], requests: Iterator[bytes], seconds: float) -> float:
    for connection in connections:
        connection.sendall(next(requests))
    answered, start = 0, time.perf_counter()
    while time.perf_counter() - start < seconds:
        for connection in connections:
            _receive(connection)
            connection.sendall(next(requests))
            answered += 1
    elapsed = time.perf_counter() - start
    for connection in connections:
        _receive(connection)
    return answered / elapsed


def _report(name: str, rates: list[float]) -> None:
    middle, least, most = statistics.median(rates), min(rates), max(rates)
    print(f"{name:6} {middle:8,.0f}/s   (least {least:,.0f}, most {most:,.0f})", flush=True)


def _measure(port: int, directory: Path, seconds: float, runs: int) -> None:
    connections = _connect(port, directory)
    for name, requests in (("GET", _get()), ("PATCH", _patch())):
        _rate(connections, requests, seconds / 4)
        _report(name, [_rate(connections, requests, seconds) for _ in range(runs)])
    for connection in connections:
        connection.close()


def main() -> None:
    """Start the server in another process, measure it, stop it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=2.0, help="length of one run")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(_serve(options.serve))
        return
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "bench.twin_http", "--serve", folder]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
            assert server.stdout is not None
            try:
                _measure(int(server.stdout.readline()), Path(folder), options.seconds, options.runs)
            finally:
                server.terminate()


if __name__ == "__main__":
    main()
