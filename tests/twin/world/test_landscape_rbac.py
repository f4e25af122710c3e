"""Who may clone goldens, by the objects that the platform ships and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.twin.apiserver.access import GROUP, Access, Attributes, User, account_user
from harness.twin.world.objects import CDI

TENANT = account_user("tenant-hil", "default")
CDI_GROUP = CDI.partition("/")[0]
CLONE = Attributes("create", CDI_GROUP, "datavolumes", "source", "cozy-public")


def may(lab: Any, asked: Attributes, user: User = TENANT) -> bool:
    allowed: bool = Access(lab.management).allows(user, asked)
    assert lab.world.access.allows(user, asked) == allowed
    return allowed


def test_a_tenants_account_may_clone_from_the_public_namespace(lab: Any) -> None:
    assert may(lab, CLONE)
    assert may(lab, CLONE, account_user("tenant-root", "anything"))


def test_it_is_told_by_which_binding(lab: Any) -> None:
    assert lab.world.access.reason(TENANT, CLONE) == (
        'RBAC: allowed by RoleBinding "cdi-clone-dv/cozy-public" of ClusterRole "cdi-copy-dv" to '
        'Group "system:serviceaccounts"'
    )
    read = Attributes("get", "", "secrets", "", "cozy-public")
    assert lab.world.access.reason(TENANT, read) == ""


def test_and_nothing_more(lab: Any) -> None:
    kinds = ((CDI_GROUP, "datavolumes"), ("", "secrets"), ("", "persistentvolumeclaims"))
    verbs = ("get", "list", "watch", "create", "update", "patch", "delete")
    more = [
        Attributes(verb, group, resource, "", "cozy-public")
        for group, resource in (*kinds, ("", "pods"))
        for verb in verbs
    ]
    near = [
        replace(CLONE, verb="get"),
        replace(CLONE, subresource="status"),
        replace(CLONE, namespace="tenant-root"),
        replace(CLONE, namespace=""),
    ]
    assert [asked for asked in (*more, *near) if may(lab, asked)] == []


def test_a_user_who_is_no_service_account_may_not(lab: Any) -> None:
    assert not may(lab, CLONE, User("system:serviceaccount:tenant-hil:default"))
    assert not may(lab, CLONE, User("jane", ("system:authenticated",)))


@pytest.mark.parametrize(
    ("kind", "namespace", "name"),
    [("RoleBinding", "cozy-public", "cdi-clone-dv"), ("ClusterRole", "", "cdi-copy-dv")],
)
def test_without_either_object_nobody_may(lab: Any, kind: str, namespace: str, name: str) -> None:
    resource = lab.management.registry.by_kind(f"{GROUP}/v1", kind)
    assert may(lab, CLONE)
    lab.management.delete(resource, namespace, name)
    assert not may(lab, CLONE)


def test_a_wider_role_shows_at_once(lab: Any) -> None:
    read = Attributes("get", "", "secrets", "", "cozy-public")
    assert not may(lab, read)
    lab.management.edit(
        f"{GROUP}/v1", "ClusterRole", "", "cdi-copy-dv",
        lambda role: role["rules"].append(
            {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}
        ),
        manager="test",
    )  # fmt: skip
    assert may(lab, read)
