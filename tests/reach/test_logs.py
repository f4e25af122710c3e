from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from harness.clock import WallClock
from harness.reach.access import Timeouts, client_from_file
from harness.reach.capture import How
from harness.reach.errors import ApiRefused, Unreachable
from harness.reach.kube import Kube
from harness.reach.logs import FollowedLog, follow_logs

POD = "/api/v1/namespaces/ns/pods/p"
RUNNING = {"name": "main", "containerID": "containerd://1", "state": {"running": {}}}


def pod(status: dict[str, Any] | None = None, phase: str = "Running", uid: str = "u-1") -> Any:
    return {
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "ns", "uid": uid},
        "spec": {"containers": [{"name": "main"}]},
        "status": {"phase": phase, "containerStatuses": [status or RUNNING]},
    }


@pytest.fixture
def kube(server: Any) -> Iterator[Kube]:
    server.routes[f"GET {POD}"] = pod()
    client = client_from_file(server.write(server.kubeconfig()))
    yield Kube("management", client, WallClock(), timeouts=Timeouts(connect=5.0, read=5.0))
    client.rest_client.close()


class Script:
    """A log that writes what a test tells it to; "end" ends it, "cut" cuts the connection."""

    def __init__(self, server: Any) -> None:
        self._server = server
        self._steps: asyncio.Queue[bytes | str] = asyncio.Queue()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._up = threading.Event()
        self.left = threading.Event()
        server.routes[f"GET {POD}/log"] = self._serve

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        self._loop = asyncio.get_running_loop()
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        self._up.set()
        try:
            while (step := await self._next(request)) != "end":
                if step == "cut":
                    assert request.transport is not None
                    request.transport.abort()
                    break
                assert isinstance(step, bytes)
                await response.write(step)
        finally:
            self.left.set()
        return response

    async def _next(self, request: web.Request) -> bytes | str:
        while request.transport is not None and not request.transport.is_closing():
            try:
                return await asyncio.wait_for(self._steps.get(), 0.02)
            except TimeoutError:
                continue
        return "end"

    def say(self, *steps: bytes | str) -> None:
        assert self._up.wait(5)
        assert self._loop is not None
        for step in steps:
            self._loop.call_soon_threadsafe(self._steps.put_nowait, step)


@pytest.fixture
def script(server: Any) -> Script:
    return Script(server)


def follow(kube: Kube, within: float = 10, **more: Any) -> FollowedLog:
    return follow_logs(kube, "ns", "p", within=within, **more)


def how(log: FollowedLog) -> How:
    assert log.ending is not None
    return log.ending.how


def test_lines_come_while_the_container_runs(kube: Kube, script: Script) -> None:
    log = follow(kube)
    lines = log.lines()
    script.say(b"one\ntw")
    assert next(lines) == b"one"
    script.say(b"o\n\xff\n")
    assert [next(lines), next(lines)] == [b"two", b"\xff"]
    assert log.ending is None
    log.close()
    assert list(lines) == []


def test_the_query_says_what_is_wanted(server: Any, kube: Kube, script: Script) -> None:
    log = follow(kube, tail=5, since_time="2026-01-01T00:00:00Z", timestamps=True)
    log.close()
    (path,) = (seen[1] for seen in server.seen if "/log" in seen[1])
    assert path.partition("?")[2] == (
        "follow=true&tailLines=5&sinceTime=2026-01-01T00%3A00%3A00Z&timestamps=true"
    )
    assert kube.calls[-1].verb == "get"


@pytest.mark.parametrize(
    ("after", "words"),
    [
        (pod({"name": "main", "state": {"terminated": {"exitCode": 1}}}), "the container ended"),
        (pod({**RUNNING, "containerID": "containerd://2"}), "started anew"),
        (pod(uid="u-2"), "another pod has its name"),
        (pod({"name": "other"}, phase="Succeeded"), "succeeded"),
    ],
)
def test_a_container_that_ended_is_said_to(
    server: Any, kube: Kube, script: Script, after: Any, words: str
) -> None:
    log = follow(kube)
    server.routes[f"GET {POD}"] = after
    script.say(b"bye\nhalf", "end")
    assert list(log.lines()) == [b"bye", b"half"]
    assert how(log) is How.FINISHED
    assert log.ending is not None
    assert words in log.ending.told
    assert not log.ending.early


def test_a_pod_that_is_gone_has_finished(
    server: Any, kube: Kube, script: Script, refuse: Any
) -> None:
    log = follow(kube)
    server.routes[f"GET {POD}"] = refuse(404, "NotFound", 'pods "p" not found', name="p")
    script.say("end")
    assert list(log.lines()) == []
    assert how(log) is How.FINISHED


