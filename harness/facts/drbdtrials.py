"""What happened when a replicated volume was put to a trial: what was done, and what was seen.

A trial provokes one thing on a DRBD volume and undoes it. Its fact keeps what each node said
before, during and after, the bytes written and read by their checksums, and the records that fill
in what was seen between two looks: the history of ``drbdsetup events2`` and the kernel log
(lab/qemu_drbd.md, "Traps that a judge must know").
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.facts.drbd import ESTABLISHED, DrbdAbsent, DrbdHistory, DrbdLog
from harness.facts.drbdlooks import SYNCING, Look
from harness.facts.fact import Fact, Unread

BLOCK = 65536
"""Bytes of one block as trials count them."""
NOT_ALLOWED = 17
"""Exit status of drbdadm where a state change needs UpToDate data and there is none."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that was done. ``at`` is when it began, ``seconds`` how long it took, both by the
    lab's clock.

    ``exit_code`` is None where no status came back, and ``said`` then tells why; else ``said`` is
    what was printed. What has no exit status of its own (a machine's power, a link) has 0.
    """

    what: str
    node: str
    at: float
    seconds: float
    exit_code: int | None
    said: str

    @property
    def done(self) -> bool:
        """Whether it succeeded."""
        return self.exit_code == 0

    @property
    def refused(self) -> bool:
        """Whether it came back, and not with success."""
        return self.exit_code is not None and self.exit_code != 0

    def __str__(self) -> str:
        """As a sentence tells it."""
        came = "no exit status" if self.exit_code is None else f"exit status {self.exit_code}"
        told = " ".join(self.said.split())
        return f"{self.what} on {self.node}: {came}" + (f" ({told:.160})" if told else "")


@dataclass(frozen=True, slots=True)
class Extent:
    """``count`` blocks from block ``first`` on, written or read on one node.

    ``digest`` is the SHA-256 of the bytes as that node reads them, "" where they were not read.
    For what was written ``act`` is the writing, whose success is the acknowledgement; for what was
    read, the reading.
    """

    node: str
    first: int
    count: int
    digest: str
    act: Act

    @property
    def acknowledged_at(self) -> float:
        """When it was complete."""
        return self.act.at + self.act.seconds

    @property
    def place(self) -> tuple[int, int]:
        """Which blocks they are."""
        return self.first, self.count

    @property
    def known(self) -> bool:
        """Whether it was carried out and its bytes are known."""
        return self.act.done and bool(self.digest)


@dataclass(frozen=True, slots=True)
class Waited:
    """A wait for a state, asked every so often. ``came`` says whether it came within ``limit``
    seconds; ``seconds`` is how long it took, or was waited.

    ``looks`` are those that differ from the one before, the last one always.
    """

    what: str
    began: float
    seconds: float
    limit: float
    came: bool
    looks: tuple[Look, ...]

    @property
    def last(self) -> Look:
        """Where it ended."""
        return self.looks[-1]


@dataclass(frozen=True, slots=True)
class Sighting:
    """A node seen in a resync: ``state`` as far as told, ``by`` status, events2 or kernel log."""

    node: str
    state: str
    by: str

    def __str__(self) -> str:
        """As a sentence tells it."""
        return f"{self.node} {self.state or 'in a resync'} ({self.by})"


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """What a node kept of the trial: ``history`` of events2 and what is new in its kernel ``log``.

    A machine that was switched off has no history of the time before; its log begins anew.
    """

    node: str
    history: DrbdHistory | DrbdAbsent | Unread
    log: DrbdLog | Unread

    @property
    def replication(self) -> tuple[str, ...]:
        """The replication states that the history went through."""
        if not isinstance(self.history, DrbdHistory):
            return ()
        return self.history.states("peer-device", "replication")

    def count(self, what: str) -> int:
        """How many such entries the kernel log has (see `DrbdLogEntry`); 0 for one not read."""
        return len(self.log.of(what)) if isinstance(self.log, DrbdLog) else 0

    def logged(self, what: str) -> bool:
        """Whether the kernel log has such an entry."""
        return self.count(what) > 0


@dataclass(frozen=True, slots=True)
class Course:
    """What all trials have: what was done in order, and how the volume was before and after.

    ``version`` is the module's. ``after`` is the last look, once everything was undone; ``left``
    tells in words what could not be undone. ``resynced`` is the wait for the last resync, None in
    a trial that needs none. ``written`` and ``read`` are in the order in which they were done.
    """

    resource: str
    version: str
    before: Look
    after: Look
    acts: tuple[Act, ...]
    written: tuple[Extent, ...]
    read: tuple[Extent, ...]
    resynced: Waited | None
    records: tuple[NodeRecord, ...]
    seconds: float
    left: tuple[str, ...]

    def record(self, node: str) -> NodeRecord | None:
        """What this node kept."""
        return next((one for one in self.records if one.node == node), None)

    @property
    def resync_seen(self) -> tuple[Sighting, ...]:
        """Who was seen in a resync, and by what."""
        return tuple(dict.fromkeys(_sightings(self)))

    @property
    def resync_done(self) -> bool:
        """Whether the end of a resync was seen too: in a history or log, or by two looks."""
        looks = self.resynced.looks if self.resynced else ()
        syncing = [bool(v.resyncing) for one in looks for v in one.views]
        by_looks = any(syncing) and bool(looks) and looks[-1].in_sync
        return by_looks or any(_has_ended(one) for one in self.records)


@dataclass(frozen=True, slots=True)
class DrbdTrial(Fact):
    """One trial of a volume; each kind adds what is its own. ``origin.raw`` is all that was said.

    ``primary`` and ``secondary`` are the nodes that were so when it began.
    """

    course: Course
    primary: str
    secondary: str


@dataclass(frozen=True, slots=True)
class PlannedFailover(DrbdTrial):
    """The roles of two replicas exchanged and exchanged back. ``moved`` is the look between."""

    demoted: Act
    promoted: Act
    moved: Look


@dataclass(frozen=True, slots=True)
class ReplicaLoss(DrbdTrial):
    """The Secondary's machine switched off while the Primary writes, and on again.

    ``off`` is the switching off, ``alone`` the wait for the Primary to notice; ``boots`` are the
    machine's boot ids before and after, "" where not read.
    """

    off: Act
    alone: Waited
    boots: tuple[str, str]


@dataclass(frozen=True, slots=True)
class PrimaryLoss(DrbdTrial):
    """The Primary's machine switched off, the other promoted, the old one back.

    ``promoted`` is the promotion, without force; ``rejoined`` the look once the resync was over or
    given up, before any role is put back.
    """

    off: Act
    alone: Waited
    boots: tuple[str, str]
    promoted: Act
    rejoined: Look


@dataclass(frozen=True, slots=True)
class LinkLoss(DrbdTrial):
    """The link cut while the Primary writes, then healed.

    ``carrier``: both ends saw their carrier go; else frames vanished silently. ``noticed`` has
    for each of the two nodes the seconds from the cut to the first look at which it was connected
    to nobody, None where there was none within the limit of ``apart``.
    """

    carrier: bool
    cut: Act
    apart: Waited
    noticed: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class SplitBrain(DrbdTrial):
    """Both promoted while cut, both written to, healed, and recovered with the Secondary's side
    as the victim.

    ``kept`` was written by the survivor and ``lost`` by the victim, at one and the same place.
    ``met`` is the wait for both to stand alone after the link was healed; ``plain`` is what
    ``drbdadm status`` prints then, for each node: not a word of it. ``discarded`` is the victim's
    ``connect --discard-my-data``.
    """

    cut: Act
    promoted: Act
    kept: Extent
    lost: Extent
    met: Waited
    plain: tuple[tuple[str, str], ...]
    discarded: Act


@dataclass(frozen=True, slots=True)
class DiskLoss(DrbdTrial):
    """The backing disk of ``node`` gone, I/O after it, and the disk back.

    ``vanished``: the disk itself went away; else it was detached by force. ``quiet`` is the look
    before any I/O. ``io`` is the read (none where the Secondary's disk went) and the write that
    followed, on the Primary. ``failed`` is the wait for the disk to be told as gone.
    """

    node: str
    vanished: bool
    gone: Act
    quiet: Look
    io: tuple[Extent, ...]
    failed: Waited

    @property
    def under_primary(self) -> bool:
        """Whether it was the Primary's disk."""
        return self.node == self.primary


@dataclass(frozen=True, slots=True)
class OutdatedRefused(DrbdTrial):
    """A disconnected replica told that it is outdated, a promotion of it tried, reconnected.

    ``outdated`` is the look before the promotion, ``refused`` the one after it.
    """

    outdated: Look
    promoted: Act
    refused: Look


@dataclass(frozen=True, slots=True)
class VerifyFound(DrbdTrial):
    """Blocks made different behind DRBD's back on the Secondary, a verify, a resync, and another
    verify.

    ``damaged`` is the writing to the disk below; ``quiet`` the look when the replicas were
    connected again, ``found`` the one after the verify, ``clean`` the one after the second.
    ``verified`` are the two waits for a verify's end. ``sound`` is what the damaged place held.
    """

    damaged: Act
    sound: Extent
    quiet: Look
    verified: tuple[Waited, Waited]
    found: Look
    clean: Look


@dataclass(frozen=True, slots=True)
class QuorumLoss(DrbdTrial):
    """The Primary cut off from the majority with a write under way, and the link healed.

    ``lost`` is the wait for it to know of no quorum; ``pending`` what was known of the write just
    before the link was healed, ``ended`` what came of it after. Neither has an exit status while
    the write stands still.
    """

    lost: Waited
    pending: Act
    ended: Act


def _sightings(course: Course) -> Iterator[Sighting]:
    for one in course.resynced.looks if course.resynced else ():
        for view in one.views:
            yield from (Sighting(view.node, state, "status") for state in view.resyncing)
    for record in course.records:
        seen = [state for state in record.replication if state in SYNCING]
        yield from (Sighting(record.node, state, "events2") for state in seen)
        if record.logged("resync started"):
            yield Sighting(record.node, "", "kernel log")


def _has_ended(record: NodeRecord) -> bool:
    states = record.replication
    syncing = [place for place, state in enumerate(states) if state in SYNCING]
    return record.logged("resync done") or (
        bool(syncing) and ESTABLISHED in states[syncing[-1] + 1 :]
    )
