"""A bounded part of a text of any length: its beginning, its end, and between them the lines that
some rule needs. One pass, in UTF-8 whatever it was."""

from __future__ import annotations

import codecs
import os
import re
import struct
import tarfile
import zipfile
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from harness.diagnose.reading.content import SNIFFED, encoding_of, not_text
from harness.diagnose.reading.limits import MIB, Limits, said

NEEDED: tuple[bytes, ...] = (
    b"nvidia",
    b"NVRM",
    b"[talos]",
    b"drbd",
    b"Linux version ",
    b"ut of memory",
    b"Kernel panic",
    b"sysrq: ",
    b"reboot: ",
    b"blocked for more than",
    b"lockup",
    b"maintenance mode",
    b"execution error at",
    b"permittedHostDevices",
    b"not enough free space",
    b"insufficient permissions",
    b"pre-installed driver",
    b"system:anonymous",
    b"ot yet initialized",
    b"cudaErrorSystemNotReady",
    b"immutable",
)
"""What a line says that a rule may rest on. Plain substrings: a pattern would read ten times
slower. Each takes about 0.8 s of a gigabyte."""

READ_ERRORS = (
    OSError,
    EOFError,
    zlib.error,
    tarfile.TarError,
    zipfile.BadZipFile,
    struct.error,
    NotImplementedError,  # a zip of a later version
    ValueError,  # a size or a name in an archive that is none
    OverflowError,
)
"""All that reading a damaged file or archive may raise."""

_JSON = re.compile(rb"\{\s*\"|\[\s*[\[{]")
_SHARE = 16  # of a stretch at most one part in so many is kept for one needle


class Stream(Protocol):
    """Anything that gives bytes."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes, b"" at the end."""
        ...


@dataclass(frozen=True, slots=True)
class Taken:
    """What was kept of a file.

    ``unfit`` says why it is no text, and nothing is then kept. ``data`` is its beginning, mostly
    all of it; ``rest`` is what was kept of what follows, between which and ``data`` lines may be
    missing. ``ended`` says that ``data`` ends where the file ends. ``note`` says what was left
    out, "" for nothing.
    """

    data: bytes
    unfit: str = ""
    rest: bytes = b""
    ended: bool = True
    note: str = ""


def take(stream: Stream, limits: Limits) -> Taken:
    """Read a file to its end, or as far as it can be read and ``limits`` allow; never raises."""
    flow = _Flow(stream, limits.scanned)
    first = flow.first()
    unfit = not_text(first) or (flow.trouble if not first else "")
    if unfit:
        return Taken(b"", unfit)
    kept = _Kept(limits, structured=_structured(first))
    for chunk in _utf8(flow.chunks(first), encoding_of(first)):
        kept.add(chunk)
    return kept.taken(flow.size, flow.trouble)


class _Flow:
    """The bytes of a stream, and why they ended before its end, if they did."""

    def __init__(self, stream: Stream, limit: int) -> None:
        self._stream = stream
        self._limit = limit
        self.size = 0
        self.trouble = ""

    def first(self) -> bytes:
        data = b""
        while len(data) < SNIFFED:
            more = self._read(SNIFFED - len(data))
            if not more:
                break
            data += more
        return data

    def chunks(self, first: bytes) -> Iterator[bytes]:
        chunk = first
        while chunk:
            yield chunk
            chunk = self._read(MIB)

    def _read(self, size: int) -> bytes:
        if self.trouble or self.size > self._limit:
            self.trouble = self.trouble or f"after {said(self.size)} nothing was read"
            return b""
        try:
            data = self._stream.read(size)
        except READ_ERRORS as error:
            self.trouble = f"after {said(self.size)} it cannot be read: {reason(error)}"
            return b""
        self.size += len(data)
        return data


def _utf8(chunks: Iterator[bytes], encoding: str) -> Iterator[bytes]:
    if encoding == "utf-8":
        yield from chunks
        return
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    for chunk in chunks:
        yield decoder.decode(chunk).encode("utf-8", "replace")
    yield decoder.decode(b"", final=True).encode("utf-8", "replace")


