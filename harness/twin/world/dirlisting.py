"""What ``ls`` shows of a directory and of an entry, in short and in long form."""

from __future__ import annotations

import posixpath

from harness.twin.world.filesystem import Device, Directory, Entry, File, Filesystem, Link


def titled(blocks: list[tuple[str, list[str]]], *, alone: bool) -> list[str]:
    """Directories' listings one after another, each under its name unless it is ``alone``."""
    if alone:
        return [line for _, lines in blocks for line in lines]
    out: list[str] = []
    for path, lines in blocks:
        out += ([""] if out else []) + [f"{path}:", *lines]
    return out


def lines(files: Filesystem, path: str, letters: set[str], date: str) -> list[str]:
    """A directory's listing; ``letters`` are the options. Raises PathError."""
    names = files.listing(path)
    if "a" in letters:
        names = [".", "..", *names]
    rows = [line(files, posixpath.join(path, name), name, letters, date) for name in names]
    return ["total 0", *rows] if "l" in letters else rows


def line(files: Filesystem, path: str, name: str, letters: set[str], date: str) -> str:
    """One entry's row. Raises PathError."""
    if "l" not in letters:
        return name
    entry = files.find(path, follow=False)[1]
    kind, mode, size = _described(entry)
    arrow = f" -> {entry.target}" if isinstance(entry, Link) else ""
    owner = f"{'root':<8} {'root':<8}"
    return f"{kind}{_rwx(mode)} {1:>4} {owner} {size:>9} {date} {name}{arrow}"


def _described(entry: Entry) -> tuple[str, int, str]:
    match entry:
        case Directory():
            return "d", entry.mode, "0"
        case Device():
            return "b" if entry.block else "c", entry.mode, f"{entry.major:>4}, {entry.minor:>3}"
        case Link():
            return "l", 0o777, str(len(entry.target))
        case File():
            return "-", entry.mode, str(len(entry.read()))


def _rwx(mode: int) -> str:
    letters = "rwxrwxrwx"
    return "".join(c if mode & (1 << (8 - i)) else "-" for i, c in enumerate(letters))
