"""Small parts that Kubernetes objects are made of: references, owners, times, content hashes."""

from __future__ import annotations

import base64
import datetime
import hashlib
import json
from typing import Any

Obj = dict[str, Any]

# apiVersions of the kinds the world works with (objects.md sections 2-9)
APPS = "apps.cozystack.io/v1alpha1"
COZY = "cozystack.io/v1alpha1"
HELM = "helm.toolkit.fluxcd.io/v2"
CAPI = "cluster.x-k8s.io/v1beta1"
INFRA = "infrastructure.cluster.x-k8s.io/v1alpha1"
BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1alpha3"
CONTROL_PLANE = "controlplane.cluster.x-k8s.io/v1alpha1"
KAMAJI = "kamaji.clastix.io/v1alpha1"
KUBEVIRT = "kubevirt.io/v1"
INSTANCETYPE = "instancetype.kubevirt.io/v1beta1"
CDI = "cdi.kubevirt.io/v1beta1"
PIRAEUS = "piraeus.io/v1"
STORAGE = "storage.k8s.io/v1"
SNAPSHOT = "snapshot.storage.k8s.io/v1"


def rfc3339(moment: float) -> str:
    """Epoch seconds as the API writes times: UTC, whole seconds."""
    when = datetime.datetime.fromtimestamp(int(moment), tz=datetime.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%SZ")


def rfc3339_micro(moment: float) -> str:
    """Epoch seconds as a MicroTime (``spec.renewTime`` of a Lease)."""
    when = datetime.datetime.fromtimestamp(moment, tz=datetime.UTC)
    return when.strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def parse_rfc3339(text: str) -> float:
    """The other way round; 0.0 for an empty text. Raises ValueError for anything else."""
    if not text:
        return 0.0
    return datetime.datetime.fromisoformat(text).timestamp()


def meta(name: str, namespace: str = "", **more: Any) -> Obj:
    """``metadata`` with what is given; empty values are left out."""
    found = {"name": name, "namespace": namespace, **more}
    return {key: value for key, value in found.items() if value not in ("", None, {}, [])}


def owner(obj: Obj, *, controller: bool = True) -> Obj:
    """An ownerReference to ``obj``."""
    reference: Obj = {
        "apiVersion": obj["apiVersion"],
        "kind": obj["kind"],
        "name": obj["metadata"]["name"],
        "uid": obj["metadata"]["uid"],
    }
    if controller:
        reference |= {"controller": True, "blockOwnerDeletion": True}
    return reference


def controller_of(obj: Obj) -> Obj:
    """The ownerReference that controls ``obj``, or an empty one."""
    for reference in obj["metadata"].get("ownerReferences") or ():
        if reference.get("controller"):
            return dict(reference)
    return {}


def labels_of(obj: Obj) -> dict[str, str]:
    """Labels, an empty mapping where there are none."""
    return obj["metadata"].get("labels") or {}


def annotations_of(obj: Obj) -> dict[str, str]:
    """Annotations, an empty mapping where there are none."""
    return obj["metadata"].get("annotations") or {}


def selected(obj: Obj, match: dict[str, str]) -> bool:
    """Whether every label of ``match`` is on ``obj``; an empty selector selects nothing."""
    found = labels_of(obj)
    return bool(match) and all(found.get(key) == value for key, value in match.items())


def terminating(obj: Obj) -> bool:
    """Whether a deletion of ``obj`` has begun."""
    return bool(obj["metadata"].get("deletionTimestamp"))


def encode(text: str) -> str:
    """Text as a Secret's ``data`` holds it."""
    return base64.b64encode(text.encode()).decode()


def decode(data: str) -> str:
    """A Secret's ``data`` value as text."""
    return base64.b64decode(data).decode()


def digest(value: Any) -> str:
    """SHA-256 in hex of a JSON value's canonical text, or of a text as it is."""
    text = value if isinstance(value, str) else json.dumps(value, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()


def deep(obj: Obj, *path: str) -> Any:
    """The value at a path of mappings, None where any step is missing."""
    found: Any = obj
    for key in path:
        if not isinstance(found, dict):
            return None
        found = found.get(key)
    return found


_UNITS = {
    "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "Pi": 2**50, "Ei": 2**60,
    "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15, "E": 10**18,
}  # fmt: skip


def quantity(text: str | int) -> int:
    """A quantity in its base unit, rounded up (``500m`` is 1). Raises ValueError."""
    value = str(text)
    for unit, factor in _UNITS.items():
        if value.endswith(unit):
            return int(float(value.removesuffix(unit)) * factor)
    if value.endswith("m"):
        return -(-int(value[:-1]) // 1000)
    return int(value)
