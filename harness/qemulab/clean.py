"""What crashed runs left behind: found, proved to be ours, told, removed.

Nothing is taken for ours by its name alone. A run's directory is of this user and says whose it is;
a process is named by a pid file in it and names it on its own command line; a lab's files go only
when nobody holds the lab's lock.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from harness.clock import WallClock
from harness.qemulab.cache import leftovers
from harness.qemulab.rundir import (
    OWNER,
    PREFIX,
    Process,
    end_processes,
    is_held,
    leavings,
    processes,
    roots,
    tidy,
)

_YOUNG = 60.0  # seconds for which a directory without an owner may still be getting one
_DYING = 5.0


@dataclass(frozen=True, slots=True)
class Finding:
    """Something of ours: ``what`` it is in a line; ``alive`` why it is not to be touched, or ""."""

    what: str
    alive: str
    remove: Callable[[], None]


def find(directory: Path, cache: Path) -> Iterator[Finding]:
    """Everything that is ours: in the places of runs, in one lab's directory, in the cache."""
    told: set[Path] = set()
    for root in _places():
        for run in sorted(root.glob(f"{PREFIX}*")):
            if run.is_dir() and run.stat().st_uid == os.getuid():
                yield _run(run, told)
    directory = directory.absolute()
    left = leavings(directory) if directory.is_dir() and directory not in told else []
    if left and not is_held(directory):
        names = ", ".join(str(file.relative_to(directory)) for file in left)
        yield Finding(f"{names} in {directory}, of a lab that is gone", "", partial(_unlink, left))
    for folder in leftovers(cache):
        yield Finding(f"unfinished image {folder}", "", partial(_remove, folder))


def _places() -> list[Path]:
    """Where runs are made, and where one that was told another place would have been."""
    return list(dict.fromkeys((*roots(), Path(f"/run/user/{os.getuid()}"))))


def _run(run: Path, told: set[Path]) -> Finding:
    owner = _owner(run)
    living = ", ".join(f"{name} ({pid})" for name, pid in processes(run)) or "no process"
    if owner is None:
        young = WallClock().now() - run.stat().st_mtime < _YOUNG
        alive = "it was made a moment ago" if young else ""
        return Finding(
            f"{run}, whose owner is not known; {living}", alive, partial(_end, run, None)
        )
    directory, parent = owner
    told.add(directory)
    what = f"{run} of the lab in {directory}; {living}"
    alive = f"process {parent.pid}, which started it, lives" if parent.alive else ""
    return Finding(what, alive, partial(_end, run, directory))


def _owner(run: Path) -> tuple[Path, Process] | None:
    try:
        told = json.loads((run / OWNER).read_text(encoding="utf-8"))
        pid, started = told["parent"]
        return Path(told["directory"]), Process(int(pid), int(started))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _end(run: Path, directory: Path | None) -> None:
    clock, pause = WallClock(), threading.Event()
    end_processes(run)
    until = clock.monotonic() + _DYING
    while any(processes(run)) and clock.monotonic() < until:
        clock.back_off(0.02, pause)
    if directory is None:
        _remove(run)
    else:
        tidy(run, directory)


def _unlink(files: list[Path]) -> None:
    for file in files:
        file.unlink(missing_ok=True)


def _remove(folder: Path) -> None:
    shutil.rmtree(folder)
