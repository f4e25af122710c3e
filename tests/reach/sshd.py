"""A real SSH server on loopback whose commands do what a test needs, and a way to cut it off."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import paramiko

Command = Callable[[paramiko.Channel], None]


def key(kind: str = "ed25519") -> paramiko.PKey:
    """A new private key."""
    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import ec, ed25519

    made = (
        ed25519.Ed25519PrivateKey.generate()
        if kind == "ed25519"
        else ec.generate_private_key(ec.SECP256R1())
    )
    text = made.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.OpenSSH,
        serialization.NoEncryption(),
    ).decode()
    import io

    chosen = paramiko.Ed25519Key if kind == "ed25519" else paramiko.ECDSAKey
    found = chosen.from_private_key(io.StringIO(text))
    found.text = text  # type: ignore[attr-defined]  # for tests that need the file
    return found


@dataclass
class Sshd:
    """A server in threads. ``commands`` maps a command line to what it does; any other line is
    given to /bin/sh, as a login shell would take it."""

    host_keys: tuple[paramiko.PKey, ...] = field(default_factory=lambda: (key(),))
    accepted: list[paramiko.PKey] = field(default_factory=lambda: [key()])
    allowed: str = "publickey"
    sessions: int = 100
    commands: dict[str, Command] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    transports: list[paramiko.Transport] = field(default_factory=list)
    forwarded: list[tuple[str, int]] = field(default_factory=list)
    port: int = 0
    open_sessions: int = 0
    _listener: socket.socket = field(default_factory=socket.socket)

    def start(self) -> None:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(32)
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for transport in self.transports:
            transport.close()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            transport = paramiko.Transport(connection)
            transport.set_log_channel("hil.ssh")
            for host_key in self.host_keys:
                transport.add_server_key(host_key)
            self.transports.append(transport)
            _tell_of_answers(transport)
            # with an event it does not wait for the client
            transport.start_server(event=threading.Event(), server=_Server(self))

    def run(self, channel: paramiko.Channel, line: str) -> None:
        # a real server accepts the request before the command can say anything
        channel.get_transport().accepted(channel.remote_chanid).wait(10)
        try:
            self.commands.get(line, lambda it: _shell(it, line))(channel)
        except (OSError, EOFError):
            return  # the client has gone
        finally:
            self.open_sessions -= 1


def _tell_of_answers(transport: Any) -> None:
    """Give a transport ``accepted(channel)``: set once that channel's request was answered."""
    events: dict[int, threading.Event] = {}
    send = transport._send_user_message

    def accepted(channel: int) -> threading.Event:
        return events.setdefault(channel, threading.Event())

    def tell(message: paramiko.Message) -> None:
        send(message)
        data = message.asbytes()
        if data[0] == 99:  # SSH_MSG_CHANNEL_SUCCESS
            accepted(int.from_bytes(data[1:5], "big")).set()

    transport.accepted = accepted
    transport._send_user_message = tell


class _Server(paramiko.ServerInterface):
    def __init__(self, sshd: Sshd) -> None:
        self._sshd = sshd

    def get_allowed_auths(self, username: str) -> str:
        return self._sshd.allowed

    def check_auth_publickey(self, username: str, key: paramiko.PKey) -> int:
        if "publickey" not in self._sshd.allowed:
            return paramiko.AUTH_FAILED
        known = any(key == accepted for accepted in self._sshd.accepted)
        if not (known and username == "root"):
            return paramiko.AUTH_FAILED
        return paramiko.AUTH_SUCCESSFUL

    def check_channel_request(self, kind: str, chanid: int) -> int:
        if self._sshd.open_sessions >= self._sshd.sessions:
            return paramiko.OPEN_FAILED_RESOURCE_SHORTAGE
        self._sshd.open_sessions += 1
        return paramiko.OPEN_SUCCEEDED

    def check_channel_direct_tcpip_request(
        self, chanid: int, origin: tuple[str, int], destination: tuple[str, int]
    ) -> int:
        self._sshd.forwarded.append(destination)
        threading.Thread(target=self._forward, args=(chanid, destination), daemon=True).start()
        return paramiko.OPEN_SUCCEEDED

    def _forward(self, chanid: int, destination: tuple[str, int]) -> None:
        transport = self._sshd.transports[-1]
        channel = transport.accept(10)
        assert channel is not None
        there = socket.create_connection(destination, 10)
        for source, sink in ((channel, there), (there, channel)):
            threading.Thread(target=_pump, args=(source, sink), daemon=True).start()

    def check_channel_exec_request(self, channel: paramiko.Channel, command: bytes) -> bool:
        line = command.decode()
        self._sshd.lines.append(line)
        if line.startswith("refused"):
            return False
        threading.Thread(target=self._sshd.run, args=(channel, line), daemon=True).start()
        return True


def _shell(channel: paramiko.Channel, line: str) -> None:
    ended = subprocess.run(
        ["/bin/sh", "-c", line], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    finish(channel, ended.stdout, ended.stderr, ended.returncode)


def finish(channel: paramiko.Channel, out: bytes = b"", err: bytes = b"", code: int = 0) -> None:
    """Send both streams and a status, and close."""
    if out:
        channel.sendall(out)
    if err:
        channel.sendall_stderr(err)
    channel.send_exit_status(code)
    channel.close()


def _pump(source: Any, sink: Any) -> None:
    with contextlib.suppress(OSError, EOFError):  # of a socket, of a channel whose line is dead
        while data := source.recv(65536):
            sink.sendall(data)
    with contextlib.suppress(OSError, EOFError):
        sink.close()


class Relay:
    """Stands between a client and a server. ``freeze`` carries nothing more and ends nothing."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._sockets: list[socket.socket] = []
        self._frozen = threading.Event()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._target), 10)
            self._sockets += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._frozen.is_set():
                    continue
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def freeze(self) -> None:
        self._frozen.set()

    def cut(self) -> None:
        # those of now: whoever sees its line cut may be back before this loop is through
        for one in tuple(self._sockets):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)

    def stop(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for one in self._sockets:
            one.close()


@contextlib.contextmanager
def relayed(port: int) -> Iterator[Relay]:
    relay = Relay(port)
    try:
        yield relay
    finally:
        relay.stop()
