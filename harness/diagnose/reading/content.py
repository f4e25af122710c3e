"""What a file is by its first bytes: text in some encoding, or something that holds no text.

Never by its name: a screenshot may be called ``dmesg.txt``.
"""

from __future__ import annotations

import re

SNIFFED = 64 * 1024
"""Bytes from the beginning of a file that decide what it is."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "an image: its text cannot be read"),
    (b"\xff\xd8\xff", "an image: its text cannot be read"),
    (b"GIF87a", "an image: its text cannot be read"),
    (b"GIF89a", "an image: its text cannot be read"),
    (b"%PDF-", "a PDF: save the text that it shows"),
    (b"\x7fELF", "a program or a core dump (ELF)"),
    (b"SQLite format 3\0", "a SQLite database"),
    (b"LPKSHHRH", "a systemd journal file: attach what `journalctl --file` prints of it"),
    (b"\xd4\xc3\xb2\xa1", "a packet capture"),
    (b"\xa1\xb2\xc3\xd4", "a packet capture"),
    (b"\x0a\x0d\x0d\x0a", "a packet capture"),
    (b"QFI\xfb", "a disk image"),
    (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "an office document"),
)
_PACKED: tuple[tuple[bytes, str], ...] = (
    (b"\xfd7zXZ\0", "xz"),
    (b"BZh", "bzip2"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
    (b"7z\xbc\xaf\x27\x1c", "7z"),
    (b"Rar!\x1a\x07", "rar"),
    (b"\x04\x22\x4d\x18", "lz4"),
)
_BOMS = (
    (b"\xff\xfe\0\0", "utf-32"),
    (b"\0\0\xfe\xff", "utf-32"),
    (b"\xff\xfe", "utf-16"),
    (b"\xfe\xff", "utf-16"),
)
_CONTROL = bytes(set(range(1, 32)) - set(b"\a\b\t\n\v\f\r\x1b")) + b"\x7f"
_HIGH = bytes(range(128, 256))
_TEXT = re.compile(rb"[\t\n\r -~]")


def encoding_of(head: bytes) -> str:
    """The name of the encoding: by its byte order mark, or by where its NULs are; else UTF-8."""
    for mark, name in _BOMS:
        if head.startswith(mark):
            return name
    even, odd = head[0:4096:2], head[1:4096:2]
    if len(odd) >= 4:
        if odd.count(0) > 0.9 * len(odd) and not even.count(0):
            return "utf-16-le"
        if even.count(0) > 0.9 * len(even) and not odd.count(0):
            return "utf-16-be"
    return "utf-8"


def not_text(head: bytes) -> str:
    """Why a file that begins so holds no text, "" where it does (or is empty)."""
    for magic, why in _MAGIC:
        if head.startswith(magic):
            return why
    for magic, name in _PACKED:
        if head.startswith(magic):
            return f"packed by {name}: unpack it first"
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "an image: its text cannot be read"
    return "" if encoding_of(head) != "utf-8" else _binary(head.replace(b"\0", b""), head)


def _binary(said: bytes, head: bytes) -> str:
    if head and not said:
        return "nothing but NUL bytes"
    controls = len(said) - len(said.translate(None, _CONTROL))
    if controls > 0.03 * len(said):
        return "binary: no text"
    high = len(said) - len(said.translate(None, _HIGH))
    if high > 0.3 * len(said) and not _utf8(said):
        return "binary: no text, or in an encoding that is not known"
    return ""


def _utf8(said: bytes) -> bool:
    """Whether it is UTF-8, but for a character that the end cuts."""
    try:
        said[: max(len(said) - 4, 1)].decode("utf-8")
    except UnicodeDecodeError as error:
        return error.start >= len(said) - 8
    return True
