"""What is said of why a boot ended, through the verdict that says it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Origin, Unread
from harness.facts.kernellog import KernelEvent, KernelLog, Scope, What
from harness.judge import bootcauses
from harness.judge.uptime import uptime

SOAK = 600.0
LIMIT = 300.0
T = 10_000.0
"""When the first boot began, in these stories."""


def sample(at: float, boot: str, up: float, **more: Any) -> BootSample:
    given: dict[str, Any] = {"vmi_uid": "v", "node_uid": "n", "node_ready": True, **more}
    return BootSample(Origin(at, "guest w1", ""), "w1", boot, up, **given)


FIRST = (sample(T + 50, "b1", 50.0), sample(T + 110, "b2", 10.0))
"""Boot b1 ended at an uptime of at most 100 s."""
AGAIN = (*FIRST, sample(T + 208, "b3", 6.0))
"""And b2 at 102 s."""


def event(what: What, up: float | None, said: str = "", **more: Any) -> KernelEvent:
    return KernelEvent(what, said or what.value, up, **more)


def oom(up: float, scope: Scope = Scope.MACHINE, **more: Any) -> KernelEvent:
    return event(What.OOM_KILL, up, scope=scope, pid=131, comm="hil-eat-memory", **more)


def dmesg(*events: KernelEvent, boot: str = "b1") -> KernelLog:
    return KernelLog(Origin(T, "guest w1: dmesg", ""), boot, whole=True, events=events)


def console(
    *events: KernelEvent, heard_from: float = T + 40, heard_last: float | None = T + 100
) -> KernelLog:
    origin = Origin(T, "console", "")
    return KernelLog(origin, "", False, events, heard_from, heard_last)


def shown(what: What, at: float, said: str = "", up: float | None = None, **more: Any) -> Any:
    return event(what, up, said, shown=at, **more)


BANNER = shown(What.BANNER, T + 100, up=0.0)
FOR_MEMORY = "Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled"
LOCKED = "Kernel panic - not syncing: System is deadlocked on memory"
UNKNOWN = "nothing that was looked at tells by what"
PANICKED = "its kernel panicked for it"
BY_SYSRQ = "by hand, its kernel was told to reset by sysrq"
ORDERLY = "by hand or by a service of its own, its system went down in good order"
SILENT = "without a word on its console, as after a reset from outside or a loss of power"
ENDS = {What.PANIC, What.SYSRQ_CRASH, What.SYSRQ_RESET, What.RESTART, What.POWER_DOWN}
WANT = " for want of memory"
EATER = f"hil-eat-memory (process 131){WANT}"
PRESSURE = f"memory pressure, the kernel killed {EATER} just before"
CONTAINED = f"hil-eat-memory (process 131, at a container's limit){WANT}"
BESIDE = "; in that boot the kernel had killed"


def because(samples: Any, *logs: Any, limit: float = LIMIT, soak: float = SOAK) -> str:
    verdict = uptime(samples, soak, "node w1", limit=limit, logs=logs)
    assert verdict.outcome == "broken"
    assert verdict.facts == (*samples, *logs)
    return verdict.because


def test_without_anything_to_tell_it_is_not_known_by_what() -> None:
    assert because(FIRST).endswith(f"the guest rebooted: {UNKNOWN}")
    assert because(FIRST, Unread(Origin(T, "", ""), "dmesg", "x")).endswith(UNKNOWN)


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([event(What.PANIC, 99.0, FOR_MEMORY)], f"memory pressure, {PANICKED} ({FOR_MEMORY!r})"),
        ([event(What.PANIC, 99.0, LOCKED)], f"memory pressure, {PANICKED} ({LOCKED!r})"),
        (
            [oom(98.0), event(What.PANIC, 99.0, FOR_MEMORY)],
            f"memory pressure, {PANICKED} ({FOR_MEMORY!r}){BESIDE} {EATER}",
        ),
        ([event(What.PANIC, 99.0, "a panic")], "its kernel panicked ('a panic')"),
        (
            [event(What.SYSRQ_CRASH, 98.0), event(What.PANIC, 99.0)],
            "by hand, its kernel was told to crash by sysrq",
        ),
        ([event(What.SYSRQ_RESET, 99.0)], BY_SYSRQ),
        ([event(What.RESTART, 99.0)], ORDERLY),
        ([event(What.POWER_DOWN, 99.0)], ORDERLY),
        (
            [event(What.GIVEN_UP, 90.0), event(What.RESTART, 99.0)],
            "a timer, Talos gave up a boot that did not end",
        ),
        ([oom(98.0)], PRESSURE),
        ([oom(40.0)], PRESSURE),
        ([oom(98.0, Scope.NODES)], PRESSURE),
        ([oom(98.0, Scope.UNKNOWN)], PRESSURE),
        ([oom(39.0)], f"{UNKNOWN}{BESIDE} {EATER}"),
        ([oom(39.0), oom(41.0)], PRESSURE),
        ([oom(98.0, Scope.CGROUP)], f"{UNKNOWN}{BESIDE} {CONTAINED}"),
        (
            [oom(20.0, Scope.CGROUP), oom(39.0)],
            f"{UNKNOWN}{BESIDE} {CONTAINED.removesuffix(WANT)}, {EATER}",
        ),
        ([oom(98.0), event(What.RESTART, 99.0)], f"{ORDERLY}{BESIDE} {EATER}"),
        ([oom(98.0), event(What.SYSRQ_RESET, 99.0)], f"{BY_SYSRQ}{BESIDE} {EATER}"),
        ([event(What.HUNG_TASK, 99.0), event(What.LOCKUP, 99.0)], UNKNOWN),
    ],
)
def test_what_the_kernel_said_of_the_boot_that_ended(events: list[KernelEvent], said: str) -> None:
    same = "VMI and Node are the same: the guest rebooted"
    ends = [one.seconds for one in events if one.what in ENDS]
    when = f"{ends[-1]:.0f} s" if ends else "at most 100 s"
    told = because(FIRST, dmesg(*events))
    assert told == f"boot b1 became b2 at an uptime of {when}; {same}: {said}"
    other_boot = because(FIRST, dmesg(*events, boot="b2"))
    assert other_boot.endswith(UNKNOWN), "what the next kernel said is no reason"


def test_what_has_no_time_is_no_reason() -> None:
    """A kernel without stamps: in which part of the boot it was said is not known."""
    assert because(FIRST, dmesg(event(What.SYSRQ_RESET, None))).endswith(UNKNOWN)


def test_memory_just_before_is_named_once() -> None:
    assert because(FIRST, dmesg(oom(98.0))).count("hil-eat-memory") == 1


@pytest.mark.parametrize("limit", [100.0, 105.0, 95.0, 90.0])
def test_a_boot_that_ended_at_the_limit_is_a_timers(limit: float) -> None:
    said = f"a timer, {limit:.0f} s is where a boot that does not end is given up"
    assert said in because(FIRST, limit=limit)


@pytest.mark.parametrize(
    ("said_at", "limit", "timer"),
    [(75.0, 70.0, True), (75.0, 80.0, True), (75.0, 81.0, False), (75.0, 100.0, False)],
)
def test_where_the_kernel_said_when_it_ends_that_counts(
    said_at: float, limit: float, *, timer: bool
) -> None:
    """Going down and coming up again took 25 s, which are none of the boot's."""
    told = because(FIRST, dmesg(event(What.RESTART, said_at)), limit=limit)
    assert ("a timer" in told) is timer
    assert "at an uptime of 75 s" in told


