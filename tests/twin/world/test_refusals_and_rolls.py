"""What the platform refuses, and how a change reaches workers or does not."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError
from harness.twin.world.objects import APPS, BOOTSTRAP, CAPI, CDI, HELM, INFRA, KAMAJI, KUBEVIRT

NAMESPACE = "tenant-hil"
BUDGET = 300.0
L40S = "nvidia.com/AD102GL_L40S"


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in (obj.get("status") or {}).get("conditions", ()) if c["type"] == kind]
    return found[0].get(field) if found else None


def release(lab: Any, name: str = "gpu") -> Any:
    return lab.management.find(HELM, "HelmRelease", NAMESPACE, f"kubernetes-nodes-lab-{name}")


def edit_kubevirt(lab: Any, change: Any) -> None:
    lab.management.edit(KUBEVIRT, "KubeVirt", "cozy-kubevirt", "kubevirt", change, manager="flux")


def test_a_card_that_the_kubevirt_cr_does_not_list_keeps_the_vmi_pending(lab: Any) -> None:
    def forbid(kubevirt: Any) -> None:
        kubevirt["spec"]["configuration"]["permittedHostDevices"]["pciHostDevices"] = []

    before = copy.deepcopy(lab.world.kubevirt["spec"])
    edit_kubevirt(lab, forbid)
    lab.gpu_pool()
    lab.run(240)
    instance = lab.one(KUBEVIRT, "VirtualMachineInstance")
    assert instance["status"]["phase"] == "Pending"
    assert condition(instance, "Synchronized") == "False"
    assert condition(instance, "Synchronized", "reason") == "FailedCreate"
    (event,) = lab.events("FailedCreate")
    assert f"GPU {L40S} is not permitted in permittedHostDevices configuration" in event["message"]
    assert lab.nodes() == []
    assert lab.one(CAPI, "Machine")["status"]["phase"] == "Provisioning"
    edit_kubevirt(lab, lambda kubevirt: kubevirt.update(spec=before))
    lab.run_until(lab.joined, BUDGET)


def test_without_a_list_at_all_nothing_is_checked(lab: Any) -> None:
    edit_kubevirt(lab, lambda kv: kv["spec"]["configuration"].pop("permittedHostDevices"))
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)


def test_a_card_under_another_name_on_the_host_cannot_be_scheduled(lab: Any) -> None:
    def rename(node: Any) -> None:
        for amounts in (node["status"]["allocatable"], node["status"]["capacity"]):
            amounts["nvidia.com/L40S"] = amounts.pop(L40S)

    lab.management.edit("v1", "Node", "", "hv-1", rename, manager="kubelet", subresource="status")
    lab.gpu_pool()
    lab.run(150)
    (pod,) = [p for p in lab.ours("v1", "Pod") if "virt-launcher" in p["metadata"]["name"]]
    assert pod["status"]["phase"] == "Pending"
    assert f"Insufficient {L40S}" in condition(pod, "PodScheduled", "message")
    assert lab.events("FailedScheduling")
    machine = lab.one(KUBEVIRT, "VirtualMachine")
    assert machine["status"]["printableStatus"] == "ErrorUnschedulable"


def test_five_workers_for_four_cards_leave_one_waiting_until_a_card_is_free(lab: Any) -> None:
    lab.gpu_pool("gpu", minReplicas=4, maxReplicas=4)
    lab.run_until(lambda: len(lab.joined()) == 4, BUDGET)
    lab.gpu_pool("more")
    lab.run(BUDGET)
    assert len(lab.joined()) == 4
    (waiting,) = [
        p for p in lab.management.all("v1", "Pod", NAMESPACE) if not p["spec"].get("nodeName")
    ]
    assert condition(waiting, "PodScheduled", "reason") == "Unschedulable"
    held = [
        lab.world.guests.of(vmi).cards[0].uuid
        for vmi in lab.management.all(KUBEVIRT, "VirtualMachineInstance")
        if lab.world.guests.of(vmi)
    ]
    assert len(set(held)) == 4
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(minReplicas=1, maxReplicas=3))
    lab.run_until(lambda: any("lab-more" in m["metadata"]["name"] for m in lab.joined()), BUDGET)
    assert len(lab.nodes()) == 4


def test_a_worker_can_hold_two_cards(lab: Any) -> None:
    lab.gpu_pool(gpus=[{"name": L40S}, {"name": L40S}])
    lab.run_until(lab.joined, BUDGET)
    (pod,) = [p for p in lab.ours("v1", "Pod") if "virt-launcher" in p["metadata"]["name"]]
    assert pod["spec"]["containers"][0]["resources"]["limits"][L40S] == "2"
    environment = lab.world.hosts.environment(pod)
    assert environment == {"PCI_RESOURCE_NVIDIA_COM_AD102GL_L40S": "0000:17:00.0,0000:65:00.0"}
    (guest,) = lab.world.guests.all()
    assert len({card.bdf for card in guest.cards}) == len({c.uuid for c in guest.cards}) == 2


def test_a_host_that_promises_more_cards_than_it_has_refuses_the_pod(lab: Any) -> None:
    def promise(node: Any) -> None:
        node["status"]["allocatable"][L40S] = "8"

    lab.management.edit("v1", "Node", "", "hv-1", promise, manager="kubelet", subresource="status")
    lab.gpu_pool(minReplicas=5, maxReplicas=5)
    lab.run(240)
    (event, *_) = lab.events("UnexpectedAdmissionError")
    assert "Available: 0" in event["message"]
    assert len(lab.joined()) == 4


def test_a_refused_render_is_the_releases_own_failure_and_is_tried_again(lab: Any) -> None:
    lab.pool("gpu", talos={"version": "v1.13"})
    lab.run_until(lambda: (release(lab).get("status") or {}).get("installFailures") == 3, 120)
    failed = release(lab)
    for kind in ("Ready", "Released"):
        assert condition(failed, kind) == "False"
        assert condition(failed, kind, "reason") == "InstallFailed"
    message = condition(failed, "Ready", "message")
    assert message.startswith(
        "Helm install failed for release tenant-hil/kubernetes-nodes-lab-gpu "
        "with chart kubernetes-nodes@1.7.0: execution error at ("
    )
    assert '"v1.13" is not a vMAJOR.MINOR.PATCH release' in message
    assert failed["status"]["installFailures"] >= 3
    assert not failed["status"].get("history")
    assert lab.events("InstallFailed")[0]["type"] == "Warning"
    assert lab.ours(CAPI, "MachineDeployment") == []
    lab.edit_pool("gpu", lambda pool: pool["spec"].pop("talos"))
    lab.run_until(lambda: condition(release(lab), "Ready") == "True", 10)
    assert "installFailures" not in release(lab)["status"]


def test_a_refused_edit_leaves_the_running_pool_as_it_was(lab: Any) -> None:
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    uid = lab.one(CAPI, "Machine")["metadata"]["uid"]
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(kernelModules=[{"name": "Bad Name"}]))
    lab.run(60)
    failed = release(lab)
    assert condition(failed, "Ready", "reason") == "UpgradeFailed"
    assert "invalid kernelModules name" in condition(failed, "Ready", "message")
    assert failed["spec"]["values"]["kernelModules"] == [{"name": "Bad Name"}]
    assert [entry["status"] for entry in failed["status"]["history"]] == ["deployed"]
    assert lab.one(CAPI, "Machine")["metadata"]["uid"] == uid


def test_a_changed_module_list_rolls_the_pool_where_templates_are_named_by_content(
    lab: Any,
) -> None:
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    old = lab.one(CAPI, "Machine")["metadata"]["name"]
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(kernelModules=[]))
    seen = lab.record()
    lab.run_until(
        lambda: (
            [m["metadata"]["name"] for m in lab.joined()] not in ([], [old])
            and len(lab.management.all(CAPI, "Machine")) == 1
        ),
        600,
    )
    assert [node["metadata"]["name"] for node in lab.nodes()] != [old]
    names = {c.obj["metadata"]["name"] for c in seen if c.resource.kind == "TalosConfigTemplate"}
    assert len(names) == 1  # one more, beside the first
    history = [entry["status"] for entry in release(lab)["status"]["history"]]
    assert history == ["deployed", "superseded"]


def test_a_changed_module_list_is_refused_silently_where_the_template_has_a_fixed_name(
    lab: Any,
) -> None:
    lab.world.chart = replace(lab.world.chart, content_named=False)
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    template = lab.one(BOOTSTRAP, "TalosConfigTemplate")
    assert template["metadata"]["name"] == "kubernetes-lab-gpu"
    assert "labels" not in template["metadata"]
    uid = lab.one(CAPI, "Machine")["metadata"]["uid"]
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(kernelModules=[]))
    lab.run(60)
    assert condition(release(lab), "Ready") == "True"
    assert lab.one(BOOTSTRAP, "TalosConfigTemplate")["spec"] == template["spec"]
    assert lab.one(CAPI, "Machine")["metadata"]["uid"] == uid
    failed = [p for p in lab.ours("v1", "Pod", "talos-reconcile")
              if p["status"]["phase"] == "Failed"]  # fmt: skip
    log = lab.world.logs("management", NAMESPACE, failed[0]["metadata"]["name"], "kubectl")
    assert b"vtalosconfigtemplate.cluster.x-k8s.io" in log and b"immutable" in log
    lab.delete_pool()
    lab.run(120)
    assert lab.management.all(BOOTSTRAP, "TalosConfigTemplate") == []


def test_the_webhook_refuses_a_change_by_hand_too(lab: Any) -> None:
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    name = lab.one(BOOTSTRAP, "TalosConfigTemplate")["metadata"]["name"]
    with pytest.raises(ApiError, match="immutable"):
        lab.management.edit(
            BOOTSTRAP, "TalosConfigTemplate", NAMESPACE, name,
            lambda t: t["spec"]["template"]["spec"].update(data=""), manager="kubectl",
        )  # fmt: skip


def test_an_upgrade_of_the_chart_reaches_every_pool_and_the_same_render_rolls_nothing(
    lab: Any,
) -> None:
    lab.gpu_pool()
    lab.pool("plain")
    lab.run_until(lambda: len(lab.joined()) == 2, BUDGET)
    uids = {m["metadata"]["uid"] for m in lab.management.all(CAPI, "Machine")}
    lab.world.chart = replace(lab.world.chart, version="1.8.0")
    lab.run(120)
    assert release(lab)["status"]["lastAttemptedRevision"] == "1.8.0"
    assert {m["metadata"]["uid"] for m in lab.management.all(CAPI, "Machine")} == uids
    lab.world.chart = replace(lab.world.chart, version="1.8.1", drop_parameters=True)
    lab.run(400)
    after = {m["metadata"]["uid"] for m in lab.management.all(CAPI, "Machine")}
    assert len(after) == 2 and len(after & uids) == 1  # only the pool with a card


def test_machines_wait_for_the_template_that_the_job_writes(lab: Any) -> None:
    secret = lab.management.find("v1", "Secret", NAMESPACE, "kubernetes-lab-talos-ca")
    kind = lab.management.registry.by_kind("v1", "Secret")
    lab.management.delete(kind, NAMESPACE, "kubernetes-lab-talos-ca")
    lab.pool("plain")
    lab.run(60)
    created = lab.one(CAPI, "MachineSet")
    assert condition(created, "MachinesCreated", "reason") == "BootstrapTemplateCloningFailed"
    assert condition(release(lab, "plain"), "Ready") == "True"
    (pod,) = lab.ours("v1", "Pod", "talos-reconcile")
    log = lab.world.logs("management", NAMESPACE, pod["metadata"]["name"], "kubectl")
    assert b"waiting for Secret kubernetes-lab-talos-ca" in log
    lab.management.create(
        kind,
        {"metadata": {"name": "kubernetes-lab-talos-ca"}, "data": secret["data"]},
        namespace=NAMESPACE,
    )
    lab.run_until(lab.joined, BUDGET + 120)


def test_the_job_is_gone_ten_minutes_after_it_is_done_and_its_template_stays(lab: Any) -> None:
    lab.pool("plain")
    lab.run(60)
    assert condition(lab.one("batch/v1", "Job"), "Complete") == "True"
    lab.run(600)
    assert lab.management.all("batch/v1", "Job") == []
    assert lab.one(BOOTSTRAP, "TalosConfigTemplate")


def test_a_tenant_without_etcd_gets_a_config_map_and_nothing_else(lab: Any) -> None:
    lab.management.delete(lab.management.registry.by_kind(KAMAJI, "DataStore"), "", "tenant-root")
    lab.pool("plain")
    lab.run(60)
    found = release(lab, "plain")
    assert condition(found, "Ready") == "True"
    ids = [entry["id"] for entry in found["status"]["inventory"]["entries"]]
    assert ids == ["tenant-hil_kubernetes-nodes-lab-plain-awaiting-etcd__ConfigMap"]
    assert lab.management.all(CAPI, "MachineDeployment") == []


def test_an_image_the_factory_does_not_have_is_imported_again_and_again(lab: Any) -> None:
    unknown = "f" * 64
    lab.pool("plain", osImage={"factory": {"schematicID": unknown}})
    lab.run(400)
    volume = lab.one(CDI, "DataVolume")
    assert volume["status"]["phase"] == "ImportInProgress"
    assert volume["status"]["restartCount"] >= 2
    assert condition(volume, "Running", "reason") == "Error"
    assert lab.events("ErrImportFailed")
    assert lab.management.all(KUBEVIRT, "VirtualMachineInstance") == []


def test_a_disk_of_a_late_binding_class_waits_for_its_vm(lab: Any) -> None:
    seen = lab.record()
    lab.pool("plain", storageClass="local")
    lab.run_until(lab.joined, BUDGET)
    phases = [
        c.obj["status"]["phase"]
        for c in seen
        if c.resource.kind == "DataVolume" and c.obj.get("status")
    ]
    assert "WaitForFirstConsumer" in phases
    assert lab.management.all("v1", "PersistentVolumeClaim", NAMESPACE)[0]["spec"][
        "accessModes"
    ] == ["ReadWriteOnce"]


def test_an_unknown_instance_type_is_the_machines_failure(lab: Any) -> None:
    lab.pool("plain", instanceType="u1.huge")
    lab.run(200)
    machine = lab.one(KUBEVIRT, "VirtualMachine")
    assert condition(machine, "Failure") == "True"
    assert "u1.huge" in condition(machine, "Failure", "message")


def test_a_refused_virtual_machine_is_told_on_the_kubevirt_machine(lab: Any) -> None:
    def refuse(question: Any) -> Any:
        if question.resource.kind == "VirtualMachine" and question.verb == "CREATE":
            raise ApiError(403, "exceeded quota: tenant-quota")
        return question.obj

    lab.world.admission.append(refuse)
    lab.pool("plain")
    lab.run(60)
    own = lab.one(INFRA, "KubevirtMachine")
    assert condition(own, "VMProvisioned", "reason") == "VMCreateFailed"
    lab.world.admission.remove(refuse)
    lab.run_until(lab.joined, BUDGET)


def test_what_is_created_can_be_followed_and_edited(lab: Any) -> None:
    names: list[str] = []
    lab.world.on_created(
        KUBEVIRT, "VirtualMachine", lambda vm: names.append(vm["metadata"]["name"])
    )
    lab.world.on_created("v1", "Node", lambda n: names.append(n["metadata"]["name"]), "tenant-lab")
    lab.pool("plain")
    lab.run_until(lab.joined, BUDGET)
    assert len(names) == 2 and names[0] == names[1]


def test_the_cr_is_a_view_of_the_releases_values(lab: Any) -> None:
    shown = lab.gpu_pool()
    stored = release(lab)
    assert shown["metadata"]["uid"] == stored["metadata"]["uid"]
    assert "kernelModules" not in stored["spec"]["values"]
    assert shown["spec"] == stored["spec"]["values"]
    lab.management.edit(
        HELM, "HelmRelease", NAMESPACE, "kubernetes-nodes-lab-gpu",
        lambda hr: hr["spec"]["values"].update({"_cluster": {"x": 1}, "maxReplicas": 3}),
        manager="platform",
    )  # fmt: skip
    again = lab.management.find(APPS, "KubernetesNodes", NAMESPACE, "lab-gpu")
    assert again["spec"]["maxReplicas"] == 3 and "_cluster" not in again["spec"]
    lab.edit_pool("gpu", lambda pool: pool["spec"].update(kernelModules=[]))
    values = release(lab)["spec"]["values"]
    assert values["kernelModules"] == [] and values["_cluster"] == {"x": 1}
    assert stored["metadata"]["labels"]["sharding.fluxcd.io/key"] == "tenants"


def test_the_tenants_kubeconfig_is_in_both_keys(lab: Any) -> None:
    lab.world.set_tenant_kubeconfig("lab", "apiVersion: v1\n")
    secret = lab.management.find("v1", "Secret", NAMESPACE, "kubernetes-lab-admin-kubeconfig")
    assert set(secret["data"]) == {"super-admin.conf", "super-admin.svc"}
    assert set(secret["data"].values()) == {"YXBpVmVyc2lvbjogdjEK"}
