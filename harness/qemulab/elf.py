"""What ELF files say of themselves: the libraries they load, a module's own description."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"\x7fELF\x02\x01"  # 64 bits, little endian: what amd64 and arm64 have
_LOAD, _DYNAMIC = 1, 2  # p_type (ELF specification, program header)
_NULL, _NEEDED, _STRTAB = 0, 1, 5  # d_tag (the same, dynamic section)


@dataclass(frozen=True, slots=True)
class _Segment:
    kind: int
    offset: int
    address: int
    size: int


def is_elf(file: Path) -> bool:
    """Whether the file begins as a 64-bit little-endian ELF file does."""
    with file.open("rb") as stream:
        return stream.read(len(_MAGIC)) == _MAGIC


def needed(data: bytes) -> list[str]:
    """The libraries that a program or library loads, by file name; [] for a static one.

    Raises `ValueError` for what is no such ELF file, or is cut.
    """
    if data[: len(_MAGIC)] != _MAGIC:
        raise ValueError("no 64-bit little-endian ELF file")
    try:
        return _needed(data)
    except struct.error as cut:
        raise ValueError(f"a cut ELF file: {cut}") from cut


def _needed(data: bytes) -> list[str]:
    segments = _segments(data)
    dynamic = [segment for segment in segments if segment.kind == _DYNAMIC]
    if not dynamic:
        return []
    entries = _dynamic(data, dynamic[0])
    strings = _file_offset(segments, next(value for tag, value in entries if tag == _STRTAB))
    return [_text(data, strings + value) for tag, value in entries if tag == _NEEDED]


def _segments(data: bytes) -> list[_Segment]:
    (start,) = struct.unpack_from("<Q", data, 32)
    size, count = struct.unpack_from("<HH", data, 54)
    found = []
    for index in range(count):
        kind, _, offset, address, _, length = struct.unpack_from(
            "<IIQQQQ", data, start + index * size
        )
        found.append(_Segment(kind, offset, address, length))
    return found


def _dynamic(data: bytes, segment: _Segment) -> list[tuple[int, int]]:
    entries: list[tuple[int, int]] = []
    for at in range(segment.offset, segment.offset + segment.size, 16):
        tag, value = struct.unpack_from("<qQ", data, at)
        if tag == _NULL:
            break
        entries.append((tag, value))
    return entries


def _file_offset(segments: list[_Segment], address: int) -> int:
    for segment in segments:
        if segment.kind == _LOAD and 0 <= address - segment.address < segment.size:
            return address - segment.address + segment.offset
    raise ValueError(f"no segment holds address {address:#x}")


def _text(data: bytes, at: int) -> str:
    return data[at : data.index(b"\0", at)].decode("utf-8", "replace")


def module_info(data: bytes, key: str) -> list[str]:
    """What a kernel module's .modinfo says under ``key`` ("depends", "version"), in its order."""
    found = re.findall(rb"(?:\A|\0)" + re.escape(key).encode() + rb"=([^\0]*)(?=\0)", data)
    return [value.decode("utf-8", "replace") for value in found]
