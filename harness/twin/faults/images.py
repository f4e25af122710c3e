"""Faults of what is in the image, of how the kernel takes it, and of the boot that waits for it."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import (
    ANOTHER_IMAGE,
    BLIND_WITHOUT_DRIVER,
    NO_DRIVER,
    NOT_VALIDATED,
    UNSERVED,
    WAITS_FOR_DRIVER,
)
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Fault
from harness.twin.faults.requests import (
    MANAGER,
    downloads,
    guests,
    has_cards,
    pools_written,
    schematic,
)
from harness.twin.world.guests import TRUSTD
from harness.twin.world.hosts import GB202, H100
from harness.twin.world.images import NVIDIA_NONFREE, NVIDIA_OPEN, VANILLA
from harness.twin.world.services import CDI_GEN

if TYPE_CHECKING:
    from harness.twin.world.world import World

NVIDIA_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
CARD_APPEARS_AT = 12.0
"""Seconds of uptime: after the module controller's first attempts, before the node is Ready."""


def _has_gb202(spec: Obj) -> bool:
    return any(one.get("name") == GB202 for one in spec.get("gpus") or ())


def _downloads_without_cards(spec: Obj) -> bool:
    return downloads(spec) and not has_cards(spec)


def _build_without_modules(world: World) -> None:
    """The factory's build of the NVIDIA schematic names the extension and lacks its files."""
    extensions = world.factory.extensions(NVIDIA_OPEN)
    world.factory.register(extensions, modules=dict.fromkeys(NVIDIA_MODULES))


def _pull_nvidia_in_early(world: World) -> None:
    """A module that every boot loads first comes to depend on nvidia."""
    image = world.factory.image(NVIDIA_OPEN, "v1.13.6")
    early = image.modules["i2c_i801"]
    changed = replace(early, depends=(*early.depends, "nvidia"))
    world.factory.register(image.extensions, modules={early.name: changed})


def _load_nvidia_late(world: World) -> None:
    world.factory.without_edge(NVIDIA_OPEN, "nvidia_uvm", "nvidia")
    guests(lambda guest: guest.hold_card_until(CARD_APPEARS_AT))(world)


def _sxm_without_parameter(world: World) -> None:
    """The hosts have H100 SXM boards under the names of other cards; the chart drops parameters."""
    world.chart = replace(world.chart, drop_parameters=True)
    world.hosts.cards = tuple(replace(card, board=H100) for card in world.hosts.cards)


def _close_trustd(world: World) -> None:
    """The Service of the tenant's control plane lacks the port at which apid's certificate is."""

    def change(service: Obj) -> None:
        ports = service["spec"]["ports"]
        service["spec"]["ports"] = [port for port in ports if port["port"] != TRUSTD]

    world.management.edit("v1", "Service", "tenant-hil", "kubernetes-lab", change, manager=MANAGER)


