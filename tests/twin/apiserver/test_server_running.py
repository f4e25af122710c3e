"""Execs of programs that take time: their output as it comes, until they end."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
import websocket

from harness.twin.apiserver.execresult import Ended, ExecResult, Heard, Running

V5 = "v5.channel.k8s.io"
WATCH = "/api/v1/namespaces/default/pods/web/exec?command=events2&stdout=1&stderr=1"
CLOSE = websocket.ABNF.OPCODE_CLOSE


class Program:
    """Writes and ends when a test says so."""

    def __init__(self) -> None:
        self.heard: Heard | None = None
        self.ended: Ended | None = None
        self.stopped = 0

    def follow(self, heard: Heard, ended: Ended) -> Callable[[], None]:
        self.heard, self.ended = heard, ended
        return self._stop

    def _stop(self) -> None:
        self.stopped += 1


@pytest.fixture
def program(cluster: Any) -> Program:
    cluster.pod()
    program = Program()
    cluster.backend.results["events2"] = Running(program.follow)
    return program


def opened(cluster: Any, program: Program) -> Any:
    connection = cluster.socket(WATCH, V5)
    cluster.until(lambda: program.heard is not None)
    return connection


def test_output_comes_before_the_end(cluster: Any, program: Program) -> None:
    connection = opened(cluster, program)
    cluster.run(lambda: program.heard(b"exists\n"))
    assert connection.recv() == b"\x01exists\n"
    cluster.run(lambda: program.heard(b"change\n"))
    assert connection.recv() == b"\x01change\n"
    assert program.stopped == 0


def test_the_end_tells_the_rest_and_the_exit_status(cluster: Any, program: Program) -> None:
    connection = opened(cluster, program)
    cluster.run(lambda: program.ended(ExecResult(b"last", b"Terminated", 124)))
    assert connection.recv() == b"\x01last"
    assert connection.recv() == b"\x02Terminated"
    status = connection.recv()
    assert status[:1] == b"\x03"
    assert json.loads(status[1:])["details"]["causes"] == [{"reason": "ExitCode", "message": "124"}]
    assert connection.recv_data()[0] == CLOSE
    cluster.until(lambda: program.stopped == 1)


def test_a_client_that_leaves_stops_listening(cluster: Any, program: Program) -> None:
    opened(cluster, program).close()
    cluster.until(lambda: program.stopped == 1)


def test_a_server_that_closes_ends_it_without_a_status(cluster: Any, program: Program) -> None:
    connection = opened(cluster, program)
    cluster.wait(cluster.server.close())
    assert connection.recv_data()[0] == CLOSE
    assert program.stopped == 1


def test_what_was_written_is_delivered_once_flushed(cluster: Any, program: Program) -> None:
    connection = opened(cluster, program)
    before = cluster.run(lambda: cluster.server.deliveries)
    cluster.run(lambda: program.heard(b"x" * 200_000))
    assert cluster.run(lambda: cluster.server.deliveries) == before + 1
    got = b""
    while len(got) < 200_000:
        got += connection.recv()[1:]
    assert got == b"x" * 200_000
    cluster.wait(cluster.server.flushed())
