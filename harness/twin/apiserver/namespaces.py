"""The life of a namespace: what it starts with, and why it may refuse new content."""

from __future__ import annotations

from typing import Final

from harness.twin.apiserver.errors import ApiError, not_found
from harness.twin.apiserver.records import Kind
from harness.twin.apiserver.resources import Obj, Resource

NAMESPACE: Final[Kind] = ("v1", "Namespace")
_PROTECTED: Final = ("default", "kube-system", "kube-public")


def is_namespace(resource: Resource) -> bool:
    """Whether a kind is the core Namespace."""
    return not resource.group and resource.kind == "Namespace"


def started(obj: Obj) -> Obj:
    """A new namespace with the label and the phase that every namespace has."""
    metadata = obj["metadata"]
    labels = {**metadata.get("labels", {}), "kubernetes.io/metadata.name": metadata["name"]}
    return {
        **obj,
        "metadata": {**metadata, "labels": labels},
        "spec": {"finalizers": ["kubernetes"]},
        "status": {"phase": "Active"},
    }


def check_open(resource: Resource, name: str, namespace: str, found: Obj | None) -> None:
    """Refuse new content: 404 where there is no namespace, 403 where it is going away."""
    if found is None:
        raise not_found("", "namespaces", namespace)
    if not found["metadata"].get("deletionTimestamp"):
        return
    why = f"namespace {namespace} is being terminated"
    cause = {"reason": "NamespaceTerminating", "message": why, "field": "metadata.namespace"}
    raise ApiError(
        403,
        f'{resource.qualified} "{name}" is forbidden: unable to create new content in namespace '
        f"{namespace} because it is being terminated",
        details={
            "name": name,
            "group": resource.group,
            "kind": resource.plural,
            "causes": [cause],
        },
    )


def check_deletable(name: str) -> None:
    """Refuse with 403 to delete a namespace that the system needs."""
    if name in _PROTECTED:
        raise ApiError(
            403,
            f'namespaces "{name}" is forbidden: this namespace may not be deleted',
            details={"name": name, "kind": "namespaces"},
        )
