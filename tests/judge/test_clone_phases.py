from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness import claims
from harness.facts.clones import DiskRefused, Said, Told
from harness.judge.clone_phases import (
    CLONES,
    COPY_WITHOUT_POPULATOR,
    HTTP_POPULATOR,
    HTTP_WAITING,
    Path,
    disk_phases,
)
from harness.judge.clone_phases import HTTP as HTTP_PATH
from harness.judge.verdict import Verdict
from tests.judge.disk_facts import (
    AT,
    AT_ONCE,
    CLAIM,
    CSI,
    DOWNLOAD,
    HTTP,
    LATER,
    SOURCE,
    UNREAD,
    went,
)

ERROR = Said(9.0, "Running", "False", "Error", "Unable to connect to http data source")
WORKS = Said(9.0, "Running", "True", "Populator is running", "")
COPIED = replace(CLAIM, clone_type="copy")
SNAPPED = replace(CLAIM, clone_type="snapshot")
NO_POPULATOR = replace(SOURCE, use_populator="false")
POPULATED = replace(DOWNLOAD, use_populator="true")

PATHS: list[tuple[Path, dict[str, Any]]] = [
    (HTTP_PATH, {"source": DOWNLOAD, "claim": UNREAD}),
    (HTTP_WAITING, {"source": DOWNLOAD, "storage_class": LATER}),
    (HTTP_POPULATOR, {"source": POPULATED, "storage_class": UNREAD}),
    (HTTP_POPULATOR, {"source": replace(DOWNLOAD, use_populator=None)}),
    (CLONES["csi-clone"], {"storage_class": UNREAD}),
    (CLONES["snapshot"], {"claim": SNAPPED}),
    (CLONES["copy"], {"claim": COPIED}),
    (COPY_WITHOUT_POPULATOR, {"claim": COPIED, "source": NO_POPULATOR}),
]


def judged(*phases: str, change: dict[str, Any] | None = None, **history: Any) -> Verdict:
    given = {"source": SOURCE, "claim": CLAIM, "storage_class": AT_ONCE, **(change or {})}
    verdict = disk_phases(
        given["source"],
        given.get("history", went(*phases, **history)),
        given["claim"],
        given["storage_class"],
        "disk d1",
    )
    assert (verdict.claim, verdict.subject) == ("disk-phases", "disk d1")
    assert verdict.claim in claims.load()
    return verdict


def test_the_paths_of_the_domain() -> None:
    """Section 4's rows, word for word."""
    assert HTTP_PATH.due == HTTP
    assert HTTP_WAITING.due == ("WaitForFirstConsumer", *HTTP[1:])
    assert HTTP_POPULATOR.due == ("Pending", "ImportScheduled", "ImportInProgress", "Succeeded")
    prepared = ("PrepClaimInProgress", "RebindInProgress", "Succeeded")
    assert CLONES["csi-clone"].phases[2:] == ("CloneScheduled", "CSICloneInProgress", *prepared)
    assert CLONES["snapshot"].phases[2:] == (
        "CloneScheduled",
        "SnapshotForSmartCloneInProgress",
        "CloneFromSnapshotSourceInProgress",
        *prepared,
    )
    assert CLONES["copy"].due == (
        "CloneScheduled",
        "CloneInProgress",
        "RebindInProgress",
        "Succeeded",
    )
    assert COPY_WITHOUT_POPULATOR.due == ("CloneScheduled", "CloneInProgress", "Succeeded")


@pytest.mark.parametrize(("path", "change"), PATHS)
def test_each_path_as_it_is_written(path: Path, change: dict[str, Any]) -> None:
    for phases in (path.phases, path.due):
        verdict = judged(*phases, change=change)
        assert verdict.outcome == "holds", verdict.because
        assert path.name in verdict.because
        assert " 10 s → " in verdict.because


@pytest.mark.parametrize(("path", "change"), PATHS)
def test_each_due_phase_that_is_missing_breaks_it(path: Path, change: dict[str, Any]) -> None:
    for missing in path.due[:-1]:
        left = [one for one in path.phases if one != missing]
        verdict = judged(*left, change=change)
        assert verdict.outcome == "broken"
        assert f"has {missing}, which never was, and nothing was missed" in verdict.because


@pytest.mark.parametrize(("path", "change"), PATHS)
def test_with_a_gap_a_missing_phase_is_unknown(path: Path, change: dict[str, Any]) -> None:
    for missing in path.phases[:-1]:
        left = [one for one in path.phases if one != missing]
        verdict = judged(*left, change=change, doubt="a gap of 2 s: 410 Gone")
        assert verdict.outcome == "unknown"
        assert "a phase may have been missed: a gap of 2 s: 410 Gone" in verdict.because


@pytest.mark.parametrize(("path", "change"), PATHS)
def test_each_phase_out_of_its_order_breaks_it(path: Path, change: dict[str, Any]) -> None:
    for place in range(len(path.phases) - 1):
        turned = list(path.phases)
        turned[place], turned[place + 1] = turned[place + 1], turned[place]
        for doubt in ("", "a gap"):
            verdict = judged(*turned, change=change, doubt=doubt)
            assert verdict.outcome == "broken"
            assert "against the order of" in verdict.because


