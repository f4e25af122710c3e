"""Memory or timer: what a worker's memory says beside the end of its boots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.facts.boots import BootSample
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.kernellog import KernelEvent, KernelLog, What
from harness.facts.memory import MemInfo, MemoryWindow, Stretch
from harness.judge.bootcauses import reboots
from harness.judge.memory import LEAST, Memory, beside, ended, meanwhile, of_boot, of_reboot
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


def short(up: float, *stretches: Stretch, end: float) -> tuple[Memory, str]:
    """What is told of a boot that ended at most ``end`` seconds after T."""
    before = sample(up, "b1", up)
    found = reboots((before, sample(end + 10, "b2", 10.0)), ())
    return of_reboot(found[0], [window(*stretches, until=end + 300)])


def test_a_boot_that_ended_before_its_exporter_had_to_be_there_needs_samples_to_its_end() -> None:
    state, said = short(60, stretch(50, 60), end=150)
    assert state is Memory.UNKNOWN
    assert "no sample for 90 s from 60 s of uptime" in said
    assert short(60, stretch(50, 80), end=150)[0] is Memory.PLENTY
    state, said = short(60, stretch(50, 60), end=250)
    assert state is Memory.UNKNOWN
    assert "no sample for 190 s from 60 s of uptime" in said


def test_a_gap_in_a_boots_first_minutes_is_a_gap_once_it_was_sampled() -> None:
    assert short(4000, stretch(30, 60), stretch(150, 4200), end=4210)[0] is Memory.UNKNOWN
    assert short(4000, stretch(179, 4200), end=4210)[0] is Memory.PLENTY


def test_kills_that_no_sample_shows_leave_it_open() -> None:
    state, said = told(window(stretch(40, 4190, kills=1)))
    assert state is Memory.UNKNOWN
    assert said == (
        "MemAvailable was at least 12800 of 16384 MiB in each sample, and its kernel counted 1 "
        "kill for want of memory, a container's or the machine's"
    )
    assert told(window(stretch(40, 4190, kills=0)))[0] is Memory.PLENTY


LOW = 10 * 2**20


@pytest.mark.parametrize(
    ("stretches", "ended_it"),
    [
        ([stretch(40, 4190, LOW)], True),
        ([stretch(40, 4190, LOW, minimum_at=T + 1000, last=GIB)], False),
        ([stretch(40, 4190, LOW, minimum_at=T + 1000)], True),
        ([stretch(40, 4190, LOW, minimum_at=T + 4010, last=GIB)], True),
        ([stretch(40, 4190, LOW, minimum_at=T + 4009, last=GIB)], False),
        ([stretch(40, 4030, LOW)], True),
        ([stretch(40, 4029, LOW)], False),
        ([stretch(40, 4190)], False),
        ([stretch(40, 4000, LOW), stretch(4100, 4190)], False),
        ([stretch(4300, 4490, LOW)], False),
        ([], False),
    ],
)
def test_memory_ended_a_boot_only_where_it_was_out_as_that_ended(
    stretches: list[Stretch], *, ended_it: bool
) -> None:
    found = reboots((BEFORE, AFTER), ())
    assert ended(found[0], [window(*stretches)]) is ended_it
    assert ended(found[0], [Unread(Origin(T, "", ""), "x", "y")]) is False


@pytest.mark.parametrize(
    ("began", "over", "state"),
    [
        (-10, 4220, Memory.OUT),
        (-11, 4220, Memory.UNKNOWN),
        (-10, 4221, Memory.UNKNOWN),
    ],
)
def test_a_boots_ends_are_known_to_ten_seconds(began: float, over: float, state: Memory) -> None:
    assert told(window(stretch(began, over, LOW), since=-100))[0] is state


@pytest.mark.parametrize(("since", "state"), [(180, Memory.PLENTY), (181, Memory.UNKNOWN)])
def test_what_was_asked_about_begins_while_it_boots(since: float, state: Memory) -> None:
    assert told(window(stretch(190, 4190), since=since))[0] is state


def test_nothing_that_was_asked_is_said_too() -> None:
    assert told() == (Memory.UNKNOWN, "nobody looked")


def test_what_the_boot_before_had_is_not_this_ones() -> None:
    seen = window(stretch(-4000, -60, LOW), stretch(40, 4190), since=-4100)
    assert told(seen)[0] is Memory.PLENTY
    assert ended(reboots((BEFORE, AFTER), ())[0], [seen]) is False


def test_a_boots_end_is_where_its_kernel_said_so() -> None:
    """Going down and firmware are counted in otherwise, in which nobody scrapes."""
    event = KernelEvent(What.RESTART, "reboot: Restarting system", 4000.0)
    log = KernelLog(Origin(T, "dmesg", ""), "b1", True, (event,))
    (found,) = reboots((BEFORE, AFTER), [log])
    assert of_reboot(found, [window(stretch(40, 3990))])[0] is Memory.PLENTY
    assert ended(found, [window(stretch(40, 3990, LOW))]) is True
    (unsaid,) = reboots((BEFORE, AFTER), ())
    assert of_reboot(unsaid, [window(stretch(40, 3990))])[0] is Memory.UNKNOWN
    assert ended(unsaid, [window(stretch(40, 3990, LOW))]) is False


@pytest.mark.parametrize(("minimum", "state"), [(LEAST, Memory.PLENTY), (LEAST - 1, Memory.OUT)])
def test_near_zero_is_less_than_the_least(minimum: int, state: Memory) -> None:
    small = replace(window(stretch(40, 4190, minimum)), total=GIB)
    assert told(small)[0] is state


@pytest.mark.parametrize(
    ("total", "more"),
    [
        (None, {"free": GIB, "cached": GIB}),
        (16 * GIB, {"cached": GIB}),
        (16 * GIB, {"free": GIB}),
    ],
)
def test_what_was_not_told_of_a_node_is_left_out(total: int | None, more: dict[str, int]) -> None:
    state, said = told(replace(window(stretch(40, 4190, **more)), total=total))
    assert state is Memory.PLENTY
    of = " of 16384 MiB" if total else " MiB"
    assert said == f"MemAvailable was at least 12800{of} in 139 samples without a gap"


def test_no_kills_are_counted_where_none_was() -> None:
    for kills in (None, 0):
        said = told(window(stretch(40, 4190, LOW, kills=kills)))[1]
        assert said == "MemAvailable was 10 of 16384 MiB 20 s before the end"


def test_a_kernels_word_beside_what_could_not_be_asked_establishes_nothing() -> None:
    now = MemInfo(Origin(T, "guest w1", ""), "w1", 16 * GIB, GIB, 12 * GIB, 11 * GIB)
    both = [Unread(Origin(T, "Prometheus", ""), "MemAvailable", "503"), now]
    said = meanwhile(sample(5600, "b1", 5600.0), both)
    assert said.startswith("whether memory was ever near zero in it is not established: 503; ")
    assert beside(reboots((BEFORE, AFTER), ()), both).startswith("memory is not established: 503")


def test_memory_that_was_out_long_before_is_told_and_is_no_cause() -> None:
    early = (sample(3000, "b1", 3000.0), sample(3400, "b2", 190.0))
    low = window(stretch(40, 3190, LOW, minimum_at=T + 600, last=12 * GIB), until=3500)
    verdict = uptime(early, 5580.0, "node w1", memory=[low])
    assert "memory pressure" not in verdict.because
    assert "memory was out: MemAvailable was 10 of 16384 MiB 2610 s before" in verdict.because


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
