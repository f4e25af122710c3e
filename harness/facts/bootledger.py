"""What is known of one worker's boots from its pool's bring-up on, in the order of its times.

Events expire after an hour, which is less than one cycle of reboots (uptime_and_diagnosis section
3): the ledger keeps each as it was streamed. So it does with the identities that tell a reboot from
another machine, and with the restart counts that go up together when a machine goes down.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from harness.facts.boots import BootSample, WorkerGone
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.kernellog import KernelLog

TOGETHER = 60.0
"""Seconds within which restarts of several pods are told in one entry."""
_NAMED = 6  # pods that such an entry names
_QUOTED = 200
_CONSOLE = 200  # events of a console that a ledger keeps, the last ones

Sample = BootSample | WorkerGone | Unread
Log = KernelLog | Unread


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing that was seen: ``at`` in epoch seconds of the lab.

    ``what`` is "boot" (this boot id from now on; ``uptime`` 0 where a look told when it began,
    None where its Node alone showed it), "look" (asked of the machine), "vmi", "launcher",
    "machine", "node" (a UID that came or went), "restarts", "event", "console", or "gap" (something
    may have been missed). ``boot_id`` and ``uptime``, in seconds, are of boots and looks.
    """

    at: float
    what: str
    boot_id: str = ""
    uptime: float | None = None
    text: str = ""


@dataclass(frozen=True, slots=True)
class BootLedger(Fact):
    """The boots of one worker between ``since`` and ``until``, epoch seconds.

    ``machine`` is its Machine, "" for one of no cluster; ``limit`` the uptime in seconds at which a
    boot that does not end is given up, ``soak`` how old one is to get.
    """

    node: str
    machine: str
    since: float
    until: float
    limit: float
    soak: float
    entries: tuple[Entry, ...]

    @property
    def boots(self) -> tuple[Entry, ...]:
        """The entries of boots, in order."""
        return tuple(one for one in self.entries if one.what == "boot")


@dataclass(frozen=True, slots=True)
class Restart:
    """A container's restart count was seen to be higher: ``count`` now, by ``more`` than before."""

    at: float
    pod: str
    container: str
    count: int
    more: int


@dataclass(frozen=True, slots=True)
class PodStay:
    """A pod that is to run for good on a node: seen from ``since`` until ``until``, None while it
    is there."""

    pod: str
    since: float
    until: float | None = None


@dataclass(frozen=True, slots=True)
class PodRestarts(Fact):
    """The pods of one node, and each time that a restart count of theirs went up."""

    node: str
    pods: tuple[PodStay, ...]
    restarts: tuple[Restart, ...]


@dataclass(frozen=True, slots=True)
class NodeBoot:
    """A boot id as a Node showed it, first seen at ``at``; ``node_uid`` is the Node's."""

    at: float
    boot_id: str
    node_uid: str


@dataclass(frozen=True, slots=True)
class Seen:
    """What watches showed of one worker, beside looks at the machine itself.

    ``others`` are the entries that need no looks to be told.
    """

    boots: tuple[NodeBoot, ...] = ()
    restarts: tuple[Restart, ...] = ()
    others: tuple[Entry, ...] = ()


NOTHING_SEEN = Seen()


def boot_ledger(
    node: str,
    machine: str,
    *,
    since: float,
    until: float,
    limit: float,
    soak: float,
    samples: Sequence[Sample],
    logs: Sequence[Log] = (),
    seen: Seen = NOTHING_SEEN,
) -> BootLedger:
    """Everything that is known of a worker's boots, in order."""
    entries = [
        *_boots(samples, seen.boots),
        *map(_look, samples),
        *_restarts(seen.restarts),
        *seen.others,
        *_console(logs),
    ]
    entries.sort(key=lambda one: one.at)  # what is of one moment stays in the order above
    origin = Origin(until, f"boots of {node}: watches, looks and its console", "")
    return BootLedger(origin, node, machine, since, until, limit, soak, tuple(entries))


def _boots(samples: Sequence[Sample], told: Sequence[NodeBoot]) -> Iterator[Entry]:
    """Each boot once it is another than the one before, at its beginning where a look tells it."""
    looks = [one for one in samples if isinstance(one, BootSample)]
    began = {one.boot_id: one.began for one in reversed(looks)}
    shown = {one.boot_id: one for one in reversed(told)}
    first_seen = [
        *((began.get(one.boot_id, one.at), one.boot_id) for one in told),
        *((one.began, one.boot_id) for one in looks if one.boot_id not in shown),
    ]
    before = uid = ""
    for at, boot_id in sorted(first_seen):
        if boot_id == before:
            continue
        by_node = shown.get(boot_id)
        became = f"boot {before} became {boot_id}" if before else f"boot {boot_id}"
        if by_node is not None and uid and by_node.node_uid != uid:
            became += f", of another Node (UID {by_node.node_uid})"
        how = "its Node shows it" if by_node is not None else "a look found it"
        uptime = 0.0 if boot_id in began else None
        yield Entry(at, "boot", boot_id, uptime, f"{became}: {how}")
        before, uid = boot_id, by_node.node_uid if by_node is not None else uid


def _look(sample: Sample) -> Entry:
    at = sample.origin.at
    if isinstance(sample, BootSample):
        ready = "Ready" if sample.node_ready else "not Ready"
        return Entry(at, "look", sample.boot_id, sample.uptime, ready)
    if isinstance(sample, WorkerGone):
        told = sample.taken or f"no {', '.join(sample.gone)} any more"
        return Entry(at, "look", text=told)
    return Entry(at, "look", text=f"{sample.asked} could not be read: {sample.reason}"[:_QUOTED])


def _restarts(restarts: Iterable[Restart]) -> Iterator[Entry]:
    """Restarts that came together, in one entry each."""
    group: list[Restart] = []
    for one in sorted(restarts, key=lambda one: one.at):
        if group and one.at - group[0].at > TOGETHER:
            yield _together(group)
            group = []
        group.append(one)
    if group:
        yield _together(group)


def _together(group: Sequence[Restart]) -> Entry:
    pods = list(dict.fromkeys(one.pod for one in group))
    alike = {one.more for one in group}
    by = f"+{alike.pop()}" if len(alike) == 1 else "restarted"
    names = ", ".join(pods[:_NAMED]) + (f" and {len(pods) - _NAMED} more" * (len(pods) > _NAMED))
    many = f"{len(pods)} pod{'s' * (len(pods) != 1)}"
    return Entry(group[0].at, "restarts", text=f"{many} {by}: {names}")


def _console(logs: Sequence[Log]) -> list[Entry]:
    found = [
        Entry(event.shown, "console", text=event.said[:_QUOTED])
        for log in logs
        if isinstance(log, KernelLog)
        for event in log.events
        if event.shown is not None
    ]
    return found[-_CONSOLE:]
