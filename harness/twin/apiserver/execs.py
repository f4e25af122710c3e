"""Pod exec and pod logs: WebSocket channels v5 and v4, and plain text.

Channels are those of Kubernetes' remotecommand protocol: 0 stdin, 1 stdout, 2 stderr, 3 the final
Status, 4 terminal size; v5 adds 255, by which a client says that a stream is at its end.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol

from aiohttp import WSMsgType, web

from harness.twin.apiserver import consoles, followedlogs
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.execresult import ExecResult, Running
from harness.twin.apiserver.queries import Query, boolean, parse, repeated
from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.routing import Target
from harness.twin.apiserver.runningexecs import RunningExecs
from harness.twin.apiserver.store import Store

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_CHUNK = 32 * 1024
_MOST_STDIN = 64 * 1024 * 1024  # bytes in one message
_END_OF_INPUT = b"\x04"  # what a terminal sends for the end of its input


LetPass = Callable[[Callable[[], bool]], None]
"""Lets the lab's time pass until something is so, or for as long as one waits for a program."""


class Backend(consoles.Backend, followedlogs.Backend, Protocol):
    """What a cluster does beyond storing objects; given by the world."""

    def exec(
        self, namespace: str, pod: str, container: str, argv: list[str], stdin: bytes
    ) -> ExecResult | Running:
        """Runs a program in a container. May raise ApiError."""

    def reads_stdin(self, argv: list[str]) -> bool:
        """Whether a program waits for its input; one that does not is run at once."""


def container_of(pod: Obj, wanted: str) -> str:
    """The container a request is about: the one it names, or the only one.

    ApiError 400 for a container the pod does not have, or where it would have to be chosen.
    """
    spec, name = pod.get("spec") or {}, pod["metadata"]["name"]
    kinds = ("containers", "initContainers", "ephemeralContainers")
    known = [c["name"] for kind in kinds for c in spec.get(kind) or ()]
    if wanted:
        if wanted not in known:
            raise ApiError(400, f"container {wanted} is not valid for pod {name}")
        return wanted
    main = [c["name"] for c in spec.get("containers") or ()]
    if len(main) != 1:
        raise ApiError(
            400,
            f"a container name must be specified for pod {name}, choose one of: [{' '.join(main)}]",
        )
    return str(main[0])


def _check_started(pod: Obj, container: str) -> None:
    status = pod.get("status") or {}
    for found in status.get("containerStatuses") or ():
        waiting = (found.get("state") or {}).get("waiting")
        if found["name"] == container and waiting and not found.get("lastState"):
            raise ApiError(
                400,
                f'container "{container}" in pod "{pod["metadata"]["name"]}" is waiting to start: '
                f"{waiting.get('reason', '')}",
            )


class Containers:
    """Exec and logs of one cluster's pods."""

    def __init__(self, store: Store, backend: Backend, let_pass: LetPass | None = None) -> None:
        self._store = store
        self._backend = backend
        self._let_pass = let_pass
        self.running = RunningExecs()

    def logs(self, target: Target, query: Query) -> bytes:
        """The log a request asks for, up to now."""
        _, container = self.log(target, query)
        return self._backend.logs(target.namespace, target.name, container, query)

    def log(self, target: Target, query: Query) -> tuple[Obj, str]:
        """The pod and the container whose log a request asks for.

        ApiError 404 or 400 where there is none, also for a container that has not started yet.
        """
        pod = self._pod(target)
        container = container_of(pod, query.get("container", ""))
        _check_started(pod, container)
        return pod, container

    async def exec(
        self,
        request: web.BaseRequest,
        target: Target,
        query_string: str,
        upgraded: Callable[[], None],
        harm: Harm | None = None,
    ) -> web.StreamResponse:
        """Runs a program over a WebSocket; gives the response that was sent.

        ``upgraded`` is called once the request is accepted. ``harm`` is what strikes the stream.

        ApiError before the upgrade for what cannot be run; after it, errors travel on channel 3.
        """
        command = Execution.read(self._pod(target), query_string)
        socket = self._upgrade(request)
        await socket.prepare(request)
        upgraded()
        stdin = command.stdin and self._backend.reads_stdin(list(command.argv))
        if stdin and socket.ws_protocol != V5:
            problem = f"stdin needs {V5}: the server reads it to its end before it runs a program"
            await socket.send_bytes(_status(ApiError(400, problem).status()))
        else:
            data = await _read_stdin(socket, terminal=command.tty) if stdin else b""
            if data is not None:
                await self._serve(socket, target, command, data, harm)
        await socket.close()
        return socket

    async def _serve(
        self,
        socket: web.WebSocketResponse,
        target: Target,
        command: Execution,
        data: bytes,
        harm: Harm | None,
    ) -> None:
        """Runs the program and sends what it wrote and how it ended."""
        try:
            result = self._backend.exec(
                target.namespace, target.name, command.container, list(command.argv), data
            )
        except ApiError as refused:
            await _send(socket, [_status(refused.status())], harm)
            return
        if not isinstance(result, ExecResult) and result.uninterruptible and self._let_pass:
            result = _waited(result, self._let_pass)
        if isinstance(result, ExecResult):
            await _send(socket, command.messages(result), harm)
            return
        most = None if harm is None else harm.after
        whole = await self.running.serve(socket, result, command.output, command.messages, most)
        if harm is not None and not whole:
            await harm.strike()

    def _upgrade(self, request: web.BaseRequest) -> web.WebSocketResponse:
        if request.headers.get("Upgrade", "").lower() != "websocket":
            raise ApiError(
                400,
                "Upgrade request required: this server runs programs over WebSocket only "
                f"({V5} or {V4}), not over SPDY",
            )
        offered = ",".join(request.headers.getall("Sec-WebSocket-Protocol", []))
        names = {name.strip() for name in offered.split(",")}
        if not names & {V5, V4}:
            raise ApiError(400, f"unable to upgrade: none of {offered!r} is {V5} or {V4}")
        protocol = V5 if V5 in names else V4
        return web.WebSocketResponse(
            protocols=(protocol,), compress=False, max_msg_size=_MOST_STDIN
        )

    def _pod(self, target: Target) -> Obj:
        pod = self._store.get(target.resource, target.namespace, target.name)
        if not (pod.get("spec") or {}).get("nodeName"):
            raise ApiError(400, f"pod {target.name} does not have a host assigned")
        return pod


