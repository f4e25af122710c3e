from __future__ import annotations

import re

import pytest

from harness.twin.world.meminfo import meminfo
from harness.twin.world.memory import Memory

# what a guest of the mini-lab has, Linux 6.1, in its order
REAL = [
    "MemTotal",
    "MemFree",
    "MemAvailable",
    "Buffers",
    "Cached",
    "SwapCached",
    "Active",
    "Inactive",
    "Active(anon)",
    "Inactive(anon)",
    "Active(file)",
    "Inactive(file)",
    "Unevictable",
    "Mlocked",
    "SwapTotal",
    "SwapFree",
    "Dirty",
    "Writeback",
    "AnonPages",
    "Mapped",
    "Shmem",
    "KReclaimable",
    "Slab",
    "SReclaimable",
    "SUnreclaim",
    "KernelStack",
    "PageTables",
    "SecPageTables",
    "NFS_Unstable",
    "Bounce",
    "WritebackTmp",
    "CommitLimit",
    "Committed_AS",
    "VmallocTotal",
    "VmallocUsed",
    "VmallocChunk",
    "Percpu",
    "AnonHugePages",
    "ShmemHugePages",
    "ShmemPmdMapped",
    "FileHugePages",
    "FilePmdMapped",
    "HugePages_Total",
    "HugePages_Free",
    "HugePages_Rsvd",
    "HugePages_Surp",
    "Hugepagesize",
    "Hugetlb",
    "DirectMap4k",
    "DirectMap2M",
    "DirectMap1G",
]


@pytest.mark.parametrize("uptime", [0.0, 60.0, 4000.0, 200_000.0])
@pytest.mark.parametrize("exhausted", [None, 3000.0])
def test_it_has_the_lines_of_a_real_one_and_adds_up(uptime: float, exhausted: float | None) -> None:
    levels = Memory(exhausted=exhausted).at(uptime)
    text = meminfo(levels)
    rows = [re.fullmatch(r"([\w()]+): +(\d+)( kB)?", line) for line in text.splitlines()]
    assert all(rows)
    found = {row[1]: int(row[2]) for row in rows if row}
    assert list(found) == REAL
    assert [row[1] for row in rows if row and not row[3]] == [x for x in REAL if "HugePages_" in x]
    assert (found["MemTotal"], found["MemAvailable"]) == (levels.total, levels.available)
    for whole in ("Active", "Inactive"):
        assert found[whole] == found[f"{whole}(anon)"] + found[f"{whole}(file)"]
    assert found["Active(file)"] + found["Inactive(file)"] == found["Cached"] + found["Buffers"]
    assert found["MemFree"] + found["Cached"] + found["AnonPages"] <= found["MemTotal"]


def test_columns_are_the_kernels() -> None:
    lines = meminfo(Memory().at(60.0)).splitlines()
    assert lines[0] == "MemTotal:       16384000 kB"
    assert "VmallocTotal:   34359738367 kB" in lines
    assert "HugePages_Total:       0" in lines
