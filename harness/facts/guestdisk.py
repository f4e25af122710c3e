"""How large a disk is to the guest: what its kernel says, not what a claim asked for.

A claim's capacity says that storage was grown; the guest has it only when the block device is as
large (clone_path section 8).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.facts.fact import Fact, Unread
from harness.facts.reply import Output, quote, unfinished

SECTORS = "/sys/block/vda/size"
"""The system disk, /dev/vda (objects section 5), in sectors."""
SECTOR = 512
"""Bytes of a sector there, whatever the disk's own block size (Linux, block/genhd.c)."""

_NUMBER = re.compile(r"[0-9]{1,15}", re.ASCII)


@dataclass(frozen=True, slots=True)
class GuestDisk(Fact):
    """The system disk's size in bytes, as the guest's kernel has it."""

    size: int


def read_disk_size(output: Output, *, at: float, source: str) -> GuestDisk | Unread:
    """Read the reply of ``cat /sys/block/vda/size``."""
    origin = output.origin(at, source)
    refused = unfinished(output, SECTORS, origin)
    if refused is not None:
        return refused
    said = output.stdout.strip()
    if not _NUMBER.fullmatch(said):
        return Unread(origin, SECTORS, f"this is no number of sectors: {quote(output.stdout)}")
    return GuestDisk(origin, int(said) * SECTOR)
