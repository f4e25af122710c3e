"""What a run's failures left, from its ledger: how complete, and whether a cause is named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.report.ledger import LedgerView
from harness.report.outcome import Standing, Summary
from harness.report.records import Record

KIND = "evidence"
NAMED, UNDECIDED, NOTHING = "named", "undecided", "nothing"
_FAILED = (Standing.BROKEN, Standing.UNKNOWN)
_ANSWERED = ("taken", "truncated", "empty")


@dataclass(frozen=True, slots=True)
class Evidence:
    """One failure's. ``folder`` is below the run's; ``score`` counts parts by what became of them;
    ``status`` and ``causes`` are the diagnosis', ``line`` the same in words."""

    scenario: str
    pool: str
    at: str
    folder: str
    score: Mapping[str, int]
    status: str
    causes: tuple[str, ...]
    line: str

    @property
    def answered(self) -> int:
        """Parts that were answered: taken, truncated or empty."""
        return sum(self.score.get(one, 0) for one in _ANSWERED)


def evidence(view: LedgerView) -> tuple[Evidence, ...]:
    """Each failure's, in the ledger's order; of one written twice the last."""
    found = {(one.text("scenario"), one.text("pool")): _read(one) for one in view.of(KIND)}
    return tuple(found.values())


def failures(summary: Summary) -> tuple[tuple[str, str], ...]:
    """Scenarios on pools with a verdict that does not hold: (scenario, pool)."""
    failed = {
        (finding.scenario, row.pool): None
        for row in summary.rows
        for finding in row.findings
        if finding.outcome in _FAILED and finding.scenario
    }
    return tuple(failed)


def numbers(view: LedgerView, summary: Summary) -> dict[str, Any]:
    """The numbers of `block` without what was said of each pool: for `run.json`."""
    return {key: value for key, value in block(view, summary).items() if key != "pools"}


def block(view: LedgerView, summary: Summary) -> dict[str, Any]:
    """The numbers for the sign-off.

    ``undiagnosable_share`` is of the failures the share without a named cause: without evidence,
    undecided, or with nothing found. ``share`` is of the planned parts the share that was answered.
    Both are None where there is nothing to share.
    """
    found = {(one.scenario, one.pool): one for one in evidence(view)}
    failed = failures(summary)
    had = [found[key] for key in failed if key in found]
    of = {status: sum(one.status == status for one in had) for status in (NAMED, UNDECIDED)}
    planned = sum(one.score.get("planned", 0) for one in had)
    return {
        "failures": len(failed),
        "with_evidence": len(had),
        "without": len(failed) - len(had),
        "decided": of[NAMED],
        "undecided": of[UNDECIDED],
        "nothing": len(had) - of[NAMED] - of[UNDECIDED],
        "undiagnosable_share": _share(len(failed) - of[NAMED], len(failed)),
        "planned": planned,
        "taken": sum(one.answered for one in had),
        "share": _share(sum(one.answered for one in had), planned),
        "pools": [
            {"pool": pool, "lines": list(lines), "folders": list(folders)}
            for pool, lines, folders in _by_pool(had)
        ],
    }


def lines(view: LedgerView) -> tuple[str, ...]:
    """A line for each pool with failures, and each thing that a diagnosis said of it."""
    return tuple(
        f"{pool}: {line} ({_failures(len(folders))})"
        for pool, told, _ in _by_pool(evidence(view))
        for line, folders in told.items()
    )


def _by_pool(
    found: list[Evidence] | tuple[Evidence, ...],
) -> list[tuple[str, dict[str, list[str]], list[str]]]:
    """Pool, what was said of it with the folders of the failures, and all their folders."""
    pools: dict[str, dict[str, list[str]]] = {}
    for one in found:
        pools.setdefault(one.pool, {}).setdefault(one.line, []).append(one.folder)
    return [
        (pool, told, [folder for folders in told.values() for folder in folders])
        for pool, told in pools.items()
    ]


def _failures(count: int) -> str:
    return f"{count} failure" + ("s" if count != 1 else "")


def _share(part: int, whole: int) -> float | None:
    return round(part / whole, 3) if whole else None


def _read(record: Record) -> Evidence:
    score = record.data.get("score", {})
    return Evidence(
        record.text("scenario"),
        record.text("pool"),
        record.text("at"),
        record.text("folder"),
        {key: value for key, value in score.items() if isinstance(value, int)},
        record.text("status"),
        record.texts("causes"),
        record.text("diagnosis"),
    )
