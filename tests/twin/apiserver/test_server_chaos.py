"""Chaos on the wire: what each kind looks like to a client, and that it ends where it should."""

from __future__ import annotations

import json
import socket
import ssl
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, TypeVar

import pytest
import urllib3

from harness.twin.apiserver import watching
from harness.twin.apiserver.chaos import REFUSALS, Rule
from harness.twin.apiserver.execresult import ExecResult
from harness.twin.apiserver.server import ApiServer

CM = "/api/v1/namespaces/default/configmaps"
UPGRADE = {
    "connection": "Upgrade",
    "upgrade": "websocket",
    "sec_websocket_version": "13",
    "sec_websocket_key": "MDEyMzQ1Njc4OWFiY2RlZg==",
    "sec_websocket_protocol": "v5.channel.k8s.io",
}
T = TypeVar("T")
EXEC = "/api/v1/namespaces/default/pods/web/exec?command=run&stdout=1&stderr=1"


class Wire:
    """A raw connection, and everything the server sent on it so far.

    TLS is done beside the socket: the ssl module's own sockets tell FIN and RST alike.
    """

    def __init__(self, cluster: Any, buffer: int = 0) -> None:
        self.socket = socket.socket()
        if buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.socket.settimeout(10)
        self.socket.connect(("127.0.0.1", cluster.server.port))
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = cluster.context("admin", ("system:masters",))
        self._tls = context.wrap_bio(self._in, self._out, server_hostname="127.0.0.1")
        self._do(self._tls.do_handshake)
        self.got = b""

    def _do(self, step: Callable[[], T]) -> T:
        while True:
            try:
                done = step()
            except ssl.SSLWantReadError:
                self._flush()
                data = self.socket.recv(65536)
                self._in.write(data) if data else self._in.write_eof()
                continue
            self._flush()
            return done

    def _flush(self) -> None:
        # to send nothing would take the socket's error from whoever reads next
        if data := self._out.read():
            self.socket.sendall(data)

    def _read(self) -> bytes:
        return self._do(lambda: self._tls.read(65536))

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> None:
        named = {"host": "x", "content-length": str(len(body)), **headers}
        lines = [
            f"{method} {path} HTTP/1.1",
            *(f"{n.replace('_', '-')}: {v}" for n, v in named.items()),
        ]
        data = "\r\n".join([*lines, "", ""]).encode() + body
        self._do(lambda: self._tls.write(data))

    def until(self, text: bytes) -> bytes:
        while text not in self.got:
            data = self._read()
            assert data, f"the server closed the connection: {self.got!r}"
            self.got += data
        return self.got

    def is_reset(self) -> bool:
        """Reads until the connection is over; True where that is a reset, not a close."""
        try:
            while data := self._read():
                self.got += data
        except ConnectionResetError:
            return True
        except ssl.SSLEOFError:
            return False
        return False

    def is_quiet(self, seconds: float = 0.2) -> bool:
        self.socket.settimeout(seconds)
        try:
            self.got += self._read()
        except TimeoutError:
            return True
        return False

    @property
    def events(self) -> list[Any]:
        """The lines of a watch, decoded from their chunks."""
        at, body = self.got.index(b"\r\n\r\n") + 4, b""
        while at < len(self.got):
            end = self.got.index(b"\r\n", at)
            size = int(self.got[at:end], 16)
            body += self.got[end + 2 : end + 2 + size]
            at = end + size + 4
        return [json.loads(line) for line in body.splitlines()]


@pytest.fixture
def wire(cluster: Any) -> Iterator[Wire]:
    made = Wire(cluster)
    yield made
    made.socket.close()


def unleash(cluster: Any, what: str, **fields: Any) -> None:
    cluster.run(lambda: cluster.server.chaos.add(Rule(what, **fields)))


def clear(cluster: Any) -> None:
    cluster.run(cluster.server.chaos.clear)


RESULT = ExecResult(b"out", b"err", 0)


