"""Run a command in a container: argument vector in, bytes and an exit status out.

The remote command protocol over WebSockets, v5 before v4: the first byte of a message is its
channel (0 stdin, 1 stdout, 2 stderr, 3 a Status object at the end; 255, in v5, says that a stream
is over). The official client's own exec is not
thread-safe, hides exit codes and breaks split characters (lab/python_kube_stack.md 2.5).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.reach.errors import Garbled
from harness.reach.kinds import Kind
from harness.reach.sockets import Bounded, open_socket

if TYPE_CHECKING:
    from websocket import WebSocket

    from harness.reach.kube import Kube

PROTOCOLS = ("v5.channel.k8s.io", "v4.channel.k8s.io")
_PODS = Kind("v1", "Pod", "pods", namespaced=True, base="/api/v1")
_STDIN, _STDOUT, _STDERR, _STATUS, _CLOSE = 0, 1, 2, 3, 255
_PIECE = 16 * 1024  # bytes of input in one message
_AFTER_STATUS = 2.0  # seconds for the server to close; the status is the last thing it sends


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command answered.

    ``exit_code`` is None where no exit status came, and ``problem`` then says why: unknown, never
    success. ``started`` and ``ended`` are the lab's time, epoch seconds.
    """

    argv: tuple[str, ...]
    exit_code: int | None
    stdout: bytes
    stderr: bytes
    started: float
    ended: float
    problem: str = ""


def run_in_pod(
    kube: Kube,
    namespace: str,
    pod: str,
    argv: Sequence[str],
    *,
    container: str = "",
    stdin: bytes = b"",
    tty: bool = False,
    timeout: float = 30.0,
) -> Reply:
    """Run ``argv`` in a running container; "" is the pod's only or default one.

    ``stdin`` is given to it to the end, and its end is told: a server that cannot be told so (one
    that speaks v4 only) is not asked, and Unreachable is raised. With ``tty`` a terminal stands
    between: both streams come as stdout, with the terminal's line ends, and what is typed may be
    echoed. ``timeout`` is in seconds of the runner's time, for the whole of it; past it the reply
    holds what had come and no exit code. A refused exec raises ApiRefused, no connection
    Unreachable.
    """
    if not argv:
        raise ValueError("an exec needs a command")
    query = _query(argv, container, stdin=bool(stdin), tty=tty)
    path = _PODS.path(namespace, pod, "exec")
    started = kube.clock.now()
    # a server that cannot be told that the input is over would leave the command waiting for more
    protocols = PROTOCOLS[:1] if stdin else PROTOCOLS
    opened, bounded = open_socket(kube, "exec", path, query, protocols, timeout)
    received = _Received()
    try:
        ending = _converse(opened, bounded, received, kube, timeout, stdin)
    finally:
        shut: Callable[[], None] = opened.shutdown
        shut()
    code, problem = received.verdict(ending)
    out, err = b"".join(received.stdout), b"".join(received.stderr)
    return Reply(tuple(argv), code, out, err, started, kube.clock.now(), problem)


def _query(argv: Sequence[str], container: str, *, stdin: bool, tty: bool) -> list[tuple[str, str]]:
    # with a terminal there is no stderr of its own: the API refuses the two together
    streams = {"stdin": stdin, "stdout": True, "stderr": not tty, "tty": tty}
    query = [("command", part) for part in argv]
    query += [(name, "true") for name, wanted in streams.items() if wanted]
    return [*query, ("container", container)] if container else query


@dataclass(slots=True)
class _Received:
    """What came on each channel, in pieces: joining once keeps 64 MB linear."""

    stdout: list[bytes] = field(default_factory=list)
    stderr: list[bytes] = field(default_factory=list)
    status: list[bytes] = field(default_factory=list)

    def add(self, message: bytes) -> None:
        # an empty message on a channel only announces it
        if len(message) < 2:
            return
        channels = {_STDOUT: self.stdout, _STDERR: self.stderr, _STATUS: self.status}
        if message[0] not in channels:
            raise Garbled("run a command", f"a message on channel {message[0]}", "report it")
        channels[message[0]].append(message[1:])

    def verdict(self, ending: str) -> tuple[int | None, str]:
        if self.status:
            return read_status(b"".join(self.status))
        size = sum(map(len, self.stdout)) + sum(map(len, self.stderr))
        return None, f"{ending} without an exit status, after {size} bytes of output"


def read_status(raw: bytes) -> tuple[int | None, str]:
    """The exit code in a remote command's Status object, or None and the problem. Never raises."""
    try:
        status: Any = json.loads(raw)
    except ValueError:
        status = None
    if not isinstance(status, dict):
        return None, f"an exit status that cannot be read: {_quoted(raw)}"
    if status.get("status") == "Success":
        return 0, ""
    details = status.get("details")
    causes = details.get("causes") if isinstance(details, dict) else None
    for cause in causes if isinstance(causes, list) else []:
        if isinstance(cause, dict) and cause.get("reason") == "ExitCode":
            text = str(cause.get("message"))
            if text.isascii() and text.isdigit():
                return int(text), ""
    return None, str(status.get("message") or f"a status without an exit code: {_quoted(raw)}")


def _converse(
    opened: WebSocket,
    bounded: Bounded,
    received: _Received,
    kube: Kube,
    timeout: float,
    stdin: bytes,
) -> str:
    """Send the input, take in everything until the end; says how it ended."""
    import websocket

    told = _input(stdin)
    message = next(told, None)
    try:
        while True:
            # both at once: a command may well answer before it has read all of its input
            if message is not None and not received.status:
                left = bounded.until - kube.clock.monotonic()
                if bounded.ready(left, writing=True) == "write":
                    opened.send_binary(message)
                    message = next(told, None)
                    continue
            opcode, data = opened.recv_data()
            if opcode == websocket.ABNF.OPCODE_CLOSE:
                return _closing(data)
            received.add(data)
            if received.status:
                bounded.until = min(bounded.until, kube.clock.monotonic() + _AFTER_STATUS)
    except websocket.WebSocketTimeoutException:
        return f"{timeout:g} s passed"
    except (websocket.WebSocketException, OSError) as error:
        return f"the connection broke ({error})"


def _input(stdin: bytes) -> Iterator[bytes]:
    """The messages that carry an input, the one that ends it included."""
    for start in range(0, len(stdin), _PIECE):
        yield bytes([_STDIN]) + stdin[start : start + _PIECE]
    if stdin:
        yield bytes([_CLOSE, _STDIN])


def _closing(data: bytes) -> str:
    """How the server closed: code and reason, where it gave any (RFC 6455, 5.5.1)."""
    if len(data) < 2:
        return "the connection closed"
    reason = data[2:].decode("utf-8", "replace")
    code = int.from_bytes(data[:2], "big")
    return f"the connection closed ({code}{' ' if reason else ''}{reason})"


def _quoted(raw: bytes) -> str:
    return repr(raw[:200].decode("utf-8", "replace"))
