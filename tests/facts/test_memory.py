from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts import memory
from harness.facts.fact import Unread
from harness.facts.memory import AVAILABLE, MemInfo, MemoryWindow, read_meminfo, read_window
from harness.facts.reply import Output

GIB = 2**30
T = 1_767_225_600.0
Points = list[tuple[float, float]]


def matrix(*series: Points) -> str:
    result = [
        {
            "metric": {"n": str(index)},
            "values": [[at, f"{value:.0f}"] for at, value in one],
        }
        for index, one in enumerate(series)
    ]
    return json.dumps({"data": {"resultType": "matrix", "result": result}})


def vector(*values: float) -> str:
    result = [{"metric": {}, "value": [T, f"{value:.0f}"]} for value in values]
    return json.dumps({"data": {"resultType": "vector", "result": result}})


def scraped(begin: float, count: int, value: float = 12 * GIB, every: float = 30.0) -> Points:
    return [(T + begin + every * index, value) for index in range(count)]


def window(*available: Points, least: str = vector(), **more: Points) -> Any:
    answers = {AVAILABLE: matrix(*available)}
    answers |= {getattr(memory, name): matrix(points) for name, points in more.items()}
    return read_window("w1", answers, least, since=T, until=T + 3600, at=T + 3601, source="P")


def test_one_stretch_has_its_minimum_and_its_last() -> None:
    points = [*scraped(0, 10), (T + 300, 3.0 * GIB), *scraped(330, 5, 9 * GIB)]
    seen = window(points, TOTAL=scraped(0, 1, 16 * GIB), CACHED=scraped(450, 1, 2 * GIB))
    assert isinstance(seen, MemoryWindow)
    (one,) = seen.stretches
    assert (one.samples, one.minimum, one.minimum_at, one.last) == (
        16,
        3 * GIB,
        T + 300,
        9 * GIB,
    )
    assert (seen.total, seen.every, seen.samples, seen.minimum) == (16 * GIB, 30.0, 16, 3 * GIB)
    assert (one.cached, one.free) == (2 * GIB, None)


def test_a_gap_is_a_gap_and_one_missed_scrape_is_none() -> None:
    seen = window([*scraped(0, 10), *scraped(330, 10), *scraped(900, 20)])
    assert [one.samples for one in seen.stretches] == [20, 20]
    assert seen.gaps(T, T + 1470) == ((T + 600, T + 900),)
    assert seen.gaps(T, T + 3600) == ((T + 600, T + 900), (T + 1470, T + 3600))
    assert seen.gaps(T + 2000, T + 2060) == ()
    assert seen.gaps(T + 2000, T + 3000) == ((T + 2000, T + 3000),)


def test_another_boot_ends_a_stretch_without_a_gap() -> None:
    booted = [*scraped(0, 10, T - 40), *scraped(300, 10, T + 290)]
    seen = window(scraped(0, 20), BOOTED=booted)
    assert [one.samples for one in seen.stretches] == [10, 10]
    assert seen.gaps(T, T + 570) == ()


@pytest.mark.parametrize("value", ["+Inf", "-Inf", "NaN"])
def test_a_size_that_is_none_is_a_sample_that_is_missing(value: str) -> None:
    points = [[at, f"{size:.0f}"] for at, size in scraped(0, 3)]
    result = [{"metric": {}, "values": [*points, [T + 90, value]]}]
    text = json.dumps({"data": {"resultType": "matrix", "result": result}})
    answers = {AVAILABLE: text, memory.TOTAL: text}
    seen = read_window("w1", answers, vector(), since=T, until=T + 3600, at=T, source="P")
    assert isinstance(seen, MemoryWindow)
    assert (seen.samples, seen.minimum, seen.total) == (3, 12 * GIB, 12 * GIB)


def test_an_exporter_that_moved_is_still_the_same_node() -> None:
    assert window(scraped(300, 10), scraped(0, 10)).samples == 20


def test_two_series_at_once_are_not_one_node() -> None:
    seen = window(scraped(0, 10), scraped(100, 10))
    assert isinstance(seen, Unread)
    assert "prometheus.labels" in seen.reason


def test_no_sample_is_no_plenty() -> None:
    for seen in (window(), window([]), window([(T, float("nan"))])):
        assert isinstance(seen, Unread)
        assert "no sample" in seen.reason


def test_promql_and_samples_have_to_say_the_same() -> None:
    assert isinstance(window(scraped(0, 3), least=vector(12 * GIB)), MemoryWindow)
    seen = window(scraped(0, 3), least=vector(40_000))
    assert isinstance(seen, Unread)
    assert "min_over_time says 40000" in seen.reason


@given(text=st.text(max_size=80))
def test_whatever_comes_is_never_an_exception(text: str) -> None:
    for answers, least in (({AVAILABLE: text}, vector()), ({AVAILABLE: matrix()}, text)):
        seen = read_window("w1", answers, least, since=T, until=T, at=T, source="P")
        assert isinstance(seen, Unread)


MEMINFO = (
    "MemTotal:       16384000 kB\nMemFree:          655360 kB\nMemAvailable:   13107200 kB\n"
    "Buffers:            4096 kB\nCached:         12447744 kB\n"
)


def output(text: str, code: int = 0, stderr: str = "") -> Output:
    return Output(("cat", memory.MEMINFO), code, text, stderr)


def test_meminfo_is_in_bytes() -> None:
    seen = read_meminfo("w1", output(MEMINFO), at=T, source="guest w1")
    assert isinstance(seen, MemInfo)
    sizes = (seen.total, seen.free, seen.available, seen.cached)
    assert sizes == tuple(kib * 1024 for kib in (16384000, 655360, 13107200, 12447744))


@pytest.mark.parametrize(
    "said",
    [
        output(""),
        output(MEMINFO[:40]),
        output(MEMINFO.replace("MemAvailable", "MemAvail")),
        output("", 1, "cat: can't open '/proc/meminfo': Permission denied"),
    ],
)
def test_half_of_it_is_nothing_known(said: Output) -> None:
    seen = read_meminfo("w1", said, at=T, source="guest w1")
    assert isinstance(seen, Unread)
    assert seen.asked == memory.MEMINFO
