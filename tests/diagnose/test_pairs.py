"""Confusable pairs: the same symptom, told apart by what separates them."""

from __future__ import annotations

from typing import Any

import pytest

from harness.diagnose.case import Kind, Thing
from harness.diagnose.findings import Standing
from harness.diagnose.ranking import diagnose
from tests.diagnose.made import (
    GB202,
    L40S,
    NONE_DECLARED,
    NVIDIA,
    VANILLA,
    case,
    here,
    named,
    obj,
    pool,
    standings,
    text,
    there,
    whole,
)

NO_GPU = {"cpu": "4"}


def gpu(**rest: Any) -> list[Thing]:
    return pool("gpu", rest.pop("schematic", NVIDIA), L40S, allocatable=NO_GPU, **rest)


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        (gpu(config=NONE_DECLARED), "chart-renders-no-modules"),
        (gpu(config=NONE_DECLARED, values={"kernelModules": []}), "modules-list-empty"),
        (
            gpu(
                config="machine: {kernel: {modules: [{name: nf_tables}]}}",
                values={"kernelModules": [{"name": "nf_tables"}]},
            ),
            "modules-list-without-nvidia",
        ),
        (gpu(config="machine: {modules: [{name: nvidia}]}"), "modules-misplaced"),
        (gpu(schematic=VANILLA), "image-without-nvidia"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_a_driver_that_is_not_loaded(made: list[Thing], cause: str) -> None:
    assert named(made) == [cause]


def test_blackwell_is_told_from_modules_that_are_not_there() -> None:
    node = "kubernetes-lab-b-w"
    made = pool("b", "ab" * 32, GB202, allocatable=NO_GPU)
    nvidia = "nvidia 9000 0 - Live 0x0000000000000000 (PO)\n"
    modules = [text(Kind.MODULES, nvidia, node)]
    smi = [text(Kind.SMI_LIST, "No devices found\n", node)]
    found = diagnose(case(made, modules, smi))
    assert [one.cause.id for one in found.named] == ["proprietary-modules-on-blackwell"]
    assert standings(found)["chart-renders-no-modules" if False else "image-without-nvidia"] is (
        Standing.EXCLUDED
    ) or "image-without-nvidia" not in {one.cause.id for one in found.named}
    assert named(made, smi) == []


def launcher(message: str) -> list[Thing]:
    labels = {"kubevirt.io/created-by": "VirtualMachineInstance/kubernetes-lab-gpu-w"}
    limits = [{"name": "compute", "resources": {"limits": {L40S: "1"}}}]
    waits = [{"type": "PodScheduled", "status": "False", "message": message}]
    return here(
        obj(
            "Pod",
            "virt-launcher-kubernetes-lab-gpu-w-x",
            metadata={"labels": labels},
            spec={"containers": limits},
            status={"phase": "Pending", "conditions": waits},
        )
    )


def host(allocatable: dict[str, str], **labels: str) -> list[Thing]:
    status = {"allocatable": allocatable}
    return here(obj("Node", "hv-1", "", metadata={"labels": labels}, status=status))


def holder() -> list[Thing]:
    limits = [{"name": "compute", "resources": {"limits": {L40S: "1"}}}]
    spec = {"nodeName": "hv-1", "containers": limits}
    return here(
        obj("Pod", "virt-launcher-x", "tenant-root", spec=spec, status={"phase": "Running"})
    )


@pytest.mark.parametrize(
    ("made", "cause"),
    [
        ([*host({L40S: "1"}), *holder()], ["cards-exhausted"]),
        (host({"nvidia.com/AD102GL_L40S_OEM": "1"}), ["card-name-mismatch"]),
        (
            host({"cpu": "1"}, **{"nvidia.com/gpu.deploy.driver": "pre-installed"}),
            ["host-driver-holds-card"],
        ),
        (host({L40S: "2"}), []),
    ],
)
def test_insufficient_cards(made: list[Thing], cause: list[str]) -> None:
    waiting = launcher(f"0/1 nodes are available: 1 Insufficient {L40S}.")
    assert named(gpu(), waiting, made, whole("Node")) == cause


def plugin(**env: str) -> list[Thing]:
    listed = [{"name": key, "value": value} for key, value in env.items()]
    container = {"name": "nvidia-device-plugin", "env": listed}
    spec = {"template": {"spec": {"containers": [container]}}}
    made = obj("DaemonSet", "nvidia-device-plugin-daemonset", "cozy-gpu-operator", spec=spec)
    return there(made)


FIVE = {
    "DEVICE_LIST_STRATEGY": "cdi-annotations",
    "DEVICE_ID_STRATEGY": "uuid",
    "NVIDIA_DRIVER_ROOT": "/",
    "NVIDIA_CTK_PATH": "/usr/local/bin/nvidia-ctk",
    "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
}


def test_the_strategy_is_told_from_a_list_that_was_replaced() -> None:
    assert named(plugin(**{**FIVE, "DEVICE_LIST_STRATEGY": "envvar"})) == ["cards-by-envvar"]
    assert named(plugin(**FIVE)) == []
    override = {"gpu-operator": {"devicePlugin": {"env": [{"name": "A", "value": "b"}]}}}
    values = {"addons": {"gpuOperator": {"enabled": True, "valuesOverride": override}}}
    releases = here(
        obj("HelmRelease", "kubernetes-lab", spec={"values": values}),
        obj("HelmRelease", "kubernetes-lab-gpu-operator", spec={"values": override}),
    )
    assert named(plugin(A="b"), releases) == ["plugin-env-replaced", "override-hides-default"]


def release(ready: str, reason: str, message: str) -> list[Thing]:
    said = {"type": "Ready", "status": ready, "reason": reason, "message": message}
    status = {"conditions": [said], "history": [{"status": "deployed", "version": 1}]}
    return here(obj("HelmRelease", "kubernetes-nodes-lab-gpu", spec={"values": {}}, status=status))


def test_accepted_and_not_applied_is_told_from_a_template_that_is_immutable() -> None:
    failed = release("False", "UpgradeFailed", "execution error at (x:1:1): v1.13 is not a "
                     "vMAJOR.MINOR.PATCH release")  # fmt: skip
    assert named(failed) == ["value-refused", "accepted-not-applied"]
    log = "admission webhook vtalosconfigtemplate.cluster.x-k8s.io denied the request\n"
    job = [text(Kind.LOG, log, "tenant-t/kubernetes-nodes-lab-gpu-talos-reconcile-gpu-ab/kubectl")]
    assert named(release("True", "UpgradeSucceeded", "ok"), job) == ["template-immutable"]


def volume(claim_marks: dict[str, str], modes: list[str]) -> list[Thing]:
    return here(
        obj("DataVolume", "d", spec={"source": {"pvc": {"name": "g"}}, "storage": {}}, metadata={
            "annotations": {"kubernetes-worker-image.cozystack.io/golden": "g",
                            "kubernetes-worker-image.cozystack.io/pool": "p"}},
            status={"phase": "Succeeded", "claimName": "d"}),
        obj("PersistentVolumeClaim", "d", metadata={"annotations": claim_marks},
            spec={"accessModes": modes}),
    )  # fmt: skip


def test_a_copy_is_told_from_a_slow_clone() -> None:
    kind, why = "cdi.kubevirt.io/cloneType", "cdi.kubevirt.io/cloneFallbackReason"
    shared = ["ReadWriteMany"]
    assert named(volume({kind: "copy", why: "No volume expansion is possible"}, shared)) == [
        "clone-fell-back-to-copy"
    ]
    assert named(volume({kind: "csi-clone"}, shared)) == []
    assert named(volume({kind: "csi-clone"}, ["ReadWriteOnce"])) == ["disk-of-one-node"]


def test_a_frozen_guest_is_told_from_one_that_hangs() -> None:
    status = (
        '[{"name":"r","node-id":0,"role":"Primary","suspended":true,"suspended-quorum":SUSPENDED,'
        '"devices":[{"volume":0,"minor":1,"disk-state":"UpToDate","quorum":QUORUM,"size":1}],'
        '"connections":[]}]'
    )
    lost = status.replace("SUSPENDED", "true").replace("QUORUM", "false")
    fine = status.replace("SUSPENDED", "false").replace("QUORUM", "true")
    assert named([text(Kind.DRBD, lost, "hv-1")]) == ["quorum-lost"]
    assert named([text(Kind.DRBD, fine.replace('"suspended":true', '"suspended":false'), "hv-1")]) \
        == []  # fmt: skip
