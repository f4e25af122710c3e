from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.errors import ApiError

TENANT = "tenant-hil"


def claim(disks: Any, name: str, size: str, klass: str = "replicated") -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "volumeMode": "Block",
        "storageClassName": klass,
        "resources": {"requests": {"storage": size}},
    }
    metadata = {"name": name, "namespace": TENANT}
    disks.create(
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}
    )


def used(disks: Any) -> Any:
    return disks.get("v1", "ResourceQuota", TENANT, "storage")["status"]["used"]


def test_what_is_used_is_kept(disks: Any) -> None:
    disks.quota("100Gi")
    disks.run(1)
    assert used(disks) == {"requests.storage": "0"}
    claim(disks, "a", "10Gi")
    claim(disks, "b", "512Mi")
    disks.run(1)
    assert used(disks) == {"requests.storage": "10752Mi"}
    disks.delete(disks.claim("b"))
    disks.run(1)
    assert used(disks) == {"requests.storage": "10Gi"}


def test_a_claim_beyond_the_quota_is_refused_in_the_words_of_the_api(disks: Any) -> None:
    disks.quota("15Gi")
    claim(disks, "a", "10Gi")
    with pytest.raises(ApiError) as refused:
        claim(disks, "b", "6Gi")
    assert refused.value.code == 403
    assert refused.value.message == (
        'persistentvolumeclaims "b" is forbidden: exceeded quota: storage, requested: '
        "requests.storage=6Gi, used: requests.storage=10Gi, limited: requests.storage=15Gi"
    )
    claim(disks, "c", "5Gi")


def test_growth_counts_for_what_it_adds(disks: Any) -> None:
    disks.quota("15Gi")
    claim(disks, "a", "10Gi")
    disks.run(10)

    def grow(size: str) -> None:
        asked = {"requests": {"storage": size}}
        disks.edit(disks.claim("a"), lambda o: o["spec"].update(resources=asked))

    with pytest.raises(ApiError, match=r"requested: requests\.storage=6Gi"):
        grow("16Gi")
    grow("15Gi")


def test_a_class_has_a_quota_of_its_own_and_claims_are_counted(disks: Any) -> None:
    quota = disks.quota("100Gi")
    key = "replicated.storageclass.storage.k8s.io/requests.storage"
    disks.edit(quota, lambda o: o["spec"]["hard"].update({key: "5Gi", "persistentvolumeclaims": 2}))
    with pytest.raises(ApiError, match=key):
        claim(disks, "a", "6Gi")
    claim(disks, "a", "6Gi", "local")
    claim(disks, "b", "6Gi", "local")
    with pytest.raises(ApiError, match="persistentvolumeclaims=1"):
        claim(disks, "c", "1Gi", "local")


def test_other_namespaces_are_not_counted(disks: Any) -> None:
    disks.quota("5Gi", "cozy-public")
    claim(disks, "a", "10Gi")
