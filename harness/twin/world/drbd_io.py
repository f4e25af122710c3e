"""I/O on a DRBD device: opened, written, read, held up, failed.

Promotion on open and what a node without data answers: drbd.conf(5) (auto-promote), LINBIT drbd,
drbd/drbd_main.c; suspended and failed I/O: captures 07 to 09 (lab/qemu_drbd.md).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.twin.world.drbd_blocks import BLOCK, KIB, Disk
from harness.twin.world.drbd_state import (
    DISKLESS,
    DUNKNOWN,
    FAILED,
    PRIMARY,
    SECONDARY,
    UP_TO_DATE,
    Peer,
    Replica,
    Request,
)

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource

READ_ONLY = "Read-only file system"
NO_DATA = "No data available"
IO_ERROR = "Input/output error"
_NO_DISK = (DISKLESS, FAILED, DUNKNOWN)


@dataclass(slots=True, eq=False)
class _Reading:
    """A read that waits: a range, and who is given its bytes or an errno's words."""

    offset: int
    length: int
    done: Callable[[bytes, str], None]


class Io:
    """The I/O of one resource's nodes."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._readings: dict[int, list[_Reading]] = {}
        self._pumping: set[int] = set()

    # -- opening

    def open(self, replica: Replica, *, writes: bool) -> str:
        """Open the device; "" or why not, in an errno's words.

        A node is promoted for a writer, as auto-promote has it; a reader needs data that it can
        reach.
        """
        if not writes:
            return "" if self.source(replica) is not None or replica.frozen else NO_DATA
        if replica.failing:
            return IO_ERROR
        if replica.role != PRIMARY:
            if self.refusal(replica):
                return READ_ONLY
            self.promote(replica)
            replica.promoted = True
        replica.openers += 1
        return ""

    def close(self, replica: Replica) -> None:
        """A writer closes the device; the last one demotes a node that the first promoted."""
        replica.openers = max(0, replica.openers - 1)
        if replica.openers or not replica.up:
            return
        if replica.promoted and replica.role == PRIMARY:
            self.demote(replica, "auto-demote")
        if replica.failing and replica.role == SECONDARY:
            replica.failing = False
            self._resource.commit("release")

    def refusal(self, replica: Replica) -> int:
        """Why a node may not be promoted, as the number of DRBD's state error; 0 where it may."""
        if any(peer.role == PRIMARY for peer in replica.connected()):
            return -1
        if self._somebody_is_primary(replica):
            return -10
        lenient = self._resource.ground.spoilt.promotes_outdated
        if self.source(replica) is None and not lenient:
            return -2
        return 0 if replica.quorum or lenient else -25

    def _somebody_is_primary(self, replica: Replica) -> bool:
        """Whether a peer refuses because it knows of a Primary that the node does not reach."""
        reaches = self._resource.ground.reaches
        return any(
            view.role == PRIMARY and reaches(peer.name, view.name)
            for peer in replica.connected()
            if reaches(replica.host, peer.name)
            for view in self._resource.replica(peer.node_id).connected()
            if view.node_id != replica.node_id
        )

    def promote(self, replica: Replica) -> None:
        """Make a node Primary."""
        self._resource.set_role(replica, PRIMARY)
        replica.promoted = False
        if any(peer.disk in _NO_DISK for peer in replica.peers.values()):
            replica.new_generation = True
        self._resource.commit("primary")

    def demote(self, replica: Replica, why: str) -> None:
        """Make a node Secondary."""
        self._resource.set_role(replica, SECONDARY)
        replica.promoted = replica.new_generation = False
        self._resource.commit(why)

    def force_secondary(self, replica: Replica) -> None:
        """A frozen Primary gives way to newer data: its I/O fails until whoever has it closes."""
        replica.failing = replica.openers > 0
        self._resource.say(replica, "resource", None, "Failing IOs")
        self._resource.set_role(replica, SECONDARY)
        replica.promoted = False
        self._resource.commit("connect-failed")

    def source(self, replica: Replica) -> Replica | None:
        """Who has good data for a node: it itself, or a peer that it talks to."""
        if replica.disk == UP_TO_DATE:
            return replica
        if self._resource.ground.spoilt.local_only:
            return None
        for peer in replica.connected():
            other = self._resource.replica(peer.node_id)
            if peer.disk == UP_TO_DATE and self._resource.ground.reaches(replica.host, other.host):
                return other
        return None

    # -- requests

    def write(
        self, replica: Replica, offset: int, data: bytes, done: Callable[[str], None]
    ) -> None:
        """Write; ``done`` is given "" once every connected node has it, or an errno's words."""
        replica.requests.append(Request(offset, data, done))
        self.pump(replica)

    def read(
        self, replica: Replica, offset: int, length: int, done: Callable[[bytes, str], None]
    ) -> None:
        """Read; ``done`` is given the bytes, or an errno's words."""
        self._readings.setdefault(replica.node_id, []).append(_Reading(offset, length, done))
        self.pump(replica)

    def pump(self, replica: Replica) -> None:
        """Let requests go on that may."""
        if replica.node_id in self._pumping:
            return
        self._pumping.add(replica.node_id)
        try:
            while self._step(replica):
                pass
        finally:
            self._pumping.discard(replica.node_id)

    def _step(self, replica: Replica) -> bool:
        """Bring one request to an end; False where none can be."""
        fails = replica.failing or self._errs(replica)
        if not fails and replica.frozen:
            return False
        for request in tuple(replica.requests):
            if fails:
                self._fail(replica, request)
                return True
            if not request.submitted:
                self._submit(replica, request)
            if replica.frozen:
                return False
            if not request.awaited:
                if request.missed:
                    self._begin_generation(replica)
                replica.requests.remove(request)
                request.done("")
                return True
        return self._serve(replica, failing=fails)

    def _errs(self, replica: Replica) -> bool:
        """Whether I/O fails instead of standing still: without quorum, or without any data."""
        settings = self._resource.settings
        if settings.on_no_quorum == "io-error" and not replica.quorum:
            return True
        return settings.on_no_data_accessible == "io-error" and self.source(replica) is None

    def _fail(self, replica: Replica, request: Request) -> None:
        replica.requests.remove(request)
        block = request.offset // BLOCK
        text = f"Buffer I/O error on device drbd{self._resource.minor}, logical block {block}"
        self._resource.log(replica, text)
        request.done(IO_ERROR)

    def _serve(self, replica: Replica, *, failing: bool) -> bool:
        waiting = self._readings.get(replica.node_id) or []
        if not waiting:
            return False
        reading = waiting.pop(0)
        self._notice_disk(replica)
        source = None if failing else self.source(replica)
        if source is None:
            reading.done(b"", IO_ERROR)
            return True
        self._resource.catch_up()
        replica.read += reading.length // KIB
        reading.done(source.data.read(reading.offset, reading.length), "")
        return True

    def _submit(self, replica: Replica, request: Request) -> None:
        self._notice_disk(replica)
        if replica.frozen:
            return
        self._resource.catch_up()
        request.submitted = True
        self._begin_generation(replica)
        start, end = request.blocks
        written = Disk()
        written.write(request.offset, request.data)
        if replica.disk not in _NO_DISK:
            self._put(replica, request, written)
        else:
            self._lacks_own(replica, start, end)
        for peer in replica.peers.values():
            other = self._resource.replica(peer.node_id)
            if not peer.connected or peer.disk in _NO_DISK:
                self._miss(replica, peer, start, end)
            elif self._resource.ground.reaches(replica.host, other.host):
                self._deliver(replica, peer, request, written)
            else:
                request.awaited.add(peer.node_id)
        replica.al_writes += 1

    def _put(self, replica: Replica, request: Request, written: Disk) -> None:
        replica.written += len(request.data) // KIB
        if request.offset % BLOCK or len(request.data) % BLOCK:
            replica.data.write(request.offset, request.data)
        else:
            replica.data.copy(written, [request.blocks])

    def _deliver(self, replica: Replica, peer: Peer, request: Request, written: Disk) -> None:
        other = self._resource.replica(peer.node_id)
        peer.sent += len(request.data) // KIB
        other.peers[replica.node_id].received += len(request.data) // KIB
        if other.forgets_writes:
            other.written += len(request.data) // KIB
            return
        self._put(other, request, written)
        other.al_writes += 1
        self._resource.syncs.in_sync(other, *request.blocks)

    def _miss(self, replica: Replica, peer: Peer, start: int, end: int) -> None:
        """Keep in mind that a node lacks some blocks; whoever is connected does so too."""
        end = max(end, start + 1)
        for node in (
            replica,
            *(self._resource.replica(one.node_id) for one in replica.connected()),
        ):
            if node.node_id != peer.node_id:
                node.peers[peer.node_id].bits.set(start, end)

    def _lacks_own(self, replica: Replica, start: int, end: int) -> None:
        """The writer itself has no disk: its peers keep in mind what it will lack."""
        for peer in replica.connected():
            if peer.disk not in _NO_DISK:
                other = self._resource.replica(peer.node_id)
                other.peers[replica.node_id].bits.set(start, max(end, start + 1))

    def _begin_generation(self, replica: Replica) -> None:
        """The first write after a node was lost begins a new generation of data."""
        if not replica.new_generation:
            return
        replica.new_generation = False
        old, new = replica.current, self._resource.generation()
        text = f"new current UUID: {new | 1:016X} weak: FFFFFFFFFFFFFFF8"
        self._resource.say(replica, "device", None, text)
        others = [self._resource.replica(peer.node_id) for peer in replica.connected()]
        # what has no disk cannot keep it: that disk stays of the generation that it had
        here = [node for node in (replica, *others) if node.disk == UP_TO_DATE]
        for node in here:
            node.current = new
        ids = {node.node_id for node in here}
        for node in here:
            for peer in node.peers.values():
                if peer.node_id not in ids and not peer.bitmap_uuid:
                    peer.bitmap_uuid = old

    def _notice_disk(self, replica: Replica) -> None:
        """The first I/O finds that the device below is gone (trap 4 of lab/qemu_drbd.md)."""
        if not replica.lost_disk or replica.disk in _NO_DISK:
            return
        self._resource.say(replica, "device", None, "write: error=10 s=0s")
        self._resource.set_disk(replica, FAILED)
        self._resource.commit("io-error")
        self._resource.say(replica, "device", None, "Local IO failed. Detaching...")
        self._resource.set_disk(replica, DISKLESS)
        self._mark_lost(replica)
        self._resource.commit("detach")

    def _mark_lost(self, replica: Replica) -> None:
        for peer in replica.connected():
            other = self._resource.replica(peer.node_id)
            if other.role == PRIMARY:
                other.new_generation = True
        replica.new_generation = replica.role == PRIMARY

    def detach(self, replica: Replica) -> None:
        """Somebody lets go of the device below."""
        self._resource.catch_up()
        self._resource.set_disk(replica, "Detaching")
        self._resource.commit("detach")
        self._resource.set_disk(replica, DISKLESS)
        self._mark_lost(replica)
        self._resource.commit("detach")

    # -- what happens to peers

    def peer_lost(self, replica: Replica, peer: Peer) -> None:
        """A peer will not acknowledge anything any more."""
        for request in replica.requests:
            if peer.node_id in request.awaited:
                request.awaited.discard(peer.node_id)
                request.missed = True
                self._miss(replica, peer, *request.blocks)

    def delivered(self, one: Replica, other: Replica) -> None:
        """Frames pass again between two nodes that have not given each other up."""
        for replica, back in ((one, other), (other, one)):
            peer = replica.peers[back.node_id]
            if not peer.connected or not back.peers[replica.node_id].connected:
                continue
            for request in replica.requests:
                if back.node_id in request.awaited:
                    request.awaited.discard(back.node_id)
                    written = Disk()
                    written.write(request.offset, request.data)
                    self._deliver(replica, peer, request, written)
            self.pump(replica)

    def abandon(self, replica: Replica) -> None:
        """The kernel is gone: nobody is told how requests ended, and the log of active blocks
        makes sure that they are brought in sync."""
        for request in replica.requests:
            for peer in replica.peers.values():
                if request.submitted:
                    peer.bits.set(*request.blocks)
        replica.requests.clear()
        self._readings.pop(replica.node_id, None)
