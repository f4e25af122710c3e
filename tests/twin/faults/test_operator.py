"""What the faults of the GPU operator do to a tenant cluster, and to its next pod."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.twin.world import conditions

SPACE = "cozy-gpu-operator"
PLUGIN = "nvidia-device-plugin-daemonset"
VALIDATOR = "nvidia-operator-validator"
Make = Callable[[str], Any]


def plugin_env(lab: Any) -> dict[str, str]:
    found = lab.tenant.find("apps/v1", "DaemonSet", SPACE, PLUGIN)
    (container,) = found["spec"]["template"]["spec"]["containers"]
    return {one["name"]: one.get("value", "") for one in container["env"]}


def release(lab: Any, name: str) -> Any:
    return lab.world.management.find(
        "helm.toolkit.fluxcd.io/v2", "HelmRelease", "tenant-hil", f"kubernetes-lab{name}"
    )


def stage(lab: Any, name: str) -> Any:
    statuses = lab.operand(VALIDATOR)["status"]["initContainerStatuses"]
    return next(one for one in statuses if one["name"] == name)


def test_before_the_release_a_driver_container_stands_in_the_way(faulty: Make) -> None:
    lab = faulty("legacy-operator-default")
    lab.pool()
    lab.run(1500.0)
    assert lab.tenant.find("apps/v1", "DaemonSet", SPACE, "nvidia-driver-daemonset")
    assert "running" in stage(lab, "driver-validation")["state"]
    assert not lab.offered() and lab.guest.kernel.driven()


def test_an_override_of_the_same_values_changes_nothing_that_runs(faulty: Make) -> None:
    lab = faulty("override-masks-default")
    lab.card()
    assert plugin_env(lab)["DEVICE_LIST_STRATEGY"] == "cdi-annotations"
    values = release(lab, "")["spec"]["values"]["addons"]["gpuOperator"]
    assert values["valuesOverride"]["gpu-operator"]["driver"] == {"enabled": False}
    inner = release(lab, "-gpu-operator")["spec"]["values"]["gpu-operator"]
    assert inner["devicePlugin"]["env"][0]["name"] == "DEVICE_LIST_STRATEGY"


def test_one_variable_drops_the_five_and_pods_work_by_luck(faulty: Make) -> None:
    lab = faulty("env-list-replaced")
    lab.card()
    live = plugin_env(lab)
    assert live["MIG_STRATEGY"] == "none" and "NVIDIA_CTK_PATH" not in live
    assert live["DEVICE_LIST_STRATEGY"] == "cdi-annotations,cdi-cri"
    lab.pod("fresh", cards=1)
    assert lab.smi("fresh").stdout.startswith(b"GPU 0: NVIDIA L40S")


@pytest.mark.parametrize(
    ("fault", "live"), [("strategy-envvar", "envvar"), ("plugin-env-edited-live", None)]
)
def test_a_card_without_libraries(faulty: Make, fault: str, live: str | None) -> None:
    lab = faulty(fault)
    lab.card()
    lab.run(300.0)
    assert plugin_env(lab).get("DEVICE_LIST_STRATEGY") == live
    lab.pod("fresh", cards=1)
    ran = lab.smi("fresh")
    assert 'exec: "nvidia-smi": executable file not found' in ran.error
    # what was edited with kubectl is not what was rendered
    inner = release(lab, "-gpu-operator")["spec"]["values"]["gpu-operator"]
    rendered = {one["name"]: one["value"] for one in inner["devicePlugin"]["env"]}
    wanted = "envvar" if live else "cdi-annotations"
    assert rendered["DEVICE_LIST_STRATEGY"] == wanted


def test_a_green_policy_without_any_operand(faulty: Make) -> None:
    lab = faulty("clusterpolicy-green-no-gpu")
    lab.pool()
    lab.run(1500.0)
    (policy,) = lab.tenant.all("nvidia.com/v1", "ClusterPolicy")
    assert policy["status"]["state"] == "ready"
    assert conditions.find(policy, "Ready")["reason"] == "NFDLabelsMissing"
    names = [one["metadata"]["name"] for one in lab.tenant.all("apps/v1", "DaemonSet")]
    assert VALIDATOR not in names and PLUGIN not in names
    assert lab.guest.kernel.driven() and not lab.offered()


def test_a_helper_works_in_secret(faulty: Make) -> None:
    lab = faulty("rogue-driver-daemonset")
    lab.card()
    assert lab.guest.default_runtime == "nvidia"
    (helper,) = lab.tenant.all("v1", "Pod", "gpu-helper")
    paths = {one["hostPath"]["path"] for one in helper["spec"]["volumes"]}
    assert "/etc/containerd" in paths and conditions.holds(helper, "Ready")
    lab.pod("fresh", cards=1)
    assert b"NVIDIA L40S" in lab.smi("fresh").stdout


def test_hami_deals_out_cards_without_libraries(faulty: Make) -> None:
    lab = faulty("hami-unsupported")
    lab.card()
    assert lab.tenant.find("apps/v1", "DaemonSet", SPACE, PLUGIN) is None
    assert lab.tenant.find("apps/v1", "DaemonSet", "cozy-hami", "hami-device-plugin")
    lab.pod("fresh", cards=1)
    assert lab.smi("fresh").exit_code


def test_the_validator_looks_where_an_older_image_has_nothing(faulty: Make) -> None:
    lab = faulty("validator-preinstalled-not-detected")
    lab.pool()
    lab.run(1500.0)
    assert lab.guest.run(["chroot", "/host", "/usr/local/bin/nvidia-smi", "-L"]).exit_code == 0
    said = lab.world.logs(
        "tenant-lab", SPACE, lab.operand(VALIDATOR)["metadata"]["name"], "driver-validation"
    )
    assert b"No pre-installed driver detected on the host" in said and not lab.offered()
