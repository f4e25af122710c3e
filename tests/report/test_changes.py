"""What differs between two runs."""

from __future__ import annotations

from typing import Any

from harness.report.changes import compare
from tests.report.releases import ADDONS, A, B, C, platform, run


def test_two_runs_that_say_the_same_do_not_differ() -> None:
    found = compare(run("r1", {A: "holds", B: "unknown"}), run("r2", {A: "holds", B: "unknown"}))
    assert not found.any and found.compared == 2


def test_claims_that_came_out_otherwise_stand_worst_first() -> None:
    before = run("r1", {A: "broken", B: "holds", C: "holds"})
    after = run("r2", {A: "holds", B: "broken", "node-joins": "holds"})
    told = [(one.claim, one.before, one.after, one.worse) for one in compare(before, after).claims]
    assert told == [
        (B, "holds", "broken", True),
        (A, "broken", "holds", False),
        (C, "holds", "", False),
        ("node-joins", "", "holds", False),
    ]


def behind(values: dict[str, Any], outcome: str = "holds", kind: str = "Seen") -> Any:
    """A run whose one claim rests on one fact."""
    made = run(f"r-{outcome}", {A: outcome}, facts=(ADDONS,))
    for record in made.view.of("fact"):
        if record.text("id") == "f1":
            record.data["values"].update(values)  # type: ignore[attr-defined]
            record.data["kind"] = kind  # type: ignore[index]
    return made


def test_values_behind_a_change_are_told() -> None:
    before = behind({"flavour": "open", "cards": [{"state": "N/A"}], "at": 1.0, "same": 1})
    after = behind(
        {"flavour": "proprietary", "cards": [{"state": "In Progress"}], "at": 2.0, "same": 1},
        "broken",
    )
    (change,) = compare(before, after).claims
    assert [(one.path, one.before, one.after) for one in change.values] == [
        ("flavour", "open", "proprietary"),
        ("cards[0].state", "N/A", "In Progress"),
    ]


def test_what_each_run_has_anew_explains_nothing() -> None:
    before = behind({"uid": "11111111-2222-3333-4444-555555555555", "node": "lab-gpu-wcb9k-xwjsl"})
    after = behind(
        {"uid": "66666666-2222-3333-4444-555555555555", "node": "lab-gpu-7tzqk-bcdfg"}, "broken"
    )
    (change,) = compare(before, after).claims
    assert change.values == ()


def test_a_fact_of_another_kind_is_told() -> None:
    (change,) = compare(behind({}), behind({}, "unknown", kind="Unread")).claims
    assert [(one.kind, one.before, one.after) for one in change.values] == [
        ("Seen", "read", "not read"),
        ("Unread", "not read", "read"),
    ]


def test_versions_that_differ_are_told_and_names_of_runs_are_none() -> None:
    def driver(release: str) -> dict[str, str]:
        return {"kind": "DriverVersion", "release": release, "flavour": "open"}

    before = run("r1", {A: "holds"}, facts=(driver("1"),), versions={"hil": "0.1"})
    after = run("r2", {A: "holds"}, facts=(driver("2"),), versions={"hil": "0.2"}, lane="nightly")
    found = compare(before, after)
    assert [(one.title, one.before, one.after) for one in found.versions] == [
        ("NVIDIA driver", ("1 (open modules)",), ("2 (open modules)",)),
        ("Harness", ("hil 0.1",), ("hil 0.2",)),
        ("Lane", ("hardware",), ("nightly",)),
    ]
    assert found.any


def test_times_are_compared_with_the_spread_of_earlier_runs() -> None:
    def took(name: str, seconds: float) -> Any:
        return run(name, {A: "holds"}, facts=({"kind": "JoinTrack", "seconds": seconds},))

    earlier = [took(f"e{n}", 100.0 + n) for n in range(5)]
    before, after = took("r1", 100.0), took("r2", 130.0)
    assert not compare(before, after).timings
    (time,) = compare(before, after, earlier).timings
    assert (time.name, time.before, time.after) == ("join of a worker on gpu", 100.0, 130.0)


def test_what_was_installed_is_compared_apart_from_what_was_said() -> None:
    before, after, blind = (
        run(name, {A: "holds"}, facts=(ADDONS, told))
        for name, told in (
            ("r1", platform("v1.6.0")),
            ("r2", platform("v1.7.0")),
            ("r3", platform("", "403 Forbidden")),
        )
    )
    for other, value in ((after, "Cozystack v1.7.0"), (blind, "unknown: 403 Forbidden")):
        (found,) = compare(before, other).versions
        assert (found.title, found.before, found.after) == (
            "Platform installed",
            ("Cozystack v1.6.0",),
            (value,),
        )
