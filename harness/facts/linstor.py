"""What LINSTOR's controller says: nodes, storage pools, resources, error reports, its version.

It is a view, told to the controller by its satellites, and can be stale: where the kernel's own
status differs, the kernel is right. Field names and units are those of LINSTOR's
rest_v1_openapi.yaml (objects.md section 8): capacities and sizes in KiB. What is not said is None
or "", never a zero: a pool on a node that is not ONLINE omits its free capacity.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.fact import Fact

ONLINE = "ONLINE"
"""The connection status of a node whose satellite the controller hears."""
DISKLESS_PROVIDER = "DISKLESS"
"""The provider of a pool without storage, whose capacity is a sentinel."""
DISKLESS_FLAGS = frozenset({"DISKLESS", "DRBD_DISKLESS", "TIE_BREAKER"})
"""Flags of a resource that holds no disk on purpose."""


@dataclass(frozen=True, slots=True)
class LinstorNode:
    """One node. ``connection`` is ONLINE, OFFLINE, CONNECTED, UNKNOWN and so on, "" if not said.

    ``type`` is Satellite, Controller, Combined or Auxiliary, in LINSTOR's own spelling.
    """

    name: str
    type: str = ""
    connection: str = ""
    flags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinstorNodes(Fact):
    """Every node that the controller knows; none is an answer too.

    ``whole`` is False where an entry could not be read; ``strange`` quotes it. So for all of these.
    """

    nodes: tuple[LinstorNode, ...]
    whole: bool = True
    strange: tuple[str, ...] = ()

    def find(self, name: str) -> LinstorNode | None:
        """The node of this name, None where it is not listed."""
        return next((one for one in self.nodes if one.name == name), None)


@dataclass(frozen=True, slots=True)
class LinstorPool:
    """One storage pool of one node.

    ``free`` and ``total`` in KiB, None where not said, and for a DISKLESS pool always: what it
    says is a sentinel. ``errors`` are the controller's own about the pool, word for word.
    """

    name: str
    node: str
    provider: str = ""
    free: int | None = None
    total: int | None = None
    errors: tuple[str, ...] = ()

    @property
    def diskless(self) -> bool:
        """Whether it holds no storage at all."""
        return self.provider == DISKLESS_PROVIDER


@dataclass(frozen=True, slots=True)
class LinstorPools(Fact):
    """Every storage pool of every node."""

    pools: tuple[LinstorPool, ...]
    whole: bool = True
    strange: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinstorConnection:
    """A replica's connection to one peer, which bears its node's name.

    ``message`` is DRBD's word for its state (Connected, StandAlone, …; Unknown), "" if not said.
    """

    peer: str
    connected: bool | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class LinstorReplication:
    """A volume towards one peer: DRBD's word for it, and in percent how much of a resync is done.

    Older controllers say neither.
    """

    peer: str
    state: str = ""
    done: float | None = None


@dataclass(frozen=True, slots=True)
class LinstorVolume:
    """One volume of a replica. ``disk_state`` is DRBD's word, TieBreaker or "" if not said.

    ``pool`` and ``provider`` say where it lies; ``allocated`` and ``usable`` in KiB.
    """

    number: int
    pool: str = ""
    provider: str = ""
    disk_state: str = ""
    allocated: int | None = None
    usable: int | None = None
    replications: tuple[LinstorReplication, ...] = ()


@dataclass(frozen=True, slots=True)
class LinstorReplica:
    """One resource on one node. ``in_use`` is whether it is Primary there, None if not said.

    ``drbd`` is whether DRBD is among its layers. ``whole`` is False where a part could not be read.
    """

    name: str
    node: str
    flags: tuple[str, ...] = ()
    in_use: bool | None = None
    drbd: bool = False
    connections: tuple[LinstorConnection, ...] = ()
    volumes: tuple[LinstorVolume, ...] = ()
    whole: bool = True

    @property
    def diskless(self) -> bool:
        """Whether it is meant to hold no disk: a client or a TieBreaker."""
        return bool(DISKLESS_FLAGS.intersection(self.flags))

    def volume(self, number: int) -> LinstorVolume | None:
        """The volume of this number, None where it is not listed."""
        return next((one for one in self.volumes if one.number == number), None)

    def connection(self, peer: str) -> LinstorConnection | None:
        """The connection to this node, None where it is not listed."""
        return next((one for one in self.connections if one.peer == peer), None)


@dataclass(frozen=True, slots=True)
class LinstorResources(Fact):
    """Every resource on every node, as the controller views them."""

    replicas: tuple[LinstorReplica, ...]
    whole: bool = True
    strange: tuple[str, ...] = ()

    def of(self, name: str) -> tuple[LinstorReplica, ...]:
        """The replicas of one resource, diskless ones among them."""
        return tuple(one for one in self.replicas if one.name == name)


@dataclass(frozen=True, slots=True)
class LinstorError:
    """One error report. ``at`` in epoch seconds; ``node`` is "Controller" for the controller's."""

    at: float
    node: str = ""
    message: str = ""
    file: str = ""


@dataclass(frozen=True, slots=True)
class LinstorErrors(Fact):
    """The error reports that are kept, oldest first."""

    errors: tuple[LinstorError, ...]
    whole: bool = True
    strange: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LinstorVersion(Fact):
    """The controller's version and that of its REST API ("1.31.3", "1.26.0"), "" if not said."""

    version: str
    rest: str
