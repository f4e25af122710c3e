"""How much of a folder is read: a bug report may hold a 1 GB log, or an archive made to burst."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds, in bytes where nothing else is said; what they leave out is told.

    ``window``: the first and the last so many of a longer text are kept, and of what lies between
    the lines that some rule needs, up to ``matched``. ``structured``: of a file of YAML or JSON so
    many are read. ``objects`` and ``texts``: what is kept of all files together. ``scanned``: of
    one file, or of one archive unpacked. ``files``, ``nested`` (archives within archives) and
    ``depth`` (folders) are counts; ``line`` is the longest line that is kept.
    """

    files: int = 5000
    window: int = 2 * MIB
    matched: int = 2 * MIB
    structured: int = 16 * MIB
    objects: int = 24 * MIB
    texts: int = 96 * MIB
    scanned: int = 4096 * MIB
    nested: int = 3
    depth: int = 40
    line: int = 64 * 1024


DEFAULT = Limits()


def said(count: int) -> str:
    """A number of bytes as a person reads it."""
    for unit, size in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
