"""What a run cannot show by its nature, from a table beside this module."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from pathlib import Path

SIMULATED = "twin"
"""The kind of lab, as an inventory says it, in which nothing is real."""


def limits(kind: str, cards: Sequence[str]) -> list[str]:
    """The sentences that fit a run: ``kind`` is its lab's ("twin", "cluster", "" when it is not
    known), ``cards`` the models that its pools had.
    """
    holds = {
        "always": True,
        "simulated": kind == SIMULATED,
        "unrecorded": not kind,
        "cards": bool(cards),
        "no-cards": not cards,
    }
    named = ", ".join(cards)
    return [says.replace("{cards}", named) for when, says in _table() if holds[when]]


@cache
def _table() -> tuple[tuple[str, str], ...]:
    import tomllib

    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple((entry["when"], entry["says"]) for entry in tomllib.loads(text)["limit"])