@pytest.mark.parametrize("limit", [106.0, 89.0, 4200.0])
def test_a_boot_that_ended_beside_the_limit_is_not(limit: float) -> None:
    assert because(FIRST, limit=limit).endswith(UNKNOWN)


def test_boots_that_end_at_one_uptime_are_a_timers() -> None:
    said = "a timer, it rebooted at the same uptime each time (at most 100 s and at most 102 s)"
    assert said in because(AGAIN)
    assert "; in that boot the kernel had killed" in because(AGAIN, dmesg(oom(98.0)))
    half = because(AGAIN, dmesg(event(What.RESTART, 75.0)))
    assert "a timer, it rebooted at the same uptime each time (75 s and at most 102 s)" in half
    half = because(AGAIN, dmesg(event(What.RESTART, 75.0), boot="b2"))
    assert "a timer, it rebooted at the same uptime each time (at most 100 s and 75 s)" in half


@pytest.mark.parametrize(("second", "alike"), [(80.0, True), (70.0, True), (81.0, False)])
def test_what_both_kernels_said_counts_before_when_they_were_seen_to_have_ended(
    second: float, *, alike: bool
) -> None:
    logs = dmesg(event(What.RESTART, 75.0)), dmesg(event(What.RESTART, second), boot="b2")
    told = because(AGAIN, *logs)
    assert (f"each time (75 s and {second:.0f} s)" in told) is alike
    assert told.endswith(ORDERLY) is not alike


