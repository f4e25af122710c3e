"""DRBD 9's connections: made, broken, made again, and what two nodes decide when they meet.

States, order and the kernel's words: dmesg_drbd9_n1.txt of lab/captures; the rules by which
generations are compared: LINBIT drbd, drbd/drbd_receiver.c.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world.drbd_meetings import SPLIT, UNRELATED, Meeting, compare
from harness.twin.world.drbd_state import (
    BITMAP_SOURCE,
    BITMAP_TARGET,
    CONNECTED,
    CONNECTING,
    CONSISTENT,
    DISCONNECTING,
    DISKLESS,
    DUNKNOWN,
    ESTABLISHED,
    FAILED,
    INCONSISTENT,
    NETWORK_FAILURE,
    OFF,
    OUTDATED,
    PRIMARY,
    SECONDARY,
    STANDALONE,
    TEAR_DOWN,
    UNCONNECTED,
    UNKNOWN,
    UP_TO_DATE,
    Peer,
    Replica,
)

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource

_FEATURES = (
    "Feature flags enabled on protocol level: 0x7f TRIM THIN_RESYNC WRITE_SAME WRITE_ZEROES "
    "RESYNC_DAGTAG"
)
_CLOSED = (0.1, 0.5)  # seconds from a failure until the next try begins (captures)
_SHARE = (0.2, 0.7)  # of connect-int until two nodes that look for each other meet (captures)
_RESYNC_BEGINS = 0.15  # seconds from a handshake until blocks go (captures)


class Connections:
    """Every connection of one resource."""

    def __init__(self, resource: Resource) -> None:
        self._resource = resource
        self._engine = resource.engine

    # -- making one

    def connect(self, replica: Replica, peer: Peer, *, discards: bool = False) -> None:
        """Begin to look for a peer."""
        peer.discards = discards
        peer.connection = UNCONNECTED
        self._resource.commit("connect")
        self._look(replica, peer)

    def _look(self, replica: Replica, peer: Peer) -> None:
        peer.connection = CONNECTING
        self._resource.commit("connecting")
        self.attempt(replica, self._resource.replica(peer.node_id))

    def attempt(self, one: Replica, other: Replica) -> None:
        """Have two nodes that look for each other meet, if they can."""
        if not self._may_meet(one, other):
            return
        seconds = self._resource.ground.rng.uniform(0.2, 0.7) * self._resource.settings.connect_int
        self._resource.later(
            f"connects {_pair(one, other)}", seconds, lambda: self._meet(one, other)
        )

    def _may_meet(self, one: Replica, other: Replica) -> bool:
        ground = self._resource.ground
        looking = all(
            a.up and a.peers[b.node_id].connection == CONNECTING
            for a, b in ((one, other), (other, one))
        )
        return looking and ground.connects(one.host, other.host)

    def _meet(self, one: Replica, other: Replica) -> None:
        if not self._may_meet(one, other):
            return
        self._resource.catch_up()
        meeting = compare(one, other)
        if meeting.how == SPLIT:
            meeting = self._solve(meeting, one, other)
        for replica, peer in _sides(one, other):
            self._introduce(replica, peer, meeting)
        if meeting.how in (SPLIT, UNRELATED):
            self._refuse(one, other, meeting)
        elif meeting.target is not None and meeting.target.role == PRIMARY:
            self._outdated_primary(meeting)
        elif meeting.target is not None and meeting.source is not None:
            self._begin_sync(meeting.source, meeting.target, whole=meeting.how == "set-bitmap")
        else:
            self._agree(one, other)

    def _introduce(self, replica: Replica, peer: Peer, meeting: Meeting) -> None:
        say = self._resource.say
        number = self._resource.ground.rng.getrandbits(32)
        other = self._resource.replica(peer.node_id)
        node = f"Handshake to peer {peer.node_id} successful: Agreed network protocol version 123"
        say(replica, "connection", peer, node)
        say(replica, "connection", peer, _FEATURES)
        say(
            replica,
            "resource",
            None,
            f"Preparing cluster-wide state change {number}: {replica.node_id}->{peer.node_id} "
            f"role( {replica.role} ) conn( Connected )",
        )
        say(replica, "peer-device", peer, "drbd_sync_handshake:")
        for who, each, back in (("self", replica, peer.node_id), ("peer", other, replica.node_id)):
            text = f"{who} {_generations(each, back)} bits:{len(each.peers[back].bits)} flags:120"
            say(replica, "peer-device", peer, text)
        say(replica, "peer-device", peer, f"uuid_compare()={meeting.told(replica)}")
        if meeting.how not in (SPLIT, UNRELATED):
            primaries = [one for one in (replica, other) if one.role == PRIMARY]
            mask = sum(1 << one.node_id for one in primaries)
            text = f"State change {number}: primary_nodes={mask:X}, weak_nodes=0"
            say(replica, "resource", None, text)
            text = f"Committing cluster-wide state change {number} (40ms)"
            say(replica, "resource", None, text)

    def _agree(self, one: Replica, other: Replica) -> None:
        """Both have the same data, or one has no disk to compare."""
        for _, peer in _sides(one, other):
            self._join(peer)
            if peer.bitmap_uuid:
                peer.bitmap_uuid = 0
                peer.bits.empty()
        for replica, peer in _sides(one, other):
            doubtful = (CONSISTENT, OUTDATED)
            good = peer.disk == UP_TO_DATE or (peer.disk == replica.disk == CONSISTENT)
            if replica.disk in doubtful and good and replica.current == self._of(peer).current:
                replica.marked = UP_TO_DATE
        for replica, peer in _sides(one, other):
            if replica.marked == UP_TO_DATE and replica.disk in (CONSISTENT, OUTDATED):
                self._resource.set_disk(replica, UP_TO_DATE)
            peer.replication = ESTABLISHED
        self._resource.commit("connected")

    def _join(self, peer: Peer) -> None:
        other = self._of(peer)
        peer.connection, peer.role, peer.disk = CONNECTED, other.role, other.disk
        peer.known_diskless, peer.discards = False, False
        peer.received = peer.sent = 0

    def _begin_sync(self, source: Replica, target: Replica, *, whole: bool) -> None:
        there, back = source.peers[target.node_id], target.peers[source.node_id]
        why = "peer-state" if there.connected else "connected"
        self._join(there)
        self._join(back)
        if whole:
            there.bits.set(0, self._resource.blocks)
        there.bits.add(back.bits)
        back.bits.add(there.bits)
        there.replication, back.replication = BITMAP_SOURCE, BITMAP_TARGET
        if target.disk != INCONSISTENT:
            self._resource.set_disk(target, OUTDATED)
            there.disk = CONSISTENT if why == "connected" else OUTDATED
        self._resource.commit(why)
        if there.disk == CONSISTENT:
            there.disk = OUTDATED
            self._resource.commit("peer-state")
        for replica, peer in ((source, there), (target, back)):
            for verb in ("send", "receive"):
                text = f"{verb} bitmap stats [Bytes(packets)]: plain 0(0), RLE 56(1), total 56; "
                self._resource.say(replica, "peer-device", peer, f"{text}compression: 97.4%")
        self._resource.helper(source, "before-resync-source", there, device=True)
        self._resource.helper(target, "before-resync-target", back, device=True)
        key = f"resync {_pair(source, target)}"
        self._resource.later(
            key, _RESYNC_BEGINS, lambda: self._resource.syncs.start(source, target)
        )

    def resync(self, source: Replica, target: Replica) -> None:
        """Bring a connected node's whole disk up from another's."""
        self._begin_sync(source, target, whole=True)

    def compare_attached(self, replica: Replica) -> None:
        """A node that is connected has its disk back: who has the newer data?"""
        for peer in replica.connected():
            other = self._of(peer)
            if other.disk in (DISKLESS, FAILED):
                continue
            meeting = compare(replica, other)
            if meeting.source is other:
                self._begin_sync(other, replica, whole=meeting.how == "set-bitmap")
            elif meeting.source is None and replica.current == other.current:
                self._agree(replica, other)

    # -- split brain

    def _solve(self, meeting: Meeting, one: Replica, other: Replica) -> Meeting:
        """A split brain is solved by hand where exactly one of the two gives its data up."""
        for replica, peer in _sides(one, other):
            self._resource.helper(replica, "initial-split-brain", peer, device=True)
        loses = [one.peers[other.node_id].discards, other.peers[one.node_id].discards]
        if sorted(loses) != [False, True] or self._resource.ground.spoilt.keeps_diverged:
            return meeting
        source, target = (other, one) if loses[0] else (one, other)
        for replica, peer in _sides(one, other):
            node = "this" if replica is source else "peer"
            text = f"Split-Brain detected, manually solved. Sync from {node} node"
            self._resource.say(replica, "peer-device", peer, text)
        return Meeting("use-bitmap", meeting.rule, source, target)

    # -- refusals

    def _refuse(self, one: Replica, other: Replica, meeting: Meeting) -> None:
        text = "Split-Brain detected but unresolved, dropping connection!"
        if meeting.how == UNRELATED:
            text = "Unrelated data, aborting!"
        for replica, peer in _sides(one, other):
            self._resource.say(replica, "peer-device", peer, text)
            if meeting.how == SPLIT:
                self._resource.helper(replica, "split-brain", peer, device=True)
            self._drop(replica, peer)

    def _drop(self, replica: Replica, peer: Peer) -> None:
        """Give a connection up for good."""
        peer.connection = DISCONNECTING
        self._resource.commit("connect-failed")
        self._closed(replica, peer, STANDALONE)

    def _outdated_primary(self, meeting: Meeting) -> None:
        """A Primary meets newer data."""
        source, target = meeting.source, meeting.target
        assert source is not None and target is not None
        peer, settings = target.peers[source.node_id], self._resource.settings
        text = "I shall become SyncTarget, but I am primary!"
        self._resource.say(target, "peer-device", peer, text)
        frozen = "quorum" in target.suspended
        if frozen and settings.on_suspended_primary_outdated == "force-secondary":
            self._resource.io.force_secondary(target)
            self._resource.later(
                f"connects {_pair(source, target)}", 0.3, lambda: self._meet(source, target)
            )
            return
        self._resource.say(target, "resource", None, "Aborting cluster-wide state change rv = -27")
        target.failing = target.failing or frozen
        peer.connection = DISCONNECTING
        self._resource.set_disk(target, OUTDATED)
        self._resource.commit("connect-failed")
        if target.failing:
            self._resource.say(target, "resource", None, "Failing IOs")
        self._resource.helper(target, "pri-on-incon-degr", peer, device=True)
        again = settings.rr_conflict == "retry-connect"
        after = UNCONNECTED if again and not target.failing else STANDALONE
        for replica, other in _sides(source, target):
            other.connection = DISCONNECTING
            self._closed(replica, other, after)

    # -- breaking one

    def cut_off(self, one: Replica, other: Replica) -> None:
        """No frame passes between two nodes any more: each that runs notices when it pings."""
        settings, rng = self._resource.settings, self._resource.ground.rng
        self._resource.call_off(f"connects {_pair(one, other)}")
        for replica, peer in _sides(one, other):
            seconds = rng.uniform(0.3, 1.0) * settings.ping_int + settings.ping_timeout / 10
            if peer.connected:
                self._notice(replica, peer, seconds, "PingAck did not arrive in time.")

    def restored(self, one: Replica, other: Replica) -> None:
        """Frames pass again. A connection that one side has given up, the other gives up too."""
        for replica, peer in _sides(one, other):
            self._resource.call_off(f"notices {replica.node_id} {peer.node_id}")
        ends = [peer.connected for _, peer in _sides(one, other)]
        for replica, peer in _sides(one, other):
            if peer.connected and not all(ends):
                self._notice(replica, peer, 0.2, "meta connection shut down by peer.")
        self._resource.io.delivered(one, other)
        self.attempt(one, other)

    def _notice(self, replica: Replica, peer: Peer, seconds: float, words: str) -> None:
        def act() -> None:
            if replica.up and peer.connected and self._resource.ground.runs(replica.host):
                self.lost(replica, peer, words)

        self._resource.later(f"notices {replica.node_id} {peer.node_id}", seconds, act)

    def lost(self, replica: Replica, peer: Peer, words: str) -> None:
        """A node finds that a peer does not answer any more."""
        self._resource.catch_up()
        self._resource.say(replica, "connection", peer, words)
        self._leave(replica, peer, NETWORK_FAILURE)
        self._resource.commit("")
        self._closed(replica, peer, UNCONNECTED)
        self._outdate_the_weak()

    def _outdate_the_weak(self) -> None:
        """A Secondary that hears of a Primary, and not from it, misses what that one writes."""
        reaches = self._resource.ground.reaches
        for replica in self._resource.running():
            primaries = {
                view.node_id
                for peer in replica.connected()
                if reaches(replica.host, peer.name)
                for view in self._of(peer).connected()
                if view.role == PRIMARY and reaches(peer.name, view.name)
            }
            others = primaries - {replica.node_id}
            apart = [node for node in others if not replica.peers[node].connected]
            if apart and replica.role == SECONDARY and replica.disk == UP_TO_DATE:
                self._resource.set_disk(replica, OUTDATED)
                self._resource.commit("far-away")

    def _leave(self, replica: Replica, peer: Peer, state: str) -> None:
        held = peer.disk not in (DISKLESS, DUNKNOWN)
        peer.known_diskless = peer.disk == DISKLESS
        peer.connection, peer.role, peer.disk, peer.replication = state, UNKNOWN, DUNKNOWN, OFF
        peer.sync, peer.received, peer.sent = None, 0, 0
        if replica.role == PRIMARY and held:
            replica.new_generation = True
        self._resource.io.peer_lost(replica, peer)
        self._resource.syncs.left(replica)

    def _closed(self, replica: Replica, peer: Peer, after: str) -> None:
        """The connection is closed, and a new one looked for unless it is to stay alone."""
        self._resource.say(replica, "connection", peer, "Terminating sender thread")
        text = f"Starting sender thread (peer-node-id {peer.node_id})"
        self._resource.say(replica, "connection", peer, text)

        def act() -> None:
            if not replica.up or not self._resource.ground.runs(replica.host):
                return
            self._resource.say(replica, "connection", peer, "Connection closed")
            self._resource.helper(replica, "disconnected", peer, device=False)
            peer.connection = after
            self._resource.commit("disconnected")
            if after == STANDALONE:
                self._resource.say(replica, "connection", peer, "Terminating receiver thread")
            else:
                self._resource.say(replica, "connection", peer, "Restarting receiver thread")
                self._look(replica, peer)

        seconds = self._resource.ground.rng.uniform(*_CLOSED)
        self._resource.later(f"closes {replica.node_id} {peer.node_id}", seconds, act)

    def disconnect(self, replica: Replica, peer: Peer) -> None:
        """Somebody ends a connection on this side; the other looks for it from then on.

        A Secondary that leaves a Primary calls its own data outdated, and so does one that is left.
        """
        self._resource.catch_up()
        other = self._of(peer)
        back = other.peers[replica.node_id]
        if self._resource.settings.quorum != "off":
            for node, view in ((replica, peer), (other, back)):
                if node.role == SECONDARY and view.connected and view.role == PRIMARY:
                    self._outdate(node)
        was_connected = peer.connected and back.connected
        self._leave(replica, peer, DISCONNECTING)
        if was_connected and self._resource.ground.reaches(replica.host, other.host):
            self._leave(other, back, TEAR_DOWN)
            self._resource.commit("disconnect")
            self._closed(other, back, UNCONNECTED)
        else:
            self._resource.commit("disconnect")
        self.settle_alone(replica, peer)

    def _outdate(self, replica: Replica) -> None:
        if replica.disk == UP_TO_DATE:
            self._resource.set_disk(replica, OUTDATED)

    def settle_alone(self, replica: Replica, peer: Peer) -> None:
        """End on this side at once, whatever was under way: the command waits for that."""
        key = f"{replica.node_id} {peer.node_id}"
        for what in ("closes", "notices"):
            self._resource.call_off(f"{what} {key}")
        self._resource.helper(replica, "disconnected", peer, device=False)
        peer.connection = STANDALONE
        self._resource.commit("disconnected")

    def reset(self, replica: Replica, peer: Peer) -> None:
        """Forget a connection, without a word: the kernel that had it is gone."""
        key = f"{replica.node_id} {peer.node_id}"
        for what in ("closes", "notices"):
            self._resource.call_off(f"{what} {key}")
        peer.connection, peer.role, peer.disk, peer.replication = STANDALONE, UNKNOWN, DUNKNOWN, OFF
        peer.sync, peer.received, peer.sent, peer.discards = None, 0, 0, False

    def _of(self, peer: Peer) -> Replica:
        return self._resource.replica(peer.node_id)


def _sides(one: Replica, other: Replica) -> tuple[tuple[Replica, Peer], tuple[Replica, Peer]]:
    return (one, one.peers[other.node_id]), (other, other.peers[one.node_id])


def _pair(one: Replica, other: Replica) -> str:
    return "-".join(str(number) for number in sorted((one.node_id, other.node_id)))


def _generations(replica: Replica, peer: int) -> str:
    current = replica.current | (replica.role == PRIMARY)
    older = [*replica.history, 0, 0][:2]
    told = (current, replica.peers[peer].bitmap_uuid, *older)
    return ":".join(f"{number:016X}" for number in told)
