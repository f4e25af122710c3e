"""What `hil report` does: every report of a run from what its folder holds, however it ended.

A run that was killed left shards, a plan and what Allure had so far. The ledger is joined, what
never ran is said to be so, and the rest is what the run itself would have written: of a run that
ended in order the same bytes.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import repeat
from pathlib import Path

from harness.commandline import ROOT
from harness.report import allure_history, closing
from harness.report.atomic import is_the_disks
from harness.report.evidence import numbers
from harness.report.kept import Mistake, folder
from harness.report.ledger import LedgerView, read
from harness.report.merged import ANOTHER_LEDGER, changed_since, signed_sha256
from harness.report.outcome import summarise
from harness.report.records import LedgerError
from harness.report.rundir import RunDirectory, RunInfo, read_run

INCOMPLETE = 1
USER_MISTAKE = 2
UNREADABLE = 3
FEW = 4
"""Runs below which it is not worth to start processes."""
BEFORE_PLAN = "it was killed before anything was planned; there is nothing to report"
KILLED = "the run was killed"


@dataclass(frozen=True, slots=True)
class _Done:
    """What came of one run: an exit status, and what is to be said of it."""

    status: int
    words: str
    complaints: Sequence[str]


def report(runs: Sequence[str], *, out: Path, docs: str = "", quiet: bool = False) -> int:
    """Rebuild the reports of runs (folders, or ids of runs kept in ``out``) in their folders.

    0: rebuilt; 1: rebuilt, but lines of a ledger could not be read: they are named on standard
    error and the rest is used; 2: no such run; 3: a ledger that cannot be used at all, of another
    schema for one. Of several runs the worst.
    """
    try:
        folders = [_folder(run, out) for run in runs]
    except Mistake as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    worst = 0
    for done in _all(folders, docs):
        sys.stderr.writelines(f"hil: {complaint}\n" for complaint in done.complaints)
        sys.stdout.write("" if quiet else done.words)
        worst = max(worst, done.status)
    return worst


def _all(folders: Sequence[Path], docs: str) -> Iterator[_Done]:
    """Every run, several at once; trends last, for they need the runs before."""
    if len(folders) < FEW:
        done = [_report(one, docs) for one in folders]
        yield from done
        for one, told in zip(folders, done, strict=True):
            if told.status <= INCOMPLETE:
                _trend(one)
        return
    with ProcessPoolExecutor(min(len(folders), os.cpu_count() or 1)) as pool:
        done = list(pool.map(_report, folders, repeat(docs)))
        yield from done
        usable = [one for one, told in zip(folders, done, strict=True) if told.status <= INCOMPLETE]
        list(pool.map(_trend, usable))


def _folder(run: str, out: Path) -> Path:
    """A run's folder; one that holds no ledger yet is one all the same. Raises Mistake."""
    begun = (found for found in (Path(run), out / run) if (found / "run.json").is_file())
    try:
        return next(begun, None) or folder(run, out)
    except OSError as refused:
        raise Mistake(f"{run}: {refused.strerror}") from refused


def _report(run: Path, docs: str) -> _Done:
    try:
        words, view = rebuild(run, docs=docs)
    except LedgerError as unusable:
        return _Done(UNREADABLE, "", [str(unusable)])
    except OSError as refused:
        named = refused.filename or run
        status = UNREADABLE if is_the_disks(refused) else USER_MISTAKE
        return _Done(status, "", [f"cannot write {named}: {refused.strerror or refused}"])
    lines = [f"{run.name}: unreadable line of the ledger: {line}" for line in view.unreadable]
    return _Done(INCOMPLETE if lines else 0, words, lines)


def _trend(run: Path) -> None:
    directory = _directory(run)
    allure_history.take_along(directory, _info(directory))


def _directory(run: Path) -> RunDirectory:
    path = run.resolve()
    return RunDirectory(path.parent, path.name)


def rebuild(run: Path, *, docs: str = "") -> tuple[str, LedgerView]:
    """Rebuild what a run's folder should hold; gives the table of claims and the ledger.

    ``docs`` is another place of the documentation than the run was given. Raises LedgerError where
    there is no ledger, or one of another schema, and OSError.
    """
    directory = _directory(run)
    told = _info(directory)
    another = changed_since(told, directory.signoff_json)
    if another and _stands(told, directory):
        raise LedgerError(
            f"run {told.run_id}: {directory.run_json.name} was changed after its sign-off "
            f"({', '.join(another)}); put it back as it was"
        )
    view = _joined(directory, told)
    summary = summarise(view)
    info = replace(told, evidence=numbers(view, summary))
    if info != told and _stands(told, directory):
        info.write(directory.run_json)
    info = replace(info, docs=docs) if docs else info
    words = closing.words_of(directory, view, summary, info.kind)
    closing.write_reports(directory, info, view, summary, words, ROOT)
    return words, view


def _info(directory: RunDirectory) -> RunInfo:
    """What is known of the run; of one whose ``run.json`` is not to be read, its name."""
    try:
        return read_run(directory.run_json)
    except LedgerError as unreadable:
        if directory.run_json.exists() and "schema" in str(unreadable):
            raise
        return RunInfo(run_id=directory.run_id, lab="not recorded", lane="", started=0.0)


def _stands(told: RunInfo, directory: RunDirectory) -> bool:
    """Whether `run.json` still says this: a run may have ended meanwhile, and none is made up of
    a folder's name.
    """
    try:
        return read_run(directory.run_json) == told
    except LedgerError:
        return False


def _joined(directory: RunDirectory, info: RunInfo) -> LedgerView:
    """The ledger as it was joined at the run's end, or joined now."""
    if directory.ledger.exists():
        view = read(directory.path)
        if view.merged and signed_sha256(directory.signoff_json) not in ("", view.sha256):
            raise LedgerError(
                f"run {info.run_id}: {ANOTHER_LEDGER}; put {directory.ledger.name} back as it was"
            )
        if view.merged or not directory.shards.is_dir():
            return view
    if not any(directory.shards.glob("*.jsonl")):
        raise LedgerError(f"run {info.run_id}: {BEFORE_PLAN}")
    why = "the run was interrupted" if info.exit == 130 else KILLED
    return closing.join(directory, why, killed=KILLED)
