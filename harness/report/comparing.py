"""What `hil compare` does: find two runs and those before them, and say what differs."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harness.report import kept
from harness.report.changes import Change, Changes, compare
from harness.report.kept import Mistake
from harness.report.merged import Run, read_one
from harness.report.records import LedgerError, visible
from harness.report.redact import redact_data
from harness.report.rundir import read_run
from harness.report.timings import FACTOR, FLOOR, LEAST_EARLIER, SPREADS

SCHEMA = "hil.comparison/1"
DIFFERENT = 1
USER_MISTAKE = 2
UNREADABLE = 3
_MOST_EARLIER = 20


def compare_runs(before: str, after: str, *, out: Path, as_json: bool = False) -> int:
    """Compare two runs, folders or ids of runs kept in ``out``.

    0: nothing differs; 1: something does; 2: a mistake in what was asked; 3: a ledger cannot be
    read, or not all of it (then what there is is compared).
    """
    try:
        folders = [kept.folder(run, out) for run in (before, after)]
        if folders[0].resolve() == folders[1].resolve():
            raise Mistake("the two runs are one and the same; name two")
        one, other = map(read_one, folders)
        found = compare(one, other, earlier(other, out))
    except Mistake as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    except LedgerError as unreadable:
        sys.stderr.write(f"hil: {unreadable}\n")
        return UNREADABLE
    for run in (one, other):
        for line in run.view.unreadable:
            sys.stderr.write(f"hil: {run.id}: unreadable: {line}\n")
    told = json.dumps(document(found), indent=2) + "\n" if as_json else words(found)
    sys.stdout.write(told)
    if one.view.unreadable or other.view.unreadable:
        return UNREADABLE
    return DIFFERENT if found.any else 0


def earlier(after: Run, out: Path) -> list[Run]:
    """The newest runs of the later one's lab and lane that ended before it, whole and without a
    fault.
    """
    found = []
    for folder in kept.runs(out):
        try:
            info = read_run(folder / "run.json")
        except LedgerError:
            continue  # a run that cannot be read tells nothing of how times spread
        same = (info.lab, info.lane) == (after.info.lab, after.info.lane)
        ended = info.ended or info.started
        if same and not info.fault and ended < after.ended and info.run_id != after.id:
            found.append((ended, folder))
    newest = [folder for _, folder in sorted(found)[-_MOST_EARLIER:]]
    runs = (_readable(folder) for folder in newest)
    return [run for run in runs if run is not None and not run.flaws]


def _readable(folder: Path) -> Run | None:
    try:
        return read_one(folder)
    except LedgerError:
        return None


def document(found: Changes) -> dict[str, Any]:
    """The comparison as data, schema ``hil.comparison/1``."""
    shown = {
        "schema": SCHEMA,
        "before": found.before.id,
        "after": found.after.id,
        "different": found.any,
        "compared": found.compared,
        "noise": _noise(found),
        "claims": [dataclasses.asdict(one) | {"worse": one.worse} for one in found.claims],
        "timings": [dataclasses.asdict(one) for one in found.timings],
        "versions": [dataclasses.asdict(one) for one in found.versions],
    }
    result: dict[str, Any] = visible(redact_data(shown))
    return result


def words(found: Changes) -> str:
    """The comparison for a terminal."""
    lines = [f"before  {_named(found.before)}", f"after   {_named(found.after)}", ""]
    for claim in found.claims:
        lines += _claim(claim) if claim.both else []
    lines += [*_asked_once(found, found.before.id), *_asked_once(found, found.after.id)]
    for version in found.versions:
        told = (", ".join(one) or "not recorded" for one in (version.before, version.after))
        lines.append(f"version   {version.title}: {' -> '.join(told)}")
    for time in found.timings:
        lines.append(
            f"time      {time.name}: {time.before:.1f} s -> {time.after:.1f} s ({time.measure})"
        )
    counts = (
        _counted(len(found.claims), "claim"),
        _counted(len(found.versions), "version"),
        _counted(len(found.timings), "time"),
    )
    lines += [
        "" if found.any else "Nothing differs.",
        f"{found.compared} claims compared; other: {', '.join(counts)}",
        f"Noise in times: {_noise(found)}",
    ]
    return str(visible("\n".join(lines))) + "\n"


def _named(run: Run) -> str:
    return f"{run.id}: lab {run.info.lab}, {run.info.lane or 'no lane'}, {run.substrate}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _claim(claim: Change) -> Sequence[str]:
    where = claim.pool or "every pool"
    mark = "WORSE" if claim.worse else "claim"
    outcomes = f"{claim.before} -> {claim.after}"
    lines = [f"{mark:<9} {claim.claim} on {where}: {outcomes}", f"            {claim.because}"]
    for value in claim.values:
        path = f" {value.path}" if value.path else ""
        lines.append(f"            {value.kind}{path}: {value.before} -> {value.after}")
    return lines


def _asked_once(found: Changes, run: str) -> Sequence[str]:
    """A line for each pool with the claims that this run alone says something of."""
    pools: dict[str, list[str]] = {}
    for one in found.claims:
        if not one.both and (run == found.before.id) == bool(one.before):
            outcome = one.before or one.after
            said = one.claim if outcome == "holds" else f"{one.claim} ({outcome})"
            pools.setdefault(one.pool or "every pool", []).append(said)
    return [
        f"claim     asked in {run} only, on {pool}: {', '.join(said)}"
        for pool, said in pools.items()
    ]


def _noise(found: Changes) -> str:
    if found.earlier >= LEAST_EARLIER:
        return (
            f"{SPREADS:g} spreads of {found.earlier} earlier runs of that lab and lane, at least "
            f"{FLOOR:g} s"
        )
    return (
        f"a factor of {FACTOR:g} and at least {FLOOR:g} s, for there are fewer than "
        f"{LEAST_EARLIER} earlier runs of that lab and lane"
    )
