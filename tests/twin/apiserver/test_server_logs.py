"""Logs that are followed: what is there, then what comes, until the container ends."""

from __future__ import annotations

from typing import Any

import pytest

POD = "/api/v1/namespaces/default/pods/web"
RUNS = {"name": "main", "containerID": "containerd://1", "state": {"running": {}}}
ENDED = {"name": "main", "containerID": "containerd://1", "state": {"terminated": {"exitCode": 0}}}


class Following:
    """A follower that takes what comes, a line at a time."""

    def __init__(self, cluster: Any, query: str = "follow=true") -> None:
        self._stream = cluster.watch(f"{POD}/log?{query}")
        self.headers = self._stream.response.headers
        self._rest = b""

    def line(self) -> bytes:
        while b"\n" not in self._rest:
            self._rest += next(self._stream._chunks)
        line, self._rest = self._rest.split(b"\n", 1)
        return line

    def rest(self) -> bytes:
        return self._rest + b"".join(self._stream._chunks)


def write(cluster: Any, data: bytes) -> None:
    cluster.run(lambda: [heard(data) for heard in tuple(cluster.backend.readers)])


@pytest.fixture
def running(cluster: Any) -> Any:
    cluster.pod()
    cluster.container_is(RUNS)
    return cluster


def test_lines_come_as_they_are_written(running: Any) -> None:
    following = Following(running)
    assert following.headers["content-type"] == "text/plain"
    assert [following.line(), following.line()] == [b"one", b"two"]
    before = running.server.deliveries
    write(running, b"three\n")
    assert following.line() == b"three"
    assert running.server.deliveries == before + 1


def test_the_stream_ends_with_the_container(running: Any) -> None:
    following = Following(running)
    write(running, b"last words\n")
    running.container_is(ENDED)
    assert following.rest() == b"one\ntwo\nlast words\n"
    assert running.backend.readers == []


@pytest.mark.parametrize(
    "change",
    [
        {**RUNS, "containerID": "containerd://2"},
        {"name": "main", "state": {"waiting": {"reason": "CrashLoopBackOff"}}},
    ],
)
def test_a_restart_ends_it(running: Any, change: dict[str, Any]) -> None:
    following = Following(running)
    running.container_is(change)
    assert following.rest() == b"one\ntwo\n"


def test_a_deleted_pod_ends_it(running: Any) -> None:
    following = Following(running)
    running.ask("DELETE", f"{POD}?gracePeriodSeconds=0")
    assert following.rest() == b"one\ntwo\n"


def test_another_change_of_the_pod_does_not_end_it(running: Any) -> None:
    following = Following(running)
    running.container_is({**RUNS, "ready": True})
    write(running, b"on\n")
    running.container_is(ENDED)
    assert following.rest() == b"one\ntwo\non\n"


def test_a_container_that_has_ended_is_told_to_its_end(running: Any) -> None:
    running.container_is(ENDED)
    assert Following(running).rest() == b"one\ntwo\n"


def test_a_limit_ends_it(running: Any) -> None:
    following = Following(running, "follow=1&limitBytes=10")
    write(running, b"three\n")
    assert following.rest() == b"one\ntwo\nth"
    assert running.log.count(path="/log", status=200) == 1


def test_a_server_that_stops_ends_it(running: Any) -> None:
    following = Following(running)
    following.line()
    running.wait(running.server.close())
    assert following.rest() == b"two\n"


def test_a_follower_that_leaves_is_forgotten(running: Any) -> None:
    following = Following(running)
    following.line()
    following._stream.response.close()
    running.until(lambda: running.backend.readers == [])
