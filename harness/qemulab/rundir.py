"""Where a lab keeps its files, what proves that they are its own, and how they go away.

Two directories. The *run's* holds sockets, pid files and the keeper's orders; it is short, because
the path of a unix socket has 107 bytes at most (unix(7)), and is made under ``XDG_RUNTIME_DIR`` or
``/tmp``. The *lab's* (``.hil/qemu``) holds the overlays, the logs, the login key and
``minilab.json``, which names the other.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.qemulab.errors import Unfit

STATE = "minilab.json"
PREFIX = "hil-qemu-"
OWNER = "owner.json"
LOCK = "lock"
KEEPER = "keeper"
DISKS = ("root.qcow2", "data.qcow2")
KEYS = ("key", "key.pub", "known_hosts")

_LONGEST_PATH = 107
_LONGEST_NAME = len("/n9.switch-side.sock")


class DirectoryUnfit(Unfit):
    """The directory that was named cannot be used: the user's mistake, not the machine's."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process, told from a later one of its number by when it started (in clock ticks)."""

    pid: int
    started: int

    @staticmethod
    def of(pid: int) -> Process:
        """The one that has this number now; ``started`` 0 where none has, or only its corpse."""
        try:
            stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        except OSError:
            return Process(pid, 0)
        # the second field is in brackets and may hold anything; state is the third, starttime the
        # 22nd (proc(5))
        fields = stat.rpartition(")")[2].split()
        return Process(pid, 0 if fields[0] in "ZX" else int(fields[19]))

    @property
    def alive(self) -> bool:
        """Whether it still is there."""
        return self.started > 0 and Process.of(self.pid) == self


def roots() -> list[Path]:
    """Where runs' directories are looked for; they are made in the first that can be used."""
    told = os.environ.get("XDG_RUNTIME_DIR", "")
    return [Path(told)] * bool(told) + [Path("/tmp")]


def make_run(directory: Path) -> Path:
    """A new run's directory for the lab in ``directory``, owned by this process."""
    tried = "make a directory for the lab's sockets"
    saw = "no place for it"
    for root in roots():
        try:
            made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=root))
        except OSError as error:
            saw = f"{error.strerror} at {root}"
            continue
        if len(str(made)) + _LONGEST_NAME > _LONGEST_PATH:
            made.rmdir()
            saw = f"that {root} is too long a path for a socket"
            continue
        parent = Process.of(os.getpid())
        owner = {"directory": str(directory), "parent": [parent.pid, parent.started]}
        write_whole(made / OWNER, owner)
        return made
    raise Unfit(tried, saw, "make /tmp writable, or XDG_RUNTIME_DIR a short path")


def take(directory: Path) -> int:
    """Make a lab's directory ours alone; gives the descriptor that holds it, to be passed on.

    Raises DirectoryUnfit where it cannot be written, or where a lab lives in it.
    """
    tried = f"use {directory} for a lab"
    try:
        directory.mkdir(parents=True, exist_ok=True)
        held = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        saw = f"{error.strerror} ({error.filename})"
        raise DirectoryUnfit(tried, saw, "name another directory, or make it writable") from error
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(held)
        up = (directory / STATE).exists()
        saw = "that a lab is up in it already" if up else "that a lab is being made in it"
        end = f"hil qemu down --dir {directory}" if up else "Ctrl-C, where that was started"
        raise DirectoryUnfit(tried, saw, f"end it ({end}), or name another directory") from error
    return held


def is_held(directory: Path) -> bool:
    """Whether a lab lives in a directory now."""
    try:
        held = os.open(directory / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(held)
    return False


def write_whole(file: Path, told: Mapping[str, Any]) -> None:
    """Write JSON so that a reader sees all of it or the old; two writers do not meet either."""
    beside = file.with_name(f"{file.name}.{os.getpid()}.new")
    beside.write_text(json.dumps(told, indent=1) + "\n", encoding="utf-8")
    beside.replace(file)


def pid_file(run: Path, name: str) -> Path:
    """Where the number of a process is kept while it lives: a guest's, or the keeper's."""
    return run / f"{name}.pid"


def processes(run: Path) -> Iterator[tuple[str, int]]:
    """The processes of a run that live, by name: their pid file is the run's *and* their command
    line names the run's directory, which is like no other. A number alone proves nothing."""
    for file in sorted(run.glob("*.pid")):
        try:
            pid = int(file.read_text(encoding="ascii"))
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except (OSError, ValueError):
            continue
        if os.fsencode(run) in line:
            yield file.stem, pid


def end_processes(run: Path) -> list[str]:
    """Kill what is left of a run, the keeper first; says whom."""
    found = sorted(processes(run), key=lambda one: one[0] != KEEPER)
    for _, pid in found:
        with suppress(ProcessLookupError):  # it ended meanwhile
            os.kill(pid, signal.SIGKILL)
    return [f"{name} ({pid})" for name, pid in found]


def leavings(directory: Path) -> list[Path]:
    """What a lab that was up in a directory leaves there; its logs stay for whoever reads them."""
    disks = [file for name in DISKS for file in directory.glob(f"n*/{name}")]
    return [f for f in (*disks, *(directory / k for k in (*KEYS, STATE))) if f.exists()]


def tidy(run: Path, directory: Path) -> None:
    """Remove a run's directory and what it left in the lab's. What is gone already is fine."""
    try:
        for file in leavings(directory) if not _anothers(directory, run) else ():
            file.unlink(missing_ok=True)
    finally:
        shutil.rmtree(run, ignore_errors=True)


def _anothers(directory: Path, run: Path) -> bool:
    """Whether the lab's directory is by now that of another run."""
    try:
        told = json.loads((directory / STATE).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(told.get("run") != str(run))
