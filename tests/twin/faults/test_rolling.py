"""What the faults of change do to a pool that stands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import conditions
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import APPS, BOOTSTRAP, CAPI, HELM, INFRA, deep

SPACE = "tenant-hil"
RELEASE = "kubernetes-nodes-lab-gpu"
FORCED = ("reconcile.fluxcd.io/requestedAt", "reconcile.fluxcd.io/forceAt")
Make = Callable[[str], Any]


def templates(lab: Any) -> list[str]:
    found = lab.world.management.all(BOOTSTRAP, "TalosConfigTemplate", SPACE)
    return [one["metadata"]["name"] for one in found]


def machines(lab: Any) -> list[str]:
    return [one["metadata"]["uid"] for one in lab.world.management.all(CAPI, "Machine", SPACE)]


def reconcile(lab: Any, *annotations: str) -> None:
    def ask(release: Any) -> None:
        release["metadata"].setdefault("annotations", {}).update(dict.fromkeys(annotations, "now"))

    lab.world.management.edit(HELM, "HelmRelease", SPACE, RELEASE, ask, manager="kubectl")
    lab.run(1500.0)


def test_an_upgrade_comes_with_the_forced_reconcile(faulty: Make) -> None:
    lab = faulty("unexpected-pool-roll")
    lab.card()
    before = templates(lab), machines(lab)
    reconcile(lab, FORCED[0])
    assert (templates(lab), machines(lab)) == before
    reconcile(lab, *FORCED)
    assert set(templates(lab)) - set(before[0])
    assert machines(lab) and not set(machines(lab)) & set(before[1])
    assert lab.guest.kernel.driven()


def test_a_changed_list_is_refused_and_the_release_is_green(faulty: Make) -> None:
    lab = faulty("immutable-tct-refused")
    lab.card()
    before = templates(lab)

    def change(pool: Any) -> None:
        pool["spec"]["kernelModules"] = [{"name": "nf_tables"}]

    lab.world.management.edit(APPS, "KubernetesNodes", SPACE, "lab-gpu", change, manager="kubectl")
    lab.run(600.0)
    release = lab.world.management.find(HELM, "HelmRelease", SPACE, RELEASE)
    ready = [c for c in release["status"]["conditions"] if c["type"] == "Ready"]
    assert ready[0]["status"] == "True" and templates(lab) == before
    said = "".join(line for lines in lab.world.hosts.logs.values() for line in lines)
    assert "TalosConfigTemplate.Spec is immutable" in said


def templates_disk(lab: Any) -> str:
    (template,) = lab.world.management.all(INFRA, "KubevirtMachineTemplate", SPACE)
    path = ("spec", "template", "spec", "virtualMachineTemplate", "spec", "dataVolumeTemplates")
    (disk,) = deep(template, *path)
    return str(disk["spec"]["storage"]["resources"]["requests"]["storage"])


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("minor-talos-version", 'Talos version "v1.13" is not a vMAJOR.MINOR.PATCH release'),
        ("accepted-not-applied", "Kubernetes v1.30 is not supported by Talos v1.13.6"),
    ],
)
def test_an_edit_is_refused_and_the_machines_run_on(faulty: Make, fault: str, words: str) -> None:
    lab = faulty(fault)
    lab.pool(gpu="", schematic=VANILLA)
    lab.until(lambda: lab.tenant.all("v1", "Node"), 900.0)
    before = machines(lab)
    lab.run(600.0)
    release = lab.world.management.find(HELM, "HelmRelease", SPACE, RELEASE)
    ready = conditions.find(release, "Ready")
    assert ready["reason"] == "UpgradeFailed" and words in ready["message"]
    pool = lab.world.management.find(APPS, "KubernetesNodes", SPACE, "lab-gpu")
    asked = "30Gi" if fault == "accepted-not-applied" else None
    assert pool["spec"].get("diskSize") == asked and templates_disk(lab) == "20Gi"
    assert machines(lab) == before and lab.guest.running
