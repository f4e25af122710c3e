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
from harness.facts.kernellog import KernelLog, What
from harness.judge import bootcauses
from harness.judge import memory as memories
from harness.judge.restarts import on_one_boot, with_reboot
from harness.judge.verdict import Outcome, Verdict
from harness.judge.wording import named, unread

LIMIT = bootcauses.TALOS_LIMIT
"""Seconds of Talos' own time limit for a boot."""
DRIFT = 60.0
"""Seconds by which an uptime may gain on the lab's clock: two questions of half a minute."""


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
    is older than ``limit`` and its countdown (`bootcauses.passed`), and at least as old as
    ``soak``, all in seconds.

    One look is enough at a boot that is old enough: its age counts from the guest's boot. Another
    boot id breaks it however short the watch was, also where only the ``ledger`` has it, and so
    does an uptime that fell, a worker that is no more, and a VMI or a Node of another UID, whatever
    the boot id. Unknown where the first or last look failed, where the boot is still too young,
    where the whole pool was taken away, and where something is at odds with the one boot: all pods
    started again at once (``restarts``), an uptime that gained on the lab's clock, a boot of the
    Node's that the machine does not tell, Talos' own word that it gave the boot up.
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
    expected = f"expected more than {limit:.0f} s and {soak:.0f} s of soak"
    if last.uptime <= limit or last.uptime < soak:
        because = f"{seen}; too short: {expected}"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    if last.uptime <= bootcauses.passed(limit):
        down = f"a boot that is given up at {limit:.0f} s goes on to {bootcauses.passed(limit):.0f}"
        because = f"{seen}; too short: {expected}, and {down} s until it has gone down"
        return Verdict(claim, subject, Outcome.UNKNOWN, because, facts)
    because = f"{seen}, {expected}"
    pods, together = on_one_boot(restarts, first.origin.at, last.origin.at)
    odd = (*_at_odds(read, heard, ledger), *([pods] if together else []))
    told = "" if together else pods
    moved, killed = _moved(read, ledger), _killed(last, heard)
    beside_it = (*odd, told, moved, killed, memories.meanwhile(last, memory))
    because += "".join(f"; {one}" for one in beside_it if one)
    return Verdict(claim, subject, Outcome.UNKNOWN if odd else Outcome.HOLDS, because, facts)


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
            why = bootcauses.cause(found, limit, memory_out=memories.ended(first, memory))
            beside_it = (memories.beside(found, memory), with_reboot(first, restarts))
            return "; ".join((told, why, *(one for one in beside_it if one)))
        if after.uptime < before.uptime:
            return f"the uptime fell from {before.uptime:.0f} s to {after.uptime:.0f} s on one boot"
    others = [
        kind
        for kind, uids in (
            ("VMI", [one.vmi_uid for one in samples]),
            ("Node", [one.node_uid for one in samples]),
        )
        if len({uid for uid in uids if uid}) > 1
    ]
    if others:
        return f"the worker was replaced ({named(others)} of another UID), though its boot is one"
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


def _at_odds(
    samples: Sequence[BootSample], logs: Sequence[KernelLog], ledger: BootLedger | None
) -> list[str]:
    """What does not go with one boot, though every look told of that one."""
    first, last = samples[0], samples[-1]
    found = []
    gained = last.uptime - first.uptime - (last.origin.at - first.origin.at)
    if gained > DRIFT:
        found.append(f"its uptime gained {gained:.0f} s on the lab's clock, so one of them leapt")
    known = {one.boot_id for one in samples}
    shown = (
        one.boot_id
        for one in (ledger.boots if ledger is not None else ())
        if one.at > first.origin.at and one.boot_id not in known
    )
    found += [f"its Node showed boot {boot_id} meanwhile" for boot_id in dict.fromkeys(shown)]
    uids = (("VMI", first.vmi_uid, last.vmi_uid), ("Node", first.node_uid, last.node_uid))
    found += [f"at the last look it had no {kind}" for kind, was, now in uids if was and not now]
    given_up = [one for one in bootcauses.said_in(last, logs) if one.what is What.GIVEN_UP]
    if given_up:
        found.append(
            f"Talos gave this boot up and did not end it ({given_up[0].said!r}): so it does with "
            "panic=0"
        )
    return found


def _moved(samples: Sequence[BootSample], ledger: BootLedger | None) -> str:
    """Another virt-launcher pod for the one boot: the machine was moved."""
    begin, end = samples[0].origin.at, samples[-1].origin.at
    entries = ledger.entries if ledger is not None else ()
    moved = any(one.what == "launcher" and begin < one.at <= end for one in entries)
    return "its virt-launcher pod became another meanwhile, which is no reboot" if moved else ""


def _gone(gone: WorkerGone, samples: Sequence[BootSample]) -> str:
    if gone.taken:
        seen = f"; boot {samples[-1].boot_id} was {samples[-1].uptime:.0f} s old" if samples else ""
        return f"the soak was cut short, {gone.taken}{seen}"
    return f"the worker was replaced: of {gone.node} there is no {named(gone.gone)} any more"


def _killed(last: BootSample, logs: Sequence[KernelLog]) -> str:
    """Processes killed in a boot that went on all the same, in words."""
    kills = bootcauses.oom_kills(bootcauses.said_in(last, logs))
    return f"in it the kernel killed {kills}, which is no reboot" if kills else ""
