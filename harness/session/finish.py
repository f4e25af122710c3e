"""The end of a run: what never ran, the joined ledger, the reports, the exit status."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from harness.claims.catalogue import load as load_claims
from harness.report import allure_history, closing
from harness.report.allure_build import Entry
from harness.report.closing import PLAN_SHARD
from harness.report.environment import NO_LAB
from harness.report.known import KnownIssue, KnownIssuesError, match
from harness.report.known import load as load_known
from harness.report.ledger import Ledger, LedgerView, read
from harness.report.outcome import ALL_KNOWN, FAILING, Summary, exit_status, summarise
from harness.report.records import DESELECTED
from harness.report.rundir import RunDirectory, RunInfo
from harness.session.mistake import UserMistake
from harness.session.plan import Plan

Log = Callable[[str, str], None]
"""Where bring-up says what it does: (kind, text)."""

PASSED = "passed"
FAILED = "failed"
LAB_UNFIT = 3
KNOWN_ISSUES = Path("reports") / "known-issues.yaml"
"""The file of known issues, from the checkout's root."""
KNOWN_SHARD = "known"


def write_plan(directory: RunDirectory, plan: Plan, hardware: dict[str, str]) -> None:
    """Put the plan into the ledger before anything runs, with what the lab cannot establish."""
    with Ledger(directory.path, PLAN_SHARD) as ledger:
        for item in plan.planned:
            ledger.planned(
                item.scenario,
                item.pool,
                item.claims,
                hardware=hardware.get(item.pool, ""),
                title=item.title,
            )
        for lack in plan.lacking:
            for claim in lack.claims:
                ledger.not_established(claim, "", lack.why)
        if plan.deselected:
            ledger.note(DESELECTED, plan.narrowed(), at=0.0)  # before there is a lab and its time


def finish(directory: RunDirectory, plan: Plan, interrupted: str) -> LedgerView:
    """Say what never ran, join the shards in the plan's order, and read the whole."""
    return closing.join(directory, interrupted, entries(plan, {}))


def entries(plan: Plan, hardware: Mapping[str, str]) -> list[Entry]:
    """The plan as reports know it; ``hardware`` is pool to the name of its card."""
    return [
        Entry(item.scenario, item.pool, item.claims, hardware.get(item.pool, ""), item.title)
        for item in plan.planned
    ]


def only_the_lab_failed(view: LedgerView) -> bool:
    """Whether something failed, and nothing but for what the lab lacked or lost."""
    summary = summarise(view)
    failing = [row for row in summary.rows if row.outcome in FAILING]
    if summary.unreadable or summary.missing or not failing:
        return False
    ends = {record.text("outcome") for record in view.of("end")}
    return all(row.environment for row in failing) and ends <= {PASSED, FAILED, NO_LAB}


def status_of(view: LedgerView, summary: Summary) -> int:
    """The exit status that the claims call for: 3 where only the lab failed, 6 where all that
    fails is known.
    """
    status = exit_status(summary)
    ends = {record.text("outcome") for record in view.of("end")}
    if status == ALL_KNOWN and not ends <= {PASSED, FAILED}:
        return 1  # a known issue must not hide how else a scenario ended
    return LAB_UNFIT if status == 1 and only_the_lab_failed(view) else status


def known_issues(given: Path | None, root: Path, at: float) -> tuple[KnownIssue, ...]:
    """The known issues of the file that was named, else of the checkout's own where it has one, at
    the runner's epoch seconds ``at``. Raises UserMistake.
    """
    path = given or root / KNOWN_ISSUES
    if given is None and not path.is_file():
        return ()
    try:
        return load_known(path, load_claims().keys(), at)
    except KnownIssuesError as wrong:
        raise UserMistake(str(wrong)) from wrong


def note_known(directory: RunDirectory, issues: Sequence[KnownIssue], at: float) -> None:
    """Write what became of each known issue into the ledger, before its shards are joined; ``at``
    is the runner's epoch seconds. Nothing is written where nothing is known.
    """
    found = match(issues, summarise(read(directory.path)), at) if issues else ()
    if found:
        with Ledger(directory.path, KNOWN_SHARD) as ledger:
            for one in found:
                ledger.known_issue(**one.fields())


def write_reports(
    directory: RunDirectory,
    info: RunInfo,
    view: LedgerView,
    summary: Summary,
    words: str,
    root: Path,
) -> None:
    """Write run.json and every report, and let ``latest`` lead to the run."""
    info.write(directory.run_json)
    closing.write_reports(directory, info, view, summary, words, root)
    allure_history.take_along(directory, info)
    directory.point_latest()
