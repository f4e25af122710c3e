from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.kernellog import (
    KernelEvent,
    KernelLog,
    Scope,
    What,
    read_console,
    read_dmesg,
)
from harness.facts.reply import Output

CAPTURES = Path(__file__).resolve().parents[2] / "../shared/lab/captures"
KERNELS = Path(__file__).resolve().parent / "kernels"

BANNER = "Linux version 6.1.0-57-cloud-amd64 (debian-kernel@lists.debian.org) (gcc-12) #1 SMP"
SUMMARY = (
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/,task=hil-eat-memory,pid=131,uid=0"
)
KILLED = (
    "Out of memory: Killed process 131 (hil-eat-memory) total-vm:170012kB, anon-rss:101200kB, "
    "file-rss:0kB, shmem-rss:0kB, UID:0 pgtables:240kB oom_score_adj:0"
)
CGROUP_SUMMARY = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,"
    "oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/c,task=java,pid=77,uid=1000"
)
CGROUP_KILLED = "Memory cgroup out of memory: Killed process 77 (java) total-vm:1kB, anon-rss:1kB"
PANIC = "Kernel panic - not syncing: sysrq triggered crash"


def dmesg(text: str, exit_code: int | None = 0) -> KernelLog | Unread:
    output = Output(("dmesg",), exit_code, text, "", "closed" if exit_code is None else "")
    return read_dmesg(output, boot_id="b1", at=9.0, source="guest w1: dmesg")


def log(text: str) -> KernelLog:
    found = dmesg(text)
    assert isinstance(found, KernelLog)
    return found


def console(text: bytes) -> KernelLog:
    return read_console(text, float, at=9.0, source="console n1", heard_from=2.0)


def kinds(found: KernelLog) -> list[What]:
    return [one.what for one in found.events]


@pytest.mark.parametrize(
    ("message", "what"),
    [
        (BANNER, What.BANNER),
        (SUMMARY, What.OOM_KILL),
        (KILLED, What.OOM_KILL),
        (CGROUP_SUMMARY, What.OOM_KILL),
        (CGROUP_KILLED, What.OOM_KILL),
        (
            "Out of memory (oom_kill_allocating_task): Killed process 3 (a) total-vm:1kB",
            What.OOM_KILL,
        ),
        ("Out of memory: Kill process 3 (a) score 900 or sacrifice child", What.OOM_KILL),
        ("Killed process 3 (a) total-vm:1kB, anon-rss:1kB", What.OOM_KILL),
        (PANIC, What.PANIC),
        (
            "Kernel panic - not syncing: Out of memory: compulsory panic_on_oom is enabled",
            What.PANIC,
        ),
        ("sysrq: Resetting", What.SYSRQ_RESET),
        ("SysRq : Resetting", What.SYSRQ_RESET),
        ("sysrq: SysRq : Resetting", What.SYSRQ_RESET),
        ("sysrq: Trigger a crash", What.SYSRQ_CRASH),
        ("reboot: Restarting system", What.RESTART),
        ("reboot: Restarting system with command 'kexec'", What.RESTART),
        ("reboot: Power down", What.POWER_DOWN),
        ("reboot: System halted", What.POWER_DOWN),
        ("[talos] boot sequence: failed", What.GIVEN_UP),
        ("INFO: task kworker/0:1:35 blocked for more than 120 seconds.", What.HUNG_TASK),
        ("watchdog: BUG: soft lockup - CPU#1 stuck for 26s! [drbd:12]", What.LOCKUP),
        ("NMI watchdog: BUG: soft lockup - CPU#1 stuck for 22s!", What.LOCKUP),
        ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", What.LOCKUP),
        ("rcu: INFO: rcu_preempt self-detected stall on CPU", What.LOCKUP),
        ("INFO: rcu_sched detected stalls on CPUs/tasks:", What.LOCKUP),
    ],
)
@pytest.mark.parametrize(
    ("before", "seconds"),
    [
        ("[   12.345678] ", 12.345678),
        ("[   12.345678][    T1] ", 12.345678),
        ("<6>[   12.345678] ", 12.345678),
        ("kern  :info  : [   12.345678] ", 12.345678),
        ("n1 login: [   12.345678] ", 12.345678),
        ("\x1b[32m[   12.345678]\x1b[0m \x1b[1m", 12.345678),
        ("Nov 30 15:20:32 n1 kernel: [   12.345678] ", 12.345678),
        ("6,339,12345678,-;", 12.345678),
        ("[Mon Nov 30 15:20:32 2026] ", None),
        ("kern: notice: [2026-11-30T15:20:32.123456789Z]: ", None),
        ("2026-11-30T15:20:32,123456+00:00 ", None),
        ("Nov  3 15:20:32 n1 kernel: ", None),
        ("", None),
    ],
)
def test_what_a_line_tells_and_when(
    message: str, what: What, before: str, seconds: float | None
) -> None:
    for end in ("\n", "\r\n", "\r\r\n", ""):
        (event,) = log(f"{before}{message}{end}").events
        assert (event.what, event.seconds, event.shown) == (what, seconds, None)
        assert event.said == message[:200]


