"""What `hil equivalence` does: find the runs, compare them, say where they disagree."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from harness.report.equivalence import compare, latest, sides
from harness.report.kept import Mistake, folder
from harness.report.records import LedgerError
from harness.report.sidebyside import document, page

DIFFER = 1
USER_MISTAKE = 2
UNREADABLE = 3
_LEAST = 2
"""Runs that a comparison takes."""


def equivalence(runs: Sequence[str], *, out: Path, as_json: bool = False) -> int:
    """Compare runs (folders, or ids of runs kept in ``out``; none: the latest of each substrate).

    0: nothing differs; 1: something does; 2: a mistake in what was asked; 3: a ledger cannot be
    read, or not all of it.
    """
    try:
        folders = [folder(run, out) for run in runs] if runs else _latest(out)
        if len({one.resolve() for one in folders}) < _LEAST:
            raise Mistake("name two runs at least, or none: then the latest of each substrate")
        found = compare(sides(folders))
    except Mistake as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    except LedgerError as unreadable:
        sys.stderr.write(f"hil: {unreadable}\n")
        return UNREADABLE
    if not found.compared:
        named = " and ".join(side.run.run_id for side in found.sides)
        sys.stderr.write(f"hil: no claim was put to two of {named}; nothing can be compared\n")
        return USER_MISTAKE
    told = json.dumps(document(found), indent=2) + "\n" if as_json else page(found)
    sys.stdout.write(told)
    if any(side.view.unreadable for side in found.sides):
        return UNREADABLE
    return DIFFER if found.disagreements else 0


def _latest(out: Path) -> list[Path]:
    found = latest(out)
    if len(found) < _LEAST:
        names = ", ".join(found) or "no substrate"
        raise Mistake(
            f"{out} has runs of {names}, and two are needed; make one with `hil run --lab FILE`, "
            "or name folders of runs"
        )
    return list(found.values())
