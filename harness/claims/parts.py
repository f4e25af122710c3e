"""Which part of the system a claim is of: epic and feature; and what a scenario's story is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

OTHER = "Other"


@dataclass(frozen=True, slots=True)
class Part:
    """A part of the system: the epic it belongs to, and the feature that it is."""

    epic: str
    feature: str


@cache
def _declared() -> Mapping[str, Any]:
    import tomllib
    from pathlib import Path

    return tomllib.loads(Path(__file__).with_name("parts.toml").read_text(encoding="utf-8"))


@cache
def _parts() -> Mapping[str, Part]:
    return {
        claim: Part(epic, feature)
        for epic, features in _declared()["epics"].items()
        for feature, claims in features.items()
        for claim in claims
    }


def part_of(claim: str) -> Part:
    """The part that a claim is of; `OTHER` where none is declared."""
    return _parts().get(claim, Part(OTHER, OTHER))


def story_of(scenario: str, title: str) -> str:
    """What a scenario is about in few words; its own ``title`` where none is declared."""
    return str(_declared()["stories"].get(scenario, title or scenario))


def declared_claims() -> frozenset[str]:
    """Every claim that a part names."""
    return frozenset(_parts())


def declared_scenarios() -> frozenset[str]:
    """Every scenario that has a story."""
    return frozenset(_declared()["stories"])
