"""/proc/meminfo, whole: every line that Linux 6.1 writes on a machine without swap.

Names, order and columns are those of the mini-lab's guests, as `hil equivalence` compares them;
what the model of memory does not know is made up.
"""

from __future__ import annotations

from collections.abc import Iterator

from harness.twin.world.memory import Levels

_SLAB, _RECLAIMABLE = 180_000, 110_000
_MAPPED = 420_000
_PAGES_2M = 2_048


def meminfo(levels: Levels) -> str:
    """The whole file."""
    lines = [f"{f'{name}:':<16}{value:>8} kB\n" for name, value in _sizes(levels)]
    pages = [f"HugePages_{name}:{value:>{19 - len(name) - 6}}\n" for name, value in _PAGES]
    at = next(n for n, line in enumerate(lines) if line.startswith("Hugepagesize"))
    return "".join([*lines[:at], *pages, *lines[at:]])


_PAGES = (("Total", 0), ("Free", 0), ("Rsvd", 0), ("Surp", 0))


def _sizes(levels: Levels) -> Iterator[tuple[str, int]]:
    """Names and KiB."""
    files = max(0, levels.cached + levels.buffers)
    anonymous = max(0, levels.total - levels.free - files - _SLAB)
    active_files = files // 2
    yield "MemTotal", levels.total
    yield "MemFree", levels.free
    yield "MemAvailable", levels.available
    yield "Buffers", levels.buffers
    yield "Cached", levels.cached
    yield "SwapCached", 0
    yield "Active", active_files + anonymous // 8
    yield "Inactive", files - active_files + anonymous - anonymous // 8
    yield "Active(anon)", anonymous // 8
    yield "Inactive(anon)", anonymous - anonymous // 8
    yield "Active(file)", active_files
    yield "Inactive(file)", files - active_files
    yield from dict.fromkeys(("Unevictable", "Mlocked", "SwapTotal", "SwapFree"), 0).items()
    yield "Dirty", 312
    yield "Writeback", 0
    yield "AnonPages", anonymous
    yield "Mapped", min(files, _MAPPED)
    yield "Shmem", 5_120
    yield "KReclaimable", _RECLAIMABLE
    yield "Slab", _SLAB
    yield "SReclaimable", _RECLAIMABLE
    yield "SUnreclaim", _SLAB - _RECLAIMABLE
    yield "KernelStack", 12_800
    yield "PageTables", 21_504
    yield from dict.fromkeys(("SecPageTables", "NFS_Unstable", "Bounce", "WritebackTmp"), 0).items()
    yield "CommitLimit", levels.total // 2
    yield "Committed_AS", anonymous * 2
    yield "VmallocTotal", 34_359_738_367
    yield "VmallocUsed", 53_248
    yield "VmallocChunk", 0
    yield "Percpu", 9_216
    of_huge_pages = ("AnonHugePages", "ShmemHugePages", "ShmemPmdMapped", "FileHugePages")
    yield from dict.fromkeys((*of_huge_pages, "FilePmdMapped"), 0).items()
    yield "Hugepagesize", _PAGES_2M
    yield "Hugetlb", 0
    yield "DirectMap4k", 260_096
    yield "DirectMap2M", levels.total - levels.total % _PAGES_2M
    yield "DirectMap1G", 0
