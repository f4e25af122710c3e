"""Known issues: failures that somebody owns, by claim and signature, until a day.

A match is shown as known and stays what it is: broken or unknown, never established. Past its day,
or where the reason is another than the signature, it is as red as any other. An entry whose claim
holds is told, so that it is taken out.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from harness.report.outcome import Row, Standing, Summary

SCHEMA = "hil.known-issues/1"
_NEEDED = ("claim", "signature", "owner", "link", "expires")
_UNLIKE = (
    "kubelet 1.34 posts no status",
    "VMI m-0: 2 of 3 cards (10de:26b9) are missing; expected 3",
    "the node rebooted after 4210 s",
)
"""Reasons without a word in common: a signature that fits them all tells no failure apart."""
_ALLOWED = (*_NEEDED, "pool", "hardware", "note")


class KnownIssuesError(Exception):
    """A file of known issues that cannot be used: every mistake, a line each."""


class State(StrEnum):
    """What became of an entry in a run."""

    MATCHED = "matched"
    EXPIRED = "expired"
    DIFFERS = "differs"
    OBSOLETE = "obsolete"


@dataclass(frozen=True, slots=True)
class KnownIssue:
    """One entry. ``signature`` is searched in a verdict's reason; ``pool`` and ``hardware`` narrow
    where it applies, "" for anywhere; it counts until the end of the day ``expires``.
    """

    claim: str
    signature: re.Pattern[str]
    owner: str
    link: str
    expires: date
    pool: str = ""
    hardware: str = ""

    def concerns(self, row: Row) -> bool:
        """Whether a row is of its claim, pool and hardware."""
        here = self.pool in ("", row.pool)
        on = self.hardware.casefold() in ("", row.hardware.casefold())
        return row.claim == self.claim and here and on


@dataclass(frozen=True, slots=True)
class Match:
    """An entry on a row of a run, and what became of it there."""

    issue: KnownIssue
    pool: str
    state: State

    def fields(self) -> dict[str, str]:
        """As the ledger's record ``known-issue`` has them."""
        issue = self.issue
        return {
            "claim": issue.claim,
            "pool": self.pool,
            "owner": issue.owner,
            "link": issue.link,
            "expires": issue.expires.isoformat(),
            "signature": issue.signature.pattern,
            "state": self.state.value,
        }


def load(path: Path, claims: Collection[str]) -> tuple[KnownIssue, ...]:
    """Read a file of known issues. Raises KnownIssuesError, every mistake at once."""
    try:
        told = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as refused:
        raise KnownIssuesError(f"{path}: cannot be read ({refused})") from refused
    except yaml.YAMLError as wrong:
        said = " ".join(str(wrong).split())
        raise KnownIssuesError(f"{path}: no YAML: {said}") from wrong
    except ValueError as wrong:  # a day that the calendar lacks
        raise KnownIssuesError(f"{path}: {wrong}; a day is written as 2027-01-31") from wrong
    except RecursionError as wrong:
        raise KnownIssuesError(f"{path}: lists or mappings nested too deep to read") from wrong
    if not isinstance(told, dict) or told.get("schema") != SCHEMA:
        raise KnownIssuesError(f"{path}: a mapping with schema: {SCHEMA} was expected")
    entries = told.get("issues")
    if not isinstance(entries, list):
        raise KnownIssuesError(f"{path}: issues: a list was expected")
    wrong_ones = [
        f"{path}: issue {number}: {slip}"
        for number, entry in enumerate(entries, 1)
        for slip in _slips(entry, claims)
    ]
    if wrong_ones:
        raise KnownIssuesError("\n".join(wrong_ones))
    return tuple(_issue(entry) for entry in entries)


def match(issues: Sequence[KnownIssue], summary: Summary, at: float) -> tuple[Match, ...]:
    """What became of each entry on each row that it concerns; ``at`` is the runner's epoch seconds.

    A row matches only where each of its findings that does not hold has the signature: a known
    failure must not hide another. One that did not run, or that no pool can establish, says
    nothing of an entry.
    """
    today = datetime.fromtimestamp(at, UTC).date()
    found = []
    for issue in issues:
        for row in summary.rows:
            state = _state(issue, row, today) if issue.concerns(row) else None
            if state is not None:
                found.append(Match(issue, row.pool, state))
    return tuple(found)


def _state(issue: KnownIssue, row: Row, today: date) -> State | None:
    if row.outcome is Standing.HOLDS:
        return State.OBSOLETE
    if row.outcome not in (Standing.BROKEN, Standing.UNKNOWN):
        return None
    bad = [one.because for one in row.findings if one.outcome is not Standing.HOLDS]
    if not all(issue.signature.search(" ".join(text.split())) for text in bad):
        return State.DIFFERS
    return State.EXPIRED if today > issue.expires else State.MATCHED


def _slips(entry: Any, claims: Collection[str]) -> list[str]:
    if not isinstance(entry, Mapping):
        return ["a mapping was expected"]
    slips = [f"{key}: missing" for key in _NEEDED if entry.get(key) in (None, "")]
    slips += [f"{key}: no such field" for key in entry if key not in _ALLOWED]
    slips += [
        f"{key}: a text was expected"
        for key in _ALLOWED
        if key != "expires" and not isinstance(entry.get(key, ""), str)
    ]
    claim = entry.get("claim")
    if isinstance(claim, str) and claim and claim not in claims:
        near = difflib.get_close_matches(claim, sorted(claims), n=1)
        slips.append(
            f"claim: no claim {claim!r}" + (f"; did you mean {near[0]!r}?" if near else "")
        )
    if isinstance(entry.get("signature"), str):
        slips += _bad_pattern(entry["signature"])
    if entry.get("expires") not in (None, "") and _day(entry["expires"]) is None:
        slips.append(f"expires: {entry['expires']!r} is no day (2027-01-31)")
    return slips


def _bad_pattern(text: str) -> list[str]:
    try:
        pattern = re.compile(text)
    except re.error as wrong:
        return [f"signature: no regular expression: {wrong}"]
    fits = pattern.search("") or all(map(pattern.search, _UNLIKE))
    return ["signature: it fits every reason"] if fits else []


def _day(given: object) -> date | None:
    """A day as YAML reads it, or as a text."""
    if isinstance(given, date) and not isinstance(given, datetime):
        return given
    try:
        return date.fromisoformat(given) if isinstance(given, str) else None
    except ValueError:
        return None


def _issue(entry: Mapping[str, Any]) -> KnownIssue:
    day = _day(entry["expires"])
    assert day is not None, "checked before"
    return KnownIssue(
        claim=entry["claim"],
        signature=re.compile(entry["signature"]),
        owner=entry["owner"],
        link=entry["link"],
        expires=day,
        pool=entry.get("pool", ""),
        hardware=entry.get("hardware", ""),
    )
