"""Every claim and scenario has its place among the parts of the system."""

from __future__ import annotations

import ast
from pathlib import Path

from harness.claims.catalogue import load
from harness.claims.parts import (
    OTHER,
    declared_claims,
    declared_scenarios,
    part_of,
    story_of,
)

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"


def written() -> set[str]:
    trees = [ast.parse(path.read_text()) for path in SCENARIOS.glob("test_*.py")]
    return {
        node.name
        for tree in trees
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    }


def test_every_claim_is_of_a_part_and_no_part_names_one_that_is_not() -> None:
    assert declared_claims() == set(load())


def test_every_scenario_has_a_story_and_no_story_is_of_one_that_is_not() -> None:
    assert declared_scenarios() == written()


def test_what_is_not_declared_stands_under_other() -> None:
    assert part_of("no-such-claim").epic == OTHER
    assert part_of("uptime").epic == "A worker stays up"
    assert story_of("test_of_a_site", "Its title.") == "Its title."
