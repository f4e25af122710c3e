from __future__ import annotations

from typing import Any

import pytest

from harness.reach.errors import Garbled, UnknownKind
from harness.reach.kinds import Kinds

TALOS = {
    "resources": [
        {"name": "talosconfigtemplates", "kind": "TalosConfigTemplate", "namespaced": True},
        {"name": "talosconfigtemplates/status", "kind": "Other", "namespaced": True},
    ]
}


def test_one_request_for_a_group_version() -> None:
    asked: list[str] = []

    def fetch(path: str) -> Any:
        asked.append(path)
        return TALOS

    kinds = Kinds(fetch)
    for _ in range(3):
        found = kinds.find("bootstrap.cluster.x-k8s.io/v1alpha3", "TalosConfigTemplate")
    assert asked == ["/apis/bootstrap.cluster.x-k8s.io/v1alpha3"]
    assert found.path("ns", "a b", "status").endswith(
        "/namespaces/ns/talosconfigtemplates/a%20b/status"
    )


def test_unknown_kind_is_named_with_the_nearest() -> None:
    with pytest.raises(UnknownKind, match="TalosConfigTemplat; near it: TalosConfigTemplate"):
        Kinds(lambda path: TALOS).find("bootstrap.cluster.x-k8s.io/v1alpha3", "TalosConfigTemplat")


def test_unknown_group_is_named() -> None:
    with pytest.raises(UnknownKind, match=r"does not serve kubevirt.io/v1") as caught:
        Kinds(lambda path: None).find("kubevirt.io/v1", "VirtualMachine")
    assert caught.value.details == {"group": "kubevirt.io", "kind": "VirtualMachine"}


def test_a_kind_installed_later_is_found() -> None:
    answers: list[Any] = [None, TALOS]
    kinds = Kinds(lambda path: answers.pop(0))
    with pytest.raises(UnknownKind):
        kinds.find("g/v1", "TalosConfigTemplate")
    assert kinds.find("g/v1", "TalosConfigTemplate").plural == "talosconfigtemplates"


def test_a_subresource_is_not_a_kind() -> None:
    with pytest.raises(UnknownKind):
        Kinds(lambda path: TALOS).find("g/v1", "Other")


def test_no_resource_list_is_not_an_absent_kind() -> None:
    with pytest.raises(Garbled):
        Kinds(lambda path: {"kind": "Status"}).find("v1", "Pod")
