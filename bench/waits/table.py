"""The tables, as plain text or as Markdown."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from bench.waits import score
from bench.waits.faults import Fault
from bench.waits.gates import Gate
from bench.waits.measure import FAULT, LAG, LIMITS, RECALL, SLIP, Cost, Found
from bench.waits.plan import Subject
from bench.waits.score import Row
from bench.waits.timelines import LENGTHS

NOT_RUN = "not run"
_NONE = "-"
_SHORT = {
    score.VOID: "void",
    score.RIGHT: "right",
    score.UNDECIDED: "cannot tell",
    score.FALSE_SUCCESS: "FALSE SUCCESS",
    score.FALSE_FAILURE: "failed",
    score.SILENT_LOSS: "LOST",
    score.HUNG: "hung",
}


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the names of its columns, its rows."""

    title: str
    head: tuple[str, ...]
    rows: list[tuple[str, ...]]

    def text(self) -> str:
        """In columns."""
        lines = [self.head, *self.rows]
        widths = [max(len(line[n]) for line in lines) for n in range(len(self.head))]
        laid = ["  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)) for line in lines]
        return "\n".join([self.title, *(line.rstrip() for line in laid)])

    def markdown(self) -> str:
        """In pipes."""
        rule = tuple("---" for _ in self.head)
        lines = [f"| {' | '.join(line)} |" for line in (self.head, rule, *self.rows)]
        return "\n".join([f"**{self.title}**", "", *lines])


def tables(found: Found, subjects: Sequence[Subject], faults: Sequence[Fault]) -> list[Table]:
    """Every table that there is something for."""
    made = [_recall(found, subjects), _lags(found, subjects), _costs(found, subjects)]
    made.append(_limits(found, subjects))
    if any(row.batch == FAULT for row in found.rows):
        made.append(_faults(found, subjects, faults))
    return [table for table in made if table.rows]


def gate_table(gates: Sequence[Gate]) -> Table:
    """The gates and whether they hold."""
    missed = {True: "MISSED", False: "not judged: the machine is too busy"}
    rows = [(g.sentence, g.measured, "holds" if g.holds else missed[g.judged]) for g in gates]
    return Table("What ours must hold", ("gate", "measured", ""), rows)


def _recall(found: Found, subjects: Sequence[Subject]) -> Table:
    def line(rows: Sequence[Row]) -> tuple[str, ...]:
        counted = [
            score.recall([row for row in rows if row.cell == cell], seconds)
            for cell, seconds in LENGTHS.items()
        ]
        of = [each for _, each in counted]
        n = str(max(of)) if min(of) == max(of) else f"{min(of)} to {max(of)}"
        return (n, *(_share(*each) for each in counted))

    title = "Phases seen, in per cent, by how long they last (Wilson 95 % interval)"
    width = 1 + len(LENGTHS)
    return Table(title, ("tool", "n", *LENGTHS), _lines(found, subjects, RECALL, line, width))


def _share(seen: int, of: int) -> str:
    if not of:
        return _NONE
    low, high = score.wilson(seen, of)
    return f"{100 * seen / of:.0f} ({100 * low:.0f} to {100 * high:.0f})"


def _lags(found: Found, subjects: Sequence[Subject]) -> Table:
    batches = sorted({r.batch for r in found.rows if r.batch.startswith(LAG)}, key=len)

    def told(rows: Sequence[Row]) -> str:
        seconds = score.lags(rows)
        if not seconds:
            return _NONE
        ranks = (score.percentile(seconds, share) * 1000 for share in (0.5, 0.95, 1.0))
        missing = len(rows) - len(seconds)
        return " / ".join(f"{ms:.3g}" if ms < 100 else f"{ms:.0f}" for ms in ranks) + (
            f" ({missing} of {len(rows)} never)" if missing else ""
        )

    lines = []
    for subject in subjects:
        own = [row for row in found.rows if row.subject == subject.name]
        if any(row.batch in batches for row in own):
            cells = [told([row for row in own if row.batch == batch]) for batch in batches]
            lines.append((subject.title, *cells))
        elif batches:
            lines.append((subject.title, *(NOT_RUN for _ in batches)))
    named = [f"{batch.removeprefix(LAG).strip()} at once" for batch in batches]
    title = "Lag on a change that lasts, p50 / p95 / max in ms"
    return Table(title, ("tool", *named), lines)


def _costs(found: Found, subjects: Sequence[Subject]) -> Table:
    head = (
        "tool",
        "requests a wait",
        "kB a wait",
        "CPU ms a wait",
        "peak MB",
        "500 at once: requests",
        "peak MB",
        "import: CPU s",
        "MB",
    )
    lines = []
    for subject in subjects:
        some = [c for c in found.costs if c.subject == subject.name and c.batch == f"{LAG} 50"]
        many = [c for c in found.costs if c.subject == subject.name and c.batch == f"{LAG} 500"]
        if not some:
            continue
        imported = found.imports[subject.name]
        lines.append(
            (
                subject.title,
                *_each(some),
                str(max(c.requests for c in many)) if many else _NONE,
                f"{max(c.peak_mb for c in many):.0f}" if many else _NONE,
                f"{imported[0]:.1f}",
                f"{imported[1]:.0f}",
            )
        )
    return Table("What a wait costs, 50 at once", head, lines)


def _each(costs: Sequence[Cost]) -> tuple[str, ...]:
    waits = sum(cost.waits for cost in costs)
    return (
        f"{sum(cost.requests for cost in costs) / waits:.3g}",
        f"{sum(cost.carried for cost in costs) / waits / 1000:.1f}",
        f"{sum(cost.cpu for cost in costs) / waits * 1000:.1f}",
        f"{costs[0].peak_mb:.0f}",
    )


def _limits(found: Found, subjects: Sequence[Subject]) -> Table:
    def line(rows: Sequence[Row]) -> tuple[str, ...]:
        over = [row.overshoot * 1000 for row in rows if row.kind != "hung"]
        slips = [r for r in found.rows if (r.subject, r.batch) == (rows[0].subject, SLIP)]
        told = [f"{slip.at - slip.began:.2f} s" for slip in slips if slip.kind != "hung"]
        wrote = sorted(told)[len(told) // 2] if told else _NONE
        return f"{score.percentile(over, 0.5):.0f}", f"{max(over):.0f}", wrote

    head = ("tool", "overshoot p50, ms", "max, ms", "a misspelt predicate is told after")
    title = "A limit of 2 s, waited for in vain; a predicate with a slip in it, limit 3 s"
    return Table(title, head, _lines(found, subjects, LIMITS, line, 3))


def _faults(found: Found, subjects: Sequence[Subject], faults: Sequence[Fault]) -> Table:
    rows = [row for row in found.rows if row.batch == FAULT]
    there = [s for s in subjects if any(row.subject == s.name for row in rows)]
    truths = {fault.name: fault.truth for fault in faults}
    lines: list[tuple[str, ...]] = [
        (fault.name, *(_fault_cell(rows, subject, fault) for subject in there))
        for fault in faults
        if fault.name in {row.cell for row in rows}
    ]
    for bad in (score.FALSE_SUCCESS, score.FALSE_FAILURE, score.SILENT_LOSS):
        counted = (score.FALSE_FAILURE, score.HUNG) if bad == score.FALSE_FAILURE else (bad,)
        counts = []
        for subject in there:
            own = [score.verdict(r, truths[r.cell]) for r in rows if r.subject == subject.name]
            counts.append(f"{sum(one in counted for one in own)}/{len(own)}")
        lines.append((f"= {bad}", *counts))
    title = "Under faults: the worst of the tries, and when it was given; below, counts of waits"
    return Table(title, ("fault", *(subject.name for subject in there)), lines)


def _fault_cell(rows: Sequence[Row], subject: Subject, fault: Fault) -> str:
    own = [r for r in rows if r.subject == subject.name and r.cell == fault.name]
    if not own:
        return _NONE
    worst = score.worst(score.verdict(row, fault.truth) for row in own)
    one = next(row for row in own if score.verdict(row, fault.truth) == worst)
    if worst == score.HUNG:
        return _SHORT[worst]
    return f"{_SHORT[worst]} {one.at - one.began:.1f}s"


def _lines(
    found: Found,
    subjects: Sequence[Subject],
    batch: str,
    line: Callable[[Sequence[Row]], tuple[str, ...]],
    width: int,
) -> list[tuple[str, ...]]:
    """A line for each tool; none at all where nobody was measured."""
    if not any(row.batch == batch for row in found.rows):
        return []
    made = []
    for subject in subjects:
        own = [row for row in found.rows if (row.subject, row.batch) == (subject.name, batch)]
        cells = line(own) if own else tuple(NOT_RUN for _ in range(width))
        made.append((subject.title, *cells))
    return made


def versions(found: Found, subjects: Sequence[Subject]) -> list[str]:
    """A line for each tool: what was run, or why it was not."""
    told: Mapping[str, str] = {
        **found.versions,
        **{k: f"{NOT_RUN}: {v}" for k, v in found.absent.items()},
    }
    return [f"{s.title}: {told[s.name]}" for s in subjects if s.name in told]
