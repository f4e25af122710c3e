"""What the lab's Prometheus answers: shapes, gaps where a worker is down, memory over a boot."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import pytest

from harness.twin.world.images import NVIDIA_OPEN
from harness.twin.world.prometheus_api import PrometheusApi
from harness.twin.world.world import World

BUDGET = 900.0
AVAILABLE = "node_memory_MemAvailable_bytes"
Ask = Callable[..., Any]


class Asked:
    """Asks the API of one world, and unpacks what it answers."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.api = PrometheusApi(lab.world.metrics, lambda: lab.engine.now)

    def reply(self, path: str, **given: Any) -> Any:
        more = {"match[]": [given.pop("match")]} if "match" in given else {}
        parameters = {key: [str(value)] for key, value in given.items()}
        return self.api.answer(f"/api/v1/{path}", {**parameters, **more})

    def data(self, path: str, **given: Any) -> Any:
        reply = self.reply(path, **given)
        assert reply.status == 200, reply.document
        assert reply.document["status"] == "success"
        return reply.document["data"]

    def samples(self, query: str) -> list[tuple[float, float]]:
        """The raw samples of the only series of a range selector."""
        data = self.data("query", query=query)
        assert data["resultType"] == "matrix"
        (one,) = data["result"]
        return [(at, float(value)) for at, value in one["values"]]


@pytest.fixture
def asked(lab: Any) -> Asked:
    return Asked(lab)


def joined(lab: Any, **spec: Any) -> Any:
    lab.pool(**spec)
    lab.run_until(lab.joined, BUDGET)
    (guest,) = lab.world.guests.all()
    return guest


def test_an_instant_query_gives_the_last_scrape_of_each_worker(asked: Asked) -> None:
    guest = joined(asked.lab)
    asked.lab.run(120)
    data = asked.data("query", query=f'{AVAILABLE}{{node="{guest.hostname}"}}')
    assert data["resultType"] == "vector"
    (one,) = data["result"]
    assert one["metric"]["__name__"] == AVAILABLE
    assert one["metric"]["instance"] == f"{guest.hostname}:9100"
    at, value = one["value"]
    assert at == asked.lab.engine.now
    assert isinstance(value, str)
    meminfo = guest.run(["cat", "/proc/meminfo"]).stdout.decode()
    told = int(meminfo.split("MemAvailable:")[1].split()[0]) * 1024
    assert float(value) == pytest.approx(told, rel=0.02)
    assert asked.data("query", query=f'{AVAILABLE}{{node!~".+"}}')["result"] == []


def test_a_worker_that_reboots_has_a_gap_and_another_boot_time(asked: Asked) -> None:
    guest = joined(asked.lab)
    asked.lab.run(600)
    rebooted = asked.lab.engine.now
    guest._on_reboot = lambda: None  # the cluster may see to itself
    guest.power_off()
    asked.lab.run(200)
    assert asked.data("query", query=AVAILABLE)["result"] == [], "stale from the next scrape on"
    (up,) = asked.data("query", query="up")["result"]
    assert up["value"][1] == "0"
    guest.power_on(lambda: None, lambda: None)
    asked.lab.run(400)
    moments = [at for at, _ in asked.samples(f"{AVAILABLE}[1h]")]
    steps = [b - a for a, b in pairwise(moments)]
    assert sorted({round(step) for step in steps})[0] == 30
    assert max(steps) >= 200
    assert not [at for at in moments if rebooted < at < rebooted + 200]
    boots = {value for _, value in asked.samples("node_boot_time_seconds[1h]")}
    assert len(boots) == 2
    (changed,) = asked.data("query", query="changes(node_boot_time_seconds[1h])")["result"]
    assert changed["value"][1] == "1"
    assert "__name__" not in changed["metric"]


def test_page_cache_fills_what_programs_leave_and_takes_none_of_it(asked: Asked) -> None:
    joined(asked.lab, osImage={"factory": {"schematicID": NVIDIA_OPEN}})
    asked.lab.run(4000)
    free = asked.samples("node_memory_MemFree_bytes[4000s]")
    cached = asked.samples("node_memory_Cached_bytes[4000s]")
    total = asked.samples("node_memory_MemTotal_bytes[4000s]")[0][1]
    assert 1 - free[-1][1] / total == pytest.approx(0.96, abs=0.01)
    assert cached[-1][1] > 5 * cached[0][1]
    (least,) = asked.data("query", query=f"min_over_time({AVAILABLE}[4000s])")["result"]
    assert float(least["value"][1]) > 0.75 * total
    assert float(least["value"][1]) == min(v for _, v in asked.samples(f"{AVAILABLE}[4000s]"))


