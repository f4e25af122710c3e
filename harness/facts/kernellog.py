"""What a kernel said of itself: boots, OOM kills, panics, resets; from dmesg or a console's text.

The wordings are the kernel's own (mm/oom_kill.c, kernel/panic.c, drivers/tty/sysrq.c,
kernel/reboot.c, kernel/hung_task.c, kernel/watchdog.c), Talos' as domain/uptime_and_diagnosis
section 4 has them. What is recognised was said. What is missing was not looked for in what was
dropped, cut or never printed, so a text without a line of a kind proves nothing unless ``whole``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.reply import Output, plain, unfinished

DMESG = "dmesg"
_SAID = 200  # characters of a message that an event keeps
_PIECES = 4  # lines into which a terminal may have broken one
_BEGINNING = 1.0
"""Seconds: a ring buffer whose first line is older than this has lost nothing yet."""


class What(StrEnum):
    """What a kernel's line tells."""

    BANNER = "banner"
    """The first line of a kernel. It comes again whenever somebody prints the log."""
    OOM_KILL = "oom kill"
    PANIC = "panic"
    SYSRQ_RESET = "sysrq reset"
    SYSRQ_CRASH = "sysrq crash"
    RESTART = "restart"
    """The system itself asked for it, in good order."""
    POWER_DOWN = "power down"
    GIVEN_UP = "boot given up"
    """Talos ended a boot sequence that did not end by itself."""
    HUNG_TASK = "hung task"
    LOCKUP = "lockup"


class Scope(StrEnum):
    """Whose memory was short where a process was killed for it."""

    MACHINE = "machine"
    CGROUP = "cgroup"
    """A container's limit: the machine itself may have had plenty."""
    NODES = "memory nodes"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One thing that a kernel said.

    ``seconds`` is the kernel's own time, from its boot, None where the line carries none;
    ``shown`` the lab's time at which a console printed it, None in a dmesg. ``said`` is the
    message without its stamp. ``release`` belongs to a banner; ``scope``, ``pid`` and ``comm`` to
    an OOM kill, of a hung task the last two.
    """

    what: What
    said: str
    seconds: float | None = None
    shown: float | None = None
    release: str = ""
    scope: Scope = Scope.UNKNOWN
    pid: int = 0
    comm: str = ""


@dataclass(frozen=True, slots=True)
class KernelLog(Fact):
    """What was recognised of a kernel's log, in its order.

    ``boot_id`` is the boot that was asked, "" for a console, on which several may have spoken.
    ``whole``: everything since the kernel's first line is here. It is False for a console, where
    the log level decides, for a ring buffer that has wrapped or was cleared, and for a cut text.
    ``heard_from`` and ``heard_last`` are the lab's times from which a console was listened to and
    at which its last line began, None for a dmesg and where nothing was heard.
    """

    boot_id: str
    whole: bool
    events: tuple[KernelEvent, ...]
    heard_from: float | None = None
    heard_last: float | None = None

    def of(self, *kinds: What) -> tuple[KernelEvent, ...]:
        """The events of these kinds."""
        return tuple(one for one in self.events if one.what in kinds)


def read_dmesg(output: Output, *, boot_id: str, at: float, source: str) -> KernelLog | Unread:
    """Read the reply of ``dmesg``, with or without ``-T`` or ``-x``, or of a read of /dev/kmsg."""
    origin = output.origin(at, source)
    refused = unfinished(output, DMESG, origin)
    if refused is not None:
        return refused
    lines = list(_lines(output.stdout.encode("utf-8", "surrogatepass")))
    whole = output.stdout.endswith("\n") and _from_the_beginning(lines)
    return KernelLog(origin, boot_id, whole, tuple(_events(lines, None)))


def read_console(
    text: bytes,
    shown: Callable[[int], float],
    *,
    at: float,
    source: str,
    heard_from: float | None = None,
) -> KernelLog:
    """Read what a console printed; ``shown`` tells when the byte at an offset arrived."""
    origin = Origin(at, source, text.decode("utf-8", "backslashreplace"))
    lines = list(_lines(text))
    return KernelLog(
        origin,
        boot_id="",
        whole=False,
        events=tuple(_events(lines, shown)),
        heard_from=heard_from,
        heard_last=shown(lines[-1].start) if lines else None,
    )


# -- lines and their stamps

_LINE_END = re.compile(rb"\r*\n|\r")
_KMSG = re.compile(r"\d{1,4},\d+,(?P<micro>\d{1,18}),[^;]*;")
_STAMP = re.compile(r"\[ *(?P<seconds>\d{1,9}\.\d{6})\](?:\[ *[TC]\d+\])? ?")
_DATED = re.compile(
    r"\[(?:[A-Z][a-z]{2} [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4}|[\d-]{10}T[\d:.,]+\S{0,6})\]:? "
    r"|^(?:[\d-]{10}T[\d:.,]+\S{0,6}|[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d)(?: \S+ kernel:)? ",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class _Line:
    """A line: where it begins, the kernel's seconds, whether it has any stamp, and the message."""

    start: int
    seconds: float | None
    stamped: bool
    message: str


def _lines(text: bytes) -> Iterator[_Line]:
    start = 0
    for end in _LINE_END.finditer(text):
        yield _line(start, text[start : end.start()])
        start = end.end()
    if start < len(text):
        yield _line(start, text[start:])


