from __future__ import annotations

import json
import threading
from typing import Any

import pytest
import urllib3
from aiohttp import web

from harness.reach.access import Timeouts
from harness.reach.courtesy import Courtesy
from harness.reach.errors import (
    ApiRefused,
    BadCertificate,
    Garbled,
    LabError,
    Refused,
    Unreachable,
    refusal,
)
from harness.reach.execs import run_in_pod
from harness.reach.kube import Kube

POD = "/api/v1/namespaces/ns/pods/p"
PODS = "/api/v1/namespaces/ns/pods"


async def reset(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


def test_get_gives_the_object(server: Any, kube: Kube) -> None:
    server.routes[f"GET {POD}"] = {"kind": "Pod", "metadata": {"name": "p"}}
    assert kube.get("v1", "Pod", "ns", "p") == {"kind": "Pod", "metadata": {"name": "p"}}
    call = kube.calls[-1]
    assert (call.verb, call.path, call.status) == ("get", POD, 200)
    assert call.seconds > 0 and call.at == kube.clock.now()


def test_only_a_404_of_the_object_is_an_absence(server: Any, kube: Kube, refuse: Any) -> None:
    server.routes[f"GET {POD}"] = refuse(404, "NotFound", 'pods "p" not found', name="p")
    assert kube.get("v1", "Pod", "ns", "p") is None
    server.routes[f"GET {POD}"] = refuse(404, "NotFound", "the server could not find the resource")
    with pytest.raises(ApiRefused) as caught:
        kube.get("v1", "Pod", "ns", "p")
    assert caught.value.code == 404


def test_404_of_something_in_between_is_quoted(server: Any, kube: Kube) -> None:
    async def lost(request: web.Request) -> web.StreamResponse:
        return web.Response(status=404, text="404 page not found")

    server.routes[f"GET {POD}"] = lost
    with pytest.raises(ApiRefused, match="404 page not found"):
        kube.get("v1", "Pod", "ns", "p")


@pytest.mark.parametrize(("code", "reason"), [(401, "Unauthorized"), (403, "Forbidden")])
def test_credentials_are_refused(
    server: Any, kube: Kube, refuse: Any, code: int, reason: str
) -> None:
    server.routes[f"GET {POD}"] = refuse(code, reason, "no", kind="pods")
    with pytest.raises(Refused) as caught:
        kube.get("v1", "Pod", "ns", "p")
    assert (caught.value.code, caught.value.reason) == (code, reason)
    assert caught.value.details == {"kind": "pods"}


@pytest.mark.parametrize("code", [409, 429, 500, 503])
def test_other_refusals_are_reported_once(server: Any, kube: Kube, refuse: Any, code: int) -> None:
    server.routes[f"GET {POD}"] = refuse(code, "Some", "leader changed")
    with pytest.raises(ApiRefused, match="leader changed") as caught:
        kube.get("v1", "Pod", "ns", "p")
    assert not isinstance(caught.value, Refused)
    assert server.requests(POD) == 1


def test_retry_after_is_not_obeyed_in_silence(server: Any, kube: Kube) -> None:
    async def later(request: web.Request) -> web.StreamResponse:
        return web.Response(status=429, headers={"Retry-After": "1"}, text="slow down")

    server.routes[f"GET {POD}"] = later
    with pytest.raises(
        ApiRefused, match=r"slow down.*wait and ask again \(Retry-After: 1 s\)"
    ) as told:
        kube.get("v1", "Pod", "ns", "p")
    assert told.value.details["retryAfterSeconds"] == 1
    with pytest.raises(ApiRefused, match=r"Retry-After: 1 s"):
        kube.stream(POD, {}, read_timeout=5)
    assert server.requests(POD) == 2


@pytest.mark.parametrize(
    ("header", "details", "told", "seconds"),
    [
        ("7", {"retryAfterSeconds": 3}, "Retry-After: 7 s", 3),
        ("Wed, 21 Oct 2026 07:28:00 GMT", {}, "Retry-After: Wed, 21 Oct 2026 07:28:00 GMT", None),
        ("", {}, "ask again", None),
    ],
)
def test_the_ways_to_say_when(
    header: str, details: dict[str, int], told: str, seconds: int | None
) -> None:
    body = json.dumps({"kind": "Status", "code": 429, "details": details}).encode()
    found = refusal(429, body, "list pods", header)
    assert told in found.do
    assert found.details.get("retryAfterSeconds") == seconds


def test_a_request_that_is_held_says_for_how_long(server: Any, kube: Kube, clock: Any) -> None:
    class Hands:
        at = 0.0

        def monotonic(self) -> float:
            return self.at

        def back_off(self, seconds: float, stop: threading.Event) -> bool:
            self.at += seconds
            return stop.is_set()

    server.routes[f"GET {POD}"] = {"kind": "Pod"}
    held = Kube("management", kube.client, clock, courtesy=Courtesy(2, Hands(), burst=2))
    for _ in range(3):
        held.request("get", "GET", POD)
    held.stream(POD, {}, read_timeout=5).close()
    with pytest.raises(ApiRefused):
        run_in_pod(held, "ns", "p", ["x"], timeout=5)
    assert [call.held for call in held.calls] == pytest.approx([0, 0, 0.5, 0.5, 0.5])
    assert all(call.seconds < 0.5 for call in held.calls)
    assert [call.held for call in kube.calls] == [0.0] * len(kube.calls)


def test_redirect_is_not_followed(server: Any, kube: Kube) -> None:
    async def away(request: web.Request) -> web.StreamResponse:
        return web.Response(status=302, headers={"Location": "/elsewhere"})

    server.routes[f"GET {POD}"] = away
    with pytest.raises(ApiRefused) as caught:
        kube.get("v1", "Pod", "ns", "p")
    assert caught.value.code == 302
    assert server.requests("/elsewhere") == 0


def test_reset_is_reported_and_not_retried(server: Any, kube: Kube) -> None:
    server.routes[f"GET {POD}"] = reset
    with pytest.raises(Unreachable) as caught:
        kube.get("v1", "Pod", "ns", "p")
    assert server.requests(POD) == 1
    assert kube.calls[-1].status == 0
    assert "took effect" not in caught.value.do


async def half(request: web.Request) -> web.StreamResponse:
    return web.Response(body=b'{"kind": "Pod", "data": {"key": "c2VzYW1l')


async def gave_up(request: web.Request) -> web.StreamResponse:
    return web.Response(status=504, text="Timeout: request did not complete")


@pytest.mark.parametrize("answer", [half, gave_up])
def test_a_write_whose_answer_does_not_tell_is_not_said_to_be_undone(
    server: Any, kube: Kube, answer: Any
) -> None:
    server.routes[f"POST {PODS}"] = server.routes[f"GET {POD}"] = answer
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
    with pytest.raises(LabError, match="whether the create took effect is not known"):
        kube.create(pod)
    with pytest.raises(LabError) as caught:
        kube.get("v1", "Pod", "ns", "p")
    assert "took effect" not in str(caught.value)


def test_a_broken_secret_is_not_quoted(server: Any, kube: Kube) -> None:
    core = server.routes["GET /api/v1"]
    secrets = {"name": "secrets", "kind": "Secret", "namespaced": True}
    server.routes["GET /api/v1"] = {**core, "resources": [*core["resources"], secrets]}
    server.routes["GET /api/v1/namespaces/ns/secrets/s"] = half
    with pytest.raises(Garbled) as caught:
        kube.get("v1", "Secret", "ns", "s")
    assert "c2Vz" not in str(caught.value)
    assert "no JSON object" in str(caught.value)


def test_reset_write_says_that_its_effect_is_unknown(server: Any, kube: Kube) -> None:
    server.routes[f"POST {PODS}"] = reset
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
    with pytest.raises(Unreachable, match="whether the create took effect is not known"):
        kube.create(pod)
    assert server.requests(PODS) == 1


def test_silence_ends_at_the_read_timeout(server: Any, kube: Kube) -> None:
    asked = threading.Event()

    async def silent(request: web.Request) -> web.StreamResponse:
        asked.set()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(b'{"kind":')
        await request.content.readany()
        while request.transport is not None and not request.transport.is_closing():
            await _turn()
        return response

    server.routes[f"GET {POD}"] = silent
    hasty = Kube("management", kube.client, kube.clock, timeouts=Timeouts(connect=1, read=0.2))
    with pytest.raises(Unreachable, match=r"timed out"):
        hasty.get("v1", "Pod", "ns", "p")
    assert asked.is_set() and server.requests(POD) == 1


async def _turn() -> None:
    import asyncio

    done = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_later(0.02, done.set_result, None)
    await done


@pytest.mark.parametrize("text", ["<html>welcome</html>", "[]", "", "null"])
def test_an_answer_that_is_no_object_is_not_an_absence(server: Any, kube: Kube, text: str) -> None:
    async def odd(request: web.Request) -> web.StreamResponse:
        return web.Response(text=text)

    server.routes[f"GET {POD}"] = odd
    with pytest.raises(Garbled):
        kube.get("v1", "Pod", "ns", "p")


def page(items: list[Any], **metadata: str) -> dict[str, Any]:
    return {"kind": "PodList", "metadata": {"resourceVersion": "7", **metadata}, "items": items}


def test_list_follows_every_page(server: Any, kube: Kube) -> None:
    async def pages(request: web.Request) -> web.StreamResponse:
        assert request.query["limit"] == "500"
        assert request.query["labelSelector"] == "a=b,c"
        assert request.query["fieldSelector"] == "spec.nodeName=n"
        turn = int(request.query.get("continue", "0"))
        items = [{"metadata": {"name": f"p{turn}"}}]
        more = {"continue": str(turn + 1)} if turn < 2 else {}
        return web.json_response(page(items, **more))

    server.routes[f"GET {PODS}"] = pages
    found, version = kube.list_raw("v1", "Pod", "ns", labels="a=b,c", fields="spec.nodeName=n")
    assert [item["metadata"]["name"] for item in found] == ["p0", "p1", "p2"]
    assert version == "7"
    assert {(item["apiVersion"], item["kind"]) for item in found} == {("v1", "Pod")}


def test_a_list_that_expires_is_not_a_short_list(server: Any, kube: Kube, refuse: Any) -> None:
    async def half(request: web.Request) -> web.StreamResponse:
        if "continue" in request.query:
            return await refuse(410, "Expired", "too old")(request)
        return web.json_response(page([{"metadata": {"name": "p0"}}], **{"continue": "x"}))

    server.routes[f"GET {PODS}"] = half
    with pytest.raises(ApiRefused) as caught:
        kube.list("v1", "Pod", "ns")
    assert (caught.value.code, caught.value.reason) == (410, "Expired")
    assert server.requests(PODS) == 2


@pytest.mark.parametrize(
    "document", [{"kind": "Status"}, {"items": None, "metadata": {}}, {"items": []}]
)
def test_a_list_that_cannot_be_read_is_not_empty(
    server: Any, kube: Kube, document: dict[str, Any]
) -> None:
    server.routes[f"GET {PODS}"] = document
    with pytest.raises(Garbled):
        kube.list("v1", "Pod", "ns")


def test_all_namespaces(server: Any, kube: Kube) -> None:
    server.routes["GET /api/v1/pods"] = page([])
    assert kube.list("v1", "Pod") == []


def test_namespace_mistakes_are_loud(kube: Kube) -> None:
    with pytest.raises(ValueError, match="namespaced"):
        kube.get("v1", "Pod", "", "p")
    with pytest.raises(ValueError, match="no namespaces"):
        kube.get("v1", "Node", "ns", "n")
    with pytest.raises(ValueError, match="name"):
        kube.get("v1", "Node", "", "")


async def _echo(request: web.Request) -> web.StreamResponse:
    return web.json_response(
        {
            "type": request.headers.get("Content-Type"),
            "query": dict(request.query),
            "body": json.loads(await request.text()),
        }
    )


def test_apply_is_server_side(server: Any, kube: Kube) -> None:
    server.routes[f"PATCH {POD}"] = _echo
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
    told = kube.apply(pod, manager="me", force=True)
    assert told["type"] == "application/apply-patch+yaml"
    assert told["query"] == {"fieldManager": "me", "force": "true"}
    assert told["body"] == pod
    assert kube.apply(pod)["query"] == {"fieldManager": "hil", "force": "false"}


def test_merge_can_touch_a_subresource(server: Any, kube: Kube) -> None:
    server.routes[f"PATCH {POD}/status"] = _echo
    told = kube.merge("v1", "Pod", "ns", "p", {"status": None}, subresource="status")
    assert told["type"] == "application/merge-patch+json"
    assert told["body"] == {"status": None}


def test_replace_puts_the_whole(server: Any, kube: Kube) -> None:
    server.routes[f"PUT {POD}"] = _echo
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "namespace": "ns"}}
    assert kube.replace(pod)["body"] == pod
    assert kube.calls[-1].verb == "update"


