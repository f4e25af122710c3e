from __future__ import annotations

import json
import os
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

from harness.reach import linstor as reach
from harness.reach.errors import BadCertificate, Garbled, KeyUnusable, LabError, Unreachable
from harness.reach.linstor import CertificateRefused, Keys, Linstor, LinstorRefused, Untrusted
from tests.reach.clocks import Counted

NODES = [{"name": "n1", "type": "Satellite", "connection_status": "ONLINE"}]


@pytest.fixture(scope="module")
def clients() -> trustme.CA:
    """The authority whose certificates the controller lets in."""
    return trustme.CA(key_type=trustme.KeyType.ECDSA)


def keys(ca: trustme.CA, clients: trustme.CA) -> Keys:
    pair = clients.issue_cert("hil")
    certificate = "".join(blob.bytes().decode() for blob in pair.cert_chain_pems)
    return Keys(ca.cert_pem.bytes().decode(), certificate, pair.private_key_pem.bytes().decode())


class Controller:
    """A controller that lets in who has a certificate of ``clients``; it answers what it is told.

    ``seen`` are the requests as they came, ``TLS 1.2`` or later as the test wants.
    """

    def __init__(self) -> None:
        self.status, self.body, self.headers = 200, json.dumps(NODES).encode(), {}
        self.seen: list[str] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.seen.append(f"{request.method} {request.path_qs}")
        return web.Response(status=self.status, body=self.body, headers=self.headers)


Serve = Callable[..., Any]


@contextmanager
def controller(
    serve: Serve, authority: trustme.CA, clients: trustme.CA, newest: ssl.TLSVersion
) -> Iterator[Controller]:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    clients.configure_trust(context)
    there = Controller()
    with serve(there.answer, context) as port:
        there.port = port
        yield there