def _structured(first: bytes) -> bool:
    """Whether it begins as YAML or JSON of objects does, of which more is worth reading."""
    begin = first.lstrip(b"\xef\xbb\xbf \t\r\n\0")[:4096]
    if _JSON.match(begin):
        return True
    if encoding_of(first) != "utf-8":
        begin = begin.replace(b"\0", b"")
    lines = begin.split(b"\n")
    return any(
        line.lstrip(b"- ").startswith((b"apiVersion:", b"kind:", b"items:")) for line in lines
    )


class _Kept:
    """The beginning, the end, and what was needed of the lines between."""

    def __init__(self, limits: Limits, *, structured: bool) -> None:
        self._limits = limits
        self._structured = structured
        self._room = limits.structured if structured else limits.window
        self._head = bytearray()
        self._tail = bytearray()
        self._early: list[bytes] = []
        self._late: deque[bytes] = deque()
        self._sizes = [0, 0]
        self._left_out = 0

    def add(self, chunk: bytes) -> None:
        room = self._room - len(self._head)
        self._head += chunk[:room]
        if len(chunk) > room:
            self._tail += chunk[room:]
        if len(self._tail) > self._limits.window + MIB:
            self._fall(len(self._tail) - self._limits.window)

    def _fall(self, count: int) -> None:
        """Give up the oldest part of the tail, at an end of line where there is one."""
        end = self._tail.rfind(b"\n", 0, count) + 1 or count
        stretch = bytes(self._tail[:end])
        del self._tail[:end]
        self._left_out += len(stretch)
        if stretch.count(0) < len(stretch):
            for line in _needed(stretch, self._limits.line):
                self._keep(line)

    def _keep(self, line: bytes) -> None:
        half = self._limits.matched // 2
        self._left_out -= len(line)
        if self._sizes[0] + len(line) <= half:
            self._early.append(line)
            self._sizes[0] += len(line)
            return
        self._late.append(line)
        self._sizes[1] += len(line)
        while self._sizes[1] > half:
            gone = len(self._late.popleft())
            self._sizes[1] -= gone
            self._left_out += gone

    def taken(self, size: int, trouble: str) -> Taken:
        """What is kept of the ``size`` bytes; ``trouble`` is why more was not read."""
        if not self._left_out and not (self._structured and self._tail):
            return Taken(bytes(self._head + self._tail), ended=not trouble, note=trouble)
        head = bytes(self._head[: self._head.rfind(b"\n") + 1 or None])
        if self._structured:  # where objects begin and end is not known any more behind the gap
            note = f"{said(size)}: its first {said(len(head))} were used"
            return Taken(head, ended=False, note=note)
        between = [*self._early, *self._late]
        tail = bytes(self._tail[self._tail.find(b"\n") + 1 :])
        note = (
            f"{said(size)}: its first {said(len(head))}, its last {said(len(tail))} and "
            f"{len(between)} lines between were used, {said(self._left_out)} were not"
        )
        note = "; ".join(part for part in (note, trouble) if part)
        return Taken(head, rest=b"".join(between) + tail, ended=False, note=note)


def _needed(stretch: bytes, longest: int) -> list[bytes]:
    """The lines of a stretch that some rule needs, in their order, each with a line end."""
    found: dict[int, int] = {}
    for needle in NEEDED:
        at, room = stretch.find(needle), len(stretch) // _SHARE
        while at >= 0 and room > 0:
            start = stretch.rfind(b"\n", 0, at) + 1
            end = stretch.find(b"\n", at)
            end = len(stretch) if end < 0 else end
            found[start] = end
            room -= end - start
            at = stretch.find(needle, end)
    return [
        stretch[start : min(end, start + longest)] + b"\n" for start, end in sorted(found.items())
    ]


def reason(error: BaseException) -> str:
    """Why something could not be read, in a few words."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return printable(text or type(error).__name__)[:200]


def printable(name: str) -> str:
    """A name from a disk or an archive, fit for a line on a terminal."""
    plain = os.fsencode(name).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in plain)
