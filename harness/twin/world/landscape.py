"""The lab as it stands before anybody does anything: hypervisors, storage, KubeVirt, tenants.

Names and values: objects.md sections 2 to 8; sizes of instance types: KubeVirt's common u1 family.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.world import (
    conditions,
    golden_catalogue,
    hosts,
    landscape_rbac,
    platform_install,
    projection,
)
from harness.twin.world.conditions import Condition
from harness.twin.world.heartbeats import LEASES, node_conditions
from harness.twin.world.images import VANILLA
from harness.twin.world.objects import (
    CDI,
    COZY,
    HELM,
    INSTANCETYPE,
    KAMAJI,
    KUBEVIRT,
    PIRAEUS,
    STORAGE,
    Obj,
    encode,
)
from harness.twin.world.storage_classes import DEFAULT_CLASS

if TYPE_CHECKING:
    from harness.twin.world.world import World

MANAGER = "cozystack-operator"
NAMESPACES = (
    "default",
    "kube-system",
    "kube-public",
    LEASES,
    "cozy-system",
    "cozy-kubevirt",
    "cozy-kubevirt-cdi",
    "cozy-public",
    "cozy-linstor",
    "cozy-gpu-operator",
    "cozy-kamaji",
    "tenant-root",
    "tenant-hil",
)
HOSTS = ("hv-1", "hv-2", "hv-3")
DATASTORE = "tenant-root"
GOLDENS: list[Obj] = [{"schematicID": VANILLA, "version": "v1.13.6"}]
"""The catalogue's entries, imported before the story begins."""
_CARDS = {"hv-1": (hosts.L40S, 4), "hv-2": (hosts.GB202, 4), "hv-3": (hosts.H100, 2)}
KUBERNETES = "v1.34.2"
# name: CPUs, memory
_INSTANCETYPES = {
    "u1.nano": (1, "512Mi"),
    "u1.micro": (1, "1Gi"),
    "u1.small": (1, "2Gi"),
    "u1.medium": (1, "4Gi"),
    "u1.2xmedium": (2, "4Gi"),
    "u1.large": (2, "8Gi"),
    "u1.xlarge": (4, "16Gi"),
    "u1.2xlarge": (8, "32Gi"),
    "u1.4xlarge": (16, "64Gi"),
    "u1.8xlarge": (32, "128Gi"),
}
_PERMITTED = (
    ("10DE:26B9", hosts.L40S),
    # no platform default for this card (objects.md section 6): this lab's operator added it
    ("10DE:2BB5", hosts.GB202),
    ("10DE:2330", hosts.H100),
)


def build(world: World) -> None:
    """Put everything but the tenant clusters in place."""
    create = world.cluster.create
    for name in NAMESPACES:
        create(namespace(name), manager=MANAGER)
    for index, name in enumerate(HOSTS):
        create(_host(name, index, world.engine.now), manager="kubelet")
    for obj in (*_storage(), *_kubevirt(world.engine.now), *_platform(world.engine.now)):
        create(obj, manager=MANAGER)
    for name, (cpus, memory) in _INSTANCETYPES.items():
        create(_instancetype(name, cpus, memory), manager="virt-operator")
    for tenant, parent in (("root", "tenant-root"), ("hil", "tenant-root")):
        adopt(world, projection.TENANT, tenant, parent, {"etcd": tenant == "root"})
    for obj in platform_install.objects(world.engine.now):
        create(obj, manager=MANAGER)
    world.catalogue.adopt()
    world.hosts.start_heartbeats()


def namespace(name: str, **labels: str) -> Obj:
    """A Namespace; dots and slashes of a label's key come in ``labels`` as they are."""
    metadata: Obj = {"name": name, "labels": {"kubernetes.io/metadata.name": name, **labels}}
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata}


def adopt(
    world: World, application: projection.Application, name: str, space: str, values: Obj
) -> Obj:
    """An application that was installed before the story begins."""
    shown = {"metadata": {"name": name, "namespace": space}, "spec": values}
    release = world.cluster.create(
        projection.keep(application, shown, None), manager="cozystack-api"
    )
    world.helm.adopt(release)
    found = world.cluster.find(HELM, "HelmRelease", space, application.release(name))
    assert found is not None
    return found


