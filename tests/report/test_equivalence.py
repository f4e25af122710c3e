from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.facts.fact import Fact
from harness.report.equivalence import Difference, Equivalence, compare, latest, sides
from harness.report.expected import Expected
from harness.report.substrate import Substrate
from tests.report.runs import CLUSTER, MINI, PROC, TABLE, TWIN, Run, seen

PAIR = frozenset({Substrate.SIMULATED, Substrate.MINI_LAB})


def apart(
    out: Path, left: list[Fact], right: list[Fact], kinds: tuple[str, str] = (TWIN, MINI)
) -> list[Difference]:
    """What differs where one claim holds on both, resting on these facts."""
    folders = [
        Run(out, kind, run_id=f"{place}-{kind}").says("modules-live", facts=facts).end()
        for place, (kind, facts) in enumerate(zip(kinds, (left, right), strict=True))
    ]
    return list(compare(sides(folders), ()).differences)


def both(out: Path, table: tuple[Expected, ...] = ()) -> Equivalence:
    twin = Run(out, TWIN).says("a").says("b", "holds").lacks("c", "no card")
    mini = Run(out, MINI).says("a").says("b", "broken", because="r0 stands alone").says("d")
    return compare(sides([mini.end(), twin.end()]), table)


def test_the_least_real_stands_first(tmp_path: Path) -> None:
    folders = [Run(tmp_path, kind).says("a").end() for kind in (CLUSTER, MINI, TWIN)]
    assert [side.name for side in sides(folders)] == ["simulated", "mini-lab", "cluster"]


def test_two_of_one_substrate_are_told_apart(tmp_path: Path) -> None:
    folders = [Run(tmp_path, TWIN, run_id=name).says("a").end() for name in ("one", "two")]
    assert [side.name for side in sides(folders)] == ["simulated one", "simulated two"]


def test_claims_that_both_were_asked_are_compared_and_the_others_say_why_not(
    tmp_path: Path,
) -> None:
    found = both(tmp_path)
    assert {one.claim: one.agrees for one in found.compared} == {"a": True, "b": False}
    alone = {one.claim: (one.asked, dict(one.whys)) for one in found.alone}
    assert alone == {
        "c": ((), {"simulated": "no card", "mini-lab": "this run did not ask it"}),
        "d": (("mini-lab",), {"simulated": "this run did not ask it"}),
    }


def test_an_outcome_that_differs_has_both_sentences(tmp_path: Path) -> None:
    (one,) = both(tmp_path).differences
    assert (one.what, one.between, one.claims) == ("outcome", ("simulated", "mini-lab"), ("b",))
    assert one.left == "holds: b was seen to be holds"
    assert one.right == "broken: r0 stands alone"


@pytest.mark.parametrize(
    ("left", "right", "differ"),
    [
        ("holds", "holds", False),
        ("unknown", "unknown", False),
        ("holds", "unknown", True),
        ("unknown", "broken", True),
    ],
)
def test_unknown_is_an_outcome_like_any_other(
    tmp_path: Path, left: str, right: str, *, differ: bool
) -> None:
    folders = [Run(tmp_path, k).says("a", o).end() for k, o in ((TWIN, left), (MINI, right))]
    assert bool(compare(sides(folders), ()).differences) is differ


def test_the_worst_pool_speaks_for_a_run(tmp_path: Path) -> None:
    twin = Run(tmp_path, TWIN).says("a").says("a", "broken", pool="q", because="one is broken")
    (one,) = compare(sides([twin.end(), Run(tmp_path, MINI).says("a").end()]), ()).differences
    assert one.left == "broken: one is broken"
    assert "pool q" in one.where


def test_what_was_planned_and_not_run_is_no_agreement(tmp_path: Path) -> None:
    folders = [Run(tmp_path, TWIN).says("a").end(), Run(tmp_path, MINI).plans("a").end()]
    (one,) = compare(sides(folders), ()).differences
    assert (one.what, one.right) == ("outcome", "not-run: ended without a verdict")


def test_run_on_neither_is_not_compared(tmp_path: Path) -> None:
    folders = [Run(tmp_path, kind).plans("a").says("b").end() for kind in (TWIN, MINI)]
    found = compare(sides(folders), ())
    assert [one.claim for one in found.compared] == ["b"]
    assert [one.claim for one in found.alone] == ["a"]


def test_facts_of_one_shape_are_no_difference_whatever_they_say(tmp_path: Path) -> None:
    other = "drbd 1 2 nvidia,x, Live 0x0 (POE)\n"
    left, right = (
        seen(whole=True),
        seen(raw=other, source="guest hil-x7:/proc/modules", whole=False),
    )
    assert apart(tmp_path, [left], [right]) == []


def test_a_kind_of_fact_that_one_side_lacks(tmp_path: Path) -> None:
    (one,) = apart(tmp_path, [seen(), seen("Nodes", "tenant lab Node a-1")], [seen()])
    assert (one.what, one.fact, one.left, one.right) == (
        "kinds",
        "Nodes",
        "tenant lab Node a-1",
        "nothing of the kind",
    )


