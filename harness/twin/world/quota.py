"""ResourceQuota, as far as storage goes: what claims ask for, scratch space included.

What is counted and the words of a refusal: Kubernetes' quota admission
(kubernetes/plugin/pkg/admission/resourcequota, pkg/quota/v1/evaluator/core).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.records import Admission
from harness.twin.world.objects import Obj, deep, quantity
from harness.twin.world.reconcile import Queue

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

STORAGE_REQUESTS = "requests.storage"
CLAIMS = "persistentvolumeclaims"
_BY_CLASS = ".storageclass.storage.k8s.io/"
_UNITS = (("Ti", 2**40), ("Gi", 2**30), ("Mi", 2**20), ("Ki", 2**10))


class Quotas:
    """Refuses claims that a namespace's quotas have no room for, and keeps ``status.used``."""

    def __init__(self, world: World) -> None:
        self._cluster = world.cluster
        self._queue = Queue(
            world.engine, "resourcequota", self._count, lambda: world.timings.draw("quota.step")
        )
        self._cluster.on("v1", "ResourceQuota", self._hear)
        self._cluster.on("v1", "PersistentVolumeClaim", self._hear_claim)

    def _hear(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.hear(change)

    def _hear_claim(self, change: Change) -> None:
        namespace = change.obj["metadata"]["namespace"]
        for quota in self._cluster.all("v1", "ResourceQuota", namespace):
            self._queue.hear_of(quota)

    def _count(self, namespace: str, name: str) -> None:
        quota = self._cluster.find("v1", "ResourceQuota", namespace, name)
        if quota is None:
            return
        hard = _hard(quota)
        used = self._used(namespace)
        status = {"hard": hard, "used": {key: _text(key, used.get(key, 0)) for key in hard}}
        self._cluster.status(
            quota, lambda stored: stored.update(status=status), manager="resourcequota-controller"
        )

    def _used(self, namespace: str) -> dict[str, int]:
        total: dict[str, int] = {}
        for claim in self._cluster.all("v1", "PersistentVolumeClaim", namespace):
            for key, count in _asked(claim).items():
                total[key] = total.get(key, 0) + count
        return total

    def admission(self, question: Admission) -> Obj:
        """The admission hook. ApiError 403 for a claim that a quota has no room for."""
        claim = question.obj
        if question.resource.kind != "PersistentVolumeClaim" or question.verb == "DELETE":
            return claim
        before = _asked(question.old) if question.old is not None else {}
        more = {key: count - before.get(key, 0) for key, count in _asked(claim).items()}
        namespace = claim["metadata"]["namespace"]
        quotas = self._cluster.all("v1", "ResourceQuota", namespace)
        if quotas and any(count > 0 for count in more.values()):
            used = self._used(namespace)
            for quota in quotas:
                _check(claim["metadata"]["name"], quota, more, used)
        return claim


def _check(name: str, quota: Obj, more: dict[str, int], used: dict[str, int]) -> None:
    hard = _hard(quota)
    over = [
        key
        for key in sorted(hard)
        if more.get(key, 0) > 0 and used.get(key, 0) + more[key] > quantity(hard[key])
    ]
    if over:
        told = (
            ("requested", {key: more[key] for key in over}),
            ("used", {key: used.get(key, 0) for key in over}),
            ("limited", {key: quantity(hard[key]) for key in over}),
        )
        parts = [f"{word}: {_list(values)}" for word, values in told]
        text = ", ".join([f"exceeded quota: {quota['metadata']['name']}", *parts])
        raise ApiError(403, f'{CLAIMS} "{name}" is forbidden: {text}')


def _hard(quota: Obj) -> dict[str, str]:
    """The limits that are about storage."""
    hard = deep(quota, "spec", "hard") or {}
    known = (STORAGE_REQUESTS, CLAIMS)
    return {key: str(value) for key, value in hard.items() if key in known or _BY_CLASS in key}


def _asked(claim: Obj) -> dict[str, int]:
    size = quantity(deep(claim, "spec", "resources", "requests", "storage") or "0")
    klass = deep(claim, "spec", "storageClassName") or ""
    counts = {STORAGE_REQUESTS: size, CLAIMS: 1}
    return counts | {f"{klass}{_BY_CLASS}{key}": count for key, count in counts.items()}


def _list(values: dict[str, int]) -> str:
    return ",".join(f"{key}={_text(key, count)}" for key, count in values.items())


def _text(key: str, count: int) -> str:
    if key.endswith(STORAGE_REQUESTS) and count:
        for unit, factor in _UNITS:
            if count % factor == 0:
                return f"{count // factor}{unit}"
    return str(count)
