"""A history's own rules: what is the same, what was forgotten, whom a gap touches."""

from __future__ import annotations

import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.reach.history import Compacted, Gap, History, Listed, Revision


def pod(name: str, version: int | str, uid: str = "", **status: Any) -> dict[str, Any]:
    meta = {"name": name, "namespace": "lab", "uid": uid or f"uid-{name}"}
    return {"kind": "Pod", "metadata": {**meta, "resourceVersion": str(version)}, "status": status}


def listed(*pods: dict[str, Any], history: History) -> list[Listed]:
    return [history.listed(each) for each in pods]


def told(history: History) -> list[tuple[str, str]]:
    return [(r.key[1], r.version) for r in history.revisions()]


def test_managed_fields_are_not_kept() -> None:
    history = History()
    obj = pod("a", 1)
    obj["metadata"]["managedFields"] = [{"manager": "kubelet"}]
    assert "managedFields" not in history.take("ADDED", obj, 0.0, "event").obj["metadata"]


@pytest.mark.parametrize(
    ("seen", "change", "version", "repeats"),
    [
        ([("ADDED", 5)], "MODIFIED", 5, True),
        ([("ADDED", 5)], "MODIFIED", 4, True),
        ([("ADDED", 5)], "MODIFIED", 6, False),
        ([("ADDED", 5), ("MODIFIED", 7)], "ADDED", 5, True),
        ([("ADDED", 5)], "DELETED", 5, False),
        ([("ADDED", 5)], "DELETED", 4, True),
        ([("ADDED", 5)], "DELETED", 6, False),
        ([("ADDED", 5), ("DELETED", 6)], "DELETED", 6, True),
        ([("ADDED", 5), ("DELETED", 6)], "ADDED", 5, True),
        ([("ADDED", 5), ("DELETED", 6)], "ADDED", 7, False),  # it entered a selection again
        ([("ADDED", "x")], "MODIFIED", "x", True),
        ([("ADDED", "x")], "MODIFIED", "w", False),
        ([("ADDED", "x"), ("MODIFIED", "y")], "MODIFIED", "x", True),
        ([], "DELETED", 5, False),
    ],
)
def test_what_is_said_again(
    seen: list[tuple[str, Any]], change: str, version: Any, repeats: object
) -> None:
    history = History()
    for each, number in seen:
        history.take(each, pod("a", number), 0.0, "event")
    assert history.repeats(change, pod("a", version)) is repeats
    assert not history.repeats(change, pod("a", version, uid="another"))


def test_a_version_that_comes_again_after_a_restore_is_another() -> None:
    history = History()
    history.take("ADDED", pod("a", 5), 0.0, "event")
    history.take("MODIFIED", pod("a", 9), 0.0, "event")
    history.gap(0.0, 1.0, "restored", "9", "5", None)
    history.take("MODIFIED", pod("a", 5), 1.0, "list")
    assert history.repeats("MODIFIED", pod("a", 5))
    assert not history.repeats("MODIFIED", pod("a", 9))


def gapped(*changed: str, before: bool = True) -> History:
    history = History()
    if before:
        history.take("ADDED", pod("a", 1), 0.0, "list")
    history.gap(0.0, 1.0, "410", "1", "9", frozenset(("lab", name) for name in changed))
    for name in changed:
        history.take("MODIFIED", pod(name, 9), 1.0, "list")
    return history


def test_a_gap_touches_what_changed_in_it_or_was_not_there_before() -> None:
    assert gapped("b").gaps(("lab", "a")) == []
    assert len(gapped("a").gaps(("lab", "a"))) == 1
    assert len(gapped("b").gaps(("lab", "b"))) == 1
    assert len(gapped("b", before=False).gaps(("lab", "a"))) == 1, "it may have come and gone"
    assert len(gapped("b").gaps()) == 1


def test_a_gap_after_which_versions_mean_something_else_touches_all() -> None:
    history = History()
    history.take("ADDED", pod("a", 1), 0.0, "list")
    history.gap(0.0, 1.0, "restored", "9", "1", None)
    assert len(history.gaps(("lab", "a"))) == 1


def test_an_object_that_was_deleted_before_a_gap_may_have_come_back_in_it() -> None:
    history = History()
    history.take("ADDED", pod("a", 1), 0.0, "list")
    history.take("DELETED", pod("a", 2), 0.0, "event")
    history.gap(0.0, 1.0, "410", "2", "9", frozenset())
    assert len(history.gaps(("lab", "a"))) == 1


CHANGES = st.lists(st.tuples(st.sampled_from("abcd"), st.sampled_from("+-g")), max_size=80)