def _waited(program: Running, let_pass: LetPass) -> ExecResult:
    """What a program that stands still in I/O comes to, or nothing where it goes on to do so.

    Who waits for such a program can do nothing else, so nobody else will have time pass for it.
    """
    wrote: list[bytes] = []
    ended: list[ExecResult] = []
    stop = program.follow(wrote.append, ended.append)
    let_pass(lambda: bool(ended))
    stop()
    if not ended:
        return ExecResult(b"".join(wrote), b"", 0, dropped=True)
    return replace(ended[0], stdout=b"".join(wrote) + ended[0].stdout)


@dataclass(frozen=True, slots=True)
class Harm:
    """What happens to an exec instead of its messages, once ``after`` of them were sent."""

    after: int
    strike: Callable[[], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Execution:
    """What an exec asks for, read from its query."""

    argv: tuple[str, ...]
    container: str
    stdin: bool
    stdout: bool
    stderr: bool
    tty: bool

    def output(self, data: bytes) -> list[bytes]:
        """What a program wrote to its stdout, as messages."""
        return list(_cut(_STDOUT, data)) if self.stdout else []

    def messages(self, result: ExecResult) -> list[bytes]:
        """What a program wrote and how it ended, as messages."""
        found = self.output(result.stdout + (result.stderr if self.tty else b""))
        if self.stderr and not self.tty:
            found += _cut(_STDERR, result.stderr)
        return found if result.dropped else [*found, _status(exit_status(result))]

    @classmethod
    def read(cls, pod: Obj, query_string: str) -> Execution:
        """Reads and checks an exec's query. ApiError 400 for what the API refuses."""
        query = parse(query_string)
        phase = (pod.get("status") or {}).get("phase")
        if phase in ("Succeeded", "Failed"):
            raise ApiError(
                400, f"cannot exec into a container in a completed pod; current phase is {phase}"
            )
        argv = tuple(repeated(query_string, "command"))
        if not argv:
            raise ApiError(400, "you must specify at least 1 command for the container")
        flags = {name: boolean(query, name) for name in ("stdin", "stdout", "stderr", "tty")}
        found = cls(argv, container_of(pod, query.get("container", "")), **flags)
        if not (found.stdin or found.stdout or found.stderr):
            raise ApiError(400, "you must specify at least 1 of stdin, stdout, stderr")
        if found.tty and found.stderr:
            raise ApiError(400, "tty and stderr cannot both be true")
        return found


def exit_status(result: ExecResult) -> Obj:
    """The Status that says how a program ended, as a kubelet sends it."""
    if result.error:
        problem = f"Internal error occurred: {result.error}"
        return ApiError(500, problem, details={"causes": [{"message": result.error}]}).status()
    if result.exit_code == 0:
        return {"metadata": {}, "status": "Success"}
    return {
        "metadata": {},
        "status": "Failure",
        "message": "command terminated with non-zero exit code: error executing command, "
        f"exit code {result.exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(result.exit_code)}]},
    }


async def _read_stdin(socket: web.WebSocketResponse, *, terminal: bool) -> bytes | None:
    """Everything the client sends on stdin, or None where it left before the end."""
    parts: list[bytes] = []
    async for message in socket:
        if message.type not in (WSMsgType.BINARY, WSMsgType.TEXT):
            break
        frame = message.data if isinstance(message.data, bytes) else message.data.encode()
        channel, data = frame[:1], frame[1:]
        if channel == bytes([_CLOSE]) and data == bytes([_STDIN]):
            return b"".join(parts)
        if channel == bytes([_STDIN]):
            parts.append(data)
            if terminal and _END_OF_INPUT in data:
                return b"".join(parts).split(_END_OF_INPUT, 1)[0]
        elif channel != bytes([_RESIZE]):
            break
    return None


async def _send(socket: web.WebSocketResponse, messages: list[bytes], harm: Harm | None) -> None:
    unharmed = len(messages) if harm is None else harm.after
    for message in messages[:unharmed]:
        await socket.send_bytes(message)
    if harm is not None and unharmed < len(messages):
        await harm.strike()


def _cut(channel: int, data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), _CHUNK):
        yield bytes([channel]) + data[start : start + _CHUNK]


def _status(status: Obj) -> bytes:
    return bytes([_STATUS]) + json.dumps(status).encode()
