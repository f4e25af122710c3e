"""The catalogue of golden images: what the platform's Package says, and what becomes of it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.twin.world import golden_chart
from harness.twin.world.chart_behaviour import CatalogueChart, RenderRefused
from harness.twin.world.images import NVIDIA_OPEN, VANILLA
from harness.twin.world.objects import CDI, COZY, HELM
from harness.twin.world.pool_chart import DEFAULTS
from harness.twin.world.pool_disk import Release

GOLDEN = f"talos-worker-{VANILLA}-v1.13.6"
SECOND = f"talos-worker-{NVIDIA_OPEN}-v1.13.6"
ENTRY = {"schematicID": VANILLA, "version": "v1.13.6"}
MORE = {"schematicID": NVIDIA_OPEN, "version": "v1.13.6"}
BUDGET = 400.0


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in (obj.get("status") or {}).get("conditions", ()) if c["type"] == kind]
    return found[0].get(field) if found else None


def package(lab: Any, name: str = "cozystack.cozystack-platform") -> Any:
    return lab.management.find(COZY, "Package", "", name)


def release(lab: Any) -> Any:
    return lab.management.find(HELM, "HelmRelease", "cozy-system", "kubernetes-worker-image")


def golden(lab: Any, name: str = GOLDEN) -> Any:
    return lab.management.find(CDI, "DataVolume", "cozy-public", name)


def edit(lab: Any, change: Callable[[Any], None]) -> None:
    def write(stored: Any) -> None:
        change(stored["spec"]["components"]["platform"]["values"]["kubernetesWorkerImage"])

    lab.management.edit(
        COZY, "Package", "", "cozystack.cozystack-platform", write, manager="kubectl"
    )


def images(lab: Any, *entries: Any, **values: Any) -> None:
    edit(lab, lambda held: held.update(images=[dict(one) for one in entries], **values))


def taken_up(lab: Any, ready: str, within: float = BUDGET) -> Any:
    """Wait until the release was attempted as the Package has it now."""

    def done() -> bool:
        values = package(lab)["spec"]["components"]["platform"]["values"]
        found = release(lab)
        attempted = found["status"].get("lastAttemptedGeneration")
        same = found["spec"]["values"] == values["kubernetesWorkerImage"]
        seen = attempted == found["metadata"]["generation"]
        return bool(same and seen and condition(found, "Ready") == ready)

    lab.run_until(done, within)
    return release(lab)


# -- before the story


def test_the_lab_has_one_golden_from_before_the_story(lab: Any) -> None:
    values = package(lab)["spec"]["components"]["platform"]["values"]
    assert values["bundles"]["enabledPackages"] == ["cozystack.kubernetes-worker-image"]
    assert values["kubernetesWorkerImage"]["images"] == [ENTRY]
    held = release(lab)
    assert held["spec"]["values"] == values["kubernetesWorkerImage"]
    assert condition(held, "Ready") == condition(held, "Released") == "True"
    assert [(e["status"], e["action"]) for e in held["status"]["history"]] == [
        ("deployed", "install")
    ]
    for name in ("cozystack.cozystack-platform", "cozystack.kubernetes-worker-image"):
        assert condition(package(lab, name), "Ready", "reason") == "ReconciliationSucceeded"
    assert lab.management.find(COZY, "PackageSource", "", "cozystack.kubernetes-worker-image")


def test_the_golden_is_as_the_catalogue_makes_it(lab: Any) -> None:
    found = golden(lab)
    notes = found["metadata"]["annotations"]
    assert {key: notes[key] for key in notes if not key.startswith("meta.helm.sh/")} == {
        "helm.sh/resource-policy": "keep",
        "cdi.kubevirt.io/storage.bind.immediate.requested": "true",
        "cdi.kubevirt.io/storage.usePopulator": "true",
        "kubernetes-worker-image.cozystack.io/schematic-id": VANILLA,
        "kubernetes-worker-image.cozystack.io/talos-version": "v1.13.6",
    }
    assert found["metadata"]["labels"]["app.kubernetes.io/managed-by"] == "cozystack"
    assert found["spec"] == {
        "contentType": "kubevirt",
        "source": {
            "http": {
                "url": f"https://factory.talos.dev/image/{VANILLA}/v1.13.6/openstack-amd64.raw.xz"
            }
        },
        "storage": {
            "resources": {"requests": {"storage": "6Gi"}}, "storageClassName": "replicated",
        },
    }  # fmt: skip


def test_the_golden_was_imported_and_nothing_is_left_to_do(lab: Any) -> None:
    found = copy.deepcopy(golden(lab))
    assert found["status"]["phase"] == "Succeeded"
    assert condition(found, "Ready") == condition(found, "Bound") == "True"
    assert condition(found, "Running", "message") == "Import Complete"
    assert condition(found, "Running", "reason") == "Completed"
    claim = lab.management.find("v1", "PersistentVolumeClaim", "cozy-public", GOLDEN)
    assert claim["status"]["phase"] == "Bound"
    assert claim["spec"]["accessModes"] == ["ReadWriteMany"]
    assert claim["spec"]["volumeMode"] == "Block"
    volume = lab.management.find("v1", "PersistentVolume", "", claim["spec"]["volumeName"])
    assert volume["spec"]["claimRef"]["uid"] == claim["metadata"]["uid"]
    assert volume["metadata"]["name"] in lab.world.storage.resources
    seen = lab.record()
    lab.run(600)
    assert golden(lab) == found
    assert [c.obj["metadata"]["name"] for c in seen if c.resource.kind == "Pod"
            and c.obj["metadata"]["namespace"] == "cozy-public"] == []  # fmt: skip


def test_the_three_charts_agree_on_what_is_the_default(lab: Any) -> None:
    del lab
    assert golden_chart.DEFAULTS["images"] == [
        {"schematicID": DEFAULTS["talos"]["schematicID"], "version": DEFAULTS["talos"]["version"]}
    ]
    assert golden_chart.DEFAULTS["storageClass"] == DEFAULTS["storageClass"]
    assert golden_chart.DEFAULTS["imageFactoryURL"] == DEFAULTS["talos"]["imageFactoryURL"]


# -- its life


def test_a_new_entry_is_imported_and_the_release_waits_for_it(lab: Any) -> None:
    before = golden(lab)
    images(lab, ENTRY, MORE)
    lab.run_until(lambda: golden(lab, SECOND), 30)
    assert condition(release(lab), "Ready") == "Unknown"
    assert condition(release(lab), "Ready", "reason") == "Progressing"
    lab.run_until(lambda: golden(lab, SECOND)["status"].get("phase") == "Succeeded", BUDGET)
    after = taken_up(lab, "True", 10)
    assert condition(after, "Ready", "reason") == "UpgradeSucceeded"
    assert [e["status"] for e in after["status"]["history"]] == ["deployed", "superseded"]
    assert golden(lab) == before


def test_a_dropped_entry_leaves_its_golden_and_a_listed_one_is_taken_back(lab: Any) -> None:
    before = golden(lab)
    images(lab, MORE)
    after = taken_up(lab, "True")
    assert golden(lab) == before
    entries = [entry["id"] for entry in after["status"]["inventory"]["entries"]]
    assert len(entries) == 1 and SECOND in entries[0]
    images(lab, MORE, ENTRY)
    taken_up(lab, "True")
    assert golden(lab)["metadata"]["uid"] == before["metadata"]["uid"]


def test_without_the_policy_a_dropped_entry_takes_its_golden_along(lab: Any) -> None:
    lab.world.catalogue_chart = CatalogueChart(version="1.7.1", keeps=False)
    lab.run(20)
    kept = golden(lab)["metadata"]["annotations"]
    assert "helm.sh/resource-policy" in kept  # laid over what is there, nothing is taken away
    lab.management.edit(
        CDI, "DataVolume", "cozy-public", GOLDEN,
        lambda stored: stored["metadata"]["annotations"].pop("helm.sh/resource-policy"),
        manager="test",
    )  # fmt: skip
    images(lab)
    taken_up(lab, "True")
    assert golden(lab) is None


def test_a_package_that_is_not_enabled_any_more_goes_without_its_goldens(lab: Any) -> None:
    def disable(stored: Any) -> None:
        stored["spec"]["components"]["platform"]["values"]["bundles"]["enabledPackages"] = []

    before = golden(lab)
    lab.management.edit(
        COZY, "Package", "", "cozystack.cozystack-platform", disable, manager="kubectl"
    )
    lab.run_until(lambda: release(lab) is None, 30)
    assert package(lab, "cozystack.kubernetes-worker-image") is None
    lab.run(60)
    assert golden(lab) == before


def delete_golden(lab: Any, name: str = GOLDEN) -> None:
    kind = lab.management.registry.by_kind(CDI, "DataVolume")
    lab.management.delete(kind, "cozy-public", name)


def force(lab: Any) -> None:
    notes = {"reconcile.fluxcd.io/requestedAt": "1", "reconcile.fluxcd.io/forceAt": "1"}
    lab.management.edit(
        HELM, "HelmRelease", "cozy-system", "kubernetes-worker-image",
        lambda stored: stored["metadata"].setdefault("annotations", {}).update(notes),
        manager="kubectl",
    )  # fmt: skip


def test_a_golden_deleted_by_hand_comes_back_with_the_next_reconcile(lab: Any) -> None:
    uid = golden(lab)["metadata"]["uid"]
    delete_golden(lab)
    lab.run(700)
    assert golden(lab) is None
    force(lab)
    lab.run_until(lambda: (golden(lab) or {}).get("status", {}).get("phase") == "Succeeded", BUDGET)
    assert golden(lab)["metadata"]["uid"] != uid


def test_a_golden_that_is_not_listed_does_not_come_back(lab: Any) -> None:
    images(lab)
    taken_up(lab, "True")
    delete_golden(lab)
    force(lab)
    lab.run(60)
    assert golden(lab) is None
    assert condition(release(lab), "Ready") == "True"


def test_somebody_who_suspends_the_release_is_heard(lab: Any) -> None:
    lab.management.edit(
        HELM, "HelmRelease", "cozy-system", "kubernetes-worker-image",
        lambda stored: stored["spec"].update(suspend=True), manager="kubectl",
    )  # fmt: skip
    images(lab, ENTRY, MORE)
    lab.run(60)
    assert release(lab)["spec"]["suspend"] is True
    assert golden(lab, SECOND) is None
    assert len(release(lab)["status"]["history"]) == 1


def test_somebody_who_edits_the_release_is_overruled_by_the_package(lab: Any) -> None:
    lab.run(30)
    lab.management.edit(
        HELM, "HelmRelease", "cozy-system", "kubernetes-worker-image",
        lambda stored: stored["spec"]["values"].update(images=[]), manager="kubectl",
    )  # fmt: skip
    lab.run(30)
    assert release(lab)["spec"]["values"]["images"] == [ENTRY]
    assert condition(release(lab), "Ready") == "True"


def test_a_golden_that_does_not_import_fails_the_release_after_its_timeout(lab: Any) -> None:
    unknown = {"schematicID": "f" * 64, "version": "v1.13.6"}
    images(lab, ENTRY, unknown)
    lab.run(300)
    assert condition(release(lab), "Ready", "reason") == "Progressing"
    failed = taken_up(lab, "False", 400)
    message = condition(failed, "Ready", "message")
    assert "timeout waiting for: [DataVolume/cozy-public/talos-worker-ffff" in message
    assert [e["status"] for e in failed["status"]["history"]] == ["failed", "deployed"]
    assert failed["status"]["upgradeFailures"] == 1
    images(lab, ENTRY)
    after = taken_up(lab, "True", 700)
    assert [e["status"] for e in after["status"]["history"]][:2] == ["deployed", "failed"]
    assert "upgradeFailures" not in after["status"]


# -- what it refuses

REFUSED: dict[str, tuple[list[Any], dict[str, Any], str]] = {
    "duplicate": (
        [ENTRY, ENTRY],
        {},
        f'two images[] entries resolve to the same golden DataVolume "{GOLDEN}"',
    ),
    "schematic": (
        [ENTRY, {"schematicID": "No_Such", "version": "v1.13.6"}],
        {},
        'images[] entry schematicID "No_Such" is not a plain lowercase alphanumeric identifier',
    ),
    "version": (
        [ENTRY, {"schematicID": VANILLA, "version": "v1.13"}],
        {},
        'images[] entry version "v1.13" is not a vMAJOR.MINOR.PATCH Talos release',
    ),
    "url": ([ENTRY], {"imageFactoryURL": "x"}, 'imageFactoryURL "x" is not a plain http(s) URL'),
    "storage": (
        [ENTRY],
        {"storage": "7Gi"},
        f'changed after its golden DataVolume "{GOLDEN}" was created: storage "6Gi" -> "7Gi"',
    ),
    "class": (
        [ENTRY],
        {"storageClass": "local"},
        'was created: storageClass "replicated" -> "local"',
    ),
    "class dropped": (
        [ENTRY],
        {"storageClass": ""},
        'was created: storageClass "replicated" -> ""',
    ),
    "source": (
        [{**ENTRY, "imageFactoryURL": "https://mirror.example"}],
        {},
        f'-> "https://mirror.example/image/{VANILLA}/v1.13.6/openstack-amd64.raw.xz"',
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_refused_edit_is_told_and_changes_nothing(lab: Any, case: str) -> None:
    entries, values, fragment = REFUSED[case]
    before = golden(lab), release(lab)["status"]["history"]
    good = copy.deepcopy(release(lab)["spec"]["values"])
    images(lab, *entries, MORE, **values)
    failed = taken_up(lab, "False", 30)
    message = condition(failed, "Ready", "message")
    assert condition(failed, "Released", "reason") == "UpgradeFailed"
    assert "execution error at (kubernetes-worker-image/templates/dv.yaml:" in message
    (event,) = lab.events("UpgradeFailed")
    assert fragment in message and fragment in event["message"]
    assert event["involvedObject"]["uid"] == failed["metadata"]["uid"]
    lab.run(60)
    assert (golden(lab), release(lab)["status"]["history"]) == before
    assert golden(lab, SECOND) is None  # the good entry beside it is not imported either
    images(lab, ENTRY, imageFactoryURL=good["imageFactoryURL"], storage="6Gi",
           storageClass="replicated")  # fmt: skip
    assert release(lab)["spec"]["values"] != good
    assert condition(taken_up(lab, "True", 30), "Ready", "reason") == "UpgradeSucceeded"


def test_values_of_another_type_are_refused_in_helms_words(lab: Any) -> None:
    images(lab, {"schematicID": VANILLA})
    message = condition(taken_up(lab, "False", 30), "Ready", "message")
    assert "values don't meet the specifications of the schema" in message
    assert "kubernetes-worker-image:\n- at '/images/0': missing property 'version'" in message


def rendered(values: Any, chart: CatalogueChart, there: Any = None) -> list[str]:
    found = golden_chart.render(
        values, Release("kubernetes-worker-image", "cozy-system", lambda *_: there), chart
    )
    return [one["metadata"]["name"] for one in found]


@pytest.mark.parametrize(
    ("guard", "values"),
    [
        ("duplicate_guard", {"images": [ENTRY, ENTRY]}),
        ("name_guard", {"images": [{"schematicID": VANILLA, "version": "v1.13"}]}),
        ("name_guard", {"imageFactoryURL": "x"}),
        ("change_guard", {"storage": "7Gi"}),
    ],
)
def test_each_guard_can_be_missing(guard: str, values: Any) -> None:
    goldens = golden_chart.render({}, Release("r", "n", lambda *_: None), CatalogueChart())
    there = goldens[0] if guard == "change_guard" else None
    with pytest.raises(RenderRefused):
        rendered(values, CatalogueChart(), there)
    lax: Any = {guard: False}
    assert len(rendered(values, replace(CatalogueChart(), **lax), there)) == 1


def test_an_entry_may_have_a_size_a_class_and_a_factory_of_its_own() -> None:
    own = {"storage": "8Gi", "storageClass": "fast", "imageFactoryURL": "http://mirror/"}
    (made,) = golden_chart.render(
        {"images": [{**ENTRY, **own}]}, Release("r", "n", lambda *_: None), CatalogueChart()
    )
    assert made["spec"]["storage"] == {
        "resources": {"requests": {"storage": "8Gi"}}, "storageClassName": "fast",
    }  # fmt: skip
    assert made["spec"]["source"]["http"]["url"].startswith(f"http://mirror/image/{VANILLA}/")
