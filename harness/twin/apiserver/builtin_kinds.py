"""The built-in kinds that every cluster of the twin serves; their fields are in ``fieldtable``."""

from __future__ import annotations

from typing import Any

from harness.twin.apiserver import builtin_columns as columns
from harness.twin.apiserver.fieldtable import known
from harness.twin.apiserver.resources import Column, Resource

RBAC = "rbac.authorization.k8s.io"


def _kind(
    group_version: str,
    kind: str,
    plural: str,
    short: str = "",
    *,
    shown: tuple[Column, ...] = (columns.AGE,),
    **more: Any,
) -> Resource:
    group, _, version = group_version.rpartition("/")
    fields = known(group_version, kind)
    return Resource(
        group=group,
        version=version,
        kind=kind,
        plural=plural,
        singular=kind.lower(),
        short_names=tuple(short.split()),
        builtin=True,
        columns=shown,
        list_keys=fields.list_keys,
        present=fields.present,
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
