from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.world import pool_chart
from harness.twin.world.chart_behaviour import ChartBehaviour, RenderRefused
from harness.twin.world.images import NVIDIA_OPEN, VANILLA
from harness.twin.world.pool_disk import Release

L40S = {"name": "nvidia.com/AD102GL_L40S"}
AMD = {"name": "amd.com/MI300X"}
CHART = ChartBehaviour()
GOLDEN = {
    "spec": {"storage": {"storageClassName": "replicated",
                         "resources": {"requests": {"storage": "6Gi"}}}},
    "status": {"phase": "Succeeded"},
}  # fmt: skip


def render(
    values: dict[str, Any],
    chart: ChartBehaviour = CHART,
    name: str = "kubernetes-nodes-lab-p",
    golden: Any = None,
) -> dict[str, Any]:
    def find(api_version: str, kind: str, namespace: str, wanted: str) -> Any:
        return {
            "Cluster": {},
            "TenantControlPlane": {"spec": {"dataStore": "etcd"}},
            "DataStore": {},
            "DataVolume": golden,
        }[kind]

    release = Release(name, "tenant-hil", find)
    manifests = pool_chart.render({"cluster": "lab", **values}, release, chart)
    return {manifest["kind"]: manifest for manifest in manifests}


def config(values: dict[str, Any], chart: ChartBehaviour = CHART) -> Any:
    script = render(values, chart)["Job"]["spec"]["template"]["spec"]["containers"][0]["command"]
    return yaml.safe_load(script[-1].split("<<EOF\n")[1].split("\nEOF")[0])


AUTOMATIC = [
    {"name": "nvidia", "parameters": ["NVreg_NvLinkDisable=1"]},
    {"name": "nvidia_uvm"},
    {"name": "nvidia_drm"},
    {"name": "nvidia_modeset"},
]


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"gpus": [L40S]}, AUTOMATIC),
        ({}, None),
        ({"gpus": [AMD]}, None),
        ({"gpus": [L40S], "kernelModules": []}, None),
        ({"gpus": [L40S], "kernelModules": [{"name": "zram"}]}, [{"name": "zram"}]),
        (
            {"kernelModules": [{"name": "a", "parameters": ["x=1;y=2"], "junk": "$(id)"}]},
            [{"name": "a", "parameters": ["x=1;y=2"]}],
        ),
    ],
)
def test_the_three_states_of_kernel_modules(values: dict[str, Any], expected: Any) -> None:
    machine = config(values)["machine"]
    if expected is None:
        assert "kernel" not in machine
    else:
        assert machine["kernel"]["modules"] == expected


def test_the_gpu_label_stays_when_modules_are_opted_out_of() -> None:
    machine = config({"gpus": [L40S], "kernelModules": []})["machine"]
    assert machine["nodeLabels"] == {"gpu": "on"}
    assert "nodeLabels" not in config({})["machine"]


@pytest.mark.parametrize(
    ("change", "check"),
    [
        ({"kernel_modules": False}, lambda m: "kernel" not in m),
        ({"automatic_modules": False}, lambda m: "kernel" not in m),
        ({"indent_modules": False}, lambda m: m.get("modules") == AUTOMATIC and not m["kernel"]),
        ({"drop_parameters": True}, lambda m: "parameters" not in m["kernel"]["modules"][0]),
        ({"empty_means_absent": True}, lambda m: "kernel" not in m),
        ({"installer_schematic": VANILLA}, lambda m: VANILLA in m["install"]["image"]),
    ],
)
def test_each_revision_of_the_chart_renders_its_own_way(change: Any, check: Any) -> None:
    values = {"gpus": [L40S], "osImage": {"factory": {"schematicID": NVIDIA_OPEN}}}
    good = config(values)["machine"]
    assert not check(good)
    assert check(config(values, replace(CHART, **change))["machine"])


