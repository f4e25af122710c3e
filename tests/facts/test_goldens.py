from __future__ import annotations

from typing import Any

from harness.facts.goldens import Golden, GoldenAbsent, golden
from harness.facts.sights import Sight
from tests.facts.disk_objects import (
    EPOCH,
    GI,
    GOLDEN,
    PUBLIC,
    SCHEMATIC,
    URL,
    event,
    golden_claim,
    golden_disk,
    meta,
    said,
    seen,
    there,
)


def read(*volumes: dict[str, Any], claims: Any = None, events: Any = ()) -> Golden | GoldenAbsent:
    return golden(
        GOLDEN,
        there(*volumes, what="DataVolume"),
        there(*([golden_claim()] if claims is None else claims)),
        there(*events, what="Event"),
        at=EPOCH + 600,
        cluster="management",
    )


def test_a_golden() -> None:
    found = read(golden_disk())
    assert isinstance(found, Golden)
    assert (found.golden, found.phase, found.restarts, found.age) == (GOLDEN, "Succeeded", 0, 600.0)
    assert found.running == ("False", "Completed", "Import Complete")
    assert (found.asked_class, found.asked, found.url) == ("replicated", 6 * GI, URL)
    assert (found.claim, found.bound, found.capacity) == (GOLDEN, "Bound", 6 * GI)
    assert (found.storage_class, found.access_modes) == ("replicated", ("ReadWriteMany",))
    assert found.marks["kubernetes-worker-image.cozystack.io/schematic-id"] == SCHEMATIC
    assert found.said == "Running=False Completed (Import Complete)"


def test_one_that_is_being_deleted() -> None:
    volume, claim = golden_disk(), golden_claim()
    staying = read(volume, claims=[claim])
    assert isinstance(staying, Golden) and not staying.leaving
    for one in (volume, claim):
        one["metadata"]["deletionTimestamp"] = "2026-01-01T00:10:00Z"
        going = read(volume, claims=[claim])
        assert isinstance(going, Golden) and going.leaving
        del one["metadata"]["deletionTimestamp"]


def test_one_that_is_imported_with_restarts() -> None:
    stop = [said("Running", "False", "Error", "Unable to connect")]
    volume = golden_disk("ImportInProgress", restartCount=4, conditions=stop)
    failed = event("ErrImportFailed", "Unable to connect", "uid-golden", GOLDEN)
    found = read(volume, claims=[], events=[failed, event("Other", "another's")])
    assert isinstance(found, Golden)
    assert (found.phase, found.restarts, found.running[1]) == ("ImportInProgress", 4, "Error")
    assert [str(one) for one in found.events] == ["ErrImportFailed: Unable to connect"]
    assert (found.claim, found.bound, found.capacity) == ("", "", None)


def test_none_at_all() -> None:
    other = golden_disk()
    other["metadata"] = meta("talos-worker-other-v1.0.0", "uid-other", PUBLIC)
    found = read(other, claims=[])
    assert isinstance(found, GoldenAbsent)
    assert (found.golden, found.claim, found.others) == (GOLDEN, "", ("talos-worker-other-v1.0.0",))
    left = read(other)
    assert isinstance(left, GoldenAbsent)
    assert left.claim == GOLDEN


def test_one_that_was_deleted_is_absent() -> None:
    made = golden_disk()
    volumes = seen(Sight(EPOCH, "ADDED", made), Sight(EPOCH + 1, "DELETED", made))
    found = golden(GOLDEN, volumes, there(), there(), at=EPOCH + 9, cluster="m")
    assert isinstance(found, GoldenAbsent)
    assert found.others == ()


def test_one_that_says_nothing() -> None:
    found = read({"metadata": {"name": GOLDEN}}, claims=[])
    assert isinstance(found, Golden)
    assert (found.phase, found.age, found.restarts) == ("", None, 0)
    assert found.said == "Running=not told"
