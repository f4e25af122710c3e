"""Differences between substrates that are known and right, from a table: each with its reason."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

from harness.report.substrate import Substrate


@dataclass(frozen=True, slots=True)
class Expected:
    """One entry. ``facts``, ``claims`` and ``where`` are glob patterns: of kinds of fact, of ids of
    claims, of what was asked or the value's name.
    ``what`` are kinds of difference: outcome, kinds, source, values, style, text.
    """

    between: frozenset[Substrate]
    what: tuple[str, ...]
    reason: str
    facts: tuple[str, ...] = ("*",)
    claims: tuple[str, ...] = ("*",)
    where: tuple[str, ...] = ("*",)

    def __str__(self) -> str:
        """As a sentence names it."""
        of = self.facts if self.facts != ("*",) else self.claims
        return f"{', '.join(self.what)} of {', '.join(of)}"

    def names(self, fact: str, claims: Sequence[str]) -> bool:
        """Whether it is about such a fact, or about an outcome ("") of one of the claims."""
        asked = any(fnmatchcase(claim, one) for claim in claims for one in self.claims)
        return asked and any(fnmatchcase(fact, one) for one in self.facts)

    def matches(self, what: str, fact: str, claims: Sequence[str], where: str = "") -> bool:
        """Whether such a difference is the one that was expected."""
        return what in self.what and self.lies_at(where) and self.names(fact, claims)

    def lies_at(self, where: str) -> bool:
        """Whether it is about what was asked there, or about that value."""
        return any(fnmatchcase(where, one) for one in self.where)


@cache
def load() -> tuple[Expected, ...]:
    """The table, ``expected.toml`` beside this file."""
    import tomllib

    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return tuple(_entry(one) for one in tomllib.loads(text)["expected"])


def _entry(told: dict[str, Any]) -> Expected:
    return Expected(
        frozenset(Substrate(name) for name in told["between"]),
        tuple(told["what"]),
        told["reason"],
        tuple(told.get("facts", ["*"])),
        tuple(told.get("claims", ["*"])),
        tuple(told.get("where", ["*"])),
    )