def test_what_could_not_be_read_says_why(tmp_path: Path) -> None:
    unread = seen("Unread", PROC, "", asked="/proc/modules", reason="it was cut")
    found = apart(tmp_path, [seen()], [seen(), unread])
    assert [(one.fact, one.right) for one in found] == [("Unread", f"{PROC}: it was cut")]


def test_kinds_are_not_compared_where_the_outcome_differs(tmp_path: Path) -> None:
    twin = Run(tmp_path, TWIN).says("a", facts=[seen(), seen("Nodes")])
    mini = Run(tmp_path, MINI).says("a", "unknown", facts=())
    found = compare(sides([twin.end(), mini.end()]), ()).differences
    assert [one.what for one in found] == ["outcome"]


@pytest.mark.parametrize(
    ("left", "right", "where"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, ["b"]),
        ({"a": 1}, {"a": "one"}, ["a"]),
        ({"a": None}, {"a": "one"}, []),
        ({"a": True}, {"a": 1}, ["a"]),
        ({"a": [1]}, {"a": []}, []),
    ],
)
def test_values_by_name_and_type(
    tmp_path: Path, left: dict[str, object], right: dict[str, object], where: list[str]
) -> None:
    found = apart(tmp_path, [seen(**left)], [seen(**right)])
    assert [(one.what, one.where) for one in found] == [("values", name) for name in where]


def test_sources_apart(tmp_path: Path) -> None:
    found = apart(tmp_path, [seen(source="guest a:lsmod")], [seen(source="guest b:/proc/modules")])
    assert [(one.what, one.left, one.right) for one in found] == [
        ("source", "guest <name>:lsmod", "guest <name>:/proc/modules")
    ]


def test_one_question_through_two_doors_is_compared(tmp_path: Path) -> None:
    left = seen(source="tenant lab Pod ns/a-1:nvidia-smi -L", raw="GPU 0: NVIDIA L40S (UUID: x)\n")
    right = seen(source="guest n1 container c:nvidia-smi -L", raw="GPU 0 = Stub\n")
    found = apart(tmp_path, [left], [right])
    assert [one.what for one in found] == ["source", "text"] + ["text"] * (len(found) - 2)


def test_what_the_twin_writes_and_no_real_program_does(tmp_path: Path) -> None:
    invented = seen(raw=f"{TABLE}nvidia_uvm: loaded\n")
    (one,) = apart(tmp_path, [invented], [seen()])
    assert (one.what, one.left, one.right) == ("text", "nvidia_uvm: loaded", "nothing of the kind")


def test_what_a_real_program_always_writes_the_twin_has_to_write(tmp_path: Path) -> None:
    whole = seen(raw=f"Module  Size  Used by\n{TABLE}")
    (one,) = apart(tmp_path, [seen()], [whole, seen(raw=f"Module  Size  Used by\n{TABLE}\n")])
    assert one.what == "text" and one.right == "Module  Size  Used by"


def test_what_a_real_program_writes_now_and_then_is_told_and_no_difference(tmp_path: Path) -> None:
    twin = Run(tmp_path, TWIN).says("a").end()
    now_and_then = [seen(), seen(raw=f"{TABLE}nvidia: unloading!\n")]
    found = compare(sides([twin, Run(tmp_path, MINI).says("a", facts=now_and_then).end()]), ())
    assert found.differences == ()
    (more,) = found.more
    assert (more.side, more.other, more.extra.forms) == (
        "mini-lab",
        "simulated",
        ("nvidia: unloading!",),
    )


def test_two_real_ones_may_each_write_more_now_and_then(tmp_path: Path) -> None:
    odd = [seen(), seen(raw=f"{TABLE}a: b!\n")]
    assert apart(tmp_path / "1", odd, [seen()], (MINI, CLUSTER)) == []
    assert [d.what for d in apart(tmp_path / "2", odd, [seen()], (TWIN, CLUSTER))] == ["text"]


def test_text_against_json_is_another_style(tmp_path: Path) -> None:
    left = seen(raw=json.dumps([{"name": "r0", "role": "Primary"}]))
    found = apart(tmp_path, [left], [seen(raw="r0 role:Primary\n  disk:UpToDate\n")])
    assert [one.what for one in found] == ["style"]
    assert "JSON: [].name" in found[0].left and "r0 role:Primary" in found[0].right


def test_json_by_its_keys(tmp_path: Path) -> None:
    left, right = seen(raw='{"a": {"b": 1, "x": 1}}'), seen(raw='{"a": {"b": 2, "c": "y"}}')
    found = apart(tmp_path, [left], [right])
    assert [(one.what, one.left, one.right) for one in found] == [
        ("text", "a.x = 1", "a.b = 2"),
        ("text", "a.x = 1", 'a.c = "y"'),
    ]


@pytest.mark.parametrize("whole", ['{"b": [1, ', '{"b": 1}'])
def test_a_text_that_was_cut_is_not_compared(tmp_path: Path, whole: str) -> None:
    assert apart(tmp_path / "1", [seen(raw='{"a": [1, ')], [seen(raw=whole)]) == []
    long = seen(raw=f"Module Size Used by a program\n{TABLE * 2000}")
    assert apart(tmp_path / "2", [long], [seen()]) == []
    held = seen("Injected", "guest n1", "", smi=long)
    other = seen("Injected", "guest n1", "", smi=seen())
    assert apart(tmp_path / "3", [held], [other]) == []


