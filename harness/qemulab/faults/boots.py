"""Faults of a guest's boot: what reboots it, what only looks like it, and what hides it.

A lab's guests grow older all the time, and a roll-back does not make them younger: what is to come
at an uptime that a run still watches comes on a boot of its own.
"""

from __future__ import annotations

from harness.qemulab.errors import Unfit
from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.model import Fault

SOONEST = 22
"""Seconds of uptime: shortly after where the inventory of the mini-lab has a boot given up."""
PAST_IT = 45
"""Seconds of uptime at which no such limit ends a boot."""
NOTICE = 15
"""Seconds from the first login to whatever is to come, so that somebody has looked before it."""
LATEST = 100
"""Seconds of uptime; beyond it no trial watches."""
TIMER_FILE = "/etc/hil/timer"
TIMER = "/usr/local/bin/hil-reboot-timer"
EATER = "/usr/local/bin/hil-eat-memory"
START = "/usr/local/sbin/hil-start"
NONE: frozenset[str] = frozenset()
"""No control: whatever else is asked of a guest may be asked while it reboots. The other guest,
whose boot the same claim is about, stays up."""
BOOT_ID = "/proc/sys/kernel/random/boot_id"
OLD_ID = "/etc/hil/boot_id"


def _young(bench: Bench, guest: str, soonest: int) -> int:
    """Boot a guest anew; an uptime, at least ``soonest``, that is still to come."""
    bench.reset(guest)
    when = max(soonest, int(bench.uptime(guest)) + NOTICE)
    if when > LATEST:
        saw = f"{when - NOTICE} s of uptime at the first login"
        raise Unfit(f"have {guest} reboot while it is watched", saw, "try on a machine less busy")
    return when


def _reboot_timer(bench: Bench) -> None:
    guest = bench.guests[0]
    when = _young(bench, guest, SOONEST)
    bench.run(guest, "mkdir", "-p", "/etc/hil")
    bench.write(guest, TIMER_FILE, f"{when}\n")
    bench.leave_running(guest, f"exec {TIMER} {when}")


def _memory_eaten(bench: Bench) -> None:
    guest = bench.guests[0]
    when = _young(bench, guest, SOONEST)
    bench.sh(guest, "echo 1 >/proc/sys/vm/panic_on_oom; echo 3 >/proc/sys/kernel/panic")
    bench.leave_running(guest, _at(when, f"exec {EATER}"))


def _rebooted_once(bench: Bench) -> None:
    guest = bench.guests[0]
    when = _young(bench, guest, PAST_IT)
    bench.leave_running(guest, _at(when, "exec reboot"))


def _oom(bench: Bench) -> None:
    guest = bench.guests[0]
    bench.run(guest, EATER, fails=True)
    bench.until(guest, ("dmesg",), "Out of memory: Killed process")


def _boot_id_frozen(bench: Bench) -> None:
    guest = bench.guests[0]
    hide = f"mount --bind {OLD_ID} {BOOT_ID}"
    bench.run(guest, "mkdir", "-p", "/etc/hil")
    bench.write(guest, OLD_ID, bench.run(guest, "cat", BOOT_ID))
    bench.replace(guest, START, "mount -t sysfs", f"{hide}\nmount -t sysfs")
    bench.sh(guest, hide)


def _at(uptime: int, then: str) -> str:
    """A shell's script that does something when the machine is that old."""
    return f"read -r up rest </proc/uptime; sleep $(({uptime} - ${{up%%.*}})); {then}"


FAULTS = (
    Fault(
        id="reboot-timer",
        sentence="A service of one guest reboots it whenever it has been up for some 20 seconds.",
        seen="another boot id, each time at the same uptime; the system goes down in good order",
        wrong_diagnosis="memory, for it was full of page cache before",
        edit=_reboot_timer,
        breaks=frozenset({"uptime"}),
        controls=NONE,
        says={"uptime": "a timer"},
        source="S-DOC: the 70 minutes of a boot that does not end",
    ),
    Fault(
        id="memory-eaten",
        sentence="A program takes all memory of one guest, whose kernel panics for it and boots "
        "anew.",
        seen="Out of memory: system-wide panic_on_oom is enabled, on the console; another boot id",
        wrong_diagnosis="the timer of a boot that does not end, at the same uptime",
        edit=_memory_eaten,
        breaks=frozenset({"uptime"}),
        controls=NONE,
        says={"uptime": "memory pressure"},
        source="S-DOC",
    ),
    Fault(
        id="rebooted-once",
        sentence="Somebody reboots one guest, once, in good order.",
        seen="another boot id; the uptime at which the first boot ended comes and goes again",
        wrong_diagnosis="a timer",
        edit=_rebooted_once,
        breaks=frozenset({"uptime"}),
        controls=NONE,
        says={"uptime": "by hand or by a service"},
    ),
    Fault(
        id="oom-without-reboot",
        sentence="A program takes all memory of one guest, and the kernel kills it.",
        seen="Out of memory: Killed process in the kernel's log; the same boot id all along",
        wrong_diagnosis="the guest rebooted for want of memory",
        edit=_oom,
        controls=frozenset({"modules-live", "uptime"}),
        says={"uptime": "which is no reboot"},
        harmless=True,
    ),
    Fault(
        id="boot-id-frozen",
        sentence="One guest shows the boot id of its first boot for ever, from a file.",
        seen="a kernel's first words on the console, an uptime that began anew, the same boot id",
        wrong_diagnosis="it did not reboot: its boot id is the same",
        edit=_boot_id_frozen,
        breaks=frozenset({"reboots-told"}),
        controls=frozenset({"modules-live"}),
        says={"reboots-told": "the uptime fell"},
        source="inferred: a container or a clone that brings its own",
    ),
)
