"""Pictures of any ledger: what was read and nothing else, and never an error."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any
from xml.etree import ElementTree

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.report.lengths import duration
from harness.report.pictures.catalogue import drawn
from harness.report.pictures.reading import Seen
from harness.report.pictures.svg import Picture, fitted, ticks

T = 1767225600.0
SVG = "{http://www.w3.org/2000/svg}"
KINDS = ("BootLedger", "BootSample", "DiskHistory", "JoinTrack", "ModuleTable", "Other")


def seen(kind: str, values: Mapping[str, Any], **more: Any) -> Seen:
    fields: dict[str, Any] = {"pool": "gpu", "subject": "node n1", "at": T, **more}
    return Seen(kind=kind, values=values, **fields)


def disk(name: str, *phases: tuple[str, float, float]) -> Seen:
    spans = [{"phase": p, "since": T + since, "seconds": took} for p, since, took in phases]
    return seen("DiskHistory", {"disk": name, "phases": spans})


def boots(node: str, *looks: tuple[float, str, float | None], **more: Any) -> Seen:
    entries = [
        {"at": T + at, "what": "look", "boot_id": boot, "uptime": up, "text": ""}
        for at, boot, up in looks
    ]
    values = {"node": node, "limit": 4200.0, "soak": 5580.0, "entries": entries}
    return seen("BootLedger", {**values, **more})


def join(name: str, steps: Sequence[tuple[str, float | None]], **more: Any) -> Seen:
    told = [{"what": what, "at": None if at is None else T + at} for what, at in steps]
    values = {"machine": name, "node": name, "stage": "ready", "budget": 1740.0, "steps": told}
    return seen("JoinTrack", {**values, **more})


def modules(*oldest_first: str, users: Mapping[str, Sequence[str]] | None = None) -> Seen:
    rows = [{"name": one, "used_by": list((users or {}).get(one, ()))} for one in oldest_first]
    return seen("ModuleTable", {"modules": rows[::-1], "whole": True})


def tree(picture: Picture) -> ElementTree.Element:
    return ElementTree.fromstring(picture.svg)


def bars(picture: Picture) -> list[ElementTree.Element]:
    return [one for one in tree(picture).iter() if one.get("class") == "bar"]


def widths(picture: Picture) -> list[float]:
    return [float(one.get("width", 0.0)) for one in bars(picture)]


def texts(picture: Picture) -> list[str]:
    return ["".join(one.itertext()) for one in tree(picture).iter(f"{SVG}text")]


def tips(picture: Picture) -> list[str]:
    return ["".join(one.itertext()) for one in tree(picture).iter(f"{SVG}title")]


def only(*facts: Seen) -> Picture:
    (picture,) = drawn(facts)
    return picture


# -- any ledger

JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.text(max_size=12),
    st.integers(-(10**20), 10**20),
    st.floats(),
    st.lists(st.integers(), max_size=2),
    st.just("<script>alert(1)</script> & \x1b[31m"),
)
TIMES = st.one_of(st.floats(T, T + 1e5), st.integers(0, 2 * 10**9), JUNK)
PHASE = st.fixed_dictionaries({}, optional={"phase": JUNK, "since": TIMES, "seconds": TIMES})
ENTRY = st.fixed_dictionaries(
    {},
    optional={
        "at": TIMES,
        "what": st.one_of(st.sampled_from(["boot", "look", "gap", "event"]), JUNK),
        "boot_id": st.one_of(st.sampled_from(["a", "b"]), JUNK),
        "uptime": TIMES,
        "text": JUNK,
    },
)
STEP = st.fixed_dictionaries({}, optional={"what": JUNK, "at": TIMES})
NAMES = st.sampled_from(["nvidia", "nvidia_uvm", "nvidia-drm", "drbd", "lru_cache", "ext4"])
MODULE = st.fixed_dictionaries(
    {}, optional={"name": st.one_of(NAMES, JUNK), "used_by": st.one_of(st.lists(NAMES), JUNK)}
)


def some(of: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.lists(st.one_of(of, JUNK), max_size=8), JUNK)


VALUES = st.fixed_dictionaries(
    {},
    optional={
        "phases": some(PHASE),
        "entries": some(ENTRY),
        "steps": some(STEP),
        "modules": some(MODULE),
        "disk": JUNK,
        "node": JUNK,
        "machine": JUNK,
        "boot_id": JUNK,
        "uptime": TIMES,
        "limit": TIMES,
        "soak": TIMES,
        "stage": st.one_of(st.just("ready"), JUNK),
        "waited": TIMES,
        "budget": TIMES,
        "whole": JUNK,
        "why": JUNK,
    },
)
FACTS = st.lists(
    st.builds(
        Seen,
        kind=st.sampled_from(KINDS),
        pool=st.sampled_from(["gpu", "plain", "", 'p"<&']),
        subject=st.text(max_size=8),
        at=st.one_of(st.none(), st.floats(T, T + 1e6)),
        values=VALUES,
        because=st.sampled_from(["", "expected more than 4200 s and 5580 s of soak"]),
    ),
    max_size=8,
)


def possible(facts: Sequence[Seen]) -> int:
    """Stretches that the facts could hold at most."""
    count = 0
    for one in facts:
        for key in ("phases", "entries", "steps"):
            found = one.values.get(key)
            count += len(found) if isinstance(found, list) else 0
        count += one.kind in ("BootSample", "JoinTrack")
    return count


@settings(max_examples=120, deadline=None)
@given(FACTS)
def test_any_facts_give_whole_pictures_without_an_invented_bar(facts: list[Seen]) -> None:
    found = drawn(facts)
    assert [one.name for one in found] == list(dict.fromkeys(one.name for one in found))
    assert sum(len(bars(one)) for one in found) <= possible(facts)
    for one in found:
        assert "nan" not in one.svg
        assert "inf" not in re.sub(r"[^\"]*info[^\"]*", "", one.svg).replace("infra", "")
        assert "<script" not in one.svg
        assert "\x1b" not in one.svg
        for bar in bars(one):
            assert 224 <= float(bar.get("x", bar.get("x1", ""))) <= 554.01
            assert float(bar.get("width", 0)) >= 0
    assert drawn(facts) == found


def test_nothing_is_drawn_of_nothing() -> None:
    assert drawn(()) == ()
    assert drawn([disk("d"), boots("n"), join("w", []), modules()]) == ()


@pytest.mark.parametrize("number", [1, 3, 60])
def test_every_thing_has_its_row_at_any_size(number: int) -> None:
    facts = [disk(f"disk-{i}", ("Pending", 0, 0.001), ("Import", 0.001, 60)) for i in range(number)]
    facts += [boots(f"node-{i}", (5600, "a", 5600.0)) for i in range(number)]
    facts += [join(f"worker-{i}", [("asked", 0), ("Ready", 173)]) for i in range(number)]
    told = [tip for picture in drawn(facts) for tip in tips(picture)]
    for i in range(number):
        for name in (f"disk-{i}", f"node-{i}", f"worker-{i}"):
            assert name in told
    for picture in drawn(facts):
        height = float(tree(picture).get("viewBox", "").split()[3])
        assert height < 760, "it fits on a page"


# -- each kind


def test_a_phase_of_a_millisecond_is_there_beside_one_of_a_minute() -> None:
    picture = only(disk("d", ("Pending", 0, 0.001), ("Copy", 0.001, 60), ("Succeeded", 60.001, 9)))
    tiny, long = bars(picture)
    assert tiny.tag == f"{SVG}line"
    assert float(long.get("width", "0")) == pytest.approx(330, abs=0.1)
    assert {"1 ms", "60 s", "Succeeded after 60 s"} <= set(texts(picture))
    assert "d: Pending for 1 ms" in tips(picture)


def test_a_disk_that_has_not_ended_is_shown_open() -> None:
    picture = only(disk("d", ("Pending", 0, 1), ("Copy", 1, 60)))
    fills = [one.get("fill", "") for one in bars(picture)]
    assert fills[-1].startswith("url(#")
    assert "in Copy after 61 s" in texts(picture)


def test_a_node_that_stays_is_one_bar_with_its_limits() -> None:
    picture = only(boots("n", (20, "a", 20.0), (5600, "a", 5600.0)))
    assert widths(picture) == [pytest.approx(330, abs=0.1)]
    limits = [one for one in tree(picture).iter() if one.get("class") == "limit"]
    first, second = (float(one.get("x1", "")) for one in limits)
    assert first == pytest.approx(224 + 330 * 4200 / 5600, abs=0.1)
    assert second == pytest.approx(224 + 330 * 5580 / 5600, abs=0.1)


def test_a_young_boot_shows_how_far_it_has_to_go() -> None:
    picture = only(boots("n", (600, "a", 600.0)))
    assert widths(picture) == [pytest.approx(330 * 600 / 5580, abs=0.1)]


def test_boots_that_end_are_counted_and_nothing_is_drawn_between_them() -> None:
    picture = only(boots("n", (60, "a", 60.0), (4200, "a", 4200.0), (4600, "b", 300.0)))
    first, second = bars(picture)
    ended = float(first.get("x", "")) + float(first.get("width", ""))
    assert float(second.get("x", "")) > ended
    assert "2 boots, ended by 72 min" in texts(picture)
    assert first.get("fill") != second.get("fill")


def test_a_boot_whose_beginning_was_not_seen_begins_where_it_was_seen() -> None:
    picture = only(boots("n", (100, "a", None), (700, "a", None)))
    assert "one boot, age not known" in texts(picture)
    assert not [one for one in tree(picture).iter() if one.get("class") == "limit"]


def test_boots_are_read_off_samples_where_there_is_no_ledger() -> None:
    because = "boot a is 93 s old, expected more than 70 s and 90 s of soak"
    sample = seen("BootSample", {"node": "n", "boot_id": "a", "uptime": 93.0}, because=because)
    assert "one boot, 93 s" in texts(only(sample))
    assert "limit: 70 s of uptime" in tips(only(sample))


def test_the_last_ledger_of_a_node_counts_and_its_events_are_marks() -> None:
    early = boots("n", (100, "a", 100.0))
    event = {"at": T + 50, "what": "event", "boot_id": "", "uptime": None, "text": "NodeNotReady"}
    late = boots("n", (900, "a", 900.0))
    entries = [*late.values["entries"], event, {"what": "gap", "at": "never"}]
    late = seen("BootLedger", {**late.values, "entries": entries})
    picture = only(early, late)
    assert "one boot, 15 min" in texts(picture)
    assert any("NodeNotReady" in tip for tip in tips(picture))


def test_what_was_seen_before_the_boot_stands_before_it() -> None:
    made = {"at": T - 60, "what": "vmi", "text": "made"}
    late = boots("n", (900, "a", 900.0))
    picture = only(seen("BootLedger", {**late.values, "entries": [*late.values["entries"], made]}))
    (bar,) = bars(picture)
    assert float(bar.get("x", "")) == pytest.approx(224 + 330 * 60 / 5640, abs=0.1)
    assert "time from what was seen first" in texts(picture)


def test_the_slow_step_of_a_join_stands_out() -> None:
    steps = [("asked", 0), ("Machine made", 3), ("registered", 160), ("Ready", 162)]
    picture = only(join("w", steps))
    fills = [one.get("fill") for one in bars(picture)]
    assert fills[1] not in (fills[0], fills[2])
    assert "longest: registered (2 min 37 s)" in picture.says


def test_a_worker_that_did_not_join_shows_what_it_waits_for() -> None:
    stuck = {"stage": "running", "waited": 1800.0, "stuck_kind": "VMI", "stuck_name": "w",
             "why": "no Node"}  # fmt: skip
    picture = only(join("w", [("asked", 0), ("guest running", 20)], **stuck))
    assert bars(picture)[-1].get("fill", "").startswith("url(#")
    assert "not Ready after 30 min" in texts(picture)
    assert "stuck on VMI w: no Node" in " ".join(texts(picture))


def test_a_step_without_a_time_is_named_and_not_drawn() -> None:
    picture = only(join("w", [("asked", 0), ("VM made", None), ("Ready", 9)]))
    assert len(bars(picture)) == 1
    assert "time not known" in texts(picture)


def test_modules_in_order_are_level() -> None:
    picture = only(modules("ext4", "nvidia", "nvidia_uvm", users={"nvidia": ["nvidia_uvm"]}))
    rungs = [one for one in tree(picture).iter() if one.get("class") == "rung"]
    assert len(rungs) == 2
    assert all(one.get("y1") == one.get("y2") for one in rungs)
    assert "each of 2 modules is newer than what it needs" in picture.says


def test_a_module_that_was_loaded_before_what_it_needs_is_told() -> None:
    picture = only(modules("nvidia_uvm", "nvidia", "drbd"))
    slanting = [
        one
        for one in tree(picture).iter()
        if one.get("class") == "rung" and one.get("y1") != one.get("y2")
    ]
    assert len(slanting) == 2
    assert "nvidia_uvm is older than nvidia, which it needs" in picture.says
    assert "nvidia: came after it" in texts(picture)


def test_modules_that_need_each_other_come_to_an_end() -> None:
    both = {"drbd": ["nvidia"], "nvidia": ["drbd"]}
    assert only(modules("drbd", "nvidia", users=both))


def test_a_secret_in_a_name_is_not_drawn() -> None:
    key = "-----BEGIN RSA PRIVATE KEY-----\nMIIEabc\n-----END RSA PRIVATE KEY-----"
    picture = only(disk(key, ("Copy", 0, 5)))
    assert "MIIEabc" not in picture.svg + picture.says


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"), (0.0004, "<1 ms"), (0.25, "250 ms"), (4.24, "4.2 s"), (3, "3 s"),
        (59.6, "60 s"), (173, "2 min 53 s"), (4206, "70 min"), (8100, "2 h 15 min"),
        (400000, "4.6 days"),
    ],
)  # fmt: skip
def test_durations_in_words(seconds: float, words: str) -> None:
    assert duration(seconds) == words


@given(st.floats(1e-6, 1e11))
def test_an_axis_has_few_ticks_within_it(length: float) -> None:
    found = ticks(length)
    assert 1 <= len(found) <= 8
    assert all(0 <= at <= length * 1.000001 for at, _ in found)
    labels = [label for _, label in found]
    assert len(labels) == len(set(labels))


@given(st.text(max_size=60), st.floats(20, 300))
def test_a_label_fits(text: str, room: float) -> None:
    assert len(fitted(text, room, 6.0)) <= room / 6.0