FAULTS = (
    Fault(
        id="module-missing-from-image",
        sentence="A pool with cards boots the vanilla schematic, which has no NVIDIA extension.",
        seen="the modules are declared; the module controller fails on each and tries again; no "
        "nvidia-smi, and no NVIDIA service that the boot would wait for: the uptime is fine",
        wrong_diagnosis="the chart did not render the list",
        breaks=NO_DRIVER | ANOTHER_IMAGE,
        blinds=BLIND_WITHOUT_DRIVER | {"driver-sees-gpu"},
        where=GPU_POOLS,
        edit=pools_written(schematic(VANILLA), of=has_cards),
        source="TAL",
    ),
    Fault(
        id="gpu-label-without-driver",
        sentence="The image's NVIDIA extension has no kernel modules in it; the Node says gpu=on.",
        seen="label gpu=on from the configuration, NFD's and the operator's labels; no allocatable "
        "nvidia.com/gpu; each module not found; NVIDIA's services wait, and the boot with them",
        wrong_diagnosis="a label that says GPU means a GPU",
        breaks=NO_DRIVER | WAITS_FOR_DRIVER,
        blinds=BLIND_WITHOUT_DRIVER,
        where=GPU_POOLS,
        edit=_build_without_modules,
        source="gpu_path section 7, TAL",
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
        id="nvlink-not-disabled-sxm",
        sentence="The cards are SXM boards without their NVSwitches, under PCIe cards' names, and "
        "the chart drops the parameter that turns NVLink off.",
        seen="10de:2330 on the hosts and in the guest, which no pool of this lab asks for; "
        "nvidia-smi -L fine, allocatable fine; Fabric State In Progress; every CUDA call: system "
        "not yet initialized",
        wrong_diagnosis="a broken CUDA image",
        breaks=frozenset(
            {
                "cuda-runs",
                "fabric-state",
                "host-driver-accepted",
                "kernel-modules-verbatim",
                "nvlink-param",
                "passthrough",
                "render-module-params",
                "rollout",
            }
        ),
        blinds=frozenset({"vfio-bound"}),
        where=GPU_POOLS,
        edit=_sxm_without_parameter,
        source="S-GPO",
    ),
    Fault(
        id="blackwell-proprietary-module",
        sentence="The Blackwell pool's schematic carries the proprietary modules, which do not "
        "drive such a card.",
        seen="modules Live, /dev/nvidia0 there; nvidia-smi says No devices found; dmesg is clean; "
        "nothing is advertised",
        wrong_diagnosis="passthrough or CDI",
        breaks=NOT_VALIDATED | ANOTHER_IMAGE | {"driver-sees-gpu", "module-flavour", "cdi-spec"},
        blinds=UNSERVED | {"fabric-state"},
        where=("gpu-gb202",),
        edit=pools_written(schematic(NVIDIA_NONFREE), of=_has_gb202),
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
    Fault(
        id="cdi-gen-not-finished",
        sentence="The service that writes the node's CDI file never finishes.",
        seen="/run/cdi/nvidia.yaml missing, ext-nvidia-cdi-gen Waiting; the device plugin's own "
        "file is there, and pods are served by it; after 70 minutes the boot is given up",
        wrong_diagnosis="Could not locate lines in its log, which a healthy node has too",
        breaks=frozenset({"cdi-spec", "uptime"}),
        where=GPU_POOLS,
        edit=guests(lambda guest: guest.services.hold(CDI_GEN, "nvidia-ctk to succeed")),
        source="EXT",
    ),
    Fault(
        id="validator-preinstalled-not-detected",
        sentence="An older image has no /usr/bin/nvidia-smi, where the validator looks.",
        seen="driver-validation loops: No pre-installed driver detected on the host; nvidia-smi "
        "works in the host's root",
        wrong_diagnosis="DRIVER_ROOT has to be set, which the validator does not read",
        breaks=NOT_VALIDATED,
        blinds=UNSERVED,
        where=GPU_POOLS,
        edit=guests(lambda guest: guest.root.lacking.add("/usr/bin/nvidia-smi")),
        source="GPO",
    ),
    Fault(
        id="nvidia-schematic-no-gpu",
        sentence="The NVIDIA schematic is set for the whole cluster, pools without a card too; "
        "only a pool that clones has an image of its own.",
        seen="HelmRelease, Machine, VMI and Node green, VMI and launcher unchanged, port 50001 "
        "there; another boot id about every 4206 s; all pods of a node restart together; "
        "ext-nvidia-persistenced waits for a driver",
        wrong_diagnosis="out of memory: the 96 % are page cache",
        breaks=ANOTHER_IMAGE | {"image-fits", "uptime"},
        where=("plain",),
        edit=pools_written(schematic(NVIDIA_OPEN), of=_downloads_without_cards),
        source="S-DOC",
    ),
    Fault(
        id="apid-port-50001-missing",
        sentence="The Service of the tenant's control plane lacks port 50001.",
        seen="every pool reboots about every 4206 s; apid waits for its certificate; talosctl dead",
        wrong_diagnosis="the schematic",
        breaks=frozenset({"apid-serves", "uptime"}),
        where=ALL_POOLS,
        edit=_close_trustd,
        source="S-DOC",
    ),
)
