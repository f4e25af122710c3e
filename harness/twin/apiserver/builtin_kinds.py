"""The built-in kinds that every cluster of the twin serves.

Merge keys of lists are the ``patchMergeKey``/``x-kubernetes-list-map-keys`` of the public
Kubernetes API types; a list that is not named is replaced as a whole.
"""

from __future__ import annotations

from typing import Any

from harness.twin.apiserver import builtin_columns as columns
from harness.twin.apiserver.resources import Column, Resource

RBAC = "rbac.authorization.k8s.io"
_OWNERS = {"metadata.ownerReferences": "uid", "metadata.finalizers": ""}
_CONDITIONS = {"status.conditions": "type"}
_CONTAINER = {
    "env": "name",
    "ports": "containerPort",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "resources.claims": "name",
}
_POD = {
    "volumes": "name",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
    "topologySpreadConstraints": "topologyKey",
    "resourceClaims": "name",
    "schedulingGates": "name",
}


def pod_list_keys(prefix: str = "spec") -> dict[str, str]:
    """Merge keys of a pod's spec that stands at ``prefix`` (``spec.template.spec``)."""
    found = {f"{prefix}.{path}": key for path, key in _POD.items()}
    for kind in ("containers", "initContainers", "ephemeralContainers"):
        found[f"{prefix}.{kind}"] = "name"
        found |= {f"{prefix}.{kind}.{path}": key for path, key in _CONTAINER.items()}
    return found


def _kind(
    group_version: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    shown: tuple[Column, ...] = (columns.AGE,),
    keys: dict[str, str] | None = None,
    **more: Any,
) -> Resource:
    group, _, version = group_version.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        builtin=True,
        columns=shown,
        list_keys={**_OWNERS, **(keys or {})},
        **more,
    )


def _cluster(*arguments: Any, **more: Any) -> Resource:
    return _kind(*arguments, namespaced=False, **more)


def _workload(kind: str, plural: str, short: str, shown: tuple[Column, ...]) -> Resource:
    return _kind(
        "apps/v1",
        kind,
        plural,
        short,
        shown=shown,
        keys={**pod_list_keys("spec.template.spec"), **_CONDITIONS},
        status=True,
        scale=kind != "DaemonSet",
        categories=("all",),
    )


