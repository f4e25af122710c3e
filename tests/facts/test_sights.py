from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.sights import Missed, Seen, Sight
from tests.facts.disk_objects import meta

WATCH = Seen("Pod in cozy-public", 100.0)


def obj(name: str, uid: str = "", namespace: str = "a") -> dict[str, object]:
    return {"metadata": meta(name, uid, namespace)}


def test_what_was_watched_whole_leaves_no_doubt() -> None:
    assert WATCH.doubt(100.0, 200.0) == ""
    assert replace(WATCH, missed=(Missed(50.0, 99.0, "cut"),)).doubt(100.0, 200.0) == ""
    assert replace(WATCH, missed=(Missed(201.0, 210.0, "cut"),)).doubt(100.0, 200.0) == ""


@pytest.mark.parametrize(
    ("watch", "why"),
    [
        (replace(WATCH, since=None, blind="403 Forbidden"), "was not watched: 403 Forbidden"),
        (replace(WATCH, since=None), "was not watched: no reason told"),
        (replace(WATCH, since=101.5), "watched from 1.5 s too late"),
        (replace(WATCH, missed=(Missed(150.0, 151.0, "410"),)), "a gap of 1.0 s: 410"),
        (replace(WATCH, missed=(Missed(50.0, 100.0, "410"),)), "a gap of 50.0 s"),
        (replace(WATCH, missed=(Missed(200.0, 300.0, "410"),)), "a gap of 100.0 s"),
        (replace(WATCH, missed=(Missed(0.0, 999.0, "410"),)), "a gap"),
        (replace(WATCH, blind="refused"), "could not be seen at the end: refused"),
    ],
)
def test_what_was_not_is_told(watch: Seen, why: str) -> None:
    assert why in watch.doubt(100.0, 200.0)
    assert watch.what in watch.doubt(100.0, 200.0)


@given(
    st.floats(0, 300), st.floats(0, 50), st.floats(100, 200), st.floats(0, 50)
)  # a gap is a doubt exactly where the two stretches share a moment
def test_a_gap_counts_where_it_reaches(
    since: float, lasted: float, began: float, took: float
) -> None:
    watch = replace(WATCH, missed=(Missed(since, since + lasted, "cut"),))
    apart = since > began + took or since + lasted < began
    assert (watch.doubt(began, began + took) == "") == apart


def test_versions_by_uid_and_by_name() -> None:
    first, other = obj("x", "1"), obj("x", "2")
    watch = replace(
        WATCH,
        sights=(
            Sight(1.0, "ADDED", first),
            Sight(2.0, "DELETED", first),
            Sight(3.0, "ADDED", other),
            Sight(4.0, "ADDED", obj("y", "3", "b")),
        ),
    )
    assert watch.uids() == ["1", "2", "3"]
    assert [one.at for one in watch.of("1")] == [1.0, 2.0]
    assert watch.last("x") == other
    assert watch.last("y", "a") == {}
    assert watch.last("y", "b") == obj("y", "3", "b")
    assert watch.ever("x") == [first, first, other]
    assert list(watch.standing()) == [other, obj("y", "3", "b")]


def test_what_was_deleted_is_not_there() -> None:
    gone = obj("x", "1")
    watch = replace(WATCH, sights=(Sight(1.0, "ADDED", gone), Sight(2.0, "DELETED", gone)))
    assert watch.last("x") == {}
    assert list(watch.standing()) == []
