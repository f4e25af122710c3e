from __future__ import annotations

import json
import select
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from harness.clock import WallClock
from harness.qemulab.errors import Unfit
from harness.qemulab.qmp import Qmp, QmpEnded, QmpRefused

GREETING = {"QMP": {"version": {"qemu": {"major": 7}}, "capabilities": ["oob"]}}
RESET = {
    "event": "RESET",
    "timestamp": {"seconds": 1767225600, "microseconds": 250000},
    "data": {"guest": False, "reason": "host-qmp-system-reset"},
}

Serve = Callable[..., Qmp]


def line(message: dict[str, Any]) -> bytes:
    return json.dumps(message).encode() + b"\r\n"


@pytest.fixture
def served() -> Iterator[Serve]:
    """``served(answers)``: each answer is bytes, sent as they are, after one request each."""
    ours, theirs = socket.socketpair()
    threads: list[threading.Thread] = []

    def serve(*answers: bytes, first: bytes = b"") -> Qmp:
        def run() -> None:
            theirs.sendall(first)
            requests = theirs.makefile("rb")
            for answer in answers:
                asked = json.loads(requests.readline() or b"{}")
                theirs.sendall(answer.replace(b'"ID"', str(asked.get("id")).encode()))
            theirs.shutdown(socket.SHUT_WR)

        threads.append(threading.Thread(target=run, daemon=True))
        threads[-1].start()
        return Qmp(ours, "n1", WallClock())

    yield serve
    ours.close()
    for thread in threads:
        thread.join(5)
    theirs.close()


def test_it_greets_asks_and_keeps_events_on_the_way(served: Serve) -> None:
    ok = line({"return": {}, "id": "ID"})
    status = line(RESET) + line({"return": {"running": True}, "id": "ID"}) + line(RESET)
    qmp = served(ok, status, first=line(GREETING))
    qmp.greet()
    assert qmp.ask("query-status") == {"running": True}
    with pytest.raises(QmpEnded):
        while select.select([qmp], [], [], 5)[0]:  # its end may come after what it said
            qmp.take_events()
    assert [(event.name, event.at) for event in qmp.events] == [("RESET", 1767225600.25)] * 2
    assert qmp.events[0].data["reason"] == "host-qmp-system-reset"


def test_an_error_is_an_error_in_qemus_words(served: Serve) -> None:
    error = {"error": {"class": "GenericError", "desc": "Device 'nic9' not found"}, "id": "ID"}
    qmp = served(line(error), line({"return": 7, "id": "ID"}))
    with pytest.raises(QmpRefused, match=r"n1 do set_link, saw .*Device 'nic9' not found"):
        qmp.ask("set_link", name="nic9", up=False)
    assert qmp.ask("anything") == 7


def test_an_answer_to_an_earlier_question_is_not_taken_for_this_ones(served: Serve) -> None:
    qmp = served(b"", line({"return": "late", "id": 1}) + line({"return": "mine", "id": "ID"}))
    with pytest.raises(Unfit, match="no answer in time"):
        qmp.ask("stop", patience=0.02)
    assert qmp.ask("cont") == "mine"


def test_the_end_is_the_machines_end(served: Serve) -> None:
    with pytest.raises(QmpEnded, match="that it has ended: switch the machine on again"):
        served(b'{"return": {}').ask("stop")


def test_what_is_no_qmp_is_quoted(served: Serve) -> None:
    with pytest.raises(Unfit, match=r"HTTP/1\.1 400 Bad Request"):
        served(b"HTTP/1.1 400 Bad Request\r\n").ask("stop")


def test_json_that_is_no_qmp_is_quoted(served: Serve) -> None:
    with pytest.raises(Unfit, match=r"\[1, 2\]', which is no QMP"):
        served(b"[1, 2]\n").ask("stop")


def test_the_monitors_complaint_comes_back_without_its_line_end(served: Serve) -> None:
    qmp = served(line({"return": "Error: no room\r\n", "id": "ID"}))
    assert qmp.monitor("savevm x") == "Error: no room"
