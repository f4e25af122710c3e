"""The end of a run, from its ledger alone: what never ran, the joined ledger, every report.

A run calls it as it ends, and `hil report` on the folder of one that could not: the same records
give the same bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from harness.claims.catalogue import load as load_claims
from harness.report import (
    allure_build,
    allure_history,
    allure_writer,
    evidence,
    junit,
    table,
)
from harness.report.allure_build import Entry, plan_of
from harness.report.atomic import write_bytes
from harness.report.ledger import Ledger, LedgerView, merge, read
from harness.report.limits import limits
from harness.report.outcome import NO_VERDICT, Summary
from harness.report.records import DESELECTED, KILLED
from harness.report.rundir import RunDirectory, RunInfo
from harness.report.substrate import substrate_of

PLAN_SHARD = "plan"
END_SHARD = "end"
JUNIT = "junit.xml"


def shard_of(pool: str, hand: str = "") -> str:
    """The ledger's shard that a pool's scenarios write; of guests, those of one pair of hands."""
    return f"pool-{pool}.{hand}" if hand else f"pool-{pool}"


def join(
    directory: RunDirectory, why: str, entries: Sequence[Entry] = (), *, killed: str = ""
) -> LedgerView:
    """Say what never ran and why, join the shards in the plan's order, and read the whole.

    ``entries`` is the plan, where it is known from elsewhere than the ledger; ``killed`` says that
    the run did not get here by itself. Raises LedgerError and OSError.
    """
    # what an end that was broken off wrote is written anew
    (directory.shards / f"{END_SHARD}.jsonl").unlink(missing_ok=True)
    view = read(directory.path, shards_only=True)
    plan = {(entry.scenario, entry.pool): entry for entry in entries} or plan_of(view.records)
    ended = {(record.text("scenario"), record.text("pool")) for record in view.of("end")}
    with Ledger(directory.path, END_SHARD) as ledger:
        if killed:
            ledger.note(KILLED, killed, at=0.0)
        for key, entry in plan.items():
            if key not in ended:
                ledger.not_run(*key, entry.claims, why or NO_VERDICT)
    # of another ledger than the one that comes now: broken off between the two, the run would be
    # taken for one whose ledger was changed after its sign-off
    directory.signoff_json.unlink(missing_ok=True)
    pools = dict.fromkeys(entry.pool for entry in plan.values())
    parts = (shard for pool in pools for shard in _shards_of(directory, pool))
    merge(directory.path, [PLAN_SHARD, *parts, END_SHARD])
    return read(directory.path)


def _shards_of(directory: RunDirectory, pool: str) -> list[str]:
    """The shards of a pool: one, or one for each pair of hands that had guests of its own."""
    several = sorted(path.stem for path in directory.shards.glob(f"{shard_of(pool, '*')}.jsonl"))
    return several or [shard_of(pool)]


def words_of(directory: RunDirectory, view: LedgerView, summary: Summary, kind: str) -> str:
    """The table of claims, what was left out of the run, and where to look; ``kind`` is the lab's.

    Of a reference run also what it cannot show by its nature.
    """
    where = {
        "sign-off": directory.signoff_html,
        "ledger": directory.ledger,
        "Allure": directory.allure_results,
    }
    told = table.render(
        summary,
        reports=where,
        limits=limits(view, summary, kind),
        diagnoses=evidence.lines(view),
        substrate=substrate_of(kind),
    )
    narrowed = [note.text("text") for note in view.of("note") if note.text("kind") == DESELECTED]
    return told + "".join(f"\n{text}\n" for text in narrowed)


def write_allure(directory: RunDirectory, info: RunInfo, view: LedgerView) -> None:
    """Allure's results and JUnit's file, from what the ledger holds so far."""
    built = allure_build.results(view, info, load_claims(), directory.path)
    folder = directory.allure_results
    for result in built:
        allure_writer.write_result(folder, result)
    for container in allure_build.containers(view, info):
        allure_writer.write_container(folder, container)
    write_bytes(directory.path / JUNIT, junit.document(built, info))
    _write_beside(directory, info)
    if view.merged:
        allure_history.leave(directory, info, built)


def write_ahead(directory: RunDirectory, info: RunInfo, entries: Sequence[Entry]) -> None:
    """What Allure shows of a run that is killed before it could say more: all of it as not run."""
    plan = {(entry.scenario, entry.pool): entry for entry in entries}
    setting = allure_build.Setting(info, load_claims(), plan)
    for entry in entries:
        told = allure_build.never_begun(entry, NO_VERDICT, info.started, setting)
        allure_writer.write_result(directory.allure_results, told)
    _write_beside(directory, info)


def _write_beside(directory: RunDirectory, info: RunInfo) -> None:
    folder = directory.allure_results
    allure_writer.write_categories(folder)
    allure_writer.write_environment(folder, _environment(info))
    allure_writer.write_executor(folder, info.executor or {"name": "not recorded"})
    allure_writer.write_configuration(directory.path, f"hil {info.run_id}", allure_history.OWN)


def _environment(info: RunInfo) -> dict[str, str]:
    told = {
        "run": info.run_id,
        "lab": info.lab,
        "substrate": substrate_of(info.kind).value,
        "lane": info.lane or "none",
        "fault": info.fault or "none",
        "subject": info.subject,
        "inventory": info.inventory_sha256[:12],
        **info.versions,
    }
    return {name: text for name, text in told.items() if text}


def write_reports(
    directory: RunDirectory,
    info: RunInfo,
    view: LedgerView,
    summary: Summary,
    words: str,
    root: Path,
) -> None:
    """Write every report of a run whose ledger is joined; ``root`` is the checkout with the
    templates. Raises OSError.
    """
    from harness.report import signoff
    from harness.report.pictures.catalogue import pictures

    shown = signoff.document(view, summary, info, load_claims())
    signoff.write(shown, directory.path, [signoff.templates_of(root)], pictures=pictures(view))
    write_allure(directory, info, view)
    write_bytes(directory.table, words.encode("utf-8", "backslashreplace"))
