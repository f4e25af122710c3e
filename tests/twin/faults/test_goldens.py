"""What the faults of golden images do to the catalogue, and to what pools ask of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import conditions
from harness.twin.world.golden_catalogue import NAMESPACE, PLATFORM, VALUES
from harness.twin.world.golden_chart import CHART, KEEP_POLICY
from harness.twin.world.objects import CDI, COZY, HELM, annotations_of, deep

PUBLIC = "cozy-public"
Make = Callable[[str], Any]


def goldens(lab: Any) -> list[Any]:
    return list(lab.world.cluster.all(CDI, "DataVolume", PUBLIC))


def golden(lab: Any) -> Any:
    (found,) = goldens(lab)
    return found


def entries(lab: Any) -> Any:
    package = lab.world.cluster.find(COZY, "Package", "", PLATFORM)
    return deep(package, *VALUES, "kubernetesWorkerImage", "images")


def ready(lab: Any) -> str:
    release = lab.world.cluster.find(HELM, "HelmRelease", NAMESPACE, CHART)
    return str(conditions.find(release, "Ready")["status"])


def write(lab: Any, images: list[Any]) -> None:
    def change(package: Any) -> None:
        deep(package, *VALUES, "kubernetesWorkerImage")["images"] = images

    lab.world.management.edit(COZY, "Package", "", PLATFORM, change, manager="test")


def test_another_release_is_in_the_catalogue(faulty: Make) -> None:
    lab = faulty("golden-absent")
    lab.run(300.0)
    assert golden(lab)["metadata"]["name"].endswith("-v1.12.4")
    assert golden(lab)["status"]["phase"] == "Succeeded" and ready(lab) == "True"
    claims = lab.world.cluster.all("v1", "PersistentVolumeClaim", PUBLIC)
    assert [one["metadata"]["name"] for one in claims] == [golden(lab)["metadata"]["name"]]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("golden-import-retrying", "unable to connect to http data source: dial tcp"),
        ("golden-too-small", "DataVolume too small to contain image"),
    ],
)
def test_an_import_is_begun_anew_and_never_fails(faulty: Make, fault: str, words: str) -> None:
    lab = faulty(fault)
    lab.run(3600.0)
    assert golden(lab)["status"]["phase"] == "ImportInProgress"
    assert golden(lab)["status"]["restartCount"] > 10
    running = conditions.find(golden(lab), "Running")
    assert (running["status"], running["reason"]) == ("False", "Error")
    assert words in running["message"]
    # what is not the platform's mirror still answers
    url = "https://factory.talos.dev/image/x/v1.13.6/openstack-amd64.raw.xz"
    assert not lab.world.factory.silence(url)


def test_no_claim_is_made_of_a_class_without_access_modes(faulty: Make) -> None:
    lab = faulty("catalog-on-local-class")
    lab.run(1800.0)
    assert golden(lab)["status"]["phase"] == "Pending" and ready(lab) != "True"
    assert lab.world.cluster.all("v1", "PersistentVolumeClaim", PUBLIC) == []
    reasons = {one["reason"] for one in lab.world.cluster.all("v1", "Event", PUBLIC)}
    assert "ErrClaimNotValid" in reasons


def test_a_golden_goes_with_its_entry(faulty: Make) -> None:
    lab = faulty("golden-not-kept")
    assert KEEP_POLICY not in annotations_of(golden(lab))
    first = entries(lab)[0]
    write(lab, [first, {**first, "version": "v1.12.4"}])
    lab.until(lambda: len(goldens(lab)) == 2 and ready(lab) == "True", 900.0)
    write(lab, [first])
    lab.until(lambda: len(goldens(lab)) == 1, 120.0)


@pytest.mark.parametrize(
    ("fault", "more"),
    [
        ("catalogue-duplicates-accepted", {}),
        ("catalogue-names-unchecked", {"version": "1.13.6"}),
    ],
)
def test_the_catalogue_takes_what_it_should_not(faulty: Make, fault: str, more: Any) -> None:
    lab = faulty(fault)
    first = entries(lab)[0]
    write(lab, [first, {**first, **more}])
    lab.run(30.0)
    lab.until(lambda: ready(lab) == "True", 900.0)
    assert len(goldens(lab)) == (2 if more else 1)
