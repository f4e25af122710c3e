"""What satellites have told LINSTOR's controller of DRBD: a picture that can be older than DRBD.

A satellite follows its kernel and tells of each change a little later; how far a resync has come is
one, each second. One that hangs tells
nothing, and what it said last stands. A connection that is lost takes with it what came over it
(LIN, the controller's event handlers): of such a node no state is known at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.twin.world import drbd_events
from harness.twin.world.drbd_resource import Resource
from harness.twin.world.drbd_state import PRIMARY, SYNCING, Replica

_Key = tuple[str, str]  # resource, host


@dataclass(frozen=True, slots=True)
class PeerTold:
    """A peer as a satellite told of it. ``done`` in percent, None where nothing is resynced."""

    connection: str
    replication: str
    done: float | None


@dataclass(frozen=True, slots=True)
class Told:
    """A resource on one node as its satellite told of it. ``peers`` by the name of their node."""

    disk: str
    in_use: bool
    may_promote: bool
    score: int
    peers: Mapping[str, PeerTold]


class Reports:
    """Every satellite's reports. ``hears``: whether a host's arrive; ``delay`` draws seconds."""

    def __init__(
        self, now: Callable[[], float], delay: Callable[[], float], hears: Callable[[str], bool]
    ) -> None:
        self._now, self._delay, self._hears = now, delay, hears
        self._told: dict[_Key, list[tuple[float, Told | None]]] = {}
        self._hung: set[str] = set()

    def hear(self, resource: Resource) -> None:
        """Something about a resource changed: its satellites tell of it."""
        for replica in resource.replicas:
            if self._hears(replica.host) and replica.host not in self._hung:
                self._add(resource, replica, self._delay())

    def sync(self, host: str, resources: Mapping[str, Resource]) -> None:
        """A host's satellite tells everything anew, at once."""
        for resource in resources.values():
            for replica in resource.replicas:
                if replica.host == host:
                    self._told.pop((resource.name, host), None)
                    self._add(resource, replica, 0.0)

    def forget(self, name: str) -> None:
        """A resource is gone."""
        for key in [key for key in self._told if key[0] == name]:
            del self._told[key]

    def lose(self, host: str) -> None:
        """A host's connection is gone, and all that was told over it."""
        self._hung.discard(host)
        for key in [key for key in self._told if key[1] == host]:
            del self._told[key]

    def hang(self, host: str) -> None:
        """From now on a host's satellite tells nothing; what it said stands."""
        self._hung.add(host)

    def recover(self, host: str, resources: Mapping[str, Resource]) -> None:
        """A satellite that hung goes on."""
        self._hung.discard(host)
        self.sync(host, resources)

    def told(self, resource: Resource, host: str) -> Told | None:
        """What the controller knows of a resource on a host; None where it knows nothing."""
        entries = self._told.get((resource.name, host), [])
        self._drop_outdone(entries)
        if not entries or entries[0][0] > self._now():
            return None
        return entries[0][1]

    def _drop_outdone(self, entries: list[tuple[float, Told | None]]) -> None:
        """Nobody asks any more for what later reports, that are in, have outdone."""
        while len(entries) > 1 and entries[1][0] <= self._now():
            del entries[0]

    def _add(self, resource: Resource, replica: Replica, delay: float) -> None:
        entries = self._told.setdefault((resource.name, replica.host), [])
        # whoever made the resource waited until it was there: the first report is in
        due = max(entries[-1][0], self._now() + delay) if entries else self._now()
        told = _told(resource, replica) if replica.up else None
        if not entries or entries[-1][1] != told:
            entries.append((due, told))
            self._drop_outdone(entries)


def _told(resource: Resource, replica: Replica) -> Told:
    may, score = drbd_events.promotion(resource, replica)
    peers = {
        peer.name: PeerTold(
            peer.connection,
            peer.replication,
            resource.done(peer) if peer.replication in SYNCING and peer.sync is not None else None,
        )
        for peer in replica.peers.values()
    }
    return Told(replica.disk, replica.role == PRIMARY, may, score, peers)
