"""Bytes on a connection: however they are cut, the answers are the same."""

from __future__ import annotations

import json
import socket
import ssl
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.apiserver.http1 import read_head

CM = "/api/v1/namespaces/default/configmaps"


class Wire:
    """A raw connection that reads one answer at a time."""

    def __init__(self, cluster: Any) -> None:
        raw = socket.create_connection(("127.0.0.1", cluster.server.port), timeout=10)
        raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        context = cluster.context("admin", ("system:masters",))
        self.socket: ssl.SSLSocket = context.wrap_socket(raw, server_hostname="127.0.0.1")
        self._rest = b""

    def send(self, *pieces: bytes) -> None:
        for piece in pieces:
            self.socket.sendall(piece)

    def answer(self) -> tuple[int, Any]:
        while b"\r\n\r\n" not in self._rest:
            self._more()
        head, self._rest = self._rest.split(b"\r\n\r\n", 1)
        length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
        while len(self._rest) < length:
            self._more()
        body, self._rest = self._rest[:length], self._rest[length:]
        return int(head.split(b" ")[1]), json.loads(body)

    def _more(self) -> None:
        data = self.socket.recv(65536)
        assert data, "the server closed the connection"
        self._rest += data

    def is_closed(self) -> bool:
        return self.socket.recv(1) == b""


@pytest.fixture
def wire(cluster: Any) -> Any:
    made = Wire(cluster)
    yield made
    made.socket.close()


def request(method: str, path: str, body: bytes = b"", **headers: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Content-Length: {len(body)}"]
    lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


def create(name: str) -> bytes:
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
    return request("POST", CM, json.dumps(body).encode())


def names(answer: tuple[int, Any]) -> list[str]:
    assert answer[0] in (200, 201), answer
    items = answer[1].get("items", [answer[1]])
    return [item["metadata"]["name"] for item in items]


SESSION = [
    create("a"),
    request("GET", f"{CM}/a"),
    create("b"),
    request("GET", CM),
    request("PATCH", f"{CM}/a", b'{"data":{}}', content_type="application/merge-patch+json"),
]
EXPECTED = [["a"], ["a"], ["b"], ["a", "b"], ["a"]]


@pytest.mark.parametrize("size", [1, 7, 50, 150, 400, 100_000])
def test_a_stream_of_requests_may_be_cut_anywhere(wire: Any, size: int) -> None:
    data = b"".join(SESSION)
    wire.send(*(data[start : start + size] for start in range(0, len(data), size)))
    assert [names(wire.answer()) for _ in SESSION] == EXPECTED


def test_requests_one_after_another(wire: Any) -> None:
    found = []
    for data in SESSION:
        wire.send(data)
        found.append(names(wire.answer()))
    assert found == EXPECTED


def test_a_body_in_pieces(wire: Any) -> None:
    head, _, body = create("a").partition(b"\r\n\r\n")
    wire.send(head + b"\r\n\r\n", body[:5], body[5:])
    assert names(wire.answer()) == ["a"]


def test_a_chunked_body(wire: Any) -> None:
    body = create("a").partition(b"\r\n\r\n")[2]
    head = f"POST {CM} HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n".encode()
    wire.send(head, b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body), request("GET", CM))
    assert [names(wire.answer()), names(wire.answer())] == [["a"], ["a"]]


def test_a_watch_and_then_a_plain_request(cluster: Any, wire: Any) -> None:
    query = "watch=true&timeoutSeconds=1"
    wire.send(request("GET", f"/api/v1/secrets?{query}"))
    data = b""
    while not data.endswith(b"0\r\n\r\n"):
        data += wire.socket.recv(65536)
    wire.send(create("a"))
    assert names(wire.answer()) == ["a"]


def test_a_request_sent_into_an_open_watch_is_answered_after_it(wire: Any) -> None:
    wire.send(request("GET", "/api/v1/secrets?watch=true&timeoutSeconds=1"))
    data = wire.socket.recv(65536)
    wire.send(request("GET", CM))
    while b"ConfigMapList" not in data:
        data += wire.socket.recv(65536)
    assert data.index(b"0\r\n\r\n") < data.index(b"HTTP/1.1 200 OK", 1)


def test_what_looks_like_a_request_inside_a_head_is_none(cluster: Any, wire: Any) -> None:
    start = f"GET {CM} HTTP/1.1\r\nHost: x\r\nX-Odd: ".encode()
    wire.send(start)
    for _ in range(3):  # the server takes in the one piece before the other is sent
        cluster.run(lambda: None)
    wire.send(b"GET /version HTTP/1.1\r\n\r\n")
    assert wire.answer()[1]["kind"] == "ConfigMapList"


def test_close_closes(wire: Any) -> None:
    wire.send(request("GET", CM, connection="close"))
    assert wire.answer()[0] == 200
    assert wire.is_closed()


def test_a_fault_of_the_server_is_a_500_and_the_connection_lives(
    cluster: Any, wire: Any, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    cluster.pod()
    cluster.backend.logs = broken
    wire.send(request("GET", "/api/v1/namespaces/default/pods/web/log"))
    status, body = wire.answer()
    assert (status, body["reason"]) == (500, "InternalError")
    assert "a bug" in body["message"]
    wire.send(request("GET", CM))
    assert wire.answer()[0] == 200
    assert "a bug" in caplog.text


def test_the_date_is_the_clusters(cluster: Any) -> None:
    assert cluster.get("/readyz").headers["date"] == "Thu, 01 Jan 2026 00:00:00 GMT"


@pytest.mark.parametrize(
    "head",
    [
        b"GET / HTTP/1.0",
        b"BREW / HTTP/1.1",
        b"GET http://x/ HTTP/1.1",
        b"GET /a b HTTP/1.1",
        b"GET / HTTP/1.1\r\nTransfer-Encoding: chunked",
        b"GET / HTTP/1.1\r\nExpect: 100-continue",
        b"GET / HTTP/1.1\r\nUpgrade: websocket\r\nConnection: Upgrade",
        b"GET / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2",
        b"GET / HTTP/1.1\r\nContent-Length: +1",
        b"GET / HTTP/1.1\r\nA : b",
        b"GET / HTTP/1.1\r\n folded",
        b"GET / HTTP/1.1\r\nA: \x01",
        b"GET / HTTP/1.1\nA: b",
        b"GET /\xc3\xa9 HTTP/1.1",
        b"",
    ],
)
def test_unusual_heads_are_left_to_the_complete_parser(head: bytes) -> None:
    assert read_head(head) is None


def test_usual_heads_are_read() -> None:
    head = read_head(
        b"PUT /a?b=c HTTP/1.1\r\nhost: x\r\nCONTENT-LENGTH:7\r\nConnection: keep-alive"
    )
    assert head is not None
    assert (head.method, head.target, head.length) == ("PUT", "/a?b=c", 7)
    assert head.headers["Host"] == "x"


@given(st.binary(max_size=100))
def test_no_head_raises(data: bytes) -> None:
    for head in (data, b"GET / HTTP/1.1\r\n" + data):
        found = read_head(head)
        assert found is None or found.method in ("GET", "POST", "PUT", "PATCH", "DELETE")
