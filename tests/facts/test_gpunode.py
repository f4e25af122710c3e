from __future__ import annotations

from typing import Any

import pytest

from harness.facts.gpunode import GpuNode, gpu_node


def node(labels: dict[str, str] | None = None, **status: Any) -> GpuNode:
    obj = {
        "kind": "Node",
        "metadata": {"name": "w1", "uid": "u1", "labels": labels or {}},
        "status": {"nodeInfo": {"bootID": "b1"}, **status},
    }
    return gpu_node(obj, at=1.0, cluster="tenant lab")


def test_what_a_node_offers() -> None:
    found = node(
        {"gpu": "on", "nvidia.com/gpu.present": "true"},
        capacity={"nvidia.com/gpu": "2", "cpu": "4"},
        allocatable={"nvidia.com/gpu": 1},
        conditions=[{"type": "Ready", "status": "True"}],
    )
    assert (found.name, found.uid, found.boot_id, found.ready) == ("w1", "u1", "b1", True)
    assert (found.capacity, found.allocatable) == ("2", "1")
    assert (found.label_gpu, found.gpu_present, found.nfd_pci) == ("on", "true", False)
    assert found.origin.source == "tenant lab Node w1"


def test_a_node_without_any() -> None:
    found = node(allocatable={"cpu": "4"})
    assert (found.capacity, found.allocatable, found.ready) == (None, None, False)
    assert (found.label_gpu, found.gpu_present, found.nfd_pci) == ("", "", False)


@pytest.mark.parametrize("status", ["False", "Unknown", ""])
def test_only_true_is_ready(status: str) -> None:
    assert node(conditions=[{"type": "Ready", "status": status}]).ready is False


@pytest.mark.parametrize(
    ("label", "value", "seen"),
    [
        ("feature.node.kubernetes.io/pci-10de.present", "true", True),
        ("feature.node.kubernetes.io/pci-0302_10de.present", "true", True),
        ("feature.node.kubernetes.io/pci-10de.present", "false", False),
        ("feature.node.kubernetes.io/pci-1af4.present", "true", False),
        ("feature.node.kubernetes.io/pci-10de.sriov.capable", "true", False),
        ("example.com/pci-10de.present", "true", False),
    ],
)
def test_the_label_of_the_bus(label: str, value: str, *, seen: bool) -> None:
    assert node({label: value}).nfd_pci is seen
