"""The files of a folder, of an archive, or one file: in a stable order, each to be read at once.

Nothing is unpacked to a disk, no link is followed, nothing but a plain file is opened.
"""

from __future__ import annotations

import gzip
import io
import os
import stat
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol, cast

from harness.diagnose.reading.limits import MIB, Limits, said
from harness.diagnose.reading.window import READ_ERRORS, Stream, printable, reason

Tell = Callable[[str, str], None]
"""Takes a source and why it is not used."""

_PEEK = 512
_ZIP_DIRECTORY = 8 * MIB
_ZIP_IN_MEMORY = 64 * MIB
_END_OF_ZIP = struct.Struct("<4s4xHHIIH")


class NotReadable(ValueError):
    """There is nothing to read where the user said; the message is one sentence for them."""


class TooMuch(OSError):
    """An archive that holds more than may be read of it."""


class _Opened(Stream, Protocol):
    """A buffered file, of which the beginning can be looked at."""

    def peek(self, size: int, /) -> bytes: ...
    def seekable(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class Piece:
    """One file. ``stream`` is good until the next one is asked for."""

    name: str
    stream: Stream


def pieces(path: Path, limits: Limits, tell: Tell) -> Iterator[Piece]:
    """The files at a path: a folder, an archive (.tar, .tar.gz, .zip) or one file.

    Raises NotReadable where there is nothing, or nothing that may be read.
    """
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        raise NotReadable(f"{path} cannot be read: {reason}") from error
    if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        raise NotReadable(f"{path} is neither a folder nor a file")
    found = _walk(path, limits, tell) if stat.S_ISDIR(mode) else _file(path, limits, tell)
    for count, piece in enumerate(found):
        if count == limits.files:
            tell(piece.name, f"more than {limits.files} files: this one and what follows")
            return
        yield piece


def _walk(root: Path, limits: Limits, tell: Tell) -> Iterator[Piece]:
    pending: list[tuple[Path, str, int]] = [(root, "", 0)]
    while pending:
        folder, prefix, depth = pending.pop()
        try:
            names = sorted(one.name for one in folder.iterdir())
        except OSError as error:
            if not prefix:
                raise NotReadable(f"{folder} cannot be read: {error.strerror}") from error
            tell(printable(prefix), f"cannot be read: {error.strerror}")
            continue
        folders = []
        for name in names:
            path, label = folder / name, prefix + name
            mode = _mode(path, printable(label), tell)
            if mode is None:
                continue
            if not stat.S_ISDIR(mode):
                yield from _plain(path, printable(label), limits, tell)
            elif depth < limits.depth:
                folders.append((path, f"{label}/", depth + 1))
            else:
                tell(printable(label), f"more than {limits.depth} folders deep")
        pending += reversed(folders)


def _mode(path: Path, label: str, tell: Tell) -> int | None:
    """The mode of what may be read, None (and told) for a link and what is no plain file."""
    try:
        mode = path.lstat().st_mode
    except OSError as error:
        tell(label, f"cannot be read: {error.strerror}")
        return None
    if stat.S_ISLNK(mode):
        tell(label, "a link, which is not followed")
    elif not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
        tell(label, "neither a file nor a folder")
    else:
        return mode
    return None


def _file(path: Path, limits: Limits, tell: Tell) -> Iterator[Piece]:
    try:
        path.open("rb").close()
    except OSError as error:
        raise NotReadable(f"{path} cannot be read: {error.strerror}") from error
    yield from _plain(path, printable(path.name), limits, tell, os.O_RDONLY)


def _plain(
    path: Path, label: str, limits: Limits, tell: Tell, flags: int = os.O_NOFOLLOW
) -> Iterator[Piece]:
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | flags)
    except OSError as error:
        tell(label, f"cannot be read: {error.strerror}")
        return
    with os.fdopen(opened, "rb", MIB) as stream:
        yield from _expanded(label, cast(_Opened, stream), limits, tell, 0)


def _expanded(
    name: str, stream: _Opened, limits: Limits, tell: Tell, depth: int
) -> Iterator[Piece]:
    """A file, or the files in it where it is an archive."""
    try:
        head = stream.peek(_PEEK)[:_PEEK]
    except READ_ERRORS as error:
        tell(name, f"cannot be read: {reason(error)}")
        return
    unpack = _unpacker(head)
    if unpack is None:
        yield Piece(name, stream)
    elif depth >= limits.nested:
        tell(name, "an archive within archives: unpack it first")
    else:
        try:
            yield from unpack(name, stream, limits, tell, depth + 1)
        except READ_ERRORS as error:
            tell(name, f"a damaged archive: {reason(error)}")


_Unpacker = Callable[[str, _Opened, Limits, Tell, int], Iterator[Piece]]


def _unpacker(head: bytes) -> _Unpacker | None:
    if head[:3] == b"\x1f\x8b\x08":
        return _gzipped
    if head[:4] in (b"PK\3\4", b"PK\5\6"):
        return _zipped
    return _tarred if head[257:262] == b"ustar" else None


