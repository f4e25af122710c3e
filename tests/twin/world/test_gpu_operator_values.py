"""The gpu-operator and HAMi addons: values, releases, what follows from an edit or an upgrade."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from harness.twin.world.chart_behaviour import KubernetesChart, RenderRefused
from harness.twin.world.gpu_values import gpu_operator, hami, overlaid
from harness.twin.world.objects import HELM

SCHEMA = Path(__file__).resolve().parents[3] / "../shared/schemas/nvidia.com_v1_ClusterPolicy.json"
BUDGET = 300.0
SPACE = "cozy-gpu-operator"
PLUGIN = "nvidia-device-plugin-daemonset"
FIVE = {
    "DEVICE_LIST_STRATEGY": "cdi-annotations",
    "DEVICE_ID_STRATEGY": "uuid",
    "NVIDIA_DRIVER_ROOT": "/",
    "NVIDIA_CTK_PATH": "/usr/local/bin/nvidia-ctk",
    "CDI_ANNOTATION_PREFIX": "cdi.k8s.io/",
}
ON = {"addons": {"gpuOperator": {"enabled": True}}}


def pairs(env: list[Any]) -> dict[str, str]:
    return {one["name"]: one["value"] for one in env}


def release(lab: Any, addon: str = "gpu-operator") -> Any:
    return lab.management.find(HELM, "HelmRelease", "tenant-hil", f"kubernetes-lab-{addon}")


def condition(obj: Any, kind: str, field: str = "status") -> Any:
    found = [c for c in (obj.get("status") or {}).get("conditions") or () if c["type"] == kind]
    return found[0].get(field) if found else None


def edit(lab: Any, **addons: Any) -> None:
    """Change the addons of the Kubernetes application, as kubectl edit does."""
    lab.management.edit(
        "apps.cozystack.io/v1alpha1", "Kubernetes", "tenant-hil", "lab",
        lambda shown: shown["spec"]["addons"].update(addons), manager="kubectl",
    )  # fmt: skip


def policy(lab: Any) -> Any:
    return lab.one("nvidia.com/v1", "ClusterPolicy", lab.tenant)


def plugin_env(lab: Any) -> dict[str, str]:
    found = lab.tenant.find("apps/v1", "DaemonSet", SPACE, PLUGIN)
    return {
        one["name"]: one.get("value", "")
        for one in found["spec"]["template"]["spec"]["containers"][0]["env"]
    }


def allocatable(lab: Any) -> Any:
    return [node["status"]["allocatable"].get("nvidia.com/gpu") for node in lab.nodes()]


def test_the_default_is_the_os_provided_driver() -> None:
    found = gpu_operator(ON, KubernetesChart())
    assert list(found) == ["gpu-operator"]
    inner = found["gpu-operator"]
    assert set(inner) == {"driver", "toolkit", "validator", "devicePlugin"}
    assert inner["driver"] == inner["toolkit"] == {"enabled": False}
    assert pairs(inner["devicePlugin"]["env"]) == FIVE
    assert set(inner["devicePlugin"]) == {"env"}
    assert pairs(inner["validator"]["driver"]["env"]) == {
        "DRIVER_ROOT": "/",
        "NVIDIA_DRIVER_ROOT": "/",
        "DISABLE_DEV_CHAR_SYMLINK_CREATION": "true",
    }


def test_an_override_replaces_lists_and_merges_the_rest() -> None:
    one = [{"name": "MIG_STRATEGY", "value": "none"}]
    override = {"gpu-operator": {"devicePlugin": {"env": one}, "toolkit": {"version": "v1"}}}
    values = {"addons": {"gpuOperator": {"enabled": True, "valuesOverride": override}}}
    inner = gpu_operator(values, KubernetesChart())["gpu-operator"]
    assert inner["devicePlugin"]["env"] == one
    assert inner["toolkit"] == {"enabled": False, "version": "v1"}
    assert len(inner["validator"]["driver"]["env"]) == 3
    assert override["gpu-operator"]["devicePlugin"]["env"] is one
    assert overlaid({"a": {"b": 1}}, {"a": [2]}) == {"a": [2]}


def test_hami_switches_the_plugin_off_and_needs_the_operator() -> None:
    both = {"addons": {"gpuOperator": {"enabled": True}, "hami": {"enabled": True}}}
    inner = gpu_operator(both, KubernetesChart())["gpu-operator"]
    assert inner["devicePlugin"]["enabled"] is False
    assert pairs(inner["devicePlugin"]["env"]) == FIVE
    assert hami(both)["hami"]
    with pytest.raises(RenderRefused, match=r"addons\.hami requires"):
        hami({"addons": {"hami": {"enabled": True}}})


def test_the_release_of_the_addon_is_there_from_the_start(lab: Any) -> None:
    found = release(lab)
    spec = found["spec"]
    assert spec["releaseName"] == "gpu-operator"
    assert spec["targetNamespace"] == spec["storageNamespace"] == SPACE
    assert spec["kubeConfig"]["secretRef"] == {
        "name": "kubernetes-lab-admin-kubeconfig",
        "key": "super-admin.svc",
    }
    assert spec["dependsOn"] == [{"name": "kubernetes-lab-cilium", "namespace": "tenant-hil"}]
    assert (spec["interval"], spec["timeout"]) == ("5m", "10m")
    assert spec["install"]["remediation"] == spec["upgrade"]["remediation"] == {"retries": -1}
    assert spec["values"] == gpu_operator(ON, KubernetesChart())
    assert condition(found, "Ready") == "True"
    (entry,) = found["status"]["history"]
    assert (entry["namespace"], entry["name"], entry["status"]) == (
        SPACE,
        "gpu-operator",
        "deployed",
    )
    lab.run(600)
    assert len(release(lab)["status"]["history"]) == 1


def test_the_policy_says_what_the_values_say_and_is_valid(lab: Any) -> None:
    spec = policy(lab)["spec"]
    assert spec["driver"]["enabled"] is spec["toolkit"]["enabled"] is False
    assert spec["cdi"]["enabled"] is True
    assert pairs(spec["devicePlugin"]["env"]) == FIVE
    if not SCHEMA.is_file():
        pytest.skip("the CRD schemas are not beside this repository")
    jsonschema.validate(policy(lab), json.loads(SCHEMA.read_text())["schema"])


def test_an_override_reaches_the_live_daemonset(lab: Any) -> None:
    lab.gpu_pool()
    lab.run_until(lambda: allocatable(lab) == ["1"], BUDGET)
    one = {"gpu-operator": {"devicePlugin": {"env": [{"name": "MIG_STRATEGY", "value": "none"}]}}}
    edit(lab, gpuOperator={"enabled": True, "valuesOverride": one})
    lab.run_until(lambda: plugin_env(lab)["MIG_STRATEGY"] == "none", 60)
    found = plugin_env(lab)
    # the operator's own defaults for CDI come through; the chart's five are gone
    assert found["DEVICE_LIST_STRATEGY"] == "cdi-annotations,cdi-cri"
    assert found["CDI_ENABLED"] == "true"
    assert not {"NVIDIA_DRIVER_ROOT", "NVIDIA_CTK_PATH"} & set(found)
    inner = release(lab)["spec"]["values"]["gpu-operator"]
    assert inner["devicePlugin"]["env"] == one["gpu-operator"]["devicePlugin"]["env"]
    lab.run_until(lambda: condition(release(lab), "Ready") == "True", 60)
    assert [entry["version"] for entry in release(lab)["status"]["history"]] == [2, 1]
    lab.run_until(lambda: allocatable(lab) == ["1"], 90)
    edit(lab, gpuOperator={"enabled": True})
    lab.run_until(lambda: FIVE.items() <= plugin_env(lab).items(), 60)


def test_switching_the_addon_off_takes_it_down(lab: Any) -> None:
    lab.gpu_pool()
    lab.run_until(lambda: allocatable(lab) == ["1"], BUDGET)
    edit(lab, gpuOperator={"enabled": False})
    lab.run_until(lambda: release(lab) is None, 60)
    lab.run(20)
    assert lab.tenant.all("nvidia.com/v1", "ClusterPolicy") == []
    assert lab.tenant.all("apps/v1", "DaemonSet", SPACE) == []
    assert lab.tenant.all("v1", "Pod", SPACE) == []
    assert allocatable(lab) == ["0"]


def test_a_hand_edited_release_is_rendered_again_at_the_parents_next_upgrade(lab: Any) -> None:
    def change(stored: Any) -> None:
        stored["spec"]["values"]["gpu-operator"]["driver"]["enabled"] = True

    name = "kubernetes-lab-gpu-operator"
    lab.management.edit(HELM, "HelmRelease", "tenant-hil", name, change, manager="kubectl")
    lab.run_until(lambda: policy(lab)["spec"]["driver"]["enabled"], 30)
    edit(lab, gpuOperator={"enabled": True, "valuesOverride": {"note": 1}})
    lab.run_until(lambda: not policy(lab)["spec"]["driver"]["enabled"], 60)


def test_hami_without_the_operator_is_refused_at_render(lab: Any) -> None:
    edit(lab, gpuOperator={"enabled": False}, hami={"enabled": True})
    parent = ("tenant-hil", "kubernetes-lab")
    lab.run_until(
        lambda: condition(lab.management.find(HELM, "HelmRelease", *parent), "Ready") == "False", 30
    )
    found = lab.management.find(HELM, "HelmRelease", *parent)
    assert condition(found, "Ready", "reason") == "UpgradeFailed"
    assert "addons.hami requires addons.gpuOperator" in condition(found, "Ready", "message")
    assert release(lab) is not None and release(lab, "hami") is None


@pytest.mark.parametrize(
    "override",
    [7, ["a"], {"gpu-operator": "x"}, {"gpu-operator": {"devicePlugin": [], "driver": None}}],
)
def test_an_override_that_makes_no_sense_stops_nobody(lab: Any, override: Any) -> None:
    edit(lab, gpuOperator={"enabled": True, "valuesOverride": override})
    lab.gpu_pool()
    lab.run_until(lab.joined, BUDGET)
    lab.run(90)

    def settled() -> bool:
        parent = lab.management.find(HELM, "HelmRelease", "tenant-hil", "kubernetes-lab")
        return condition(parent, "Ready", "reason") in ("UpgradeFailed", "UpgradeSucceeded")

    lab.run_until(settled, 30)
    edit(lab, gpuOperator={"enabled": True})
    lab.run_until(lambda: allocatable(lab) == ["1"], 180)


def test_hami_advertises_cards_and_wires_nothing(lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    workers, plugins = lab.world.workers["lab"], []
    plug = workers.plug
    monkeypatch.setattr(workers, "plug", lambda node, one: (plugins.append(one), plug(node, one)))
    edit(lab, hami={"enabled": True})
    lab.gpu_pool()
    lab.run_until(lambda: allocatable(lab) == ["1"], BUDGET)
    assert lab.tenant.find("apps/v1", "DaemonSet", SPACE, PLUGIN) is None
    assert lab.tenant.find("apps/v1", "DaemonSet", "cozy-hami", "hami-device-plugin")
    needs = [one["name"] for one in release(lab, "hami")["spec"]["dependsOn"]]
    assert needs == ["kubernetes-lab-cilium", "kubernetes-lab-gpu-operator"]
    (plugin,) = plugins
    found = plugin.allocate(plugin.devices())
    assert found.cdi_devices == ()
    assert found.env == {"NVIDIA_VISIBLE_DEVICES": lab.world.guests.all()[0].cards[0].uuid}
    assert "/run/cdi/k8s.device-plugin.nvidia.com-gpu.json" not in lab.world.guests.all()[0].tmpfs


def test_the_release_before_the_os_driver_default_never_gets_there(lab: Any) -> None:
    lab.world.kubernetes_chart = replace(
        lab.world.kubernetes_chart, version="1.6.0", os_driver=False
    )
    lab.gpu_pool()

    def found() -> Any:
        return lab.tenant.find("apps/v1", "DaemonSet", SPACE, "nvidia-driver-daemonset")

    lab.run_until(found, BUDGET)
    lab.run(150)
    values = release(lab)["spec"]["values"]
    assert values["gpu-operator"] == {
        "driver": {"kernelModuleConfig": {"name": "nvidia-kernel-module-params"}}
    }
    parameters = lab.tenant.find("v1", "ConfigMap", SPACE, "nvidia-kernel-module-params")
    assert "NVreg_NvLinkDisable=1" in parameters["data"]["nvidia.conf"]
    assert lab.tenant.find("apps/v1", "DaemonSet", SPACE, "nvidia-container-toolkit-daemonset")
    pods = {pod["metadata"]["labels"].get("app"): pod for pod in lab.tenant.all("v1", "Pod", SPACE)}
    (driver,) = pods["nvidia-driver-daemonset"]["status"]["containerStatuses"]
    assert driver["restartCount"] >= 2 and not driver["ready"]
    validator = pods["nvidia-operator-validator"]
    stages = validator["status"]["initContainerStatuses"]
    assert "running" in stages[0]["state"] and stages[0]["name"] == "driver-validation"
    name = validator["metadata"]["name"]
    text = lab.world.logs("tenant-lab", SPACE, name, "driver-validation").decode()
    assert "No pre-installed driver detected on the host" in text
    assert text.count("command failed, retrying after 5 seconds") > 10
    assert pods[PLUGIN]["status"]["phase"] == "Pending"
    assert allocatable(lab) == [None]
    # the release with the new default arrives: what was stuck is made anew
    lab.world.kubernetes_chart = KubernetesChart()
    lab.run_until(lambda: found() is None, 120)
    lab.run_until(lambda: allocatable(lab) == ["1"], 300)


def test_a_chart_that_forgets_a_variable_shows_in_the_values_and_the_daemonset(lab: Any) -> None:
    chart = lab.world.kubernetes_chart
    lab.world.kubernetes_chart = replace(chart, version="1.7.1", plugin_env=chart.plugin_env[:2])
    lab.gpu_pool()
    lab.run_until(lambda: allocatable(lab) == ["1"], BUDGET)
    inner = release(lab)["spec"]["values"]["gpu-operator"]
    assert len(inner["devicePlugin"]["env"]) == 2
    assert "NVIDIA_DRIVER_ROOT" not in plugin_env(lab)


def test_an_addon_waits_for_what_it_depends_on(lab: Any) -> None:
    def suspend(stored: Any) -> None:
        stored["status"]["conditions"] = [
            {**one, "status": "False"} for one in stored["status"]["conditions"]
        ]

    where = ("tenant-hil", "kubernetes-lab-cilium")
    lab.management.edit(
        HELM, "HelmRelease", *where, lambda stored: stored["spec"].update(suspend=True), manager="k"
    )
    lab.management.edit(HELM, "HelmRelease", *where, suspend, manager="k", subresource="status")
    edit(lab, gpuOperator={"enabled": True, "valuesOverride": {"note": 1}})
    lab.run_until(lambda: condition(release(lab), "Ready", "reason") == "DependencyNotReady", 30)
    assert "kubernetes-lab-cilium" in condition(release(lab), "Ready", "message")
    assert len(release(lab)["status"]["history"]) == 1
    lab.management.edit(
        HELM,
        "HelmRelease",
        *where,
        lambda stored: stored["spec"].update(suspend=False),
        manager="k",
    )
    lab.run_until(lambda: condition(release(lab), "Ready") == "True", 90)
    assert len(release(lab)["status"]["history"]) == 2
