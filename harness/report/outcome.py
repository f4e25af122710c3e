"""What a ledger amounts to: one outcome for each claim and pool, the worst that was seen."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from harness.report.environment import Environment, environment_of
from harness.report.ledger import LedgerView, Unreadable
from harness.report.records import Record


class Standing(StrEnum):
    """How a claim stands on a pool. Worst first: an earlier one hides the later."""

    BROKEN = "broken"
    UNKNOWN = "unknown"
    NOT_RUN = "not-run"
    NOT_ESTABLISHED = "not-established"
    HOLDS = "holds"


_WORST = {standing: place for place, standing in enumerate(Standing)}
FAILING = (Standing.BROKEN, Standing.UNKNOWN, Standing.NOT_RUN)
"""Outcomes that a run may not have and end with 0."""
NO_VERDICT = "ended without a verdict"
ALL_KNOWN = 6
"""Exit status of a run in which nothing fails but what is known."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing said of a claim on a pool. ``facts`` are keys of ``LedgerView.facts``."""

    outcome: Standing
    because: str
    subject: str = ""
    scenario: str = ""
    at: str = ""
    facts: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Known:
    """An entry of the known issues on a row. ``state`` is matched, expired, differs or obsolete."""

    state: str
    owner: str
    link: str
    expires: str
    signature: str


@dataclass(frozen=True, slots=True)
class Row:
    """A claim on a pool: its outcome is its worst finding's, and so is ``because``. ``known`` are
    the known issues that concern it; ``environment`` says why it is the lab's failure, "" where it
    is not.
    """

    claim: str
    pool: str
    hardware: str
    outcome: Standing
    because: str
    findings: tuple[Finding, ...]
    known: tuple[Known, ...] = ()
    environment: str = ""

    @property
    def is_known(self) -> bool:
        """Whether it failed and one entry, still valid, has its signature."""
        failed = self.outcome in (Standing.BROKEN, Standing.UNKNOWN)
        return failed and any(one.state == "matched" for one in self.known)

    @property
    def subjects(self) -> tuple[str, ...]:
        """What was judged, each once, in order."""
        return tuple(dict.fromkeys(item.subject for item in self.findings if item.subject))


@dataclass(frozen=True, slots=True)
class Missing:
    """Claims of a planned scenario that got no verdict, and why."""

    scenario: str
    pool: str
    claims: tuple[str, ...]
    why: str


@dataclass(frozen=True, slots=True)
class Summary:
    """A whole ledger. ``planned`` and ``reported`` count scenarios on pools; a scenario is
    reported when each claim planned for it has a verdict, else it is among ``missing``.
    """

    rows: tuple[Row, ...]
    planned: int
    reported: int
    missing: tuple[Missing, ...]
    unreadable: tuple[Unreadable, ...]

    @property
    def counts(self) -> dict[Standing, int]:
        """Rows of each outcome, worst first, zeros too."""
        return {one: sum(row.outcome is one for row in self.rows) for one in Standing}

    def row(self, claim: str, pool: str) -> Row | None:
        """The row of a claim on a pool."""
        found = (row for row in self.rows if (row.claim, row.pool) == (claim, pool))
        return next(found, None)

    @property
    def claims(self) -> tuple[str, ...]:
        """Claims in the order in which the ledger names them."""
        return tuple(dict.fromkeys(row.claim for row in self.rows))

    @property
    def pools(self) -> tuple[tuple[str, str], ...]:
        """Pools and their hardware, in the order in which the ledger names them."""
        return tuple(dict.fromkeys((row.pool, row.hardware) for row in self.rows))


def summarise(view: LedgerView) -> Summary:
    """Each claim on each pool, worst finding first; what was planned and never judged is there
    too, as not run. A ``holds`` whose facts cannot be read is ``unknown``.
    """
    plan = _plan(view)
    missing = _missing(view, plan)
    findings: dict[tuple[str, str], list[Finding]] = {}
    for (_, pool), claims in plan.items():
        for claim in claims:
            findings.setdefault((claim, pool), [])
    known = frozenset(view.facts())
    for record in view.of("verdict"):
        finding = _finding(record, known)
        findings.setdefault((record.text("claim"), record.text("pool")), []).append(finding)
    for record in view.of("not-established"):
        finding = Finding(Standing.NOT_ESTABLISHED, record.text("why"))
        findings.setdefault((record.text("claim"), record.text("pool")), []).append(finding)
    for lost in missing:
        for claim in lost.claims:
            finding = Finding(Standing.NOT_RUN, lost.why, scenario=lost.scenario)
            findings.setdefault((claim, lost.pool), []).append(finding)
    hardware, issues, lab = _hardware(view), _known(view), environment_of(view)
    rows = tuple(
        _row(claim, pool, hardware.get(pool, ""), found, issues, lab)
        for (claim, pool), found in findings.items()
    )
    absent = {(lost.scenario, lost.pool) for lost in missing}
    return Summary(rows, len(plan), len(plan) - len(absent), missing, view.unreadable)


