"""What `hil trend` does: gather kept runs, say how they went, as text, data or a page."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.commandline import OUT
from harness.report import kept
from harness.report.atomic import is_the_disks, write_bytes
from harness.report.history import Cell, Ending, History, Past, history, median
from harness.report.merged import Run, read_one
from harness.report.records import LedgerError, rfc3339, visible
from harness.report.redact import redact_data
from harness.report.rundir import RunInfo, read_run
from harness.report.signoff import page, templates_of

ROOT = Path(__file__).resolve().parents[2]
SCHEMA = "hil.trend/1"
TEMPLATE = "trend.html.j2"
USER_MISTAKE = 2
UNREADABLE = 3
LETTERS: Mapping[Cell, str] = {
    Cell.HOLDS: ".",
    Cell.BROKEN: "B",
    Cell.UNKNOWN: "?",
    Cell.NOT_RUN: "-",
    Cell.KNOWN: "K",
    Cell.LAB: "L",
    Cell.LACKS: "o",
    Cell.NOT_ASKED: " ",
}
LEGEND = (
    ". holds  B broken  ? unknown  - not run  K known issue  L failed for the lab's sake  "
    "o the lab lacks it"
)
_QUIET = {Cell.HOLDS, Cell.LACKS, Cell.NOT_ASKED}
"""What a claim that never failed is made of."""
_WIDEST = 30


def trend(
    *,
    lab: str = "",
    lane: str = "",
    last: int = 20,
    out: Path = OUT,
    html: Path | None = None,
    as_json: bool = False,
) -> int:
    """Tell of the ``last`` runs kept in ``out``, of one lab and lane where they are named.

    0; 2: no run fits; 3: a run cannot be read, or not all of it (the others are told of), or the
    page cannot be written.
    """
    try:
        chosen, unread = _chosen(lab, lane, last, out)
    except kept.Mistake as mistake:
        sys.stderr.write(f"hil: {mistake}\n")
        return USER_MISTAKE
    if not chosen and not unread:
        labs = ", ".join(sorted({info.lab for info, _ in _infos(out, [])})) or "none"
        named = f" of lab {lab}" * bool(lab) + f" in lane {lane}" * bool(lane)
        sys.stderr.write(f"hil: no run{named} is kept in {out}; labs with runs there: {labs}\n")
        return USER_MISTAKE
    found = history(chosen)
    shown = document(found, unread)
    try:
        if html is not None:
            text = page(shown, [templates_of(ROOT)], TEMPLATE)
            write_bytes(html, text.encode("utf-8"))
    except OSError as refused:
        said = refused.strerror or refused
        sys.stderr.write(f"hil: --html {html}: cannot write there ({said})\n")
        return UNREADABLE if is_the_disks(refused) else USER_MISTAKE
    sys.stdout.write(json.dumps(shown, indent=2) + "\n" if as_json else words(found))
    for sentence in unread:
        sys.stderr.write(f"hil: {sentence}\n")
    return UNREADABLE if unread else 0


def _chosen(lab: str, lane: str, last: int, out: Path) -> tuple[list[Run], list[str]]:
    """The newest runs that fit, and a sentence for each that cannot be read."""
    unread: list[str] = []
    fitting = [
        (info.ended or info.started, folder)
        for info, folder in _infos(out, unread)
        if kept.holds_a_run(folder) and lab in ("", info.lab) and lane in ("", info.lane)
    ]
    runs = []
    for _, folder in sorted(fitting)[-last:]:
        try:
            run = read_one(folder)
        except LedgerError as error:
            unread.append(str(error))
            continue
        runs.append(run)
        unread += [f"{run.id}: unreadable: {line}" for line in run.view.unreadable]
    return runs, unread


def _infos(out: Path, unread: list[str]) -> Iterator[tuple[RunInfo, Path]]:
    for folder in kept.runs(out):
        try:
            yield read_run(folder / "run.json"), folder
        except LedgerError as error:
            unread.append(str(error))


def document(found: History, unread: Sequence[str] = ()) -> dict[str, Any]:
    """The trend as data, schema ``hil.trend/1``."""
    shown = {
        "schema": SCHEMA,
        "runs": [_past(one) for one in found.past],
        "endings": {one.value: found.ended(one) for one in Ending},
        "claims": [
            {
                "claim": course.claim,
                "failed": course.failed,
                "turns": course.turns,
                "outcomes": [cell.value for cell in course.cells],
            }
            for course in found.courses
        ],
        "failures": found.failures,
        "undiagnosed_share": found.undiagnosed,
        "evidence_share": found.complete,
        "unreadable": list(unread),
    }
    result: dict[str, Any] = visible(redact_data(shown))
    return result


def _past(one: Past) -> dict[str, Any]:
    info = one.run.info
    return {
        "run_id": info.run_id,
        "lab": info.lab,
        "lane": info.lane,
        "substrate": one.run.substrate.value,
        "subject": info.subject,
        "ended": "" if info.ended is None else rfc3339(round(info.ended)),
        "exit": info.exit,
        "ending": one.ending.value,
        "counts": {key.value: number for key, number in one.run.summary.counts.items()},
        "seconds": one.seconds,
        "slowest_join_seconds": one.joins,
        "failures": one.failures,
        "undiagnosed": one.undiagnosed,
        "evidence_planned": one.planned,
        "evidence_taken": one.taken,
        "undiagnosed_share": one.undiagnosed_share,
        "evidence_share": one.evidence_share,
    }


def words(found: History) -> str:
    """The trend for a terminal: runs, then claims by runs, then what it amounts to."""
    head = f"{'':>4}  {'ended':<20} {'ending':<17} {'took':>8} {'join':>6}"
    lines = [f"{head} {'failures':>8} {'no cause':>8} {'evidence':>8}  run"]
    lines += [_run_line(number, one) for number, one in enumerate(found.past, start=1)]
    lines += ["", *_grid(found), "", LEGEND, "", *_amounts(found)]
    return str(visible("\n".join(lines))) + "\n"


def _run_line(number: int, one: Past) -> str:
    ended = one.run.info.ended
    when = "no end recorded" if ended is None else rfc3339(round(ended))
    took, join = (
        "-" if seconds is None else f"{seconds:.0f} s" for seconds in (one.seconds, one.joins)
    )
    head = f"{number:>4}  {when:<20} {one.ending.value:<17} {took:>8} {join:>6}"
    shares = (f"{_percent(part):>8}" for part in (one.undiagnosed_share, one.evidence_share))
    return f"{head} {one.failures:>8} {' '.join(shares)}  {one.run.id}"


def _percent(part: float | None) -> str:
    return "-" if part is None else f"{part:.0%}"


def _grid(found: History) -> Iterator[str]:
    """Claims that always held are counted and not drawn; the rest stand by how often they fail."""
    told = [course for course in found.courses if set(course.cells) - _QUIET]
    if told:
        first = min(_WIDEST, max(len(course.claim) for course in told))
        numbers = range(1, len(found.past) + 1)
        yield f"{'':<{first}}  {''.join(str(number % 10) for number in numbers)}  failed  turns"
        for course in told:
            letters = "".join(LETTERS[cell] for cell in course.cells)
            yield f"{course.claim:<{first}}  {letters}  {course.failed:>6}  {course.turns:>5}"
    held = sum(Cell.HOLDS in course.cells for course in found.courses if course not in told)
    lacked = len(found.courses) - len(told) - held
    yield f"{held} claim{'s' * (held != 1)} held in every run that asked"
    if lacked:
        yield f"{lacked} claim{'s' * (lacked != 1)} could be put to none of these labs"


def _amounts(found: History) -> Iterator[str]:
    total = len(found.past)
    fit = total - found.ended(Ending.LAB) - found.ended(Ending.FAULT)
    yield (
        f"{total} run{'s' * (total != 1)}: "
        + ", ".join(f"{found.ended(one)} {one.value}" for one in Ending if found.ended(one))
    )
    product = found.ended(Ending.PRODUCT)
    yield f"product: {product} of {fit} runs in which the lab was fit and no fault was planted"
    yield f"lab: unfit in {found.ended(Ending.LAB)} of {total}"
    if found.failures:
        share, complete = found.undiagnosed or 0.0, found.complete
        kept_share = "none planned" if complete is None else f"{complete:.0%} of what was planned"
        yield (
            f"failures: {found.failures}, {share:.0%} without a cause named; evidence: {kept_share}"
        )
    took, join = median([one.seconds for one in found.past]), median([p.joins for p in found.past])
    if took is not None:
        joined = "" if join is None else f", slowest join {join:.0f} s (the lab's clock)"
        yield f"median: a run takes {took:.0f} s{joined}"