@pytest.mark.parametrize(
    "line",
    [
        "",
        "Linux version",
        "Linux version of the tool is 3 ",
        "[    1.000000] Command line: root=/dev/vda panic=10",
        "[    1.000000] hil-eat-memory invoked oom-killer: gfp_mask=0x140dca, order=0",
        "[    1.000000] oom_reaper: reaped process 131 (hil-eat-memory), now anon-rss:0kB",
        "[    1.000000] systemd[1]: a.service: A process of this unit has been killed by the OOM",
        "[    1.000000] reboot: machine restart",
        "[    1.000000] sysrq: HELP : loglevel(0-9) reboot(b) crash(c)",
        "[    1.000000] [talos] boot sequence: done",
        "[    1.000000] Out of memory: Killed process",
        "[    1.000000] Out of memory: Killed process 131 (hil",
        "the log said: Kernel panic - not syncing: x",
        "# echo Out of memory: Killed process 1 (x)",
        "[    1.000000] oom-kill:constraint=CONSTRAINT_NONE,task=a,pid=",
        "[    1.000000] watchdog: watchdog0: watchdog did not stop!",
        "[    1.000000] audit: type=1400 Kernel panic - not syncing",
    ],
)
def test_what_tells_nothing(line: str) -> None:
    assert log(f"{line}\n").events == ()


@pytest.mark.parametrize(
    ("lines", "scope", "pid", "comm"),
    [
        ((SUMMARY, KILLED), Scope.MACHINE, 131, "hil-eat-memory"),
        ((SUMMARY,), Scope.MACHINE, 131, "hil-eat-memory"),
        ((KILLED,), Scope.MACHINE, 131, "hil-eat-memory"),
        ((CGROUP_SUMMARY, CGROUP_KILLED), Scope.CGROUP, 77, "java"),
        ((CGROUP_SUMMARY,), Scope.CGROUP, 77, "java"),
        ((CGROUP_KILLED,), Scope.CGROUP, 77, "java"),
        ((SUMMARY.replace("_NONE", "_CPUSET"),), Scope.NODES, 131, "hil-eat-memory"),
        ((SUMMARY.replace("_NONE", "_MEMORY_POLICY"),), Scope.NODES, 131, "hil-eat-memory"),
        ((SUMMARY.replace("_NONE", "_NEW"),), Scope.UNKNOWN, 131, "hil-eat-memory"),
        (("Killed process 5 (a) total-vm:1kB",), Scope.UNKNOWN, 5, "a"),
        (("Killed process 5 (Web Content), UID 0, total-vm:1kB",), Scope.UNKNOWN, 5, "Web Content"),
        (("Killed process 5 (a) by hand",), None, 0, ""),
        (
            (
                "Out of memory: Kill process 5 (a b) score 9 or sacrifice child",
                "Killed process 5 (a b) total-vm:1kB, anon-rss:0kB",
            ),
            Scope.MACHINE,
            5,
            "a b",
        ),
        (
            ("Out of memory: Killed process 5 ((sd-pam)) total-vm:1kB",),
            Scope.MACHINE,
            5,
            "(sd-pam)",
        ),
    ],
)
def test_whose_memory_was_short_and_who_was_killed(
    lines: tuple[str, ...], scope: Scope | None, pid: int, comm: str
) -> None:
    found = log("".join(f"[    8.000001] {line}\n" for line in lines)).events
    told = [(one.scope, one.pid, one.comm) for one in found]
    assert told == ([(scope, pid, comm)] if scope is not None else [])


