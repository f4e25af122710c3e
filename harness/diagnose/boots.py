"""How often and after how long each tenant node boots, read off what Kubernetes keeps of it.

Events are kept for an hour and a cycle takes 70 minutes, so containers tell more: all those of a
node end in one moment when it reboots, and the status of each keeps when its last run began and
ended (uptime_and_diagnosis sections 1 and 3).
"""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.diagnose.case import Text, Thing
from harness.facts.kernellog import KernelLog, What, read_console, read_dmesg
from harness.facts.objects import at_path, epoch, listed, mapped, text_at
from harness.facts.reply import Output

TIMER = 4200.0
"""Seconds of uptime after which Talos gives up a boot that did not end (TAL BootTimeout)."""
SHORT, LONG = 120.0, 200.0
"""Seconds by which what containers lived through may be shorter than the node's uptime (they start
after it does), and longer (their end is noted when the kubelet is back)."""
_TOGETHER = 60.0
"""Seconds within which all containers of a node end when it reboots."""
_CYCLES = 3
"""Containers that must have ended together for that to be a reboot."""


@dataclass(frozen=True, slots=True)
class Boots:
    """One node's boots as far as they can be told.

    ``restarts`` is the count of restarts that most of its containers share, ``sharing`` how many
    share it of ``containers``. ``last`` is how long the last boot lasted that ended, ``average``
    how long boots lasted on average (None for less than two), ``current`` how long this one
    lasts, all in seconds, None where it cannot be told. ``ids`` are boot ids seen.
    """

    node: str
    restarts: int
    sharing: int
    containers: int
    last: float | None
    average: float | None
    current: float | None
    ids: tuple[str, ...]
    events: tuple[str, ...]
    source: str

    @property
    def rebooted(self) -> bool:
        """Whether the node rebooted at all."""
        return self.last is not None or len(self.ids) > 1 or bool(self.events)

    @property
    def at_timer(self) -> bool:
        """Whether its boots end where Talos' timer ends them."""
        known = [one for one in (self.last, self.average) if one is not None]
        return bool(known) and all(is_timer(one) for one in known)

    @property
    def irregular(self) -> bool:
        """Whether a boot ended elsewhere than at the timer."""
        return self.last is not None and not is_timer(self.last) and self.last > SHORT

    @property
    def told(self) -> str:
        """The figures in words."""
        parts = [f"the last boot that ended lasted about {self.last:.0f} s"] if self.last else []
        if self.average is not None:
            parts.append(f"boots lasted {self.average:.0f} s on average ({self.restarts} of them)")
        if self.sharing > 1:
            counted = f"{self.sharing} of {self.containers} containers"
            parts.append(f"{counted} share one restart count, {self.restarts}")
        return "; ".join(parts)


def is_timer(seconds: float) -> bool:
    """Whether a boot of this length, as containers tell it, was ended by Talos' timer."""
    return TIMER - SHORT <= seconds <= TIMER + LONG


def boots_of(
    node: str, versions: Sequence[Thing], pods: Iterable[Thing], events: Iterable[Thing]
) -> Boots:
    """Put a node's boots together; ``pods`` are those on it, ``events`` those about the Node."""
    runs = [run for pod in pods for run in _runs(pod)]
    counts = Counter(run.count for run in runs)
    shared = max(counts, key=lambda count: (counts[count], count), default=0)
    ended = _together([run for run in runs if run.lived is not None])
    ids = dict.fromkeys(text_at(one.obj, "status", "nodeInfo", "bootID") for one in versions)
    return Boots(
        node=node,
        restarts=shared,
        sharing=counts[shared],
        containers=len(runs),
        last=_middle(run.lived for run in ended),
        average=_middle(run.average for run in ended if run.count == shared and shared > 1),
        current=_middle(run.runs_for for run in (ended or runs)),
        ids=tuple(one for one in ids if one),
        events=tuple(text_at(one.obj, "message") for one in events if _is_reboot(one)),
        source=versions[-1].source if versions else "",
    )


@dataclass(frozen=True, slots=True)
class _Run:
    """A container's last run that ended and its current one."""

    count: int
    ended: float | None
    lived: float | None
    average: float | None
    runs_for: float | None


def _runs(pod: Thing) -> Iterator[_Run]:
    begun = epoch(text_at(pod.obj, "status", "startTime")) or epoch(
        text_at(pod.obj, "metadata", "creationTimestamp")
    )
    for status in listed(pod.obj, "status", "containerStatuses"):
        count = at_path(status, "restartCount")
        last = mapped(status, "lastState", "terminated")
        started = epoch(text_at(status, "state", "running", "startedAt"))
        since, ended = epoch(text_at(last, "startedAt")), epoch(text_at(last, "finishedAt"))
        if not isinstance(count, int) or mapped(status, "state", "terminated"):
            continue
        known = started is not None and begun is not None and count > 0
        yield _Run(
            count=count,
            ended=ended,
            lived=ended - since if ended is not None and since is not None else None,
            average=(started - begun) / count if known and started and begun else None,
            runs_for=pod.at - started if pod.at is not None and started is not None else None,
        )


def _together(runs: list[_Run]) -> list[_Run]:
    """The runs that ended in one moment with most others: those that a reboot ended.

    A container that crashes by itself ends alone.
    """
    best: list[_Run] = []
    for one in runs:
        near = [
            run
            for run in runs
            if run.ended is not None and one.ended is not None
            if abs(run.ended - one.ended) <= _TOGETHER
        ]
        best = max(best, near, key=len)
    return best if len(best) >= _CYCLES else []


def _middle(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return statistics.median(known) if known else None


def _is_reboot(event: Thing) -> bool:
    return text_at(event.obj, "reason") == "Rebooted"


def kernel_log(text: Text) -> KernelLog | None:
    """A console's or a dmesg's text as a kernel log; None where it cannot be read."""
    if text.kind == "console":
        data = text.text.encode("utf-8", "surrogatepass")
        return read_console(data, lambda _: text.at or 0.0, at=text.at or 0.0, source=text.source)
    output = Output(("dmesg",), 0, text.text)
    found = read_dmesg(output, boot_id="", at=text.at or 0.0, source=text.source)
    return found if isinstance(found, KernelLog) else None


def banners(log: KernelLog) -> int:
    """How often a kernel began in a log."""
    return len(log.of(What.BANNER))
