"""Ask the management cluster what a pool's disks may take, and how large its golden image is.

What the API will not say is Unread, with its reason; where it cannot be reached at all, reach's
LabError passes. ``now`` gives the lab's time in epoch seconds.
"""

from __future__ import annotations

import json
from collections.abc import Callable

from harness.facts.fact import Origin, Unread
from harness.facts.goldenname import GOLDENS
from harness.facts.headroom import ClassPlacement, Quotas, read_placement, read_quotas
from harness.facts.objects import at_path
from harness.facts.quantity import bytes_of
from harness.observe.pool import DATA_VOLUMES
from harness.reach.errors import ApiRefused
from harness.reach.kube import Kube

"""The namespace of golden images (clone_path.md section 2)."""

_STORAGE = "storage.k8s.io/v1"
_SIZES = (
    ("spec", "storage", "resources", "requests", "storage"),
    ("spec", "pvc", "resources", "requests", "storage"),
)
_Now = Callable[[], float]


def placement(kube: Kube, name: str, *, now: _Now) -> ClassPlacement | Unread:
    """Where the volumes of a StorageClass are put."""
    asked = f"StorageClass {name}"
    try:
        found = kube.get(_STORAGE, "StorageClass", "", name)
    except ApiRefused as refused:
        return Unread(Origin(now(), f"{kube.name} {asked}", ""), asked, refused.saw)
    if found is None:
        return Unread(Origin(now(), f"{kube.name} {asked}", ""), asked, "there is none")
    return read_placement(found, at=now(), cluster=kube.name)


def quotas(kube: Kube, namespace: str, *, now: _Now) -> Quotas | Unread:
    """Every limit on the sizes of claims in a namespace."""
    source, asked = f"{kube.name} ResourceQuota {namespace}", f"the quotas of {namespace}"
    try:
        found = kube.list("v1", "ResourceQuota", namespace)
    except ApiRefused as refused:
        return Unread(Origin(now(), source, ""), asked, refused.saw)
    raw = json.dumps(found, indent=1, sort_keys=True)
    return read_quotas(found, namespace, Origin(now(), source, raw))


def golden_size(kube: Kube, name: str) -> int | None:
    """What a golden image asks of its storage in bytes, None where there is none or it says not.

    A clone's temporary volume is as large (clone_path.md section 7).
    """
    try:
        found = kube.get(DATA_VOLUMES, "DataVolume", GOLDENS, name) or {}
    except ApiRefused:
        return None
    sizes = (bytes_of(at_path(found, *path)) for path in _SIZES)
    return next((size for size in sizes if size is not None), None)