def test_two_kills_are_two() -> None:
    second = KILLED.replace("131", "132")
    found = log(
        f"[    8.0] x\n[    8.000001] {SUMMARY}\n[    8.000002] {KILLED}\n[    9.000001] {second}\n"
    )
    assert [one.pid for one in found.events] == [131, 132]
    again = log(f"[    8.000001] {KILLED}\n[    9.000001] {KILLED}\n")
    assert len(again.events) == 2, "one line twice is said twice, as by a log that is printed again"


def test_a_kill_that_is_not_the_one_announced_is_another() -> None:
    found = log(f"[    8.000001] {SUMMARY}\n[    8.000002] {PANIC}\n[    8.000003] {KILLED}\n")
    assert kinds(found) == [What.OOM_KILL, What.PANIC, What.OOM_KILL]


def test_a_banner_has_its_release() -> None:
    (event,) = log(f"[    0.000000] {BANNER}\n").events
    assert event.release == "6.1.0-57-cloud-amd64"


@pytest.mark.parametrize(
    ("text", "whole"),
    [
        (f"[    0.000000] {BANNER}\n[    1.000000] x\n", True),
        ("[    0.000000] microcode: updated early\n[    0.000000] Linux version 6.1 x\n", True),
        ("\n[    0.000000] x\n", True),
        (f"[Mon Nov 30 15:20:32 2026] {BANNER}\n", True),
        (f"{BANNER}\nx\n", True),
        ("[    1.200000] x\n[    1.300000] y\n", False),
        ("[ 9000.100000] x\n", False),
        (f"[Mon Nov 30 15:20:32 2026] x\n[Mon Nov 30 15:20:32 2026] {BANNER}\n", False),
        ("some words\n[    0.000000] x\n", False),
        (f"[    0.000000] {BANNER}\n[    1.0000", False),
        ("", False),
        ("\n\n", False),
    ],
)
def test_a_log_is_whole_only_from_the_kernels_first_line_to_an_ended_last(
    text: str, *, whole: bool
) -> None:
    assert log(text).whole is whole


def test_a_console_is_never_whole_and_dates_what_it_shows() -> None:
    text = f"n1 login: \r\n[    0.000000] {BANNER}\r\n[    1.000000] x\r\n".encode()
    found = console(text)
    assert (found.whole, found.boot_id, found.heard_from) == (False, "", 2.0)
    assert found.heard_last == float(text.index(b"[    1.000000"))
    assert console(b"").heard_last is None
    (event,) = found.events
    assert (event.shown, event.seconds) == (float(text.index(b"[ ")), 0.0)
    assert found.origin.raw == text.decode()
    assert found.of(What.BANNER) == (event,)
    assert found.of(What.PANIC, What.OOM_KILL) == ()


def test_a_log_that_could_not_be_read_is_no_empty_log() -> None:
    for code in (None, 1):
        found = dmesg(f"[    0.000000] {BANNER}\n", code)
        assert isinstance(found, Unread)
        assert found.asked == "dmesg"


@pytest.mark.parametrize("width", [40, 80, 100])
def test_lines_that_a_terminal_broke_are_joined(width: int) -> None:
    line = f"[    8.000001] {'a' * 10} "[:15] + KILLED
    pieces = [line[at : at + width] for at in range(0, len(line), width)]
    text = "\r\n".join(["[    7.000000] x" * 6, *pieces, "[    9.000000] y", ""])
    (event,) = log(text).events
    assert (event.pid, event.seconds) == (131, 8.000001)


def test_lines_that_only_stand_next_to_each_other_are_not_joined() -> None:
    cut = "[    8.000001] Out of memory: Killed process 131 (hil"
    assert log(f"{cut}\n[    9.000000] -eat-memory) total-vm:1kB\n").events == ()
    assert log(f"{cut}\nx\ny\nz\n-eat-memory) total-vm:1kB\n").events == ()
    assert kinds(log(f"{cut}\n{PANIC}\n-eat) x\n")) == [What.PANIC]
    assert log("Out of memory: Killed process 131 (hil\n-eat-memory) total-vm:1kB\n").events == ()


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="../shared is not beside this checkout")
def test_a_real_console_over_seven_endings() -> None:
    found = console((CAPTURES / "console_reboots.txt").read_bytes())
    assert kinds(found) == [
        What.BANNER,
        What.RESTART,
        What.BANNER,
        What.RESTART,
        What.BANNER,
        What.SYSRQ_RESET,
        What.BANNER,
        What.SYSRQ_CRASH,
        What.PANIC,
        What.BANNER,
        What.RESTART,
        What.BANNER,
        What.POWER_DOWN,
    ]
    assert {one.release for one in found.of(What.BANNER)} == {"6.1.0-57-cloud-amd64"}


