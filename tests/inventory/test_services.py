"""How an inventory names what runs beside the clusters' APIs."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.inventory import check, load, schema

Put = Callable[[Any], Path]
URL: dict[str, Any] = {"url": "https://metrics.example/select/0/prometheus"}
SERVICE: dict[str, Any] = {"service": {"namespace": "cozy-monitoring", "name": "vm", "port": 8481}}
FILE = {"file": "/etc/hil/secret"}


@pytest.mark.parametrize(
    "part",
    [
        URL,
        SERVICE,
        {**URL, "token": {"env": "METRICS_TOKEN"}},
        {**URL, "user": "hil", "password": FILE, "ca": {**FILE}},
        {**URL, "certificate": FILE, "key": {**FILE}, "nodeLabel": "instance"},
        {**SERVICE, "labels": {"cluster": "lab", "tenant": "hil"}},
        {"service": {**SERVICE["service"], "cluster": "tenant", "scheme": "https"}},
    ],
)
def test_ways_to_prometheus(put: Put, small: dict[str, Any], part: dict[str, Any]) -> None:
    path = put({**small, "prometheus": copy.deepcopy(part)})
    assert check(path) == []
    named = load(path).prometheus
    assert named is not None
    assert (named.url is None) == (named.service is not None)
    jsonschema.validate({**small, "prometheus": part}, json.loads(schema.published()))


@pytest.mark.parametrize(
    ("part", "said"),
    [
        ({}, "exactly one of url and service"),
        ({**URL, **SERVICE}, "exactly one of url and service"),
        ({"url": "metrics.example"}, "http:// or https://"),
        ({**URL, "certificate": FILE}, "certificate and key go together"),
        ({**URL, "user": "hil"}, "user and password go together"),
        (
            {**URL, "user": "hil", "password": FILE, "token": {**FILE}},
            "a token or a user, not both",
        ),
        ({**SERVICE, "token": FILE}, "the API server's are used"),
        ({**URL, "token": "eyJhbGciOi"}, "{file: /absolute/path} or {env: NAME}"),
        ({"service": {**SERVICE["service"], "port": 70000}}, "port"),
    ],
)
def test_what_prometheus_is_no_way(
    put: Put, small: dict[str, Any], part: dict[str, Any], said: str
) -> None:
    found = check(put({**small, "prometheus": copy.deepcopy(part)}))
    assert found
    assert said in str(found[0])
    assert "eyJhbGciOi" not in str(found[0])


def test_a_lab_of_guests_has_none(put: Put) -> None:
    guests = {"name": "q", "kind": "qemu", "clock": "real", "guests": {"a": {"replicas": 1}}}
    (found, *_) = check(put({**guests, "prometheus": URL}))
    assert "no prometheus in a lab of kind qemu" in str(found)
