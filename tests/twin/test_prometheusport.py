"""The tenant's Prometheus over HTTP, as a client with the token meets it, and one without."""

from __future__ import annotations

import http.client
import json
import stat
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest

from harness.twin.process import Endpoint, PrometheusAccess, TwinProcess


@pytest.fixture
def access(twin: TwinProcess) -> PrometheusAccess:
    assert twin.endpoint.prometheus is not None
    return twin.endpoint.prometheus


def ask(access: PrometheusAccess, method: str, path: str, token: str, body: str = "") -> Any:
    where = urlsplit(access.url)
    connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=20)
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    if body:
        headers["Content-Type"] = "application/x-www-form-urlencoded"
    try:
        connection.request(method, path, body or None, headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()
    finally:
        connection.close()


def test_the_holder_of_the_token_is_answered(access: PrometheusAccess) -> None:
    token = access.token.read_text()
    assert stat.S_IMODE(access.token.stat().st_mode) == 0o600
    status, text = ask(access, "GET", "/api/v1/query?query=up", token)
    assert status == 200
    assert json.loads(text) == {"status": "success", "data": {"resultType": "vector", "result": []}}
    form = urlencode({"query": "up", "start": "1", "end": "60", "step": "15"})
    status, text = ask(access, "POST", "/api/v1/query_range", token, form)
    assert (status, json.loads(text)["data"]["resultType"]) == (200, "matrix")


@pytest.mark.parametrize("token", ["", "another"])
def test_nobody_else_is(access: PrometheusAccess, token: str) -> None:
    assert ask(access, "GET", "/api/v1/query?query=up", token) == (401, "Unauthorized\n")


def test_what_is_not_there_and_what_makes_no_sense(access: PrometheusAccess) -> None:
    token = access.token.read_text()
    assert ask(access, "GET", "/graph", token)[0] == 404
    assert ask(access, "DELETE", "/api/v1/series", token)[0] == 405
    status, text = ask(access, "GET", "/api/v1/query", token)
    assert (status, json.loads(text)["errorType"]) == (400, "bad_data")


def test_a_twin_of_an_older_build_has_none(twin: TwinProcess, tmp_path: Path) -> None:
    assert twin.endpoint.prometheus is not None
    directory = twin.endpoint.prometheus.token.parent
    told = json.loads((directory / "twin.json").read_text())
    assert told.pop("prometheus")["url"] == twin.endpoint.prometheus.url
    (tmp_path / "twin.json").write_text(json.dumps(told))
    assert Endpoint.load(tmp_path).prometheus is None
