from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.facts.fact import Unread
from harness.facts.headroom import ClassPlacement, Quota, Quotas
from harness.observe.headroom import golden_size, placement, quotas
from harness.reach.errors import ApiRefused

Obj = dict[str, Any]
GIB = 1024**3


def now() -> float:
    return 5.0


def klass(name: str, provisioner: str = "linstor.csi.linbit.com") -> Obj:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name, "namespace": ""},
        "provisioner": provisioner,
        "parameters": {"linstor.csi.linbit.com/storagePool": "data"},
    }


def golden(namespace: str, spec: Obj) -> Obj:
    return {
        "apiVersion": "cdi.kubevirt.io/v1beta1",
        "kind": "DataVolume",
        "metadata": {"name": "talos-worker-a-v1", "namespace": namespace},
        "spec": spec,
    }


def asks(size: Any) -> Obj:
    return {"resources": {"requests": {"storage": size}}}


def refusing(kube: Any) -> Any:
    def refuse(*_: Any, **__: Any) -> None:
        raise ApiRefused(403, "Forbidden", "may not list")

    kube.list = kube.get = refuse
    return kube


def test_class_and_its_placement(cluster: Callable[..., Any]) -> None:
    found = placement(cluster(klass("replicated")), "replicated", now=now)
    assert isinstance(found, ClassPlacement)
    assert (found.pool, found.copies, found.origin.at) == ("data", 1, 5.0)


def test_class_that_is_not_there_or_may_not_be_read(cluster: Callable[..., Any]) -> None:
    found = placement(cluster(klass("other")), "replicated", now=now)
    assert isinstance(found, Unread)
    assert (found.asked, found.reason) == ("StorageClass replicated", "there is none")
    found = placement(refusing(cluster()), "replicated", now=now)
    assert isinstance(found, Unread)
    assert "may not list" in found.reason


def test_quotas_of_the_namespace_alone(cluster: Callable[..., Any]) -> None:
    def limit(namespace: str, hard: str) -> Obj:
        return {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "storage", "namespace": namespace},
            "spec": {"hard": {"requests.storage": hard}},
        }

    found = quotas(cluster(limit("tenant-hil", "100Gi"), limit("b", "1Gi")), "tenant-hil", now=now)
    assert isinstance(found, Quotas)
    assert found.quotas == (Quota("storage", "", 100 * GIB, None),)
    assert "100Gi" in found.origin.raw
    refused = quotas(refusing(cluster()), "tenant-hil", now=now)
    assert isinstance(refused, Unread)
    assert "may not list" in refused.reason


def test_size_of_a_golden(cluster: Callable[..., Any]) -> None:
    name = "talos-worker-a-v1"
    assert golden_size(cluster(golden("cozy-public", {"storage": asks("6Gi")})), name) == 6 * GIB
    assert golden_size(cluster(golden("cozy-public", {"pvc": asks("6G")})), name) == 6 * 10**9
    assert golden_size(cluster(golden("elsewhere", {"storage": asks("6Gi")})), name) is None
    assert golden_size(cluster(golden("cozy-public", {"storage": asks("six")})), name) is None
    assert golden_size(cluster(), name) is None
    assert golden_size(refusing(cluster()), name) is None
