"""The trials of one volume, each made once; what they came to is kept."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from harness.bringup.drbd import disks, losses, quorum, roles, splitting
from harness.bringup.drbd.volume import Volume
from harness.facts.drbdtrials import (
    DiskLoss,
    DrbdTrial,
    LinkLoss,
    OutdatedRefused,
    PlannedFailover,
    PrimaryLoss,
    QuorumLoss,
    ReplicaLoss,
    SplitBrain,
    VerifyFound,
)
from harness.facts.fact import Unread

_T = TypeVar("_T", bound=DrbdTrial)


@dataclass(slots=True)
class DrbdTrials:
    """What a volume can be put to. Each takes it as it is, in sync, and leaves it so.

    Unread where the volume or the lab is not fit for a trial, with the reason.
    """

    volume: Volume
    _seen: dict[str, DrbdTrial | Unread] = field(default_factory=dict)

    def failover(self) -> PlannedFailover | Unread:
        """The roles exchanged as an administrator would."""
        return self._once("failover", roles.planned_failover)

    def replica_loss(self) -> ReplicaLoss | Unread:
        """The Secondary's machine off and on again."""
        return self._once("replica", losses.replica_loss)

    def primary_loss(self) -> PrimaryLoss | Unread:
        """The Primary's machine off, the other promoted, the old one back."""
        return self._once("primary", losses.primary_loss)

    def link_loss(self, *, carrier: bool) -> LinkLoss | Unread:
        """The link cut, silently or with its carrier, and healed."""
        return self._once(
            f"link {carrier}", lambda volume: losses.link_loss(volume, carrier=carrier)
        )

    def split_brain(self) -> SplitBrain | Unread:
        """Both Primary apart from each other, then recovered."""
        return self._once("split brain", splitting.split_brain)

    def disk_loss(self, *, under_primary: bool) -> DiskLoss | Unread:
        """The disk below one replica gone, I/O going on, the disk back."""
        return self._once(
            f"disk {under_primary}",
            lambda volume: disks.disk_loss(volume, under_primary=under_primary),
        )

    def outdated(self) -> OutdatedRefused | Unread:
        """An outdated replica asked to become Primary."""
        return self._once("outdated", roles.outdated_refused)

    def verify(self) -> VerifyFound | Unread:
        """Blocks that differ in secret, found and mended."""
        return self._once("verify", disks.verify_found)

    def quorum_loss(self) -> QuorumLoss | Unread:
        """The Primary without a majority, and with it again."""
        return self._once("quorum", quorum.quorum_loss)

    def _once(self, kind: str, make: Callable[[Volume], _T | Unread]) -> _T | Unread:
        if kind not in self._seen:
            self._seen[kind] = make(self.volume)
        seen: _T | Unread = self._seen[kind]  # type: ignore[assignment]  # kept under its own kind
        return seen
