"""What DRBD says of its resources: one machine's view, its history, and its kernel log.

One vocabulary for both generations: DRBD 9's JSON and text, DRBD 8.4's text and /proc/drbd
(lab/qemu_drbd.md and the captures beside it; objects.md section 8). States keep DRBD's own names.
What a version does not say is None or "", never a zero: 8.4 knows no quorum and names no peer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from harness.facts.fact import Fact

KIB = 1024
"""DRBD counts sizes and blocks out of sync in KiB; facts hold bytes."""

UP_TO_DATE = "UpToDate"
DISKLESS = "Diskless"
CONNECTED = "Connected"
STANDALONE = "StandAlone"
ESTABLISHED = "Established"
PRIMARY = "Primary"
UNNAMED_PEER = "peer"
"""How 8.4 calls the peer, whoever it is."""

DISK_STATES = frozenset(
    {
        "Diskless",
        "Attaching",
        "Detaching",
        "Failed",
        "Negotiating",
        "Inconsistent",
        "Outdated",
        "DUnknown",
        "Consistent",
        "UpToDate",
    }
)
CONNECTIONS = frozenset(
    {
        "StandAlone",
        "Disconnecting",
        "Unconnected",
        "Timeout",
        "BrokenPipe",
        "NetworkFailure",
        "ProtocolError",
        "TearDown",
        "Connecting",
        "Connected",
    }
)
REPLICATIONS = frozenset(
    {
        "Off",
        "Established",
        "StartingSyncS",
        "StartingSyncT",
        "WFBitMapS",
        "WFBitMapT",
        "WFSyncUUID",
        "SyncSource",
        "SyncTarget",
        "PausedSyncS",
        "PausedSyncT",
        "VerifyS",
        "VerifyT",
        "Ahead",
        "Behind",
    }
)
"""The words there are (objects.md section 8, drbd-utils 9.22); another is not understood."""

NOT_SAID = "reason not said"
"""Stands in ``suspended`` where I/O is suspended and the version names no reason."""

NO_MODULE, NO_RESOURCE, NOTHING = "no module", "no such resource", "no resource at all"
"""The ways of `DrbdAbsent`."""


@dataclass(frozen=True, slots=True)
class DrbdDevice:
    """One volume of a resource, as its own machine holds it.

    ``disk_state`` is UpToDate, Inconsistent, Outdated, Consistent, Diskless, Attaching,
    Negotiating, Detaching or Failed. ``size`` in bytes. ``quorum`` is None where the version knows
    none. ``client`` is True where it is diskless on purpose (a TieBreaker too), None where not
    said. ``blocked`` is "no", "upper", "lower" or "upper,lower", "" where not said: JSON has
    none. ``backing`` is the disk below, "" where not said.
    """

    volume: int
    minor: int | None = None
    disk_state: str = ""
    size: int | None = None
    quorum: bool | None = None
    client: bool | None = None
    blocked: str = ""
    backing: str = ""


@dataclass(frozen=True, slots=True)
class DrbdPeerDevice:
    """One volume as it stands towards one peer.

    ``replication`` is Established, SyncSource, SyncTarget, PausedSyncS, WFBitMapT, VerifyS, Off
    and so on; ``disk_state`` is the peer's, DUnknown while it is not connected; ``out_of_sync`` in
    bytes; ``done`` in percent while a resync or a verify runs, of the resync with DRBD 9, of the
    whole device with 8.4; ``resync_suspended`` are the reasons ("user", "peer", "dependency"),
    empty for none, None where not said.
    """

    volume: int
    replication: str = ""
    disk_state: str = ""
    client: bool | None = None
    out_of_sync: int | None = None
    done: float | None = None
    resync_suspended: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class DrbdPeer:
    """One connection. 8.4 calls every peer "peer" and gives it no node id.

    ``connection`` is StandAlone, Disconnecting, Unconnected, Timeout, BrokenPipe, NetworkFailure,
    ProtocolError, TearDown, Connecting or Connected; ``role`` is the peer's, Unknown while it is
    not connected.
    """

    name: str
    node_id: int | None = None
    connection: str = ""
    role: str = ""
    devices: tuple[DrbdPeerDevice, ...] = ()

    def device(self, volume: int) -> DrbdPeerDevice | None:
        """The volume of this number, None where the peer has no line for it."""
        return next((one for one in self.devices if one.volume == volume), None)


@dataclass(frozen=True, slots=True)
class DrbdResource:
    """One resource as one machine sees it.

    ``suspended`` are the reasons why I/O stands still ("user", "no-data", "fencing", "quorum"),
    empty for none, None where not said; NOT_SAID for an older 9's bare "true". ``whole`` is False
    where the text ended inside: what is listed was said, what is missing may have come. 8.4's text
    lists no peer at all for a StandAlone resource; where /proc/drbd said so, the peer is filled in
    from there.
    """

    name: str
    role: str = ""
    node_id: int | None = None
    suspended: tuple[str, ...] | None = None
    force_io_failures: bool | None = None
    devices: tuple[DrbdDevice, ...] = ()
    peers: tuple[DrbdPeer, ...] = ()
    whole: bool = True

    def device(self, volume: int) -> DrbdDevice | None:
        """The volume of this number, None where there is no line for it."""
        return next((one for one in self.devices if one.volume == volume), None)

    def peer(self, name: str) -> DrbdPeer | None:
        """The peer of this name, None where none is listed."""
        return next((one for one in self.peers if one.name == name), None)


@dataclass(frozen=True, slots=True)
class DrbdStatus(Fact):
    """All that one machine says of its resources, ``origin.at`` the time.

    ``node`` is the machine's name as its peers call it; ``version`` the module's ("8.4.11",
    "9.2.14"), "" where not known. ``disagreements`` tell, in words, where /proc/drbd of 8.4, read
    a moment before, said otherwise. ``whole`` is False where the text was cut or had a line that
    is none of DRBD's; ``strange`` quotes those lines.
    """

    node: str
    version: str
    resources: tuple[DrbdResource, ...]
    disagreements: tuple[str, ...] = ()
    whole: bool = True
    strange: tuple[str, ...] = ()

    @property
    def generation(self) -> int | None:
        """8 or 9, None where the version is not known."""
        major = self.version.partition(".")[0]
        return int(major) if re.fullmatch(r"[0-9]{1,3}", major) else None

    @property
    def stands_alone(self) -> bool:
        """Whether a connection of any resource is StandAlone; its kernel log may say why."""
        peers = (peer for one in self.resources for peer in one.peers)
        return any(peer.connection == STANDALONE for peer in peers)

    def find(self, name: str) -> DrbdResource | None:
        """The resource of this name, None where it is not listed."""
        return next((one for one in self.resources if one.name == name), None)


@dataclass(frozen=True, slots=True)
class DrbdAbsent(Fact):
    """The machine answered, and there is nothing to see.

    ``what`` is NO_MODULE (DRBD is not loaded), NO_RESOURCE (not the one asked for) or NOTHING (no
    resource is up); ``resource`` is the one asked for, "" for all; ``said`` quotes the machine.
    """

    node: str
    what: str
    resource: str
    version: str
    said: str


@dataclass(frozen=True, slots=True)
class DrbdEvent:
    """One line of ``drbdsetup events2``.

    ``kind`` is exists, create, change, destroy, rename, call or response; ``object`` is resource,
    connection, device, peer-device, path or helper; ``resource`` its name. ``key`` says which one
    ("peer-node-id", "conn-name", "volume", "minor", …); ``states`` is the rest, word for word
    ("disk": "UpToDate"); a change names only what changed, and sometimes nothing. ``at`` is the
    machine's clock in epoch seconds, None without --timestamps.
    """

    kind: str
    object: str
    resource: str
    key: Mapping[str, str]
    states: Mapping[str, str]
    at: float | None = None


@dataclass(frozen=True, slots=True)
class DrbdHistory(Fact):
    """States as they changed: first the list of what was there, then every change.

    ``listed`` says that the list was closed (``exists -``): only then is a missing object absent.
    ``whole`` says that the text ended with a line's end. ``strange`` quotes lines that are none of
    DRBD's. An event seen is proof; that none came is proof only where the history is `gapless`.
    """

    node: str
    events: tuple[DrbdEvent, ...]
    listed: bool
    whole: bool = True
    strange: tuple[str, ...] = ()

    @property
    def gapless(self) -> bool:
        """Whether an event that is not here did not come while this was recorded."""
        return self.listed and self.whole and not self.strange

    def states(self, object_: str, state: str, resource: str = "") -> tuple[str, ...]:
        """The values that ``state`` of such objects took, in order, doubles in a row once.

        ``history.states("peer-device", "replication")`` → ("Established", "Off", "WFBitMapT", …).
        With more than one object of the kind their values are mixed.
        """
        taken: list[str] = []
        for event in self.events:
            value = event.states.get(state)
            fits = event.object == object_ and (not resource or event.resource == resource)
            if value is not None and fits and taken[-1:] != [value]:
                taken.append(value)
        return tuple(taken)


@dataclass(frozen=True, slots=True)
class DrbdLogEntry:
    """One line of the kernel log that tells what no state shows.

    ``what`` is one of:
    - "split brain": found and not solved, the connection was dropped
    - "split brain solved": found and solved, by hand or by a policy
    - "unrelated data": the peers share no history, the connection was refused
    - "connection refused": any other reason for which DRBD gave a connection up, quoted
    - "resync started": ``kib`` to sync · "resync done": ``seconds``
    - "verify done": ``seconds`` · "out of sync": ``blocks`` of 4 KiB that a verify found
    - "disk lost": I/O on the disk below failed
    - "disconnected": a connection ended on command; ``states`` has the change
    - "state": conn, disk, peer, pdsk, role, repl, quorum or susp-io changed; ``states`` has
      (name, from, to)

    ``at`` is the kernel's time in seconds since boot, None where the line bears none. ``resource``
    is "" where 8.4 names only the ``minor``, None where the line names only the resource.
    ``peer`` is DRBD 9's name of the other side, else "".
    """

    what: str
    line: str
    at: float | None = None
    resource: str = ""
    minor: int | None = None
    peer: str = ""
    states: tuple[tuple[str, str, str], ...] = ()
    kib: int | None = None
    seconds: int | None = None
    blocks: int | None = None


@dataclass(frozen=True, slots=True)
class DrbdLog(Fact):
    """What the kernel log tells of DRBD, oldest first.

    ``whole`` is False where the log does not reach back to the module's first line: the ring
    buffer wrapped or someone cleared it, and what is not listed may have happened before.
    """

    node: str
    entries: tuple[DrbdLogEntry, ...]
    whole: bool = True

    def of(self, what: str, resource: str = "") -> tuple[DrbdLogEntry, ...]:
        """The entries of one kind; with ``resource``, those of it and those that name none.

        Lines of 8.4's devices name none: on a machine with several resources tell them by minor.
        """
        return tuple(
            one
            for one in self.entries
            if one.what == what and (not resource or one.resource in ("", resource))
        )