def exit_status(summary: Summary) -> int:
    """The run's exit status.

    0: everything planned holds (what the lab could not establish does not count against it).
    1: something is broken, unknown or not run, or a line of the ledger could not be read.
    6: all that fails is a known issue, with its signature and before its day.
    5: nothing was planned and nothing reported, as pytest says it.
    """
    if not summary.rows and not summary.planned and not summary.unreadable:
        return 5
    failing = [row for row in summary.rows if row.outcome in FAILING]
    if summary.unreadable or summary.missing or not all(row.is_known for row in failing):
        return 1
    return ALL_KNOWN if failing else 0


def _plan(view: LedgerView) -> dict[tuple[str, str], tuple[str, ...]]:
    """Scenario and pool to claims; what only a ``not-run`` names was planned as well."""
    plan: dict[tuple[str, str], tuple[str, ...]] = {}
    for record in view.of("planned") + view.of("not-run"):
        key = _scenario(record)
        plan[key] = tuple(dict.fromkeys(plan.get(key, ()) + record.texts("claims")))
    return plan


def _missing(
    view: LedgerView, plan: Mapping[tuple[str, str], tuple[str, ...]]
) -> tuple[Missing, ...]:
    judged: dict[tuple[str, str], set[str]] = {}
    for record in view.of("verdict"):
        judged.setdefault(_scenario(record), set()).add(record.text("claim"))
    said: dict[tuple[str, str], dict[str, str]] = {}
    for record in view.of("not-run"):
        named = dict.fromkeys(record.texts("claims"), record.text("why"))
        said.setdefault(_scenario(record), {}).update(named)
    missing = []
    for key, claims in plan.items():
        seen, whys = judged.get(key, set()), said.get(key, {})
        ended = "" if claims and seen.issuperset(claims) else _ended(view, *key)
        reasons = {one: whys.get(one, ended) for one in claims if one in whys or one not in seen}
        for why in dict.fromkeys(reasons.values()):
            lost = tuple(claim for claim, reason in reasons.items() if reason == why)
            missing.append(Missing(*key, lost, why))
        if not claims and not seen:
            missing.append(Missing(*key, (), ended))
    return tuple(missing)


def _scenario(record: Record) -> tuple[str, str]:
    return record.text("scenario"), record.text("pool")


def _ended(view: LedgerView, scenario: str, pool: str) -> str:
    ends = [
        item
        for item in view.of("end")
        if item.text("scenario") == scenario and item.text("pool") in ("", pool)
    ]
    return f"{NO_VERDICT} ({ends[-1].text('outcome')})" if ends else NO_VERDICT


def _finding(record: Record, known: frozenset[str]) -> Finding:
    facts = tuple(f"{record.shard}/{name}" for name in record.texts("facts"))
    outcome, because = _outcome(record), record.text("because")
    lost = [key for key in facts if key not in known]
    if outcome is Standing.HOLDS and (lost or not facts):
        outcome = Standing.UNKNOWN
        because = f"said to hold, but the facts behind it are not in the ledger: {because}"
    return Finding(
        outcome, because, record.text("subject"), record.text("scenario"), record.text("at"), facts
    )


def _outcome(record: Record) -> Standing:
    """A verdict's outcome; one that no judge gives is unknown, never a pass."""
    given = record.text("outcome")
    return Standing(given) if given in ("holds", "broken") else Standing.UNKNOWN


def _hardware(view: LedgerView) -> dict[str, str]:
    named = view.of("planned") + view.of("not-established")
    return {item.text("pool"): item.text("hardware") for item in named if item.text("hardware")}


def _known(view: LedgerView) -> dict[tuple[str, str], tuple[Known, ...]]:
    found: dict[tuple[str, str], tuple[Known, ...]] = {}
    for record in view.of("known-issue"):
        texts = (record.text(name) for name in ("state", "owner", "link", "expires", "signature"))
        key = (record.text("claim"), record.text("pool"))
        found[key] = (*found.get(key, ()), Known(*texts))
    return found


def _row(
    claim: str,
    pool: str,
    hardware: str,
    findings: list[Finding],
    known: Mapping[tuple[str, str], tuple[Known, ...]],
    lab: Environment,
) -> Row:
    worst = min(findings, key=lambda item: _WORST[item.outcome])
    return Row(
        claim,
        pool,
        hardware,
        worst.outcome,
        worst.because,
        tuple(findings),
        known.get((claim, pool), ()),
        lab.why(claim, pool, findings),
    )
