"""A tenant's addons: up as workers join, and what they do for pods and for the API."""

from __future__ import annotations

from typing import Any

import pytest

from harness.twin.world import addons_chart
from harness.twin.world.objects import STORAGE

BUDGET = 400.0
SPACE = "mine"
PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
NAME = "kubernetes.default.svc.cluster.local"
DISCOVERY, REGISTRATION = "discovery.k8s.io/v1", "apiregistration.k8s.io/v1"
METRICS = "metrics.k8s.io/v1beta1"


@pytest.fixture
def plain(lab: Any) -> Any:
    kind = lab.tenant.registry.by_kind("v1", "Namespace")
    lab.tenant.create(kind, {"metadata": {"name": SPACE, "labels": PRIVILEGED}}, namespace="")
    lab.pool("plain", minReplicas=2)
    lab.run_until(lambda: len(lab.joined()) == 2, BUDGET)
    lab.run(60)
    return lab


def create(lab: Any, kind: str, name: str, spec: Any) -> None:
    found = lab.tenant.registry.by_kind("v1", kind)
    lab.tenant.create(found, {"metadata": {"name": name}, "spec": spec}, namespace=SPACE)


def make_pod(lab: Any, name: str = "mine", claim: str = "", **more: Any) -> None:
    container: Any = {"name": "c", "image": "busybox", "command": ["sleep", "infinity"]}
    spec: Any = {"containers": [container], **more}
    if claim:
        container["volumeMounts"] = [{"name": "d", "mountPath": "/data"}]
        spec["volumes"] = [{"name": "d", "persistentVolumeClaim": {"claimName": claim}}]
    create(lab, "Pod", name, spec)


def make_claim(lab: Any, name: str = "disk", **more: Any) -> None:
    resources = {"requests": {"storage": "1Gi"}}
    create(
        lab,
        "PersistentVolumeClaim",
        name,
        {"accessModes": ["ReadWriteOnce"], "resources": resources, **more},
    )


def pod(lab: Any, name: str = "mine") -> Any:
    return lab.tenant.find("v1", "Pod", SPACE, name)


def ask(lab: Any, *argv: str, name: str = "mine") -> Any:
    return lab.world.exec("tenant-lab", SPACE, name, "c", list(argv))


def api(lab: Any) -> tuple[str, str]:
    (service,) = lab.tenant.all(REGISTRATION, "APIService")
    (found,) = service["status"]["conditions"]
    return found["status"], found["reason"]


def remove(lab: Any, api_version: str, kind: str, namespace: str, name: str) -> None:
    found = lab.tenant.registry.by_kind(api_version, kind)
    lab.tenant.delete(found, namespace, name)


def test_before_a_worker_joins_nothing_serves(lab: Any) -> None:
    lab.run(30)
    assert api(lab) == ("False", "MissingEndpoints")
    assert lab.tenant.all(STORAGE, "CSINode") == []
    assert lab.tenant.all(METRICS, "NodeMetrics") == []
    waiting = lab.tenant.all("v1", "Pod", "kube-system")
    assert {one["status"]["phase"] for one in waiting} == {"Pending"}


def test_on_every_worker_there_is_an_agent_a_driver_and_figures(plain: Any) -> None:
    names = {one["metadata"]["name"] for one in plain.nodes()}
    agents = plain.tenant.all("v1", "Pod", "cozy-cilium")
    assert {one["spec"]["nodeName"] for one in agents} == names
    registered = {
        one["metadata"]["name"]: [driver["name"] for driver in one["spec"]["drivers"]]
        for one in plain.tenant.all(STORAGE, "CSINode")
    }
    assert registered == {one: ["csi.kubevirt.io"] for one in names}
    assert api(plain) == ("True", "Passed")
    metrics = plain.tenant.all(METRICS, "NodeMetrics")
    assert {one["metadata"]["name"] for one in metrics} == names
    assert plain.tenant.all(DISCOVERY, "EndpointSlice", "kube-system")[0]["endpoints"]


def test_the_tenants_classes_are_the_platforms_that_are_reached_from_everywhere(lab: Any) -> None:
    found = {one["metadata"]["name"]: one for one in lab.tenant.all(STORAGE, "StorageClass")}
    assert set(found) == {"replicated", "kubevirt"}
    mark = "storageclass.kubernetes.io/is-default-class"
    marked = [name for name, one in found.items() if mark in one["metadata"].get("annotations", {})]
    assert marked == ["replicated"]
    assert found["replicated"]["parameters"]["infraStorageClassName"] == "replicated"


