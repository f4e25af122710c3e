from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.facts.clones import (
    DiskHistory,
    DiskSource,
    WantedDisk,
    disk_history,
    disk_source,
    unseen_birth,
)
from harness.facts.sights import Missed, Seen, Sight
from tests.facts.disk_objects import (
    CLAIM_UID,
    DISK,
    DISK_UID,
    EPOCH,
    GOLDEN,
    MARK,
    PUBLIC,
    SCHEMATIC,
    URL,
    VERSION,
    cloned_disk,
    downloaded_disk,
    event,
    in_phase,
    said,
    seen,
    story,
    there,
)

CSI = ("CloneScheduled", "CSICloneInProgress", "PrepClaimInProgress", "RebindInProgress")
WHOLE = story(cloned_disk(), *CSI, "Succeeded")
NO_EVENTS = seen(what="Event")


def source(volume: dict[str, Any]) -> DiskSource:
    return disk_source(volume, at=EPOCH, cluster="management")


def history(*sights: Sight, at: float = EPOCH + 100, events: Seen = NO_EVENTS) -> DiskHistory:
    return disk_history(
        DISK_UID, seen(*sights), events, claims=[CLAIM_UID], at=at, cluster="management"
    )


def test_a_clone_as_it_is_written() -> None:
    found = source(cloned_disk())
    assert (found.forms, found.claim, found.url) == (("pvc",), f"{PUBLIC}/{GOLDEN}", "")
    assert (found.golden, found.pool, found.use_populator) == (GOLDEN, "kubernetes-lab-md0", None)
    assert (found.storage_class, found.size, found.access_modes) == ("replicated", "20Gi", ())
    assert (found.disk, found.uid, found.schematic) == (DISK, DISK_UID, "")


def test_a_download_as_it_is_written() -> None:
    found = source(downloaded_disk())
    assert (found.forms, found.claim, found.url) == (("http",), "", URL)
    assert (found.schematic, found.version) == (SCHEMATIC, VERSION)
    assert (found.golden, found.pool, found.use_populator) == (None, None, "false")


@pytest.mark.parametrize(
    "url",
    [
        f"/image/{SCHEMATIC}/{VERSION}/openstack-amd64.raw.xz",
        f"https://f/image/{SCHEMATIC}/{VERSION}/nocloud-amd64.raw.xz",
        f"https://f/image/{VERSION}/openstack-amd64.raw.xz",
        f"https://f/x/image/{SCHEMATIC}/{VERSION}/openstack-amd64.raw.xz",
        f"ftp://f/image/{SCHEMATIC}/{VERSION}/openstack-amd64.raw.xz",
        "https://[/image/a/b/openstack-amd64.raw.xz",
        "",
    ],
)
def test_another_url_names_no_image(url: str) -> None:
    assert source(downloaded_disk(url)).schematic == ""


def test_the_older_field_for_what_is_asked() -> None:
    volume = cloned_disk()
    volume["spec"]["pvc"] = {**volume["spec"].pop("storage"), "accessModes": ["ReadWriteOnce"]}
    found = source(volume)
    assert (found.storage_class, found.access_modes) == ("replicated", ("ReadWriteOnce",))


@pytest.mark.parametrize(
    "junk",
    [{}, {"spec": None}, {"spec": {"source": [], "storage": 7}}, {"metadata": {"annotations": 3}}],
)
def test_what_is_no_disk_says_nothing(junk: Any) -> None:
    found = source(junk)
    assert (found.forms, found.claim, found.golden, found.size) == ((), "", None, "")


def test_an_empty_annotation_is_there() -> None:
    assert source(cloned_disk(**{f"{MARK}pool": ""})).pool == ""


