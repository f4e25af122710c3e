"""Programs of a container on a worker that take files: the node's disk, and the container's own.

``dd``, ``sync``, ``sha256sum``, ``rm``, and ``sh -c SCRIPT NAME ARGS...`` of plain commands. What
they ask of the node's disk takes as long as that takes: a program that waits for a disk which
stands still hears no signal. Messages and exit statuses are busybox's.

A hostPath mount that is read-only is so for the file system that is mounted there alone, not for
those mounted below it (kubernetes, ``recursiveReadOnly``); /var is Talos' EPHEMERAL partition.
"""

from __future__ import annotations

import hashlib
import posixpath
import random
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.execresult import Ended, ExecResult, Heard, Running
from harness.twin.world.guest_disk import NO_FILE
from harness.twin.world.satellite_shell import Shell

if TYPE_CHECKING:
    from harness.twin.world.container_runtime import Container
    from harness.twin.world.guest import Guest

NAMES = ("dd", "rm", "sha256sum", "sync")
"""The programs that there are, by name."""
EPHEMERAL = "/var/"
_ELSEWHERE = ("/var/run/",)  # a tmpfs, behind a link
_MEMORY = ("/dev/shm/", "/tmp/")
_OPERANDS = ("if", "of", "bs", "count", "skip", "conv", "iflag", "oflag", "status")
_SIZE = re.compile(r"(\d+)([kMG]?)")
_UNITS = {"": 1, "k": 1 << 10, "M": 1 << 20, "G": 1 << 30}
Outcome = ExecResult | Running
Program = Callable[[Sequence[str]], ExecResult]


class Pending:
    """A program that waits for its disk, which no signal ends."""

    def __init__(self) -> None:
        self._result: ExecResult | None = None
        self._ended: list[Ended] = []

    def end(self, result: ExecResult) -> None:
        """It has ended."""
        self._result = result
        for tell in self._ended:
            tell(result)
        self._ended = []

    def outcome(self) -> Outcome:
        """Its result, or the program that still runs."""
        return self._result or Running(self._follow, uninterruptible=True)

    def _follow(self, _: Heard, ended: Ended) -> Callable[[], None]:
        if self._result is not None:
            ended(self._result)
            return lambda: None
        self._ended.append(ended)
        return lambda: self._ended.remove(ended) if ended in self._ended else None