@pytest.fixture(params=[ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=["1.2", "1.3"])
def there(
    request: Any, serve: Serve, authority: trustme.CA, clients: trustme.CA
) -> Iterator[Controller]:
    with controller(serve, authority, clients, request.param) as one:
        yield one


@pytest.fixture
def modern(serve: Serve, authority: trustme.CA, clients: trustme.CA) -> Iterator[Controller]:
    with controller(serve, authority, clients, ssl.TLSVersion.TLSv1_3) as one:
        yield one


def ask(there: Controller, held: Keys, path: str = "/v1/nodes", **query: str) -> reach.Answer:
    with Linstor(there.url, held, Counted()) as linstor:
        return linstor.get(path, query)


def test_holder_of_a_certificate_is_answered(
    there: Controller, authority: trustme.CA, clients: trustme.CA
) -> None:
    answer = ask(there, keys(authority, clients), resources="pvc-1", limit="2")
    assert json.loads(answer.text) == NODES
    assert answer.at == 1767225600.0
    assert answer.source == "LINSTOR /v1/nodes?resources=pvc-1&limit=2"
    assert there.seen == ["GET /v1/nodes?resources=pvc-1&limit=2"]


def test_several_questions_on_one_client(
    modern: Controller, authority: trustme.CA, clients: trustme.CA
) -> None:
    with Linstor(modern.url, keys(authority, clients), Counted()) as linstor:
        assert {linstor.get("/v1/nodes").text for _ in range(3)} == {json.dumps(NODES)}
    assert len(modern.seen) == 3


def test_controller_that_is_not_trusted(there: Controller, clients: trustme.CA) -> None:
    stranger = trustme.CA(key_type=trustme.KeyType.ECDSA)
    with pytest.raises(Untrusted, match="not trusted here") as caught:
        ask(there, keys(stranger, clients))
    assert "linstor.ca" in caught.value.do
    assert there.seen == []


def test_certificate_of_another_name(
    modern: Controller, authority: trustme.CA, clients: trustme.CA
) -> None:
    with (
        Linstor(f"https://localhost:{modern.port}", keys(authority, clients), Counted()) as linstor,
        pytest.raises(Untrusted, match="localhost"),
    ):
        linstor.get("/v1/nodes")


def test_nobody_listens(authority: trustme.CA, clients: trustme.CA) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with (
        Linstor(f"https://127.0.0.1:{port}", keys(authority, clients), Counted()) as linstor,
        pytest.raises(Unreachable, match="refused") as caught,
    ):
        linstor.get("/v1/nodes")
    assert f"127.0.0.1:{port}" in caught.value.tried


def test_no_such_host(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA, clients: trustme.CA
) -> None:
    def unknown(*_: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    with (
        Linstor("https://linstor.invalid", keys(authority, clients), Counted()) as linstor,
        pytest.raises(Unreachable, match="no such host") as caught,
    ):
        linstor.get("/v1/nodes")
    assert "linstor.invalid" in caught.value.tried


@contextmanager
def raw(answer: Callable[[socket.socket], None]) -> Iterator[int]:
    """A socket that does with its one visitor what ``answer`` says."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            visitor, _ = server.accept()
            with visitor:
                answer(visitor)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]
        thread.join(5)


@pytest.mark.parametrize("newest", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_certificate_of_another_authority_is_refused(
    authority: trustme.CA, clients: trustme.CA, newest: ssl.TLSVersion
) -> None:
    """With TLS 1.3 the alert comes after the handshake, in the place of an answer."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.maximum_version = newest
    authority.issue_cert("127.0.0.1").configure_cert(context)
    context.verify_mode = ssl.CERT_REQUIRED
    clients.configure_trust(context)
    told: list[str] = []

    def refuse(visitor: socket.socket) -> None:
        with context.wrap_socket(visitor, server_side=True, do_handshake_on_connect=False) as tls:
            try:
                tls.do_handshake()
            except ssl.SSLError as error:
                told.append(str(error.reason))
            tls.shutdown(socket.SHUT_WR)
            while os.read(tls.fileno(), 4096):  # closed before, a reset would overtake the alert
                pass

    stranger = trustme.CA(key_type=trustme.KeyType.ECDSA)
    with (
        raw(refuse) as port,
        Linstor(f"https://127.0.0.1:{port}", keys(authority, stranger), Counted()) as linstor,
        pytest.raises(CertificateRefused, match="our client certificate refused") as caught,
    ):
        linstor.get("/v1/nodes")
    assert "linstor.certificate" in caught.value.do
    assert told == ["CERTIFICATE_VERIFY_FAILED"]


def test_port_without_tls(authority: trustme.CA, clients: trustme.CA) -> None:
    def plain(visitor: socket.socket) -> None:
        visitor.recv(4096)
        visitor.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    with (
        raw(plain) as port,
        Linstor(f"https://127.0.0.1:{port}", keys(authority, clients), Counted()) as linstor,
        pytest.raises(Unreachable, match="no TLS") as caught,
    ):
        linstor.get("/v1/nodes")
    assert "3371" in caught.value.do


def test_connection_that_is_hung_up(authority: trustme.CA, clients: trustme.CA) -> None:
    def hang_up(visitor: socket.socket) -> None:
        visitor.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")

    with (
        raw(hang_up) as port,
        Linstor(f"https://127.0.0.1:{port}", keys(authority, clients), Counted()) as linstor,
        pytest.raises(Unreachable, match="cut off") as caught,
    ):
        linstor.get("/v1/nodes")
    assert "client certificate" in caught.value.do


def test_silent_server_is_given_up(
    monkeypatch: pytest.MonkeyPatch, authority: trustme.CA, clients: trustme.CA
) -> None:
    monkeypatch.setattr(reach, "READ", 0.2)
    monkeypatch.setattr(reach, "CONNECT", 0.2)
    done = threading.Event()
    with (
        raw(lambda _: done.wait(5) and None) as port,
        Linstor(f"https://127.0.0.1:{port}", keys(authority, clients), Counted()) as linstor,
    ):
        with pytest.raises(Unreachable, match="timed out"):
            linstor.get("/v1/nodes")
        done.set()


def test_endless_answer_is_given_up(
    serve: Serve, authority: trustme.CA, clients: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reach, "WHOLE", 5.0)

    async def drip(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for _ in range(2000):
            await response.write(b" " * 10)
        return response

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    with (
        serve(drip, context) as port,
        Linstor(f"https://127.0.0.1:{port}", keys(authority, clients), Counted()) as linstor,
        pytest.raises(Unreachable, match="and no end"),
    ):
        linstor.get("/v1/nodes")


def test_large_answer_is_given_up(
    modern: Controller,
    authority: trustme.CA,
    clients: trustme.CA,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(reach, "LARGEST", 100)
    modern.body = json.dumps(["x" * 200]).encode()
    with pytest.raises(Unreachable, match="bytes after"):
        ask(modern, keys(authority, clients))


def test_refusal_tells_linstors_own_messages(
    modern: Controller, authority: trustme.CA, clients: trustme.CA
) -> None:
    modern.status = 404
    said = {"message": "Node 'n9'\nnot found.", "cause": "It was never added.", "ret_code": -46}
    modern.body = json.dumps([said, {"message": "Second."}, "noise"]).encode()
    with pytest.raises(LinstorRefused) as caught:
        ask(modern, keys(authority, clients), "/v1/nodes/n9")
    refused = caught.value
    assert (refused.code, refused.messages) == (
        404,
        ("Node 'n9' not found. - It was never added.", "Second."),
    )
    assert refused.saw == "HTTP 404: Node 'n9' not found. - It was never added.; Second."
    assert "/v1/nodes/n9" in refused.tried


@pytest.mark.parametrize("body", [b"<html>Bad Gateway</html>", b'{"a": 1}', b"[]", b"3"])
def test_refusal_that_is_not_linstors_is_quoted(
    modern: Controller, authority: trustme.CA, clients: trustme.CA, body: bytes
) -> None:
    modern.status, modern.body = 502, body
    with pytest.raises(LinstorRefused, match="HTTP 502") as caught:
        ask(modern, keys(authority, clients))
    assert caught.value.messages == ()
    assert repr(body.decode()) in caught.value.saw


@pytest.mark.parametrize("body", [b"", b"<html>hello</html>", b'[{"name": "n1"', b"\xff\xfe["])
def test_answer_that_is_no_json(
    modern: Controller, authority: trustme.CA, clients: trustme.CA, body: bytes
) -> None:
    modern.body = body
    with pytest.raises(Garbled, match="no JSON"):
        ask(modern, keys(authority, clients))


def test_redirect_is_not_followed(
    modern: Controller, authority: trustme.CA, clients: trustme.CA
) -> None:
    modern.status, modern.headers = 302, {"Location": "https://elsewhere.invalid/"}
    with pytest.raises(LinstorRefused, match="HTTP 302"):
        ask(modern, keys(authority, clients))
    assert len(modern.seen) == 1


def test_nothing_is_asked_twice(
    modern: Controller, authority: trustme.CA, clients: trustme.CA
) -> None:
    modern.status = 503
    with pytest.raises(LinstorRefused):
        ask(modern, keys(authority, clients))
    assert len(modern.seen) == 1


@pytest.mark.parametrize(
    "url",
    [
        *("http://linstor:3370", "linstor:3371", "https://", "tcp://a:1"),
        *("https://a:99999", "https://a:port", "https://[::1:3371"),
    ],
)
def test_address_that_is_none_of_https(
    authority: trustme.CA, clients: trustme.CA, url: str
) -> None:
    with pytest.raises(LabError, match="none of HTTPS"):
        Linstor(url, keys(authority, clients), Counted())


def test_default_port_is_that_of_tls(authority: trustme.CA, clients: trustme.CA) -> None:
    with Linstor("https://linstor.invalid/", keys(authority, clients), Counted()) as linstor:
        assert linstor._pool.port == 3371


def test_authority_that_is_none(authority: trustme.CA, clients: trustme.CA) -> None:
    held = keys(authority, clients)
    for ca in ("", "nonsense", held.key):
        with pytest.raises(BadCertificate, match=r"linstor\.ca"):
            Linstor("https://a", Keys(ca, held.certificate, held.key), Counted())


def test_certificate_and_key_that_do_not_go_together(
    authority: trustme.CA, clients: trustme.CA
) -> None:
    one, another = keys(authority, clients), keys(authority, clients)
    encrypted = load_pem_private_key(one.key.encode(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"word")
    )
    for key in (another.key, "nonsense", "", encrypted.decode()):
        with pytest.raises(KeyUnusable, match="do not go together") as caught:
            Linstor("https://a", Keys(one.ca, one.certificate, key), Counted())
        said = f"{caught.value}{caught.value.__cause__}{caught.value.args}"
        assert not key or key not in said
        assert one.certificate not in said


def test_keys_never_show_what_they_hold(authority: trustme.CA, clients: trustme.CA) -> None:
    assert repr(keys(authority, clients)) == str(keys(authority, clients)) == "Keys(...)"


def test_no_key_stays_on_the_disk(
    authority: trustme.CA,
    clients: trustme.CA,
    tmp_path: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    Linstor("https://a", keys(authority, clients), Counted()).close()
    with pytest.raises(KeyUnusable):
        Linstor("https://a", Keys(keys(authority, clients).ca, "x", "y"), Counted())
    assert list(tmp_path.iterdir()) == []


def test_password_in_the_address_is_not_told(authority: trustme.CA, clients: trustme.CA) -> None:
    with Linstor("https://me:sesame@a:1", keys(authority, clients), Counted()) as linstor:
        assert linstor.url == "https://a:1"
