"""The claim that a worker stays on one boot past the time after which a boot is given up.

Talos' boot sequence, where it does not end within 70 minutes, reboots the machine, at an uptime of
about 4206 s, while the node is Ready all along (TAL pkg/machinery/constants; S-DOC). The time
counts from the guest's boot, never from a test's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.facts.bootledger import BootLedger, PodRestarts
from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Fact, Unread
from harness.facts.kernellog import KernelLog
from harness.judge import bootcauses
from harness.judge import memory as memories
from harness.judge.restarts import on_one_boot, with_reboot
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, unread

LIMIT = bootcauses.TALOS_LIMIT
"""Seconds of Talos' own time limit for a boot."""


def missing_uptime(sample: BootSample, soak: float) -> float:
    """Seconds of uptime that are still missing to ``soak``; 0 where it has them."""
    return max(0.0, soak - sample.uptime)


def uptime(
    samples: Sequence[BootSample | WorkerGone | Unread],
    soak: float,
    subject: str,
    *,
    limit: float = LIMIT,
    logs: Sequence[KernelLog | Unread] = (),
    ledger: BootLedger | None = None,
    restarts: PodRestarts | None = None,
    memory: Sequence[Fact] = (),
) -> Verdict:
    """uptime: from the first sample, the baseline, to the last the node is on one boot, and that
    is older than ``limit`` and at least as old as ``soak``, both in seconds.

    One look is enough at a boot that is old enough: its age counts from the guest's boot. Another
    boot id breaks it however short the watch was, also where only the ``ledger`` has it, and so
    does an uptime that fell, and a worker that is no more. Unknown where the first or last look
    failed, where the boot is still too young, where the whole pool was taken away, and where all
    pods were started again at once under one boot id (``restarts``): something is at odds then.
    ``logs`` are what kernels said; they name a cause, and decide nothing else: a process killed for
    want of memory is no reboot. ``memory`` is what was measured of it.
    """
    claim = "uptime"
    beside = (one for one in (restarts, ledger) if one is not None)
    facts: tuple[Fact, ...] = (*samples, *logs, *memory, *beside)
    read = [one for one in samples if isinstance(one, BootSample)]
    heard = [one for one in logs if isinstance(one, KernelLog)]
    broken = _changed(read, heard, limit, restarts, memory) or _told(read, ledger)
    if broken:
        return Verdict(claim, subject, Outcome.BROKEN, broken, facts)
    gone = next((one for one in samples if isinstance(one, WorkerGone)), None)
    if gone is not None:
        outcome = Outcome.UNKNOWN if gone.taken else Outcome.BROKEN
        return Verdict(claim, subject, outcome, _gone(gone, read), facts)
    if not samples or isinstance(samples[0], Unread) or isinstance(samples[-1], Unread):
        if any(isinstance(one, Unread) for one in samples):
            because = unread(claim, subject, *samples).because
            return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
        because = "nobody looked at the node's boot"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    first, last = read[0], read[-1]
    seen = f"boot {last.boot_id} is {last.uptime:.0f} s old, watched since {first.uptime:.0f} s"
    if last.uptime <= limit or last.uptime < soak:
        because = f"{seen}; too short: expected more than {limit:.0f} s and {soak:.0f} s of soak"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    because = f"{seen}, expected more than {limit:.0f} s and {soak:.0f} s of soak"
    pods, at_odds = on_one_boot(restarts, first.origin.at, last.origin.at)
    beside_it = (pods, _killed(last, heard), memories.meanwhile(last, memory))
    because += "".join(f"; {one}" for one in beside_it if one)
    return Verdict(claim, subject, Outcome.UNKNOWN if at_odds else Outcome.HOLDS, because, facts)


def _changed(
    samples: Sequence[BootSample],
    logs: Sequence[KernelLog],
    limit: float,
    restarts: PodRestarts | None,
    memory: Sequence[Fact],
) -> str:
    """What tells that a node did not stay on its boot, "" where nothing does."""
    found = bootcauses.reboots(samples, logs)
    for before, after in pairwise(samples):
        if before.boot_id != after.boot_id:
            first = found[0]
            became = f"boot {before.boot_id} became {after.boot_id}"
            told = f"{became} at an uptime of {first.when}"
            out = memories.of_reboot(first, memory)[0] is memories.Memory.OUT
            why = bootcauses.cause(found, limit, memory_out=out)
            beside_it = (memories.beside(found, memory), with_reboot(first, restarts))
            return "; ".join((told, why, *(one for one in beside_it if one)))
        if after.uptime < before.uptime:
            return f"the uptime fell from {before.uptime:.0f} s to {after.uptime:.0f} s on one boot"
    return ""


def _told(samples: Sequence[BootSample], ledger: BootLedger | None) -> str:
    """Another boot since the last look, which its Node showed and the machine does not tell."""
    if ledger is None or not samples:
        return ""
    last = samples[-1]
    later = (one for one in ledger.boots if one.at > last.origin.at and one.boot_id != last.boot_id)
    new = next(later, None)
    if new is None:
        return ""
    became = f"boot {last.boot_id} became {new.boot_id}, as its Node shows"
    if any(one.what == "vmi" and one.at > last.origin.at for one in ledger.entries):
        return f"the worker was replaced: its VMI is another; {became}"
    age = last.uptime + new.at - last.origin.at
    return f"{became}, at an uptime of at most {age:.0f} s; the machine has not answered since"


def _gone(gone: WorkerGone, samples: Sequence[BootSample]) -> str:
    if gone.taken:
        seen = f"; boot {samples[-1].boot_id} was {samples[-1].uptime:.0f} s old" if samples else ""
        return f"the soak was cut short, {gone.taken}{seen}"
    return f"the worker was replaced: of {gone.node} there is no {named(gone.gone)} any more"


def _killed(last: BootSample, logs: Sequence[KernelLog]) -> str:
    """Processes killed in a boot that went on all the same, in words."""
    events = [event for log in logs if log.boot_id in ("", last.boot_id) for event in log.events]
    kills = bootcauses.oom_kills(events)
    return f"in it the kernel killed {kills}, which is no reboot" if kills else ""
