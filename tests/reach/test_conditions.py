"""Predicates for one object: a status of an earlier spec is never met."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reach import conditions, counts, involved
from harness.reach.conditions import (
    all_of,
    any_of,
    condition,
    condition_of,
    deleted,
    is_current,
    observed,
    phase,
)
from harness.reach.history import Revision
from harness.reach.waiters import Ending

ANY = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=3) | st.just([]) | st.just({})
)
MAYBE = st.fixed_dictionaries({}, optional={"observedGeneration": ANY})
CONDITION = st.builds(
    lambda base, more: {**base, **more},
    st.fixed_dictionaries(
        {"type": st.sampled_from(["Ready", "Other"]), "status": st.sampled_from(["True", "False"])}
    ),
    MAYBE,
)


def revision(obj: dict[str, Any], change: str = "MODIFIED") -> Revision:
    meta = {"name": "a", "namespace": "lab", "resourceVersion": "1", **obj.get("metadata", {})}
    return Revision.of(change, {**obj, "metadata": meta}, 0.0, "event")


def ready(status: str = "True", generation: Any = None, **more: Any) -> dict[str, Any]:
    meta = {} if generation is None else {"generation": generation}
    return {
        "metadata": meta,
        "status": {"conditions": [{"type": "Ready", "status": status, **more}]},
    }


@pytest.mark.parametrize(
    ("obj", "met"),
    [
        (ready(), True),
        (ready("False"), False),
        (ready(generation=2), True),
        (ready(generation=2, observedGeneration=2), True),
        (ready(generation=2, observedGeneration=3), True),
        (ready(generation=2, observedGeneration=1), False),
        (ready(generation=2, observedGeneration="2"), False),
        (ready(generation=2, observedGeneration=True), False),
        ({"status": {"conditions": "none"}}, False),
        ({"status": {"conditions": ["junk", {"type": "Ready"}]}}, False),
        ({"status": "Enabled"}, False),
        ({}, False),
        ({"status": {"conditions": [{"type": "Ready", "status": "True"}] * 2}}, False),
    ],
)
def test_a_condition(obj: dict[str, Any], met: object) -> None:
    assert condition("Ready")(revision(obj)) is met
    assert condition("Ready")(revision(obj, "DELETED")) is False


@settings(deadline=None)
@given(st.none() | st.integers(1, 3), MAYBE, CONDITION)
def test_a_stale_status_meets_nothing(generation: Any, top: Any, one: Any) -> None:
    """Against the rule in one line: every generation that is said is a number, and not behind."""
    meta = {} if generation is None else {"generation": generation}
    obj = revision({"metadata": meta, "status": {**top, "phase": "Up", "conditions": [one]}})
    said = [d["observedGeneration"] for d in (top, one) if d.get("observedGeneration") is not None]
    fresh = generation is None or all(type(n) is int and n >= generation for n in said)
    wanted = fresh and one["type"] == "Ready" and one["status"] == "True"
    assert condition("Ready")(obj) is wanted
    of_the_status = [n for n in [top.get("observedGeneration")] if n is not None]
    assert phase("Up")(obj) is (
        generation is None or all(type(n) is int and n >= generation for n in of_the_status)
    )
    assert is_current(obj.obj, one) is fresh


def test_a_reason_may_be_wanted_too() -> None:
    obj = revision(ready("False", reason="Draining"))
    assert condition("Ready", "False", reason="Draining")(obj)
    assert not condition("Ready", "False", reason="Booting")(obj)


def test_observed_needs_it_to_be_said() -> None:
    said = {"metadata": {"generation": 2}, "status": {"observedGeneration": 2}}
    assert observed()(revision(said))
    assert not observed()(revision(said, "DELETED"))
    assert not observed()(revision({"metadata": {"generation": 3}, "status": said["status"]}))
    assert not observed()(revision({"metadata": {"generation": 2}}))


def test_phases_and_their_combinations() -> None:
    running = revision({"status": {"phase": "Running"}})
    assert phase("Running", "Succeeded")(running)
    assert not phase("Failed")(running)
    assert any_of(phase("Failed"), phase("Running"))(running)
    assert not all_of(phase("Failed"), phase("Running"))(running)
    assert all_of(phase("Running"), lambda r: r.key == ("lab", "a"))(running)
    assert deleted()(revision({}, "DELETED"))
    assert not deleted()(running)


@pytest.mark.parametrize(
    ("make", "given"),
    [
        (condition, [""]),
        (condition, ["Ready", "true"]),
        (condition, ["Ready", "Ready"]),
        (phase, []),
        (phase, [""]),
        (phase, [None]),
        (all_of, []),
        (any_of, []),
    ],
)
def test_a_callers_mistake_is_said_at_once(make: Callable[..., object], given: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"is not a|one of|has to be named|nothing"):
        make(*given)


@settings(deadline=None)
@given(
    st.recursive(ANY, lambda each: st.lists(each) | st.dictionaries(st.text(), each), max_leaves=4)
)
def test_no_status_breaks_a_predicate(status: Any) -> None:
    obj = revision({"metadata": {"generation": 1}, "status": status})
    for predicate in (condition("Ready"), phase("Running"), observed()):
        assert predicate(obj) in (True, False)
    condition_of(obj.obj, "Ready")


def test_the_page_names_what_there_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "waiting.md").read_text(encoding="utf-8")
    for module in (conditions, counts, involved):
        short = module.__name__.rpartition(".")[2]
        for name in re.findall(rf"{short}\.([A-Za-z_]+)", page):
            assert hasattr(module, name), f"{short}.{name}"
    table = re.findall(r"^\| `([a-z_]+)\(", page, re.MULTILINE)
    assert sorted(table) == ["all_of", "condition", "deleted", "observed", "phase"]
    endings = re.findall(r"^\| `([a-z-]+)`(?:, `([a-z-]+)`)? \| ", page, re.MULTILINE)
    assert {each for pair in endings for each in pair if each} == {"kind", *get_args(Ending)}
