"""The end of a run: what never ran, the joined ledger, the reports, the exit status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from harness.claims.catalogue import load as load_claims
from harness.report.ledger import Ledger, merge, read
from harness.report.outcome import NO_VERDICT, Summary, summarise
from harness.report.rundir import RunDirectory, RunInfo
from harness.session.plan import Plan

Log = Callable[[str, str], None]
"""Where bring-up says what it does: (kind, text)."""

PLAN_SHARD = "plan"
END_SHARD = "end"


def shard_of(pool: str) -> str:
    """The ledger's shard that a pool's scenarios write."""
    return f"pool-{pool}"


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


def finish(directory: RunDirectory, plan: Plan, interrupted: str) -> Summary:
    """Say what never ran, join the shards in the plan's order, and add it all up."""
    ended = {(r.text("scenario"), r.text("pool")) for r in read(directory.path).of("end")}
    with Ledger(directory.path, END_SHARD) as ledger:
        for item in plan.planned:
            if item.key not in ended:
                ledger.not_run(item.scenario, item.pool, item.claims, interrupted or NO_VERDICT)
    merge(directory.path, [PLAN_SHARD, *(shard_of(p) for p in plan.pools()), END_SHARD])
    return summarise(read(directory.path))


def write_reports(
    directory: RunDirectory, info: RunInfo, summary: Summary, status: int, ended: float, root: Path
) -> None:
    """Write run.json, the sign-off for people and for machines, Allure's side files, the table."""
    from harness.report import allure_writer, signoff, table

    info = replace(info, ended=ended, exit=status)
    info.write(directory.run_json)
    shown = signoff.document(read(directory.path), summary, info, load_claims())
    page, _ = signoff.write(shown, directory.path, [signoff.templates_of(root)])
    allure_writer.write_missing(
        directory.allure_results, summary.missing, run_id=info.run_id, at=ended
    )
    allure_writer.write_categories(directory.allure_results)
    properties = {"lab": info.lab, "lane": info.lane or "none", "fault": info.fault or "none"}
    allure_writer.write_environment(directory.allure_results, properties)
    where = {"sign-off": page, "ledger": directory.ledger, "Allure": directory.allure_results}
    directory.table.write_text(table.render(summary, reports=where))
    directory.point_latest()
