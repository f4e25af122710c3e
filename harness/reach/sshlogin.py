"""Logging in over SSH: address, pinned host key, private key or agent; a jump host on the way."""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.reach.errors import KeyUnusable, LoginRefused, Unreachable
from harness.reach.hostkeys import SSH_PORT, HostKey, Pins, named

if TYPE_CHECKING:
    from paramiko import PKey, Transport

    from harness.clock import Clock

KEEPALIVE = 15.0
"""Real seconds of silence after which a packet is sent that the server ignores."""

UNACKNOWLEDGED = 30.0
"""Real seconds after which the kernel gives up a connection whose other side acknowledges nothing
(TCP_USER_TIMEOUT): its own patience is about a quarter of an hour."""

GARBLED = (EOFError, OSError, ValueError, LookupError, TypeError, ArithmeticError, struct.error)
"""What paramiko raises beside its own SSHException: its thread hands on whatever the other side's
bytes made its parsers fail with (text that is no UTF-8, a packet that ends early)."""


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine and how to log in to it.

    ``key_file`` is a private key without a passphrase; ``agent`` offers the keys of the running
    ssh-agent, after it. There are no passwords. ``prefix`` goes before each command
    (``("sudo", "-n")``). ``jump`` is a machine to go through. ``where`` is how facts name it.
    """

    host: str
    user: str = "root"
    port: int = SSH_PORT
    pins: Pins = field(default_factory=Pins)
    key_file: Path | None = None
    agent: bool = False
    prefix: tuple[str, ...] = ()
    jump: Machine | None = None
    where: str = ""

    @property
    def tried(self) -> str:
        """What messages say was attempted."""
        return f"log in to {self.user}@{named(self.host, self.port)}"


def connect(machine: Machine, clock: Clock, until: float, log: str) -> list[Transport]:
    """Log in, through jump hosts first; the last transport is the machine's own.

    ``until`` is a moment of the runner's monotonic clock, ``log`` the logger for paramiko's own
    messages. Raises Unreachable, HostKeyUnknown, HostKeyChanged, KeyUnusable or LoginRefused;
    nothing is left open then.
    """
    before = connect(machine.jump, clock, until, log) if machine.jump else []
    with ExitStack() as undo:
        for transport in before:
            undo.callback(transport.close)
        made = _log_in(machine, clock, until, log, before[-1] if before else None)
        undo.pop_all()
    return [*before, made]


def _log_in(
    machine: Machine, clock: Clock, until: float, log: str, through: Transport | None
) -> Transport:
    import paramiko

    keys = list(_keys(machine))
    try:
        plain = _dial(machine, max(0.1, until - clock.monotonic()), through)
        transport = paramiko.Transport(plain)
    except (paramiko.SSHException, *GARBLED) as error:  # a ValueError for a name that is none
        do = "check that the machine is up and its address is right"
        raise Unreachable(machine.tried, _told(error), do) from error
    transport.set_log_channel(log)
    with ExitStack() as undo:
        undo.callback(transport.close)
        _negotiate(transport, machine, until - clock.monotonic())
        _authenticate(transport, machine, keys, until - clock.monotonic())
        transport.set_keepalive(int(KEEPALIVE))
        undo.pop_all()
    return transport


def _dial(machine: Machine, timeout: float, through: Transport | None) -> Any:
    where = (machine.host, machine.port)
    if through is not None:
        return through.open_channel("direct-tcpip", where, ("127.0.0.1", 0), timeout=timeout)
    plain = socket.create_connection(where, timeout)
    plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        milliseconds = int(UNACKNOWLEDGED * 1000)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, milliseconds)
    return plain


def _negotiate(transport: Transport, machine: Machine, timeout: float) -> None:
    """Agree on a secure line with the machine that the pinned key belongs to."""
    import paramiko

    options = transport.get_security_options()
    known = machine.pins.kinds(machine.host, machine.port)
    # a server has several keys: ask for one of those that are known
    wanted = [kind for kind in options.key_types if _plain(kind) in known]
    options.key_types = (*wanted, *(kind for kind in options.key_types if kind not in wanted))
    transport.banner_timeout = transport.handshake_timeout = max(0.1, timeout)
    try:
        transport.start_client(timeout=max(0.1, timeout))
        key = transport.get_remote_server_key()
    except (paramiko.SSHException, *GARBLED) as error:
        silent = transport.is_active()
        saw = f"no SSH within {timeout:.3g} s" if silent else f"no SSH there ({_told(error)})"
        do = "check that sshd answers at that address and port"
        raise Unreachable(machine.tried, saw, do) from error
    machine.pins.check(machine.host, machine.port, HostKey(key.get_name(), key.asbytes()))


def _plain(kind: str) -> str:
    # signature algorithms of RSA keys have names of their own (RFC 8332)
    return "ssh-rsa" if kind.startswith("rsa-sha2-") else kind


def _authenticate(transport: Transport, machine: Machine, keys: list[PKey], timeout: float) -> None:
    import paramiko

    transport.auth_timeout = max(0.1, timeout)
    refused = []
    for key in keys:
        try:
            more = transport.auth_publickey(machine.user, key)
        except paramiko.BadAuthenticationType as error:
            refused.append(f"the server takes {', '.join(error.allowed_types)} only")
        except (paramiko.SSHException, *GARBLED) as error:
            refused.append(_told(error))
        else:
            if not more:
                return
            refused.append(f"the server wants {', '.join(more)} as well")
        if not transport.is_active():
            break
    offered = ", ".join(f"{key.fingerprint} ({key.get_name()})" for key in keys)
    saw = f"{'; '.join(dict.fromkeys(refused))}, having offered {offered}"
    do = "put the public key into that user's authorized_keys, or name another key or user"
    raise LoginRefused(machine.tried, saw, do)


def _keys(machine: Machine) -> Iterator[PKey]:
    """The keys to offer, in order; at least one, or an error."""
    import paramiko

    found = 0
    if machine.key_file is not None:
        found += 1
        yield _from_file(machine, machine.key_file)
    for key in paramiko.Agent().get_keys() if machine.agent else ():
        found += 1
        yield key
    if not found:
        saw = "an ssh-agent without keys" if machine.agent else "neither a key file nor an agent"
        do = "name a private key file, or add a key to a running ssh-agent"
        raise LoginRefused(machine.tried, saw, do)


def _from_file(machine: Machine, path: Path) -> PKey:
    import paramiko
    from paramiko.pkey import UnknownKeyType

    do = "name a private key in OpenSSH's or PEM form"
    try:
        return paramiko.PKey.from_path(path)
    except FileNotFoundError:
        raise KeyUnusable(machine.tried, f"no key file {path}", "name an existing file") from None
    except (paramiko.PasswordRequiredException, TypeError) as error:
        saw = f"{path}, which needs a passphrase"
        do = "add it to an ssh-agent, or name a key without one"
        raise KeyUnusable(machine.tried, saw, do) from error
    except (OSError, ValueError, paramiko.SSHException) as error:
        raise KeyUnusable(machine.tried, f"{path}: {_told(error)}", do) from error
    except UnknownKeyType as error:
        raise KeyUnusable(machine.tried, f"{path}, a key of an unknown type", do) from error


def _told(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
