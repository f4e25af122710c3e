"""Prometheus' API as the harness asks it: by address and through an API server's proxy."""

from __future__ import annotations

import base64
import json
import ssl
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
import trustme
from aiohttp import web

from harness.reach import prometheus as reach
from harness.reach.errors import (
    BadCertificate,
    Garbled,
    KeyUnusable,
    LabError,
    Unreachable,
)
from harness.reach.kube import Kube
from harness.reach.prometheus import (
    Credentials,
    HttpWay,
    Prometheus,
    QueryRefused,
    ServiceWay,
    Stranger,
    TooLarge,
    Untrusted,
)
from tests.reach.clocks import Counted

Serve = Callable[..., Any]
NONE = {"status": "success", "data": {"resultType": "vector", "result": []}}
BAD = {"status": "error", "errorType": "bad_data", "error": 'invalid parameter "query": 1:1'}


@dataclass
class Server:
    """Answers what it is told, and keeps the requests as they came."""

    status: int = 200
    body: bytes = json.dumps(NONE).encode()
    seen: list[str] = field(default_factory=list)
    shown: list[str] = field(default_factory=list)
    port: int = 0

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path}")
        self.shown.append(request.headers.get("Authorization", ""))
        self.query = dict(request.query)
        return web.Response(status=self.status, body=self.body)


@pytest.fixture
def plain(serve: Serve) -> Iterator[Server]:
    server = Server()
    with serve(server.answer, None) as port:
        server.port = port
        yield server


@pytest.fixture
def secured(serve: Serve, authority: trustme.CA) -> Iterator[Server]:
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with serve(server.answer, context) as port:
        server.port = port
        yield server


def at(server: Server, credentials: Credentials = reach.NOBODY, scheme: str = "http") -> Prometheus:
    clock = Counted()
    url = f"{scheme}://127.0.0.1:{server.port}/select/0/prometheus/"
    return Prometheus(HttpWay(url, credentials, clock), clock)


def test_an_instant_query_is_asked_below_the_path_at_its_moment(plain: Server) -> None:
    answer = at(plain).instant('up{node="a b"}', 1767225600.25)
    assert json.loads(answer.text) == NONE
    assert answer.at == 1767225600.0
    assert answer.source == 'Prometheus query up{node="a b"}'
    assert plain.seen == ["GET /select/0/prometheus/api/v1/query"]
    assert plain.query == {"query": 'up{node="a b"}', "time": "1767225600.250"}


def test_a_range_query_and_a_list_of_series(plain: Server) -> None:
    asked = at(plain)
    asked.range("up", 100.0, 400.0, 60.0)
    assert plain.query == {"query": "up", "start": "100.000", "end": "400.000", "step": "60"}
    asked.series("up", 100.0, 400.0)
    assert plain.query == {"match[]": "up", "start": "100.000", "end": "400.000"}
    assert [one.rpartition("/")[2] for one in plain.seen] == ["query_range", "series"]


@pytest.mark.parametrize(
    ("credentials", "shown"),
    [
        (reach.NOBODY, ""),
        (Credentials(token="abc\n"), "Bearer abc"),
        (
            Credentials(user="hil", password="pass:word"),
            "Basic " + base64.b64encode(b"hil:pass:word").decode(),
        ),
    ],
)
def test_what_the_server_is_shown(plain: Server, credentials: Credentials, shown: str) -> None:
    at(plain, credentials).instant("up", 1.0)
    assert plain.shown == [shown]
    assert "abc" not in repr(credentials)
    assert "pass:word" not in repr(credentials)


def test_a_named_authority_is_trusted_and_no_other(secured: Server, authority: trustme.CA) -> None:
    ours = Credentials(ca=authority.cert_pem.bytes().decode())
    assert at(secured, ours, "https").instant("up", 1.0).text == json.dumps(NONE)
    other = Credentials(ca=trustme.CA().cert_pem.bytes().decode())
    for credentials in (other, reach.NOBODY):
        with pytest.raises(Untrusted, match=r"prometheus\.ca"):
            at(secured, credentials, "https").instant("up", 1.0)


