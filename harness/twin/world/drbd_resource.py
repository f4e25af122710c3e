"""A DRBD 9 resource on the nodes that hold it: what each of them knows, and what follows from it.

Everybody's state is kept apart, since it parts when a link does. A change is made on the nodes that
know of it, and `Resource.commit` then settles what follows at once (quorum, suspended I/O), tells
the listeners and the kernels' logs what changed, and lets I/O go on that may.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from typing import Protocol

from harness.twin.engine import Engine, Timer
from harness.twin.world import drbd_events
from harness.twin.world.drbd_blocks import BLOCK_KIB
from harness.twin.world.drbd_connections import Connections
from harness.twin.world.drbd_events import Event, Heard, Snapshot
from harness.twin.world.drbd_io import Io
from harness.twin.world.drbd_state import (
    CONNECTED,
    DISKLESS,
    ESTABLISHED,
    PRIMARY,
    SYNC_TARGET,
    UP_TO_DATE,
    VERIFY_SOURCE,
    VERIFY_TARGET,
    Peer,
    Replica,
    Settings,
)
from harness.twin.world.drbd_sync import Syncs
from harness.twin.world.hostkernel import HostKernel


class Ground(Protocol):
    """What resources stand on: hosts that run or do not, and the wires between them."""

    engine: Engine
    rng: Random
    spoilt: Spoilt

    def runs(self, host: str) -> bool:
        """Whether a host's kernel runs and its time goes on."""

    def reaches(self, one: str, other: str) -> bool:
        """Whether frames pass between two hosts, both ways, and both run."""

    def connects(self, one: str, other: str) -> bool:
        """Whether a new connection between two hosts comes about."""

    def kernel(self, host: str) -> HostKernel:
        """A host's kernel."""


@dataclass(slots=True)
class Spoilt:
    """What a fault has done to how DRBD works in this lab. As it stands here, nothing.

    ``stall``: the share of a resync after which it goes no further. ``stays_apart``: two hosts
    whose wire was cut once are not connected again. ``blind``: a verify finds nothing.
    ``promotes_outdated``: a node is promoted whatever its disk. ``keeps_diverged``: nobody's data
    are ever discarded. ``local_only``: a node without its disk does no I/O through its peers.
    """

    stall: float = 1.0
    stays_apart: bool = False
    blind: bool = False
    promotes_outdated: bool = False
    keeps_diverged: bool = False
    local_only: bool = False


@dataclass(frozen=True, slots=True)
class Node:
    """Where a replica is to be: host, its address on the replication network, the device below."""

    host: str
    address: str
    backing: str


