"""Why boots ended, as far as what was seen decides it: a timer, memory, a panic, a hand, a new VM.

A timer is told by the uptime at which boots end, never by the time between two of them: machines
that were started at different times reboot at different times (uptime_and_diagnosis sections 1 and
3). Memory pressure is told by the kernel's words alone: memory full of page cache is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from harness.facts.boots import BootSample, age_at_end
from harness.facts.kernellog import KernelEvent, KernelLog, Scope, What
from harness.judge.wording import named

TALOS_LIMIT = 4200.0
"""Seconds of Talos' own time limit for a boot."""
_COUNTDOWN = 66.0
"""Seconds from that limit to the next boot at the latest: a countdown, going down, firmware."""
_SLACK = 30.0
"""Seconds by which two clocks and two questions may differ. Both in proportion to a limit that
the inventory shortens, and at least `_LEAST`."""
_LEAST = 5.0
NEAR = 60.0
"""Seconds before a boot's end within which an OOM kill is taken for its cause."""
_LATE = 3.0
"""Seconds after a boot's reckoned beginning until which a console may show the last one's words."""
_ENDS = frozenset({What.PANIC, What.SYSRQ_RESET, What.SYSRQ_CRASH, What.RESTART, What.POWER_DOWN})
_IN_ORDER = (What.RESTART, What.POWER_DOWN)
_FOR_MEMORY = ("out of memory", "deadlocked on memory")


@dataclass(frozen=True, slots=True)
class Reboot:
    """One boot's end: the last look before it, the first after it, what was said in that boot.

    ``said`` holds each event with the uptime at which it was said; ``listened``: a console was
    attached as it ended.
    """

    before: BootSample
    after: BootSample
    said: tuple[tuple[float, KernelEvent], ...]
    listened: bool

    @property
    def age(self) -> float:
        """Seconds of uptime at which it had ended at the latest; going down is counted in."""
        return age_at_end(self.before, self.after)

    @property
    def ended(self) -> float | None:
        """Seconds of uptime at which its kernel said that it ends, None where that is not known."""
        return next((up for up, one in reversed(self.said) if one.what in _ENDS), None)

    @property
    def when(self) -> str:
        """That uptime in words, as well as it is known."""
        return f"at most {self.age:.0f} s" if self.ended is None else f"{self.ended:.0f} s"

    def said_last(self, *kinds: What) -> KernelEvent | None:
        """The last event of these kinds, None without one."""
        return next((one for _, one in reversed(self.said) if one.what in kinds), None)


def reboots(samples: Sequence[BootSample], logs: Sequence[KernelLog]) -> tuple[Reboot, ...]:
    """Every change of boot among the samples, with what the logs hold of the boot that ended."""
    return tuple(
        Reboot(before, after, tuple(_said(before, after, logs)), _listened(before, after, logs))
        for before, after in pairwise(samples)
        if before.boot_id != after.boot_id
    )


def cause(found: Sequence[Reboot], limit: float, *, memory_out: bool = False) -> str:
    """Why the first of these boots ended, in words; where nothing decides, that.

    ``memory_out``: MemAvailable was measured near zero as it ended, which decides where its kernel
    told nobody and no timer fits.
    """
    first = found[0]
    replaced = _replaced(first)
    if replaced:
        return f"the worker was replaced ({named(replaced)} of another UID)"
    told = f"{_same(first)}the guest rebooted"
    why = _decisive(first) or _timer(found, limit)
    for_memory = "" if why else _killed_just_before(first)
    if not (why or for_memory) and memory_out and first.said_last(*_IN_ORDER) is None:
        for_memory = "memory pressure, as was measured"
    if for_memory:
        return f"{told}: {for_memory}"
    return f"{told}: {why or _undecided(first)}{_beside(first)}"


def oom_kills(events: Sequence[KernelEvent]) -> str:
    """The processes that kernels killed for want of memory, in words; "" for none."""
    killed = [one for one in events if one.what is What.OOM_KILL]
    return f"{named(dict.fromkeys(map(_victim, killed)))} for want of memory" if killed else ""


def is_at_limit(age: float, limit: float) -> bool:
    """Whether a boot ended where a time limit for boots ends it."""
    share = limit / TALOS_LIMIT
    slack = max(_LEAST, _SLACK * share)
    return limit - slack <= age <= limit + max(_LEAST, _COUNTDOWN * share) + slack


def passed(limit: float) -> float:
    """Seconds of uptime by which a boot that a limit ends has ended: counted down, gone down.

    A look in between finds it older than the limit, and it is about to end all the same.
    """
    return limit + max(_LEAST, _COUNTDOWN * limit / TALOS_LIMIT)


