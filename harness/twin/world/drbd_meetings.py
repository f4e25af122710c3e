"""What two DRBD nodes that meet decide by the identifiers of their generations of data.

The rules: LINBIT drbd, drbd/drbd_receiver.c; how they are told: dmesg_drbd9_n1.txt of lab/captures.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.twin.world.drbd_state import (
    CONSISTENT,
    DISKLESS,
    INCONSISTENT,
    JUST_CREATED,
    PRIMARY,
    UP_TO_DATE,
    Replica,
)

_GOOD = (UP_TO_DATE, CONSISTENT)
SPLIT, UNRELATED = "split-brain-disconnect", "unrelated-data"


@dataclass(frozen=True, slots=True)
class Meeting:
    """What comes of two nodes that meet: ``source`` to ``target``, or nobody to nobody.

    ``how`` is use-bitmap or set-bitmap, no-sync, SPLIT or UNRELATED; ``rule`` the one applied.
    """

    how: str
    rule: str
    source: Replica | None = None
    target: Replica | None = None

    def told(self, replica: Replica) -> str:
        """How one of the two tells it. ``rule`` is worded as the source has it."""
        if self.source is None:
            return f"{self.how} by rule={self.rule}"
        if self.source is replica:
            return f"source-{self.how} by rule={self.rule}"
        swap = {"self": "peer", "peer": "self"}
        kind, _, whose = self.rule.rpartition("-")
        return f"target-{self.how} by rule={kind}-{swap.get(whose, whose)}"


def compare(one: Replica, other: Replica) -> Meeting:
    """Who has the newer data, by the identifiers of their generations."""
    if DISKLESS in (one.disk, other.disk):
        return Meeting("no-sync", "no-disk")
    if one.current == other.current:
        return _same(one, other)
    for mine, theirs in ((one, other), (other, one)):
        if theirs.current == JUST_CREATED:
            return Meeting("set-bitmap", "just-created-peer", mine, theirs)
        if mine.peers[theirs.node_id].bitmap_uuid == theirs.current:
            return Meeting("use-bitmap", "bitmap-self", mine, theirs)
    for mine, theirs in ((one, other), (other, one)):
        if theirs.current in mine.history:
            return Meeting("set-bitmap", "history-self", mine, theirs)
    bitmaps = {one.peers[other.node_id].bitmap_uuid, other.peers[one.node_id].bitmap_uuid}
    if len(bitmaps) == 1 and bitmaps != {0}:
        return Meeting(SPLIT, "bitmap-both")
    if set(one.history) & set(other.history) or (bitmaps - {0}) & {
        *one.history,
        *other.history,
    }:
        return Meeting(SPLIT, "history-both")
    return Meeting(UNRELATED, "none")


def _same(one: Replica, other: Replica) -> Meeting:
    if one.current == JUST_CREATED:
        return Meeting("no-sync", "just-created-both")
    # blocks that a verify found are brought in sync when the two meet again (LINBIT's guide)
    bits = one.peers[other.node_id].bits or other.peers[one.node_id].bits
    doubtful = one.peers[other.node_id].bitmap_uuid or other.peers[one.node_id].bitmap_uuid
    if INCONSISTENT in (one.disk, other.disk) and one.disk != other.disk:
        source, target = (other, one) if one.disk == INCONSISTENT else (one, other)
        return Meeting("use-bitmap", "disk-states", source, target)
    good = [node for node in (one, other) if node.disk in _GOOD]
    if bits and not doubtful and good:
        first = sorted(good, key=lambda node: (node.disk != UP_TO_DATE, node.role != PRIMARY))
        source = first[0]
        return Meeting("use-bitmap", "bitmap-self", source, other if source is one else one)
    return Meeting("no-sync", "lost-quorum")
