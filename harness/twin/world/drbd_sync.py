"""DRBD 9's resync and online verify: blocks taken over as time passes, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.drbd_blocks import BLOCK_KIB
from harness.twin.world.drbd_state import (
    BITMAP_SOURCE,
    ESTABLISHED,
    INCONSISTENT,
    JUST_CREATED,
    PAUSED_SOURCE,
    PAUSED_TARGET,
    SYNC_SOURCE,
    SYNC_TARGET,
    UP_TO_DATE,
    VERIFY_SOURCE,
    VERIFY_TARGET,
    Peer,
    Replica,
    Sync,
)

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource

_TICK = 1.0  # seconds between two tellings of how far it has come
_WINDS_UP = 0.02  # seconds from the last block until both have taken it in


class Syncs:
    """Every resync and verify of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._engine = resource.engine

    # -- resync

    def start(self, source: Replica, target: Replica) -> None:
        """Both have each other's bitmap: let blocks go, or wait for another resync to end."""
        there, back = source.peers[target.node_id], target.peers[source.node_id]
        if not (there.connected and back.connected and there.replication == BITMAP_SOURCE):
            return
        self.catch_up()
        self._resource.set_disk(target, INCONSISTENT)
        busy = any(one.replication == SYNC_TARGET for one in target.peers.values())
        total = there.out_of_sync
        for peer, replica in ((there, source), (back, target)):
            peer.sync = Sync(total, self._engine.now)
            side = "SyncSource" if peer is there else "SyncTarget"
            text = f"Began resync as {side} (will sync {total} KB [{total // 4} bits set])."
            self._resource.say(replica, "peer-device", peer, text)
        there.replication = PAUSED_SOURCE if busy else SYNC_SOURCE
        back.replication = PAUSED_TARGET if busy else SYNC_TARGET
        self._resource.commit("receive-bitmap")
        if not busy:
            self._watch(source, target)

    def catch_up(self) -> None:
        """Take over the blocks for which there has been time."""
        for source, target in self._running():
            self._advance(source, target)
        for replica in self._resource.running():
            for peer in replica.connected():
                if peer.replication in (VERIFY_SOURCE, VERIFY_TARGET) and peer.sync is not None:
                    peer.sync.copied = self._due(peer.sync)

    def _running(self) -> list[tuple[Replica, Replica]]:
        return [
            (source, self._resource.replica(peer.node_id))
            for source in self._resource.running()
            for peer in source.connected()
            if peer.replication == SYNC_SOURCE
        ]

    def _due(self, sync: Sync) -> int:
        """Blocks that are to be done by now."""
        rate = self._resource.settings.rate / BLOCK_KIB
        most = int(sync.total / BLOCK_KIB * self._resource.ground.spoilt.stall)
        return min(int((self._engine.now - sync.began) * rate + 1e-6), most)

    def _advance(self, source: Replica, target: Replica) -> None:
        there, back = source.peers[target.node_id], target.peers[source.node_id]
        sync = there.sync
        if sync is None or back.sync is None:
            return
        if not self._resource.ground.reaches(source.host, target.host):
            sync.began = self._engine.now - sync.copied * BLOCK_KIB / self._resource.settings.rate
            return
        due = self._due(sync) - sync.copied
        taken = there.bits.first(due)
        sync.copied = back.sync.copied = sync.copied + max(due, 0)
        if not target.forgets_writes:
            target.data.copy(source.data, taken)
        count = sum(end - start for start, end in taken) * BLOCK_KIB
        there.sent += count
        back.received += count
        source.read += count
        target.written += count
        for start, end in taken:
            self.in_sync(target, start, end)

    def in_sync(self, target: Replica, start: int, end: int) -> None:
        """A node has good data in some blocks: nobody counts it as lacking them any more."""
        for other in self._resource.replicas:
            if other is target:
                continue
            theirs, mine = other.peers[target.node_id], target.peers[other.node_id]
            if theirs.connected and other.disk == UP_TO_DATE:
                theirs.bits.clear(start, end)
                mine.bits.clear(start, end)

    def _watch(self, source: Replica, target: Replica) -> None:
        """Look again when all should be done, and every second until then to tell of it."""
        key = f"resync {source.node_id}-{target.node_id} goes on"
        there = source.peers[target.node_id]
        left = there.out_of_sync / self._resource.settings.rate
        stalled = self._resource.ground.spoilt.stall < 1.0

        def look() -> None:
            if there.replication != SYNC_SOURCE or not there.connected:
                return
            self.catch_up()
            if not there.bits:
                self._finish(source, target)
                return
            self._resource.commit("")
            self._watch(source, target)

        if not stalled or self._due(there.sync or Sync(0, 0.0)) < self._most(there):
            self._resource.later(key, min(left + _WINDS_UP, _TICK), look)

    def _most(self, peer: Peer) -> int:
        total = peer.sync.total if peer.sync is not None else 0
        return int(total / BLOCK_KIB * self._resource.ground.spoilt.stall)

    def _finish(self, source: Replica, target: Replica) -> None:
        there, back = source.peers[target.node_id], target.peers[source.node_id]
        for replica, peer in ((source, there), (target, back)):
            assert peer.sync is not None
            took = max(1, round(self._engine.now - peer.sync.began))
            speed = peer.sync.total // took
            text = f"Resync done (total {took} sec; paused 0 sec; {speed} K/sec)"
            self._resource.say(replica, "peer-device", peer, text)
        if target.current != source.current:
            target.history = [target.current, *target.history][:2]
            target.current = source.current
        for other in self._resource.replicas:
            if other is not target:
                self._settled(other, target)
        self._resource.helper(target, "after-resync-target", back, device=True)
        self._resource.set_disk(target, UP_TO_DATE)
        self._resource.commit("resync-finished")

    def _settled(self, other: Replica, target: Replica) -> None:
        """What another node, the source or one that waited, knows once a target is good."""
        theirs, mine = other.peers[target.node_id], target.peers[other.node_id]
        if not theirs.connected or other.disk != UP_TO_DATE:
            return
        old = theirs.bitmap_uuid
        if old:
            other.history = [old, *other.history][:2]
        for peer in (theirs, mine):
            peer.bits.empty()
            peer.bitmap_uuid, peer.sync, peer.replication = 0, None, ESTABLISHED

    def left(self, replica: Replica) -> None:
        """A node has lost a peer: a resync that waited for the one with it goes on."""
        for peer in replica.connected():
            other = self._resource.replica(peer.node_id)
            pair = {PAUSED_TARGET: (other, replica), PAUSED_SOURCE: (replica, other)}
            if peer.replication not in pair:
                continue
            source, target = pair[peer.replication]
            if any(one.replication == SYNC_TARGET for one in target.peers.values()):
                continue
            there, back = source.peers[target.node_id], target.peers[source.node_id]
            there.replication, back.replication = SYNC_SOURCE, SYNC_TARGET
            there.sync = Sync(there.out_of_sync, self._engine.now)
            back.sync = Sync(there.out_of_sync, self._engine.now)
            self._watch(source, target)

    # -- data that are good because somebody says so

    def forced(self, replica: Replica) -> None:
        """A node's data were called good: they are a generation of their own."""
        if replica.current != JUST_CREATED:
            replica.history = [replica.current, *replica.history][:2]
        replica.current = self._resource.generation()

    def spread(self, replica: Replica) -> None:
        """Bring up whole from a node whoever is connected and has not such data."""
        others = [self._resource.replica(peer.node_id) for peer in replica.connected()]
        lacking = [other for other in others if other.disk == INCONSISTENT]
        for one in lacking:
            for other in lacking:
                if one is not other:
                    one.peers[other.node_id].bits.set(0, self._resource.blocks)
            self._resource.links.resync(replica, one)

    # -- verify

    def verify(self, replica: Replica, peer: Peer) -> None:
        """Compare a node's data with a peer's, all of it."""
        other = self._resource.replica(peer.node_id)
        back = other.peers[replica.node_id]
        for each in (peer, back):
            each.sync = Sync(self._resource.size, self._engine.now)
        peer.replication, back.replication = VERIFY_SOURCE, VERIFY_TARGET
        self._resource.commit("verify")
        seconds = self._resource.size / self._resource.settings.rate + _WINDS_UP

        def compared() -> None:
            if peer.connected and peer.replication == VERIFY_SOURCE:
                self._compared(replica, other)

        self._resource.later(f"verify {replica.node_id}-{other.node_id}", seconds, compared)

    def _compared(self, replica: Replica, other: Replica) -> None:
        found = [] if self._resource.ground.spoilt.blind else replica.data.differs(other.data)
        for node, peer in (
            (replica, replica.peers[other.node_id]),
            (other, other.peers[replica.node_id]),
        ):
            assert peer.sync is not None
            for number in found:
                peer.bits.set(number, number + 1)
            for start, end in peer.bits if found else ():
                text = f"Out of sync: start={start * 8}, size={(end - start) * 8} (sectors)"
                self._resource.say(node, "peer-device", peer, text)
            took = max(1, round(self._engine.now - peer.sync.began))
            speed = self._resource.size // took
            text = f"Online verify done (total {took} sec; paused 0 sec; {speed} K/sec)"
            self._resource.say(node, "peer-device", peer, text)
            if found:
                text = f"Online verify found {len(found)} 4k blocks out of sync!"
                self._resource.say(node, "peer-device", peer, text)
            peer.replication, peer.sync = ESTABLISHED, None
        self._resource.commit("verify-finished")
        if found:
            peer = replica.peers[other.node_id]
            self._resource.helper(replica, "out-of-sync", peer, device=True)
