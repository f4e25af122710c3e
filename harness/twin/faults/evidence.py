"""Faults that spoil what a probe shows, or that only seem to: pods, their images, their age."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import UNSERVED
from harness.twin.faults.model import GPU_POOLS, Fault
from harness.twin.faults.requests import asks_for_card, guests, pods_written
from harness.twin.world.container_images import COREUTILS, ContainerImage
from harness.twin.world.container_runtime import NVIDIA
from harness.twin.world.gpu_plugin import CDI_PREFIX
from harness.twin.world.images import DRIVER_VERSION

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

UBUNTU = "docker.io/library/ubuntu"
ALL_CARDS = {"NVIDIA_VISIBLE_DEVICES": "all", "NVIDIA_DRIVER_CAPABILITIES": "compute,utility"}
LATE = (300.0, 330.0)
"""Seconds until node feature discovery has looked at a Node: the operator begins only then."""


def _with_runtime_class(pod: Obj) -> None:
    pod["spec"]["runtimeClassName"] = NVIDIA


def _without_annotations(pod: Obj) -> None:
    notes = pod["metadata"].get("annotations") or {}
    for name in [name for name in notes if name.startswith(CDI_PREFIX)]:
        del notes[name]


def _bundled(guest: Guest) -> None:
    guest.mirror[UBUNTU] = ContainerImage(("/bin/bash",), COREUTILS, driver=DRIVER_VERSION)


def _default_runtime(guest: Guest) -> None:
    """containerd's default runtime is NVIDIA's, and the probe's image asks it for every card."""
    guest.default_runtime = NVIDIA
    guest.mirror[UBUNTU] = ContainerImage(("/bin/bash",), COREUTILS, ALL_CARDS)


def _begin_late(world: World) -> None:
    world.timings.override("nfd.scan", *LATE)


FAULTS = (
    Fault(
        id="stale-pod-no-injection",
        sentence="The operator begins minutes after the node is Ready; a pod from before is stale.",
        seen="the old pod has no card, for good; a new pod has one: that the old one must be made "
        "anew is what early-pod-unserved says, and it holds",
        wrong_diagnosis="CDI is broken",
        breaks=frozenset(),
        where=GPU_POOLS,
        edit=_begin_late,
        source="S-DOC",
        harmless=True,
    ),
    Fault(
        id="runtimeclass-masks-cdi",
        sentence="A webhook gives pods that ask for a card the runtime class nvidia.",
        seen="every pod works, and would with CDI absent",
        wrong_diagnosis="CDI is proven",
        breaks=frozenset(),
        blinds=UNSERVED,
        where=GPU_POOLS,
        edit=pods_written(_with_runtime_class, of=asks_for_card),
        source="gpu_path section 7",
    ),
    Fault(
        id="image-bundles-driver",
        sentence="The registry's image for the probe brings libnvidia-ml and nvidia-smi with it.",
        seen="nvidia-smi is there in every pod, without a card too",
        wrong_diagnosis="injection is proven",
        breaks=frozenset(),
        blinds=frozenset({"cdi-injection", "early-pod-unserved"}),
        where=GPU_POOLS,
        edit=guests(_bundled),
        source="gpu_path section 7",
    ),
    Fault(
        id="absent-annotation-misread",
        sentence="A webhook strips every annotation of CDI's from Pod objects.",
        seen="no Pod has one, by design: the device plugin's answer goes to the container runtime",
        wrong_diagnosis="CDI failed",
        breaks=frozenset(),
        where=GPU_POOLS,
        edit=pods_written(_without_annotations),
        source="S-GPO",
        harmless=True,
    ),
    Fault(
        id="nvidia-runtime-by-default",
        sentence="containerd's default runtime is NVIDIA's, and the probe's image asks for all "
        "cards by its environment.",
        seen="a pod gets every card of its node whatever its limit is, and before any is offered",
        wrong_diagnosis="injection is proven",
        breaks=frozenset({"early-pod-unserved"}),
        blinds=frozenset({"cdi-injection"}),
        where=GPU_POOLS,
        edit=guests(_default_runtime),
        source="gpu_path section 6 (inferred)",
    ),
)