def test_boot_source_and_installer_name_one_schematic() -> None:
    values = {"osImage": {"factory": {"schematicID": NVIDIA_OPEN, "version": "v1.13.5"}}}
    template = render(values)["KubevirtMachineTemplate"]
    machine = template["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
    (disk,) = machine["dataVolumeTemplates"]
    url = f"https://factory.talos.dev/image/{NVIDIA_OPEN}/v1.13.5/openstack-amd64.raw.xz"
    assert disk["spec"]["source"] == {"http": {"url": url}}
    assert disk["metadata"]["annotations"] == {"cdi.kubevirt.io/storage.usePopulator": "false"}
    image = f"factory.talos.dev/installer/{NVIDIA_OPEN}:v1.13.5"
    assert config(values)["machine"]["install"]["image"] == image


def test_a_builtin_image_clones_its_golden() -> None:
    template = render({"osImage": {"builtin": {}}}, golden=GOLDEN)["KubevirtMachineTemplate"]
    machine = template["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
    (disk,) = machine["dataVolumeTemplates"]
    golden = f"talos-worker-{VANILLA}-v1.13.6"
    assert disk["spec"]["source"] == {"pvc": {"namespace": "cozy-public", "name": golden}}
    assert set(disk["metadata"]["annotations"].values()) == {golden, "kubernetes-lab-p"}


def test_names_follow_the_content() -> None:
    def names(values: dict[str, Any], chart: ChartBehaviour = CHART) -> list[str]:
        found = render(values, chart)
        bootstrap = found["MachineDeployment"]["spec"]["template"]["spec"]["bootstrap"]
        return [
            found["KubevirtMachineTemplate"]["metadata"]["name"],
            bootstrap["configRef"]["name"],
            found["Job"]["metadata"]["name"],
        ]

    machine, talos, job = names({})
    assert names({}) == [machine, talos, job]
    assert names({"diskSize": "30Gi"})[0] != machine and names({"diskSize": "30Gi"})[1] == talos
    changed = names({"kernelModules": [{"name": "zram"}]})
    assert changed[0] == machine and changed[1] != talos and changed[2] != job
    assert names({}, replace(CHART, content_named=False))[1] == "kubernetes-lab-p"
    assert len(job) <= 63


def test_a_machine_deployment_leaves_its_replicas_to_the_autoscaler() -> None:
    deployment = render({"minReplicas": 2, "maxReplicas": 5})["MachineDeployment"]
    assert "replicas" not in deployment["spec"]
    assert deployment["metadata"]["annotations"][pool_chart.MIN_SIZE] == "2"
    rolling = deployment["spec"]["strategy"]["rollingUpdate"]
    assert rolling == {"maxSurge": 5, "maxUnavailable": 1}


@pytest.mark.parametrize(
    ("values", "fragment"),
    [
        ({"osImage": {"builtin": {}, "factory": {}}}, "set only one of"),
        ({"osImage": {"factory": {"schematicID": "No_Such"}}}, "plain lowercase alphanumeric"),
        ({"talos": {"version": "v1.13"}}, "is not a vMAJOR.MINOR.PATCH release"),
        ({"talos": {"imageFactoryURL": ""}}, "is not a plain http(s) URL"),
        ({"osImage": {"builtin": {}}}, "osImage.builtin requested golden DataVolume"),
        ({"osImage": {"builtin": {}}}, "not found in cozy-public"),
        ({"resources": {"cpu": "2"}}, "both cpu and memory"),
        ({"version": "v1.99"}, "v1.99"),
        ({"kernelModules": [{"name": "Nvidia"}]}, "pool p: invalid kernelModules name"),
        ({"kernelModules": [{"name": "a", "parameters": ["b c"]}]}, "kernelModules parameter"),
    ],
)
def test_what_the_chart_refuses(values: dict[str, Any], fragment: str) -> None:
    with pytest.raises(RenderRefused) as refused:
        render(values)
    assert fragment in refused.value.message
    assert refused.value.message.startswith("execution error at (kubernetes-nodes/templates/")


@pytest.mark.parametrize(
    ("golden", "values", "fragment"),
    [
        ({**GOLDEN, "status": {"phase": "Failed"}}, {}, "failed to import (phase Failed)"),
        (GOLDEN, {"storageClass": "local"}, "storageClass local differs from golden image"),
        (GOLDEN, {"diskSize": "4Gi"}, "diskSize 4Gi is smaller than golden image"),
    ],
)
def test_what_the_chart_refuses_of_a_golden(golden: Any, values: Any, fragment: str) -> None:
    with pytest.raises(RenderRefused, match="golden") as refused:
        render({"osImage": {"builtin": {}}, **values}, golden=golden)
    assert fragment in refused.value.message


def test_a_pool_must_be_named_after_its_cluster() -> None:
    with pytest.raises(RenderRefused, match="<cluster>-<pool>"):
        render({}, name="kubernetes-nodes-other-p")


def test_a_line_separator_is_refused_by_name_or_breaks_the_yaml_of_a_careless_chart() -> None:
    values = {"kernelModules": [{"name": "a", "parameters": ["x=1\u20282"]}]}
    with pytest.raises(RenderRefused, match="invalid kernelModules parameter"):
        render(values)
    with pytest.raises(RenderRefused) as broken:
        render(values, replace(CHART, ascii_parameters=False))
    assert "kernelModules" not in broken.value.message
    assert "YAML parse error" in broken.value.message


@given(st.text(max_size=12))
def test_a_parameter_survives_to_the_letter_or_is_refused(parameter: str) -> None:
    values = {"kernelModules": [{"name": "a", "parameters": [parameter]}]}
    fine = bool(parameter) and all("!" <= c <= "~" and c not in "$`\\'\"" for c in parameter)
    if fine:
        assert config(values)["machine"]["kernel"]["modules"][0]["parameters"] == [parameter]
    else:
        with pytest.raises(RenderRefused, match="kernelModules parameter"):
            render(values)
