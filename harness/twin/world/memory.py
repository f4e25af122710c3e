"""The memory of a worker's machine over the uptime of each of its boots.

It is a function of the uptime, so that any moment can be asked about later and none has to be
kept. Page cache fills up what programs leave: just before the timer of a boot that does not end,
about 96 % of memory are in use, and nearly all of that can be had back (S-DOC;
uptime_and_diagnosis section 3).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

TOTAL = 16_384_000
"""KiB of a u1.xlarge, less what its kernel keeps for itself."""
EATEN = 240.0
"""Seconds in which something that eats memory has eaten it all."""
_FREE = 655_360  # KiB that the page cache leaves free once it is full: 4 %
_LEFT = 61_440  # KiB available when memory is out
_CACHED_AT_BOOT = 524_288
_CACHE_FILLS = 3_300.0  # KiB in a second, from reading images and writing logs
_BUFFERS = 4_096


@dataclass(frozen=True, slots=True)
class Workload:
    """Anonymous memory of some programs: KiB in the end, and the seconds in which most came."""

    kib: int
    grows: float

    def at(self, uptime: float) -> int:
        """KiB at an uptime."""
        return int(self.kib * (1 - math.exp(-max(0.0, uptime) / self.grows)))


SYSTEM = (Workload(900_000, 5.0), Workload(1_200_000, 30.0), Workload(1_176_800, 60.0))
"""Talos itself, kubelet and containerd, the pods of a fresh worker."""


@dataclass(frozen=True, slots=True)
class Levels:
    """Memory at one moment, all in KiB, as /proc/meminfo has it."""

    total: int
    free: int
    available: int
    buffers: int
    cached: int


@dataclass(slots=True)
class Memory:
    """One machine's memory. ``workloads`` are programs; ``exhausted`` is the uptime at which
    something in this boot has eaten it all, None where nothing does."""

    total: int = TOTAL
    workloads: tuple[Workload, ...] = SYSTEM
    exhausted: float | None = None

    def at(self, uptime: float) -> Levels:
        """The levels at an uptime of this boot, in seconds."""
        anonymous = sum(one.at(uptime) for one in self.workloads)
        available = max(_LEFT, self.total - anonymous - self._eaten(uptime, anonymous))
        room = max(0, available - _FREE)
        cached = min(int(_CACHED_AT_BOOT + _CACHE_FILLS * uptime), room)
        free = max(_LEFT // 2, available - cached - _BUFFERS)
        return Levels(self.total, free, available, _BUFFERS, cached)

    def _eaten(self, uptime: float, anonymous: int) -> int:
        if self.exhausted is None:
            return 0
        share = (uptime - self.exhausted + EATEN) / EATEN
        return int((self.total - anonymous - _LEFT) * min(1.0, max(0.0, share)))


@dataclass(slots=True)
class Boot:
    """One boot that was: moments in epoch seconds, ``ended`` None for the one that is on.

    ``served`` is when its kubelet, and with that its exporter, was there; ``kills`` are the moments
    at which the kernel killed for want of memory.
    """

    began: float
    memory: Memory
    served: float | None = None
    ended: float | None = None
    kills: list[float] = field(default_factory=list)