def names(events: list[Any]) -> list[str]:
    return [event["object"]["metadata"]["name"] for event in events]


def config_maps(cluster: Any, letters: str = "abc") -> None:
    for letter in letters:
        cluster.config_map(letter)


# -- refusals

SAID = {
    "gone": (410, "Expired", "The resourceVersion for the provided list is too old."),
    "throttle": (429, "TooManyRequests", "too many requests"),
    "leader-changed": (500, None, "etcdserver: leader changed"),
    "unavailable": (503, "ServiceUnavailable", "currently unable to handle the request"),
    "timeout": (504, "Timeout", "Timeout: request did not complete within"),
    "unauthorized": (401, "Unauthorized", "Unauthorized"),
    "forbidden": (403, "Forbidden", 'User "admin" cannot list resource "configmaps"'),
}


@pytest.mark.parametrize("what", REFUSALS)
def test_a_refusal_is_a_status_as_a_real_server_words_it(cluster: Any, what: str) -> None:
    unleash(cluster, what, verb="list", seconds=7)
    answer = cluster.get(CM)
    code, reason, message = SAID[what]
    assert (answer.status, answer.json["code"]) == (code, code)
    assert (answer.json["kind"], answer.json["status"]) == ("Status", "Failure")
    assert answer.json.get("reason") == reason
    assert message in answer.json["message"]
    assert answer.headers.get("retry-after") == ("7" if what == "throttle" else None)
    assert cluster.log.count(verb="list", status=code) == 1
    clear(cluster)
    assert cluster.get(CM).status == 200


BODY = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "a", "namespace": "default"},
    "data": {"x": "1"},
}
REQUESTS = {
    "get": ("GET", f"{CM}/a"),
    "list": ("GET", CM),
    "watch": ("GET", f"{CM}?watch=1&resourceVersion=none"),  # no version: answered at once
    "create": ("POST", CM),
    "update": ("PUT", f"{CM}/a"),
    "patch": ("PATCH", f"{CM}/a"),
    "delete": ("DELETE", f"{CM}/a"),
    "deletecollection": ("DELETE", CM),
    "exec": ("GET", EXEC),
}


@pytest.mark.parametrize("verb", REQUESTS)
def test_a_rule_strikes_its_verb_and_no_other(cluster: Any, verb: str) -> None:
    cluster.pod()
    unleash(cluster, "unavailable", verb=verb)
    for asked, (method, path) in REQUESTS.items():
        body = BODY if method in ("POST", "PUT", "PATCH") else None
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        status = cluster.ask(method, path, body, content_type=kind).status
        assert (status == 503) == (asked == verb), (asked, status)


def test_a_refused_write_is_not_done(cluster: Any) -> None:
    unleash(cluster, "timeout", verb="create")
    assert cluster.post(CM, BODY).status == 504
    clear(cluster)
    assert cluster.get(f"{CM}/a").status == 404


def test_times_and_skip_on_the_quick_way_and_the_long_one(cluster: Any) -> None:
    unleash(cluster, "unavailable", path="*/configmaps", times=2, skip=1)
    assert [cluster.get(CM).status for _ in range(5)] == [200, 503, 503, 200, 200]
    (kept,) = cluster.run(lambda: cluster.server.chaos.in_force)
    assert (kept.met, kept.struck, kept.spent) == (3, 2, True)


def test_other_paths_are_unharmed(cluster: Any) -> None:
    unleash(cluster, "unavailable", path="/api/v1/*/configmaps*")
    assert cluster.get("/api/v1/nodes").status == 200
    assert cluster.get("/readyz").status == 200
    assert cluster.get(f"{CM}?limit=1").status == 503


def test_off_the_resources_the_method_is_the_verb(cluster: Any) -> None:
    unleash(cluster, "forbidden", verb="get", path="/version")
    refused = cluster.get("/version")
    assert refused.json["message"] == 'forbidden: User "admin" cannot get path "/version"'


# -- plain answers