def test_every_phase_with_its_time() -> None:
    found = history(*WHOLE)
    assert [(one.phase, one.since - EPOCH, one.seconds) for one in found.phases] == [
        ("CloneScheduled", 10.0, 10.0),
        ("CSICloneInProgress", 20.0, 10.0),
        ("PrepClaimInProgress", 30.0, 10.0),
        ("RebindInProgress", 40.0, 10.0),
        ("Succeeded", 50.0, 50.0),
    ]
    assert (found.phase, found.ended, found.restarted) == ("Succeeded", EPOCH + 50, 0)
    assert (found.doubt, found.disk) == ("", DISK)


def test_phases_at_one_moment_are_phases() -> None:
    found = history(*story(cloned_disk(), *CSI, "Succeeded", every=0.0))
    assert [one.phase for one in found.phases] == [*CSI, "Succeeded"]
    assert [one.seconds for one in found.phases[:-1]] == [0.0] * 4


def test_a_phase_in_several_revisions_is_one() -> None:
    twice = [one for one in WHOLE for _ in range(2)]
    assert history(*twice).phases == history(*WHOLE).phases


def test_a_phase_that_comes_again_is_another() -> None:
    again = story(downloaded_disk(), "ImportInProgress", "ImportScheduled", "ImportInProgress")
    assert [one.phase for one in history(*again).phases] == [
        "ImportInProgress",
        "ImportScheduled",
        "ImportInProgress",
    ]


def test_another_disk_of_that_name_is_another() -> None:
    old = cloned_disk()
    old["metadata"]["uid"] = "uid-before"
    found = history(Sight(EPOCH, "ADDED", in_phase(old, "Failed")), *WHOLE)
    assert [one.phase for one in found.phases] == [*CSI, "Succeeded"]


def test_conditions_as_they_became() -> None:
    found = history(*WHOLE)
    assert [str(one) for one in found.conditions] == [
        "Running=True",
        "Running=False Completed (Clone Complete)",
    ]
    running = found.said("Running")
    assert running is not None
    assert running.at == EPOCH + 50
    assert found.said("Bound") is None


def test_restarts_as_they_rose() -> None:
    disk = downloaded_disk()
    counts = [0, 1, 1, 3]
    steps = [
        Sight(EPOCH + place, "MODIFIED", in_phase(disk, "ImportInProgress", restarts=count))
        for place, count in enumerate(counts, start=1)
    ]
    found = history(Sight(EPOCH, "ADDED", disk), *steps)
    assert found.restarts == ((EPOCH + 2, 1), (EPOCH + 4, 3))
    assert found.restarted == 3


@pytest.mark.parametrize("count", [None, "2", True, {}])
def test_what_is_no_count_is_none(count: Any) -> None:
    disk = in_phase(downloaded_disk(), "ImportInProgress", restarts=0)
    disk["status"]["restartCount"] = count
    assert history(Sight(EPOCH, "ADDED", disk)).restarts == ()


def test_events_of_the_disk_and_its_claim_once_each() -> None:
    told = there(
        event("IncompatibleProvisioners", "of the claim"),
        event("CloneScheduled", "of the disk", DISK_UID),
        event("CloneScheduled", "of the disk", DISK_UID),
        event("Named", "no UID", ""),
        event("Other", "somebody else's, of one name", "uid-other"),
        event("Other", "no UID, another name", "", "w2-disk-system"),
        what="Event",
    )
    found = history(*WHOLE, events=told)
    assert [one.reason for one in found.events] == [
        "IncompatibleProvisioners",
        "CloneScheduled",
        "Named",
    ]
    assert str(found.event("Named", "Absent")) == "Named: no UID"
    assert str(found.event("CloneScheduled", "IncompatibleProvisioners")) == (
        "CloneScheduled: of the disk"
    )
    assert found.event("Absent") is None


def test_an_event_of_a_pod_of_that_name_is_none_of_its() -> None:
    other = event("Killing", "a pod", "")
    other["involvedObject"]["kind"] = "Pod"
    assert history(*WHOLE, events=there(other, what="Event")).events == ()


