"""What `hil watch` does: follow a run from its folder until it ends, or until it is seen dead."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from harness.clock import Clock, WallClock
from harness.live.record import FOLDER
from harness.live.screen import Screen
from harness.live.signs import controlling, why_dead
from harness.live.standing import Standing, clock_time
from harness.live.tailing import Tails
from harness.report import kept
from harness.report.ledger import LEDGER, SHARDS
from harness.report.lengths import duration
from harness.report.pictures.reading import moment
from harness.report.records import LedgerError, visible
from harness.report.rundir import RunInfo, read_run

USER_MISTAKE = 2
UNREADABLE = 3
DIED = 1
"""Exit status for a run that died: what it planned is not established."""
LINE = 60.0
"""Seconds between two lines on how the run stands, where there is no terminal."""
SLOW = 5
"""After a round over a slow folder, so many times its length is waited."""
_SHOWN = ("begin", "verdict", "note", "end", "not-run")
_TOLD = (*_SHOWN, "wait", "process", "beat", "known-issue")


def watch(run: str, *, out: Path, as_json: bool, every: float) -> int:
    """Follow a run (folder or id; "": the newest that goes on) to its end.

    Gives the run's own exit status, 1 where it died; 2: a mistake in what was asked; 3: another
    schema.
    """
    try:
        folder = kept.folder(run, out) if run else _newest(out)
        return Follower(folder, WallClock(), sys.stdout, as_json=as_json).follow(every)
    except kept.Mistake as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    except LedgerError as unreadable:
        sys.stderr.write(f"hil: {unreadable}\n")
        return UNREADABLE


def _newest(out: Path) -> Path:
    known: list[tuple[float, Path, RunInfo]] = []
    for folder in kept.runs(out):
        try:
            info = read_run(folder / "run.json")
        except LedgerError:
            continue
        known.append((info.started, folder, info))
    order = [(folder, info) for _, folder, info in sorted(known, key=lambda one: one[0])]
    for folder, info in reversed(order):
        if info.exit is None and not Follower(folder, WallClock(), sys.stdout).dead():
            return folder
    hint = f"; the newest is {order[-1][0].name}: name it to see it" if order else ""
    raise kept.Mistake(f"no run goes on in {out}{hint}")


class Follower:
    """One run, followed. What is new is told on ``stream``, as JSON or for people."""

    def __init__(
        self, folder: Path, clock: Clock, stream: TextIO, *, as_json: bool = False
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._stream = stream
        self._as_json = as_json
        self._screen = Screen(stream)
        self._standing = Standing()
        self._progress = Tails(folder / FOLDER)
        shards = (folder / SHARDS).is_dir()
        self._ledger = Tails(folder / SHARDS) if shards else Tails(folder, LEDGER)
        self._heard_at = clock.monotonic()
        self._line_at = clock.monotonic()
        self._stalls: set[tuple[str, float]] = set()

    def follow(self, every: float) -> int:
        """Tell what is there, and what comes, until there is an end."""
        info = read_run(self._folder / "run.json")
        self._open(info)
        while True:
            began = self._clock.monotonic()
            info = self._info(info)
            dead = "" if info.exit is not None else self.dead()
            if dead:
                info = self._info(info)  # it may have ended between the two looks
            self._tell(list(self._new()))
            if info.exit is not None:
                return self._close(f"run {info.run_id} ended with exit status {info.exit}", info)
            if dead:
                return self._close(
                    f"run {info.run_id} died: {dead} and it left no exit status; "
                    f"`hil report {self._folder}` makes its reports",
                    info,
                )
            took = self._clock.monotonic() - began
            self._clock.sleep(max(every, SLOW * took), f"run {info.run_id} to go on")

    def dead(self) -> str:
        """Why the run will not end any more, "" while it may."""
        if not self._standing.processes:
            self._take_in_processes()
        found = controlling(self._standing.processes)
        return why_dead(found[1] if found else None, self._clock.monotonic() - self._heard_at)

    def _take_in_processes(self) -> None:
        for name, record in Tails(self._folder / FOLDER).new():
            if record.get("record") == "process":
                self._standing.processes[name] = record

    def _info(self, before: RunInfo) -> RunInfo:
        try:
            return read_run(self._folder / "run.json")
        except LedgerError:
            return before  # a folder far away may be gone for a moment

    def _new(self) -> Iterator[tuple[str, Mapping[str, Any]]]:
        for name, record in self._progress.new():
            self._standing.progress(name, record)
            self._heard_at = self._clock.monotonic()
            yield name, record
        for name, record in self._ledger.new():
            self._standing.ledger(record)
            yield name, record

    def _open(self, info: RunInfo) -> None:
        if self._as_json:
            self._put({"event": "run", "run": info.run_id, "lab": info.lab, "lane": info.lane})
        else:
            lane = f", lane {info.lane}" if info.lane else ""
            self._screen.tell([f"run {info.run_id} on lab {info.lab}{lane}: {self._folder}"])

    def _tell(self, found: list[tuple[str, Mapping[str, Any]]]) -> None:
        now = self._clock.now()
        if self._as_json:
            self._tell_machines(found, now)
            return
        lines = [line for name, record in found if (line := _line(name, record))]
        lines += [f"{clock_time(now)}  {told}" for _, told in self._stalled(now)]
        due = self._clock.monotonic() - self._line_at >= LINE
        if due and not self._screen.redraws:
            self._line_at = self._clock.monotonic()
            lines.append(f"{clock_time(now)}  {'; '.join(self._standing.lines(now))}")
        self._screen.tell(lines, self._standing.lines(now))

    def _tell_machines(self, found: list[tuple[str, Mapping[str, Any]]], now: float) -> None:
        for name, record in found:
            if record.get("record") in _TOLD:
                told = {key: value for key, value in record.items() if key != "record"}
                self._put({"event": record["record"], "from": name, **told})
        for pool, told_ in self._stalled(now):
            self._put({"event": "stalled", "pool": pool, "says": told_})

    def _stalled(self, now: float) -> Iterator[tuple[str, str]]:
        for worker, quiet in self._standing.stalled(now):
            key = (worker.name, worker.seen() or 0.0)
            if key not in self._stalls:
                self._stalls.add(key)
                yield worker.pool, f"pool {worker.pool} stalls: nothing seen for {duration(quiet)}"

    def _close(self, sentence: str, info: RunInfo) -> int:
        if self._as_json:
            kind = "died" if info.exit is None else "ended"
            self._put({"event": kind, **_plain(info), "says": sentence})
        else:
            self._screen.clear()
            self._screen.tell([self._standing.head(), sentence])
        return DIED if info.exit is None else info.exit

    def _put(self, event: Mapping[str, Any]) -> None:
        self._stream.write(f"{json.dumps(visible(dict(event)))}\n")
        self._stream.flush()


def _plain(info: RunInfo) -> dict[str, Any]:
    fields = asdict(info)
    return {"run": info.run_id} | {key: fields[key] for key in ("started", "ended", "exit")}


def _line(shard: str, record: Mapping[str, Any]) -> str:
    """A record of the ledger for people, "" for one that is not for them."""
    kind = record.get("record")
    if kind not in _SHOWN:
        return ""
    at = moment(record.get("at"))
    when = clock_time(at) if at else "--:--:--Z"
    where = record.get("pool") or shard.removeprefix("pool-").partition(".")[0]
    said = {
        "begin": "{scenario} begins",
        "end": "{scenario}: {outcome}",
        "verdict": "{outcome}: {claim} on {subject}",
        "note": "{text}",
        "not-run": "{scenario} is not run: {why}",
    }[str(kind)]
    fields = {key: str(record.get(key, "?")) for key in _FIELDS}
    because = fields["because"] if kind == "verdict" and fields["outcome"] != "holds" else ""
    told = said.format_map(fields) + (f": {because}" if because else "")
    return f"{when}  {where}  {' '.join(told.split())}"


_FIELDS = ("scenario", "outcome", "claim", "subject", "because", "text", "why")