def test_a_client_certificate_is_shown(serve: Serve, authority: trustme.CA) -> None:
    server = Server()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.configure_trust(context)
    pair = authority.issue_cert("hil")
    pem = authority.cert_pem.bytes().decode()
    certificate = "".join(blob.bytes().decode() for blob in pair.cert_chain_pems)
    held = Credentials(pem, certificate, pair.private_key_pem.bytes().decode())
    with serve(server.answer, context) as port:
        server.port = port
        assert at(server, held, "https").instant("up", 1.0).text
        with pytest.raises(Unreachable):
            at(server, Credentials(ca=pem), "https").instant("up", 1.0)


def test_keys_that_do_not_go_together() -> None:
    one, other = trustme.CA().issue_cert("a"), trustme.CA().issue_cert("b")
    certificate = one.cert_chain_pems[0].bytes().decode()
    held = Credentials("", certificate, other.private_key_pem.bytes().decode())
    with pytest.raises(KeyUnusable, match="do not go together"):
        HttpWay("https://metrics.example", held, Counted())
    with pytest.raises(BadCertificate, match="holds no certificate"):
        HttpWay("https://metrics.example", Credentials(ca="none"), Counted())


@pytest.mark.parametrize(
    ("status", "body", "error", "said"),
    [
        (401, b"Unauthorized", Stranger, "HTTP 401"),
        (403, b"no", Stranger, "token, user or certificate"),
        (400, json.dumps(BAD).encode(), QueryRefused, "bad_data"),
        (503, b"<html>busy</html>", QueryRefused, "<html>busy"),
        (200, json.dumps(BAD).encode(), QueryRefused, "bad_data"),
        (302, b"", QueryRefused, "HTTP 302"),
        (200, b"<html>a login page</html>", Garbled, "a login page"),
        (200, b'{"status": "success"}', Garbled, "no answer of its API"),
        (200, b"[" * 100_000, Garbled, "100000 characters"),
    ],
)
def test_what_is_no_answer(
    plain: Server, status: int, body: bytes, error: type[LabError], said: str
) -> None:
    plain.status, plain.body = status, body
    with pytest.raises(error) as raised:
        at(plain).instant("up", 1.0)
    assert said in str(raised.value)
    assert len(plain.seen) == 1, "no question is asked twice unseen"


def test_a_refused_query_keeps_its_kind_and_words(plain: Server) -> None:
    plain.status, plain.body = 400, json.dumps(BAD).encode()
    with pytest.raises(QueryRefused) as raised:
        at(plain).instant("?", 1.0)
    assert (raised.value.code, raised.value.kind) == (400, "bad_data")
    assert raised.value.said == BAD["error"]


def test_an_answer_without_end_is_broken_off(
    plain: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "LARGEST", 1000)
    plain.body = b" " * 5000
    with pytest.raises(TooLarge, match="5000 bytes"):
        at(plain).instant("up", 1.0)


def test_nobody_listens() -> None:
    with pytest.raises(Unreachable, match="prometheus"):
        at(Server(port=1)).instant("up", 1.0)


@pytest.mark.parametrize("url", ["ftp://x", "https://", "metrics:9090", "http://[::1"])
def test_an_address_that_is_none(url: str) -> None:
    with pytest.raises(LabError, match="none of HTTP"):
        HttpWay(url, reach.NOBODY, Counted())


def test_a_service_is_asked_through_the_api_servers_proxy(server: Any, kube: Kube) -> None:
    root = "/api/v1/namespaces/cozy-monitoring/services/http:vmselect:8481/proxy"
    server.routes[f"GET {root}/api/v1/query"] = NONE
    way = ServiceWay(kube, "cozy-monitoring", "vmselect", 8481)
    asked = Prometheus(way, Counted())
    assert json.loads(asked.instant("up", 1.0).text) == NONE
    assert "Service cozy-monitoring/vmselect:8481 of management" in way.where
    with pytest.raises(QueryRefused, match="404"):
        asked.series("up", 0.0, 1.0)
