from __future__ import annotations

import pytest
import yaml

from tests.clients.driving import NAMESPACE, Kubectl, config_map, eventually, finish, lines_until

IN_SPACE = ("-n", NAMESPACE)


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("nodes", "NAME STATUS ROLES AGE VERSION"),
        ("vmi", "NAME AGE PHASE IP NODENAME READY"),
        ("machines", "NAME CLUSTER NODENAME PROVIDERID PHASE VERSION AGE"),
        ("kubernetesnodes", "NAME READY AGE VERSION"),
        ("dv", "NAME PHASE PROGRESS RESTARTS AGE"),
    ],
)
def test_kinds_are_shown_as_their_projects_show_them(lab: Kubectl, kind: str, columns: str) -> None:
    shown = lab("get", kind, *IN_SPACE).stdout.splitlines()
    assert shown[0].split() == columns.split()
    assert len(shown) > 1


def test_several_kinds_at_once_and_every_namespace(lab: Kubectl) -> None:
    text = lab("get", "pods,vmi,hr", "-A").stdout
    assert "pod/virt-launcher-kubernetes-lab-gpu-l40s" in text
    assert "virtualmachineinstance.kubevirt.io/kubernetes-lab-gpu-l40s" in text
    assert "helmrelease.helm.toolkit.fluxcd.io/tenant-root" in text
    heads = [line for line in text.splitlines() if line.startswith("NAMESPACE ")]
    assert len(heads) == 3


def test_output_forms(lab: Kubectl, tenant: Kubectl) -> None:
    (node,) = tenant.read("get", "nodes")["items"]
    name = node["metadata"]["name"]
    assert yaml.safe_load(tenant("get", "node", name, "-o", "yaml").stdout) == node
    assert tenant("get", "nodes", "-o", "name").stdout == f"node/{name}\n"
    wide = tenant("get", "nodes", "-o", "wide").stdout
    assert "KERNEL-VERSION" in wide
    assert "6.18" in wide
    version = lab("get", "nodes", "-o", "jsonpath={.items[0].status.nodeInfo.kubeletVersion}")
    assert version.stdout == lab.read("version")["serverVersion"]["gitVersion"]
    only = lab("get", "nodes", "-l", "kubernetes.io/hostname=hv-2", "-o", "name").stdout
    assert only == "node/hv-2\n"
    here = ("--field-selector", "spec.nodeName=hv-1", "-o", "name")
    assert "virt-launcher" in lab("get", "pods", *IN_SPACE, *here).stdout


def test_what_is_not_there_is_not_found(lab: Kubectl) -> None:
    assert "NotFound" in lab("get", "vmi", "none", *IN_SPACE, code=1).stderr
    assert "No resources found" in lab("get", "vmi", "-n", "default").stderr
    refused = lab("get", "unicorns", code=1).stderr
    assert "doesn't have a resource type" in refused


def test_ages_are_in_virtual_time(lab: Kubectl, namespace: str) -> None:
    lab("apply", "-f", "-", stdin=config_map("young", namespace))
    assert lab("get", "cm", "young", "-n", namespace).stdout.split()[-1] == "0s"
    lab.twin.advance(3 * 3600)
    assert lab("get", "cm", "young", "-n", namespace).stdout.split()[-1] == "3h"


def test_watching_shows_each_change_as_it_happens(lab: Kubectl, namespace: str) -> None:
    lab("apply", "-f", "-", stdin=config_map("cm", namespace))
    before = lab.twin.watches("management", "ConfigMap")
    watching = lab.start("get", "cm", "-n", namespace, "-w", "--output-watch-events")
    eventually(lambda: lab.twin.watches("management", "ConfigMap") > before, "a watch")
    lab("patch", "cm", "cm", "-n", namespace, "-p", '{"data":{"a":"1"}}')
    lab("delete", "cm", "cm", "-n", namespace)
    assert watching.stdout is not None
    lines = [watching.stdout.readline().split()[:3] for _ in range(4)]
    assert lines == [
        ["EVENT", "NAME", "DATA"],
        ["ADDED", "cm", "0"],
        ["MODIFIED", "cm", "1"],
        ["DELETED", "cm", "1"],
    ]
    watching.terminate()
    assert finish(watching).stdout == ""


def test_watching_while_time_moves(tenant: Kubectl, unique: str) -> None:
    tenant("create", "namespace", unique)
    before = tenant.twin.watches("tenant-lab", "Pod")
    phases = "jsonpath={.status.phase}{'\\n'}"
    watching = tenant.start("get", "pods", "-n", unique, "--watch-only", "-o", phases)
    eventually(lambda: tenant.twin.watches("tenant-lab", "Pod") > before, "a watch")
    tenant("run", "one", "--image=busybox", "-n", unique)
    tenant.twin.advance(60)
    seen = lines_until(watching, "Running")
    assert list(dict.fromkeys(seen)) == ["Pending", "Running"]
    watching.terminate()
    finish(watching)


def test_describe(lab: Kubectl, tenant: Kubectl) -> None:
    told = tenant("describe", "nodes").stdout
    assert "KubeletReady" in told
    assert "Provider ID" in told or "ProviderID" in told
    launcher = lab("describe", "pods", *IN_SPACE, "-l", "kubevirt.io=virt-launcher").stdout
    assert "nvidia.com/AD102GL_L40S:" in launcher
    machine = lab("describe", "machines", *IN_SPACE).stdout
    assert "Phase:                Running" in machine


def test_what_is_served(lab: Kubectl, tenant: Kubectl) -> None:
    kinds = lab("api-resources", "-o", "name").stdout.split()
    for kind in ("virtualmachines.kubevirt.io", "helmreleases.helm.toolkit.fluxcd.io", "pods"):
        assert kind in kinds
    assert "virtualmachines.kubevirt.io" not in tenant("api-resources", "-o", "name").stdout
    assert "cluster.x-k8s.io/v1beta1" in lab("api-versions").stdout
    explained = lab("explain", "machinedeployments").stdout
    assert "MachineDeployment" in explained
    assert "v1beta1" in explained
    assert lab("get", "--raw", "/readyz").stdout == "ok"
