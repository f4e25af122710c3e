from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import trustme
from aiohttp import web
from hypothesis import given
from hypothesis import strategies as st

from harness.reach.access import client_from_file
from harness.reach.errors import ApiRefused, BadCertificate, Garbled, Refused, Unreachable
from harness.reach.execs import read_status, run_in_pod
from harness.reach.kube import Kube

EXEC = "GET /api/v1/namespaces/ns/pods/p/exec"
SUCCESS = json.dumps({"kind": "Status", "status": "Success"}).encode()
V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"


def failure(code: str) -> bytes:
    causes = [{"reason": "ExitCode", "message": code}]
    return json.dumps(
        {"status": "Failure", "reason": "NonZeroExitCode", "details": {"causes": causes}}
    ).encode()


def frames(*messages: bytes, protocols: tuple[str, ...] = (V5, V4)) -> Callable[..., Any]:
    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=protocols, max_msg_size=0)
        await socket.prepare(request)
        for message in messages:
            await socket.send_bytes(message)
        await socket.close()
        return socket

    return talk


def test_channels_are_kept_apart(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(
        b"\x01", b"\x02", b"\x01out", b"\x02err", b"\x01!", b"\x03" + SUCCESS
    )
    reply = run_in_pod(kube, "ns", "p", ["cat", "/proc/modules", "a b&c"], container="shell")
    assert (reply.exit_code, reply.stdout, reply.stderr) == (0, b"out!", b"err")
    assert reply.problem == "" and reply.argv == ("cat", "/proc/modules", "a b&c")
    assert reply.started == reply.ended == kube.clock.now()
    query = server.seen[-1][1].partition("?")[2]
    assert query == (
        "command=cat&command=%2Fproc%2Fmodules&command=a+b%26c"
        "&stdout=true&stderr=true&container=shell"
    )
    assert server.seen[-1][3]["Authorization"] == "Bearer sesame"
    assert (kube.calls[-1].verb, kube.calls[-1].status) == ("exec", 101)


def test_split_characters_come_whole(server: Any, kube: Kube) -> None:
    text = "München ✓".encode()
    server.routes[EXEC] = frames(*(b"\x01" + bytes([b]) for b in text), b"\x03" + SUCCESS)
    assert run_in_pod(kube, "ns", "p", ["x"]).stdout == text


def test_exit_code_is_told(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(b"\x02no", b"\x03" + failure("7"))
    reply = run_in_pod(kube, "ns", "p", ["false"])
    assert (reply.exit_code, reply.stderr, reply.problem) == (7, b"no", "")


def test_closed_without_a_status_is_unknown(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(b"", b"\x01", b"\x03", b"\x01half")
    reply = run_in_pod(kube, "ns", "p", ["x"])
    assert reply.exit_code is None and reply.stdout == b"half"
    assert "without an exit status, after 4 bytes" in reply.problem


def test_a_cut_connection_is_unknown(server: Any, kube: Kube) -> None:
    async def cut(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V5,))
        await socket.prepare(request)
        await socket.send_bytes(b"\x01half")
        assert request.transport is not None
        request.transport.close()
        return socket

    server.routes[EXEC] = cut
    reply = run_in_pod(kube, "ns", "p", ["x"])
    assert reply.exit_code is None and reply.stdout == b"half"
    assert "broke" in reply.problem


def test_a_command_that_could_not_start_is_unknown(server: Any, kube: Kube) -> None:
    status = json.dumps({"status": "Failure", "message": "no such file: nvidia-smi"}).encode()
    server.routes[EXEC] = frames(b"\x03" + status)
    reply = run_in_pod(kube, "ns", "p", ["nvidia-smi"])
    assert (reply.exit_code, reply.problem) == (None, "no such file: nvidia-smi")


def test_a_status_split_into_frames(server: Any, kube: Kube) -> None:
    status = failure("3")
    server.routes[EXEC] = frames(b"\x03" + status[:9], b"\x03" + status[9:])
    assert run_in_pod(kube, "ns", "p", ["x"]).exit_code == 3


def hanging(*messages: bytes) -> tuple[Callable[..., Any], threading.Event]:
    left = threading.Event()

    async def hang(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V5,))
        await socket.prepare(request)
        for message in messages:
            await socket.send_bytes(message)
        await socket.receive()
        left.set()
        return socket

    return hang, left


def test_deadline_keeps_what_came(server: Any, kube: Kube) -> None:
    server.routes[EXEC], left = hanging(b"\x01so far")
    began = kube.clock.monotonic()
    reply = run_in_pod(kube, "ns", "p", ["x"], timeout=0.3)
    assert kube.clock.monotonic() - began < 5.0
    assert reply.exit_code is None and reply.stdout == b"so far"
    assert "0.3 s passed without an exit status" in reply.problem
    assert left.wait(5)


def test_a_trickle_does_not_outlast_the_deadline(server: Any, kube: Kube) -> None:
    async def trickle(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V5,))
        await socket.prepare(request)
        transport = request.transport
        assert transport is not None
        # one frame of 60 kB whose bytes come one by one
        transport.write(b"\x82\x7e" + (60_000).to_bytes(2, "big"))
        import asyncio

        loop = asyncio.get_running_loop()
        while not transport.is_closing():
            transport.write(b"\x01")
            done = loop.create_future()
            loop.call_later(0.02, done.set_result, None)
            await done
        return socket

    server.routes[EXEC] = trickle
    began = kube.clock.monotonic()
    reply = run_in_pod(kube, "ns", "p", ["x"], timeout=0.4)
    assert reply.exit_code is None
    assert kube.clock.monotonic() - began < 2.0


