"""A worker's EPHEMERAL partition: its files, the page cache before them, the disk below.

Where the disk is a DRBD volume, bytes go through its Primary and stand still with it; elsewhere
they are on the disk at once. Kept small: a file is written whole and takes blocks of its own, and
its name is on the disk as soon as its bytes are. XFS shuts down when its disk fails it (inferred
for Talos: Linux, fs/xfs/xfs_fsops.c, xfs_do_force_shutdown).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.world.drbd_blocks import BLOCK, Disk

if TYPE_CHECKING:
    from harness.twin.world.drbd_resource import Resource
    from harness.twin.world.drbd_state import Replica

IO_ERROR = "Input/output error"
NO_FILE = "No such file or directory"
NO_SPACE = "No space left on device"
_FIRST = 1 << 30
"""Where its files begin: behind Talos' other partitions."""
Written = Callable[[str], None]
"""Given "" once it is on the disk, or an errno's words."""
Fetched = Callable[[bytes, str], None]
"""Given the bytes, or an errno's words."""


@dataclass(frozen=True, slots=True)
class _Extent:
    """Where a file's bytes are."""

    offset: int
    length: int


class GuestDisk:
    """The partition of one disk. It outlives the machine that mounts it; its cache does not."""

    def __init__(self) -> None:
        self._files: dict[str, _Extent] = {}
        self._cache: dict[str, bytes] = {}
        self._dirty: dict[str, None] = {}
        self._below: tuple[Resource, Replica] | None = None
        self._local = Disk()
        self._next = _FIRST
        self._shut = False

    # -- the machine

    def attach(self, resource: Resource, replica: Replica) -> None:
        """A machine has the disk open, through this replica."""
        self._below = (resource, replica)
        self.crash()

    def crash(self) -> None:
        """The machine that mounted it is gone: what was in its memory only is lost."""
        self._cache.clear()
        self._dirty.clear()
        self._shut = False

    def drop_caches(self) -> None:
        """Forget what is on the disk as well (/proc/sys/vm/drop_caches)."""
        self._cache = {path: data for path, data in self._cache.items() if path in self._dirty}

    # -- files

    def shown(self) -> Iterator[tuple[str, Callable[[], bytes]]]:
        """Every file, by absolute path, and how its bytes are read once they were fetched."""
        for path in {**self._files, **self._cache}:
            yield path, partial(self._held, path)

    def _held(self, path: str) -> bytes:
        return self._cache.get(path, b"")

    def has(self, path: str) -> bool:
        """Whether there is such a file."""
        return path in self._cache or path in self._files

    def write(self, path: str, data: bytes, done: Written, *, synced: bool) -> None:
        """Write a whole file: into memory, and with ``synced`` on the disk before it is done."""
        if self._shut:
            done(IO_ERROR)
            return
        self._cache[path] = data
        self._dirty[path] = None
        if synced:
            self._flush(path, done)
        else:
            done("")

    def sync(self, done: Written) -> None:
        """Put all that is in memory only on the disk."""
        waiting = list(self._dirty)

        def following(error: str) -> None:
            if error or not waiting:
                done(error)
            else:
                self._flush(waiting.pop(0), following)

        following(IO_ERROR if self._shut else "")

    def fetch(self, path: str, done: Fetched, *, direct: bool = False) -> None:
        """Read a file; from the disk where it is not in memory, or ``direct`` is asked for."""
        held = self._cache.get(path)
        if held is not None and (not direct or path in self._dirty):
            done(held, "")
            return
        extent = self._files.get(path)
        if extent is None or self._shut:
            done(b"", IO_ERROR if self._shut else NO_FILE)
            return

        def ended(data: bytes, error: str) -> None:
            if error:
                self._shut = True
            elif not direct:
                self._cache[path] = data
            done(data, error)

        if self._below is None:
            ended(self._local.read(extent.offset, extent.length), "")
        else:
            resource, replica = self._below
            resource.io.read(replica, extent.offset, extent.length, ended)

    def remove(self, path: str) -> bool:
        """Remove a file; whether there was one."""
        there = self.has(path)
        self._files.pop(path, None)
        self._cache.pop(path, None)
        self._dirty.pop(path, None)
        return there

    def _flush(self, path: str, done: Written) -> None:
        data = self._cache[path]
        extent = _Extent(self._next, len(data))
        after = self._next + -(-len(data) // BLOCK) * BLOCK
        if self._below is not None and after > self._below[0].size * 1024:
            done(NO_SPACE)
            return
        self._next = after

        def ended(error: str) -> None:
            if error:
                self._shut = True
            else:
                self._files[path] = extent
                self._dirty.pop(path, None)
            done(error)

        if self._below is None:
            self._local.write(extent.offset, data)
            ended("")
        else:
            resource, replica = self._below
            resource.io.write(replica, extent.offset, data, ended)
