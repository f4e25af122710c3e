"""The kinds that a Cozystack management cluster and a tenant cluster serve beside the built-in.

Scopes, plurals and status subresources are those of the projects' CRDs (objects.md sections 2-9;
the schemas' index); printer columns are the telling ones of each CRD.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.resources import Column, Resource
from harness.twin.apiserver.store import Admission
from harness.twin.world import conditions
from harness.twin.world.objects import (
    BOOTSTRAP,
    CAPI,
    CDI,
    CONTROL_PLANE,
    COZY,
    HELM,
    INFRA,
    INSTANCETYPE,
    KAMAJI,
    KUBEVIRT,
    PIRAEUS,
    SNAPSHOT,
    STORAGE,
    Obj,
)

_AGE = Column("Age", "metadata.creationTimestamp", type="date")


def only_these(question: Admission) -> Obj:
    """The admission hook that refuses new kinds: whoever made one would wait for it in vain."""
    if question.verb != "DELETE" and question.resource.kind == "CustomResourceDefinition":
        raise ApiError(403, "this server serves a fixed set of kinds; it cannot be given others")
    return question.obj


def _condition(kind: str, field: str = "status") -> Callable[[Obj], Any]:
    return lambda obj: conditions.find(obj, kind).get(field, "")


def _columns(**paths: str | Callable[[Obj], Any]) -> tuple[Column, ...]:
    return tuple(
        Column(name.replace("_", " "), path, "integer" if path in _NUMBERS else "string")
        for name, path in paths.items()
    )


_NUMBERS = frozenset(
    {
        *(f"status.{which}" for which in ("expectedMachines", "currentHealthy", "restartCount")),
        *(f"status.{which}Replicas" for which in ("ready", "updated", "unavailable")),
        *(f"status.{which}Replicas" for which in ("available", "observed")),
        "status.replicas",
        "spec.replicas",
        "spec.minReplicas",
    }
)


def _first_address(instance: Obj) -> str:
    interfaces: list[Obj] = (instance.get("status") or {}).get("interfaces") or [{}]
    return str(interfaces[0].get("ipAddress", ""))


def _backend(service: Obj) -> str:
    named = (service.get("spec") or {}).get("service") or {}
    return "/".join(named[key] for key in ("namespace", "name") if key in named) or "Local"


_READY = _columns(Ready=_condition("Ready"))
_FLUX = (_AGE, *_columns(Ready=_condition("Ready"), Status=_condition("Ready", "message")))


def _kind(
    api_version: str,
    kind: str,
    plural: str = "",
    short: str = "",
    *,
    shown: tuple[Column, ...] = (),
    age: bool = True,
    **more: Any,
) -> Resource:
    group, _, version = api_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural or f"{kind.lower()}s",
        singular=kind.lower(),
        short_names=tuple(short.split()),
        columns=(*shown, _AGE) if age else shown,
        **{"status": True, **more},
    )


def _cluster(*arguments: Any, **more: Any) -> Resource:
    return _kind(*arguments, namespaced=False, **more)


_REPLICAS = _columns(
    Cluster="spec.clusterName",
    Replicas="status.replicas",
    Ready="status.readyReplicas",
)
_COZYSTACK = (
    _cluster(COZY, "ApplicationDefinition", status=False),
    _cluster(
        COZY, "Package", short="pkg", shown=_columns(Variant="spec.variant", Ready=_READY[0].path)
    ),
    _cluster(
        COZY,
        "PackageSource",
        short="pks",
        shown=_columns(Variants="status.variants", Ready=_READY[0].path),
    ),
    _kind(
        COZY,
        "WorkloadMonitor",
        shown=_columns(
            Kind="spec.kind",
            Type="spec.type",
            Version="spec.version",
            Replicas="spec.replicas",
            MinReplicas="spec.minReplicas",
            Available="status.availableReplicas",
            Observed="status.observedReplicas",
            Operational="status.operational",
        ),
        age=False,
    ),
    _kind(HELM, "HelmRelease", short="hr", shown=_FLUX, age=False),
    _kind(
        "source.toolkit.fluxcd.io/v1",
        "OCIRepository",
        "ocirepositories",
        "ocirepo",
        shown=(*_columns(URL="spec.url"), *_READY, *_FLUX[-1:], _AGE),
        age=False,
    ),
)
_CLUSTER_API = (
    _kind(CAPI, "Cluster", short="cl", shown=_columns(Phase="status.phase")),
    _kind(
        CAPI,
        "Machine",
        short="ma",
        shown=_columns(
            Cluster="spec.clusterName",
            NodeName="status.nodeRef.name",
            ProviderID="spec.providerID",
            Phase="status.phase",
            Version="spec.version",
        ),
    ),
    _kind(CAPI, "MachineSet", short="ms", shown=_REPLICAS, scale=True),
    _kind(
        CAPI,
        "MachineDeployment",
        short="md",
        shown=(
            *_REPLICAS,
            *_columns(
                Updated="status.updatedReplicas",
                Unavailable="status.unavailableReplicas",
                Phase="status.phase",
            ),
        ),
        scale=True,
    ),
    _kind(
        CAPI,
        "MachineHealthCheck",
        short="mhc mhcs",
        shown=_columns(
            Cluster="spec.clusterName",
            ExpectedMachines="status.expectedMachines",
            MaxUnhealthy="spec.maxUnhealthy",
            CurrentHealthy="status.currentHealthy",
        ),
    ),
    _kind(INFRA, "KubevirtCluster", shown=_columns(Ready="status.ready")),
    _kind(INFRA, "KubevirtMachine", shown=_columns(Ready="status.ready")),
    _kind(INFRA, "KubevirtMachineTemplate", status=False),
    _kind(BOOTSTRAP, "TalosConfig", shown=_columns(Ready="status.ready")),
    _kind(BOOTSTRAP, "TalosConfigTemplate", status=False),
    _kind(
        CONTROL_PLANE,
        "KamajiControlPlane",
        short="ktcp",
        shown=_columns(
            Version="spec.version", Initialized="status.initialized", Ready="status.ready"
        ),
    ),
    _kind(
        KAMAJI,
        "TenantControlPlane",
        short="tcp",
        shown=_columns(
            Version="spec.kubernetes.version",
            Status="status.kubernetesResources.version.status",
            Endpoint="status.controlPlaneEndpoint",
            Datastore="status.storage.dataStoreName",
        ),
    ),
    _cluster(KAMAJI, "DataStore", shown=_columns(Driver="spec.driver")),
)
_VIRTUALISATION = (
    _kind(KUBEVIRT, "KubeVirt", "kubevirts", "kv kvs", shown=_columns(Phase="status.phase")),
    _kind(
        KUBEVIRT,
        "VirtualMachine",
        short="vm vms",
        shown=(_AGE, *_columns(Status="status.printableStatus"), *_READY),
        age=False,
    ),
    _kind(
        KUBEVIRT,
        "VirtualMachineInstance",
        short="vmi vmis",
        shown=(
            _AGE,
            *_columns(
                Phase="status.phase",
                IP=_first_address,
                NodeName="status.nodeName",
                Ready=_READY[0].path,
            ),
        ),
        age=False,
    ),
    # virt-api's own API: nothing but what is below a VMI
    Resource(
        group="subresources.kubevirt.io",
        version="v1",
        kind="VirtualMachineInstance",
        plural="virtualmachineinstances",
        stored=False,
    ),
    _cluster(INSTANCETYPE, "VirtualMachineClusterInstancetype", short="vmclusterinstancetype",
             status=False),
    _cluster(INSTANCETYPE, "VirtualMachineClusterPreference", status=False),
    _cluster(CDI, "CDI", "cdis", shown=_columns(Phase="status.phase")),
    _kind(
        CDI,
        "DataVolume",
        short="dv dvs",
        shown=_columns(
            Phase="status.phase", Progress="status.progress", Restarts="status.restartCount"
        ),
    ),
    _cluster(CDI, "StorageProfile"),
    _kind(CDI, "VolumeCloneSource", status=False),
    _kind(CDI, "VolumeImportSource"),
)  # fmt: skip
_STORAGE = (
    _cluster(PIRAEUS, "LinstorCluster"),
    _cluster(PIRAEUS, "LinstorSatellite"),
    _cluster(PIRAEUS, "LinstorSatelliteConfiguration"),
    _cluster(PIRAEUS, "LinstorNodeConnection"),
    _kind(STORAGE, "CSIStorageCapacity", "csistoragecapacities", status=False),
    _kind(SNAPSHOT, "VolumeSnapshot", short="vs", shown=_columns(ReadyToUse="status.readyToUse")),
    _cluster(SNAPSHOT, "VolumeSnapshotClass", "volumesnapshotclasses", "vsclass", status=False),
    _cluster(SNAPSHOT, "VolumeSnapshotContent", short="vsc vscs"),
)
MANAGEMENT: tuple[Resource, ...] = (*_COZYSTACK, *_CLUSTER_API, *_VIRTUALISATION, *_STORAGE)
TENANT: tuple[Resource, ...] = (
    _cluster(
        "nvidia.com/v1", "ClusterPolicy", "clusterpolicies", shown=_columns(Status="status.state")
    ),
    _cluster(
        "certificates.k8s.io/v1",
        "CertificateSigningRequest",
        generation=False,
        shown=_columns(SignerName="spec.signerName", Requestor="spec.username"),
    ),
    _cluster(STORAGE, "CSIDriver", status=False),
    _cluster(STORAGE, "CSINode", status=False),
    _cluster(STORAGE, "VolumeAttachment", shown=_columns(Node="spec.nodeName")),
    _cluster("apiregistration.k8s.io/v1", "APIService", shown=_columns(Service=_backend)),
    _kind("discovery.k8s.io/v1", "EndpointSlice", status=False, generation=True),
    # what metrics-server would compute at each request is kept here, and told as old as it is
    _cluster("metrics.k8s.io/v1beta1", "NodeMetrics", "nodes", status=False, generation=False),
)