@pytest.mark.parametrize(("method", "path"), [("GET", CM), ("POST", CM)])
def test_drop_breaks_an_answer_in_its_middle(
    cluster: Any, wire: Wire, method: str, path: str
) -> None:
    unleash(cluster, "drop")
    wire.ask(path, method, json.dumps(BODY).encode() if method == "POST" else b"")
    assert wire.is_reset()
    head, _, body = wire.got.partition(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    assert len(body) == length // 2 > 0
    clear(cluster)
    # what was asked was done: only the answer is lost
    assert cluster.get(f"{CM}/a").status == (200 if method == "POST" else 404)


def test_garbled_is_a_whole_answer_and_no_json(cluster: Any) -> None:
    unleash(cluster, "garbled", times=1)
    answer = cluster.get(CM)
    assert answer.status == 200
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        json.loads(answer.body)
    assert cluster.get(CM).json["items"] == []


def test_half_open_accepts_and_never_answers(cluster: Any, wire: Wire) -> None:
    unleash(cluster, "half-open")
    wire.ask(CM)
    assert wire.is_quiet()
    wire.socket.settimeout(10)
    # the client has enough: it says goodbye, and the server does not
    wire.socket.shutdown(socket.SHUT_WR)
    assert wire.is_quiet()
    assert wire.got == b""


def test_slow_answers_late_and_in_full(cluster: Any, wire: Wire) -> None:
    unleash(cluster, "slow", seconds=0.3)
    begun = time.monotonic()
    wire.ask(CM)
    assert wire.is_quiet(0.1)
    wire.socket.settimeout(10)
    wire.until(b"ConfigMapList")
    assert 0.3 <= time.monotonic() - begun < 5


# -- watches


def test_cut_ends_a_watch_in_good_order(cluster: Any, wire: Wire) -> None:
    config_maps(cluster)
    unleash(cluster, "cut", after=2)
    wire.ask(f"{CM}?watch=1")
    wire.until(b"0\r\n\r\n")
    assert names(wire.events) == ["a", "b"]
    wire.got = b""
    wire.ask("/readyz")  # and the connection lives
    wire.until(b"ok")


def test_cut_after_nothing(cluster: Any) -> None:
    config_maps(cluster)
    unleash(cluster, "cut")
    assert cluster.watch(f"{CM}?watch=1").ends()


def test_cut_strikes_while_events_come(cluster: Any) -> None:
    unleash(cluster, "cut", after=2, times=1)
    stream = cluster.watch(f"{CM}?watch=1&allowWatchBookmarks=1")
    cluster.run(cluster.server.bookmark)
    config_maps(cluster)
    assert [event["type"] for event in stream.take(3)] == ["BOOKMARK", "ADDED", "ADDED"]
    assert stream.ends()
    assert names(cluster.watch(f"{CM}?watch=1").take(3)) == ["a", "b", "c"]


def test_drop_resets_a_watch(cluster: Any, wire: Wire) -> None:
    unleash(cluster, "drop", after=1)
    wire.ask(f"{CM}?watch=1")
    wire.until(b"\r\n\r\n")
    config_maps(cluster)
    assert wire.is_reset()
    assert names(wire.events) == ["a"]
    assert not wire.got.endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("what", ["silent", "half-open"])
def test_silence_after_an_event(cluster: Any, wire: Wire, what: str) -> None:
    unleash(cluster, what, after=1)
    wire.ask(f"{CM}?watch=1&allowWatchBookmarks=1")
    config_maps(cluster)
    wire.until(b'"name":"a"')
    cluster.run(cluster.server.bookmark)
    assert wire.is_quiet()
    assert names(wire.events) == ["a"]
    assert cluster.run(lambda: cluster.server.deliveries) == 1


def test_a_silent_watch_still_has_a_head_and_its_own_end(cluster: Any, wire: Wire) -> None:
    config_maps(cluster)
    unleash(cluster, "silent")
    wire.ask(f"{CM}?watch=1&timeoutSeconds=1")
    wire.until(b"0\r\n\r\n")
    assert wire.got.startswith(b"HTTP/1.1 200 OK")
    assert wire.events == []


def test_a_half_open_watch_has_nothing(cluster: Any, wire: Wire) -> None:
    config_maps(cluster)
    unleash(cluster, "half-open")
    wire.ask(f"{CM}?watch=1")
    assert wire.is_quiet()
    assert cluster.log.count(status=0) == 1


@pytest.mark.parametrize("after", [0, 1])
def test_gone_is_an_error_event_in_a_good_stream(cluster: Any, after: int) -> None:
    start = cluster.config_map("z")["metadata"]["resourceVersion"]
    config_maps(cluster)
    unleash(cluster, "gone", after=after, verb="watch")
    stream = cluster.watch(f"{CM}?watch=1&resourceVersion={start}")
    assert stream.status == 200
    assert names(stream.take(after)) == ["a"][:after]
    event = stream.next()
    assert (event["type"], event["object"]["kind"]) == ("ERROR", "Status")
    assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")
    assert "too old" in event["object"]["message"]
    assert stream.ends()


def test_a_refusal_in_the_middle_of_a_watch_is_an_error_event(cluster: Any) -> None:
    config_maps(cluster)
    unleash(cluster, "leader-changed", after=1)
    stream = cluster.watch(f"{CM}?watch=1")
    assert names(stream.take(1)) == ["a"]
    assert stream.next()["object"]["message"] == "etcdserver: leader changed"
    assert stream.ends()


def test_a_refused_watch(cluster: Any) -> None:
    unleash(cluster, "throttle", verb="watch", seconds=3)
    answer = cluster.get(f"{CM}?watch=1")
    assert (answer.status, answer.headers["retry-after"]) == (429, "3")


def test_a_garbled_event_is_lost_and_the_next_is_whole(cluster: Any) -> None:
    config_maps(cluster)
    unleash(cluster, "garbled", after=1)
    stream = cluster.watch(f"{CM}?watch=1")
    assert names(stream.take(1)) == ["a"]
    with pytest.raises(ValueError, match=r"Unterminated|Expecting"):
        stream.next()
    assert names(stream.take(1)) == ["c"]


def test_a_slow_watch_begins_late_and_misses_nothing(cluster: Any) -> None:
    config_maps(cluster)
    unleash(cluster, "slow", verb="watch", seconds=0.2)
    begun = time.monotonic()
    stream = cluster.watch(f"{CM}?watch=1")
    assert time.monotonic() - begun >= 0.2
    assert names(stream.take(3)) == ["a", "b", "c"]


# -- exec


def test_an_exec_is_cut_without_a_status(cluster: Any) -> None:
    cluster.pod()
    cluster.backend.results["run"] = RESULT
    unleash(cluster, "cut", verb="exec", after=1)
    opened = cluster.socket(EXEC, "v5.channel.k8s.io")
    assert opened.recv() == b"\x01out"
    assert opened.recv_frame().opcode == 8  # a close frame, and no status before it
    opened.close()


@pytest.mark.parametrize("after", [0, 1, 2])
def test_an_exec_is_reset(cluster: Any, wire: Wire, after: int) -> None:
    cluster.pod()
    cluster.backend.results["run"] = RESULT
    unleash(cluster, "drop", after=after)
    wire.ask(EXEC, **UPGRADE)
    assert wire.is_reset()
    assert wire.got.startswith(b"HTTP/1.1 101")
    sent = [part in wire.got for part in (b"\x01out", b"\x02err", b"Success")]
    assert sent == [after > 0, after > 1, False]
    assert len(cluster.backend.asked) == 1  # the program ran; nobody learns how it ended


@pytest.mark.parametrize("what", ["silent", "half-open"])
def test_an_exec_falls_silent(cluster: Any, what: str) -> None:
    cluster.pod()
    cluster.backend.results["run"] = RESULT
    unleash(cluster, what, after=1)
    opened = cluster.socket(EXEC, "v5.channel.k8s.io")
    assert opened.recv() == b"\x01out"
    opened.settimeout(0.2)
    with pytest.raises(Exception, match="timed out"):
        opened.recv()
    opened.shutdown()


def test_a_rule_that_leaves_more_messages_alone_than_there_are(cluster: Any) -> None:
    cluster.pod()
    unleash(cluster, "drop", after=1)  # its one message is the status
    opened = cluster.socket(EXEC, "v5.channel.k8s.io")
    assert json.loads(opened.recv()[1:])["status"] == "Success"
    assert opened.recv_frame().opcode == 8
    opened.close()


# -- the whole server


def test_restart_resets_everything_and_forgets(cluster: Any, wire: Wire) -> None:
    start = cluster.config_map("a")["metadata"]["resourceVersion"]
    now = cluster.config_map("b")["metadata"]["resourceVersion"]
    port, idle = cluster.server.port, Wire(cluster)
    idle.ask("/readyz")
    idle.until(b"ok")
    wire.ask(f"{CM}?watch=1&resourceVersion={now}")
    wire.until(b"\r\n\r\n")

    def restart() -> int:
        before = cluster.server.deliveries
        cluster.server.chaos.add(Rule("restart"))
        cluster.store.apply(BODY, manager="test")
        return int(cluster.server.deliveries - before)

    assert cluster.run(restart) == 0  # nobody is told any more
    assert wire.is_reset()
    assert idle.is_reset()
    idle.socket.close()
    assert cluster.run(lambda: cluster.server.watches) == ()
    cluster.pool("admin", ("system:masters",)).clear()
    assert cluster.server.port == port
    event = cluster.watch(f"{CM}?watch=1&resourceVersion={start}").next()
    assert (event["type"], event["object"]["code"]) == ("ERROR", 410)
    stream = cluster.watch(f"{CM}?watch=1&resourceVersion={now}")
    cluster.config_map("c")
    assert names(stream.take(2)) == ["a", "c"]
    assert [i["metadata"]["name"] for i in cluster.get(CM).json["items"]] == ["a", "b", "c"]


def test_skew_shows_in_date_and_creation(cluster: Any) -> None:
    unleash(cluster, "skew", seconds=-3600)
    assert cluster.get("/readyz").headers["date"] == "Wed, 31 Dec 2025 23:00:00 GMT"
    made = cluster.post(CM, BODY).json
    assert made["metadata"]["creationTimestamp"] == "2025-12-31T23:00:00Z"
    clear(cluster)
    assert cluster.get("/readyz").headers["date"] == "Thu, 01 Jan 2026 00:00:00 GMT"
    assert cluster.config_map("b")["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"


def test_an_expired_certificate_is_for_new_connections(cluster: Any) -> None:
    assert cluster.get("/readyz").status == 200
    unleash(cluster, "expired-certificate")
    assert cluster.get("/readyz").status == 200  # on the connection there is
    cluster.pool("admin", ("system:masters",)).clear()
    with pytest.raises(urllib3.exceptions.SSLError, match="certificate has expired"):
        cluster.get("/readyz")
    clear(cluster)
    assert cluster.get("/readyz").status == 200


# -- the server's own good order


def test_closing_ends_what_is_stuck_at_once(cluster: Any, wire: Wire) -> None:
    unleash(cluster, "half-open", times=1)
    wire.ask(CM)
    assert wire.is_quiet()
    begun = time.monotonic()
    cluster.wait(cluster.server.close())
    assert time.monotonic() - begun < 1


def test_a_restart_frees_what_is_stuck(cluster: Any, wire: Wire) -> None:
    unleash(cluster, "half-open", times=1)
    wire.ask(CM)
    assert wire.is_quiet()
    wire.socket.settimeout(10)
    unleash(cluster, "restart")
    assert wire.is_reset()


def test_a_client_that_does_not_read_is_let_go(
    cluster: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_QUEUED", 20)
    wire = Wire(cluster, buffer=4096)
    reading = cluster.watch(f"{CM}?watch=1&labelSelector=read")
    wire.ask(f"{CM}?watch=1")
    wire.until(b"\r\n\r\n")
    wide = "x" * 50_000
    made = 0
    # until the sockets' own buffers are full as well
    while not all(watch.ended for watch in stalled(cluster)):
        made += 1
        cluster.config_map(f"m{made:04}", wide=wide)
        assert made < 500
    wire.until(b"\r\n0\r\n\r\n")
    got = names(wire.events)
    assert got == [f"m{number:04}" for number in range(1, len(got) + 1)]
    assert 20 <= len(got) < made
    assert len(cluster.run(lambda: cluster.server.watches)) == 1
    assert reading.status == 200
    wire.socket.close()


def stalled(cluster: Any) -> list[Any]:
    watches = cluster.run(lambda: cluster.server.watches)
    return [watch for watch in watches if not watch.asked.labels]


def test_a_long_list_to_begin_with_is_no_lag(cluster: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_QUEUED", 2)
    config_maps(cluster, "abcde")
    widgets = watching.Following(cluster.store.registry.by_kind("v1", "ConfigMap"))
    kept = cluster.run(lambda: watching.Watches(cluster.store))
    watch = cluster.run(lambda: kept.add(widgets, "admin"))
    config_maps(cluster, "fgh")  # two of them fit
    assert (watch.sent, watch.ended) == (7, True)
    cluster.run(kept.close)


@pytest.fixture
def short_lived(cluster: Any) -> Any:
    """The cluster behind a server that ends its watches by itself."""
    cluster.wait(cluster.server.close())
    cluster.server = cluster.run(
        lambda: ApiServer(
            cluster.store,
            cluster.backend,
            authority=cluster.authority,
            request_log=cluster.log,
            watch_lifetime=0.15,
        )
    )
    cluster.wait(cluster.server.start())
    return cluster


def test_watches_end_by_themselves_where_they_live_for_a_time(short_lived: Any) -> None:
    config_maps(short_lived)
    begun = time.monotonic()
    stream = short_lived.watch(f"{CM}?watch=1")
    asked = short_lived.watch(f"{CM}?watch=1&timeoutSeconds=30")
    assert names(stream.take(3)) == ["a", "b", "c"]
    assert stream.ends()
    assert time.monotonic() - begun >= 0.15
    assert len(short_lived.run(lambda: short_lived.server.watches)) == 1
    assert asked.status == 200


def test_lifetimes_are_drawn_from_a_seed() -> None:
    drawn = [list(islice(watching.lifetimes(1800, seed), 50)) for seed in ("1 a", "1 a", "2 a")]
    assert drawn[0] == drawn[1] != drawn[2]
    assert all(1800 <= seconds < 3600 for seconds in drawn[0])
    assert len(set(drawn[0])) == 50
    assert next(watching.lifetimes(0, "1")) == 0


# -- streams that are neither watch nor exec

LOG = "/api/v1/namespaces/default/pods/web/log?follow=1"


def test_a_followed_log_is_dropped_or_refused(cluster: Any, wire: Wire) -> None:
    cluster.pod()
    unleash(cluster, "drop", verb="connect", times=1)
    unleash(cluster, "unavailable", verb="connect", times=1)
    wire.ask(LOG)
    assert wire.is_reset()
    assert cluster.get(LOG).status == 503
    assert cluster.get(LOG.partition("?")[0]).body == b"one\ntwo\n"


def test_the_server_finds_no_fault_with_itself(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config_maps(cluster)
    cluster.pod()
    for what in ("drop", "cut", "garbled", "gone", "silent", "half-open", "restart"):
        for path in (CM, f"{CM}?watch=1", EXEC, LOG):
            unleash(cluster, what)
            client = Wire(cluster)
            client.ask(path)
            with suppress(ConnectionResetError):
                client.is_quiet(0.02)
            client.socket.close()
            clear(cluster)
    cluster.wait(cluster.server.close())
    assert [record.getMessage() for record in caplog.records] == []