def test_an_event_that_has_expired_since_was_told() -> None:
    made = event("IncompatibleProvisioners", "x")
    gone = seen(Sight(EPOCH, "ADDED", made), Sight(EPOCH + 9, "DELETED", made), what="Event")
    assert len(history(*WHOLE, events=gone).events) == 1


def test_a_history_from_a_list_does_not_know_its_beginning() -> None:
    listed = [replace(WHOLE[0], listed=True), *WHOLE[1:]]
    assert "was there before its watch" in history(*listed).doubt
    assert "was there before its watch" in history(*WHOLE[1:]).doubt
    assert "no revision" in history().doubt
    assert unseen_birth(WHOLE) == ""


def test_a_gap_is_a_doubt_and_one_before_or_after_its_path_is_none() -> None:
    def doubt(since: float, until: float, *, upto: int | None = None) -> str:
        gap = Missed(EPOCH + since, EPOCH + until, "410 Gone")
        volumes = seen(*WHOLE[:upto], missed=[gap])
        told = disk_history(DISK_UID, volumes, NO_EVENTS, at=EPOCH + 100, cluster="m")
        return told.doubt

    assert "410 Gone" in doubt(20, 30)
    assert "410 Gone" in doubt(45, 70)
    assert "410 Gone" in doubt(50, 70)
    assert "410 Gone" in doubt(60, 70, upto=-1)
    assert doubt(-4, -1) == ""
    assert doubt(60, 70) == ""  # it had Succeeded, and no phase comes after that


def test_names() -> None:
    wanted = WantedDisk("builtin", SCHEMATIC, VERSION, "kubernetes-lab-md0", "replicated", 1)
    assert wanted.golden == GOLDEN


PHASES = [*CSI, "Succeeded", "Pending", ""]


@given(st.lists(st.tuples(st.floats(0, 99), st.sampled_from(PHASES)), max_size=12))
def test_any_revisions_add_up(steps: list[tuple[float, str]]) -> None:
    disk = cloned_disk()
    sights = [Sight(EPOCH + at, "MODIFIED", in_phase(disk, phase)) for at, phase in sorted(steps)]
    found = history(Sight(EPOCH, "ADDED", disk), *sights)
    assert all(one.seconds >= 0 and one.phase for one in found.phases)
    told = [one.phase for one in found.phases]
    assert all(before != after for before, after in pairwise(told))
    assert {phase for _, phase in steps} - {""} == set(told)
    if found.phases:
        whole = sum(one.seconds for one in found.phases)
        assert whole == pytest.approx(EPOCH + 100 - found.phases[0].since)


@given(st.sets(st.integers(0, len(WHOLE) - 1)))
def test_a_cut_history_tells_no_phase_that_was_not_and_knows_if_it_lost_its_beginning(
    kept: set[int],
) -> None:
    found = history(*(WHOLE[place] for place in sorted(kept)))
    told = [one.phase for one in found.phases]
    rest = iter([*CSI, "Succeeded"])
    assert all(phase in rest for phase in told)
    assert (found.doubt == "") == (0 in kept)


@settings(max_examples=40)
@given(
    st.recursive(
        st.none() | st.text() | st.integers(),
        lambda inner: st.dictionaries(
            st.sampled_from(
                ["metadata", "spec", "status", "source", "conditions", "annotations", "phase"]
            ),
            inner | st.lists(inner),
            max_size=4,
        ),
    )
)
def test_no_object_is_an_error(junk: Any) -> None:
    volume = junk if isinstance(junk, dict) else {}
    source(volume)
    history(Sight(EPOCH, "ADDED", volume))


def test_said_and_said_again() -> None:
    stop = said("Running", "False", "Error", "Unable to process data")
    disk = in_phase(downloaded_disk(), "ImportInProgress", stop, said("Bound", "True"))
    found = history(Sight(EPOCH, "ADDED", disk), Sight(EPOCH + 1, "MODIFIED", disk))
    assert [one.condition for one in found.conditions] == ["Running", "Bound"]
