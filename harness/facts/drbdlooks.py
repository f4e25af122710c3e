"""A replicated volume at one moment, as each of its nodes sees it: what trials keep of a status.

One vocabulary for both generations, as in `harness.facts.drbd`; what a version does not say stays
None. 8.4 names no peer and lists none for a StandAlone resource (lab/qemu_drbd.md, traps 1 and 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from harness.facts.drbd import (
    CONNECTED,
    ESTABLISHED,
    PRIMARY,
    UNNAMED_PEER,
    UP_TO_DATE,
    DrbdAbsent,
    DrbdPeer,
    DrbdStatus,
)
from harness.facts.fact import Unread

VOLUME = 0
"""The volume of the resource that trials use: theirs has one."""
SYNCING = ("SyncSource", "SyncTarget", "PausedSyncS", "PausedSyncT")
"""Replication states in which blocks are copied, or about to be."""
VERIFYING = ("VerifyS", "VerifyT")
"""Replication states in which blocks are compared."""

Answer = DrbdStatus | DrbdAbsent | Unread
"""What a node may say of its resources."""


@dataclass(frozen=True, slots=True)
class PeerView:
    """One peer as a node sees it. ``out_of_sync`` in bytes, None where not said."""

    name: str
    connection: str = ""
    role: str = ""
    replication: str = ""
    disk: str = ""
    out_of_sync: int | None = None
    client: bool = False

    @property
    def in_sync(self) -> bool:
        """Connected, and every block the same; a peer without a disk by design has only the first.

        The number decides: after a verify both disks are UpToDate with blocks out of sync.
        """
        if self.connection != CONNECTED:
            return False
        states = (self.replication, self.disk)
        return self.client or (states == (ESTABLISHED, UP_TO_DATE) and self.out_of_sync == 0)


@dataclass(frozen=True, slots=True)
class View:
    """The volume as one node sees it. ``missing`` says why there is nothing to see, "" else.

    ``suspended`` are the reasons why I/O stands still, None where not said; ``quorum`` is None
    where the version knows none.
    """

    node: str
    role: str = ""
    disk: str = ""
    peers: tuple[PeerView, ...] = ()
    suspended: tuple[str, ...] | None = None
    quorum: bool | None = None
    client: bool = False
    missing: str = ""

    def peer(self, node: str) -> PeerView | None:
        """The peer that is this node; 8.4 names none, and has no other."""
        named = [one for one in self.peers if one.name == node]
        unnamed = [one for one in self.peers if one.name == UNNAMED_PEER]
        return next(iter(named or unnamed), None)

    @property
    def connected(self) -> bool:
        """Whether it is connected to every peer; without a peer's line it is to none."""
        return bool(self.peers) and all(one.connection == CONNECTED for one in self.peers)

    @property
    def in_sync(self) -> bool:
        """Whether its own disk is UpToDate and every peer is `PeerView.in_sync`."""
        own = self.client or self.disk == UP_TO_DATE
        return own and bool(self.peers) and all(one.in_sync for one in self.peers)

    @property
    def out_of_sync(self) -> int | None:
        """Bytes out of sync with the worst peer, None where no peer's line says."""
        said = [one.out_of_sync for one in self.peers if one.out_of_sync is not None]
        return max(said, default=None)

    @property
    def resyncing(self) -> tuple[str, ...]:
        """The replication states of a resync that it is in, towards whomever."""
        return tuple(one.replication for one in self.peers if one.replication in SYNCING)

    def __str__(self) -> str:
        """As a sentence tells it."""
        if self.missing:
            return f"{self.node}: {self.missing}"
        halted = f", I/O suspended ({', '.join(self.suspended)})" if self.suspended else ""
        quorum = ", no quorum" if self.quorum is False else ""
        peers = "; ".join(map(_peer_in_words, self.peers)) or "no peer listed"
        return f"{self.node}: {self.role} {self.disk}{quorum}{halted}, {peers}"


@dataclass(frozen=True, slots=True)
class Look:
    """What every replica said, one after the other; ``at`` when the last had answered."""

    at: float
    views: tuple[View, ...]

    def of(self, node: str) -> View:
        """The view of one node, one with ``missing`` where it was not asked."""
        found = (one for one in self.views if one.node == node)
        return next(found, View(node, missing="was not asked"))

    @property
    def in_sync(self) -> bool:
        """Whether all of them were asked, and each is `View.in_sync`."""
        return bool(self.views) and all(one.in_sync for one in self.views)

    @property
    def primaries(self) -> tuple[str, ...]:
        """The nodes that say they are Primary."""
        return tuple(one.node for one in self.views if one.role == PRIMARY)

    def __str__(self) -> str:
        """As a sentence tells it."""
        return " | ".join(map(str, self.views))


def view_of(answer: Answer, node: str, resource: str) -> View:
    """A node's answer as a trial keeps it. Never raises."""
    if isinstance(answer, Unread):
        return View(node, missing=f"could not be read ({answer.reason})")
    if isinstance(answer, DrbdAbsent):
        return View(node, missing=answer.what)
    found = answer.find(resource)
    if found is None or not found.whole:
        told = "no such resource" if found is None and answer.whole else "the answer was cut"
        return View(node, missing=told)
    device = found.device(VOLUME)
    return View(
        node,
        found.role,
        device.disk_state if device else "",
        tuple(map(_peer_view, found.peers)),
        found.suspended,
        device.quorum if device else None,
        bool(device and device.client),
    )


def changed(looks: Iterable[Look]) -> Iterator[Look]:
    """The looks that differ from the one before in more than their time, and the last."""
    last: Look | None = None
    held: Look | None = None
    for one in looks:
        if last is None or replace(one, at=last.at) != last:
            yield one
            held, last = None, one
        else:
            held = one
    if held is not None:
        yield held


def _peer_view(peer: DrbdPeer) -> PeerView:
    device = peer.device(VOLUME)
    if device is None:
        return PeerView(peer.name, peer.connection, peer.role)
    return PeerView(
        peer.name,
        peer.connection,
        peer.role,
        device.replication,
        device.disk_state,
        device.out_of_sync,
        bool(device.client),
    )


def _peer_in_words(peer: PeerView) -> str:
    if peer.connection != CONNECTED:
        return f"{peer.name} {peer.connection or 'unknown'}"
    oos = "" if peer.out_of_sync is None else f", {peer.out_of_sync} bytes out of sync"
    return f"{peer.name} {peer.role} {peer.disk} {peer.replication}{oos}"
