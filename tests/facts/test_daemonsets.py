from __future__ import annotations

import json
from typing import Any

import pytest

from harness.facts.daemonsets import DaemonSet, daemonsets


def obj(name: str = "ds", namespace: str = "cozy-gpu-operator", **more: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace, **more.pop("metadata", {})}
    return {"kind": "DaemonSet", "metadata": metadata, **more}


def one(read: dict[str, Any]) -> DaemonSet:
    [found] = daemonsets([read], at=1.0, cluster="tenant lab").sets
    return found


def test_a_daemonset() -> None:
    template = {
        "hostPID": True,
        "initContainers": [{"name": "driver-validation", "env": [{"name": "A", "value": "1"}]}],
        "containers": [{"name": "main", "securityContext": {"privileged": True}}],
        "volumes": [{"name": "h", "hostPath": {"path": "/run/nvidia"}}],
    }
    found = one(
        obj(
            spec={"template": {"spec": template}},
            status={"desiredNumberScheduled": 2, "numberReady": 1},
        )
    )
    assert (found.namespace, found.name, str(found)) == (
        "cozy-gpu-operator",
        "ds",
        "cozy-gpu-operator/ds",
    )
    assert (found.desired, found.ready, found.host_pid, found.privileged) == (2, 1, True, True)
    assert found.host_paths == ("/run/nvidia",)
    init = found.container("driver-validation")
    assert init is not None
    assert (init.init, init.variables) == (True, {"A": "1"})
    assert found.container("other") is None


@pytest.mark.parametrize(
    ("metadata", "owner", "manager"),
    [
        ({}, "", ""),
        (
            {
                "ownerReferences": [
                    {"kind": "A", "name": "a"},
                    {"kind": "ClusterPolicy", "name": "cluster-policy", "controller": True},
                ]
            },
            "ClusterPolicy cluster-policy",
            "",
        ),
        ({"ownerReferences": [{"kind": "A", "name": "a"}]}, "A a", ""),
        (
            {"labels": {"helm.toolkit.fluxcd.io/name": "x"}},
            "",
            "helm.toolkit.fluxcd.io/name=x",
        ),
        ({"labels": {"helm.sh/chart": "nfd-1"}}, "", "helm.sh/chart=nfd-1"),
        (
            {"labels": {"app.kubernetes.io/managed-by": "Helm"}},
            "",
            "app.kubernetes.io/managed-by=Helm",
        ),
        ({"labels": {"app.kubernetes.io/managed-by": "me"}}, "", ""),
        ({"labels": {"app": "Helm"}}, "", ""),
    ],
)
def test_who_made_it(metadata: dict[str, Any], owner: str, manager: str) -> None:
    found = one(obj(metadata=metadata))
    assert (found.owner, found.manager) == (owner, manager)


def test_they_are_found_by_namespace_and_name_and_listed_in_order() -> None:
    objects = [obj("b", "z"), obj("b", "a"), obj("a", "z")]
    found = daemonsets(objects, at=5.0, cluster="tenant lab")
    assert [str(one) for one in found.sets] == ["a/b", "z/a", "z/b"]
    assert found.find("a", "b") is found.sets[0]
    assert found.find("a", "a") is None
    assert found.origin.at == 5.0
    assert found.origin.source == "tenant lab DaemonSets of all namespaces"
    assert json.loads(found.origin.raw) == objects


@pytest.mark.parametrize("broken", [{}, {"metadata": None, "spec": 1, "status": []}])
def test_what_is_no_daemonset_has_nothing(broken: dict[str, Any]) -> None:
    found = one(broken)
    assert (found.name, found.containers, found.desired) == ("", (), 0)