def _host(name: str, index: int, now: float) -> Obj:
    labels = {
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "node-role.kubernetes.io/control-plane": "",
        "kubevirt.io/schedulable": "true",
    }
    capacity = {
        "cpu": "64",
        "memory": "515Gi",
        "ephemeral-storage": "400Gi",
        "pods": "250",
        "devices.kubevirt.io/kvm": "1k",
        "devices.kubevirt.io/tun": "1k",
        "devices.kubevirt.io/vhost-net": "1k",
    }
    if name in _CARDS:
        resource, count = _CARDS[name]
        labels |= {
            "nvidia.com/gpu.present": "true",
            "nvidia.com/gpu.workload.config": "vm-passthrough",
        }
        capacity[resource] = str(count)
    address = f"192.168.100.{11 + index}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"podCIDR": f"10.244.{64 * index}.0/18", "podCIDRs": [f"10.244.{64 * index}.0/18"]},
        "status": {
            "capacity": capacity,
            "allocatable": dict(capacity),
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
            ],
            "conditions": node_conditions(now, ready=True),
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": _host_info(index),
        },
    }


def _host_info(index: int) -> Obj:
    return {
        "architecture": "amd64",
        "bootID": f"6f0e2c1a-0000-4000-8000-00000000000{index + 1}",
        "containerRuntimeVersion": "containerd://2.1.5",
        "kernelVersion": "6.18.34-talos",
        "kubeProxyVersion": "",
        "kubeletVersion": KUBERNETES,
        "machineID": f"{index + 1:032x}",
        "operatingSystem": "linux",
        "osImage": "Talos (v1.13.6)",
        "systemUUID": f"4c4c4544-0000-4000-8000-00000000000{index + 1}",
    }


def _storage() -> list[Obj]:
    driver = "linstor.csi.linbit.com"
    replicated = {
        "linstor.csi.linbit.com/storagePool": "data",
        "linstor.csi.linbit.com/autoPlace": "3",
        "linstor.csi.linbit.com/layerList": "drbd storage",
        "linstor.csi.linbit.com/allowRemoteVolumeAccess": "true",
        "property.linstor.csi.linbit.com/DrbdOptions/auto-quorum": "suspend-io",
        "property.linstor.csi.linbit.com/DrbdOptions/Resource/on-no-data-accessible": "suspend-io",
        "property.linstor.csi.linbit.com/DrbdOptions/Resource/on-suspended-primary-outdated": (
            "force-secondary"
        ),
        "property.linstor.csi.linbit.com/DrbdOptions/Net/rr-conflict": "retry-connect",
    }
    local = {
        "linstor.csi.linbit.com/storagePool": "data",
        "linstor.csi.linbit.com/layerList": "storage",
        "linstor.csi.linbit.com/allowRemoteVolumeAccess": "false",
    }
    classes = [
        _class("replicated", driver, "Immediate", replicated),
        _class("local", driver, "WaitForFirstConsumer", local, default=True),
    ]
    profiles = [
        _profile("replicated", driver, (("ReadWriteMany", "Block"), ("ReadWriteOnce", "Block"),
                                        ("ReadWriteOnce", "Filesystem"))),
        _profile("local", driver, (("ReadWriteOnce", "Block"), ("ReadWriteOnce", "Filesystem"))),
    ]  # fmt: skip
    return [*classes, *profiles]


def _class(
    name: str, driver: str, binding: str, parameters: dict[str, str], *, default: bool = False
) -> Obj:
    metadata: Obj = {"name": name}
    if default:
        metadata["annotations"] = {DEFAULT_CLASS: "true"}
    return {
        "apiVersion": STORAGE,
        "kind": "StorageClass",
        "metadata": metadata,
        "provisioner": driver,
        "parameters": parameters,
        "reclaimPolicy": "Delete",
        "volumeBindingMode": binding,
        "allowVolumeExpansion": True,
    }


def _profile(name: str, driver: str, sets: tuple[tuple[str, str], ...]) -> Obj:
    return {
        "apiVersion": CDI,
        "kind": "StorageProfile",
        "metadata": {"name": name},
        "spec": {},
        "status": {
            "storageClass": name,
            "provisioner": driver,
            "cloneStrategy": "csi-clone",
            "claimPropertySets": [
                {"accessModes": [mode], "volumeMode": volume} for mode, volume in sets
            ],
        },
    }