_CORE = (
    _cluster(
        "v1",
        "Namespace",
        "namespaces",
        "ns",
        shown=columns.NAMESPACES,
        keys={"spec.finalizers": "", **_CONDITIONS},
        status=True,
        generation=False,
        field_selectors=("status.phase",),
    ),
    _cluster(
        "v1",
        "Node",
        "nodes",
        "no",
        shown=columns.NODES,
        keys={"spec.podCIDRs": "", "status.addresses": "type", **_CONDITIONS},
        status=True,
        generation=False,
        field_selectors=("spec.unschedulable",),
    ),
    _kind(
        "v1",
        "Pod",
        "pods",
        "po",
        shown=columns.PODS,
        keys={
            **pod_list_keys(),
            **_CONDITIONS,
            "status.podIPs": "ip",
            "status.hostIPs": "ip",
        },
        status=True,
        categories=("all",),
        field_selectors=(
            "spec.nodeName",
            "spec.restartPolicy",
            "spec.schedulerName",
            "spec.serviceAccountName",
            "spec.hostNetwork",
            "status.phase",
            "status.podIP",
            "status.nominatedNodeName",
        ),
    ),
    _kind(
        "v1",
        "Service",
        "services",
        "svc",
        shown=columns.SERVICES,
        keys={"spec.ports": "port", **_CONDITIONS},
        status=True,
        generation=False,
        categories=("all",),
        field_selectors=("spec.clusterIP", "spec.type"),
    ),
    _kind(
        "v1",
        "Secret",
        "secrets",
        shown=columns.SECRETS,
        generation=False,
        field_selectors=("type",),
    ),
    _kind("v1", "ConfigMap", "configmaps", "cm", shown=columns.CONFIGMAPS, generation=False),
    _kind(
        "v1",
        "ServiceAccount",
        "serviceaccounts",
        "sa",
        shown=columns.ACCOUNTS,
        keys={"secrets": "name", "imagePullSecrets": "name"},
        generation=False,
    ),
    _kind(
        "v1",
        "Event",
        "events",
        "ev",
        shown=columns.EVENTS,
        generation=False,
        field_selectors=(
            *(
                f"involvedObject.{field}"
                for field in (
                    "kind",
                    "namespace",
                    "name",
                    "uid",
                    "apiVersion",
                    "resourceVersion",
                    "fieldPath",
                )
            ),
            "reason",
            "reportingComponent",
            "source",
            "type",
        ),
    ),
    _kind(
        "v1",
        "PersistentVolumeClaim",
        "persistentvolumeclaims",
        "pvc",
        shown=columns.CLAIMS,
        keys=_CONDITIONS,
        status=True,
        generation=False,
    ),
    _cluster(
        "v1",
        "PersistentVolume",
        "persistentvolumes",
        "pv",
        shown=columns.VOLUMES,
        status=True,
        generation=False,
    ),
    _kind(
        "v1",
        "ResourceQuota",
        "resourcequotas",
        "quota",
        shown=columns.QUOTAS,
        status=True,
        generation=False,
    ),
)
_WORKLOADS = (
    _workload("Deployment", "deployments", "deploy", columns.DEPLOYMENTS),
    _workload("DaemonSet", "daemonsets", "ds", columns.DAEMONSETS),
    _workload("ReplicaSet", "replicasets", "rs", columns.REPLICASETS),
    _workload("StatefulSet", "statefulsets", "sts", columns.STATEFULSETS),
    _kind(
        "batch/v1",
        "Job",
        "jobs",
        shown=columns.JOBS,
        keys={**pod_list_keys("spec.template.spec"), **_CONDITIONS},
        status=True,
        categories=("all",),
        field_selectors=("status.successful",),
    ),
)
_ACCESS = (
    _kind(f"{RBAC}/v1", "Role", "roles", shown=(columns.AGE,), generation=False),
    _kind(f"{RBAC}/v1", "RoleBinding", "rolebindings", shown=columns.BINDINGS, generation=False),
    _cluster(f"{RBAC}/v1", "ClusterRole", "clusterroles", generation=False),
    _cluster(
        f"{RBAC}/v1",
        "ClusterRoleBinding",
        "clusterrolebindings",
        shown=columns.BINDINGS,
        generation=False,
    ),
)
_OTHERS = (
    _kind("coordination.k8s.io/v1", "Lease", "leases", shown=columns.LEASES, generation=False),
    _cluster(
        "storage.k8s.io/v1",
        "StorageClass",
        "storageclasses",
        "sc",
        shown=columns.STORAGE_CLASSES,
        generation=False,
    ),
    _cluster(
        "node.k8s.io/v1",
        "RuntimeClass",
        "runtimeclasses",
        shown=columns.RUNTIME_CLASSES,
        generation=False,
    ),
    _cluster(
        "apiextensions.k8s.io/v1",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "crd crds",
        shown=columns.DEFINITIONS,
        keys=_CONDITIONS,
        status=True,
        categories=("api-extensions",),
    ),
)
# Kinds that are posted and answered, never stored.
REVIEWS = (
    _cluster("authorization.k8s.io/v1", "SelfSubjectAccessReview", "selfsubjectaccessreviews"),
    _cluster("authorization.k8s.io/v1", "SelfSubjectRulesReview", "selfsubjectrulesreviews"),
    _cluster("authorization.k8s.io/v1", "SubjectAccessReview", "subjectaccessreviews"),
    _kind("authorization.k8s.io/v1", "LocalSubjectAccessReview", "localsubjectaccessreviews"),
    _cluster("authentication.k8s.io/v1", "SelfSubjectReview", "selfsubjectreviews"),
    _cluster("authentication.k8s.io/v1", "TokenReview", "tokenreviews"),
)
BUILTIN: tuple[Resource, ...] = (*_CORE, *_WORKLOADS, *_ACCESS, *_OTHERS, *REVIEWS)
_REVIEW_KINDS = frozenset((resource.group, resource.kind) for resource in REVIEWS)


def is_review(resource: Resource) -> bool:
    """Whether a kind is a question that is answered rather than stored."""
    return (resource.group, resource.kind) in _REVIEW_KINDS