def test_delete_says_whether_it_was_there(server: Any, kube: Kube, refuse: Any) -> None:
    server.routes[f"DELETE {POD}"] = {"kind": "Status", "status": "Success"}
    assert kube.delete("v1", "Pod", "ns", "p", propagation="Foreground", uid="u-1") is True
    options = json.loads(server.seen[-1][2])
    assert options["propagationPolicy"] == "Foreground"
    assert options["preconditions"] == {"uid": "u-1"}
    server.routes[f"DELETE {POD}"] = refuse(404, "NotFound", 'pods "p" not found', name="p")
    assert kube.delete("v1", "Pod", "ns", "p") is False
    server.routes[f"DELETE {POD}"] = refuse(409, "Conflict", "the UID differs", name="p")
    with pytest.raises(ApiRefused):
        kube.delete("v1", "Pod", "ns", "p")


def test_logs_are_bytes(server: Any, kube: Kube) -> None:
    async def log(request: web.Request) -> web.StreamResponse:
        assert dict(request.query) == {"container": "c", "previous": "true", "limitBytes": "10"}
        return web.Response(body=b"\xff\xfe\n")

    server.routes[f"GET {POD}/log"] = log
    assert kube.logs("ns", "p", "c", previous=True, limit_bytes=10) == b"\xff\xfe\n"


