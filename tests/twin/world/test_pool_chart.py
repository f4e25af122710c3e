from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harness.twin.world import pool_chart
from harness.twin.world.chart_behaviour import ChartBehaviour, DiskRules, RenderRefused
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
        }.get(kind)

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


@pytest.mark.parametrize(
    "values",
    [
        {"talos": {"version": "v1.13.6-alpha.1"}},
        {"talos": {"imageFactoryURL": "http://factory:8080/"}},
        {"osImage": {"factory": {"imageFactoryURL": ""}}},
        {"osImage": {"builtin": {}}, "talos": {"imageFactoryURL": ""}},
    ],
)
def test_what_the_chart_does_not_refuse(values: dict[str, Any]) -> None:
    assert render(values, golden=GOLDEN)["MachineDeployment"]


def test_before_the_rules_an_image_that_cannot_boot_was_rendered() -> None:
    before = replace(CHART, disks=DiskRules(lacks=frozenset({"R2", "R3", "R4"})))
    values = {"talos": {"version": "v1.13", "imageFactoryURL": "", "schematicID": "No_Such"}}
    template = render(values, before)["KubevirtMachineTemplate"]
    machine = template["spec"]["template"]["spec"]["virtualMachineTemplate"]["spec"]
    source = machine["dataVolumeTemplates"][0]["spec"]["source"]
    assert source == {"http": {"url": "/image/No_Such/v1.13/openstack-amd64.raw.xz"}}


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


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ({}, "kubernetes-lab-p-d010fc"),
        ({"osImage": {"factory": {}}}, "kubernetes-lab-p-d010fc"),
        ({"storageClass": ""}, "kubernetes-lab-p-08401b"),
        ({"gpus": [L40S]}, "kubernetes-lab-p-719e99"),
    ],
)
def test_a_pool_that_adopts_nothing_renders_as_the_chart_before_rendered_it(
    values: dict[str, Any], name: str
) -> None:
    """The template's name is a hash of its content: another one re-images the whole pool."""
    assert render(values)["KubevirtMachineTemplate"]["metadata"]["name"] == name


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
        ({"osImage": {"builtin": {}, "factory": None}}, 'nodeGroup "p": set only one of'),
        (
            {"osImage": {"builtin": {"schematicID": "No_Such"}}},
            'nodeGroup "p": Talos schematicID "No_Such" is not a plain lowercase alphanumeric',
        ),
        ({"talos": {"schematicID": "-a"}}, "is not a plain lowercase alphanumeric identifier"),
        ({"talos": {"schematicID": "a\n"}}, "is not a plain lowercase alphanumeric identifier"),
        (
            {"osImage": {"factory": {"version": "1.13.6"}}},
            'Talos version "1.13.6" is not a vMAJOR.MINOR.PATCH release',
        ),
        ({"talos": {"version": "v1.13.6 x"}}, "is not a vMAJOR.MINOR.PATCH release"),
        (
            {"talos": {"version": "v1.13"}, "osImage": {"builtin": {"version": "v1.13.6"}}},
            'Talos version "v1.13" is not a vMAJOR.MINOR.PATCH release',
        ),
        (
            {"osImage": {"factory": {"imageFactoryURL": "ftp://x"}}},
            'imageFactoryURL "ftp://x" is not a plain http(s) URL',
        ),
        ({"diskSize": "big"}, "at '/diskSize': 'big' does not match pattern"),
        ({"osImage": "builtin"}, "at '/osImage': got string, want object"),
        ({"osImage": {"builtin": "x"}}, "at '/osImage/builtin': got string, want object"),
        (
            {"osImage": {"factory": {"version": 1}}},
            "at '/osImage/factory/version': got number, want string",
        ),
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
    heads = ("execution error at (kubernetes-nodes/templates/", "values don't meet the spec")
    assert refused.value.message.startswith(heads)


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


def versions(
    values: dict[str, Any], parent: str = "v1.35.0", holder: str = "", chart: ChartBehaviour = CHART
) -> str:
    """What the chart refuses of a pool beside a parent; "" where it renders."""

    def find(api_version: str, kind: str, namespace: str, wanted: str) -> Any:
        notes = {"meta.helm.sh/release-name": holder} if holder else {}
        return {
            "Cluster": {},
            "TenantControlPlane": {"spec": {"dataStore": "etcd"}},
            "DataStore": {},
            "KamajiControlPlane": {"spec": {"version": parent}},
            "MachineDeployment": {"metadata": {"name": wanted, "annotations": notes}},
        }.get(kind)

    release = Release("kubernetes-nodes-lab-p", "tenant-hil", find)
    try:
        pool_chart.render({"cluster": "lab", **values}, release, chart)
    except RenderRefused as refused:
        return refused.text
    return ""


@pytest.mark.parametrize(
    ("kubernetes", "talos", "image", "named"),
    [
        ("v1.35", "v1.11.5", {}, "Kubernetes v1.35 is not supported by Talos v1.11.5."),
        ("v1.30", "v1.13.6", {}, "Kubernetes v1.30 is not supported by Talos v1.13.6."),
        ("v1.35", "v1.13.6", {"factory": {"version": "v1.10.0"}}, "Talos v1.10.0."),
        ("v1.35", "v1.10.0", {"factory": {"version": "v1.13.6"}}, "Talos v1.10.0."),
        ("v1.30", "v1.99.0", {"factory": {"version": "v1.13.6"}}, "Talos v1.13.6."),
    ],
)
def test_a_pair_that_the_matrix_does_not_have_is_refused_for_either_release(
    kubernetes: str, talos: str, image: Any, named: str
) -> None:
    values = {"version": kubernetes, "talos": {"version": talos}, "osImage": image}
    text = versions(values)
    assert named in text and "Supported versions: v1." in text
    lax = replace(CHART, disks=DiskRules(lacks=frozenset({"R10"})))
    assert "is not supported" not in versions(values, chart=lax)


def test_a_talos_minor_that_is_not_listed_passes() -> None:
    assert versions({"talos": {"version": "v1.99.0"}}) == ""
    assert versions({"talos": {"version": "v1.7.1"}, "version": "v1.31"}) == ""


@pytest.mark.parametrize("parent", ["v1.34.2", "v1.31.0", "1.34.2"])
def test_a_pool_may_not_be_ahead_of_its_parent(parent: str) -> None:
    text = versions({"version": "v1.35"}, parent)
    assert 'pool version "v1.35" is ahead of parent cluster "kubernetes-lab"' in text
    assert f'version "{parent}"' in text
    lax = replace(CHART, disks=DiskRules(lacks=frozenset({"R11"})))
    assert versions({"version": "v1.35"}, parent, chart=lax) == ""


@pytest.mark.parametrize("parent", ["v1.35.0", "v1.36.1", "", "unknown"])
def test_a_pool_may_lag_behind_or_beside_a_parent_that_says_nothing(parent: str) -> None:
    assert versions({"version": "v1.35"}, parent) == ""


def test_a_pool_that_another_release_holds_is_refused() -> None:
    text = versions({}, holder="kubernetes-lab")
    assert 'MachineDeployment "kubernetes-lab-p" in namespace "tenant-hil" is already' in text
    assert 'release "kubernetes-lab", not this pool release "kubernetes-nodes-lab-p"' in text
    assert versions({}, holder="kubernetes-nodes-lab-p") == versions({}) == ""
    lax = replace(CHART, disks=DiskRules(lacks=frozenset({"R12"})))
    assert versions({}, holder="kubernetes-lab", chart=lax) == ""
