"""A read-only file tree: files, links, devices and directories, resolved as a kernel resolves."""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_MOST_LINKS = 40


class PathError(Exception):
    """A path that does not lead anywhere; ``str()`` is the errno's text."""


@dataclass(frozen=True, slots=True)
class File:
    """A regular file. ``mode`` as ``ls`` shows it, without the type."""

    read: Callable[[], bytes]
    mode: int = 0o444


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link; a target without a leading slash is relative to the link's directory."""

    target: str


@dataclass(frozen=True, slots=True)
class Device:
    """A character device, or a block device."""

    major: int
    minor: int
    mode: int = 0o666
    block: bool = False


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory. One need not be entered where something below it is."""

    mode: int = 0o755


Entry = File | Link | Device | Directory


def text(content: str, mode: int = 0o444) -> File:
    """A file with fixed text."""
    return File(content.encode, mode)


class Filesystem:
    """A tree given by absolute paths, without trailing slashes."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self._entries: dict[str, Entry] = dict(entries)
        self._children: dict[str, set[str]] = {"/": set()}
        for path in self._entries:
            self._enter(path)

    def _enter(self, path: str) -> None:
        while path != "/":
            parent, name = posixpath.split(path)
            known = self._children.setdefault(parent, set())
            if name in known:
                return
            known.add(name)
            path = parent

    def entries(self) -> Mapping[str, Entry]:
        """Everything entered, by absolute path."""
        return self._entries

    def find(self, path: str, *, follow: bool = True) -> tuple[str, Entry]:
        """The real path and the entry behind a path. Raises PathError."""
        return self._walk(path, _MOST_LINKS, follow=follow)

    def exists(self, path: str) -> bool:
        """Whether a path leads somewhere, links followed."""
        try:
            self.find(path)
        except PathError:
            return False
        return True

    def listing(self, path: str) -> list[str]:
        """The names in a directory, sorted. Raises PathError."""
        real, entry = self.find(path)
        if not isinstance(entry, Directory):
            raise PathError("Not a directory")
        return sorted(self._children.get(real, ()))

    def read(self, path: str) -> bytes:
        """The bytes of a file. Raises PathError."""
        _, entry = self.find(path)
        if isinstance(entry, Directory):
            raise PathError("Is a directory")
        if not isinstance(entry, File):
            raise PathError("Input/output error")
        return entry.read()

    def _walk(self, path: str, links: int, *, follow: bool) -> tuple[str, Entry]:
        here = "/"
        entry: Entry = Directory()
        parts = [part for part in path.split("/") if part not in ("", ".")]
        for index, part in enumerate(parts):
            if not isinstance(entry, Directory):
                raise PathError("Not a directory")
            here = posixpath.normpath(posixpath.join(here, part))
            entry = self._at(here)
            last = index == len(parts) - 1
            if isinstance(entry, Link) and (follow or not last):
                if links == 0:
                    raise PathError("Symbolic link loop")
                target = posixpath.join(posixpath.dirname(here), entry.target)
                here, entry = self._walk(target, links - 1, follow=True)
        return here, entry

    def _at(self, path: str) -> Entry:
        if path in self._entries:
            return self._entries[path]
        if path in self._children:
            return Directory()
        raise PathError("No such file or directory")
