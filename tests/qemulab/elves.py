"""ELF files made by hand, for what reads them."""

from __future__ import annotations

import struct


def elf(*libraries: str, dynamic: bool = True) -> bytes:
    """A program that loads these libraries: two segments, and nothing that could run."""
    strings = b"\0" + b"".join(f"{name}\0".encode() for name in libraries)
    at, tags = 1, b""
    for name in libraries:
        tags += struct.pack("<qQ", 1, at)
        at += len(name) + 1
    base, start = 0x400000, 64 + 2 * 56
    tags += struct.pack("<qQ", 5, base + start) + struct.pack("<qQ", 0, 0)
    size = start + len(strings) + len(tags)
    header = b"\x7fELF\x02\x01\x01" + b"\0" * 9
    header += struct.pack("<HHIQQQIHHHHHH", 2, 62, 1, 0, 64, 0, 0, 64, 56, 1 + dynamic, 0, 0, 0)
    load = struct.pack("<IIQQQQQQ", 1, 5, 0, base, base, size, size, 4096)
    where = start + len(strings)
    segment = struct.pack("<IIQQQQQQ", 2, 6, where, base + where, 0, len(tags), len(tags), 8)
    return header + load + segment + strings + tags