def _gzipped(name: str, stream: _Opened, limits: Limits, tell: Tell, depth: int) -> Iterator[Piece]:
    inside = name.removesuffix(".gz") if not name.endswith(".tgz") else name
    with gzip.GzipFile(fileobj=cast(IO[bytes], stream), mode="rb") as unpacked:
        bounded = io.BufferedReader(_Forward(unpacked, limits.scanned), MIB)
        yield from _expanded(inside, bounded, limits, tell, depth)


def _tarred(name: str, stream: _Opened, limits: Limits, tell: Tell, depth: int) -> Iterator[Piece]:
    with tarfile.open(fileobj=_Forward(stream, limits.scanned), mode="r:") as archive:
        while (member := archive.next()) is not None:
            archive.members.clear()  # type: ignore[attr-defined]  # else a million of them are kept
            label = f"{name}:{printable(member.name.removeprefix('./'))}"
            if member.isdir():
                continue
            opened = archive.extractfile(member) if member.isreg() else None
            if opened is None:
                tell(label, "a link, which is not followed" if _link(member) else "no plain file")
                continue
            yield from _expanded(label, io.BufferedReader(_Raw(opened)), limits, tell, depth)


def _link(member: tarfile.TarInfo) -> bool:
    return member.issym() or member.islnk()


def _zipped(name: str, stream: _Opened, limits: Limits, tell: Tell, depth: int) -> Iterator[Piece]:
    whole = cast(IO[bytes], stream)
    if not stream.seekable():
        data = stream.read(_ZIP_IN_MEMORY + 1)
        if len(data) > _ZIP_IN_MEMORY:
            tell(name, f"a zip of more than {said(_ZIP_IN_MEMORY)} within an archive: unpack it")
            return
        whole = io.BytesIO(data)
    if not _modest(whole):
        tell(name, "a zip with too many files, or a damaged one: unpack it first")
        return
    with zipfile.ZipFile(whole) as archive:
        for info in archive.infolist():
            label = f"{name}:{printable(info.filename)}"
            if info.is_dir():
                continue
            if info.flag_bits & 1:
                tell(label, "encrypted")
            elif info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                tell(label, "packed in a way that is not known: unpack it first")
            else:
                yield from _zip_member(label, archive, info, limits, tell, depth)


def _zip_member(
    label: str,
    archive: zipfile.ZipFile,
    info: zipfile.ZipInfo,
    limits: Limits,
    tell: Tell,
    depth: int,
) -> Iterator[Piece]:
    try:
        with archive.open(info) as opened:
            bounded = io.BufferedReader(_Forward(opened, limits.scanned), MIB)
            yield from _expanded(label, bounded, limits, tell, depth)
    except READ_ERRORS as error:
        tell(label, f"damaged: {reason(error)}")


def _modest(stream: IO[bytes]) -> bool:
    """Whether a zip's directory, which is read as one, is of a sensible size."""
    size = stream.seek(0, os.SEEK_END)
    stream.seek(max(size - 70_000, 0))
    tail = stream.read()
    stream.seek(0)
    at = tail.rfind(b"PK\5\6")
    if at < 0 or len(tail) - at < _END_OF_ZIP.size:
        return False
    _, _, count, directory, _, _ = _END_OF_ZIP.unpack_from(tail, at)
    return bool(count < 0xFFFF and directory <= _ZIP_DIRECTORY)


class _Raw(io.RawIOBase):
    """A stream as raw bytes, that can be read once, forwards."""

    def __init__(self, stream: Stream) -> None:
        self._stream = stream
        self._at = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # ours are
        # read1 where there is one: what was unpacked before a damaged place is not lost
        data = getattr(self._stream, "read1", self._stream.read)(len(buffer))
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)


class _Forward(_Raw):
    """The same with a limit, for tarfile as well, which wants to skip what it does not read."""

    def __init__(self, stream: Stream, limit: int) -> None:
        super().__init__(stream)
        self._limit = limit

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]  # as above
        count = super().readinto(buffer)
        if self._at > self._limit:
            raise TooMuch(f"it holds more than {said(self._limit)}")
        return count

    def read(self, size: int = -1) -> bytes:
        """So many bytes; a header that claims more than any has is refused."""
        if size < 0 or size > 4 * MIB:
            raise TooMuch("a header that claims more than any has")
        return b"".join(self._parts(size))

    def _parts(self, size: int) -> Iterator[bytes]:
        while size > 0:
            part = bytearray(min(size, MIB))
            count = self.readinto(part)
            if not count:
                return
            yield bytes(part[:count])
            size -= count

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Forwards only, by reading on."""
        if whence != os.SEEK_SET or offset < self._at:
            raise TooMuch("an archive that is not in its order")
        while self._at < offset and self._parts_skipped(min(offset - self._at, MIB)):
            pass
        return self._at

    def _parts_skipped(self, size: int) -> int:
        return self.readinto(bytearray(size))
