"""The end of a run: what never ran, the joined ledger, the reports, the exit status."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from harness.claims.catalogue import load as load_claims
from harness.report.ledger import Ledger, LedgerView, merge, read
from harness.report.outcome import NO_VERDICT, Standing, Summary, summarise
from harness.report.records import DESELECTED
from harness.report.rundir import RunDirectory, RunInfo
from harness.session.plan import Plan

Log = Callable[[str, str], None]
"""Where bring-up says what it does: (kind, text)."""

PLAN_SHARD = "plan"
END_SHARD = "end"
PASSED = "passed"
NO_LAB = "lab unfit"
"""How a scenario ends whose lab could not be had, or was lost on the way."""
OF_THE_LAB = ("golden-ready", "headroom")
"""Claims about the lab and not the product: broken ones are why a pool is refused."""


def shard_of(pool: str, hand: str = "") -> str:
    """The ledger's shard that a pool's scenarios write; of guests, those of one pair of hands."""
    return f"pool-{pool}.{hand}" if hand else f"pool-{pool}"


def _shards_of(directory: RunDirectory, pool: str) -> list[str]:
    """The shards of a pool: one, or one for each pair of hands that had guests of its own."""
    several = sorted(path.stem for path in directory.shards.glob(f"{shard_of(pool, '*')}.jsonl"))
    return several or [shard_of(pool)]


def write_plan(directory: RunDirectory, plan: Plan, hardware: dict[str, str]) -> None:
    """Put the plan into the ledger before anything runs, with what the lab cannot establish."""
    with Ledger(directory.path, PLAN_SHARD) as ledger:
        for item in plan.planned:
            ledger.planned(
                item.scenario, item.pool, item.claims, hardware=hardware.get(item.pool, "")
            )
        for lack in plan.lacking:
            for claim in lack.claims:
                ledger.not_established(claim, "", lack.why)
        if plan.deselected:
            ledger.note(DESELECTED, plan.narrowed(), at=0.0)  # before there is a lab and its time


def finish(directory: RunDirectory, plan: Plan, interrupted: str) -> LedgerView:
    """Say what never ran, join the shards in the plan's order, and read the whole."""
    ended = {(r.text("scenario"), r.text("pool")) for r in read(directory.path).of("end")}
    with Ledger(directory.path, END_SHARD) as ledger:
        for item in plan.planned:
            if item.key not in ended:
                ledger.not_run(item.scenario, item.pool, item.claims, interrupted or NO_VERDICT)
    pools = (shard for pool in plan.pools() for shard in _shards_of(directory, pool))
    merge(directory.path, [PLAN_SHARD, *pools, END_SHARD])
    return read(directory.path)


def only_the_lab_failed(view: LedgerView) -> bool:
    """Whether nothing is wrong but that the lab, or a pool of it, could not be had."""
    summary = summarise(view)
    if summary.unreadable or any(
        row.outcome in (Standing.BROKEN, Standing.NOT_RUN) and row.claim not in OF_THE_LAB
        for row in summary.rows
    ):
        return False
    ends = {(r.text("scenario"), r.text("pool")): r.text("outcome") for r in view.of("end")}
    return NO_LAB in ends.values() and set(ends.values()) <= {PASSED, NO_LAB}


def write_reports(
    directory: RunDirectory, info: RunInfo, summary: Summary, words: str, root: Path
) -> None:
    """Write run.json, the sign-off for people and for machines, Allure's side files, the table."""
    from harness.report import allure_writer, signoff
    from harness.report.substrate import substrate_of

    info.write(directory.run_json)
    shown = signoff.document(read(directory.path), summary, info, load_claims())
    signoff.write(shown, directory.path, [signoff.templates_of(root)])
    allure_writer.write_missing(
        directory.allure_results,
        summary.missing,
        run_id=info.run_id,
        at=info.ended or info.started,
        substrate=substrate_of(info.kind),
    )
    allure_writer.write_categories(directory.allure_results)
    properties = {
        "lab": info.lab,
        "substrate": substrate_of(info.kind).value,
        "lane": info.lane or "none",
        "fault": info.fault or "none",
    }
    allure_writer.write_environment(directory.allure_results, properties)
    directory.table.write_text(words, encoding="utf-8", errors="backslashreplace")
    directory.point_latest()


def words_of(
    directory: RunDirectory, view: LedgerView, summary: Summary, plan: Plan, kind: str
) -> str:
    """The table of claims, what was left out of the run, and where to look; ``kind`` is the lab's.

    Of a reference run also what it cannot show by its nature.
    """
    from harness.report import table
    from harness.report.limits import limits
    from harness.report.substrate import substrate_of

    where = {
        "sign-off": directory.signoff_html,
        "ledger": directory.ledger,
        "Allure": directory.allure_results,
    }
    narrowed = plan.narrowed()
    told = table.render(
        summary,
        reports=where,
        limits=limits(view, summary, kind),
        substrate=substrate_of(kind),
    )
    return told + (f"\n{narrowed}\n" if narrowed else "")
