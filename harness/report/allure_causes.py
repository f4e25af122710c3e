"""Why a scenario did not pass, as Allure shows it: one word for the cause, then the reasons.

The first words of a message are what its category goes by, so each cause has its own.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.report.allure_model import BROKEN, FAILED, PASSED, SKIPPED
from harness.report.records import Record
from harness.report.traces import Trace

BY_HARNESS = "the harness failed: "
"""How the reason of a verdict begins that a fault of the harness left behind."""

WORDS: Mapping[str, str] = {
    "known": "known issue",
    "broken": "product broken",
    "unfit": "lab unfit",
    "harness": "harness at fault",
    "interrupted": "interrupted",
    "not-run": "not run",
    "unknown": "not known",
    "not-established": "not established",
}
"""Cause to the words that a message begins with."""

_TITLES = {
    "known": ("Known issue, still not established", [FAILED, BROKEN]),
    "broken": ("Product: claim broken", [FAILED]),
    "unfit": ("Lab unfit", [BROKEN]),
    "harness": ("Harness or scenario at fault", [BROKEN]),
    "interrupted": ("Interrupted", [BROKEN]),
    "not-run": ("Planned and not run", [BROKEN]),
    "unknown": ("Not known: the answer could not be had", [BROKEN]),
    "not-established": ("Not established: the lab lacks what it needs", [SKIPPED]),
}

CATEGORIES: Sequence[Mapping[str, Any]] = tuple(
    {
        "name": title,
        "matchedStatuses": statuses,
        # Allure 2 wants the pattern to match the whole text; (?s) is not valid in Allure 3
        "messageRegex": rf"{WORDS[cause]}: [\s\S]*",
    }
    for cause, (title, statuses) in _TITLES.items()
)


@dataclass(frozen=True, slots=True)
class Cause:
    """How a scenario came out: Allure's status, the cause (a key of `WORDS`; empty: it passed)
    and the whole message.
    """

    status: str
    cause: str = ""
    message: str = ""


def because(cause: str, status: str, reasons: Sequence[str]) -> Cause:
    """A cause with its reasons, a line each."""
    return Cause(status, cause, f"{WORDS[cause]}: " + "\n".join(reasons))


def cause_of(
    trace: Trace,
    planned: Collection[str],
    facts: Collection[str],
    known_issues: Mapping[tuple[str, str], Record],
) -> Cause:
    """How a scenario came out that was begun. ``planned`` are its claims, ``facts`` the ids of
    those that can be read: what holds without them is not known. ``known_issues`` are those that
    matched, by claim and pool.
    """
    if trace.ended is None:
        return because("interrupted", BROKEN, [_where(trace), *_said(trace, "broken", "unknown")])
    broken, unknown = _said(trace, "broken"), _said(trace, "unknown")
    failing = {v.text("claim") for v in trace.verdicts if _outcome(v) != "holds"}
    keys = [(claim, trace.pool) for claim in sorted(failing)]
    known = [_known(known_issues[key]) for key in keys if key in known_issues]
    if known and len(known) == len(keys):
        return because("known", FAILED if broken else BROKEN, [*known, *broken, *unknown])
    if broken:
        return because("broken", FAILED, [*broken, *unknown])
    return _undecided(trace, planned, facts, unknown)


def _undecided(
    trace: Trace, planned: Collection[str], facts: Collection[str], unknown: Sequence[str]
) -> Cause:
    outcome = trace.ended.text("outcome") if trace.ended is not None else ""
    if outcome == "lab unfit":
        return because("unfit", BROKEN, list(unknown) or [outcome])
    if any(BY_HARNESS in reason for reason in unknown):
        return because("harness", BROKEN, unknown)
    if unknown:
        return because("unknown", BROKEN, unknown)
    unproven = [
        f"{record.text('claim')}: the facts behind it are not in the ledger"
        for record in trace.verdicts
        if not set(record.texts("facts")) <= set(facts)
    ]
    judged = {record.text("claim") for record in trace.verdicts}
    unproven += [
        f"{claim}: no verdict is in the ledger" for claim in planned if claim not in judged
    ]
    if unproven:
        return because("unknown", BROKEN, unproven)
    if outcome != "passed":
        return because("harness", BROKEN, [f"it ended as {outcome!r} with every claim holding"])
    return Cause(PASSED)


def _said(trace: Trace, *outcomes: str) -> list[str]:
    """The verdicts of these outcomes, as the line that a failing test shows."""
    return [
        f"{record.text('claim')} {record.text('outcome')}: {record.text('because')} "
        f"[{record.text('subject')}]"
        for record in trace.verdicts
        if _outcome(record) in outcomes
    ]


def _outcome(record: Record) -> str:
    """A verdict's outcome; one that no judge gives is unknown, never a pass."""
    given = record.text("outcome")
    return given if given in ("holds", "broken") else "unknown"


def _where(trace: Trace) -> str:
    if not trace.records:
        return "the run ended before anything was seen of it"
    last = trace.records[-1]
    if last.kind == "wait":
        since = last.text("since")
        return f"the run ended while it waited for {last.text('what')}, since {since}"
    what = last.text("claim") or last.text("text") or last.kind
    return f"the run ended before it did; the last that is kept: {what} at {last.text('at')}"


def _known(record: Record) -> str:
    until = f" until {record.text('expires')}" if record.text("expires") else ""
    return f"{record.text('claim')}: {record.text('owner')}, {record.text('link')}{until}"