@pytest.mark.skipif(not CAPTURES.is_dir(), reason="../shared is not beside this checkout")
def test_one_real_boot_shows_two_banners_where_its_log_was_printed() -> None:
    found = console((CAPTURES / "console_first_boot_and_login.txt").read_bytes())
    assert kinds(found) == [What.BANNER, What.BANNER]


MESSAGES = st.sampled_from(
    [
        (BANNER, What.BANNER),
        (KILLED, What.OOM_KILL),
        (CGROUP_KILLED, What.OOM_KILL),
        (PANIC, What.PANIC),
        ("sysrq: Resetting", What.SYSRQ_RESET),
        ("reboot: Restarting system", What.RESTART),
        (None, None),
    ]
)
QUIET = st.text(st.characters(min_codepoint=32, max_codepoint=0x2FF), max_size=60).filter(
    lambda text: not log(f"{text}\n").events
)
STAMPS = st.floats(0, 99999, allow_nan=False).map(lambda s: f"[{s:12.6f}] ")


@st.composite
def logs(draw: st.DrawFn) -> tuple[str, list[What]]:
    """A log in which known lines stand among others, and what is to be found in it."""
    lines, expected = [], []
    for message, what in draw(st.lists(MESSAGES, max_size=8)):
        lines.append(f"{draw(STAMPS)}{draw(QUIET) if message is None else message}")
        if what is not None:
            expected.append(what)
    end = draw(st.sampled_from(["\n", "\r\n", "\r\r\n"]))
    return "".join(f"{line}{end}" for line in lines), expected


@given(logs())
def test_known_lines_are_found_among_others(made: tuple[str, list[What]]) -> None:
    text, expected = made
    assert kinds(log(text)) == expected
    assert kinds(console(text.encode())) == expected


@given(logs(), st.data())
def test_a_cut_log_tells_nothing_that_the_whole_does_not(
    made: tuple[str, list[What]], data: st.DataObject
) -> None:
    text, expected = made
    cut = data.draw(st.integers(0, len(text)))
    before, after = kinds(log(text[:cut])), kinds(log(text[cut:]))
    assert before == expected[: len(before)]
    assert len(expected) - len(before) - len(after) <= 1, "only the line that was cut is lost"


@given(st.text(), st.binary())
def test_nothing_is_too_dirty_to_read(text: str, data: bytes) -> None:
    for found in (log(text), console(data), console(text.encode("utf-8", "surrogatepass"))):
        assert all(isinstance(one, KernelEvent) for one in found.events)
        assert found.origin.at == 9.0


# -- real guests: Debian's kernel 6.1 with `quiet loglevel=4`, under QEMU


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("console_inside.txt", [What.RESTART]),
        ("console_reset.txt", []),
        ("console_sysrq.txt", [What.SYSRQ_RESET]),
        ("console_panic.txt", [What.SYSRQ_CRASH, What.PANIC]),
        ("console_nmi.txt", [What.PANIC]),
        ("console_oom_panic.txt", [What.PANIC]),
    ],
)
def test_what_a_quiet_kernel_shows_of_a_reboot(name: str, said: list[What]) -> None:
    """None shows a banner: its absence proves as little as its presence."""
    found = console((KERNELS / name).read_bytes())
    assert kinds(found) == said
    assert b"boot_id" in (KERNELS / name).read_bytes(), "and each did boot anew"


def test_a_real_kill_in_a_log_that_goes_on() -> None:
    found = log((KERNELS / "dmesg_oom.txt").read_text())
    assert kinds(found) == [What.BANNER, What.OOM_KILL]
    (kill,) = found.of(What.OOM_KILL)
    assert (kill.scope, kill.comm, kill.pid) == (Scope.MACHINE, "hil-eat-memory", 202)
    assert kill.seconds == 57.665153