def _kubevirt(now: float) -> list[Obj]:
    devices = [
        {"pciVendorSelector": selector, "resourceName": name, "externalResourceProvider": True}
        for selector, name in _PERMITTED
    ]
    kubevirt: Obj = {
        "apiVersion": KUBEVIRT,
        "kind": "KubeVirt",
        "metadata": {"name": "kubevirt", "namespace": "cozy-kubevirt"},
        "spec": {
            "configuration": {
                "developerConfiguration": {"featureGates": ["HostDevices", "ExpandDisks"]},
                "permittedHostDevices": {"pciHostDevices": devices},
                "virtualMachineOptions": {"disableSerialConsoleLog": {}},
                "evictionStrategy": "LiveMigrate",
            },
            "certificateRotateStrategy": {},
        },
        "status": {"phase": "Deployed", "observedKubeVirtVersion": "v1.8.4"},
    }
    cdi: Obj = {
        "apiVersion": CDI,
        "kind": "CDI",
        "metadata": {"name": "cdi"},
        "spec": {
            "cloneStrategyOverride": "csi-clone",
            "config": {"featureGates": ["HonorWaitForFirstConsumer", "ExpandDisks"]},
        },
        "status": {"phase": "Deployed", "observedVersion": "v1.64.0"},
    }
    good = [
        conditions.true("Available", "DeploymentCompleted", "Deployment Completed"),
        conditions.false("Progressing", "DeploymentCompleted", "Deployment Completed"),
        conditions.false("Degraded", "DeploymentCompleted", "Deployment Completed"),
    ]
    conditions.write(kubevirt, now, conditions.true("Created", "AllResourcesCreated"), *good)
    conditions.write(cdi, now, *good)
    return [kubevirt, cdi]


def _platform(now: float) -> list[Obj]:
    store: Obj = {
        "apiVersion": KAMAJI,
        "kind": "DataStore",
        "metadata": {"name": DATASTORE},
        "spec": {"driver": "etcd", "endpoints": ["etcd-0.etcd-headless.tenant-root.svc:2379"]},
        "status": {"ready": True},
    }
    linstor: Obj = {
        "apiVersion": PIRAEUS,
        "kind": "LinstorCluster",
        "metadata": {"name": "linstorcluster"},
        "spec": {},
    }
    satellites: list[Obj] = [
        {
            "apiVersion": PIRAEUS,
            "kind": "LinstorSatellite",
            "metadata": {"name": name},
            "spec": {"clusterRef": {"name": "linstorcluster"}},
        }
        for name in HOSTS
    ]
    for obj in (linstor, *satellites):
        _settled(obj, now)
    packages = [_package(now), golden_catalogue.package_source(now)]
    rbac = landscape_rbac.objects()
    return [store, linstor, *satellites, *packages, *_definitions(), *_platform_values(), *rbac]


def _package(now: float) -> Obj:
    package: Obj = {
        "apiVersion": COZY,
        "kind": "Package",
        "metadata": {"name": golden_catalogue.PLATFORM},
        "spec": {
            "variant": "isp-full",
            "components": {"platform": {"values": golden_catalogue.platform_values(GOLDENS)}},
        },
    }
    ready = conditions.true("Ready", "ReconciliationSucceeded", "reconciliation succeeded")
    conditions.write(package, now, ready, metav1=True)
    return package


def _definitions() -> list[Obj]:
    return [
        {
            "apiVersion": COZY,
            "kind": "ApplicationDefinition",
            "metadata": {"name": one.chart},
            "spec": {
                "application": {
                    "kind": one.kind,
                    "plural": one.plural,
                    "singular": one.kind.lower(),
                    "openAPISchema": '{"type":"object"}',
                },
                "release": {
                    "prefix": one.prefix,
                    "chartRef": {
                        "kind": "ExternalArtifact",
                        "name": f"cozystack-{one.chart}",
                        "namespace": "cozy-system",
                    },
                },
            },
        }
        for one in projection.APPLICATIONS
    ]


def _platform_values() -> list[Obj]:
    """The Secret that every application's HelmRelease takes platform values from."""
    return [
        {
            "apiVersion": "v1",
            "kind": "Secret",
            "metadata": {"name": "cozystack-values", "namespace": space},
            "type": "Opaque",
            "data": {"values.yaml": encode("_cluster: {}\n")},
        }
        for space in ("tenant-root", "tenant-hil")
    ]


def _settled(obj: Obj, now: float) -> None:
    told = {"Applied": "", "Available": "satellite online", "Configured": ""}
    found = [Condition(kind, "True", "AsExpected", text) for kind, text in told.items()]
    conditions.write(obj, now, *found, metav1=True)


def _instancetype(name: str, cpus: int, memory: str) -> Obj:
    return {
        "apiVersion": INSTANCETYPE,
        "kind": "VirtualMachineClusterInstancetype",
        "metadata": {"name": name, "labels": {"instancetype.kubevirt.io/vendor": "kubevirt.io"}},
        "spec": {"cpu": {"guest": cpus}, "memory": {"guest": memory}},
    }
