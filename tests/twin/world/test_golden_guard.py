"""What a builtin pool asks of its golden, and of the cluster for the class of its disks."""

from __future__ import annotations

import copy
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from harness.twin.world import pool_chart
from harness.twin.world.chart_behaviour import (
    NEWEST_DISK_RULES,
    ChartBehaviour,
    DiskRules,
    RenderRefused,
)
from harness.twin.world.images import VANILLA
from harness.twin.world.pool_disk import Release

CHART = ChartBehaviour()
NEWEST = replace(CHART, disks=NEWEST_DISK_RULES)
GOLDEN = f"talos-worker-{VANILLA}-v1.13.6"
NOTE = "kubernetes-worker-image.cozystack.io/"
DEFAULT = "storageclass.kubernetes.io/is-default-class"


@dataclass
class Shelf:
    """The objects that a chart may look up."""

    objects: list[Any] = field(default_factory=list)

    def put(self, kind: str, name: str, namespace: str = "", **parts: Any) -> Any:
        notes = parts.pop("notes", {})
        made = {
            "kind": kind,
            "metadata": {
                "name": name,
                "namespace": namespace,
                "annotations": notes,
                "creationTimestamp": parts.pop("born", "2026-01-01T00:00:00Z"),
            },
            **parts,
        }
        self.objects.append(made)
        return made

    def find(self, api_version: str, kind: str, namespace: str, name: str) -> Any:
        found = [one for one in self.all(api_version, kind, namespace)
                 if one["metadata"]["name"] == name]  # fmt: skip
        return found[0] if found else None

    def all(self, api_version: str, kind: str, namespace: str) -> list[Any]:
        del api_version
        return [
            one
            for one in self.objects
            if one["kind"] == kind and namespace in ("", one["metadata"]["namespace"])
        ]


@pytest.fixture
def shelf() -> Shelf:
    made = Shelf()
    made.put("Cluster", "kubernetes-lab", "tenant-hil")
    made.put("TenantControlPlane", "kubernetes-lab", "tenant-hil", spec={"dataStore": "etcd"})
    made.put("DataStore", "etcd")
    for name in ("replicated", "local", "other"):
        made.put("StorageClass", name)
    return made


def golden(shelf: Shelf, klass: str = "replicated", size: str = "6Gi", **status: Any) -> Any:
    storage: Any = {"resources": {"requests": {"storage": size}}}
    if klass:
        storage["storageClassName"] = klass
    told = {"phase": "Succeeded", **status}
    return shelf.put("DataVolume", GOLDEN, "cozy-public", spec={"storage": storage}, status=told)


def claim(shelf: Shelf, name: str, namespace: str, klass: str, phase: str = "Bound") -> Any:
    spec = {"storageClassName": klass, "resources": {"requests": {"storage": "6Gi"}}}
    return shelf.put("PersistentVolumeClaim", name, namespace, spec=spec, status={"phase": phase})


def worker_disk(
    shelf: Shelf,
    pool: str = "kubernetes-lab-p",
    of: str = GOLDEN,
    phase: str = "Succeeded",
    klass: str = "replicated",
) -> Any:
    name = f"{pool}-x-disk-system"
    claim(shelf, name, "tenant-hil", klass)
    return shelf.put(
        "DataVolume",
        name,
        "tenant-hil",
        notes={f"{NOTE}golden": of, f"{NOTE}pool": pool},
        status={"phase": phase, "claimName": name},
    )


def make_default(shelf: Shelf, klass: str, key: str = DEFAULT, born: str = "") -> None:
    found = shelf.find("", "StorageClass", "", klass)
    found["metadata"]["annotations"][key] = "true"
    if born:
        found["metadata"]["creationTimestamp"] = born


