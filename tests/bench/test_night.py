"""The bench's night in small: each planted cause is there, and each is named."""

from __future__ import annotations

from bench.night import SHARES, Night, named
from harness.judge.verdict import Outcome


def test_each_cause_of_a_short_night_is_named() -> None:
    night = Night(25, 4.0, seed=3)
    night.pass_by()
    found = list(night.verdicts())
    assert {node.planted for node, _ in found} == set(SHARES)
    assert [(node.planted, named(verdict, node.predicted)) for node, verdict in found] == [
        (node.planted, node.planted) for node, _ in found
    ]
    quiet = [verdict for node, verdict in found if node.planted == "quiet"]
    assert all(verdict.outcome is Outcome.HOLDS for verdict in quiet)
    assert all("memory was never near zero" in verdict.because for verdict in quiet)
