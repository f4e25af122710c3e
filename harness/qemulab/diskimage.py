"""A bootable disk image that the user names: checked against its checksum, unpacked once, kept.

Talos publishes its nocloud images as ``nocloud-amd64.raw.xz``; upstream's sandbox boots three of
them (lanes.md section 2). Raw and qcow2 are taken as they are; ``.xz`` and ``.gz`` are unpacked
into the cache.
"""

from __future__ import annotations

import gzip
import hashlib
import lzma
import shutil
from collections.abc import Callable
from pathlib import Path

from harness.qemulab.errors import Unfit

_PIECE = 1024 * 1024
_QCOW2 = b"QFI\xfb"
_UNPACKED: dict[str, type[lzma.LZMAFile] | type[gzip.GzipFile]] = {
    ".xz": lzma.LZMAFile,
    ".gz": gzip.GzipFile,
}

Say = Callable[[str], None]


def prepare(path: Path, sha256: str, cache: Path, say: Say) -> Path:
    """The image as QEMU can read it: the file itself, or its unpacked copy in the cache.

    Raises Unfit where there is no such file, where it is another one, and where it cannot be
    unpacked.
    """
    path = path.expanduser()
    unpacked = _UNPACKED.get(path.suffix)
    kept = cache / f"disk-{sha256[:16]}.raw"
    if unpacked is not None and kept.exists():
        return kept
    say(f"checking {path}")
    _check(path, sha256)
    if unpacked is None:
        return path
    say(f"unpacking {path.name}")
    _unpack(path, unpacked, kept)
    return kept


def format_of(path: Path) -> str:
    """The format as QEMU names it. Raises Unfit where the file cannot be read."""
    try:
        with path.open("rb") as file:
            return "qcow2" if file.read(4) == _QCOW2 else "raw"
    except OSError as refused:
        raise _unreadable(path, refused) from refused


def _check(path: Path, sha256: str) -> None:
    try:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as refused:
        raise _unreadable(path, refused) from refused
    if found != sha256:
        raise Unfit(
            f"use the image {path}",
            f"a file with the SHA-256 {found}, and {sha256} was named",
            "fetch the image anew, or correct its checksum",
        )


def _unpack(path: Path, unpacked: type[lzma.LZMAFile] | type[gzip.GzipFile], kept: Path) -> None:
    beside = kept.with_suffix(".part")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with unpacked(path) as packed, beside.open("wb") as file:
            shutil.copyfileobj(packed, file, _PIECE)
        beside.replace(kept)
    except (OSError, lzma.LZMAError, EOFError) as refused:
        beside.unlink(missing_ok=True)
        saw = getattr(refused, "strerror", None) or str(refused)
        raise Unfit(f"unpack {path} into {kept.parent}", saw, "make room, or fetch it anew") from (
            refused
        )


def _unreadable(path: Path, refused: OSError) -> Unfit:
    saw = f"no readable file ({refused.strerror or refused})"
    return Unfit(f"use the image {path}", saw, "correct its path")
