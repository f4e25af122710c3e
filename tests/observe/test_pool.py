from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import pytest

from harness.facts.fact import Unread
from harness.facts.machineconfig import InstallImage, RenderedModules
from harness.facts.pool import ABSENT, BootSource, PoolRequest
from harness.facts.poolstate import PoolState
from harness.facts.vmi import LauncherGpu, VmiGpus, VmiRefusal
from harness.observe import pool
from harness.reach.nodeshell import Reply

Obj = dict[str, Any]
NS = "tenant-test"
L40S = "nvidia.com/AD102GL_L40S"
VARIABLE = "PCI_RESOURCE_NVIDIA_COM_AD102GL_L40S"
POOL = ("tenant-test", "lab", "gpu")


def obj(api: str, kind: str, name: str, namespace: str = NS, **rest: Any) -> Obj:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", **rest.pop("metadata", {})}
    if namespace:
        metadata["namespace"] = namespace
    return {"apiVersion": api, "kind": kind, "metadata": metadata, **rest}


def owned(kind: str, name: str) -> Obj:
    return {"ownerReferences": [{"kind": kind, "uid": f"uid-{kind}-{name}"}]}


def templated(spec: Obj) -> Obj:
    return {"template": {"spec": spec}}


def config(image: str = "f/installer/abc:v1.13.6", modules: str = "[{name: nvidia}]") -> str:
    return f"machine: {{install: {{image: {image}}}, kernel: {{modules: {modules}}}}}"


def bootstrap_template(name: str, data: str) -> Obj:
    api = "bootstrap.cluster.x-k8s.io/v1alpha3"
    return obj(api, "TalosConfigTemplate", name, spec=templated({"data": data}))


def reference(api: str, kind: str, name: str) -> Obj:
    return {"apiVersion": api, "kind": kind, "name": name}


BOOT = "https://f/image/abc/v1.13.6/openstack-amd64.raw.xz"
MACHINE_SPEC = {
    "bootstrap": {
        "configRef": reference(
            "bootstrap.cluster.x-k8s.io/v1alpha3", "TalosConfigTemplate", "tct-0a1b2c"
        )
    },
    "infrastructureRef": reference(pool.INFRASTRUCTURE, "KubevirtMachineTemplate", "kmt-3d4e5f"),
}
VOLUME = {"spec": {"source": {"http": {"url": BOOT}}}}
VALUES = {"gpus": [{"name": L40S}]}
LAUNCHER_LABELS = {
    "kubevirt.io": "virt-launcher",
    "kubevirt.io/created-by": "uid-VirtualMachineInstance-vm1",
}
LABELS = {pool.DEPLOYMENT_LABEL: "kubernetes-lab-gpu"}


def world() -> list[Obj]:
    return copy.deepcopy(_objects())


def _objects() -> list[Obj]:
    compute = {"name": "compute", "resources": {"limits": {L40S: "1"}}, "env": []}
    return [
        obj(pool.HELM, "HelmRelease", "kubernetes-nodes-lab-gpu", spec={"values": VALUES}),
        obj(pool.CAPI, "MachineDeployment", "kubernetes-lab-gpu", spec=templated(MACHINE_SPEC)),
        bootstrap_template("kubernetes-lab-gpu", config(modules="[{name: stale}]")),
        bootstrap_template("tct-0a1b2c", config()),
        obj(
            pool.INFRASTRUCTURE,
            "KubevirtMachineTemplate",
            "kmt-3d4e5f",
            spec=templated({"virtualMachineTemplate": {"spec": {"dataVolumeTemplates": [VOLUME]}}}),
        ),
        obj(
            pool.CAPI,
            "Machine",
            "m1",
            metadata={"labels": LABELS},
            spec={"infrastructureRef": {"name": "k1"}, "bootstrap": {"dataSecretName": "s"}},
            status={"nodeRef": {"name": "w1"}},
        ),
        obj(pool.CAPI, "Machine", "other", metadata={"labels": {pool.DEPLOYMENT_LABEL: "x"}}),
        obj(pool.INFRASTRUCTURE, "KubevirtMachine", "k1"),
        obj(pool.KUBEVIRT, "VirtualMachine", "vm1", metadata=owned("KubevirtMachine", "k1")),
        obj(
            pool.KUBEVIRT,
            "VirtualMachineInstance",
            "vm1",
            metadata=owned("VirtualMachine", "vm1"),
            spec={"domain": {"devices": {"gpus": [{"deviceName": L40S}]}}},
            status={"phase": "Running"},
        ),
        obj(
            "v1",
            "Pod",
            "virt-launcher-vm1-abcde",
            metadata={"labels": LAUNCHER_LABELS},
            spec={"containers": [compute]},
            status={"phase": "Running"},
        ),
    ]


