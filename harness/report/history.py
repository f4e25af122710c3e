"""Kept runs side by side: how each claim came out, what failed and whose failure it was; pure."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import pairwise

from harness.report.evidence import block
from harness.report.merged import HARNESS_ERROR, INTERRUPTED, Run
from harness.report.outcome import FAILING, Row, Standing
from harness.report.timings import timings

LAB_UNFIT = 3
_JOIN = "join of a worker on "


class Ending(StrEnum):
    """Whose the end of a run was."""

    CLEAN = "clean"
    PRODUCT = "product"
    """A claim is broken, or could not be answered, and the lab was fit."""
    KNOWN = "known issues only"
    LAB = "lab unfit"
    HARNESS = "harness"
    CUT = "cut short"
    FAULT = "fault planted"
    """On purpose: it says nothing of product or lab."""


class Cell(StrEnum):
    """How a claim came out in a run, over all pools: the worst."""

    HOLDS = "holds"
    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_RUN = "not-run"
    KNOWN = "known"
    LAB = "lab"
    """It failed, and for the lab's sake."""
    LACKS = "not-established"
    NOT_ASKED = ""


@dataclass(frozen=True, slots=True)
class Past:
    """One run in a trend. ``seconds`` is how long it took on the runner, None where no end is
    recorded; ``joins`` the slowest join, on the lab's clock; of ``failures``, which are scenarios
    on pools, ``undiagnosed`` have no cause named; ``taken`` of the ``planned`` items of evidence
    were answered.
    """

    run: Run
    ending: Ending
    cells: dict[str, Cell]
    seconds: float | None
    joins: float | None
    failures: int
    undiagnosed: int
    planned: int
    taken: int

    @property
    def undiagnosed_share(self) -> float | None:
        """Of the failures the share without a cause named; None where nothing failed."""
        return _share(self.undiagnosed, self.failures)

    @property
    def evidence_share(self) -> float | None:
        """Of the planned evidence the share that was answered; None where none was planned."""
        return _share(self.taken, self.planned)


@dataclass(frozen=True, slots=True)
class Course:
    """A claim over the runs, oldest first; those with a fault planted on purpose do not count."""

    claim: str
    cells: tuple[Cell, ...]
    counted: tuple[bool, ...]

    @property
    def failed(self) -> int:
        """Runs in which the product failed it."""
        return sum(cell in _OF_PRODUCT for cell in self._told())

    @property
    def turns(self) -> int:
        """How often it went from holding to failing or back, the lab's failures left out."""
        decided = [
            cell in _OF_PRODUCT for cell in self._told() if cell in (*_OF_PRODUCT, Cell.HOLDS)
        ]
        return sum(one != other for one, other in pairwise(decided))

    def _told(self) -> list[Cell]:
        return [cell for cell, counts in zip(self.cells, self.counted, strict=True) if counts]


_OF_PRODUCT = (Cell.BROKEN, Cell.UNKNOWN, Cell.NOT_RUN, Cell.KNOWN)


@dataclass(frozen=True, slots=True)
class History:
    """The runs, oldest first, and each claim's course, those that fail most first."""

    past: tuple[Past, ...]
    courses: tuple[Course, ...]

    def ended(self, ending: Ending) -> int:
        """How many runs ended so."""
        return sum(one.ending is ending for one in self.past)

    @property
    def undiagnosed(self) -> float | None:
        """The share of failures without a cause named, over all runs; None where none failed."""
        return _share(sum(one.undiagnosed for one in self._counted), self.failures)

    @property
    def complete(self) -> float | None:
        """The share of planned evidence that was taken; None where none was planned."""
        planned = sum(one.planned for one in self._counted)
        return _share(sum(one.taken for one in self._counted), planned)

    @property
    def failures(self) -> int:
        """Scenarios that failed on a pool, over all runs."""
        return sum(one.failures for one in self._counted)

    @property
    def _counted(self) -> list[Past]:
        return [one for one in self.past if one.ending is not Ending.FAULT]


def _share(part: int, whole: int) -> float | None:
    return part / whole if whole else None


def history(runs: Sequence[Run]) -> History:
    """The trend over ``runs``, in the order of their ends."""
    past = tuple(_past(run) for run in sorted(runs, key=lambda run: (run.ended, run.id)))
    counted = tuple(one.ending is not Ending.FAULT for one in past)
    claims = dict.fromkeys(claim for one in past for claim in one.cells)
    courses = [
        Course(claim, tuple(one.cells.get(claim, Cell.NOT_ASKED) for one in past), counted)
        for claim in claims
    ]
    courses.sort(key=lambda course: -course.failed)
    return History(past, tuple(courses))


def _past(run: Run) -> Past:
    info = run.info
    joins = [seconds for name, seconds in timings(run.view).items() if name.startswith(_JOIN)]
    kept = block(run.view, run.summary)
    return Past(
        run,
        _ending(run),
        _cells(run.summary.rows),
        None if info.ended is None else info.ended - info.started,
        max(joins, default=None),
        kept["failures"],
        kept["failures"] - kept["decided"],
        kept["planned"],
        kept["taken"],
    )


def _ending(run: Run) -> Ending:
    if run.info.fault:
        return Ending.FAULT
    if run.info.exit == HARNESS_ERROR:
        return Ending.HARNESS
    if run.info.exit in (None, INTERRUPTED) or not run.view.merged:
        return Ending.CUT
    failing = [row for row in run.summary.rows if row.outcome in FAILING]
    product = [row for row in failing if not row.environment]
    broken = any(row.outcome is Standing.BROKEN and not row.is_known for row in product)
    if (run.info.exit == LAB_UNFIT and not broken) or (failing and not product):
        return Ending.LAB
    if not failing:
        return Ending.CLEAN if run.info.exit == 0 else Ending.PRODUCT
    return Ending.KNOWN if all(row.is_known for row in product) else Ending.PRODUCT


def _cells(rows: Sequence[Row]) -> dict[str, Cell]:
    order = list(_ORDER)
    found: dict[str, Cell] = {}
    for row in rows:
        cell = _cell(row)
        worst = found.get(row.claim, Cell.NOT_ASKED)
        found[row.claim] = min(cell, worst, key=order.index)
    return found


_ORDER = (
    Cell.BROKEN,
    Cell.UNKNOWN,
    Cell.NOT_RUN,
    Cell.KNOWN,
    Cell.LAB,
    Cell.HOLDS,
    Cell.LACKS,
    Cell.NOT_ASKED,
)
"""Worst first; that a lab lacks something hides behind whatever was asked of another pool."""


def _cell(row: Row) -> Cell:
    if row.outcome in FAILING and row.environment:
        return Cell.LAB
    if row.is_known:
        return Cell.KNOWN
    return Cell.LACKS if row.outcome is Standing.NOT_ESTABLISHED else Cell(row.outcome.value)


def median(values: Sequence[float | None]) -> float | None:
    """The median of those that are there."""
    there = [value for value in values if value is not None]
    return statistics.median(there) if there else None
