"""The kinds that captures speak of: how people call them on a command line, and their API group.

Plurals and short names as the projects' own definitions have them (objects.md sections 2 to 9).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Known:
    """One kind. ``words`` are its plural, singular and short names, all in small letters."""

    kind: str
    group: str
    version: str
    words: tuple[str, ...]
    namespaced: bool = True

    @property
    def api_version(self) -> str:
        """As an object's ``apiVersion`` spells it."""
        return f"{self.group}/{self.version}" if self.group else self.version


def _kind(kind: str, place: str, *words: str, namespaced: bool = True) -> Known:
    group, _, version = place.rpartition("/")
    return Known(kind, group, version, (kind.lower(), *words), namespaced)


_CAPI, _INFRA = "cluster.x-k8s.io/v1beta1", "infrastructure.cluster.x-k8s.io/v1alpha1"
_BOOT = "bootstrap.cluster.x-k8s.io/v1alpha3"

KINDS: tuple[Known, ...] = (
    _kind("Pod", "v1", "pods", "po"),
    _kind("Node", "v1", "nodes", "no", namespaced=False),
    _kind("Namespace", "v1", "namespaces", "ns", namespaced=False),
    _kind("Service", "v1", "services", "svc"),
    _kind("Event", "v1", "events", "ev"),
    _kind("ConfigMap", "v1", "configmaps", "cm"),
    _kind("Secret", "v1", "secrets"),
    _kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", "pvc"),
    _kind("PersistentVolume", "v1", "persistentvolumes", "pv", namespaced=False),
    _kind("ResourceQuota", "v1", "resourcequotas", "quota"),
    _kind("ReplicationController", "v1", "replicationcontrollers", "rc"),
    _kind("Deployment", "apps/v1", "deployments", "deploy"),
    _kind("DaemonSet", "apps/v1", "daemonsets", "ds"),
    _kind("StatefulSet", "apps/v1", "statefulsets", "sts"),
    _kind("ReplicaSet", "apps/v1", "replicasets", "rs"),
    _kind("Job", "batch/v1", "jobs"),
    _kind("CronJob", "batch/v1", "cronjobs", "cj"),
    _kind("StorageClass", "storage.k8s.io/v1", "storageclasses", "sc", namespaced=False),
    _kind("RoleBinding", "rbac.authorization.k8s.io/v1", "rolebindings"),
    _kind(
        "CertificateSigningRequest",
        "certificates.k8s.io/v1",
        "certificatesigningrequests",
        "csr",
        namespaced=False,
    ),
    _kind("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", namespaced=False),
    _kind("HelmRelease", "helm.toolkit.fluxcd.io/v2", "helmreleases", "hr"),
    _kind("Kubernetes", "apps.cozystack.io/v1alpha1", "kuberneteses"),
    _kind("KubernetesNodes", "apps.cozystack.io/v1alpha1", "kubernetesnodeses"),
    _kind("Tenant", "apps.cozystack.io/v1alpha1", "tenants"),
    _kind("Package", "cozystack.io/v1alpha1", "packages", "pkg", namespaced=False),
    _kind("PackageSource", "cozystack.io/v1alpha1", "packagesources", "pks", namespaced=False),
    _kind("WorkloadMonitor", "cozystack.io/v1alpha1", "workloadmonitors"),
    _kind("Cluster", _CAPI, "clusters", "cl"),
    _kind("Machine", _CAPI, "machines", "ma"),
    _kind("MachineSet", _CAPI, "machinesets", "ms"),
    _kind("MachineDeployment", _CAPI, "machinedeployments", "md"),
    _kind("MachineHealthCheck", _CAPI, "machinehealthchecks", "mhc", "mhcs"),
    _kind("KubevirtCluster", _INFRA, "kubevirtclusters"),
    _kind("KubevirtMachine", _INFRA, "kubevirtmachines"),
    _kind("KubevirtMachineTemplate", _INFRA, "kubevirtmachinetemplates"),
    _kind("TalosConfig", _BOOT, "talosconfigs"),
    _kind("TalosConfigTemplate", _BOOT, "talosconfigtemplates"),
    _kind(
        "KamajiControlPlane",
        "controlplane.cluster.x-k8s.io/v1alpha1",
        "kamajicontrolplanes",
        "ktcp",
        "kcp",
    ),
    _kind("TenantControlPlane", "kamaji.clastix.io/v1alpha1", "tenantcontrolplanes", "tcp"),
    _kind("VirtualMachine", "kubevirt.io/v1", "virtualmachines", "vm", "vms"),
    _kind("VirtualMachineInstance", "kubevirt.io/v1", "virtualmachineinstances", "vmi", "vmis"),
    _kind("KubeVirt", "kubevirt.io/v1", "kubevirts", "kv", "kvs"),
    _kind("DataVolume", "cdi.kubevirt.io/v1beta1", "datavolumes", "dv", "dvs"),
    _kind("CDI", "cdi.kubevirt.io/v1beta1", "cdis", namespaced=False),
    _kind("StorageProfile", "cdi.kubevirt.io/v1beta1", "storageprofiles", namespaced=False),
    _kind("VolumeCloneSource", "cdi.kubevirt.io/v1beta1", "volumeclonesources"),
    _kind("LinstorCluster", "piraeus.io/v1", "linstorclusters", namespaced=False),
    _kind("LinstorSatellite", "piraeus.io/v1", "linstorsatellites", namespaced=False),
    _kind("ClusterPolicy", "nvidia.com/v1", "clusterpolicies", namespaced=False),
)

_BY_WORD = {word: known for known in KINDS for word in known.words}
_BY_KIND = {known.kind: known for known in KINDS}


def by_word(word: str) -> Known | None:
    """The kind that a command line means: "po", "pods", "helmreleases.helm.toolkit.fluxcd.io"."""
    name, dot, group = word.lower().partition(".")
    known = _BY_WORD.get(name)
    if known is None or not dot:
        return known
    rest = group.removeprefix(known.version + ".")
    return known if rest == known.group else None


def by_kind(kind: str) -> Known | None:
    """The kind as objects spell it."""
    return _BY_KIND.get(kind)
