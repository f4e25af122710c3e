"""Storage pools below LINSTOR: how much is in each, and what its volumes take.

A pool is a ZFS pool of thick volumes on one hypervisor, or the one without disks that LINSTOR has
on each node. Sizes are in KiB. ZFS gives a deleted volume's space back later (clone_path.md
section 7).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

DATA, DISKLESS_POOL = "data", "DfltDisklessStorPool"
ZFS, DISKLESS = "ZFS", "DISKLESS"
CAPACITY = 200 * 2**20
"""KiB of each hypervisor's pool: the data disk of the nightly lane's nodes (lanes.md section 2)."""
PEER_SLOTS = 7
_SECTORS = 2  # in a KiB
_BLOCK = 16  # KiB; ZFS' default volblocksize


def gross(kib: int) -> int:
    """What a DRBD volume of a size takes below: its data and DRBD's own, in ZFS' blocks.

    72 sectors, and for each of seven peers a bit for each 4 KiB, in units of 8 sectors (DRBD 9
    User's Guide, "Estimating metadata size").
    """
    bitmaps = -(-kib * _SECTORS // 2**18) * 8 * PEER_SLOTS
    return net(kib + -(-(bitmaps + 72) // _SECTORS))


def net(kib: int) -> int:
    """What a volume without DRBD takes."""
    return -(-kib // _BLOCK) * _BLOCK


@dataclass(slots=True)
class Pool:
    """The ZFS pool of one host. ``volumes``: what each takes, by its resource's name."""

    host: str
    total: int = CAPACITY
    volumes: dict[str, int] = field(default_factory=dict)
    _freeing: list[tuple[float, int]] = field(default_factory=list)

    def free(self, now: float) -> int:
        """What could be written now; what is not freed yet does not count."""
        self._freeing = [one for one in self._freeing if one[0] > now]
        held = sum(self.volumes.values()) + sum(kib for _, kib in self._freeing)
        return max(0, self.total - held)

    def release(self, name: str, due: float) -> None:
        """Delete a volume, whose space is back at a moment; one that is not there is fine."""
        kib = self.volumes.pop(name, 0)
        if kib:
            self._freeing.append((due, kib))

    @property
    def frees_at(self) -> float:
        """When the last deleted volume's space is back, 0 where nothing is awaited."""
        return max((due for due, _ in self._freeing), default=0.0)


class Pools:
    """The pool of every host, made when first asked for. ``frees`` draws how long ZFS takes."""

    def __init__(self, now: Callable[[], float], frees: Callable[[], float]) -> None:
        self._now, self._frees = now, frees
        self._pools: dict[str, Pool] = {}

    def __iter__(self) -> Iterator[Pool]:
        return iter(self._pools.values())

    def on(self, host: str) -> Pool:
        """A host's pool."""
        return self._pools.setdefault(host, Pool(host))

    def free(self, host: str) -> int:
        """What is free on a host now."""
        return self.on(host).free(self._now())

    def release(self, name: str, *, keep: Sequence[str] = ()) -> None:
        """Delete a volume wherever it is, but for the hosts that keep it."""
        holders = [
            pool for pool in self._pools.values() if name in pool.volumes and pool.host not in keep
        ]
        if holders:
            due = self._now() + self._frees()
            for pool in holders:
                pool.release(name, due)