@pytest.mark.parametrize(("at", "up", "alike"), [
    (T + 211, 6.0, True),
    (T + 212, 6.0, False),  # ended at 106 s
    (T + 201, 6.0, True),
    (T + 200, 6.0, False),
])  # fmt: skip
def test_by_uptime_within_seconds(at: float, up: float, *, alike: bool) -> None:
    told = because((*FIRST, sample(at, "b3", up)))
    assert ("a timer" in told) is alike
    assert told.endswith(UNKNOWN) is not alike


def test_boots_at_even_times_of_the_wall_clock_are_no_timers() -> None:
    """Every 200 s by the wall: the first was up for 100 s then, the second for 200."""
    assert because((*FIRST, sample(T + 310, "b3", 10.0))).endswith(UNKNOWN)


def test_a_long_boots_end_may_vary_by_a_minute() -> None:
    samples = (
        sample(T + 50, "b1", 50.0),
        sample(T + 3010, "b2", 10.0),
        sample(T + 6045, "b3", 5.0),
    )
    assert "each time (at most 3000 s and at most 3040 s)" in because(samples)


def test_a_crash_loop_is_no_timer() -> None:
    told = because(AGAIN, dmesg(event(What.PANIC, 99.0, FOR_MEMORY)))
    assert "memory pressure, its kernel panicked" in told
    assert "a timer" not in told


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ([BANNER], SILENT),
        ([shown(What.RESTART, T + 99), BANNER], ORDERLY),
        ([shown(What.SYSRQ_RESET, T + 99, up=99.0), BANNER], BY_SYSRQ),
        ([shown(What.OOM_KILL, T + 97, comm="x"), BANNER], "memory pressure, the kernel killed x"),
        ([shown(What.OOM_KILL, T + 40, comm="x"), BANNER], "memory pressure, the kernel killed x"),
        ([shown(What.OOM_KILL, T + 39, comm="x"), BANNER], f"{SILENT}{BESIDE} x"),
        # said by the kernel before that, or by the one after: of another boot
        ([shown(What.SYSRQ_RESET, T - 1, up=99.0), BANNER], SILENT),
        ([shown(What.SYSRQ_RESET, T, up=99.0), BANNER], BY_SYSRQ),
        ([BANNER, shown(What.SYSRQ_RESET, T + 103.5)], SILENT),
        ([shown(What.SYSRQ_RESET, T + 103), BANNER], BY_SYSRQ),
        # an old kill in a log that is printed again has its own time
        ([shown(What.OOM_KILL, T + 97, up=20.0, comm="x"), BANNER], f"{SILENT}{BESIDE} x"),
        ([], SILENT),
    ],
)
def test_what_a_console_showed(events: list[KernelEvent], said: str) -> None:
    assert said in because(FIRST, console(*events))


@pytest.mark.parametrize(
    ("heard_from", "heard_last", "listened"),
    [
        (T + 50, T + 100, True),
        (T + 51, T + 100, False),  # attached after the boot was last seen
        (T + 50, T + 99, False),  # nothing came of the next boot: it may have been cut off
        (T + 50, None, False),
    ],
)
def test_silence_tells_something_only_on_a_console_that_carried(
    heard_from: float, heard_last: float | None, *, listened: bool
) -> None:
    told = because(FIRST, console(heard_from=heard_from, heard_last=heard_last))
    assert told.endswith(SILENT if listened else UNKNOWN)


def test_a_machine_of_no_cluster_has_no_vmi_to_be_the_same() -> None:
    bare = tuple(sample(o.origin.at, o.boot_id, o.uptime, vmi_uid="", node_uid="") for o in FIRST)
    told = because(bare)
    assert "VMI" not in told
    assert told.endswith(f"at most 100 s; the guest rebooted: {UNKNOWN}")


@pytest.mark.parametrize("side", [0, 1])
def test_a_vmi_that_is_not_known_on_one_side_is_not_said_to_be_the_same(side: int) -> None:
    samples = [*FIRST]
    samples[side] = dataclasses.replace(samples[side], vmi_uid="")
    assert "VMI" not in because(tuple(samples))


def test_looks_before_the_reboot_change_nothing() -> None:
    told = because((sample(T + 20, "b1", 20.0), *FIRST, sample(T + 130, "b2", 30.0)))
    assert told == because(FIRST)