@dataclass(frozen=True, slots=True)
class DiskPrograms:
    """What runs in one container. ``plain`` runs programs that take no file of these."""

    container: Container
    guest: Guest
    plain: Program

    def run(self, argv: Sequence[str]) -> Outcome:
        """Run a program."""
        name = posixpath.basename(argv[0]) if argv else ""
        if name in ("sh", "bash") and len(argv) > 3 and argv[1] == "-c":
            shell = Shell(lambda words: self.run(words), self.container.files)
            return shell.run(argv[2], argv[3:])
        own: Mapping[str, Callable[[Sequence[str]], Outcome]] = {
            "dd": self._dd,
            "sync": self._sync,
            "sha256sum": self._sha256sum,
            "rm": self._rm,
        }
        if name in own:
            return own[name](argv[1:])
        return self._with_files(argv[1:], lambda _: self.plain(argv))

    # -- files

    def _on_disk(self, path: str) -> str:
        """The path on the node's disk that a path in the container is; "" where it is elsewhere."""
        for inside in sorted(self.container.mounts, key=len, reverse=True):
            if path.startswith(f"{inside}/"):
                outside = self.container.mounts[inside].rstrip("/")
                there = f"{outside}{path[len(inside) :]}"
                kept = there.startswith(EPHEMERAL) and not there.startswith(_ELSEWHERE)
                return there if kept else ""
        return ""

    def _with_files(
        self, words: Sequence[str], then: Callable[[bytes], ExecResult], *, direct: bool = False
    ) -> Outcome:
        """Have the files of the disk that ``words`` name in memory, then go on with the last."""
        disk, pending = self.guest.root.disk, Pending()
        found = [(word, there) for word in words if disk.has(there := self._on_disk(word))]

        def following(word: str, data: bytes, error: str) -> None:
            if error:
                pending.end(_fail(f"{word}: {error}"))
            elif found:
                name, there = found.pop(0)
                disk.fetch(there, partial(following, name), direct=direct)
            else:
                pending.end(then(data))

        following("", b"", "")
        return pending.outcome()

    def _sha256sum(self, arguments: Sequence[str]) -> Outcome:
        """``sha256sum FILE``."""
        if len(arguments) != 1 or arguments[0].startswith("-"):
            return _not_modelled("sha256sum", arguments)
        path = arguments[0]
        if not self.guest.root.disk.has(self._on_disk(path)):
            if path not in self.container.files:
                return _fail(f"sha256sum: can't open '{path}': {NO_FILE}")
            return _summed(self.container.files[path], path)
        return self._with_files([path], lambda data: _summed(data, path))

    def _sync(self, arguments: Sequence[str]) -> Outcome:
        if arguments:
            return _not_modelled("sync", arguments)
        pending = Pending()
        self.guest.root.disk.sync(
            lambda error: pending.end(_fail(f"sync: {error}") if error else _ok())
        )
        return pending.outcome()

    def _rm(self, arguments: Sequence[str]) -> ExecResult:
        """``rm [-f] FILE...``."""
        paths = [one for one in arguments if one != "-f"]
        missing = [one for one in paths if not self._removed(one)]
        if missing and "-f" not in arguments:
            return _fail(f"rm: can't remove '{missing[0]}': {NO_FILE}")
        return _ok()

    def _removed(self, path: str) -> bool:
        own = self.container.files.pop(path, None) is not None
        return self.guest.root.disk.remove(self._on_disk(path)) or own

    # -- dd

    def _dd(self, arguments: Sequence[str]) -> Outcome:
        """``dd``: of random bytes or zeroes to a file, or of a file to stdout."""
        asked = dict(one.partition("=")[::2] for one in arguments)
        odd = [name for name in asked if name not in _OPERANDS]
        size, count = _number(asked.get("bs", "512")), _number(asked.get("count", "0"))
        if odd or size is None or count is None:
            return _not_modelled("dd", arguments)
        if "of" in asked:
            return self._dd_to(asked, size, count, arguments)
        return self._dd_from(asked, size, arguments)

    def _dd_to(
        self, asked: Mapping[str, str], size: int, count: int, arguments: Sequence[str]
    ) -> Outcome:
        path, source = asked["of"], asked.get("if", "")
        if source not in ("/dev/urandom", "/dev/zero") or not count:
            return _not_modelled("dd", arguments)
        total = size * count
        data = bytes(total) if source == "/dev/zero" else self._random(path, total)
        done = _copied(count, total)
        there = self._on_disk(path)
        if not there:
            if not path.startswith((*_MEMORY, *(f"{one}/" for one in self.container.claims))):
                return _fail(f"dd: can't open '{path}': Read-only file system")
            self.container.files[path] = data
            return done
        pending = Pending()

        def ended(error: str) -> None:
            pending.end(_fail(f"dd: {path}: {error}") if error else done)

        synced = "fsync" in asked.get("conv", "") or asked.get("oflag") in ("direct", "sync")
        self.guest.root.disk.write(there, data, ended, synced=synced)
        return pending.outcome()

    def _dd_from(self, asked: Mapping[str, str], size: int, arguments: Sequence[str]) -> Outcome:
        path = asked.get("if", "")
        if not self.guest.root.disk.has(self._on_disk(path)):
            return _not_modelled("dd", arguments)

        def shown(data: bytes) -> ExecResult:
            told = _copied(-(-len(data) // size), len(data))
            return ExecResult(data, told.stderr, 0)

        return self._with_files([path], shown, direct=asked.get("iflag") == "direct")

    def _random(self, path: str, count: int) -> bytes:
        seed = f"{self.guest.boot_id} {path} {self.guest.uptime}"
        return random.Random(seed).randbytes(count)


def _summed(data: bytes, path: str) -> ExecResult:
    return ExecResult(f"{hashlib.sha256(data).hexdigest()}  {path}\n".encode(), b"", 0)


def _copied(records: int, total: int) -> ExecResult:
    text = f"{records}+0 records in\n{records}+0 records out\n"
    told = f"{total} bytes ({total / 1024:.1f}KB) copied, 0.004211 seconds, 118.7MB/s\n"
    return ExecResult(b"", f"{text}{told}".encode(), 0)


def _number(text: str) -> int | None:
    found = _SIZE.fullmatch(text)
    return int(found[1]) * _UNITS[found[2]] if found is not None else None


def _ok() -> ExecResult:
    return ExecResult(b"", b"", 0)


def _fail(message: str) -> ExecResult:
    return ExecResult(b"", f"{message}\n".encode(), 1)


def _not_modelled(program: str, arguments: Sequence[str]) -> ExecResult:
    asked = shlex.join([program, *arguments])
    return ExecResult(b"", b"", 1, f"not modelled on this machine: {asked}")