def said_in(boot: BootSample, logs: Sequence[KernelLog]) -> tuple[KernelEvent, ...]:
    """What kernels said in the boot of this look: of a console, once the last one's words are out;
    what it printed without a time is of no known boot.
    """
    return tuple(
        event
        for log in logs
        for event in log.events
        if log.boot_id == boot.boot_id
        or (not log.boot_id and event.shown is not None and event.shown > boot.began + _LATE)
    )


def _replaced(one: Reboot) -> list[str]:
    return [
        what
        for what, was, now in (
            ("VMI", one.before.vmi_uid, one.after.vmi_uid),
            ("Node", one.before.node_uid, one.after.node_uid),
        )
        if was and now and was != now
    ]


def _same(one: Reboot) -> str:
    known = bool(one.before.vmi_uid and one.after.vmi_uid)
    return "VMI and Node are the same: " if known else ""


def _decisive(first: Reboot) -> str:
    """A cause that the kernel names itself, whatever the uptimes."""
    panic = first.said_last(What.PANIC)
    if panic is not None and any(word in panic.said.lower() for word in _FOR_MEMORY):
        return f"memory pressure, its kernel panicked for it ({panic.said!r})"
    if first.said_last(What.SYSRQ_CRASH) is not None:
        return "by hand, its kernel was told to crash by sysrq"
    if panic is not None:
        return f"its kernel panicked ({panic.said!r})"
    if first.said_last(What.SYSRQ_RESET) is not None:
        return "by hand, its kernel was told to reset by sysrq"
    return ""


def _timer(found: Sequence[Reboot], limit: float) -> str:
    first = found[0]
    if first.said_last(What.GIVEN_UP) is not None:
        return "a timer, Talos gave up a boot that did not end"
    if is_at_limit(first.age if first.ended is None else first.ended, limit):
        return f"a timer, {limit:.0f} s is where a boot that does not end is given up"
    alike = [one.when for one in found[1:] if _alike(one, first)]
    if alike:
        ages = " and ".join((first.when, *alike))
        return f"a timer, it rebooted at the same uptime each time ({ages})"
    return ""


def _alike(one: Reboot, other: Reboot) -> bool:
    """Whether two boots ended at one uptime: by their kernels' words, else at the latest each."""
    a, b = one.ended, other.ended
    if a is None or b is None:
        a, b = one.age, other.age
    return abs(a - b) <= max(_LEAST, _COUNTDOWN * max(a, b) / TALOS_LIMIT)


def _killed_just_before(one: Reboot) -> str:
    """Memory pressure, where nothing else ended the boot in good order."""
    if one.said_last(*_IN_ORDER) is not None:
        return ""
    kills = ((up, event) for up, event in one.said if event.what is What.OOM_KILL)
    near = [
        event for up, event in kills if one.age - up <= NEAR and event.scope is not Scope.CGROUP
    ]
    return f"memory pressure, the kernel killed {oom_kills(near)} just before" if near else ""


def _undecided(one: Reboot) -> str:
    if one.said_last(*_IN_ORDER) is not None:
        return "by hand or by a service of its own, its system went down in good order"
    if one.listened:
        return "without a word on its console, as after a reset from outside or a loss of power"
    return "nothing that was looked at tells by what"


def _beside(one: Reboot) -> str:
    """What else was said in that boot of memory, which need not be the cause."""
    kills = [event for _, event in one.said if event.what is What.OOM_KILL]
    if not kills:
        return ""
    return f"; in that boot the kernel had killed {oom_kills(kills)}"


def _victim(event: KernelEvent) -> str:
    whose = ", at a container's limit" if event.scope is Scope.CGROUP else ""
    return f"{event.comm} (process {event.pid}{whose})"


def _said(
    before: BootSample, after: BootSample, logs: Sequence[KernelLog]
) -> Iterator[tuple[float, KernelEvent]]:
    """What the logs hold of the boot that ended, each with its uptime."""
    for log in logs:
        for event in log.events:
            up = _uptime(event, before)
            ours = log.boot_id == before.boot_id if log.boot_id else _shown_in(event, before, after)
            if ours and up is not None:
                yield up, event


def _uptime(event: KernelEvent, boot: BootSample) -> float | None:
    if event.seconds is not None:
        return event.seconds
    return None if event.shown is None else event.shown - boot.began


def _shown_in(event: KernelEvent, before: BootSample, after: BootSample) -> bool:
    return event.shown is not None and before.began <= event.shown <= after.began + _LATE


def _listened(before: BootSample, after: BootSample, logs: Sequence[KernelLog]) -> bool:
    """A console was attached before the boot ended, and something came of the next boot on it.

    Not its first line: a quiet kernel shows none.
    """
    return any(
        log.heard_from is not None
        and log.heard_from <= before.origin.at
        and log.heard_last is not None
        and log.heard_last >= after.began
        for log in logs
    )