def test_a_server_that_does_not_close_is_left(server: Any, kube: Kube) -> None:
    server.routes[EXEC], left = hanging(b"\x01done", b"\x03" + SUCCESS)
    began = kube.clock.monotonic()
    reply = run_in_pod(kube, "ns", "p", ["x"], timeout=30)
    assert kube.clock.monotonic() - began < 10.0
    assert (reply.exit_code, reply.stdout) == (0, b"done")
    assert left.wait(5)


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (400, "BadRequest"),
        (401, "Unauthorized"),
        (403, "Forbidden"),
        (404, "NotFound"),
        (500, "InternalError"),
    ],
)
def test_a_refused_exec_has_the_servers_message(
    server: Any, kube: Kube, refuse: Any, code: int, reason: str
) -> None:
    server.routes[EXEC] = refuse(code, reason, "container not found (shell)", name="p")
    with pytest.raises(ApiRefused, match=r"container not found \(shell\)") as caught:
        run_in_pod(kube, "ns", "p", ["x"])
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert isinstance(caught.value, Refused) == (code in (401, 403))
    assert kube.calls[-1].status == code
    assert server.requests("/api/v1/namespaces/ns/pods/p/exec") == 1


def test_v4_is_spoken_where_v5_is_not(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(b"\x01x", b"\x03" + SUCCESS, protocols=(V4,))
    assert run_in_pod(kube, "ns", "p", ["x"]).exit_code == 0


def test_no_common_protocol_is_said(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(protocols=("other",))
    with pytest.raises(Unreachable, match=r"v5\.channel\.k8s\.io"):
        run_in_pod(kube, "ns", "p", ["x"])


def test_unknown_channel_is_not_dropped(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(b"\x09what", b"\x03" + SUCCESS)
    with pytest.raises(Garbled, match="channel 9"):
        run_in_pod(kube, "ns", "p", ["x"])


def test_exec_checks_the_certificate(server: Any, clock: Any) -> None:
    config = server.kubeconfig(trusted=trustme.CA(key_type=trustme.KeyType.ECDSA))
    kube = Kube("management", client_from_file(server.write(config)), clock)
    with pytest.raises(BadCertificate):
        run_in_pod(kube, "ns", "p", ["x"])


def test_exec_shows_the_client_certificate(
    authority: Any, server: Any, serve: Any, clock: Any
) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.verify_mode = ssl.CERT_REQUIRED
    authority.issue_cert("127.0.0.1").configure_cert(context)
    authority.configure_trust(context)
    mine = authority.issue_cert("me@lab")
    pem, key = server.directory / "me.pem", server.directory / "me.key"
    mine.cert_chain_pems[0].write_to_path(pem)
    mine.private_key_pem.write_to_path(key)
    server.routes[EXEC] = frames(b"\x03" + SUCCESS)
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}
    with serve(server.answer, context) as port:
        config = server.kubeconfig(server=f"https://127.0.0.1:{port}")
        config["users"][0]["user"] = {"client-certificate": str(pem), "client-key": str(key)}
        kube = Kube("management", client_from_file(server.write(config)), clock)
        assert run_in_pod(kube, "ns", "p", ["x"]).exit_code == 0
        assert kube.get("v1", "Node", "", "n") == {"kind": "Node"}
        kube.client.rest_client.close()


def test_exec_goes_past_a_proxy(server: Any, kube: Kube, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://192.0.2.1:3128")
    server.routes[EXEC] = frames(b"\x03" + SUCCESS)
    assert run_in_pod(kube, "ns", "p", ["x"], timeout=5).exit_code == 0


def test_execs_at_once_do_not_disturb_each_other(server: Any, kube: Kube) -> None:
    async def echo(request: web.Request) -> web.StreamResponse:
        said = b"\x01" + "".join(request.query.getall("command")).encode()
        return await frames(said, b"\x03" + SUCCESS)(request)

    server.routes[EXEC] = echo
    server.routes["GET /api/v1/nodes/n"] = {"kind": "Node"}

    def once(number: int) -> bool:
        reply = run_in_pod(kube, "ns", "p", ["echo", str(number)])
        node = kube.get("v1", "Node", "", "n")
        return reply.stdout == f"echo{number}".encode() and node == {"kind": "Node"}

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(once, range(40)))


def test_large_output_in_linear_time(server: Any, kube: Kube) -> None:
    piece = b"\x01" + bytes(32 * 1024)
    server.routes[EXEC] = frames(*[piece] * 512, b"\x03" + SUCCESS)
    began = kube.clock.monotonic()
    reply = run_in_pod(kube, "ns", "p", ["x"])
    assert (reply.exit_code, len(reply.stdout)) == (0, 16 << 20)
    assert kube.clock.monotonic() - began < 5.0


def test_no_command_is_a_mistake(kube: Kube) -> None:
    with pytest.raises(ValueError, match="command"):
        run_in_pod(kube, "ns", "p", [])


@given(st.binary() | st.sampled_from([b"{}", b"null", b"[]", failure("x"), failure("-1")]))
def test_an_unreadable_status_is_never_an_exit_code(raw: bytes) -> None:
    code, problem = read_status(raw)
    assert code is None and problem


@given(
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda s: (
            st.dictionaries(
                st.sampled_from(["status", "details", "causes", "reason", "message"]), s
            )
            | st.lists(s)
        ),
    )
)
def test_any_json_status_is_met(document: Any) -> None:
    code, problem = read_status(json.dumps(document).encode())
    assert (code is None) == bool(problem)


async def cat(request: web.Request) -> web.StreamResponse:
    """Sends stdin back as it comes, and succeeds at its end."""
    socket = web.WebSocketResponse(protocols=(V5, V4), max_msg_size=0)
    await socket.prepare(request)
    async for message in socket:
        if message.data == b"\xff\x00":
            await socket.send_bytes(b"\x03" + SUCCESS)
            break
        await socket.send_bytes(b"\x01" + message.data[1:])
    await socket.close()
    return socket


def test_stdin_is_given_to_its_end(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = cat
    reply = run_in_pod(kube, "ns", "p", ["cat"], stdin=b"\x00\xffabc")
    assert (reply.exit_code, reply.stdout) == (0, b"\x00\xffabc")
    assert "stdin=true&stdout=true&stderr=true" in server.seen[-1][1]


def test_input_and_output_flow_at_once(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = cat
    data = bytes(range(256)) * 32768
    reply = run_in_pod(kube, "ns", "p", ["cat"], stdin=data)
    assert reply.exit_code == 0
    assert reply.stdout == data


def test_a_command_that_ends_before_its_input_does(server: Any, kube: Kube) -> None:
    async def head(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V5,), max_msg_size=0)
        await socket.prepare(request)
        first = await socket.receive()
        await socket.send_bytes(b"\x01" + first.data[1:5])
        await socket.send_bytes(b"\x03" + SUCCESS)
        await socket.close()
        return socket

    server.routes[EXEC] = head
    reply = run_in_pod(kube, "ns", "p", ["head", "-c4"], stdin=b"abcdef" * (1 << 20))
    assert (reply.exit_code, reply.stdout) == (0, b"abcd")


def test_input_that_nobody_takes_ends_at_the_deadline(server: Any, kube: Kube) -> None:
    stuck = threading.Event()

    async def deaf(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(V5,), max_msg_size=0)
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.pause_reading()
        import asyncio

        loop = asyncio.get_running_loop()
        await loop.run_in_executor(None, stuck.wait, 10)
        return socket

    server.routes[EXEC] = deaf
    reply = run_in_pod(kube, "ns", "p", ["x"], stdin=bytes(16 << 20), timeout=0.5)
    stuck.set()
    assert reply.exit_code is None
    assert "0.5 s passed" in reply.problem


def test_stdin_is_not_given_where_its_end_cannot_be_told(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(b"\x03" + SUCCESS, protocols=(V4,))
    with pytest.raises(Unreachable, match=r"without any of v5\.channel\.k8s\.io"):
        run_in_pod(kube, "ns", "p", ["cat"], stdin=b"x")


def test_a_terminal_has_one_stream(server: Any, kube: Kube) -> None:
    server.routes[EXEC] = frames(b"\x01both\r\n", b"\x03" + SUCCESS)
    reply = run_in_pod(kube, "ns", "p", ["top"], tty=True)
    assert (reply.stdout, reply.stderr) == (b"both\r\n", b"")
    assert server.seen[-1][1].partition("?")[2] == "command=top&stdout=true&tty=true"