def test_memory_that_is_eaten_comes_near_zero_and_is_whole_after_the_reboot(asked: Asked) -> None:
    lab = asked.lab
    lab.world.on_guest.append(lambda guest, _: guest.run_out_of_memory((900.0,)))
    guest = joined(lab)
    first = guest.boot_id
    lab.run_until(lambda: guest.boot_id != first, 1500)
    lab.run(300)
    samples = asked.samples(f"{AVAILABLE}[30m]")
    assert min(value for _, value in samples) < 64 * 2**20
    assert samples[-1][1] > 12_000_000_000
    kills = [value for _, value in asked.samples("node_vmstat_oom_kill[30m]")]
    assert kills[-1] == 0


def test_restarts_of_containers_are_told_as_the_api_had_them(asked: Asked) -> None:
    guest = joined(asked.lab)
    asked.lab.run(300)
    guest.reboot()
    asked.lab.run(300)
    name = "kube_pod_container_status_restarts_total"
    ours = [
        one
        for one in asked.data("query", query=f"max_over_time({name}[20m])")["result"]
        if one["metric"]["node"] == guest.hostname
    ]
    assert len(ours) > 2
    assert {one["value"][1] for one in ours} >= {"1"}


def test_a_range_query_evaluates_each_step(asked: Asked) -> None:
    joined(asked.lab)
    asked.lab.run(600)
    now = asked.lab.engine.now
    data = asked.data(
        "query_range", query=f"min_over_time({AVAILABLE}[5m])", start=now - 300, end=now, step="60s"
    )
    (one,) = data["result"]
    assert [at for at, _ in one["values"]] == [now - 300 + 60 * index for index in range(6)]
    assert data["resultType"] == "matrix"


def test_series_lists_what_has_samples_in_the_time_asked(asked: Asked) -> None:
    guest = joined(asked.lab)
    asked.lab.run(60)
    now = asked.lab.engine.now
    found = asked.data("series", match=f'{{__name__=~"node_.*",node="{guest.hostname}"}}')
    assert {one["__name__"] for one in found} >= {AVAILABLE, "node_boot_time_seconds"}
    assert asked.data("series", match=AVAILABLE, start=now - 90_000, end=now - 80_000) == []


@pytest.mark.parametrize(
    ("path", "given", "said"),
    [
        ("query", {}, 'invalid parameter "query"'),
        ("query", {"query": 'up{node="x'}, "parse error"),
        ("query", {"query": "up[5x]"}, "bad number or duration syntax"),
        ("query", {"query": "min_over_time(up)"}, "expected type range vector"),
        ("query", {"query": "up", "time": "noon"}, 'cannot parse "noon" to a valid timestamp'),
        ("query_range", {"query": "up", "start": 1, "end": 2}, 'invalid parameter "step"'),
        ("query_range", {"query": "up", "start": 2, "end": 1, "step": 1}, "before start time"),
        ("query_range", {"query": "up", "start": 1, "end": 2, "step": 0}, "zero or negative"),
        ("query_range", {"query": "up[5m]", "start": 1, "end": 2, "step": 1}, "range vector"),
        ("query_range", {"query": "up", "start": 0, "end": 99_999, "step": 1}, "11,000 points"),
        ("series", {}, "no match[] parameter provided"),
    ],
)
def test_what_makes_no_sense_is_bad_data(asked: Asked, path: str, given: Any, said: str) -> None:
    reply = asked.reply(path, **given)
    assert reply.status == 400
    assert reply.document["status"] == "error"
    assert reply.document["errorType"] == "bad_data"
    assert said in reply.document["error"]


def test_what_the_twin_cannot_evaluate_it_says(asked: Asked) -> None:
    reply = asked.reply("query", query="sum by (node) (up)")
    assert reply.status == 422
    assert reply.document["errorType"] == "execution"
    assert asked.reply("labels") is None


def test_two_worlds_of_a_seed_have_the_same_samples() -> None:
    from harness.twin.engine import Engine

    first, second = World(Engine(), seed=7), World(Engine(), seed=7)
    names = [[one.labels for one in world.metrics.series()] for world in (first, second)]
    assert names[0] == names[1]
