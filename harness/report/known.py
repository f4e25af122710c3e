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
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from pathlib import Path
from typing import Any

import yaml

from harness.report.outcome import Row, Standing, Summary
from harness.report.searching import SECONDS, search

SCHEMA = "hil.known-issues/1"
_NEEDED = ("claim", "signature", "owner", "link", "expires")
_UNLIKE = (
    "kubelet 1.34 posts no status",
    "VMI m-0: 2 of 3 cards (10de:26b9) are missing; expected 3",
    "the node rebooted after 4210 s",
)
"""Reasons without a word in common: a signature that fits them all tells no failure apart."""
_LONG = (
    "a" * 300 + "!",
    "0" * 300 + "!",
    "node hil-gpu-x7k2p rebooted after 4210 s, then " * 8 + "!",
)
"""What an expression that goes back over a text again and again does not get through."""
FARTHEST = 180
"""Days ahead that an entry may count at most: a failure that is known for longer than half a year
is looked at again.
"""
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


def load(path: Path, claims: Collection[str], at: float) -> tuple[KnownIssue, ...]:
    """Read a file of known issues, at the runner's epoch seconds ``at``. Raises KnownIssuesError,
    every mistake at once.
    """
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
        for slip in _slips(entry, claims, datetime.fromtimestamp(at, UTC).date())
    ]
    wrong_ones += [f"{path}: {slip}" for slip in _useless(entries)] if not wrong_ones else []
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
    concerned = [
        (issue, row)
        for issue in issues
        for row in summary.rows
        if issue.concerns(row) and row.outcome in _TOLD
    ]
    asked = dict.fromkeys(pair for issue, row in concerned for pair in _searched(issue, row))
    fits = dict(zip(asked, search(list(asked)), strict=True))
    return tuple(
        Match(issue, row.pool, _state(issue, row, today, fits)) for issue, row in concerned
    )


_TOLD = (Standing.HOLDS, Standing.BROKEN, Standing.UNKNOWN)


def _searched(issue: KnownIssue, row: Row) -> list[tuple[str, str]]:
    """The signature with the reason of each finding that does not hold."""
    bad = (one.because for one in row.findings if one.outcome is not Standing.HOLDS)
    return [(issue.signature.pattern, " ".join(text.split())) for text in bad]


def _state(
    issue: KnownIssue, row: Row, today: date, fits: Mapping[tuple[str, str], bool | None]
) -> State:
    if row.outcome is Standing.HOLDS:
        return State.OBSOLETE
    if not all(fits[pair] for pair in _searched(issue, row)):
        return State.DIFFERS
    return State.EXPIRED if today > issue.expires else State.MATCHED


def _slips(entry: Any, claims: Collection[str], today: date) -> list[str]:
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
    if entry.get("expires") not in (None, ""):
        slips += _bad_day(entry["expires"], today)
    return slips


def _bad_pattern(text: str) -> list[str]:
    try:
        re.compile(text)
    except (re.error, OverflowError, RecursionError) as wrong:
        return [f"signature: no regular expression: {wrong}"]
    return []


def _bad_day(given: object, today: date) -> list[str]:
    day = _day(given)
    if day is None:
        return [f"expires: {given!r} is no day (2027-01-31)"]
    ahead = (day - today).days
    if ahead > FARTHEST:
        last = today + timedelta(days=FARTHEST)
        return [f"expires: {day} is {ahead} days ahead, and {FARTHEST} are allowed: until {last}"]
    return []


def _useless(entries: Sequence[Any]) -> list[str]:
    """Signatures that tell no failure apart, and those that nobody could wait for."""
    texts = ("", *_UNLIKE, *_LONG)
    told = search([(entry["signature"], text) for entry in entries for text in texts])
    slips = []
    for number in range(len(entries)):
        found = told[number * len(texts) : (number + 1) * len(texts)]
        fits = found[0] or all(found[1 : len(_UNLIKE) + 1])
        if None in found:
            slips.append(f"issue {number + 1}: signature: {_NESTED}")
        elif fits:
            slips.append(f"issue {number + 1}: signature: it fits every reason")
    return slips


_NESTED = (
    f"it takes more than {SECONDS:g} s to search it in a sentence, or no process could be had to "
    "try it in; repeat nothing that repeats itself, as (a+)+ does, and fewer things one after the "
    "other"
)


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
