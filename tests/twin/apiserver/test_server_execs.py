"""Exec over WebSocket and logs as text."""

from __future__ import annotations

import json
from typing import Any

import pytest
import websocket

from harness.twin.apiserver.execresult import ExecResult

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
POD = "/api/v1/namespaces/default/pods/web"


def frames(connection: Any) -> Any:
    """Everything the server sends, by channel; how many frames of stdout there were."""
    channels = {1: b"", 2: b"", 3: b""}
    count = 0
    while True:
        code, data = connection.recv_data()
        if code == websocket.ABNF.OPCODE_CLOSE:
            return channels, count
        channels[data[0]] += data[1:]
        count += data[0] == 1


def run(cluster: Any, query: str, *protocols: Any) -> Any:
    connection = cluster.socket(f"{POD}/exec?{query}", *(protocols or (V5, V4)))
    channels, _ = frames(connection)
    return channels[1], channels[2], json.loads(channels[3])


@pytest.mark.parametrize("protocol", [V5, V4])
def test_output_and_success(cluster: Any, protocol: str) -> None:
    cluster.pod()
    cluster.backend.results["ls"] = ExecResult(b"out\x00\xff", b"err", 0)
    query = "command=ls&command=-l+a%26b&stdout=true&stderr=true&container=main"
    connection = cluster.socket(f"{POD}/exec?{query}", protocol)
    assert connection.getsubprotocol() == protocol
    channels, _ = frames(connection)
    assert (channels[1], channels[2]) == (b"out\x00\xff", b"err")
    assert json.loads(channels[3]) == {"metadata": {}, "status": "Success"}
    assert cluster.backend.asked == [("default", "web", "main", ["ls", "-l a&b"], b"")]


def test_the_exit_code_is_in_the_status(cluster: Any) -> None:
    cluster.pod()
    cluster.backend.results["false"] = ExecResult(b"", b"", 7)
    status = run(cluster, "command=false&stdout=1")[2]
    assert (status["status"], status["reason"]) == ("Failure", "NonZeroExitCode")
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "7"}]


def test_a_program_that_cannot_start_has_no_exit_code(cluster: Any) -> None:
    cluster.pod()
    text = 'exec: "nope": executable file not found in $PATH: unknown'
    cluster.backend.results["nope"] = ExecResult(b"", b"", 0, text)
    status = run(cluster, "command=nope&stdout=1")[2]
    assert (status["code"], status["reason"]) == (500, "InternalError")
    assert text in status["message"]
    assert "ExitCode" not in json.dumps(status)


def test_a_dropped_exec_closes_without_a_status(cluster: Any) -> None:
    cluster.pod()
    cluster.backend.results["x"] = ExecResult(b"half", b"err", 0, dropped=True)
    channels, _ = frames(cluster.socket(f"{POD}/exec?command=x&stdout=1&stderr=1", V5))
    assert channels == {1: b"half", 2: b"err", 3: b""}


def test_what_the_backend_refuses_is_the_status(cluster: Any) -> None:
    cluster.pod()
    status = run(cluster, "command=refused&stdout=1")[2]
    assert (status["code"], status["message"]) == (503, "the node does not answer")


def test_large_output_comes_whole_in_pieces(cluster: Any) -> None:
    cluster.pod()
    data = bytes(range(256)) * 20000
    cluster.backend.results["cat"] = ExecResult(data, b"", 0)
    channels, count = frames(cluster.socket(f"{POD}/exec?command=cat&stdout=1", V5))
    assert channels[1] == data
    assert count > 50


def test_only_the_streams_asked_for_are_sent(cluster: Any) -> None:
    cluster.pod()
    cluster.backend.results["x"] = ExecResult(b"out", b"err", 0)
    assert run(cluster, "command=x&stdout=true")[:2] == (b"out", b"")
    assert run(cluster, "command=x&stderr=true&stdout=false")[:2] == (b"", b"err")
    assert run(cluster, "command=x&stdout=true&tty=true")[:2] == (b"outerr", b"")