def test_a_claim_is_bound_plugged_in_and_mounted(plain: Any) -> None:
    make_claim(plain)
    make_pod(plain, claim="disk")
    plain.run(0.5)
    assert pod(plain)["status"]["conditions"][0]["reason"] == "Unschedulable"
    plain.run_until(lambda: pod(plain)["status"]["phase"] == "Running", 60)
    claim = plain.tenant.find("v1", "PersistentVolumeClaim", SPACE, "disk")
    assert claim["status"]["phase"] == "Bound" and claim["spec"]["storageClassName"] == "replicated"
    name = claim["spec"]["volumeName"]
    infra = plain.management.find("v1", "PersistentVolumeClaim", "tenant-hil", name)
    assert infra["spec"]["volumeMode"] == "Block" and infra["status"]["phase"] == "Bound"
    node = pod(plain)["spec"]["nodeName"]
    vmi = plain.management.find("kubevirt.io/v1", "VirtualMachineInstance", "tenant-hil", node)
    assert name in [one["name"] for one in vmi["status"]["volumeStatus"]]
    assert "/dev/sda /data ext4" in ask(plain, "cat", "/proc/mounts").stdout.decode()
    argv = ("dd", "if=/dev/urandom", "of=/data/x", "bs=4096", "count=1", "conv=fsync")
    assert ask(plain, *argv).exit_code == 0
    remove(plain, "v1", "Pod", SPACE, "mine")
    plain.run(40)
    remove(plain, "v1", "PersistentVolumeClaim", SPACE, "disk")
    plain.run(20)
    assert plain.tenant.all("v1", "PersistentVolume") == []
    assert plain.tenant.all(STORAGE, "VolumeAttachment") == []
    assert plain.management.find("v1", "PersistentVolumeClaim", "tenant-hil", name) is None
    vmi = plain.management.find("kubevirt.io/v1", "VirtualMachineInstance", "tenant-hil", node)
    assert name not in [one["name"] for one in vmi["status"]["volumeStatus"]]


def test_without_its_driver_a_node_takes_no_disk(plain: Any) -> None:
    remove(plain, "apps/v1", "DaemonSet", "cozy-csi", addons_chart.CSI_NODE)
    plain.run(60)
    assert all(not one["spec"]["drivers"] for one in plain.tenant.all(STORAGE, "CSINode"))
    make_claim(plain)
    make_pod(plain, claim="disk")
    plain.run(60)
    assert pod(plain)["status"]["phase"] == "Pending"
    (first, *_) = plain.events("FailedAttachVolume", plain.tenant)
    assert "does not contain driver csi.kubevirt.io" in first["message"]


def test_a_claim_of_another_class_is_left_alone(plain: Any) -> None:
    make_claim(plain, storageClassName="another")
    plain.run(30)
    claim = plain.tenant.find("v1", "PersistentVolumeClaim", SPACE, "disk")
    assert claim.get("status", {}).get("phase") != "Bound"


def test_names_resolve_through_kube_dns_while_it_has_endpoints(plain: Any) -> None:
    make_pod(plain)
    plain.run(20)
    found = ask(plain, "nslookup", NAME)
    assert found.exit_code == 0
    assert b"Address:\t10.95.0.10:53" in found.stdout and b"Address: 10.95.0.1\n" in found.stdout
    assert b"NXDOMAIN" in ask(plain, "nslookup", "none.default.svc.cluster.local").stdout
    remove(plain, "apps/v1", "Deployment", "kube-system", "coredns")
    plain.run(60)
    lost = ask(plain, "nslookup", NAME)
    assert lost.exit_code == 1 and b"no servers could be reached" in lost.stdout


def test_a_pod_of_the_hosts_network_has_another_resolver(plain: Any) -> None:
    make_pod(plain, hostNetwork=True)
    plain.run(20)
    assert ask(plain, "nslookup", NAME).exit_code == 1
    assert ask(plain, "nslookup", NAME, "10.95.0.10").exit_code == 0


def test_without_metrics_server_the_api_is_gone(plain: Any) -> None:
    remove(plain, "apps/v1", "Deployment", "cozy-monitoring", "metrics-server")
    plain.run(60)
    assert api(plain) == ("False", "MissingEndpoints")
    assert plain.tenant.all(METRICS, "NodeMetrics") == []


@pytest.mark.parametrize(("method", "service"), [("Proxied", False), ("LoadBalancer", True)])
def test_ingress_is_there_where_it_is_asked_for(method: str, service: bool) -> None:  # noqa: FBT001
    asked = {"addons": {"ingressNginx": {"enabled": True, "exposeMethod": method}}}
    values = addons_chart.values_of(addons_chart.INGRESS, asked, [])
    found = addons_chart.render(addons_chart.INGRESS, values or {}, "cozy-ingress-nginx")
    kinds = [one["kind"] for one in found or ()]
    assert kinds == ["DaemonSet", *(["Service"] if service else [])]