class Cluster:
    """Objects behind `Kube`'s reading half."""

    def __init__(self, objects: list[Obj], name: str = "management") -> None:
        self.name = name
        self.objects = objects

    def get(self, api_version: str, kind: str, namespace: str, name: str) -> Obj | None:
        named = (
            one
            for one in self.list(api_version, kind, namespace)
            if one["metadata"]["name"] == name
        )
        return next(named, None)

    def list(
        self,
        api_version: str,
        kind: str,
        namespace: str = "",
        *,
        labels: str = "",
        fields: str = "",
    ) -> list[Obj]:
        wanted = dict(part.split("=", 1) for part in labels.split(",") if part)
        return [
            copy.deepcopy(one)
            for one in self.objects
            if (one["apiVersion"], one["kind"]) == (api_version, kind)
            and namespace in ("", one["metadata"].get("namespace"))
            and wanted.items() <= one["metadata"].get("labels", {}).items()
        ]


def holding(objects: list[Obj]) -> Any:
    return Cluster(objects)


def cluster(without: str = "", *more: Obj) -> Any:
    """The world, without a kind, with more objects."""
    return holding([*(one for one in world() if one["kind"] != without), *more])


def now() -> float:
    return 1767225700.0


def env(kube: Any, namespace: str, name: str, argv: Sequence[str]) -> Reply:
    assert (namespace, name, argv) == (NS, "virt-launcher-vm1-abcde", ["env"])
    return Reply(("env",), 0, f"HOME=/\n{VARIABLE}=0000:41:00.0\n".encode(), b"", 1.0, 2.0)


def never(kube: Any, namespace: str, name: str, argv: Sequence[str]) -> Reply:
    raise AssertionError("nothing had to be run")


def test_the_request_as_stored() -> None:
    found = pool.request_read_back(cluster(), *POOL, now=now)
    assert isinstance(found, PoolRequest)
    assert (found.kernel_modules, found.gpus) == (ABSENT, (L40S,))
    assert found.origin.at == now()


def test_the_template_in_use_is_read_not_the_one_of_the_pools_name() -> None:
    found = pool.rendered_modules(cluster(), *POOL, now=now)
    assert isinstance(found, RenderedModules)
    assert found.names == ("nvidia",)
    assert found.origin.source == "management TalosConfigTemplate tenant-test/tct-0a1b2c"
    assert found.origin.raw == config()


def test_boot_source_and_installer() -> None:
    boot = pool.boot_source(cluster(), *POOL, now=now)
    install = pool.install_image(cluster(), *POOL, now=now)
    assert isinstance(boot, BootSource)
    assert isinstance(install, InstallImage)
    assert (boot.schematic, boot.version) == (install.schematic, install.version)


READERS = [pool.rendered_modules, pool.install_image, pool.boot_source]


@pytest.mark.parametrize("read", READERS)
def test_a_pool_without_a_machine_deployment_is_unread(read: Any) -> None:
    found = read(cluster("MachineDeployment"), *POOL, now=now)
    assert isinstance(found, Unread)
    assert found.asked == "MachineDeployment tenant-test/kubernetes-lab-gpu"


@pytest.mark.parametrize("read", READERS)
def test_a_template_that_is_referred_to_and_not_there_is_unread(read: Any) -> None:
    gone = holding([one for one in world() if not one["kind"].endswith("Template")])
    found = read(gone, *POOL, now=now)
    assert isinstance(found, Unread)
    assert "of MachineDeployment kubernetes-lab-gpu" in found.asked


@pytest.mark.parametrize("read", READERS)
def test_a_machine_deployment_without_a_reference_is_unread(read: Any) -> None:
    bare = obj(pool.CAPI, "MachineDeployment", "kubernetes-lab-gpu", spec={})
    found = read(cluster("MachineDeployment", bare), *POOL, now=now)
    assert isinstance(found, Unread)
    assert "no whole reference" in found.reason


