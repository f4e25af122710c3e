"""Faults of what is asked for and what is rendered: clients, the pool chart."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.consequences import (
    BLIND_WITHOUT_DRIVER,
    NO_DRIVER,
    NOTHING_DECLARED,
    WAITS_FOR_DRIVER,
)
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Edit, Fault
from harness.twin.faults.requests import chart, has_cards, pools_written
from harness.twin.world.images import VANILLA

if TYPE_CHECKING:
    from harness.twin.world.world import World

NOT_DECLARED = NO_DRIVER | WAITS_FOR_DRIVER | {"image-fits", "render-modules"}
FIELD_IGNORED = frozenset({"kernel-modules-refused", "kernel-modules-verbatim", "rollout"})


def _client_writes(modules: list[Obj]) -> Edit:
    """A client between user and API that fills in kernelModules for pools with cards."""

    def left_out(spec: Obj) -> bool:
        return has_cards(spec) and "kernelModules" not in spec

    def write(spec: Obj) -> None:
        spec["kernelModules"] = copy.deepcopy(modules)

    return pools_written(write, of=left_out)


def _reordered(world: World) -> None:
    world.chart = replace(world.chart, modules=tuple(reversed(world.chart.modules)))


FAULTS = (
    Fault(
        id="no-modules-block",
        sentence="The released chart predates kernelModules: nothing renders a module list.",
        seen="VMI Running with its card and PCI_RESOURCE_*; no machine.kernel in the config; the "
        "10de device unbound in the guest; Node Ready with gpu=on and NFD's label; no nvidia.com/"
        "gpu; no error in any log; on this image the boot is given up after 70 minutes",
        wrong_diagnosis="passthrough is broken",
        breaks=NOT_DECLARED | FIELD_IGNORED,
        blinds=NOTHING_DECLARED | BLIND_WITHOUT_DRIVER,
        where=GPU_POOLS,
        edit=chart(kernel_modules=False),
        source="S-KM",
    ),
    Fault(
        id="modules-empty-list-materialised",
        sentence="A client sends kernelModules: [] where the user wrote nothing.",
        seen="the HelmRelease's values hold []; the label gpu=on is still there; else as without "
        "a module list",
        wrong_diagnosis="a bug of the chart",
        breaks=NOT_DECLARED | {"spec-read-back", "kernel-modules-verbatim"},
        blinds=NOTHING_DECLARED | BLIND_WITHOUT_DRIVER,
        where=GPU_POOLS,
        edit=_client_writes([]),
        source="S-KM",
    ),
    Fault(
        id="modules-list-replaces-auto",
        sentence="A list with one module of the user's own replaces the automatic NVIDIA set.",
        seen="nf_tables is loaded, nvidia is not",
        wrong_diagnosis="the list adds to the automatic one",
        breaks=NOT_DECLARED | {"spec-read-back", "kernel-modules-verbatim"},
        blinds=NOTHING_DECLARED | BLIND_WITHOUT_DRIVER,
        where=GPU_POOLS,
        edit=_client_writes([{"name": "nf_tables"}]),
        source="S-KM",
    ),
    Fault(
        id="modules-indented-wrong",
        sentence="The module list is rendered one level too far out: valid YAML, loads nothing.",
        seen="the config's text contains all four names; machine.kernel.modules does not exist",
        wrong_diagnosis="none: a search in the text passes",
        breaks=NOT_DECLARED | {"kernel-modules-verbatim", "rollout"},
        blinds=NOTHING_DECLARED | BLIND_WITHOUT_DRIVER,
        where=GPU_POOLS,
        edit=chart(indent_modules=False),
        source="S-KM",
    ),
    Fault(
        id="modules-declared-out-of-order",
        sentence="The chart declares the modules in another order. Talos loads them as before.",
        seen="machine.kernel.modules starts with nvidia_drm; the kernel's order is right",
        wrong_diagnosis="the kernel loads in the order declared",
        breaks=frozenset({"render-module-order", "kernel-modules-verbatim"}),
        where=GPU_POOLS,
        edit=_reordered,
        source="S-KM; gpu_path section 2 (inferred)",
    ),
    Fault(
        id="module-parameters-dropped",
        sentence="The chart rebuilds the module list from the names and forgets the parameters.",
        seen="nvidia is declared and Live; NvLinkDisable is 0",
        wrong_diagnosis="/sys/module/nvidia/parameters is empty, so the default applies",
        breaks=frozenset(
            {"render-module-params", "nvlink-param", "kernel-modules-verbatim", "rollout"}
        ),
        where=GPU_POOLS,
        edit=chart(drop_parameters=True),
        source="S-KM (inferred)",
    ),
    Fault(
        id="param-unicode-linebreak",
        sentence="The chart lets U+2028 and U+2029 in a parameter pass, and its YAML ends there.",
        seen="HelmRelease not Ready: a YAML parse error instead of the field's own refusal",
        wrong_diagnosis="a typing error in the YAML",
        breaks=frozenset({"kernel-modules-refused"}),
        where=GPU_POOLS,
        edit=chart(ascii_parameters=False),
        source="S-KM",
    ),
    Fault(
        id="gpu-pool-optout-with-nvidia-image",
        sentence="The field has a default of [], so that a pool which leaves it out is opted out; "
        "its image waits for the driver all the same.",
        seen="the HelmRelease's values do not have the field; the card is there; the worker is "
        "Ready and reboots every 70 minutes",
        wrong_diagnosis="a flaky card",
        breaks=NOT_DECLARED | {"kernel-modules-verbatim"},
        blinds=NOTHING_DECLARED | BLIND_WITHOUT_DRIVER,
        where=GPU_POOLS,
        edit=chart(empty_means_absent=True),
        source="S-KM, S-DOC (inferred)",
    ),
    Fault(
        id="kernel-block-without-card",
        sentence="A pool without any card renders an empty machine.kernel block.",
        seen="machine.kernel is there and empty: the config is not what it was before the feature; "
        "the same on a trial with another vendor's card",
        wrong_diagnosis="harmless; it rolls every such pool on upgrade",
        breaks=frozenset({"render-no-kernel-block", "kernel-modules-verbatim"}),
        where=ALL_POOLS,
        edit=chart(kernel_block_always=True),
        source="S-KM (inferred)",
    ),
    Fault(
        id="boot-install-schematic-drift",
        sentence="The installer image names another schematic than the disk boots from.",
        seen="everything works until the next upgrade or reinstall",
        wrong_diagnosis="works today",
        breaks=frozenset({"schematic-consistent", "spec-applied"}),
        where=GPU_POOLS,
        edit=chart(installer_schematic=VANILLA),
        source="S-DOC",
    ),
)
