"""Memory or timer: what a worker's memory says beside the end of its boots."""

from __future__ import annotations

from typing import Any

import pytest

from harness.facts.boots import BootSample
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.memory import MemInfo, MemoryWindow, Stretch
from harness.judge.bootcauses import reboots
from harness.judge.memory import Memory, beside, meanwhile, of_boot, of_reboot
from harness.judge.uptime import uptime
from harness.judge.verdict import Outcome

T = 1_767_225_600.0
GIB = 2**30
LIMIT = 4206.0


def sample(at: float, boot: str, up: float) -> BootSample:
    return BootSample(Origin(T + at, "guest w1", ""), "w1", boot, up, "v", "n", True)


BEFORE, AFTER = sample(4000, "b1", 4000.0), sample(4400, "b2", 190.0)
"""Boot b1 began at T and ended at an uptime of at most 4210 s."""


def stretch(began: float, ended: float, minimum: float = 12.5 * GIB, **more: Any) -> Stretch:
    given: dict[str, Any] = {
        "samples": int((ended - began) / 30) + 1,
        "minimum": int(minimum),
        "minimum_at": T + ended,
        "last": int(minimum),
        **more,
    }
    return Stretch(T + began, T + ended, **given)


def window(*stretches: Stretch, since: float = 0.0, until: float = 4500.0) -> MemoryWindow:
    origin = Origin(T + until, "Prometheus", "")
    return MemoryWindow(origin, "w1", T + since, T + until, 30.0, 16 * GIB, stretches)


def told(*seen: Fact) -> tuple[Memory, str]:
    return of_reboot(reboots((BEFORE, AFTER), ())[0], seen)


def test_a_node_full_of_page_cache_is_not_out_of_memory() -> None:
    full = stretch(40, 4190, free=int(0.64 * GIB), cached=int(11.9 * GIB))
    state, said = told(window(full, stretch(4250, 4490)))
    assert state is Memory.PLENTY
    assert said == (
        "MemAvailable was at least 12800 of 16384 MiB in 139 samples without a gap; 96% in use at "
        "its last, 74% of it all page cache"
    )


@pytest.mark.parametrize("minimum", [60 * 2**20, 99 * 2**20, 150 * 2**20])
def test_memory_near_zero_is_out(minimum: int) -> None:
    state, said = told(window(stretch(40, 4190, minimum, kills=2)))
    assert state is Memory.OUT
    assert said == (
        f"MemAvailable was {minimum // 2**20} of 16384 MiB 20 s before the end, kills counted: 2"
    )


def test_what_the_next_boot_has_is_not_the_last_ones() -> None:
    state, _ = told(window(stretch(40, 4190), stretch(4250, 4490, 10 * 2**20)))
    assert state is Memory.PLENTY
    state, _ = told(window(stretch(4250, 4490)))
    assert state is Memory.UNKNOWN


@pytest.mark.parametrize(
    ("seen", "said"),
    [
        (window(stretch(40, 1000), stretch(1400, 4190)), "no sample for 400 s from 1000 s"),
        (window(stretch(40, 3600)), "no sample for 610 s from 3600 s"),
        (window(stretch(700, 4190)), "no sample for 520 s from 180 s"),
        (window(stretch(2000, 4190), since=1990), "the 1990 s before it was asked about"),
        (window(), "no sample of that boot"),
    ],
)
def test_with_samples_missing_never_near_zero_is_not_known(seen: MemoryWindow, said: str) -> None:
    state, words = told(seen)
    assert state is Memory.UNKNOWN
    assert said in words


def test_near_zero_is_near_zero_with_samples_missing_too() -> None:
    state, _ = told(window(stretch(40, 1000, 10 * 2**20), stretch(1400, 4190)))
    assert state is Memory.OUT


def test_nobody_asked_is_said_and_is_no_absence() -> None:
    not_asked = Unread(Origin(T, "the inventory", ""), "MemAvailable", "not asked: none named")
    state, said = told(not_asked)
    assert (state, said) == (Memory.UNKNOWN, "not asked: none named")
    now = MemInfo(Origin(T, "guest w1", ""), "w1", 16 * GIB, GIB, 12 * GIB, 11 * GIB)
    assert told(not_asked, now)[1] == "not asked: none named; 12288 MiB of 16384 are available now"


def test_the_words_beside_a_cause() -> None:
    found = reboots((BEFORE, AFTER), ())
    assert beside(found, ()) == ""
    assert beside((), [window(stretch(40, 4190))]) == ""
    assert beside(found, [window(stretch(40, 4190))]).startswith("not for want of memory: ")
    out = beside(found, [window(stretch(40, 4190, 10 * 2**20))])
    assert out.startswith("memory was out: ")
    assert beside(found, [window()]) == "memory is not established: no sample of that boot"


def test_a_boot_that_goes_on() -> None:
    last = sample(5600, "b1", 5600.0)
    plenty = window(stretch(40, 5590), until=5601)
    assert of_boot(last, [plenty])[0] is Memory.PLENTY
    assert meanwhile(last, [plenty]).startswith("memory was never near zero in it: ")
    gaps = window(stretch(40, 5000), until=5601)
    assert meanwhile(last, [gaps]).startswith("whether memory was ever near zero in it is not ")
    assert meanwhile(last, ()) == ""


def test_a_machine_that_nothing_scrapes_is_told_by_its_kernel_alone() -> None:
    now = MemInfo(Origin(T, "guest w1", ""), "w1", 192 * 2**20, 2**20, 140 * 2**20, 2**20)
    said = "140 MiB of 192 are available now"
    assert meanwhile(sample(5600, "b1", 5600.0), [now]) == said
    assert beside(reboots((BEFORE, AFTER), ()), [now]) == said


def test_uptime_names_it_and_decides_nothing_by_it() -> None:
    timer, out = window(stretch(40, 4190)), window(stretch(40, 4190, 10 * 2**20))
    for seen, said in ((timer, "not for want of memory"), (out, "memory was out")):
        verdict = uptime((BEFORE, AFTER), 5580.0, "node w1", memory=[seen])
        assert verdict.outcome is Outcome.BROKEN
        assert said in verdict.because
        assert seen in verdict.facts
    early = (sample(1000, "b1", 1000.0), sample(1400, "b2", 190.0))
    short = window(stretch(40, 1190, 10 * 2**20), until=1500)
    verdict = uptime(early, 5580.0, "node w1", memory=[short])
    assert "rebooted: memory pressure, as was measured; memory was out: " in verdict.because
    old = (sample(5600, "b1", 5600.0),)
    plenty = window(stretch(40, 5590), until=5601)
    for seen, said in ((plenty, "never near zero in it: "), (out, "in it memory was out, which")):
        verdict = uptime(old, 5580.0, "node w1", memory=[seen])
        assert verdict.outcome is Outcome.HOLDS
        assert said in verdict.because