def test_what_both_could_not_read_has_no_form(tmp_path: Path) -> None:
    unread = [seen("Unread", PROC, raw, asked="a", reason="r") for raw in ("a: b!", TABLE)]
    assert apart(tmp_path, unread[:1], unread[1:]) == []


def test_kernel_logs_are_alike_whatever_the_kernel_says(tmp_path: Path) -> None:
    left = seen("KernelLog", "guest a:dmesg", "[    0.000043] Command line: a=b c=d e.f\n")
    right = seen("KernelLog", "guest b:dmesg", "[91912.5] drbd r0: sock was shut down (x)\n")
    assert apart(tmp_path / "1", [left], [right]) == []
    bare = seen("KernelLog", "guest b:dmesg", "drbd r0: sock was shut down (x)\n")
    assert {one.what for one in apart(tmp_path / "2", [left], [bare])} == {"text"}


def test_a_fact_within_a_fact_is_compared_too(tmp_path: Path) -> None:
    def pod(raw: str) -> Fact:
        return seen("Injected", "guest n1", "", smi=seen("Smi", "guest n1:nvidia-smi -L", raw))

    (one,) = apart(tmp_path, [pod("GPU 0: a (UUID: b)\n")], [pod("no devices\nwere found\n")])[:1]
    assert (one.fact, one.what) == ("Injected.smi", "text")
    assert one.claims == ("modules-live",)


def test_a_transcript_is_compared_command_by_command(tmp_path: Path) -> None:
    def trial(said: str) -> Fact:
        raw = f"n1# drbdadm role r0\n{said}\n[exit 0]\n\nn2# cat /proc/drbd\nversion: 8\n[exit 0]\n"
        return seen("Failover", "guest n1: failover", raw)

    assert apart(tmp_path / "1", [trial("Primary")], [trial("Secondary")]) == []
    (one, *_) = apart(tmp_path / "2", [trial("Primary")], [trial("Primary/Secondary")])
    assert (one.fact, one.where) == ("Failover.transcript", "drbdadm role <name>")


ENTRY = Expected(PAIR, ("outcome",), "8.4 cannot show it.", claims=("b",))


def test_an_expected_difference_bears_its_reason(tmp_path: Path) -> None:
    found = both(tmp_path, (ENTRY,))
    assert [one.reason for one in found.differences] == ["8.4 cannot show it."]
    assert found.disagreements == () and found.stale == ()


@pytest.mark.parametrize(
    ("entry", "stale"),
    [
        (Expected(PAIR, ("outcome",), "r", claims=("a",)), True),
        (Expected(PAIR, ("outcome",), "r", claims=("c",)), False),
        (Expected(PAIR, ("source",), "r", facts=("Tab*",)), True),
        (Expected(PAIR, ("source",), "r", facts=("Drbd*",)), False),
        (Expected(PAIR, ("text",), "r", where=("/proc/mod*",)), True),
        (Expected(PAIR, ("text",), "r", where=("dd *",)), False),
        (Expected(frozenset(Substrate), ("source",), "r"), False),
    ],
    ids=[
        *("agrees", "not asked", "same source", "no such fact", "same form", "not there"),
        "other substrates",
    ],
)
def test_what_is_expected_and_does_not_occur(
    tmp_path: Path, entry: Expected, *, stale: bool
) -> None:
    found = both(tmp_path, (entry,))
    assert (entry in found.stale) is stale
    assert len(found.disagreements) == 1


def test_an_entry_is_for_its_own_substrates(tmp_path: Path) -> None:
    other = Expected(frozenset({Substrate.SIMULATED, Substrate.CLUSTER}), ("outcome",), "r")
    assert both(tmp_path, (other,)).disagreements


def test_three_sides_are_compared_two_by_two(tmp_path: Path) -> None:
    outcomes = {TWIN: "holds", MINI: "holds", CLUSTER: "broken"}
    folders = [Run(tmp_path, kind).says("a", one).end() for kind, one in outcomes.items()]
    found = compare(sides(folders), ())
    assert [one.between for one in found.differences] == [
        ("simulated", "cluster"),
        ("mini-lab", "cluster"),
    ]


def test_the_latest_of_each_substrate_without_a_fault(tmp_path: Path) -> None:
    Run(tmp_path, TWIN, run_id="old", ended=5.0).end()
    Run(tmp_path, TWIN, run_id="new", ended=6.0).end()
    Run(tmp_path, TWIN, run_id="faulty", ended=7.0, fault="no-modules-block").end()
    Run(tmp_path, MINI, run_id="killed", ended=None).end()
    Run(tmp_path, "", run_id="unknown", ended=9.0).end()
    Run(tmp_path, MINI, run_id="mini", ended=3.0).end()
    (tmp_path / "latest").symlink_to("new")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    assert latest(tmp_path) == {
        Substrate.SIMULATED: tmp_path / "new",
        Substrate.MINI_LAB: tmp_path / "mini",
    }