def test_stdin_is_read_to_its_end(cluster: Any) -> None:
    cluster.pod()
    connection = cluster.socket(f"{POD}/exec?command=tee&stdin=1&stdout=1", V5)
    connection.send_binary(b"\x00abc\xff")
    connection.send_binary(b'\x04{"Width":80,"Height":24}')
    connection.send_binary(b"\x00def")
    connection.send_binary(b"\xff\x00")
    channels, _ = frames(connection)
    assert channels[1] == b"abc\xffdef"


def test_stdin_needs_the_protocol_that_can_end_it(cluster: Any) -> None:
    cluster.pod()
    status = run(cluster, "command=tee&stdin=1&stdout=1", V4)[2]
    assert (status["code"], cluster.backend.asked) == (400, [])


def test_a_client_that_leaves_before_the_end_of_stdin_runs_nothing(cluster: Any) -> None:
    cluster.pod()
    connection = cluster.socket(f"{POD}/exec?command=tee&stdin=1&stdout=1", V5)
    connection.send_binary(b"\x00abc")
    connection.close()
    run(cluster, "command=other&stdout=1")
    assert [argv for _, _, _, argv, _ in cluster.backend.asked] == [["other"]]


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("stdout=1", 400),
        ("command=x", 400),
        ("command=x&stdout=1&container=missing", 400),
        ("command=x&stdout=1&stderr=1&tty=1", 400),
    ],
)
def test_what_cannot_be_run_is_refused_before_the_upgrade(
    cluster: Any, query: str, status: int
) -> None:
    cluster.pod()
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        cluster.socket(f"{POD}/exec?{query}", V5)
    assert refused.value.status_code == status
    assert json.loads(refused.value.resp_body)["kind"] == "Status"


def test_a_missing_pod_is_404(cluster: Any) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        cluster.socket(f"{POD}/exec?command=x&stdout=1", V5)
    assert refused.value.status_code == 404


def test_other_protocols_are_refused(cluster: Any) -> None:
    cluster.pod()
    with pytest.raises(websocket.WebSocketBadStatusException) as refused:
        cluster.socket(f"{POD}/exec?command=x&stdout=1", "channel.k8s.io")
    assert refused.value.status_code == 400
    answer = cluster.post(f"{POD}/exec?command=x&stdout=1", {}, upgrade="SPDY/3.1")
    assert (answer.status, answer.json["reason"]) == (400, "BadRequest")
    assert cluster.get(f"{POD}/exec?command=x&stdout=1").status == 400


def test_exec_needs_its_own_permission(cluster: Any) -> None:
    cluster.pod()
    cluster.allow("jane", {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]})
    assert cluster.get(f"{POD}/exec?command=x&stdout=1", user="jane").status == 403


def test_the_container_must_be_named_where_there_are_several(cluster: Any) -> None:
    cluster.pod("web", "a", "b")
    answer = cluster.get(f"{POD}/log")
    assert answer.status == 400
    assert "choose one of: [a b]" in answer.json["message"]
    assert cluster.get(f"{POD}/log?container=b").status == 200


def test_logs_are_plain_text(cluster: Any) -> None:
    cluster.pod()
    cluster.backend.log = b"\xff binary\nlast\n"
    answer = cluster.get(f"{POD}/log?follow=false&tailLines=2")
    assert (answer.body, answer.headers["content-type"]) == (b"\xff binary\nlast\n", "text/plain")
    assert cluster.backend.queries == [{"follow": "false", "tailLines": "2"}]
    assert cluster.ask("DELETE", f"{POD}/log").status == 405


def test_a_container_that_has_not_started_has_no_log(cluster: Any) -> None:
    cluster.pod()
    waiting = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating"}}}
    cluster.container_is(waiting)
    for query in ("", "?follow=true"):
        answer = cluster.get(f"{POD}/log{query}")
        assert answer.status == 400
        assert answer.json["message"] == (
            'container "main" in pod "web" is waiting to start: ContainerCreating'
        )
    cluster.container_is({**waiting, "lastState": {"terminated": {"exitCode": 1}}})
    assert cluster.get(f"{POD}/log").status == 200


def test_an_exec_is_in_the_log(cluster: Any) -> None:
    cluster.pod()
    run(cluster, "command=x&stdout=1")
    assert cluster.log.count(path="/exec", status=101) == 1
