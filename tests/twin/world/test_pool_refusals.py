"""Each refusal driven through the release of a pool: told, counted, and nothing changed."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from harness.twin.apiserver.access import GROUP
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import (
    APPS,
    BOOTSTRAP,
    CAPI,
    CDI,
    CONTROL_PLANE,
    HELM,
    INFRA,
    STORAGE,
)

NAMESPACE = "tenant-hil"
GOLDEN = f"talos-worker-{VANILLA}-v1.13.6"
DEFAULT = "storageclass.kubernetes.io/is-default-class"
BUILTIN: Any = {"builtin": {}}
RENDERED = (
    (CAPI, "MachineDeployment"),
    (CAPI, "MachineHealthCheck"),
    (INFRA, "KubevirtMachineTemplate"),
    (BOOTSTRAP, "TalosConfigTemplate"),
    ("batch/v1", "Job"),
)


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in (obj.get("status") or {}).get("conditions", ()) if c["type"] == kind]
    return found[0].get(field) if found else None


def release(lab: Any, name: str = "gpu") -> Any:
    return lab.management.find(HELM, "HelmRelease", NAMESPACE, f"kubernetes-nodes-lab-{name}")


def rendered(lab: Any) -> Any:
    """UIDs and specs of what the pool consists of."""
    return {
        (kind, obj["metadata"]["name"]): (obj["metadata"]["uid"], copy.deepcopy(obj["spec"]))
        for api_version, kind in RENDERED
        for obj in lab.management.all(api_version, kind, NAMESPACE)
    }


def settled(lab: Any, ready: str, within: float = 40.0) -> Any:
    def done() -> bool:
        found = release(lab)
        attempted = (found.get("status") or {}).get("lastAttemptedGeneration")
        seen = attempted == found["metadata"]["generation"]
        return bool(seen and condition(found, "Ready") == ready)

    lab.run_until(done, within)
    return release(lab)


def no_golden(lab: Any) -> None:
    kind = lab.management.registry.by_kind(CDI, "DataVolume")
    lab.management.delete(kind, "cozy-public", GOLDEN)


def cdi_says(lab: Any, **status: Any) -> None:
    """From now on CDI has this to say of the golden, whatever it looks at."""

    def rewrite(admission: Any) -> Any:
        asked = admission.obj
        if admission.subresource != "status" or asked["metadata"]["name"] != GOLDEN:
            return asked
        return {**asked, "status": {**asked.get("status", {}), **status}}

    lab.world.admission.append(rewrite)
    lab.management.edit(
        CDI, "DataVolume", "cozy-public", GOLDEN,
        lambda stored: stored["status"].update(progress=""), manager="test", subresource="status",
    )  # fmt: skip


def failed_golden(lab: Any) -> None:
    cdi_says(lab, phase="Failed")


def broken_golden(lab: Any) -> None:
    running = {"type": "Running", "status": "False", "reason": "Error"}
    cdi_says(lab, phase="ImportInProgress", restartCount=4, conditions=[running])


def older_parent(lab: Any) -> None:
    lab.management.edit(
        CONTROL_PLANE, "KamajiControlPlane", NAMESPACE, "kubernetes-lab",
        lambda stored: stored["spec"].update(version="v1.34.2"), manager="test",
    )  # fmt: skip


def foreign(lab: Any) -> None:
    if not lab.ours(CAPI, "MachineDeployment"):
        made = {
            "apiVersion": CAPI,
            "kind": "MachineDeployment",
            "metadata": {"name": "kubernetes-lab-gpu", "namespace": NAMESPACE},
            "spec": {
                "clusterName": "kubernetes-lab",
                "replicas": 0,
                "template": {
                    "spec": {
                        "clusterName": "kubernetes-lab",
                        "bootstrap": {"configRef": reference(BOOTSTRAP, "TalosConfigTemplate")},
                        "infrastructureRef": reference(INFRA, "KubevirtMachineTemplate"),
                    }
                },
            },
        }
        kind = lab.management.registry.by_kind(CAPI, "MachineDeployment")
        lab.management.create(kind, made, namespace=NAMESPACE)
    lab.management.edit(
        CAPI, "MachineDeployment", NAMESPACE, "kubernetes-lab-gpu",
        lambda stored: stored["metadata"].setdefault("annotations", {}).update(
            {"meta.helm.sh/release-name": "kubernetes-lab"}
        ),
        manager="test",
    )  # fmt: skip


def reference(api_version: str, kind: str) -> Any:
    return {"apiVersion": api_version, "kind": kind, "name": "other", "namespace": NAMESPACE}


def nothing(lab: Any) -> None:
    del lab


REFUSALS: dict[str, tuple[Callable[[Any], None], dict[str, Any], tuple[str, ...]]] = {
    "R1": (nothing, {"osImage": {"builtin": {}, "factory": {}}}, ("set only one of osImage.",)),
    "R2": (
        nothing,
        {"osImage": {"builtin": {"schematicID": "No_Such"}}},
        ('schematicID "No_Such" is not a plain lowercase alphanumeric identifier',),
    ),
    "R3": (
        nothing,
        {"talos": {"version": "v1.13"}},
        ('"v1.13" is not a vMAJOR.MINOR.PATCH release',),
    ),
    "R4": (
        nothing,
        {"talos": {"imageFactoryURL": ""}},
        ('imageFactoryURL "" is not a plain http(s) URL',),
    ),
    "R5": (
        no_golden,
        {"osImage": BUILTIN},
        ("osImage.builtin requested golden DataVolume", "not found in cozy-public"),
    ),
    "R6": (failed_golden, {"osImage": BUILTIN}, ("failed to import (phase Failed)",)),
    "R7": (
        broken_golden,
        {"osImage": BUILTIN},
        ("keeps failing to import (4 importer restarts)",),
    ),
    "R8": (
        nothing,
        {"osImage": BUILTIN, "storageClass": "local"},
        ("storageClass local differs from golden image", "Neither side can be moved in place"),
    ),
    "R8 by default": (
        nothing,
        {"osImage": BUILTIN, "storageClass": ""},
        ("storageClass local differs from golden image", "default class: the pool has 'local'"),
    ),
    "R9": (
        nothing,
        {"osImage": BUILTIN, "diskSize": "4Gi"},
        ("diskSize 4Gi is smaller than golden image", "storage 6Gi"),
    ),
    "R10": (
        nothing,
        {"version": "v1.30"},
        ("Kubernetes v1.30 is not supported by Talos v1.13.6. Supported versions: v1.31",),
    ),
    "R11": (older_parent, {}, ('pool version "v1.35" is ahead of parent cluster',)),
    "R12": (foreign, {"diskSize": "30Gi"}, ('is already managed by release "kubernetes-lab"',)),
}


@pytest.mark.parametrize("rule", REFUSALS)
def test_a_refused_pool_is_told_and_nothing_of_it_is_made(lab: Any, rule: str) -> None:
    prepare, values, fragments = REFUSALS[rule]
    prepare(lab)
    before = rendered(lab)
    lab.pool("gpu", **values)
    failed = settled(lab, "False")
    for kind in ("Ready", "Released"):
        assert condition(failed, kind, "reason") == "InstallFailed"
    message = condition(failed, "Ready", "message")
    assert message.startswith(
        "Helm install failed for release tenant-hil/kubernetes-nodes-lab-gpu "
        "with chart kubernetes-nodes@1.7.0: execution error at (kubernetes-nodes/templates/"
    )
    (event,) = lab.events("InstallFailed")
    assert event["type"] == "Warning"
    assert event["involvedObject"]["uid"] == failed["metadata"]["uid"]
    for fragment in fragments:
        assert fragment in message and fragment in event["message"]
    assert failed["status"]["failures"] == failed["status"]["installFailures"] == 1
    assert "history" not in failed["status"]
    assert rendered(lab) == before


@pytest.mark.parametrize("rule", REFUSALS)
def test_a_refused_edit_changes_nothing_of_a_pool_that_stands(lab: Any, rule: str) -> None:
    prepare, values, fragments = REFUSALS[rule]
    lab.pool("gpu", minReplicas=0)
    settled(lab, "True")
    lab.run(20)
    prepare(lab)
    before, history = rendered(lab), copy.deepcopy(release(lab)["status"]["history"])
    good = copy.deepcopy(lab.management.find(APPS, "KubernetesNodes", NAMESPACE, "lab-gpu")["spec"])
    asked = {"maxUnhealthy": "40%", **copy.deepcopy(values)}
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(asked))
    failed = settled(lab, "False")
    assert condition(failed, "Ready", "reason") == "UpgradeFailed"
    message = condition(failed, "Ready", "message")
    assert all(fragment in message for fragment in fragments)
    assert lab.events("UpgradeFailed")[0]["involvedObject"]["uid"] == failed["metadata"]["uid"]
    lab.run(40)
    assert rendered(lab) == before
    assert release(lab)["status"]["history"] == history
    assert release(lab)["status"]["upgradeFailures"] >= 2
    assert release(lab)["spec"]["values"]["maxUnhealthy"] == "40%"  # accepted, applied nowhere
    if prepare is nothing:
        lab.edit_pool("gpu", lambda pool: pool.update(spec={**good, "maxUnhealthy": "40%"}))
        after = settled(lab, "True")
        assert [entry["status"] for entry in after["status"]["history"]] == [
            "deployed", "superseded",
        ]  # fmt: skip
        (check,) = lab.ours(CAPI, "MachineHealthCheck")
        assert check["spec"]["maxUnhealthy"] == "40%"
        assert not {"failures", "upgradeFailures"} & set(after["status"])


def test_a_pool_of_the_catalogues_image_renders_with_its_class_left_empty(lab: Any) -> None:
    for name, value in (("local", "false"), ("replicated", "true")):
        lab.management.edit(
            STORAGE, "StorageClass", "", name,
            lambda stored, value=value: stored["metadata"].update(annotations={DEFAULT: value}),
            manager="test",
        )  # fmt: skip
    lab.pool("gpu", minReplicas=0, osImage=BUILTIN, storageClass="")
    settled(lab, "True")
    (template,) = lab.ours(INFRA, "KubevirtMachineTemplate")
    machine = template["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
    (disk,) = machine["dataVolumeTemplates"]
    assert disk["spec"]["storage"]["storageClassName"] == "replicated"
    assert disk["spec"]["source"] == {"pvc": {"namespace": "cozy-public", "name": GOLDEN}}


def test_a_refusal_goes_by_itself_when_its_cause_goes(lab: Any) -> None:
    older_parent(lab)
    lab.pool("gpu", minReplicas=0)
    settled(lab, "False")
    lab.management.edit(
        CONTROL_PLANE, "KamajiControlPlane", NAMESPACE, "kubernetes-lab",
        lambda stored: stored["spec"].update(version="v1.35.0"), manager="test",
    )  # fmt: skip
    assert 25 <= lab.run_until(lambda: condition(release(lab), "Ready") == "True", 60) <= 40
    assert lab.ours(CAPI, "MachineDeployment")


def test_an_upgrade_of_the_platform_refuses_what_it_used_to_render(lab: Any) -> None:
    rules = lab.world.chart.disks
    lab.world.chart = replace(lab.world.chart, disks=replace(rules, lacks=frozenset({"R3"})))
    lab.pool("gpu", minReplicas=0, talos={"version": "v1.13"})
    settled(lab, "True")
    before = rendered(lab)
    lab.world.chart = replace(lab.world.chart, version="1.8.0", disks=rules)
    lab.run_until(lambda: condition(release(lab), "Ready", "reason") == "UpgradeFailed", 40)
    assert "is not a vMAJOR.MINOR.PATCH release" in condition(release(lab), "Ready", "message")
    assert rendered(lab) == before


def test_a_release_that_may_not_look_renders_nothing(lab: Any) -> None:
    lab.pool("gpu", minReplicas=0)
    settled(lab, "True")
    before = rendered(lab)
    lab.management.edit(
        HELM, "HelmRelease", NAMESPACE, "kubernetes-nodes-lab-gpu",
        lambda stored: stored["spec"].update(serviceAccountName="poor"), manager="test",
    )  # fmt: skip
    failed = settled(lab, "False")
    message = condition(failed, "Ready", "message")
    assert "error calling lookup" in message and "is forbidden" in message
    assert "system:serviceaccount:tenant-hil:poor" in message and "not found" not in message
    assert rendered(lab) == before
    subject = {"kind": "ServiceAccount", "name": "poor", "namespace": NAMESPACE}
    role = {"rules": [{"verbs": ["get", "list"], "apiGroups": ["*"], "resources": ["*"]}]}
    reference = {"apiGroup": GROUP, "kind": "ClusterRole", "name": "look"}
    for kind, body in (
        ("ClusterRole", role),
        ("ClusterRoleBinding", {"roleRef": reference, "subjects": [subject]}),
    ):
        resource = lab.management.registry.by_kind(f"{GROUP}/v1", kind)
        lab.management.create(resource, {"metadata": {"name": "look"}, **body})
    lab.run_until(lambda: condition(release(lab), "Ready") == "True", 60)


def test_a_cloned_pool_stays_as_it_is_whatever_becomes_of_golden_and_default_class(
    lab: Any,
) -> None:
    lab.pool("gpu", osImage=BUILTIN)
    lab.run_until(lab.joined, 400)
    before = rendered(lab)
    disks = {d["metadata"]["uid"] for d in lab.management.all(CDI, "DataVolume", NAMESPACE)}
    no_golden(lab)
    lab.management.edit(
        HELM, "HelmRelease", NAMESPACE, "kubernetes-nodes-lab-gpu",
        lambda stored: stored["metadata"].setdefault("annotations", {}).update(
            {"reconcile.fluxcd.io/requestedAt": "1", "reconcile.fluxcd.io/forceAt": "1"}
        ),
        manager="kubectl",
    )  # fmt: skip
    lab.run_until(lambda: len(release(lab)["status"]["history"]) == 2, 20)
    assert condition(release(lab), "Ready") == "True"
    lab.run(60)
    assert rendered(lab) == before
    assert {d["metadata"]["uid"] for d in lab.management.all(CDI, "DataVolume", NAMESPACE)} == disks
    lab.pool("other", minReplicas=0, osImage=BUILTIN)
    lab.run(20)
    assert "not found in cozy-public" in condition(release(lab, "other"), "Ready", "message")
