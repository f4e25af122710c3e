"""Verdicts in words: how a judge says what it saw, what it expected, and what it could not read."""

from __future__ import annotations

from collections.abc import Iterable

from harness.facts.fact import Fact, Unread
from harness.judge.verdict import Outcome, Verdict


def unread(claim: str, subject: str, *facts: Fact) -> Verdict:
    """``unknown``, with the reason of every fact that is Unread quoted; one of them must be."""
    reasons = [
        f"{fact.asked} could not be read: {fact.reason}"
        for fact in facts
        if isinstance(fact, Unread)
    ]
    return Verdict(claim, subject, Outcome.UNKNOWN, "; ".join(reasons), facts)


def outcome(holds: bool) -> Outcome:  # noqa: FBT001 - a comparison's result is all it takes
    """``holds`` or ``broken``."""
    return Outcome.HOLDS if holds else Outcome.BROKEN


def named(names: Iterable[str]) -> str:
    """Names as a sentence lists them; "none" for none."""
    return ", ".join(names) or "none"


def counted(number: int, thing: str) -> str:
    """A number with its noun, "2 cards"."""
    return f"{number} {thing}" if number == 1 else f"{number} {thing}s"