def _line(start: int, data: bytes) -> _Line:
    text = plain(data.decode("utf-8", "backslashreplace"))
    kmsg = _KMSG.match(text)
    if kmsg:
        return _Line(start, int(kmsg["micro"]) / 1e6, True, text[kmsg.end() :])
    # on a console a kernel's line may land behind a prompt
    stamp = _STAMP.search(text)
    if stamp:
        return _Line(start, float(stamp["seconds"]), True, text[stamp.end() :])
    dated = _DATED.search(text)
    if dated:
        return _Line(start, None, True, text[dated.end() :])
    return _Line(start, None, False, text)


def _from_the_beginning(lines: list[_Line]) -> bool:
    first = next((line for line in lines if line.message.strip() or line.stamped), None)
    if first is None:
        return False
    if first.seconds is not None:
        return first.seconds < _BEGINNING
    event = _recognised(first.message)
    return event is not None and event.what is What.BANNER


# -- messages

_VICTIM = r"process (?P<pid>\d{1,10}) \((?P<comm>[^\n]{1,63}?)\)(?=[ ,]|$)"
_OOM: tuple[tuple[Scope, re.Pattern[str]], ...] = (
    (
        Scope.MACHINE,
        re.compile(rf"Out of memory(?: \(oom_kill_allocating_task\))?: Kill(?:ed)? {_VICTIM}"),
    ),
    (Scope.CGROUP, re.compile(rf"Memory cgroup out of memory: Kill(?:ed)? {_VICTIM}")),
    (Scope.UNKNOWN, re.compile(rf"Killed {_VICTIM},?(?: UID \d+,)? total-vm:")),
)
_SUMMARY = re.compile(
    r"oom-kill:constraint=CONSTRAINT_(?P<constraint>[A-Z_]+),.*"
    r",task=(?P<comm>[^\n]{1,63}),pid=(?P<pid>\d{1,10}),uid=\d"
)
_CONSTRAINTS = {
    "NONE": Scope.MACHINE,
    "MEMCG": Scope.CGROUP,
    "CPUSET": Scope.NODES,
    "MEMORY_POLICY": Scope.NODES,
}
_BANNER = re.compile(r"Linux version (?P<release>\d\S*) ")
_HUNG = re.compile(
    r"INFO: task (?P<comm>[^\n]{1,63}):(?P<pid>\d{1,10}) blocked for more than \d+ s"
)
_PLAIN: tuple[tuple[What, re.Pattern[str]], ...] = (
    (What.PANIC, re.compile(r"Kernel panic - not syncing")),
    (What.SYSRQ_RESET, re.compile(r"(?:sysrq: (?:SysRq : )?|SysRq : )Resetting")),
    (What.SYSRQ_CRASH, re.compile(r"(?:sysrq: (?:SysRq : )?|SysRq : )Trigger a crash")),
    (What.RESTART, re.compile(r"reboot: Restarting system")),
    (What.POWER_DOWN, re.compile(r"reboot: (?:Power down|System halted)")),
    (What.GIVEN_UP, re.compile(r"\[talos\] boot sequence: failed")),
    (
        What.LOCKUP,
        re.compile(
            r"(?:NMI )?(?:watchdog: )?(?:BUG: soft lockup - CPU#\d|Watchdog detected hard LOCKUP)"
            r"|(?:rcu: )?INFO: rcu_\w+ (?:self-)?detected stall"
        ),
    ),
)


def _recognised(message: str) -> KernelEvent | None:
    said = message[:_SAID].rstrip()
    banner = _BANNER.match(message)
    if banner:
        return KernelEvent(What.BANNER, said, release=banner["release"])
    summary = _SUMMARY.match(message)
    if summary:
        scope = _CONSTRAINTS.get(summary["constraint"], Scope.UNKNOWN)
        return _victim(said, scope, summary)
    for scope, pattern in _OOM:
        kill = pattern.match(message)
        if kill:
            return _victim(said, scope, kill)
    hung = _HUNG.match(message)
    if hung:
        return KernelEvent(What.HUNG_TASK, said, pid=int(hung["pid"]), comm=hung["comm"])
    what = next((what for what, pattern in _PLAIN if pattern.match(message)), None)
    return None if what is None else KernelEvent(what, said)


def _victim(said: str, scope: Scope, found: re.Match[str]) -> KernelEvent:
    return KernelEvent(What.OOM_KILL, said, scope=scope, pid=int(found["pid"]), comm=found["comm"])


def _events(lines: list[_Line], shown: Callable[[int], float] | None) -> Iterator[KernelEvent]:
    """Events in their order; the lines that tell of one OOM kill make one."""
    pending: KernelEvent | None = None
    for line, event in _found(lines):
        dated = replace(
            event, seconds=line.seconds, shown=None if shown is None else shown(line.start)
        )
        if pending is not None and _same_kill(pending, dated):
            continue
        pending = dated
        yield dated


def _same_kill(before: KernelEvent, after: KernelEvent) -> bool:
    """Whether two lines tell of one kill: the summary, then what was done."""
    kills = before.what is What.OOM_KILL and after.what is What.OOM_KILL
    return kills and before.pid == after.pid and before.said != after.said


def _found(lines: list[_Line]) -> Iterator[tuple[_Line, KernelEvent]]:
    """The lines that say something, those joined that a terminal broke: a stamped line that says
    nothing by itself, with such lines behind it as have no stamp and say nothing either."""
    for index, line in enumerate(lines):
        event = _recognised(line.message)
        if event is None and line.stamped:
            event = _across(line.message, lines[index + 1 : index + _PIECES])
        if event is not None:
            yield line, event


def _across(message: str, following: list[_Line]) -> KernelEvent | None:
    for line in following:
        if line.stamped or _recognised(line.message) is not None:
            return None
        message += line.message
        event = _recognised(message)
        if event is not None:
            return event
    return None