@settings(deadline=None)
@given(CHANGES, st.sampled_from([0, 2000, 6000, 1 << 25]))
def test_nothing_is_forgotten_without_a_word(changes: list[tuple[str, str]], limit: int) -> None:
    history = History(limit)
    whole: list[tuple[str, str]] = []
    state: dict[str, str] = {}
    gaps = 0
    for version, (name, what) in enumerate(changes, 1):
        if what == "g":
            history.gap(0.0, 0.0, "a gap", "", "", frozenset())
            gaps += 1
            continue
        if what == "-" and name not in state:
            continue
        change = "DELETED" if what == "-" else ("MODIFIED" if name in state else "ADDED")
        history.take(change, pod(name, version, n=version), float(version), "event")
        whole.append((name, str(version)))
        state.pop(name, None) if what == "-" else state.update({name: str(version)})
    found = told(history)
    assert found == [each for each in whole if each in found], "in order, and only what was"
    missing = [each for each in whole if each not in found]
    forgotten = history.compacted
    assert (forgotten.revisions if forgotten else 0) == len(missing)
    for name, _ in missing:
        assert history.forgotten(("lab", name)) is forgotten
    for name in "abcd":
        if name not in dict(missing):
            assert history.forgotten(("lab", name)) is None
        assert [(name, v) for n, v in found if n == name] == [
            (name, r.version) for r in history.revisions(name, "lab")
        ]
    assert {r.key[1]: r.version for r in history.standing()} == state
    assert len(history.gaps()) == gaps == sum(isinstance(e, Gap) for e in history.entries)
    assert [e for e in history.entries if isinstance(e, Compacted)] == ([forgotten] * bool(missing))
    assert all(history.current["lab", name]["status"]["n"] == int(state[name]) for name in state)


def test_a_history_stays_in_its_bounds_however_long_it_goes_on() -> None:
    history = History(50_000)
    for version in range(3000):
        history.take("MODIFIED", pod(f"pod-{version % 7}", version), float(version), "event")
        assert history.bytes <= 50_000 + 12_500 + 1000
    assert len(list(history.revisions())) > 20
    assert history.compacted is not None
    assert "2" in str(history.compacted)
    assert list(history.revisions())[-1].version == "2999"


def test_who_reads_while_it_is_forgotten_reads_on() -> None:
    history = History(5_000)
    for version in range(9):
        history.take("MODIFIED", pod("a", version), 0.0, "event")
    reading = history.revisions()
    first = next(reading)
    for version in range(9, 200):
        history.take("MODIFIED", pod("a", version), 0.0, "event")
    rest = [first, *reading]
    assert [r.version for r in rest] == [str(n) for n in range(9)]
    assert all(r.obj["metadata"]["name"] == "a" for r in rest)


def test_a_revision_that_stands_alone_can_be_read() -> None:
    one = Revision.of("ADDED", pod("a", 7, phase="Running"), 3.0, "list")
    assert (one.key, one.uid, one.version) == (("lab", "a"), "uid-a", "7")
    assert one.obj["status"] == {"phase": "Running"}


def test_a_list_says_what_is_gone_first_and_a_replacement_is_both() -> None:
    history = History()
    for name in "abc":
        history.take("ADDED", pod(name, 1), 0.0, "list")
    new = [pod("a", 1), pod("b", 9, uid="another"), pod("d", 8)]
    changes = history.difference(listed(*new, history=history))
    assert [(change, item.key[1], item.uid, item.version) for change, item in changes] == [
        ("DELETED", "b", "uid-b", "1"),
        ("DELETED", "c", "uid-c", "1"),
        ("ADDED", "b", "another", "9"),
        ("ADDED", "d", "uid-d", "8"),
    ]


def test_a_list_is_older_than_what_came_while_it_was_on_its_way() -> None:
    """Kept back is only what the stream did not tell, be it before the question or after."""
    history = History()
    for name in "abc":
        history.take("ADDED", pod(name, 1), 0.0, "list")
    asked = history.place
    answer = listed(pod("a", 5), pod("b", 2), pod("c", 1), pod("d", 4), history=history)
    assert [i.key[1] for _, i in history.kept_back(answer, asked)] == ["a", "b", "d"]
    history.take("MODIFIED", pod("a", 6), 0.0, "event")  # newer than the answer
    history.take("MODIFIED", pod("b", 2), 0.0, "event")
    history.take("DELETED", pod("b", 3), 0.0, "event")  # told, and gone since
    history.take("ADDED", pod("e", 7), 0.0, "event")  # not in the answer yet
    assert [i.key[1] for _, i in history.kept_back(answer, asked)] == ["d"]
    assert [i.key[1] for _, i in history.kept_back([], asked)] == ["c"]


def test_a_compaction_never_takes_the_state_with_it() -> None:
    history = History(2_000)
    history.take("ADDED", pod("quiet", 1), 0.0, "list")
    for version in range(2, 50):
        history.take("MODIFIED", pod("busy", version), 0.0, "event")
    assert [r.version for r in history.revisions("quiet", "lab")] == ["1"]
    assert ("quiet", "1") in told(history)


def test_a_long_history_of_one_object_makes_its_next_event_no_dearer() -> None:
    """Searched through for each event, 20,000 of them took more than a minute."""
    history = History()
    began = time.monotonic()
    for version in range(1, 20_001):
        assert not history.repeats("MODIFIED", pod("a", version))
        history.take("MODIFIED", pod("a", version), 0.0, "event")
    assert time.monotonic() - began < 15
    assert history.repeats("MODIFIED", pod("a", 7))


def test_of_each_object_the_oldest_are_forgotten() -> None:
    history = History(limit=60_000)
    for version in range(1, 301):
        history.take("MODIFIED", pod("ab"[version % 3 == 0], version), 0.0, "event")
    assert history.compacted is not None
    for name in "ab":
        kept = [int(one.version) for one in history.revisions(name, "lab")]
        whole = [one for one in range(1, 301) if (one % 3 == 0) == (name == "b")]
        assert kept == whole[-len(kept) :]
