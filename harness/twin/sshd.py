"""The hypervisors' SSH servers: one port of the loopback for each, one key that is let in.

A connection has a thread of its own. What a command does is asked of the event loop, where the
world lives and where time stands meanwhile; only bytes are moved here. The SSH library is loaded
with the first connection: a twin that nobody logs in to does not pay for it.
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import io
import logging
import queue
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from harness.twin.apiserver.execresult import ExecResult

if TYPE_CHECKING:
    from paramiko import Channel

USER = "root"
ADDRESS = "127.0.0.1"
_PATIENCE = 30.0  # real seconds for the event loop's answer, and for a client's
_LOOK = 0.5  # real seconds between two looks at whether the client is still there
_LOG = "harness.twin.ssh"
logging.getLogger(_LOG).addHandler(logging.NullHandler())  # paramiko prints its tracebacks else
Shell = Callable[[str], ExecResult]


@dataclass(frozen=True, slots=True)
class Door:
    """Where a host's SSH server is. ``fingerprint`` is its host key's, as OpenSSH shows it."""

    address: str
    port: int
    user: str
    fingerprint: str


class HostDoors:
    """The SSH servers of every host of ``shells``, by name: a command line in, its result out."""

    def __init__(self, shells: Mapping[str, Shell]) -> None:
        self._shells = shells
        self._client, self._keys = _Key(), {name: _Key() for name in shells}
        self._listeners: dict[str, socket.socket] = {}
        self._talks: list[_Talk] = []

    @property
    def private_key(self) -> str:
        """The key that is let in, in OpenSSH's form."""
        return self._client.text

    def open(self) -> dict[str, Door]:
        """Listen, in the event loop that runs; where each host is. Raises OSError."""
        loop = asyncio.get_running_loop()
        doors = {}
        for name, key in self._keys.items():
            listener = socket.create_server((ADDRESS, 0))
            listener.setblocking(False)
            self._listeners[name] = listener
            loop.add_reader(listener, self._accept, loop, name, listener)
            doors[name] = Door(ADDRESS, listener.getsockname()[1], USER, key.fingerprint)
        return doors

    def close(self) -> None:
        """Listen no more, and end every connection."""
        loop = asyncio.get_running_loop()
        for listener in self._listeners.values():
            loop.remove_reader(listener)
            listener.close()
        self._listeners = {}
        for talk in self._talks:
            talk.end()
        self._talks = []

    def _accept(self, loop: asyncio.AbstractEventLoop, name: str, listener: socket.socket) -> None:
        try:
            plain, _ = listener.accept()
        except OSError:
            return  # it left before it was let in
        plain.setblocking(True)
        shell = self._shells[name]

        def ask(line: str) -> ExecResult:
            async def answer() -> ExecResult:
                return shell(line)

            return asyncio.run_coroutine_threadsafe(answer(), loop).result(_PATIENCE)

        talk = _Talk(plain, self._keys[name].text, self._client.blob, ask)
        self._talks = [one for one in self._talks if one.thread.is_alive()]
        self._talks.append(talk)
        talk.thread.start()


class _Key:
    """A key pair that lives in memory. ``blob`` is the public key as it goes over the wire."""

    def __init__(self) -> None:
        made = Ed25519PrivateKey.generate()
        self.text = made.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.OpenSSH,
            serialization.NoEncryption(),
        ).decode()
        public = made.public_key().public_bytes(
            serialization.Encoding.OpenSSH, serialization.PublicFormat.OpenSSH
        )
        self.blob = base64.b64decode(public.split()[1])

    @property
    def fingerprint(self) -> str:
        """``SHA256:`` and the digest in base64, not padded."""
        digest = base64.b64encode(hashlib.sha256(self.blob).digest())
        return f"SHA256:{digest.decode().rstrip('=')}"


class _Talk:
    """One connection, in a thread of its own until the client has left."""

    def __init__(
        self, plain: socket.socket, key: str, accepted: bytes, ask: Callable[[str], ExecResult]
    ) -> None:
        self._plain, self._key, self._accepted, self._ask = plain, key, accepted, ask
        self._commands: queue.SimpleQueue[tuple[Channel, str]] = queue.SimpleQueue()
        self._transport: Any = None
        self.thread = threading.Thread(target=self._run, name="ssh", daemon=True)

    def end(self) -> None:
        """Cut the line."""
        if self._transport is not None:
            self._transport.close()
        else:
            self._plain.close()

    def _run(self) -> None:
        import paramiko

        try:
            self._transport = transport = paramiko.Transport(self._plain)
            transport.set_log_channel(_LOG)
            transport.add_server_key(paramiko.Ed25519Key.from_private_key(io.StringIO(self._key)))
            transport.start_server(server=_interface(self._accepted, self._commands))
            while transport.is_active():
                self._serve(transport)
        except (paramiko.SSHException, EOFError, OSError):
            self.end()  # whoever it was does not speak SSH, or has gone

    def _serve(self, transport: Any) -> None:
        try:
            channel, line = self._commands.get(timeout=_LOOK)
        except queue.Empty:
            return
        # The request is answered once the library's handler has returned, and an answer that
        # overtakes that ends the channel too soon. What the client is asked here, it can only
        # reply to the same thread: when that reply is there, the request was answered.
        transport.global_request("hil@twin", wait=True)
        try:
            result = self._ask(line)
            channel.sendall(result.stdout)
            channel.sendall_stderr(result.stderr + result.error.encode())
            channel.send_exit_status(result.exit_code)
        finally:
            channel.close()


def _interface(accepted: bytes, commands: queue.SimpleQueue[tuple[Channel, str]]) -> Any:
    """What the SSH library asks of a server: the key, sessions, and commands in them."""
    import paramiko
    from paramiko import common

    class Interface(paramiko.ServerInterface):
        def get_allowed_auths(self, username: str) -> str:
            del username
            return "publickey"

        def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
            known = username == USER and key.asbytes() == accepted
            return common.AUTH_SUCCESSFUL if known else common.AUTH_FAILED

        def check_channel_request(self, kind: str, chanid: int) -> int:
            del chanid
            if kind == "session":
                return common.OPEN_SUCCEEDED
            return common.OPEN_FAILED_ADMINISTRATIVELY_PROHIBITED

        def check_channel_exec_request(self, channel: Channel, command: bytes) -> bool:
            commands.put((channel, command.decode("utf-8", "replace")))
            return True

    return Interface()
