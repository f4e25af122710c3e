"""The way to the Prometheus that an inventory names, and what is said where there is none."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.bringup.prometheus import NOT_ASKED, memory_of, memory_since, prometheus_of
from harness.facts.boots import BootSample
from harness.facts.fact import Origin, Unread
from harness.facts.memory import MemInfo, MemoryWindow
from harness.inventory.secrets import SecretRef
from harness.inventory.services import Prometheus
from harness.reach import prometheus as reach
from harness.reach.bounded import Answer
from harness.reach.errors import KeyUnusable, Unreachable
from harness.reach.prometheus import HttpWay, ServiceWay

T = 1_767_225_600.0


class Clock:
    def now(self) -> float:
        return T

    def monotonic(self) -> float:
        return 0.0


def lab(named: Prometheus | None) -> Any:
    inventory = SimpleNamespace(prometheus=named)
    return SimpleNamespace(
        inventory=inventory,
        clock=Clock(),
        tenant=SimpleNamespace(name="tenant lab"),
        management=SimpleNamespace(name="management"),
    )


def sample(at: float, boot: str, up: float) -> BootSample:
    return BootSample(Origin(at, "guest w1", ""), "w1", boot, up, "v", "n", True)


def test_without_one_it_is_said_not_to_have_been_asked() -> None:
    seen = memory_since(lab(None), "w1", T - 100)
    assert isinstance(seen, Unread)
    assert seen.reason == NOT_ASKED


def test_a_service_is_asked_by_the_api_server_of_its_cluster() -> None:
    for cluster, name in (("management", "management"), ("tenant", "tenant lab")):
        service: Any = {"namespace": "m", "name": "vm", "port": 8481, "cluster": cluster}
        with prometheus_of(lab(Prometheus(service=service))) as found:
            assert found is not None
            assert isinstance(found.way, ServiceWay)
            assert found.way.where.endswith(f"of {name}")


def test_a_secret_that_is_not_there_is_told_with_what_names_it(tmp_path: Path) -> None:
    named = Prometheus(url="http://metrics:9090", token=SecretRef(file=str(tmp_path / "none")))
    with pytest.raises(KeyUnusable, match="`prometheus` names it"), prometheus_of(lab(named)):
        pass
    seen = memory_since(lab(named), "w1", T - 100)
    assert isinstance(seen, Unread)
    assert "none" in seen.reason


def test_its_samples_are_asked_for_by_the_label_and_labels_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[str] = []

    def instant(_: Any, query: str, at: float) -> Answer:
        asked.append(query)
        one = {"metric": {}, "values": [[T - 60, "5"], [T - 30, "4"]], "value": [T, "4"]}
        kind = "vector" if query.startswith("min") else "matrix"
        return Answer("", json.dumps({"data": {"resultType": kind, "result": [one]}}), at)

    monkeypatch.setattr(reach.Prometheus, "instant", instant)
    named = Prometheus(
        url="http://metrics:9090", node_label="instance", labels={"cluster": 'a "b"'}
    )
    seen = memory_since(lab(named), "w1.lab", T - 100)
    assert isinstance(seen, MemoryWindow)
    assert (seen.minimum, seen.samples) == (4, 2)
    matchers = 'instance=~"w1[.]lab(:[0-9]+)?",cluster="a \\"b\\""'
    assert asked[0] == f"node_memory_MemAvailable_bytes{{{matchers}}}[100s]"
    assert asked[-1] == f"min_over_time(node_memory_MemAvailable_bytes{{{matchers}}}[100s])"


def test_a_server_that_does_not_answer_is_no_absence(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise Unreachable("ask Prometheus", "connection refused", "check it")

    monkeypatch.setattr(HttpWay, "get", refuse)
    seen = memory_since(lab(Prometheus(url="http://metrics:9090")), "w1", T - 100)
    assert isinstance(seen, Unread)
    assert "connection refused" in seen.reason


def worker(shell: Any) -> Any:
    return SimpleNamespace(name="w1", shell=shell, pool=SimpleNamespace(lab=lab(None)))


class Shell:
    where, root = "guest w1", "/host"

    def run(self, argv: Any, *, timeout: float = 30.0) -> Any:
        del timeout
        text = b"MemTotal: 4 kB\nMemFree: 1 kB\nMemAvailable: 3 kB\nCached: 2 kB\n"
        return SimpleNamespace(
            argv=tuple(argv), exit_code=0, stdout=text, stderr=b"", problem="", ended=T
        )


def test_a_workers_memory_is_what_was_scraped_and_what_its_kernel_says() -> None:
    scraped, now = memory_of(worker(Shell()), (sample(T - 50, "b1", 500.0),))
    assert isinstance(scraped, Unread)
    assert isinstance(now, MemInfo)
    assert now.available == 3 * 1024
    assert memory_of(worker(Shell()), ()) == ()
    gone = Unread(Origin(T, "guest w1", ""), "boot", "no answer")
    assert len(memory_of(worker(Shell()), (sample(T - 50, "b1", 500.0), gone))) == 1
