"""The ledger: facts and verdicts on disk the moment they exist, and how they are read back.

A run has one shard for each part of it that runs by itself (the plan, each pool), each an
append-only file of JSON Lines under ``ledger.d``. ``merge`` joins them, in the plan's order, into
``ledger.jsonl``. Nothing in either says which machine, process or day of the runner wrote it: the
same seed gives the same bytes. Those things are in ``run.json``.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from harness.facts.fact import Fact
from harness.judge.verdict import Verdict
from harness.report import records
from harness.report.atomic import write_bytes
from harness.report.records import SCHEMA, LedgerError, Record, rfc3339
from harness.report.redact import redact_data

SHARDS = "ledger.d"
LEDGER = "ledger.jsonl"


class Ledger:
    """One shard being written. Safe to use from several threads of one process.

    ``directory`` is the run's; ``shard`` is a file name without ending; ``told`` is told each
    record that was written. LedgerError when the shard is there already: two writers of one shard
    would give two facts one id.
    """

    def __init__(
        self, directory: Path, shard: str, told: Callable[[Record], None] | None = None
    ) -> None:
        if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", shard) is None:
            raise LedgerError(f"opening shard {shard!r}: letters, digits, '.', '_' and '-' only")
        self.path = directory / SHARDS / f"{shard}.jsonl"
        self.path.parent.mkdir(parents=True, exist_ok=True)
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND
            self._file = os.open(self.path, flags, 0o644)
        except FileExistsError as error:
            raise LedgerError(
                f"opening {self.path}: it is there already; a run writes into a directory of its "
                "own, and each shard has one writer"
            ) from error
        self._lock = threading.RLock()
        self._ids: dict[bytes, str] = {}
        self._shard, self._told, self._lines = shard, told, 0
        self._write("header", schema=SCHEMA, shard=shard)

    def planned(
        self,
        scenario: str,
        pool: str,
        claims: Sequence[str],
        *,
        hardware: str = "",
        title: str = "",
    ) -> None:
        """Say beforehand what will be judged; what then has no verdict counts as not run.

        ``hardware`` is the name of what the pool runs on ("L40S"), empty where it has none;
        ``title`` is what the scenario says of itself, a sentence.
        """
        said = {"hardware": hardware, "title": title}
        extra = {key: text for key, text in said.items() if text}
        self._write("planned", scenario=scenario, pool=pool, claims=list(claims), **extra)

    def begin(self, scenario: str, pool: str, *, at: float) -> None:
        """Say that a scenario starts; one without an ``end`` after it was cut short. ``at`` is
        the lab's epoch seconds, 0 where there is no lab yet.
        """
        self._write("begin", scenario=scenario, pool=pool, at=rfc3339(at))

    def wait(self, what: str, *, scenario: str, pool: str, since: float, until: float) -> None:
        """Keep what was waited for, and between which of the lab's moments. A wait that goes on
        is written again and again, with the same ``since``; ``scenario`` is empty outside one.
        """
        self._write(
            "wait",
            scenario=scenario,
            pool=pool,
            what=what,
            since=rfc3339(since),
            until=rfc3339(until),
        )

    def fact(self, fact: Fact) -> str:
        """Keep a fact and give its id; the same content twice is kept once."""
        line = redact_data(records.fact_fields(fact))
        key = hashlib.sha256(json.dumps(line).encode("ascii")).digest()
        with self._lock:
            if key not in self._ids:
                name = f"f{len(self._ids) + 1}"
                self._append({"record": "fact", "id": name, **line})
                self._ids[key] = name
            return self._ids[key]

    def verdict(self, verdict: Verdict, *, scenario: str, pool: str, at: float) -> None:
        """Keep a verdict after the facts it rests on; ``at`` is the cluster's epoch seconds."""
        with self._lock:
            facts = [self.fact(fact) for fact in verdict.facts]
            self._write(
                "verdict",
                claim=verdict.claim,
                subject=verdict.subject,
                outcome=verdict.outcome.value,
                because=verdict.because,
                facts=facts,
                scenario=scenario,
                pool=pool,
                at=rfc3339(at),
            )

    def note(self, kind: str, text: str, *, at: float) -> None:
        """Keep what is neither fact nor verdict: ``bring-up``, ``wait``, ``retry``..."""
        self._write("note", kind=kind, text=text, at=rfc3339(at))

    def evidence(
        self,
        scenario: str,
        pool: str,
        *,
        at: float,
        folder: str,
        score: Mapping[str, Any],
        status: str,
        causes: Sequence[str],
        diagnosis: str,
    ) -> None:
        """Keep what a failing scenario left: its folder below the run's, how complete it is, and
        what the diagnosis came to ("named", "undecided", "nothing", "none"), in one line.
        """
        self._write(
            "evidence",
            scenario=scenario,
            pool=pool,
            at=rfc3339(at),
            folder=folder,
            score=dict(score),
            status=status,
            causes=list(causes),
            diagnosis=diagnosis,
        )

    def not_run(self, scenario: str, pool: str, claims: Sequence[str], why: str) -> None:
        """Say that planned claims got no verdict, and why."""
        self._write("not-run", scenario=scenario, pool=pool, claims=list(claims), why=why)

    def known_issue(self, **fields: str) -> None:
        """Say what became of an entry of the known issues on a claim of a pool: its ``claim``,
        ``pool``, ``owner``, ``link``, ``expires``, ``signature`` and ``state``.
        """
        self._write("known-issue", **fields)

    def not_established(self, claim: str, pool: str, why: str, *, hardware: str = "") -> None:
        """Say that the lab lacks what the claim needs: nothing was to be run."""
        extra = {"hardware": hardware} if hardware else {}
        self._write("not-established", claim=claim, pool=pool, why=why, **extra)

    def end(self, scenario: str, outcome: str, *, pool: str = "", at: float | None = None) -> None:
        """Say how a scenario ended, in pytest's words ("passed", "failed", "error"), and when."""
        extra = {"pool": pool} if pool else {}
        when = {} if at is None else {"at": rfc3339(at)}
        self._write("end", scenario=scenario, outcome=outcome, **extra, **when)

    def close(self) -> None:
        """Close the file; nothing is buffered, so nothing is lost without it."""
        with self._lock:
            if self._file >= 0:
                os.close(self._file)
                self._file = -1

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def _write(self, record: str, **fields: Any) -> None:
        self._append({"record": record, **redact_data(fields)})

    def _append(self, line: Mapping[str, Any]) -> None:
        data = f"{json.dumps(line, allow_nan=False)}\n".encode("ascii")
        with self._lock:
            if self._file < 0:
                raise LedgerError(f"writing to {self.path}: it is closed")
            while data:
                data = data[os.write(self._file, data) :]
            self._lines += 1
            if self._told is not None:
                self._told(Record(line["record"], self._shard, self._lines, line))


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A line that is no record: where it stood, what it held (cut), and what is wrong with it."""

    shard: str
    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"{self.shard}:{self.line}: {self.why}: {self.text}"


@dataclass(frozen=True, slots=True)
class LedgerView:
    """A ledger as read. ``sha256`` is that of the bytes read; ``merged`` says whether they are
    the joined file, written at the end of a run, or the shards of one that did not get there.
    """

    records: tuple[Record, ...]
    unreadable: tuple[Unreadable, ...]
    sha256: str
    merged: bool

    def of(self, kind: str) -> tuple[Record, ...]:
        """The records of one kind, in order."""
        return tuple(record for record in self.records if record.kind == kind)

    def facts(self) -> dict[str, Record]:
        """Facts by ``shard/id``, the name that is unique in a whole ledger."""
        return {f"{item.shard}/{item.text('id')}": item for item in self.of("fact")}


def merge(run_dir: Path, order: Sequence[str]) -> Path:
    """Join the shards into ``ledger.jsonl`` at once, in the order given.

    Shards that ``order`` does not name follow by name, so that nothing written is left behind;
    those it names and nobody wrote are listed as absent in the last line.
    """
    found = {path.stem: path for path in sorted((run_dir / SHARDS).glob("*.jsonl"))}
    named = list(dict.fromkeys(order))
    wanted = [shard for shard in named if shard in found]
    wanted += [shard for shard in found if shard not in named]
    bodies = [_whole_lines(found[shard].read_bytes()) for shard in wanted]
    last = {
        "record": "merged",
        "shards": [[shard, body.count(b"\n")] for shard, body in zip(wanted, bodies, strict=True)],
        "absent": [shard for shard in named if shard not in found],
    }
    bodies.append(f"{json.dumps(last)}\n".encode("ascii"))
    return write_bytes(run_dir / LEDGER, b"".join(bodies))


def read(run_dir: Path, *, shards_only: bool = False) -> LedgerView:
    """Read ``ledger.jsonl`` when it is complete, else the shards, else what there is of it. With
    ``shards_only`` a joined ledger is not looked at.

    Lines that are no records are reported and the rest is used. LedgerError when there is no
    ledger at all, or when a shard names a schema that this code does not know.
    """
    joined = run_dir / LEDGER
    data = joined.read_bytes() if joined.exists() and not shards_only else b""
    sections = _sections(data)
    if sections is not None:
        return _view(sections, data, merged=True)
    shards = sorted((run_dir / SHARDS).glob("*.jsonl"))
    if shards:
        bodies = [(path.stem, path.read_bytes()) for path in shards]
        return _view(bodies, b"".join(body for _, body in bodies), merged=False)
    if not data:
        raise LedgerError(
            f"reading the ledger of {run_dir}: neither {LEDGER} nor a shard in {SHARDS}/; "
            "name the directory of a run"
        )
    return _view([(joined.stem, data)], data, merged=False, ending="the joined ledger is cut")


def _whole_lines(body: bytes) -> bytes:
    return body if not body or body.endswith(b"\n") else body + b"\n"


def _sections(data: bytes) -> list[tuple[str, bytes]] | None:
    """A joined ledger cut into its shards; None when its last line does not account for it."""
    lines = data.splitlines(keepends=True)
    if not lines or not lines[-1].endswith(b"\n"):
        return None
    last = _decoded(lines.pop())
    if not isinstance(last, dict) or last.get("record") != "merged" or records.fault(last):
        return None
    sections = []
    for entry in last["shards"]:
        if not (isinstance(entry, list) and len(entry) == 2 and isinstance(entry[1], int)):
            return None
        sections.append((str(entry[0]), b"".join(lines[: entry[1]])))
        lines = lines[entry[1] :]
    whole = not lines and all(
        body.count(b"\n") == entry[1]
        for (_, body), entry in zip(sections, last["shards"], strict=True)
    )
    return sections if whole else None


def _view(
    sections: Sequence[tuple[str, bytes]], data: bytes, *, merged: bool, ending: str = ""
) -> LedgerView:
    good: list[Record] = []
    bad: list[Unreadable] = []
    for shard, body in sections:
        _read_shard(shard, body, good, bad)
    if ending:
        shard, body = sections[-1]
        bad.append(Unreadable(shard, body.count(b"\n") + 1, "", ending))
    return LedgerView(tuple(good), tuple(bad), hashlib.sha256(data).hexdigest(), merged)


def _read_shard(shard: str, body: bytes, good: list[Record], bad: list[Unreadable]) -> None:
    for number, line in enumerate(body.split(b"\n"), start=1):
        if not line and number > body.count(b"\n"):
            continue
        data = _decoded(line)
        why = "not JSON" if data is _NOT_JSON else records.fault(data)
        if why:
            text = line[:160].decode("utf-8", "backslashreplace")
            bad.append(Unreadable(shard, number, text, why))
        else:
            record = Record(data["record"], shard, number, data)
            _check_schema(record)
            good.append(record)


def _check_schema(record: Record) -> None:
    if record.kind == "header" and record.text("schema") != SCHEMA:
        raise LedgerError(
            f"reading {record.shard}: its schema is {record.text('schema')!r} and this code reads "
            f"{SCHEMA!r}; read it with the version of hil that wrote it"
        )


_NOT_JSON = object()
_DIGITS = 300
"""Of a whole number, at most: a longer one has no place among the numbers with a point."""


def _decoded(line: bytes) -> Any:
    """A line; one with a number that JSON lacks, or that nothing could be reckoned with, is none:
    no run writes it.
    """
    try:
        return json.loads(line, parse_constant=_no_number, parse_float=_finite, parse_int=_whole)
    except ValueError:
        return _NOT_JSON
    except RecursionError:
        return _NOT_JSON


def _no_number(text: str) -> float:
    raise ValueError(text)


def _finite(text: str) -> float:
    return float(text) if math.isfinite(float(text)) else _no_number(text)


def _whole(text: str) -> int:
    return int(text if len(text) <= _DIGITS else _no_number(text))
