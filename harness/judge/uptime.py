"""The claim that a worker stays on one boot past the time after which a boot is given up.

Talos' boot sequence, where it does not end within 70 minutes, reboots the machine, at an uptime of
about 4206 s, while the node is Ready all along (TAL pkg/machinery/constants; S-DOC). The time
counts from the guest's boot, never from a test's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Fact, Unread
from harness.facts.kernellog import KernelLog
from harness.judge import bootcauses
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
) -> Verdict:
    """uptime: from the first sample, the baseline, to the last the node is on one boot, and that
    is older than ``limit`` and at least as old as ``soak``, both in seconds.

    One look is enough at a boot that is old enough: its age counts from the guest's boot. Another
    boot id breaks it however short the watch was, and so does an uptime that fell, and a worker
    that is no more. Unknown where the first or last look failed and where the boot is still too
    young. ``logs`` are what kernels said; they name a cause, and decide nothing else: a process
    killed for want of memory is no reboot.
    """
    claim = "uptime"
    facts: tuple[Fact, ...] = (*samples, *logs)
    read = [one for one in samples if isinstance(one, BootSample)]
    heard = [one for one in logs if isinstance(one, KernelLog)]
    broken = _changed(read, heard, limit) or _gone(samples)
    if broken:
        return Verdict(claim, subject, Outcome.BROKEN, broken, facts)
    if not samples or isinstance(samples[0], Unread) or isinstance(samples[-1], Unread):
        if any(isinstance(one, Unread) for one in samples):
            return unread(claim, subject, *facts)
        because = "nobody looked at the node's boot"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    first, last = read[0], read[-1]
    seen = f"boot {last.boot_id} is {last.uptime:.0f} s old, watched since {first.uptime:.0f} s"
    if last.uptime <= limit or last.uptime < soak:
        because = f"{seen}; too short: expected more than {limit:.0f} s and {soak:.0f} s of soak"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    because = f"{seen}, expected more than {limit:.0f} s and {soak:.0f} s of soak"
    because += _killed(last, heard)
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _changed(samples: Sequence[BootSample], logs: Sequence[KernelLog], limit: float) -> str:
    """What tells that a node did not stay on its boot, "" where nothing does."""
    found = bootcauses.reboots(samples, logs)
    for before, after in pairwise(samples):
        if before.boot_id != after.boot_id:
            first = found[0]
            became = f"boot {before.boot_id} became {after.boot_id}"
            told = f"{became} at an uptime of {first.when}"
            return f"{told}; {bootcauses.cause(found, limit)}"
        if after.uptime < before.uptime:
            return f"the uptime fell from {before.uptime:.0f} s to {after.uptime:.0f} s on one boot"
    return ""


def _gone(samples: Sequence[BootSample | WorkerGone | Unread]) -> str:
    gone = next((one for one in samples if isinstance(one, WorkerGone)), None)
    if gone is None:
        return ""
    return f"the worker was replaced: of {gone.node} there is no {named(gone.gone)} any more"


def _killed(last: BootSample, logs: Sequence[KernelLog]) -> str:
    """Processes killed in a boot that went on all the same, in words."""
    events = [event for log in logs if log.boot_id in ("", last.boot_id) for event in log.events]
    kills = bootcauses.oom_kills(events)
    return f"; in it the kernel killed {kills}, which is no reboot" if kills else ""
