"""The claim that a worker stays on one boot past the 70 minutes after which Talos gives up.

A boot sequence that does not end within 70 minutes reboots the machine, at an uptime of about
4206 s, while the node is Ready all along (TAL pkg/machinery/constants; S-DOC). The time counts
from the guest's boot, never from a test's beginning.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from harness.facts.boots import BootSample
from harness.facts.fact import Unread
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, unread

LIMIT = 4200.0
"""Seconds of Talos' own time limit for a boot."""
_TIMER = (4200.0, 4266.0)
"""Seconds of uptime at which that limit reboots a machine: the limit, then a countdown."""
_SLACK = 30.0
"""Seconds by which two clocks and two questions may differ."""


def missing_uptime(sample: BootSample, soak: float) -> float:
    """Seconds of uptime that are still missing to ``soak``; 0 where it has them."""
    return max(0.0, soak - sample.uptime)


def uptime(samples: Sequence[BootSample | Unread], soak: float, subject: str) -> Verdict:
    """uptime: from the first sample, the baseline, to the last the node is on one boot, and that
    is older than 70 minutes and at least as old as ``soak`` seconds.

    One look is enough at a boot that is old enough: its age counts from the guest's boot. Another
    boot id breaks it however short the watch was, and so does an uptime that fell. Unknown where
    the first or last look failed and where the boot is still too young.
    """
    claim = "uptime"
    facts = tuple(samples)
    read = [one for one in facts if isinstance(one, BootSample)]
    broken = _changed(read)
    if broken:
        return Verdict(claim, subject, Outcome.BROKEN, broken, facts)
    if not facts or isinstance(facts[0], Unread) or isinstance(facts[-1], Unread):
        if any(isinstance(one, Unread) for one in facts):
            return unread(claim, subject, *facts)
        because = "nobody looked at the node's boot"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    first, last = read[0], read[-1]
    seen = f"boot {last.boot_id} is {last.uptime:.0f} s old, watched since {first.uptime:.0f} s"
    if last.uptime <= LIMIT or last.uptime < soak:
        because = f"{seen}; too short: expected more than {LIMIT:.0f} s and {soak:.0f} s of soak"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    because = f"{seen}, expected more than {LIMIT:.0f} s and {soak:.0f} s of soak"
    return Verdict(claim, subject, Outcome.HOLDS, because, facts)


def _changed(samples: Sequence[BootSample]) -> str:
    """What tells that a node did not stay on its boot, "" where nothing does."""
    for before, after in pairwise(samples):
        if before.boot_id != after.boot_id:
            return f"{_at_reboot(before, after)}; {_who(before, after)}"
        if after.uptime < before.uptime:
            return f"the uptime fell from {before.uptime:.0f} s to {after.uptime:.0f} s on one boot"
    return ""


def _at_reboot(before: BootSample, after: BootSample) -> str:
    """When the boot ended: between its last sample and the new boot's beginning."""
    began = after.origin.at - after.uptime
    end = before.uptime + max(0.0, began - before.origin.at)
    told = f"boot {before.boot_id} became {after.boot_id} at an uptime of at most {end:.0f} s"
    low, high = _TIMER
    if low - _SLACK <= end <= high + _SLACK:
        return f"{told}, which is where a boot that does not end is given up"
    return told


def _who(before: BootSample, after: BootSample) -> str:
    replaced = [
        what
        for what, was, now in (
            ("VMI", before.vmi_uid, after.vmi_uid),
            ("Node", before.node_uid, after.node_uid),
        )
        if was and now and was != now
    ]
    if replaced:
        return f"the worker was replaced ({named(replaced)} of another UID)"
    return "VMI and Node are the same: the guest rebooted"