def disk_of(shelf: Shelf, chart: ChartBehaviour = CHART, **values: Any) -> Any:
    """The data volume template of the pool ``p``."""
    release = Release("kubernetes-nodes-lab-p", "tenant-hil", shelf.find, shelf.all)
    asked = {"cluster": "lab", "osImage": {"builtin": {}}, **values}
    manifests = pool_chart.render(asked, release, chart)
    template = next(one for one in manifests if one["kind"] == "KubevirtMachineTemplate")
    machine = template["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
    return machine["dataVolumeTemplates"][0]


def class_of(shelf: Shelf, chart: ChartBehaviour = CHART, **values: Any) -> Any:
    return disk_of(shelf, chart, **values)["spec"]["storage"].get("storageClassName")


def refusal(shelf: Shelf, chart: ChartBehaviour = CHART, **values: Any) -> str:
    with pytest.raises(RenderRefused) as refused:
        disk_of(shelf, chart, **values)
    assert refused.value.message.startswith("execution error at (kubernetes-nodes/templates/")
    return refused.value.message


def lacking(*rows: str) -> ChartBehaviour:
    return ChartBehaviour(disks=DiskRules(lacks=frozenset(rows)))


def without(rule: str) -> ChartBehaviour:
    return replace(CHART, disks=replace(DiskRules(), **{rule: False}))


# -- what is written


def test_a_cloned_disk_names_its_golden_and_its_pool_exactly(shelf: Shelf) -> None:
    golden(shelf)
    disk = disk_of(shelf)
    assert disk["spec"]["source"] == {"pvc": {"namespace": "cozy-public", "name": GOLDEN}}
    notes = {f"{NOTE}golden": GOLDEN, f"{NOTE}pool": "kubernetes-lab-p"}
    assert disk["metadata"]["annotations"] == notes
    assert disk["spec"]["storage"] == {
        "resources": {"requests": {"storage": "20Gi"}}, "storageClassName": "replicated",
    }  # fmt: skip


@pytest.mark.parametrize("form", [None, {"factory": {}}, {"factory": None}])
def test_a_downloaded_disk_says_not_to_populate_and_leaves_an_empty_class_empty(
    shelf: Shelf, form: Any
) -> None:
    make_default(shelf, "replicated")
    disk = disk_of(shelf, osImage=form, storageClass="")
    assert disk["metadata"]["annotations"] == {"cdi.kubevirt.io/storage.usePopulator": "false"}
    assert "storageClassName" not in disk["spec"]["storage"]
    assert set(disk["spec"]["source"]) == {"http"}


@pytest.mark.parametrize("form", [{}, None])
def test_the_key_alone_opts_in(shelf: Shelf, form: Any) -> None:
    golden(shelf)
    assert "pvc" in disk_of(shelf, osImage={"builtin": form})["spec"]["source"]


# -- R5, R6, R7


def test_an_absent_golden_is_refused_by_name_with_the_package_that_brings_it(shelf: Shelf) -> None:
    text = refusal(shelf)
    assert f"osImage.builtin requested golden DataVolume {GOLDEN}" in text
    assert "not found in cozy-public" in text
    assert "cozystack.kubernetes-worker-image" in text
    claim(shelf, GOLDEN, "cozy-public", "replicated")
    assert "not found in cozy-public" in refusal(shelf)


def test_another_version_is_another_golden(shelf: Shelf) -> None:
    golden(shelf)
    asked = {"builtin": {"version": "v1.13.5"}}
    assert f"talos-worker-{VANILLA}-v1.13.5, not found" in refusal(shelf, osImage=asked)


def test_the_newest_chart_takes_a_claim_for_a_golden(shelf: Shelf) -> None:
    assert "not found in cozy-public (neither DataVolume nor PVC)" in refusal(shelf, NEWEST)
    claim(shelf, GOLDEN, "cozy-public", "replicated")
    assert class_of(shelf, NEWEST) == "replicated"
    assert "differs from golden image" in refusal(shelf, NEWEST, storageClass="local")
    assert "is smaller than golden image" in refusal(shelf, NEWEST, diskSize="4Gi")


def test_a_failed_golden_is_refused(shelf: Shelf) -> None:
    golden(shelf, phase="Failed")
    assert "failed to import (phase Failed)" in refusal(shelf)
    assert class_of(shelf, lacking("R5", "R6")) == "replicated"


@pytest.mark.parametrize("phase", ["", "Pending", "ImportScheduled", "ImportInProgress"])
def test_a_golden_in_mid_import_is_no_refusal(shelf: Shelf, phase: str) -> None:
    golden(shelf, phase=phase)
    assert class_of(shelf) == class_of(shelf, NEWEST) == "replicated"
    assert "is not ready" in refusal(shelf, without("waits_for_import"))


def broken(restarts: int, running: str = "False", phase: str = "ImportInProgress") -> Any:
    conditions = [{"type": "Running", "status": running, "reason": "Error"}]
    return {"phase": phase, "restartCount": restarts, "conditions": conditions}


def test_an_importer_that_keeps_failing_is_refused_but_by_an_older_chart(shelf: Shelf) -> None:
    golden(shelf, **broken(3))
    older = replace(NEWEST, disks=replace(NEWEST.disks, importer_guard=False))
    assert class_of(shelf, older) == "replicated"
    assert "keeps failing to import (3 importer restarts)" in refusal(shelf, NEWEST)
    worker_disk(shelf)
    assert class_of(shelf, NEWEST) == "replicated"


@pytest.mark.parametrize(
    "status", [broken(2), broken(3, running="True"), broken(7, phase="Succeeded")]
)
def test_an_importer_that_may_still_succeed_or_has_is_not_refused(
    shelf: Shelf, status: Any
) -> None:
    golden(shelf, **status)
    assert class_of(shelf, NEWEST) == "replicated"


# -- R8, R9


def test_another_class_than_the_goldens_is_refused(shelf: Shelf) -> None:
    golden(shelf)
    text = refusal(shelf, storageClass="local")
    assert f"storageClass local differs from golden image {GOLDEN}" in text
    assert "Neither side can be moved in place" in text and "default class" not in text
    assert class_of(shelf, lacking("R8"), storageClass="local") == "local"


@pytest.mark.parametrize(
    ("size", "of"), [("6Gi", "6Gi"), ("6144Mi", "6Gi"), ("6442450944", "6Gi"), ("20G", "18Gi")]
)
def test_a_disk_as_large_as_its_golden_is_enough(shelf: Shelf, size: str, of: str) -> None:
    golden(shelf, size=of)
    assert class_of(shelf, diskSize=size) == "replicated"


@pytest.mark.parametrize(
    ("size", "of"), [("4Gi", "6Gi"), ("6G", "6Gi"), ("20G", "20Gi"), ("6442450943", "6Gi")]
)
def test_a_disk_that_is_smaller_in_bytes_is_refused(shelf: Shelf, size: str, of: str) -> None:
    golden(shelf, size=of)
    text = refusal(shelf, diskSize=size)
    assert f"diskSize {size} is smaller than golden image {GOLDEN} storage {of}" in text
    assert class_of(shelf, lacking("R9"), diskSize=size) == "replicated"


# -- a pool that has cloned before


def test_a_pool_that_has_cloned_needs_no_golden_any_more(shelf: Shelf) -> None:
    worker_disk(shelf)
    assert class_of(shelf) == "replicated"
    found = golden(shelf, phase="Failed")
    assert class_of(shelf) == "replicated"
    shelf.objects.remove(found)
    assert "not found in cozy-public" in refusal(shelf, without("clones_exempt"))


@pytest.mark.parametrize(
    "disk",
    [
        {"phase": "CSICloneInProgress"},
        {"of": f"talos-worker-{VANILLA}-v1.13.5"},
        {"pool": "kubernetes-lab-p-gpu"},
        {"pool": "kubernetes-lab-"},
        {"pool": "kubernetes-other-p"},
    ],
)
def test_only_a_whole_disk_of_this_pool_and_this_golden_counts(shelf: Shelf, disk: Any) -> None:
    worker_disk(shelf, **disk)
    assert "not found in cozy-public" in refusal(shelf)


def test_by_its_beginning_a_pool_takes_anothers_disk_for_its_own(shelf: Shelf) -> None:
    worker_disk(shelf, pool="kubernetes-lab-p-gpu")
    assert class_of(shelf, without("exact_pool")) == "replicated"


def test_a_disk_of_another_namespace_does_not_count(shelf: Shelf) -> None:
    worker_disk(shelf)["metadata"]["namespace"] = "tenant-other"
    assert "not found in cozy-public" in refusal(shelf)


# -- classes left empty


def test_an_empty_class_is_the_clusters_default_and_is_written(shelf: Shelf) -> None:
    golden(shelf)
    make_default(shelf, "replicated")
    assert class_of(shelf, storageClass="") == "replicated"
    assert class_of(shelf, without("class_written"), storageClass="") is None


def test_an_empty_class_that_resolves_otherwise_is_refused_and_says_whence_it_came(
    shelf: Shelf,
) -> None:
    golden(shelf)
    make_default(shelf, "local")
    text = refusal(shelf, storageClass="")
    assert "storageClass local differs from golden image" in text
    assert "default class: the pool has 'local'" in text


def test_both_sides_empty_are_the_same(shelf: Shelf) -> None:
    golden(shelf, klass="")
    make_default(shelf, "local")
    assert class_of(shelf, storageClass="") == "local"
    text = refusal(shelf, storageClass="replicated")
    assert "default class: the golden image has 'local'" in text


def test_a_golden_without_a_class_has_its_claims_and_not_the_default(shelf: Shelf) -> None:
    golden(shelf, klass="")
    claim(shelf, GOLDEN, "cozy-public", "replicated")
    make_default(shelf, "local")
    assert class_of(shelf, storageClass="replicated") == "replicated"
    assert "storageClass local differs" in refusal(shelf, storageClass="")
    forgetful = without("golden_claim")
    assert class_of(shelf, forgetful, storageClass="") == "local"
    assert "whose class is local" in refusal(shelf, forgetful, storageClass="replicated")


def test_of_a_pool_that_has_cloned_its_own_claim_is_asked(shelf: Shelf) -> None:
    golden(shelf)
    worker_disk(shelf)
    make_default(shelf, "local")
    assert class_of(shelf, storageClass="") == "replicated"
    assert "storageClass local differs" in refusal(shelf, without("own_class"), storageClass="")


def test_no_default_class_at_all_leaves_the_class_out(shelf: Shelf) -> None:
    golden(shelf, klass="")
    assert class_of(shelf, storageClass="") is None


def test_a_golden_without_a_class_has_that_of_its_claim(shelf: Shelf) -> None:
    golden(shelf, klass="")
    claim(shelf, GOLDEN, "cozy-public", "replicated")
    make_default(shelf, "local")
    assert class_of(shelf) == "replicated"
    assert "whose class is replicated" in refusal(shelf, storageClass="")


def test_a_pool_that_has_cloned_keeps_its_class_when_the_default_moves(shelf: Shelf) -> None:
    golden(shelf)
    make_default(shelf, "local")
    worker_disk(shelf)
    assert class_of(shelf, storageClass="") == "replicated"
    shelf.find("", "PersistentVolumeClaim", "tenant-hil", "kubernetes-lab-p-x-disk-system")[
        "status"
    ]["phase"] = "Lost"
    assert "storageClass local differs" in refusal(shelf, storageClass="")


def test_of_several_defaults_the_newest_counts(shelf: Shelf) -> None:
    golden(shelf)
    make_default(shelf, "local", born="2026-01-02T00:00:00Z")
    make_default(shelf, "replicated", born="2026-01-03T00:00:00Z")
    assert class_of(shelf, storageClass="") == "replicated"
    make_default(shelf, "other", born="2026-01-04T00:00:00Z")
    assert "storageClass other differs" in refusal(shelf, storageClass="")


def test_the_beta_annotation_makes_a_default_too(shelf: Shelf) -> None:
    golden(shelf)
    make_default(shelf, "replicated", key="storageclass.beta.kubernetes.io/is-default-class")
    assert class_of(shelf, storageClass="") == "replicated"


def test_a_class_that_says_false_is_no_default(shelf: Shelf) -> None:
    golden(shelf, klass="")
    found = shelf.find("", "StorageClass", "", "local")
    found["metadata"]["annotations"][DEFAULT] = "false"
    assert class_of(shelf, storageClass="") is None


def test_kubevirts_own_default_comes_first_in_the_newest_chart_alone(shelf: Shelf) -> None:
    golden(shelf)
    make_default(shelf, "local")
    make_default(shelf, "replicated", key="storageclass.kubevirt.io/is-default-virt-class")
    assert class_of(shelf, NEWEST, storageClass="") == "replicated"
    assert "storageClass local differs" in refusal(shelf, storageClass="")


# -- what the render rests on besides


def test_an_offline_render_finds_nothing(shelf: Shelf) -> None:
    release = Release("kubernetes-nodes-lab-p", "tenant-hil", shelf.find)
    golden(shelf)
    make_default(shelf, "replicated")
    asked = {"cluster": "lab", "storageClass": "", "osImage": {"builtin": {}}}
    with pytest.raises(RenderRefused, match="differs from golden image"):
        pool_chart.render(asked, release, CHART)


def test_a_render_changes_nothing_that_it_looked_up(shelf: Shelf) -> None:
    golden(shelf)
    worker_disk(shelf)
    before = copy.deepcopy(shelf.objects)
    disk_of(shelf)
    assert shelf.objects == before
