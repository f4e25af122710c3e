"""What a process of a run writes of itself while it works: RUN/progress/<worker>.jsonl.

JSON Lines of schema ``hil.progress/1``, one writer each, appended. Three kinds: ``process`` first
(who writes), then ``beat`` (where it stands, when that changes and every now and then without a
change) and ``say`` (a sentence for whoever watches). Times are the runner's own, epoch seconds;
``lab`` and what is waited for are the lab's.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.report.records import visible
from harness.report.redact import redact_data

FOLDER = "progress"
SCHEMA = "hil.progress/1"


@dataclass(frozen=True, slots=True)
class Waiting:
    """What is waited for: since when and until when at most, by the lab's time."""

    what: str
    since: float
    until: float


@dataclass(frozen=True, slots=True)
class Beat:
    """Where a process stands. ``pool`` and ``scenario`` are those at hand, "" for none, ``since``
    when the scenario began; ``lab`` is the lab's time at ``at``, None without a lab, and ``moves``
    whether it goes on by itself; ``seen`` is when something last happened.
    """

    at: float
    seen: float
    pool: str = ""
    scenario: str = ""
    since: float | None = None
    lab: float | None = None
    moves: bool = True
    waiting: Waiting | None = None

    def stands(self) -> tuple[object, ...]:
        """What makes it another than the one before: not the mere time."""
        return (self.pool, self.scenario, self.since, self.waiting)


@dataclass(frozen=True, slots=True)
class Process:
    """Who writes: ``controls`` whether it is the process that ends the run; ``born`` is when the
    system started it, in its own count, "" where that cannot be told.
    """

    at: float
    worker: str
    pid: int
    host: str
    controls: bool
    born: str = field(default="")


def this_process(at: float, worker: str, *, controls: bool) -> Process:
    """The one that asks."""
    pid = os.getpid()
    return Process(at, worker, pid, platform.node(), controls, born_of(pid))


def born_of(pid: int) -> str:
    """When the system started a process, as it counts; "" where there is none of that number, or
    where it is dead and only not yet waited for.
    """
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    fields = text.rpartition(")")[2].split()
    # the third field is the state, the twenty-second the start (man 5 proc_pid_stat)
    return fields[19] if len(fields) > 19 and fields[0] not in "ZX" else ""


class Pen:
    """Appends to the file of one process. What the disk refuses is left out: it is told elsewhere,
    and nobody's run depends on being watched.
    """

    def __init__(self, run: Path, worker: str) -> None:
        self.path = run / FOLDER / f"{worker}.jsonl"
        self._file = -1
        self._refused = False

    def process(self, who: Process) -> None:
        """The first line."""
        self._write({"record": "process", "schema": SCHEMA, **asdict(who)})

    def beat(self, beat: Beat) -> None:
        """Where it stands."""
        self._write({"record": "beat", **asdict(beat)})

    def say(self, at: float, lab: float, text: str) -> None:
        """A sentence; ``lab`` is the lab's time of it."""
        self._write({"record": "say", "at": at, "lab": lab, "text": text})

    def close(self) -> None:
        """Close the file, if there is one."""
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def _write(self, record: Mapping[str, Any]) -> None:
        if self._refused:
            return  # after a line that is cut the next could be read as its rest
        line = f"{json.dumps(visible(redact_data(dict(record))))}\n".encode("ascii")
        try:
            if self._file < 0:
                self.path.parent.mkdir(exist_ok=True)
                self._file = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            while line:
                line = line[os.write(self._file, line) :]
        except OSError:
            self._refused = True
