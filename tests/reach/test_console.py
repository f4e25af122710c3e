from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from aiohttp import WSMsgType, web

from harness.clock import WallClock
from harness.reach import console as module
from harness.reach.access import Timeouts, client_from_file
from harness.reach.capture import How
from harness.reach.console import Console
from harness.reach.errors import ApiRefused, Refused, Unreachable
from harness.reach.kube import Kube
from tests.reach.serial_consoles import CONSOLE, PLAIN, VMI, scripted


@pytest.fixture
def kube(server: Any) -> Iterator[Kube]:
    client = client_from_file(server.write(server.kubeconfig()))
    yield Kube("management", client, WallClock(), timeouts=Timeouts(connect=5.0, read=5.0))
    client.rest_client.close()


def ended(console: Console) -> Any:
    ending = console.capture.wait_for_end(WallClock().deadline(10))
    assert ending is not None
    return ending


def test_bytes_come_as_they_are_printed(server: Any, kube: Kube, vmi: Any) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"\xff\x00", b"Linux version 6.1\r\n", "wait")
    console = Console.attach(kube, "ns", "vm")
    assert console.capture.wait(b"6.1\r\n", kube.clock.deadline(10)) is not None
    assert console.capture.text() == b"\xff\x00Linux version 6.1\r\n"
    assert console.uid == "u-1"
    console.close()
    assert (kube.calls[-1].verb, kube.calls[-1].status) == ("console", 101)


def test_closing_is_ours_and_told_to_the_server(server: Any, kube: Kube, vmi: Any) -> None:
    told: list[Any] = []
    left = threading.Event()

    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,), autoclose=False)
        await socket.prepare(request)
        told.append((await socket.receive()).type)
        left.set()
        return socket

    server.routes[f"GET {CONSOLE}"] = talk
    console = Console.attach(kube, "ns", "vm")
    console.close()
    console.close()
    assert left.wait(5)
    assert told == [WSMsgType.CLOSE]
    assert ended(console).how is How.OURS
    assert not ended(console).early


@pytest.mark.parametrize(
    ("step", "how", "words"),
    [
        ("end", How.TAKEN, "another client attached, or the way was cut"),
        ("close", How.CLOSED, r"1001 going away.*while the VMI runs on"),
    ],
)
def test_an_end_while_the_vmi_runs_on(
    server: Any, kube: Kube, vmi: Any, step: str, how: How, words: str
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"half a li", step)
    ending = ended(Console.attach(kube, "ns", "vm"))
    assert (ending.how, ending.size, ending.early) == (how, 9, True)
    import re

    assert re.search(words, ending.told)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"metadata": {"name": "vm", "uid": "u-2"}}, "another VMI runs under its name"),
        ({"status": {"phase": "Succeeded"}}, "the VMI is Succeeded"),
        ({"metadata": {"name": "vm", "uid": "u-1", "deletionTimestamp": "now"}}, "being deleted"),
    ],
)
def test_an_end_with_its_vmi_is_gone(
    server: Any, kube: Kube, vmi: Any, change: dict[str, Any], words: str
) -> None:
    server.routes[f"GET {CONSOLE}"] = scripted(b"x", "wait")
    console = Console.attach(kube, "ns", "vm")
    assert console.capture.wait(b"x", kube.clock.deadline(10))
    server.routes[f"GET {VMI}"] = {**vmi, **change}
    server.routes[f"GET {CONSOLE}"] = scripted("end")
    console._line._bounded._inner.shutdown(2)  # the connection ends under it
    ending = ended(console)
    assert ending.how is How.GONE
    assert words in ending.told


@pytest.mark.parametrize(
    ("status", "how", "words"),
    [
        ({"nodeName": "h2"}, How.MOVED, "the VMI was migrated from h1 to h2"),
        (
            {"nodeName": "h1", "migrationState": {"startTimestamp": "t"}},
            How.MOVED,
            "the VMI is being migrated",
        ),
        (
            {"nodeName": "h1", "migrationState": {"startTimestamp": "t", "completed": True}},
            How.TAKEN,
            "another client attached",
        ),
        (
            {"nodeName": "h1", "migrationState": {"startTimestamp": "t", "failed": True}},
            How.TAKEN,
            "another client attached",
        ),
        ({"nodeName": "h1", "migrationState": {}}, How.TAKEN, "another client attached"),
        ({}, How.TAKEN, "another client attached"),
    ],
)
def test_an_end_with_a_migration_is_nobodys_taking_it(
    server: Any, kube: Kube, vmi: Any, status: dict[str, Any], how: How, words: str
) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        server.routes[f"GET {VMI}"] = {**vmi, "status": {"phase": "Running", **status}}
        return await scripted("end")(request)

    server.routes[f"GET {VMI}"] = {**vmi, "status": {"phase": "Running", "nodeName": "h1"}}
    server.routes[f"GET {CONSOLE}"] = talk
    ending = ended(Console.attach(kube, "ns", "vm"))
    assert (ending.how, ending.early) == (how, True)
    assert words in ending.told


def test_a_vmi_that_is_not_there_any_more_is_gone(
    server: Any, kube: Kube, vmi: Any, refuse: Any
) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        server.routes[f"GET {VMI}"] = refuse(404, "NotFound", 'vmis "vm" not found', name="vm")
        return await scripted("end")(request)

    server.routes[f"GET {CONSOLE}"] = talk
    ending = ended(Console.attach(kube, "ns", "vm"))
    assert ending.how is How.GONE
    assert "the VMI is gone" in ending.told