class Resource:
    """One resource with one volume. ``size`` in KiB."""

    def __init__(
        self,
        name: str,
        minor: int,
        size: int,
        nodes: Sequence[Node],
        ground: Ground,
        settings: Settings = Settings(),  # noqa: B008 - frozen
    ) -> None:
        self.name, self.minor, self.size = name, minor, size
        self.settings, self.ground, self.engine = settings, ground, ground.engine
        self.replicas: list[Replica] = [
            Replica(
                node.host,
                index,
                node.address,
                node.backing,
                {i: Peer(i, one.host) for i, one in enumerate(nodes) if i != index},
            )
            for index, node in enumerate(nodes)
        ]
        self.watchers: list[Callable[[Resource], None]] = []  # called after each change
        self._shown: dict[int, Snapshot] = {}
        self._listeners: dict[int, list[Heard]] = {}
        self._timers: dict[str, Timer] = {}
        self.links = Connections(self)
        self.syncs = Syncs(self)
        self.io = Io(self)

    # -- who is who

    def on(self, host: str) -> Replica | None:
        """The replica that is configured on a host, or None."""
        found = next((one for one in self.replicas if one.host == host), None)
        return found if found is not None and found.up else None

    def replica(self, node: int) -> Replica:
        """The replica with a node id."""
        return next(one for one in self.replicas if one.node_id == node)

    def running(self) -> list[Replica]:
        """The replicas that are configured on hosts that run."""
        return [one for one in self.replicas if one.up]

    def pairs(self) -> list[tuple[Replica, Replica]]:
        """Every two nodes."""
        found = self.replicas
        return [(one, other) for i, one in enumerate(found) for other in found[i + 1 :]]

    @property
    def blocks(self) -> int:
        """How many blocks it has."""
        return self.size // BLOCK_KIB

    # -- coming and going

    def establish(self) -> None:
        """Have it as it is once it was made: up everywhere, connected, and all in sync.

        LINSTOR gives the replicas on thin pools one generation, so that no first sync is needed.
        """
        generation = self.generation()
        for replica in self.replicas:
            replica.up, replica.disk, replica.marked = True, UP_TO_DATE, UP_TO_DATE
            replica.current = generation
            for peer in replica.peers.values():
                peer.connection, peer.role = CONNECTED, "Secondary"
                peer.disk, peer.replication = UP_TO_DATE, ESTABLISHED
        self.commit("")

    def remove(self) -> None:
        """Take it away from every node."""
        for replica in self.running():
            self.forget(replica)
        for timer in self._timers.values():
            timer.cancel()

    def forget(self, replica: Replica) -> None:
        """A kernel knows nothing of it any more; what is on the disk stays."""
        events = drbd_events.listed(self, replica, "destroy") if replica.up else []
        gone = [Event("destroy", one.subject, ()) for one in reversed(events)]
        self.io.abandon(replica)
        replica.up, replica.role, replica.disk = False, "Secondary", DISKLESS
        replica.openers, replica.promoted, replica.failing = 0, False, False
        replica.suspended.clear()
        replica.new_generation = False
        for peer in replica.peers.values():
            self.links.reset(replica, peer)
        self._shown.pop(replica.node_id, None)
        for heard in tuple(self._listeners.get(replica.node_id, ())):
            heard(gone)

    def drop(self, replica: Replica) -> None:
        """Somebody takes a replica away; the others know nothing of it any more."""
        self.forget(replica)
        self.replicas.remove(replica)
        for other in self.replicas:
            peer = other.peers.pop(replica.node_id)
            self.links.reset(other, peer)
            self._shown.pop(other.node_id, None)
        self.commit("")

    # -- changes

    def commit(self, why: str) -> None:
        """Settle what follows from what was changed, and tell of it."""
        for replica in self.running():
            self._settle(replica)
        for replica in self.running():
            self._tell(replica, why)
        for replica in self.running():
            self.io.pump(replica)
        for watcher in tuple(self.watchers):
            watcher(self)

    def set_disk(self, replica: Replica, state: str) -> None:
        """A node's disk has another state, and whoever is connected knows."""
        replica.disk = state
        for peer in replica.connected():
            self.replica(peer.node_id).peers[replica.node_id].disk = state
        if state in (UP_TO_DATE, "Outdated", "Inconsistent"):
            replica.marked = state

    def set_role(self, replica: Replica, role: str) -> None:
        """A node has another role, and whoever is connected knows."""
        replica.role = role
        for peer in replica.connected():
            self.replica(peer.node_id).peers[replica.node_id].role = role

    def generation(self) -> int:
        """A new identifier of a generation of data; its lowest bit is left to the role."""
        return self.ground.rng.getrandbits(64) & ~1

    def _settle(self, replica: Replica) -> None:
        replica.quorum = self._quorate(replica)
        freezes = self.settings.on_no_quorum == "suspend-io"
        self._suspend(replica, "quorum", freezes and not replica.quorum)
        waits = self.settings.on_no_data_accessible == "suspend-io" and not replica.failing
        blind = replica.role == PRIMARY and self.io.source(replica) is None
        self._suspend(replica, "no-data", waits and blind)

    @staticmethod
    def _suspend(replica: Replica, why: str, holds: bool) -> None:  # noqa: FBT001 - a state
        if holds:
            replica.suspended.add(why)
        else:
            replica.suspended.discard(why)

    def _quorate(self, replica: Replica) -> bool:
        """Whether more than half of the nodes that have a disk are here (drbd.conf(5): majority).

        Nodes that are known to have none do not count.
        """
        if self.settings.quorum == "off":
            return True
        here, count = 0, 0
        for disk, connected, diskless in (
            (replica.disk, True, False),
            *((one.disk, one.connected, one.known_diskless) for one in replica.peers.values()),
        ):
            if (connected and disk == DISKLESS) or (not connected and diskless):
                continue
            count += 1
            here += connected
        return 2 * here > count

    def _tell(self, replica: Replica, why: str) -> None:
        new = drbd_events.snapshot(self, replica)
        old = self._shown.get(replica.node_id)
        self._shown[replica.node_id] = new
        if old is None:
            heard = drbd_events.listed(self, replica, "create")
        else:
            heard = list(drbd_events.changes(self, replica, old, new))
            for line in drbd_events.kernel_lines(self, replica, old, new, why):
                self.log(replica, line)
        if heard:
            self._hear(replica, heard)

    def _hear(self, replica: Replica, events: list[Event]) -> None:
        for heard in tuple(self._listeners.get(replica.node_id, ())):
            heard(events)

    # -- telling

    def follow(self, replica: Replica, heard: Heard) -> Callable[[], None]:
        """Hand each further event of a node to ``heard``; returns how to stop."""
        listeners = self._listeners.setdefault(replica.node_id, [])
        listeners.append(heard)
        return lambda: listeners.remove(heard) if heard in listeners else None

    def log(self, replica: Replica, text: str) -> None:
        """Write to the log of a node's kernel."""
        self.ground.kernel(replica.host).log(text)

    def say(self, replica: Replica, kind: str, peer: Peer | None, text: str) -> None:
        """The kernel says something about the resource, a connection, a device or a peer's."""
        self.log(replica, f"{self.label(kind, peer.name if peer else '')}: {text}")

    def label(self, kind: str, peer: str) -> str:
        """How the kernel's lines begin: ``drbd r0``, ``drbd r0 n2``, ``drbd r0/0 drbd0 n2``."""
        device = f"/0 drbd{self.minor}" if kind in ("device", "peer-device") else ""
        return f"drbd {self.name}{device}{f' {peer}' if peer else ''}"

    def helper(self, replica: Replica, name: str, peer: Peer | None, *, device: bool) -> None:
        """The kernel calls a helper program, which succeeds a little later."""
        kind = ("peer-device" if device else "connection") if peer else "device"
        self.say(replica, kind, peer, f"helper command: /sbin/drbdadm {name}")
        self._hear(replica, [drbd_events.helper(self, name, peer, device=device, status=None)])

        def answered() -> None:
            if not replica.up:
                return
            self.say(replica, kind, peer, f"helper command: /sbin/drbdadm {name} exit code 0")
            self._hear(replica, [drbd_events.helper(self, name, peer, device=device, status=0)])

        self.later(f"helper {name} {replica.node_id} {peer.name if peer else ''}", 0.06, answered)

    def later(self, key: str, seconds: float, do: Callable[[], None]) -> None:
        """Do something later, in place of what was to be done under the same key."""
        self.call_off(key)

        def act() -> None:
            self._timers.pop(key, None)
            do()

        self._timers[key] = self.engine.after(seconds, act, f"drbd {self.name}: {key}")

    def call_off(self, key: str) -> None:
        """Do not do it after all; nothing to be done is fine."""
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    # -- what is asked of a state

    def held_back(self, replica: Replica, peer: Peer) -> str:
        """Why no resync with a peer goes on: ``dependency``: another one does, here; ``peer``:
        there."""
        if not peer.connected:
            return "no"
        other = self.replica(peer.node_id)
        theirs = _syncs_from_another(other, replica.node_id)
        mine = _syncs_from_another(replica, peer.node_id)
        told = (["peer"] if theirs else []) + (["dependency"] if mine else [])
        return ",".join(told) or "no"

    def steady(self, peer: Peer) -> bool:
        """Whether a peer is connected to no Primary, nor one itself."""
        other = self.replica(peer.node_id)
        roles = [other.role, *(one.role for one in other.connected())]
        return PRIMARY not in roles

    def done(self, peer: Peer) -> float:
        """How far a resync or a verify has come, in percent."""
        sync = peer.sync
        if sync is None or not sync.total:
            return 100.0
        if peer.replication in (VERIFY_SOURCE, VERIFY_TARGET):
            return min(100.0, 100.0 * sync.copied * BLOCK_KIB / sync.total)
        return 100.0 * max(0, sync.total - peer.out_of_sync) / sync.total

    @staticmethod
    def upper_pending(replica: Replica) -> int:
        """Requests from above that are under way; those that wait for quorum do not count."""
        return 0 if replica.frozen else len(replica.requests)

    @staticmethod
    def lower_pending(replica: Replica) -> int:
        """Requests to the disk below that are under way."""
        return int(any(one.replication == SYNC_TARGET for one in replica.peers.values()))

    def catch_up(self) -> None:
        """Let every resync come as far as time has."""
        self.syncs.catch_up()


def _syncs_from_another(replica: Replica, node: int) -> bool:
    return any(
        one.replication == SYNC_TARGET for one in replica.peers.values() if one.node_id != node
    )
