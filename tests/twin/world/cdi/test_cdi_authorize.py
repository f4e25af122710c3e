from __future__ import annotations

from typing import Any

import pytest

from harness.twin.apiserver.access import account_user
from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.store import Options
from harness.twin.world.objects import APPS, CDI, INFRA

TENANT, PUBLIC = "tenant-hil", "cozy-public"
RBAC = "rbac.authorization.k8s.io/v1"
REFUSED = f"has insufficient permissions in clone source namespace {PUBLIC}"
SOMEBODY = account_user(TENANT, "default")


def binding(disks: Any) -> Any:
    return disks.get(RBAC, "RoleBinding", PUBLIC, "cdi-clone-dv")


def golden(disks: Any) -> str:
    (found,) = disks.world.management.all(CDI, "DataVolume", PUBLIC)
    return str(found["metadata"]["name"])


def ask(disks: Any, source: dict[str, Any], user: Any = SOMEBODY, name: str = "disk") -> None:
    disks.create(disks.volume(name, source, "20Gi"), options=Options(user=user))


def clone(disks: Any, user: Any = SOMEBODY) -> None:
    ask(disks, {"pvc": {"namespace": PUBLIC, "name": golden(disks)}}, user)


def test_the_binding_that_ships_lets_every_service_account_clone(disks: Any) -> None:
    clone(disks)
    disks.finish()


def test_without_it_nobody_who_asks_gets_a_clone(disks: Any) -> None:
    disks.delete(binding(disks))
    with pytest.raises(ApiError) as refused:
        clone(disks)
    assert refused.value.code == 403
    assert f"User system:serviceaccount:{TENANT}:default {REFUSED}" in refused.value.message
    assert disks.made("DataVolume") == []


def test_rbac_is_read_as_it_stands(disks: Any) -> None:
    disks.delete(binding(disks))
    subject = {"kind": "ServiceAccount", "name": "default", "namespace": TENANT}
    role = {"apiGroup": RBAC.partition("/")[0], "kind": "ClusterRole", "name": "cdi-copy-dv"}
    metadata = {"name": "one-tenant", "namespace": PUBLIC}
    made = {"metadata": metadata, "subjects": [subject], "roleRef": role}
    disks.create({"apiVersion": RBAC, "kind": "RoleBinding", **made})
    with pytest.raises(ApiError):
        clone(disks, account_user("tenant-root", "default"))
    clone(disks)


def test_the_role_must_name_the_subresource(disks: Any) -> None:
    role = disks.get(RBAC, "ClusterRole", "", "cdi-copy-dv")
    disks.edit(role, lambda o: o["rules"][0].update(resources=["datavolumes"]))
    with pytest.raises(ApiError):
        clone(disks)


@pytest.mark.parametrize("source", [{"http": {"url": "https://x/y"}}, {"pvc": {"name": "own"}}])
def test_what_is_not_cloned_from_elsewhere_is_not_asked_for(disks: Any, source: Any) -> None:
    disks.delete(binding(disks))
    ask(disks, source)


def test_a_worker_is_refused_where_its_namespace_may_not_clone(disks: Any) -> None:
    kept = binding(disks)
    disks.delete(kept)
    spec = {"cluster": "lab", "minReplicas": 1, "osImage": {"builtin": {}}}
    metadata = {"name": "lab-cloned", "namespace": TENANT}
    pool = {"metadata": metadata, "spec": {"storageClass": "replicated", **spec}}
    disks.create({"apiVersion": APPS, "kind": "KubernetesNodes", **pool})
    disks.run(60)
    assert disks.world.management.all("kubevirt.io/v1", "VirtualMachine") == []
    (machine,) = disks.world.management.all(INFRA, "KubevirtMachine")
    (told,) = [c for c in machine["status"]["conditions"] if c["type"] == "VMProvisioned"]
    assert told["reason"] == "VMCreateFailed"
    assert 'admission webhook "virtualmachine-validator.kubevirt.io" denied' in told["message"]
    assert REFUSED in told["message"]
    again = {k: kept[k] for k in ("apiVersion", "kind", "subjects", "roleRef")}
    disks.create({**again, "metadata": {"name": "cdi-clone-dv", "namespace": PUBLIC}})
    disks.until(lambda: disks.world.management.all("kubevirt.io/v1", "VirtualMachine"))


def test_a_volumes_spec_never_changes(disks: Any) -> None:
    disks.http()
    volume = disks.get(CDI, "DataVolume", TENANT, "disk")
    with pytest.raises(ApiError) as refused:
        disks.edit(volume, lambda o: o["spec"]["storage"].update(storageClassName="local"))
    assert refused.value.code == 422
    assert "Cannot update DataVolume Spec" in refused.value.message
    disks.edit(volume, lambda o: o["metadata"].update(labels={"a": "b"}))
