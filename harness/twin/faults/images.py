"""Faults of what is in the image and of how the kernel takes it."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission
from harness.twin.faults.model import GPU_POOLS, Fault
from harness.twin.faults.rendering import NOTHING_LOADED
from harness.twin.world.guest import Guest
from harness.twin.world.images import NVIDIA_NONFREE, NVIDIA_OPEN, VANILLA

if TYPE_CHECKING:
    from harness.twin.world.world import World

NVIDIA_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
CARD_APPEARS_AT = 12.0
"""Seconds of uptime: after the module controller's first attempts, before the node is Ready."""


def _ask_for_vanilla(world: World) -> None:
    """Whoever writes pools with cards names the charts' own default schematic for them."""

    def rewrite(admission: Admission) -> Obj:
        asked = admission.obj
        if admission.resource.kind != "KubernetesNodes" or admission.subresource:
            return asked
        if admission.verb == "DELETE" or not (asked.get("spec") or {}).get("gpus"):
            return asked
        written = copy.deepcopy(asked)
        written["spec"].setdefault("talos", {})["schematicID"] = VANILLA
        for image in (written["spec"].get("osImage") or {}).values():
            image["schematicID"] = VANILLA
        return written

    world.management.admission.append(rewrite)


def _build_proprietary(world: World) -> None:
    proprietary = world.factory.image(NVIDIA_NONFREE, "v1.13.6").modules
    extensions = world.factory.extensions(NVIDIA_OPEN)
    changed = {name: proprietary[name] for name in NVIDIA_MODULES}
    world.factory.register(extensions, modules=dict(changed))


def _pull_nvidia_in_early(world: World) -> None:
    """A module that every boot loads first comes to depend on nvidia."""
    image = world.factory.image(NVIDIA_OPEN, "v1.13.6")
    early = image.modules["i2c_i801"]
    changed = replace(early, depends=(*early.depends, "nvidia"))
    world.factory.register(image.extensions, modules={early.name: changed})


def _load_nvidia_late(world: World) -> None:
    world.factory.without_edge(NVIDIA_OPEN, "nvidia_uvm", "nvidia")

    def hold(guest: Guest, machine: Obj) -> None:
        del machine
        guest.hold_card_until(CARD_APPEARS_AT)

    world.on_guest.append(hold)


FAULTS = (
    Fault(
        id="module-missing-from-image",
        sentence="A pool with cards boots the vanilla schematic, which has no NVIDIA extension.",
        seen="the modules are declared; the module controller fails on each and tries again; no "
        "nvidia-smi, and no NVIDIA service that the boot would wait for",
        wrong_diagnosis="the chart did not render the list",
        breaks=frozenset({"modules-live"}),
        blinds=NOTHING_LOADED | {"driver-sees-gpu"},
        where=GPU_POOLS,
        edit=_ask_for_vanilla,
        source="TAL",
    ),
    Fault(
        id="params-lost-to-dependency",
        sentence="Something pulls nvidia in as a dependency first, without its parameters.",
        seen="all modules Live; NvLinkDisable is 0 in /proc/driver/nvidia/params",
        wrong_diagnosis="/sys/module shows no such parameter, so the default applies",
        breaks=frozenset({"nvlink-param"}),
        where=GPU_POOLS,
        edit=_pull_nvidia_in_early,
        source="TAL, NKM (inferred)",
    ),
    Fault(
        id="blackwell-proprietary-module",
        sentence="The image carries the proprietary modules, which do not drive a Blackwell card.",
        seen="modules Live, /dev/nvidia0 there; nvidia-smi says No devices found; dmesg is clean",
        wrong_diagnosis="passthrough or CDI",
        breaks=frozenset({"driver-sees-gpu"}),
        where=("gpu-gb202",),
        edit=_build_proprietary,
        source="S-DOC",
    ),
    Fault(
        id="nvidia-loads-late",
        sentence="The card shows up late, and this build's nvidia_uvm loads without nvidia.",
        seen="nvidia is newer than nvidia_uvm in /proc/modules; everything is Live",
        wrong_diagnosis="the order declared is the order loaded",
        breaks=frozenset({"kernel-module-order"}),
        where=GPU_POOLS,
        edit=_load_nvidia_late,
        source="gpu_path section 2 (inferred)",
    ),
)