@pytest.mark.parametrize("read", READERS)
def test_a_reference_without_a_kind_is_unread(read: Any) -> None:
    objects = world()
    spec = objects[1]["spec"]["template"]["spec"]
    for reference in (spec["bootstrap"]["configRef"], spec["infrastructureRef"]):
        del reference["kind"]
    found = read(holding(objects), *POOL, now=now)
    assert isinstance(found, Unread)
    assert "no whole reference" in found.reason


def test_a_reference_may_name_another_namespace() -> None:
    objects = world()
    reference = objects[1]["spec"]["template"]["spec"]["bootstrap"]["configRef"]
    reference["namespace"] = objects[3]["metadata"]["namespace"] = "elsewhere"
    found = pool.rendered_modules(holding(objects), *POOL, now=now)
    assert isinstance(found, RenderedModules)
    assert found.origin.source == "management TalosConfigTemplate elsewhere/tct-0a1b2c"


def test_no_release_is_unread() -> None:
    found = pool.request_read_back(cluster("HelmRelease"), *POOL, now=now)
    assert isinstance(found, Unread)
    assert found.asked == "HelmRelease tenant-test/kubernetes-nodes-lab-gpu"


def test_the_workers_of_this_pool_only() -> None:
    (worker,) = pool.workers(cluster(), *POOL)
    assert (worker.name, worker.node) == ("m1", "w1")
    assert worker.virtual_machine["metadata"]["name"] == "vm1"
    assert worker.launcher["metadata"]["name"] == "virt-launcher-vm1-abcde"


def test_a_worker_being_deleted_is_none() -> None:
    objects = world()
    objects[5]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert pool.workers(holding(objects), *POOL) == ()


def test_what_the_vmi_asks_for() -> None:
    (found,) = pool.vmi_gpus(cluster(), *POOL, now=now)
    assert isinstance(found, VmiGpus)
    assert found.gpus == (L40S,)


def test_a_refused_vmi() -> None:
    refused = {"type": "Synchronized", "status": "False", "reason": "FailedCreate", "message": "no"}
    vmi = obj(
        pool.KUBEVIRT,
        "VirtualMachineInstance",
        "vm1",
        status={"phase": "Pending", "conditions": [refused]},
    )
    (found,) = pool.vmi_gpus(cluster("VirtualMachineInstance", vmi), *POOL, now=now)
    assert isinstance(found, VmiRefusal)


def test_a_worker_without_a_vmi_is_unread() -> None:
    nothing = cluster("VirtualMachineInstance")
    (found,) = pool.vmi_gpus(nothing, *POOL, now=now)
    assert isinstance(found, Unread)
    (launcher,) = pool.launcher_gpus(nothing, *POOL, now=now, execute=never)
    assert isinstance(launcher, Unread)


def test_what_the_launcher_was_given_is_asked_of_its_container() -> None:
    (found,) = pool.launcher_gpus(cluster(), *POOL, now=now, execute=env)
    assert isinstance(found, LauncherGpu)
    assert found.pci_env == {VARIABLE: ("0000:41:00.0",)}
    assert found.limits == {L40S: "1"}


def test_variables_of_the_spec_are_taken_as_they_stand() -> None:
    objects = world()
    objects[-1]["spec"]["containers"][0]["env"] = [{"name": VARIABLE, "value": "0000:42:00.0"}]
    (found,) = pool.launcher_gpus(holding(objects), *POOL, now=now, execute=never)
    assert isinstance(found, LauncherGpu)
    assert found.pci_env == {VARIABLE: ("0000:42:00.0",)}


def test_a_launcher_that_does_not_run_is_not_asked() -> None:
    objects = world()
    waiting = {"type": "PodScheduled", "status": "False", "message": f"Insufficient {L40S}"}
    objects[-1]["status"] = {"phase": "Pending", "conditions": [waiting]}
    (found,) = pool.launcher_gpus(holding(objects), *POOL, now=now, execute=never)
    assert isinstance(found, LauncherGpu)
    assert (found.pci_env, found.unscheduled) == ({}, f"Insufficient {L40S}")