def test_a_replaced_worker_is_no_reboot() -> None:
    other = (FIRST[0], sample(T + 110, "b2", 10.0, vmi_uid="w"))
    assert because(other, dmesg(oom(98.0)), limit=100.0).endswith(
        "the worker was replaced (VMI of another UID)"
    )


def test_a_worker_that_is_no_more_was_replaced() -> None:
    gone = WorkerGone(Origin(T, "cluster", ""), "w1", ("Machine", "Node"))
    said = "the worker was replaced: of w1 there is no Machine, Node any more"
    assert because((gone,)) == said
    assert because((FIRST[0], gone)) == said
    assert because((sample(T + 900, "b1", 900.0), gone)) == said
    assert "the guest rebooted" in because((*FIRST, gone)), "what came first is told"


@pytest.mark.parametrize(
    ("log", "said"),
    [
        (dmesg(oom(20.0)), f"; in it the kernel killed {EATER}, which is no reboot"),
        (dmesg(oom(20.0), oom(30.0)), f" killed {EATER}, which is no reboot"),
        (console(shown(What.OOM_KILL, T + 60, comm="x")), "for want of memory, which is no reboot"),
        (dmesg(oom(20.0), boot="b0"), "600 s of soak"),
        (dmesg(), "600 s of soak"),
        (dmesg(event(What.HUNG_TASK, 20.0)), "600 s of soak"),
    ],
)
def test_a_kill_without_a_reboot_is_no_reboot(log: KernelLog, said: str) -> None:
    samples = (sample(T + 50, "b1", 50.0), sample(T + 700, "b1", 700.0))
    verdict = uptime(samples, SOAK, "node w1", limit=LIMIT, logs=[log])
    assert verdict.outcome == "holds"
    assert verdict.because.endswith(said)


def test_the_limit_is_the_labs() -> None:
    samples = (sample(T + 50, "b1", 50.0), sample(T + 66, "b1", 66.0))
    assert uptime(samples, 0.0, "w", limit=60.0).outcome == "holds"
    assert uptime(samples, 0.0, "w", limit=61.0).outcome == "unknown"
    assert uptime(samples, 0.0, "w").outcome == "unknown"


# -- memory that was measured, where the kernel told nobody


@pytest.mark.parametrize(
    ("events", "limit", "said"),
    [
        ([], LIMIT, "the guest rebooted: memory pressure, as was measured"),
        ([event(What.HUNG_TASK, 99.0)], LIMIT, "memory pressure, as was measured"),
        ([event(What.RESTART, 99.0)], LIMIT, ORDERLY),
        ([event(What.POWER_DOWN, 99.0)], LIMIT, ORDERLY),
        ([event(What.SYSRQ_RESET, 99.0)], LIMIT, BY_SYSRQ),
        ([oom(98.0)], LIMIT, PRESSURE),
        ([], 100.0, "a timer, 100 s is where a boot that does not end is given up"),
    ],
)
def test_memory_that_was_out_decides_where_nothing_else_does(
    events: list[KernelEvent], limit: float, said: str
) -> None:
    found = bootcauses.reboots(FIRST, [dmesg(*events)])
    assert bootcauses.cause(found, limit, memory_out=True).endswith(said)
    alone = bootcauses.cause(found, limit)
    assert ("as was measured" in alone) is False
    assert bootcauses.cause(found, limit, memory_out=False) == alone


def test_what_was_read_from_a_console_without_a_time_is_of_no_boot() -> None:
    assert because(FIRST, console(event(What.SYSRQ_RESET, 99.0), BANNER)).endswith(SILENT)


@pytest.mark.parametrize(
    ("samples", "limit", "end"),
    [
        (FIRST, 100.0, ": a timer, 100 s is where a boot that does not end is given up"),
        (
            AGAIN,
            LIMIT,
            ": a timer, it rebooted at the same uptime each time (at most 100 s and at most 102 s)",
        ),
    ],
)
def test_a_timer_is_said_word_for_word(samples: Any, limit: float, end: str) -> None:
    assert because(samples, limit=limit).endswith(end)


def test_a_console_whose_words_were_dropped_says_nothing_of_silence() -> None:
    """More came than is kept: the kernel's last words may have been in what did not stay."""
    heard, flooded = console(BANNER), console(BANNER, heard_from=T + 50.1)
    assert because(FIRST, heard).endswith(SILENT)
    assert not because(FIRST, flooded).endswith(SILENT)
