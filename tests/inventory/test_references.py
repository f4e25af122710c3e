from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harness.inventory import check


def set_in(data: Any, path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        data = data[int(part)] if isinstance(data, list) else data.setdefault(part, {})
    if value is None:
        del data[last]
    else:
        data[last] = value


@pytest.mark.parametrize(
    ("change", "path", "says"),
    [
        ({"management": None}, "management", "kubeconfig and context"),
        ({"clock": "virtual"}, "clock", "only a twin"),
        ({"schematics": None}, "schematics", "Talos images of this lab"),
        ({"pools": None}, "pools", "worker pools, by name"),
        ({"guests": {"a": {}}}, "guests", "no guests in a lab of kind cluster"),
        ({"nodes": "containers"}, "storageClasses.replicated.drbd", "loads DRBD"),
        ({"nodes": "containers"}, "pools.cards.gpu", "no card where nodes are containers"),
        ({"nodes": "containers", "kind": "twin"}, "nodes", "a lab of kind cluster"),
        ({"nodes": "vms"}, "nodes", "containers"),
        ({"kind": "qemu"}, "guests", "sets of QEMU guests"),
        ({"kind": "qemu", "guests": {"cards": {}}}, "pools", "no pools in a lab of kind qemu"),
        ({"kind": "qemu", "guests": {"a": {}}}, "lanes.nightly.pools[0]", "a name in guests: a"),
        ({"kind": "qemu", "guests": {"a": {"replicas": 4}}}, "guests.a.replicas", "3"),
        (
            {"management.clockUrl": "http://127.0.0.1:1"},
            "management.clockUrl",
            "a real lab has none",
        ),
        ({"kind": "twin"}, "management.clockUrl", "running twin"),
        ({"management.kubeconfig": None}, "management.kubeconfig", "or inCluster: true"),
        ({"management.context": None}, "management.context", "its current one never is"),
        ({"management.inCluster": True}, "management.kubeconfig", "no kubeconfig with inCluster"),
        ({"management.inCluster": True}, "management.context", "no context with inCluster"),
        ({"management": {"inCluster": False}}, "management.kubeconfig", "{env: NAME}"),
        ({"management": {"inCluster": False}}, "management.context", "the kubeconfig's context"),
        ({"management.inCluster": "yes"}, "management.inCluster", "true or false"),
        ({"management.requestsPerSecond": -1}, "management.requestsPerSecond", "than or equal"),
        ({"management.requestsPerSecond": "9"}, "management.requestsPerSecond", "whole number"),
        ({"tenant.requestsPerSecond": 0.5}, "tenant.requestsPerSecond", "whole number"),
        ({"pools.cards.gpu": "gb202"}, "pools.cards.gpu", "a name in gpus: l40s"),
        ({"pools.cards.schematic": "opn"}, "pools.cards.schematic", "open, as the nearest"),
        ({"pools.plain.storageClass": "locl"}, "pools.plain.storageClass", "local, as the nearest"),
        ({"storageClasses.replicated": None}, "pools.cards.storageClass", "local"),
        ({"pools.plain.count": 1}, "pools.plain.count", "no count"),
        ({"lanes.nightly.pools": ["card"]}, "lanes.nightly.pools[0]", "cards, as the nearest"),
        ({"hosts": [{"name": "a"}, {"name": "a"}]}, "hosts[1].name", "of its own"),
        ({"pools.cards.schematic": "plain"}, "pools.cards.schematic", "the card's open modules"),
        ({"pools.plain.schematic": "open"}, "pools.plain.schematic", "reboot every 70 minutes"),
        ({"gpus.l40s.flavour": "proprietary"}, "pools.cards.schematic", "proprietary modules"),
        ({"tenant.cluster": "c" * 40}, "pools.cards", "the release kubernetes-nodes-"),
    ],
)
def test_what_does_not_fit_is_told_where_it_stands(
    put: Callable[[Any], Path], small: dict[str, Any], change: dict[str, Any], path: str, says: str
) -> None:
    for place, value in change.items():
        set_in(small, place, value)
    told = {problem.path: problem.allowed for problem in check(put(small))}
    assert says in told[path]


def test_a_run_in_a_pod_names_nothing_else(
    put: Callable[[Any], Path], small: dict[str, Any]
) -> None:
    small["management"] = {"inCluster": True, "requestsPerSecond": 0}
    assert check(put(small)) == []


def test_blackwell_never_takes_proprietary_modules(
    put: Callable[[Any], Path], small: dict[str, Any]
) -> None:
    small["gpus"]["gb202"] = {**small["gpus"]["l40s"], "flavour": "proprietary"}
    [problem] = check(put(small))
    assert problem.path == "gpus.gb202.flavour"


def test_a_misfit_with_a_reason_is_accepted(
    put: Callable[[Any], Path], small: dict[str, Any]
) -> None:
    small["pools"]["cards"] |= {"schematic": "plain", "misfit": "shows the missing driver"}
    assert check(put(small)) == []


def test_a_running_twin_is_named_by_kubeconfig_and_clock(
    put: Callable[[Any], Path], small: dict[str, Any]
) -> None:
    small |= {"kind": "twin", "clock": "virtual"}
    small["management"]["clockUrl"] = "http://127.0.0.1:4000"
    assert check(put(small)) == []
    del small["management"]
    assert check(put(small)) == []
