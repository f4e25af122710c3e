"""LINSTOR's REST API over HTTPS: who has no certificate of its authority does not get in.

On a cluster that is Service linstor-controller in cozy-linstor, port 3371 (objects.md section 8).
A connection has a thread of its own, since asyncio closes one whose handshake fails before the TLS
alert that says why is sent. What is asked is answered in the event loop, where the world lives.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler

from harness.twin.apiserver.http1 import http_date
from harness.twin.apiserver.requestlog import Request, RequestLog
from harness.twin.apiserver.tls import Authority
from harness.twin.engine import Engine
from harness.twin.world.linstor_rest import Rest

NAME = "linstor"
"""What the request log calls it."""
_HOST = "127.0.0.1"
_PATIENCE = 30.0  # real seconds for the event loop's answer, and for a client's next request
_LAST_WORD = 1.0  # real seconds in which a client that is refused may read why
_LARGEST = 2**20  # bytes of a body
_Ask = Callable[[str, str, bytes, str], tuple[int, bytes, str]]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client needs, as PEM: the authority's certificate, its own, and its key."""

    ca: bytes
    certificate: bytes
    key: bytes


class LinstorPort:
    """The controller's HTTPS port. Its authority is its own: the clusters' users are strangers."""

    def __init__(self, rest: Rest, engine: Engine, log: RequestLog) -> None:
        self._rest, self._engine, self._log = rest, engine, log
        self._authority = Authority("linstor-api-ca")
        self._listener: socket.socket | None = None
        self._talks: list[_Talk] = []
        self.url = ""

    def issue(self) -> Credentials:
        """A new certificate for a client, which is let in."""
        certificate, key = self._authority.client("linstor-client")
        return Credentials(self._authority.ca_pem, certificate, key)

    def open(self, port: int = 0) -> None:
        """Listen on loopback, in the event loop that runs; ``url`` says where. Raises OSError."""
        loop = asyncio.get_running_loop()
        context = self._authority.server_context()
        context.verify_mode = ssl.CERT_REQUIRED
        self._listener = listener = socket.create_server((_HOST, port))
        listener.setblocking(False)
        loop.add_reader(listener, self._accept, loop, listener, context)
        self.url = f"https://{_HOST}:{listener.getsockname()[1]}"

    def close(self) -> None:
        """Listen no more, and end every connection."""
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None
        for talk in self._talks:
            talk.end()
        self._talks = []

    def _accept(
        self, loop: asyncio.AbstractEventLoop, listener: socket.socket, context: ssl.SSLContext
    ) -> None:
        try:
            plain, _ = listener.accept()
        except OSError:
            return  # it left before it was let in

        def ask(method: str, target: str, body: bytes, agent: str) -> tuple[int, bytes, str]:
            async def answer() -> tuple[int, bytes, str]:
                return self._answer(method, target, body, agent)

            return asyncio.run_coroutine_threadsafe(answer(), loop).result(_PATIENCE)

        talk = _Talk(plain, context, ask)
        self._talks = [one for one in self._talks if one.thread.is_alive()]
        self._talks.append(talk)
        talk.thread.start()

    def _answer(self, method: str, target: str, body: bytes, agent: str) -> tuple[int, bytes, str]:
        """Status, body and Date of an answer."""
        path, _, query = target.partition("?")
        reply = self._rest.answer(method, path, query, body)
        self._log.add(Request(NAME, method.lower(), path, query, reply.status, agent))
        return reply.status, json.dumps(reply.value).encode(), http_date(int(self._engine.now))


class _Talk:
    """One connection: its handshake, then one request after the other."""

    def __init__(self, plain: socket.socket, context: ssl.SSLContext, ask: _Ask) -> None:
        self._plain, self._context, self._ask = plain, context, ask
        self._secured: socket.socket = plain
        self.thread = threading.Thread(target=self._run, name="linstor", daemon=True)

    def end(self) -> None:
        """Cut the line."""
        with contextlib.suppress(OSError):  # it may have ended by itself
            self._secured.shutdown(socket.SHUT_RDWR)

    def _run(self) -> None:
        self._plain.setblocking(True)
        self._plain.settimeout(_PATIENCE)
        try:
            self._secured = self._context.wrap_socket(
                self._plain, server_side=True, do_handshake_on_connect=False
            )
            self._handshake()
        except OSError:
            pass  # it was refused, and told why, or it left
        finally:
            self._secured.close()

    def _handshake(self) -> None:
        assert isinstance(self._secured, ssl.SSLSocket)
        try:
            self._secured.do_handshake()
        except ssl.SSLError:
            self._linger()
            raise
        _Handler(self._secured, self._ask)

    def _linger(self) -> None:
        """Leave only when the client has read the alert: a reset would overtake it."""
        line = self._secured
        assert isinstance(line, ssl.SSLSocket)
        bare = socket.socket(fileno=line.detach())
        self._secured = bare
        bare.shutdown(socket.SHUT_WR)
        bare.settimeout(_LAST_WORD)
        while bare.recv(4096):
            pass


class _Handler(BaseHTTPRequestHandler):
    """Reads requests of one connection, and sends what they are answered with."""

    protocol_version = "HTTP/1.1"
    timeout = _PATIENCE

    def __init__(self, line: ssl.SSLSocket, ask: _Ask) -> None:
        self._ask = ask
        super().__init__(line, line.getpeername(), None)  # type: ignore[arg-type]  # no server

    def reply(self) -> None:
        """Answer the request that was read."""
        length = self.headers.get("Content-Length", "0")
        if not length.isdigit() or int(length) > _LARGEST:
            self.send_error(413)
            return
        body = self.rfile.read(int(length))
        agent = self.headers.get("User-Agent", "")
        status, told, date = self._ask(self.command, self.path, body, agent)
        self.send_response_only(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Date", date)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(told)

    def __getattr__(self, name: str) -> Callable[[], None]:
        if name.startswith("do_"):  # the base looks for do_GET, do_POST and so on
            return self.reply
        raise AttributeError(name)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed: the request log has it."""
