from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness import claims
from harness.facts.clones import Told
from harness.facts.goldens import Golden, GoldenAbsent
from harness.judge.goldens import golden_ready
from harness.judge.verdict import Verdict
from tests.facts.disk_objects import GOLDEN, SCHEMATIC, VERSION
from tests.judge.disk_facts import AT, GI, IMAGE, UNREAD, WANTED

FAILING = ("False", "Error", "Unable to connect to http data source")
RUNS = ("True", "Pod is running", "")
EVENT = Told(1.0, "ErrImportFailed", "connection refused")


def judged(golden: Any = IMAGE, **change: Any) -> Verdict:
    given = replace(golden, **change) if isinstance(golden, Golden) else golden
    verdict = golden_ready(given, WANTED, "golden g")
    assert (verdict.claim, verdict.subject) == ("golden-ready", "golden g")
    assert verdict.claim in claims.load()
    assert verdict.facts == (given,)
    return verdict


def importing(**change: Any) -> Verdict:
    begun = {"phase": "ImportInProgress", "progress": "12.4%", "running": RUNS}
    return judged(**{**begun, **change})


def without(key: str) -> dict[str, str]:
    assert key in IMAGE.marks
    return {name: value for name, value in IMAGE.marks.items() if name != key}


def test_as_it_should_be() -> None:
    verdict = judged()
    assert verdict.outcome == "holds"
    for said in (
        "Succeeded, Import Complete",
        "class replicated; ReadWriteMany; 6Gi (6442450944 bytes)",
        "kept, and marked with schematic and version",
    ):
        assert said in verdict.because
    assert judged(content_type="").outcome == "holds"
    assert judged(restarts=2).outcome == "holds"
    assert judged(capacity=7 * GI).outcome == "holds"
    assert judged(capacity=20 * GI, asked=20 * GI).outcome == "holds"


def test_one_that_is_being_deleted_is_broken() -> None:
    verdict = judged(leaving=True)
    assert (verdict.outcome, verdict.because) == ("broken", "it is being deleted")


@pytest.mark.parametrize("restarts", [1, 2, 3, 9])
@pytest.mark.parametrize("phase", ["ImportScheduled", "ImportInProgress"])
def test_an_import_with_restarts_is_broken_and_never_failed(phase: str, restarts: int) -> None:
    verdict = importing(phase=phase, restarts=restarts, running=FAILING, events=(EVENT,))
    assert verdict.outcome == "broken"
    times = f"{restarts} restart" + "s" * (restarts > 1)
    for said in (
        f"the import stands at {phase} 12.4% after {times} of its importer",
        "Running=False Error (Unable to connect to http data source)",
        "Event ErrImportFailed: connection refused",
        "waiting for Failed would be waiting for nothing",
    ):
        assert said in verdict.because, verdict.because


def test_an_import_without_restarts_goes_on_until_its_time_is_over() -> None:
    young = importing(age=720.0)
    assert young.outcome == "unknown"
    assert "the import goes on: ImportInProgress 12.4% after 720 s, Running=True" in young.because
    old = importing(age=720.5)
    assert old.outcome == "broken"
    assert "the import is stuck at ImportInProgress 12.4% after 720 s" in old.because
    assert "without a restart" in old.because
    undated = importing(age=None)
    assert (undated.outcome, "after an unknown time" in undated.because) == ("unknown", True)
    nothing = judged(phase="", progress="", running=("", "", ""), age=1.0)
    assert (nothing.outcome, "without a phase after 1 s" in nothing.because) == ("unknown", True)


def test_failed_is_broken() -> None:
    assert judged(phase="Failed", running=FAILING, age=1.0).outcome == "broken"


def test_what_is_being_imported_need_not_be_bound_yet() -> None:
    begun = {"claim": "", "bound": "", "capacity": None, "age": 60.0}
    assert importing(**begun).outcome == "unknown"
    assert importing(bound="Pending", capacity=None, age=60.0).outcome == "unknown"


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"bound": "Pending"}, "its PVC is Pending, not Bound"),
        ({"bound": "Lost"}, "its PVC is Lost, not Bound"),
        ({"storage_class": "local"}, "its PVC is of local, the pool's class is replicated"),
        ({"storage_class": ""}, "its PVC is of no class"),
        ({"access_modes": ("ReadWriteOnce",)}, "its PVC is ReadWriteOnce, not ReadWriteMany"),
        ({"capacity": 6 * 10**9}, "has 6000000000 bytes, less than the 6Gi (6442450944 bytes)"),
        ({"capacity": 21 * GI, "asked": 21 * GI}, "a clone cannot be smaller than its source"),
        ({"marks": without("helm.sh/resource-policy")}, "helm.sh/resource-policy is missing"),
        (
            {"marks": {**IMAGE.marks, "helm.sh/resource-policy": "delete"}},
            "helm.sh/resource-policy is 'delete', not 'keep'",
        ),
        (
            {"marks": without("cdi.kubevirt.io/storage.usePopulator")},
            "usePopulator is missing, not 'true'",
        ),
        (
            {"marks": without("cdi.kubevirt.io/storage.bind.immediate.requested")},
            "bind.immediate.requested is missing",
        ),
        (
            {"marks": without("kubernetes-worker-image.cozystack.io/schematic-id")},
            f"schematic-id is missing, not '{SCHEMATIC}'",
        ),
        (
            {"marks": {**IMAGE.marks, "kubernetes-worker-image.cozystack.io/talos-version": "v1"}},
            f"talos-version is 'v1', not '{VERSION}'",
        ),
        ({"content_type": "archive"}, "its contentType is archive, not kubevirt"),
        ({"url": ""}, "its source is no URL"),
        ({"url": IMAGE.url.replace(VERSION, "v1.13.5")}, "its source is https://"),
    ],
)
def test_what_is_otherwise(change: dict[str, Any], said: str) -> None:
    verdict = judged(**change)
    assert verdict.outcome == "broken"
    assert said in verdict.because, verdict.because


@pytest.mark.parametrize(
    ("golden", "change", "said"),
    [
        (UNREAD, {}, "it could not be read: nobody could look"),
        (IMAGE, {"running": ("", "", "")}, "it Succeeded, and does not say how: Running=not told"),
        (IMAGE, {"running": ("False", "Completed", "Clone Complete")}, "does not say how"),
        (IMAGE, {"claim": ""}, "it has no PVC yet"),
        (IMAGE, {"access_modes": ()}, "its PVC names no access mode"),
        (IMAGE, {"capacity": None}, "how large it is, or was to be, is not told"),
        (IMAGE, {"asked": None}, "how large it is, or was to be, is not told"),
        (GoldenAbsent(AT, GOLDEN, GOLDEN, ()), {}, "only the PVC is there, no DataVolume"),
    ],
)
def test_what_is_not_known(golden: Any, change: dict[str, Any], said: str) -> None:
    verdict = judged(golden, **change)
    assert verdict.outcome == "unknown"
    assert said in verdict.because, verdict.because


def test_one_that_nobody_asked_for_is_told_from_one_that_is_imported() -> None:
    verdict = judged(GoldenAbsent(AT, GOLDEN, "", ("talos-worker-other-v1.0.0",)))
    assert verdict.outcome == "broken"
    assert f"there is no golden {GOLDEN}: it is not being imported either" in verdict.because
    assert "the catalogue has talos-worker-other-v1.0.0" in verdict.because


def test_the_last_failure_is_told() -> None:
    later = Told(2.0, "ErrImportFailed", "no route to host")
    because = importing(restarts=2, running=FAILING, events=(EVENT, later)).because
    assert "(Event ErrImportFailed: no route to host)" in because
