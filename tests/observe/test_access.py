from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from harness.facts.access import CLONE, AccessAnswer, CloneBinding
from harness.facts.fact import Unread
from harness.observe import access
from harness.reach.errors import Refused

Make = Callable[..., Any]
NAMES = ("cozy-public", "cdi-clone-dv")


def now() -> float:
    return 1767225700.0


class Reviewing:
    """A cluster that answers reviews; ``status`` None is one that lets nobody ask."""

    name = "management"

    def __init__(self, status: Any) -> None:
        self.status = status
        self.asked: list[Any] = []

    def create(self, review: Any) -> Any:
        self.asked.append(review)
        if self.status is None:
            raise Refused(403, "Forbidden", "cannot create subjectaccessreviews")
        return {**review, "status": self.status}


def test_a_tenants_account_is_asked_about_with_its_groups() -> None:
    kube: Any = Reviewing({"allowed": True, "reason": "why"})
    found = access.access_answer(kube, "tenant-hil", CLONE, now=now)
    assert isinstance(found, AccessAnswer)
    assert found.allowed and found.reason == "why"
    (review,) = kube.asked
    assert review["spec"] == {
        "user": "system:serviceaccount:tenant-hil:default",
        "groups": [
            "system:serviceaccounts",
            "system:serviceaccounts:tenant-hil",
            "system:authenticated",
        ],
        "resourceAttributes": {
            "namespace": "cozy-public",
            "verb": "create",
            "group": "cdi.kubevirt.io",
            "resource": "datavolumes",
            "subresource": "source",
        },
    }


def test_who_may_not_ask_learns_nothing() -> None:
    kube: Any = Reviewing(None)
    found = access.access_answer(kube, "tenant-hil", CLONE, now=now)
    assert isinstance(found, Unread)
    assert "may not ask for access reviews: cannot create subjectaccessreviews" in found.reason


@pytest.fixture
def binding(obj: Make) -> Any:
    reference = {"kind": "ClusterRole", "name": "cdi-copy-dv"}
    return obj(access.RBAC, "RoleBinding", NAMES[1], NAMES[0], roleRef=reference, subjects=[])


def test_a_binding_with_its_role(cluster: Make, obj: Make, binding: Any) -> None:
    role = obj(access.RBAC, "ClusterRole", "cdi-copy-dv", rules=[{"verbs": ["create"]}])
    found = access.clone_binding(cluster(binding, role), *NAMES, now=now)
    assert isinstance(found, CloneBinding)
    assert found.rules is not None and len(found.rules) == 1
    alone = access.clone_binding(cluster(binding), *NAMES, now=now)
    assert isinstance(alone, CloneBinding) and alone.rules is None


def test_no_binding_is_told(cluster: Make) -> None:
    found = access.clone_binding(cluster(), *NAMES, now=now)
    assert isinstance(found, Unread)
    assert found.reason == "it is not there"


def test_one_that_may_not_be_read_is_told(cluster: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    kube = cluster()

    def refuse(*_: Any) -> Any:
        raise Refused(403, "Forbidden", "cannot get rolebindings")

    monkeypatch.setattr(kube, "get", refuse)
    found = access.clone_binding(kube, *NAMES, now=now)
    assert isinstance(found, Unread)
    assert "cannot get rolebindings" in found.reason
