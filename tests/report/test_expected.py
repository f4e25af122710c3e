from __future__ import annotations

import pytest

from harness.report.expected import Expected, load
from harness.report.substrate import Substrate

WHAT = {"outcome", "kinds", "source", "values", "style", "text"}


@pytest.mark.parametrize("entry", load(), ids=str)
def test_an_entry_of_the_table(entry: Expected) -> None:
    assert len(entry.between) == 2 and entry.between <= set(Substrate)
    assert entry.what and set(entry.what) <= WHAT
    assert entry.reason.endswith(".") and entry.facts and entry.claims
    # whatever is expected everywhere would hide everything
    assert (entry.facts, entry.claims) != (("*",), ("*",))


def test_globs_are_of_facts_and_of_claims() -> None:
    entry = Expected(frozenset(), ("text",), "r", facts=("Drbd*", "Pod"), claims=("drbd-*",))
    assert entry.matches("text", "DrbdStatus", ["drbd-split", "other"])
    assert entry.matches("text", "Pod", ["drbd-split"])
    assert not entry.matches("text", "PodX", ["drbd-split"])
    assert not entry.matches("text", "DrbdStatus", ["other"])
    assert not entry.matches("style", "DrbdStatus", ["drbd-split"])
    narrow = Expected(frozenset(), ("text",), "r", where=("dd *",))
    assert narrow.matches("text", "A", ["a"], "dd <name>")
    assert not narrow.matches("text", "A", ["a"], "dmesg")
    assert str(entry) == "text of Drbd*, Pod"