def test_an_api_that_cannot_be_asked_at_the_end_is_said(
    server: Any, kube: Kube, vmi: Any, refuse: Any
) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        server.routes[f"GET {VMI}"] = refuse(503, "ServiceUnavailable", "not ready")
        return await scripted("end")(request)

    server.routes[f"GET {CONSOLE}"] = talk
    ending = ended(Console.attach(kube, "ns", "vm"))
    assert ending.how is How.BROKE
    assert "what became of the VMI is not known: 503" in ending.told


def test_garbage_on_the_wire_breaks_it_aloud(server: Any, kube: Kube, vmi: Any) -> None:
    async def talk(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,))
        await socket.prepare(request)
        assert request.transport is not None
        request.transport.write(b"\xf2\x01x")  # reserved bits set
        async for _ in socket:
            pass
        return socket

    server.routes[f"GET {CONSOLE}"] = talk
    ending = ended(Console.attach(kube, "ns", "vm"))
    assert ending.how is How.BROKE
    assert "the connection broke" in ending.told


def test_a_server_that_answers_no_ping_is_given_up(
    server: Any, kube: Kube, vmi: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEPALIVE", 0.2)

    async def deaf(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,), autoping=False)
        await socket.prepare(request)
        await socket.send_bytes(b"last words")
        async for _ in socket:
            pass
        return socket

    server.routes[f"GET {CONSOLE}"] = deaf
    ending = ended(Console.attach(kube, "ns", "vm"))
    assert (ending.how, ending.size) == (How.BROKE, 10)
    assert "answered no ping for 0.2 s" in ending.told


def test_a_silent_console_is_kept_alive_without_a_keystroke(
    server: Any, kube: Kube, vmi: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "KEEPALIVE", 0.1)
    pinged = threading.Event()
    typed: list[bytes] = []

    async def quiet(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,), autoping=False)
        await socket.prepare(request)
        pings = 0
        while (message := await socket.receive()).type in (WSMsgType.PING, WSMsgType.BINARY):
            if message.type is WSMsgType.BINARY:
                typed.append(message.data)
                continue
            await socket.pong(message.data)
            pings += 1
            if pings == 3:
                pinged.set()
        return socket

    server.routes[f"GET {CONSOLE}"] = quiet
    console = Console.attach(kube, "ns", "vm")
    assert pinged.wait(10)
    assert console.ending is None
    assert typed == []
    console.close()


async def echo(request: web.Request) -> web.StreamResponse:
    socket = web.WebSocketResponse(protocols=(PLAIN,))
    await socket.prepare(request)
    async for message in socket:
        await socket.send_bytes(message.data)
    return socket


def test_what_is_typed_is_sent_in_order(server: Any, kube: Kube, vmi: Any) -> None:
    server.routes[f"GET {CONSOLE}"] = echo
    console = Console.attach(kube, "ns", "vm")
    for number in range(200):
        console.send(b"%03d " % number)
    assert console.capture.wait(b"199 ", kube.clock.deadline(10)) is not None
    assert console.capture.text() == b"".join(b"%03d " % number for number in range(200))
    assert console.settle()
    console.close()
    with pytest.raises(Unreachable, match="it has ended: we closed it"):
        console.send(b"x")
    assert not console.settle()


def test_many_type_and_read_at_once(server: Any, kube: Kube, vmi: Any) -> None:
    server.routes[f"GET {CONSOLE}"] = echo
    console = Console.attach(kube, "ns", "vm", keep=1 << 24)

    def type_a_lot(letter: bytes) -> None:
        for _ in range(100):
            console.send(letter * 1000)

    threads = [threading.Thread(target=type_a_lot, args=(b"%c" % (97 + n),)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert console.settle()
    assert console.capture.wait_for_more(799_999, 10)
    text = console.capture.text()
    assert [text.count(b"%c" % (97 + n)) for n in range(8)] == [100_000] * 8
    console.close()


def test_who_waits_for_an_answer_is_let_go_at_the_end(server: Any, kube: Kube, vmi: Any) -> None:
    async def deaf(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,), autoping=False)
        await socket.prepare(request)
        await socket.receive()  # the ping
        await socket.close()
        return socket

    server.routes[f"GET {CONSOLE}"] = deaf
    console = Console.attach(kube, "ns", "vm")
    began = kube.clock.monotonic()
    assert not console.settle(within=30)
    assert kube.clock.monotonic() - began < 20
    assert not console.settle(within=30)


@pytest.mark.parametrize(
    ("code", "reason", "message"),
    [
        (404, "NotFound", 'virtualmachineinstance.kubevirt.io "vm" not found'),
        (400, "BadRequest", "VMI is not running"),
        (403, "Forbidden", "no"),
    ],
)
def test_a_refusal_is_raised(
    server: Any, kube: Kube, vmi: Any, refuse: Any, code: int, reason: str, message: str
) -> None:
    server.routes[f"GET {CONSOLE}"] = refuse(code, reason, message)
    with pytest.raises(ApiRefused) as caught:
        Console.attach(kube, "ns", "vm")
    assert (caught.value.code, caught.value.message) == (code, message)
    assert isinstance(caught.value, Refused) == (code == 403)


def test_a_large_burst_is_taken_in_and_bounded(server: Any, kube: Kube, vmi: Any) -> None:
    async def burst(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=(PLAIN,))
        await socket.prepare(request)
        for _ in range(256):
            await socket.send_bytes(bytes(32 * 1024))
        await socket.send_bytes(b"end")
        await asyncio.wait_for(socket.receive(), 10)
        return socket

    server.routes[f"GET {CONSOLE}"] = burst
    console = Console.attach(kube, "ns", "vm", keep=1 << 20)
    assert console.capture.wait(b"end", kube.clock.deadline(20)) is not None
    assert console.capture.size == (8 << 20) + 3
    assert (7 << 20) - (64 << 10) < console.capture.dropped <= (7 << 20) + 3
    console.close()