def test_a_container_that_gave_no_answer_is_unread() -> None:
    def cut(kube: Any, namespace: str, name: str, argv: Sequence[str]) -> Reply:
        return Reply(("env",), None, b"HOME=/\n", b"", 1.0, 2.0, "closed")

    (found,) = pool.launcher_gpus(cluster(), *POOL, now=now, execute=cut)
    assert isinstance(found, Unread)
    assert "closed" in found.reason


def tenant(status: str = "True") -> Any:
    ready = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:01:00Z"}
    nodes = [obj("v1", "Node", name, "", status={"conditions": [ready]}) for name in ("w2", "w1")]
    return Cluster(nodes, "tenant lab")


def test_the_tenants_nodes() -> None:
    assert [(one.name, one.ready) for one in pool.node_states(tenant(), now=now)] == [
        ("w1", True),
        ("w2", True),
    ]


VOLUME_OF_VM1 = {"template": {"spec": {"volumes": [{"dataVolume": {"name": "vm1-disk"}}]}}}


def standing() -> list[Obj]:
    """The world with a Job, disks, and the names that a content-named template has."""
    objects = world()
    for one in objects:
        if one["kind"] == "VirtualMachine":
            one["spec"] = VOLUME_OF_VM1
    return [
        *objects,
        obj("batch/v1", "Job", "kubernetes-nodes-lab-gpu-talos-reconcile-gpu-0a1b2c"),
        obj("batch/v1", "Job", "kubernetes-nodes-lab-gpu-talos-reconcile-gpu-x-0a1b2c"),
        obj("batch/v1", "Job", "kubernetes-nodes-lab-other-talos-reconcile-other-0a1b2c"),
        obj(pool.DATA_VOLUMES, "DataVolume", "vm1-disk"),
        obj(pool.DATA_VOLUMES, "DataVolume", "another-disk"),
    ]


def booted(*names: str) -> Any:
    return holding(
        [
            obj("v1", "Node", name, "", status={"nodeInfo": {"bootID": f"boot-{name}"}})
            for name in names
        ]
    )


def state(objects: list[Obj]) -> PoolState | Unread:
    return pool.pool_state(holding(objects), booted("w1", "w2"), *POOL, now=now)


def test_what_a_pool_consists_of() -> None:
    found = state(standing())
    assert isinstance(found, PoolState)
    assert (found.pool, found.cluster, found.regime) == ("gpu", "lab", "fixed")
    assert (found.bootstrap.name, found.machine.name) == ("tct-0a1b2c", "kmt-3d4e5f")
    assert found.job == "kubernetes-nodes-lab-gpu-talos-reconcile-gpu-0a1b2c"
    assert found.machines == {"m1": "uid-Machine-m1"}
    assert found.vmis == {"vm1": "uid-VirtualMachineInstance-vm1"}
    assert found.data_volumes == {"vm1-disk": "uid-DataVolume-vm1-disk"}
    assert found.boots == {"w1": "boot-w1"}
    assert found.release.name == "kubernetes-nodes-lab-gpu"
    assert (found.origin.at, found.origin.source) == (
        now(),
        "management objects of pool gpu of lab",
    )


@pytest.mark.parametrize(
    ("without", "asked"),
    [
        ("HelmRelease", "HelmRelease tenant-test/kubernetes-nodes-lab-gpu"),
        ("MachineDeployment", "MachineDeployment tenant-test/kubernetes-lab-gpu"),
        ("TalosConfigTemplate", "TalosConfigTemplate tenant-test/tct-0a1b2c of MachineDeployment"),
        ("KubevirtMachineTemplate", "KubevirtMachineTemplate tenant-test/kmt-3d4e5f of Machine"),
    ],
)
def test_a_pool_that_lacks_a_part_has_no_state(without: str, asked: str) -> None:
    found = state([one for one in standing() if one["kind"] != without])
    assert isinstance(found, Unread)
    assert found.asked.startswith(asked)


def test_a_pool_whose_vm_does_not_run_yet_has_a_state() -> None:
    found = state([one for one in standing() if one["kind"] != "VirtualMachineInstance"])
    assert isinstance(found, PoolState)
    assert (found.vmis, list(found.machines)) == ({}, ["m1"])
