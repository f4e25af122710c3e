"""Credentials that change, seen from the requests, watches and WebSockets that carry them."""

from __future__ import annotations

import asyncio
import json
import ssl
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from harness.reach.access import Timeouts, client_from_file, client_from_text
from harness.reach.errors import ApiRefused, KubeconfigUnreadable, PluginFailed, Refused
from harness.reach.execs import run_in_pod
from harness.reach.kube import Kube
from harness.reach.watch import Observatory
from tests.reach import scripted

NODE = "/api/v1/nodes/n"
EXEC = "/api/v1/namespaces/ns/pods/p/exec"
PODS = "/api/v1/namespaces/lab/pods"


@pytest.fixture
def guarded(server: Any, refuse: Any) -> Iterator[Any]:
    """The server with one token that it takes, for requests, watches and WebSockets."""
    server.token = "first"

    async def answer(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Authorization") != f"Bearer {server.token}":
            return await refuse(401, "Unauthorized", "Unauthorized")(request)
        if request.path == EXEC:
            socket = web.WebSocketResponse(protocols=["v5.channel.k8s.io"])
            await socket.prepare(request)
            await socket.send_bytes(b"\x01hello")
            await socket.send_bytes(b'\x03{"status": "Success"}')
            await socket.close()
            return socket
        if "watch" in request.query:
            return web.Response(body=b"")
        return web.json_response({"kind": "Node"})

    for path in (NODE, EXEC, PODS):
        server.routes[f"GET {path}"] = answer
    yield server


@pytest.fixture
def connected(guarded: Any, clock: Any) -> Iterator[Callable[[dict[str, Any]], Kube]]:
    made = []

    def connect(user: dict[str, Any]) -> Kube:
        config = guarded.kubeconfig()
        config["users"][0]["user"] = user
        client = client_from_file(guarded.write(config))
        made.append(client)
        return Kube("management", client, clock, timeouts=Timeouts(connect=5.0, read=5.0))

    yield connect
    for client in made:
        client.rest_client.close()


def get(kube: Kube) -> None:
    assert kube.get("v1", "Node", "", "n") == {"kind": "Node"}


def execute(kube: Kube) -> None:
    assert run_in_pod(kube, "ns", "p", ["x"], timeout=5).stdout == b"hello"


def watch(kube: Kube) -> None:
    kube.stream(PODS, {"watch": "true"}, read_timeout=5).close()


WAYS = pytest.mark.parametrize("ask", [get, execute, watch])


@WAYS
def test_a_token_file_is_read_for_each_request(
    guarded: Any, connected: Any, tmp_path: Path, ask: Callable[[Kube], None]
) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    kube = connected({"tokenFile": str(token), "token": "the-file-wins"})
    ask(kube)
    guarded.token = "second"
    token.write_text("second\n")
    ask(kube)
    assert list(kube.renewals) == []
    assert 401 not in [call.status for call in kube.calls]


@WAYS
def test_a_token_replaced_while_a_request_was_on_its_way(
    guarded: Any, connected: Any, tmp_path: Path, ask: Callable[[Kube], None], refuse: Any
) -> None:
    """Refused with the old token, asked once more with the new one; both are on record."""
    token = tmp_path / "token"
    token.write_text("old")
    honest = dict(guarded.routes)

    async def replaced(request: web.Request) -> web.StreamResponse:
        token.write_text("first")
        guarded.routes.update(honest)
        return await honest[f"GET {request.path}"](request)

    kube = connected({"tokenFile": str(token)})
    for path in (NODE, EXEC, PODS):
        guarded.routes[f"GET {path}"] = replaced
    ask(kube)
    assert next(call.status for call in kube.calls if call.path != "/api/v1") == 401
    [renewal] = kube.renewals
    assert renewal.fresh and renewal.source == f"token file {token}"
    assert renewal.because.endswith("at management") and renewal.at == kube.clock.now()


@WAYS
def test_the_same_token_is_not_sent_twice(
    guarded: Any, connected: Any, tmp_path: Path, ask: Callable[[Kube], None]
) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    kube = connected({"tokenFile": str(token)})
    with pytest.raises(Refused):
        ask(kube)
    refused = [seen for seen in guarded.seen if seen[1] != "/api/v1"]
    assert len(refused) == 1
    assert [renewal.fresh for renewal in kube.renewals] == [False]


def test_a_static_token_has_nothing_to_be_renewed(guarded: Any, connected: Any) -> None:
    kube = connected({"token": " first\n"})
    get(kube)
    guarded.token = "second"
    with pytest.raises(Refused):
        get(kube)
    assert guarded.requests(NODE) == 2 and not kube.renewals


def test_a_token_file_that_goes_away_leaves_the_last_token(
    guarded: Any, connected: Any, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("first")
    kube = connected({"tokenFile": str(token)})
    for half_written in ("", None, "two words"):
        token.unlink(missing_ok=True) if half_written is None else token.write_text(half_written)
        get(kube)
    token.unlink(missing_ok=True)
    guarded.token = "second"
    with pytest.raises(KubeconfigUnreadable, match=r"token file .*No such file"):
        get(kube)


@pytest.mark.parametrize(("text", "says"), [("", "no token"), ("a b", "more than a token")])
def test_a_token_file_with_no_token_is_found_out_at_once(
    connected: Any, tmp_path: Path, text: str, says: str
) -> None:
    (tmp_path / "token").write_text(text)
    with pytest.raises(KubeconfigUnreadable, match=says):
        connected({"tokenFile": str(tmp_path / "token")})
    with pytest.raises(KubeconfigUnreadable, match="No such file"):
        connected({"tokenFile": str(tmp_path / "other")})


# -- plugins -------------------------------------------------------------------------------------


@pytest.fixture
def plugin(tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """A plugin that prints the statuses given, one a run, and the last again; counts its runs."""

    def make(*statuses: Any) -> dict[str, Any]:
        path, runs = tmp_path / "plugin", tmp_path / "runs"
        (tmp_path / "statuses").write_text(json.dumps(statuses))
        path.write_text(
            f"""#!{sys.executable} -IS
import json
runs = open({str(runs)!r}, 'a+')
runs.write('x'); runs.seek(0)
statuses = json.load(open({str(tmp_path / "statuses")!r}))
status = statuses[min(len(runs.read()), len(statuses)) - 1]
if status is None:
    raise SystemExit('not logged in')
version = 'client.authentication.k8s.io/v1'
print(json.dumps({{'apiVersion': version, 'kind': 'ExecCredential', 'status': status}}))
"""
        )
        path.chmod(0o700)
        return {
            "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(path)},
        }

    return make


def runs(tmp_path: Path) -> int:
    return len((tmp_path / "runs").read_text()) if (tmp_path / "runs").exists() else 0


def test_a_plugin_is_run_when_first_needed_and_its_token_kept(
    connected: Any, plugin: Any, tmp_path: Path
) -> None:
    kube = connected(plugin({"token": "first", "expirationTimestamp": "2999-01-01T00:00:00Z"}))
    assert runs(tmp_path) == 0
    for ask in (get, execute, watch):
        ask(kube)
    assert runs(tmp_path) == 1 and not kube.renewals


def test_an_expired_token_is_fetched_anew(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path
) -> None:
    past = "2020-01-01T00:00:00Z"
    kube = connected(plugin({"token": "first", "expirationTimestamp": past}, {"token": "second"}))
    watch(kube)
    assert runs(tmp_path) == 1
    guarded.token = "second"
    for ask in (watch, execute, get):
        ask(kube)
    assert runs(tmp_path) == 2 and not kube.renewals


@WAYS
def test_a_refused_token_is_fetched_anew_once(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path, ask: Callable[[Kube], None]
) -> None:
    kube = connected(plugin({"token": "first"}, {"token": "second"}))
    ask(kube)
    guarded.token = "second"
    ask(kube)
    assert runs(tmp_path) == 2
    [renewal] = kube.renewals
    assert (renewal.source, renewal.fresh) == ("exec plugin plugin", True)
    assert [call.status for call in kube.calls][-2] == 401


@WAYS
def test_a_second_refusal_is_final(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path, ask: Callable[[Kube], None]
) -> None:
    kube = connected(plugin(*({"token": f"wrong-{n}"} for n in range(9))))
    with pytest.raises(Refused):
        ask(kube)
    assert runs(tmp_path) == 2
    assert [call.status for call in kube.calls if call.path != "/api/v1"] == [401, 401]


def test_the_same_token_again_is_not_sent_again(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path
) -> None:
    kube = connected(plugin({"token": "wrong"}))
    with pytest.raises(Refused):
        get(kube)
    assert (runs(tmp_path), guarded.requests(NODE)) == (2, 1)
    assert [renewal.fresh for renewal in kube.renewals] == [False]


def test_a_plugin_that_fails_sends_nothing(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path
) -> None:
    kube = connected(plugin(None, {"token": "first"}))
    with pytest.raises(PluginFailed, match="status 1; it said 'not logged in'"):
        get(kube)
    assert guarded.seen == []
    get(kube)


def test_a_plugin_that_fails_at_renewing(guarded: Any, connected: Any, plugin: Any) -> None:
    kube = connected(plugin({"token": "first"}, None))
    get(kube)
    guarded.token = "second"
    for _ in range(2):  # and what was refused is not sent again
        with pytest.raises(PluginFailed, match="not logged in"):
            get(kube)
    assert guarded.requests(NODE) == 2
    assert [renewal.fresh for renewal in kube.renewals] == [False]


def test_a_forbidden_request_renews_nothing(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path, refuse: Any
) -> None:
    guarded.routes[f"GET {NODE}"] = refuse(403, "Forbidden", "no")
    kube = connected(plugin({"token": "first"}))
    with pytest.raises(Refused):
        get(kube)
    assert runs(tmp_path) == 1 and not kube.renewals


def test_many_threads_run_a_plugin_once(
    guarded: Any, connected: Any, plugin: Any, tmp_path: Path
) -> None:
    """All of them are on their way with the old token before the first is refused."""
    honest, together = guarded.routes[f"GET {NODE}"], asyncio.Event()
    waiting: list[str] = []

    async def gathered(request: web.Request) -> web.StreamResponse:
        if request.headers["Authorization"] == "Bearer first":
            waiting.append(request.path)
            if len(waiting) == 8:
                together.set()
            await asyncio.wait_for(together.wait(), 10)
        answer: web.StreamResponse = await honest(request)
        return answer

    kube = connected(plugin({"token": "first"}, {"token": "second"}))
    watch(kube)
    guarded.token = "second"
    guarded.routes[f"GET {NODE}"] = gathered
    threads = [threading.Thread(target=get, args=(kube,)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    statuses = [call.status for call in kube.calls if call.path == NODE]
    assert sorted(statuses) == [200] * 8 + [401] * 8
    assert runs(tmp_path) == 2 and len(kube.renewals) == 8


def test_a_client_certificate_from_a_plugin(
    server: Any, serve: Any, plugin: Any, clock: Any, tmp_path: Path
) -> None:
    """Each pair is used for the connections made with it: requests, watches and WebSockets."""
    seen: list[str] = []

    async def who(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peer = request.transport.get_extra_info("peercert")
        seen.append(dict(part[0] for part in peer["subject"])["organizationalUnitName"])
        if request.path == EXEC:
            return web.Response(status=400, text="seen")
        return web.json_response({"kind": "Node", "resources": server.routes["GET /api/v1"]})

    def pair(name: str, end: str) -> dict[str, str]:
        leaf = server.ca.issue_cert(f"{name}.test", organization_unit_name=name)
        return {
            "clientCertificateData": leaf.cert_chain_pems[0].bytes().decode(),
            "clientKeyData": leaf.private_key_pem.bytes().decode(),
            "expirationTimestamp": end,
        }

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.ca.issue_cert("127.0.0.1").configure_cert(context)
    server.ca.configure_trust(context)
    context.verify_mode = ssl.CERT_REQUIRED
    with serve(who, context) as port:
        config = server.kubeconfig(server=f"https://127.0.0.1:{port}")
        one, two = pair("one", "2020-01-01T00:00:00Z"), pair("two", "2999-01-01T00:00:00Z")
        config["users"][0]["user"] = plugin(one, two)
        kube = Kube("management", client_from_file(server.write(config)), clock)
        kube.request("get", "GET", NODE)
        kube.request("get", "GET", NODE)
        watch(kube)
        with pytest.raises(ApiRefused):
            execute(kube)
        kube.client.rest_client.close()
    assert seen == ["one", "two", "two", "two"]
    assert runs(tmp_path) == 2


# -- watches -------------------------------------------------------------------------------------

UNAUTHORIZED = scripted.refusal(401, "Unauthorized", "token expired")
Followed = tuple[scripted.Scripted, Kube, Observatory]


@pytest.fixture
def followed(plugin: Any) -> Iterator[Followed]:
    """A scripted server, a client with a plugin's credentials, and what watches it."""
    with scripted.scripted() as server:
        config = {
            "current-context": "it",
            "clusters": [{"name": "c", "cluster": {"server": f"http://127.0.0.1:{server.port}"}}],
            "users": [{"name": "u", "user": plugin({"token": "old"}, {"token": "new"})}],
            "contexts": [{"name": "it", "context": {"cluster": "c", "user": "u"}}],
        }
        client = client_from_text(yaml.safe_dump(config))
        clock = scripted.Brisk()
        kube = Kube("management", client, clock, timeouts=Timeouts(connect=5.0, read=5.0))
        observatory = Observatory(clock)
        yield server, kube, observatory
        observatory.close()


def until(kube: Kube, holds: Callable[[], object], what: str) -> None:
    assert kube.clock.wait(lambda: bool(holds()), kube.clock.deadline(5.0), what), what


def streams(kube: Kube) -> list[int]:
    return [call.status for call in kube.calls if call.verb == "watch"]


def test_a_watch_that_resumes_with_a_token_no_longer_taken(
    followed: Followed, tmp_path: Path
) -> None:
    """One renewal and one more try, on record; nothing is missed."""
    server, kube, observatory = followed

    def end(stream: scripted.Stream) -> None:
        server.write("b", "Running")
        stream.end()

    server.watches.extend([end, UNAUTHORIZED])
    feed = observatory.feed(kube, "v1", "Pod", "lab")
    until(kube, lambda: feed.object("b") is not None, "what was written meanwhile")
    assert feed.refused is None and feed.healthy()
    assert [renewal.fresh for renewal in kube.renewals] == [True]
    assert streams(kube) == [200, 401, 200]
    assert runs(tmp_path) == 2


def test_a_watch_refused_after_its_renewal_is_over(followed: Followed, tmp_path: Path) -> None:
    server, kube, observatory = followed
    server.watches.append(scripted.end_at_once)
    server.always = UNAUTHORIZED
    feed = observatory.feed(kube, "v1", "Pod", "lab")
    with pytest.raises(Refused, match="token expired"):
        feed.wait(lambda _: False, kube.clock.deadline(5.0), "nothing")
    assert streams(kube)[:3] == [200, 401, 401]
    # the feed's own second thoughts cost one request and one run of the plugin, and no more
    assert len(streams(kube)) <= 4 and runs(tmp_path) <= 3
    assert next(renewal.fresh for renewal in kube.renewals)
