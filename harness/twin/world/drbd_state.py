"""What one node knows of a DRBD 9 resource: its disk, its peers, its generations.

States keep DRBD's own names. Sizes and counts of bytes are in KiB, as DRBD tells them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.twin.world.drbd_blocks import BLOCK_KIB, Bits, Disk

VERSION = "9.2.14"
PRIMARY, SECONDARY, UNKNOWN = "Primary", "Secondary", "Unknown"
DISKLESS, FAILED, ATTACHING = "Diskless", "Failed", "Attaching"
INCONSISTENT, OUTDATED, CONSISTENT = "Inconsistent", "Outdated", "Consistent"
UP_TO_DATE, DUNKNOWN = "UpToDate", "DUnknown"
STANDALONE, UNCONNECTED, CONNECTING = "StandAlone", "Unconnected", "Connecting"
CONNECTED, NETWORK_FAILURE, DISCONNECTING = "Connected", "NetworkFailure", "Disconnecting"
TEAR_DOWN, BROKEN_PIPE = "TearDown", "BrokenPipe"
OFF, ESTABLISHED = "Off", "Established"
SYNC_SOURCE, SYNC_TARGET = "SyncSource", "SyncTarget"
PAUSED_SOURCE, PAUSED_TARGET = "PausedSyncS", "PausedSyncT"
BITMAP_SOURCE, BITMAP_TARGET = "WFBitMapS", "WFBitMapT"
VERIFY_SOURCE, VERIFY_TARGET = "VerifyS", "VerifyT"
TARGETS = (SYNC_TARGET, PAUSED_TARGET, BITMAP_TARGET)
SYNCING = (SYNC_SOURCE, SYNC_TARGET, PAUSED_SOURCE, PAUSED_TARGET, VERIFY_SOURCE, VERIFY_TARGET)
JUST_CREATED = 4
"""The generation of a disk on which nobody has said yet that its data are good."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A resource's options. Times as DRBD has them: ``ping_timeout`` and ``timeout`` in 0.1 s.

    Defaults: drbd.conf(5), and for quorum and conflicts what class ``replicated`` asks for
    (objects.md section 8). ``rate`` is what a resync reaches, KiB/s.
    """

    quorum: str = "majority"
    on_no_quorum: str = "suspend-io"
    on_no_data_accessible: str = "suspend-io"
    on_suspended_primary_outdated: str = "force-secondary"
    rr_conflict: str = "retry-connect"
    ping_int: int = 10
    ping_timeout: int = 5
    timeout: int = 60
    connect_int: int = 10
    rate: int = 102_400


@dataclass(slots=True)
class Sync:
    """A resync or a verify between two nodes, as each of them counts it: KiB, and when it began.

    ``copied`` is how much has been taken over, in blocks, of a resync that is not paused.
    """

    total: int
    began: float
    copied: int = 0


@dataclass(slots=True, eq=False)
class Peer:
    """One node's view of another. ``bits`` are the blocks that it knows the other to lack."""

    node_id: int
    name: str
    connection: str = STANDALONE
    role: str = UNKNOWN
    disk: str = DUNKNOWN
    replication: str = OFF
    bits: Bits = field(default_factory=Bits)
    bitmap_uuid: int = 0
    received: int = 0
    sent: int = 0
    discards: bool = False  # connects with --discard-my-data
    sync: Sync | None = None
    known_diskless: bool = False

    @property
    def connected(self) -> bool:
        """Whether the two talk."""
        return self.connection == CONNECTED

    @property
    def out_of_sync(self) -> int:
        """KiB."""
        return len(self.bits) * BLOCK_KIB


@dataclass(slots=True, eq=False)
class Request:
    """One write on its way: done when the local disk and every node of ``awaited`` have it."""

    offset: int
    data: bytes
    done: Callable[[str], None]  # given "" or an errno's words
    submitted: bool = False
    missed: bool = False  # a node was lost before it had it
    awaited: set[int] = field(default_factory=set)

    @property
    def blocks(self) -> tuple[int, int]:
        """The blocks that it touches: [start, end)."""
        return self.offset // 4096, -(-(self.offset + len(self.data)) // 4096)


@dataclass(slots=True, eq=False)
class Replica:
    """A resource on one node. ``up`` while it is configured in that node's kernel.

    ``marked`` is what the metadata say of the disk, which outlives the kernel; ``openers`` counts
    who holds the device open for writing; ``promoted`` is True where an opener promoted it.
    """

    host: str
    node_id: int
    address: str
    backing: str
    peers: dict[int, Peer]
    data: Disk = field(default_factory=Disk)
    up: bool = False
    role: str = SECONDARY
    disk: str = DISKLESS
    marked: str = INCONSISTENT
    current: int = JUST_CREATED
    history: list[int] = field(default_factory=list)
    quorum: bool = True
    suspended: set[str] = field(default_factory=set)
    failing: bool = False  # force-io-failures
    openers: int = 0
    promoted: bool = False
    new_generation: bool = False  # the next write begins one
    lost_disk: bool = False  # the device below is gone, and nobody has noticed
    forgets_writes: bool = False  # acknowledges what peers send and drops it
    read: int = 0
    written: int = 0
    al_writes: int = 0
    bm_writes: int = 0
    requests: list[Request] = field(default_factory=list)

    @property
    def frozen(self) -> bool:
        """Whether I/O stands still."""
        return bool(self.suspended) and not self.failing

    def connected(self) -> list[Peer]:
        """The peers that it talks to."""
        return [peer for peer in self.peers.values() if peer.connected]