@pytest.mark.parametrize(("path", "change"), PATHS)
def test_a_phase_of_another_path_breaks_it_whatever_was_missed(
    path: Path, change: dict[str, Any]
) -> None:
    every = {phase for other, _ in PATHS for phase in other.phases} | {"Unknown", "Paused"}
    for foreign in sorted(every - set(path.phases)):
        verdict = judged(*path.phases[:-1], foreign, "Succeeded", change=change, doubt="a gap")
        assert verdict.outcome == "broken"
        assert f"{foreign} is no phase of {path.name}" in verdict.because


@given(st.lists(st.sampled_from(CSI), max_size=7), st.booleans())
def test_nothing_but_the_path_holds(phases: list[str], gap: bool) -> None:  # noqa: FBT001 - drawn
    merged = [one for place, one in enumerate(phases) if not place or phases[place - 1] != one]
    verdict = judged(*merged, doubt="a gap" if gap else "")
    without = [one for one in CSI if one != "PrepClaimInProgress"]
    whole = not gap and merged in (list(CSI), without)
    assert (verdict.outcome == "holds") == whole


def test_a_class_that_does_not_wait_has_no_waiting_phase() -> None:
    phases = ("WaitForFirstConsumer", *HTTP)
    assert judged(*phases, change={"source": DOWNLOAD, "storage_class": LATER}).outcome == "holds"
    assert judged(*phases, change={"source": DOWNLOAD}).outcome == "broken"
    late = judged(*HTTP, change={"source": DOWNLOAD, "storage_class": LATER})
    assert "WaitForFirstConsumer, which never was" in late.because


def test_a_restarted_import_may_begin_anew() -> None:
    change = {"source": DOWNLOAD}
    again = (*HTTP[:-1], "ImportScheduled", "ImportInProgress", "Succeeded")
    verdict = judged(*again, change=change, restarts=2)
    assert verdict.outcome == "holds"
    assert "restarted 2 times" in verdict.because
    assert judged(*again, change=change).outcome == "broken"
    back = (*HTTP[:-1], "PVCBound", "ImportScheduled", "ImportInProgress", "Succeeded")
    assert judged(*back, change=change, restarts=2).outcome == "broken"


def test_an_import_that_fails_does_not_become_failed() -> None:
    change = {"source": DOWNLOAD}
    event = Told(5.0, "ErrImportFailed", "connection refused")
    verdict = judged(*HTTP[:-1], change=change, restarts=4, said=ERROR, events=(event,))
    assert verdict.outcome == "broken"
    for said in (
        "stands at ImportInProgress for 10 s after 4 restarts, never Failed",
        "Running=False Error (Unable to connect to http data source)",
        "Event ErrImportFailed: connection refused",
    ):
        assert said in verdict.because, verdict.because


@pytest.mark.parametrize(("said", "restarts"), [(WORKS, 4), (ERROR, 0), (None, 4), (WORKS, 0)])
def test_one_that_may_still_come_is_unknown(said: Said | None, restarts: int) -> None:
    verdict = judged(*HTTP[:-1], change={"source": DOWNLOAD}, restarts=restarts, said=said)
    assert verdict.outcome == "unknown"
    assert "it has not ended: ImportInProgress for 10 s" in verdict.because
    assert ("4 restarts" in verdict.because) == bool(restarts)


def test_failed_is_failed() -> None:
    verdict = judged("CloneScheduled", "Failed", said=ERROR)
    assert verdict.outcome == "broken"
    assert "it Failed: Running=False Error" in verdict.because
    assert "no condition Running" in judged("Failed", said=None).because


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"source": UNREAD}, "it could not be read: nobody could look"),
        ({"history": UNREAD}, "it could not be read: nobody could look"),
        ({"claim": UNREAD}, "it could not be read: nobody could look"),
        ({"source": DOWNLOAD, "storage_class": UNREAD}, "it could not be read: nobody could look"),
        ({"claim": replace(CLAIM, clone_type="")}, "cloneType is not there, so its path is not"),
        ({"claim": replace(CLAIM, clone_type="magic")}, "cloneType is magic, so its path"),
        ({"source": replace(SOURCE, forms=("blank",))}, "its source is blank, of which no path"),
        ({"source": replace(SOURCE, forms=("http", "pvc"))}, "its source is http, pvc"),
        ({"source": DiskRefused(AT, "m1", "denied")}, "there is no disk: denied"),
        ({"history": went(said=None)}, "it has not ended: no phase at all"),
    ],
)
def test_what_is_not_known(change: dict[str, Any], said: str) -> None:
    verdict = judged(*CSI, change=change)
    assert verdict.outcome == "unknown"
    assert said in verdict.because, verdict.because
    assert verdict.facts[0] == change.get("source", SOURCE)
    assert len(verdict.facts) == 4


def test_each_phase_is_told_with_its_time() -> None:
    assert judged(*CSI).because == (
        "a CSI clone: CloneScheduled 10 s → CSICloneInProgress 10 s → PrepClaimInProgress 10 s → "
        "RebindInProgress 10 s → Succeeded"
    )