def test_a_stream_that_ends_under_a_running_container_is_not_its_end(
    kube: Kube, script: Script
) -> None:
    log = follow(kube)
    script.say(b"one\n", "end")
    assert list(log.lines()) == [b"one"]
    assert how(log) is How.CLOSED
    assert log.ending is not None
    assert log.ending.early
    assert "the container runs on" in log.ending.told


def test_a_cut_connection_is_said(kube: Kube, script: Script) -> None:
    log = follow(kube)
    script.say(b"one\n", "cut")
    assert list(log.lines()) == [b"one"]
    assert how(log) is How.BROKE


def test_a_cut_connection_is_no_end_of_the_container(
    server: Any, kube: Kube, script: Script
) -> None:
    log = follow(kube)
    server.routes[f"GET {POD}"] = pod({"name": "main", "state": {"terminated": {}}})
    script.say(b"one\n", "cut")
    assert list(log.lines()) == [b"one"]
    assert how(log) is How.BROKE
    assert log.ending is not None
    assert "the container ended" in log.ending.told


def test_a_pod_that_cannot_be_asked_about_is_said(
    server: Any, kube: Kube, script: Script, refuse: Any
) -> None:
    log = follow(kube)
    server.routes[f"GET {POD}"] = refuse(503, "ServiceUnavailable", "not ready")
    script.say("end")
    assert list(log.lines()) == []
    assert how(log) is How.BROKE
    assert log.ending is not None
    assert "not known: 503" in log.ending.told


def test_the_deadline_ends_it(kube: Kube, script: Script) -> None:
    log = follow(kube, within=0.1)
    script.say(b"one\nhalf")
    assert list(log.lines()) == [b"one", b"half"]
    assert how(log) is How.DEADLINE
    assert script.left.wait(5)


def test_closing_from_another_thread_wakes_the_reader(kube: Kube, script: Script) -> None:
    log = follow(kube, within=60)
    threading.Timer(0.05, log.close).start()
    assert list(log.lines()) == []
    assert how(log) is How.OURS
    assert script.left.wait(5)
    log.close()


def test_a_follower_is_let_go_before_it_is_read(kube: Kube, script: Script) -> None:
    log = follow(kube)
    log.close()
    assert script.left.wait(5)


def test_lines_that_were_dropped_are_not_passed_over(kube: Kube, script: Script) -> None:
    log = follow(kube, keep=100)
    script.say(b"x" * 80 + b"\n", b"y" * 80 + b"\n", b"z" * 80 + b"\n")
    assert log.capture.wait(b"z\n", kube.clock.deadline(5)) is not None
    if log.capture.dropped:
        with pytest.raises(IndexError, match="dropped"):
            next(log.lines())
    log.close()


@pytest.mark.parametrize("code", [400, 403, 404])
def test_a_refusal_is_raised(
    server: Any, kube: Kube, refuse: Callable[..., Any], code: int
) -> None:
    server.routes[f"GET {POD}/log"] = refuse(code, "Reason", "container is waiting to start")
    with pytest.raises(ApiRefused, match="waiting to start") as caught:
        follow(kube)
    assert caught.value.code == code


def test_a_pod_that_is_not_there_is_refused(server: Any, kube: Kube, refuse: Any) -> None:
    server.routes[f"GET {POD}"] = refuse(404, "NotFound", 'pods "p" not found', name="p")
    with pytest.raises(ApiRefused) as caught:
        follow(kube)
    assert caught.value.code == 404


def test_a_tail_is_asked_of_a_plain_log(server: Any, kube: Kube) -> None:
    async def plain(request: web.Request) -> web.StreamResponse:
        return web.Response(text=request.query_string)

    server.routes[f"GET {POD}/log"] = plain
    assert kube.logs("ns", "p", "main", tail=3) == b"container=main&tailLines=3"


def test_a_log_that_is_never_answered_ends_with_the_time_allowed(server: Any, kube: Kube) -> None:
    """A kubelet sends no headers before a silent container's first byte: there may be none."""
    asked = threading.Event()

    async def never(request: web.Request) -> web.StreamResponse:
        asked.set()
        await asyncio.get_running_loop().create_future()
        raise AssertionError

    server.routes[f"GET {POD}/log"] = never
    began = kube.clock.monotonic()
    with pytest.raises(Unreachable, match="timed out"):
        follow(kube, within=0.3)
    assert asked.is_set()
    assert kube.clock.monotonic() - began < 3


def test_a_log_may_be_silent_for_longer_than_it_may_take_to_open(
    kube: Kube, script: Script
) -> None:
    kube.timeouts = Timeouts(connect=5.0, read=0.2)
    log = follow(kube)
    script.say(b"one\n")
    assert log.capture.wait(b"one", kube.clock.deadline(5))
    assert not log.capture.wait(b"two", kube.clock.deadline(0.4))
    script.say(b"two\n")
    assert log.capture.wait(b"two", kube.clock.deadline(5))
    log.close()
