"""What a tenant Node says of its cards: what it offers, and what only labels it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.facts.fact import Fact
from harness.facts.objects import condition, mapped, name_of, origin_of, text_at, uid_of

RESOURCE = "nvidia.com/gpu"
_NFD = "feature.node.kubernetes.io/pci-"


@dataclass(frozen=True, slots=True)
class GpuNode(Fact):
    """A Node's cards.

    ``capacity`` and ``allocatable`` are the quantities of nvidia.com/gpu as written, None where
    the Node has no such resource. The labels are no proof: ``label_gpu`` ("on") comes from the
    machine configuration, even where no module is loaded; ``gpu_present`` from the operator;
    ``nfd_pci`` from the PCI bus alone (gpu_path 7; objects 9).
    """

    name: str
    uid: str
    ready: bool
    boot_id: str
    capacity: str | None
    allocatable: str | None
    label_gpu: str
    gpu_present: str
    nfd_pci: bool


def gpu_node(node: Any, *, at: float, cluster: str) -> GpuNode:
    """Read a Node."""
    labels = mapped(node, "metadata", "labels")
    return GpuNode(
        origin=origin_of(node, at, cluster),
        name=name_of(node),
        uid=uid_of(node),
        ready=text_at(condition(node, "Ready"), "status") == "True",
        boot_id=text_at(node, "status", "nodeInfo", "bootID"),
        capacity=_quantity(node, "capacity"),
        allocatable=_quantity(node, "allocatable"),
        label_gpu=text_at(labels, "gpu"),
        gpu_present=text_at(labels, "nvidia.com/gpu.present"),
        nfd_pci=any(_is_nvidia(key) and value == "true" for key, value in labels.items()),
    )


def _quantity(node: Any, key: str) -> str | None:
    found = mapped(node, "status", key).get(RESOURCE)
    return None if found is None else str(found)


def _is_nvidia(label: str) -> bool:
    """NFD's label of a PCI function of vendor 10de, with the class before it or not."""
    return label.startswith(_NFD) and "10de" in label and label.endswith(".present")