async def _two_events(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    await response.write(json.dumps({"query": dict(request.query)}).encode() + b"\n")
    return response


def test_a_watch_is_a_stream_that_is_recorded_as_one(server: Any, kube: Kube) -> None:
    server.routes[f"GET {PODS}"] = _two_events
    opened = kube.stream(PODS, {"watch": "true", "labelSelector": "a"}, read_timeout=5)
    assert isinstance(opened, urllib3.HTTPResponse)
    query = json.loads(opened.read())["query"]
    opened.close()
    assert query == {"watch": "true", "labelSelector": "a"}
    assert kube.calls[-1].verb == "watch"


def test_watch_has_a_connection_of_its_own(server: Any, kube: Kube) -> None:
    peers: list[Any] = []

    async def note(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        peers.append(request.transport.get_extra_info("peername"))
        return await _two_events(request)

    server.routes[f"GET {POD}"] = server.routes[f"GET {PODS}"] = note
    for _ in range(2):
        kube.get("v1", "Pod", "ns", "p")
    kube.stream(PODS, {"watch": "true"}, read_timeout=None).close()
    assert peers[0] == peers[1] != peers[2]


def test_refused_watch_is_raised(server: Any, kube: Kube, refuse: Any) -> None:
    server.routes[f"GET {PODS}"] = refuse(410, "Expired", "too old resource version")
    with pytest.raises(ApiRefused, match="too old") as caught:
        kube.stream(PODS, {"watch": "true"}, read_timeout=None)
    assert caught.value.code == 410


def test_open_watches_leave_the_pool_to_others(server: Any, kube: Kube) -> None:
    async def endless(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        while request.transport is not None and not request.transport.is_closing():
            await _turn()
        return response

    server.routes[f"GET {PODS}"] = endless
    server.routes[f"GET {POD}"] = {"kind": "Pod"}
    opened = [kube.stream(PODS, {"watch": "true"}, read_timeout=None) for _ in range(40)]
    assert kube.get("v1", "Pod", "ns", "p") == {"kind": "Pod"}
    for stream in opened:
        stream.close()


def test_calls_are_bounded(server: Any, kube: Kube) -> None:
    assert kube.calls.maxlen == 10_000


def test_messages_say_tried_saw_do(server: Any, kube: Kube, refuse: Any) -> None:
    server.routes[f"GET {POD}"] = refuse(403, "Forbidden", "not you")
    with pytest.raises(Refused) as caught:
        kube.get("v1", "Pod", "ns", "p")
    text = str(caught.value)
    assert f"get {POD} at management" in text and "not you" in text
    assert "permission" in text and "\n" not in text


def test_bad_certificate_is_not_unreachable() -> None:
    assert not issubclass(BadCertificate, Unreachable)
