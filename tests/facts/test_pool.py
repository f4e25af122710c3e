from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.facts.fact import Unread
from harness.facts.machineconfig import DeclaredModule
from harness.facts.pool import (
    ABSENT,
    BootSource,
    PoolRequest,
    RequestedModules,
    boot_source,
    node_state,
    pool_request,
)

SCHEMATIC = "ce4c980550dd2ab1b17bbf2b08801c7eb59418eafe8f279833297925d67c7515"


def release(values: Any) -> dict[str, Any]:
    metadata = {"name": "kubernetes-nodes-lab-gpu", "namespace": "tenant-test"}
    return {"kind": "HelmRelease", "metadata": metadata, "spec": {"values": values}}


def request(values: Any) -> PoolRequest | Unread:
    return pool_request(release(values), at=5.0, cluster="management")


def template(source: Any) -> dict[str, Any]:
    volume = {"spec": {"source": source}}
    machine = {"spec": {"dataVolumeTemplates": [volume]}}
    return {
        "kind": "KubevirtMachineTemplate",
        "metadata": {"name": "t", "namespace": "ns"},
        "spec": {"template": {"spec": {"virtualMachineTemplate": machine}}},
    }


def boot(source: Any) -> BootSource | Unread:
    return boot_source(template(source), at=5.0, cluster="management")


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({}, ABSENT),
        ({"kernelModules": []}, RequestedModules(())),
        (
            {"kernelModules": [{"name": "a", "parameters": ["b=1"]}, {"name": "c"}]},
            RequestedModules((DeclaredModule("a", ("b=1",)), DeclaredModule("c"))),
        ),
    ],
)
def test_three_states(values: Any, expected: RequestedModules) -> None:
    found = request(values)
    assert isinstance(found, PoolRequest)
    assert found.kernel_modules == expected
    assert found.origin.source == "management HelmRelease tenant-test/kubernetes-nodes-lab-gpu"


def test_absent_is_not_empty() -> None:
    assert RequestedModules(()) != ABSENT
    assert (str(ABSENT), str(RequestedModules(()))) == ("absent", "[]")
    assert str(RequestedModules((DeclaredModule("a", ("b=1",)),))) == "[a b=1]"


def test_the_gpus() -> None:
    found = request({"gpus": [{"name": "nvidia.com/AD102GL_L40S"}] * 2})
    assert isinstance(found, PoolRequest)
    assert found.gpus == ("nvidia.com/AD102GL_L40S",) * 2


@pytest.mark.parametrize(
    ("values", "quoted"),
    [
        (None, "no values"),
        ({"kernelModules": None}, "kernelModules is no list: 'None'"),
        ({"kernelModules": "a"}, "kernelModules is no list"),
        ({"kernelModules": ["a"]}, "declares no module"),
        ({"gpus": [{}]}, "without a name"),
    ],
)
def test_what_is_no_request(values: Any, quoted: str) -> None:
    found = request(values)
    assert isinstance(found, Unread)
    assert quoted in found.reason


def test_an_image_of_the_factory() -> None:
    url = f"https://factory.talos.dev/image/{SCHEMATIC}/v1.13.6/openstack-amd64.raw.xz"
    found = boot({"http": {"url": url}})
    assert isinstance(found, BootSource)
    assert (found.schematic, found.version, found.form) == (SCHEMATIC, "v1.13.6", "http")
    assert found.address == url


@pytest.mark.parametrize("version", ["v1.13.6", "v1.14.0-beta.1"])
@pytest.mark.parametrize("schematic", [SCHEMATIC, "a", "my-own-schematic"])
def test_a_golden_volume(schematic: str, version: str) -> None:
    name = f"talos-worker-{schematic}-{version}"
    found = boot({"pvc": {"namespace": "cozy-public", "name": name}})
    assert isinstance(found, BootSource)
    assert (found.schematic, found.version, found.form) == (schematic, version, "pvc")
    assert found.address == f"cozy-public/{name}"


@pytest.mark.parametrize(
    "source",
    [
        {},
        None,
        {"blank": {}},
        {"http": {"url": "https://factory.talos.dev/schematics/abc"}},
        {"http": {"url": "https://[x/image/a/v1/b"}},
        {"pvc": {"namespace": "cozy-public", "name": "ubuntu"}},
        {"http": {"url": "https://f/image/a/v1/b"}, "pvc": {"name": "talos-worker-a-v1.0.0"}},
    ],
)
def test_no_boot_source(source: Any) -> None:
    assert isinstance(boot(source), Unread)


def test_a_node() -> None:
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:01:30Z"}
    node = {
        "metadata": {"name": "w1", "uid": "u"},
        "status": {
            "conditions": [ready],
            "nodeInfo": {"bootID": "b"},
            "allocatable": {"nvidia.com/gpu": 1},
        },
    }
    found = node_state(node, at=5.0, cluster="tenant lab")
    assert (found.name, found.uid, found.ready, found.boot_id) == ("w1", "u", True, "b")
    assert found.ready_since == 1767225690.0
    assert found.allocatable == {"nvidia.com/gpu": "1"}


def test_a_node_without_a_condition_is_not_ready() -> None:
    found = node_state({"metadata": {"name": "w1"}}, at=5.0, cluster="tenant lab")
    assert (found.ready, found.ready_since) == (False, None)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["kernelModules", "gpus", "name", "parameters", "http", "url", "pvc"])
            | st.text(),
            inner,
            max_size=3,
        )
    ),
    max_leaves=12,
)


@given(json_values)
def test_any_object_is_read_or_unread(values: Any) -> None:
    assert isinstance(request(values), PoolRequest | Unread)
    assert isinstance(boot(values), BootSource | Unread)
    assert isinstance(pool_request(values, at=1.0, cluster="m"), PoolRequest | Unread)
    assert not node_state(values, at=1.0, cluster="m").ready
