"""Faults of what is asked for and what is rendered: clients, the pool chart."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission
from harness.twin.faults.model import GPU_POOLS, Fault
from harness.twin.world.images import VANILLA

if TYPE_CHECKING:
    from harness.twin.world.world import World

NOTHING_DECLARED = frozenset({"render-module-order", "render-module-params"})
NOTHING_LOADED = frozenset({"kernel-module-order", "nvlink-param"})


def _chart(**change: Any) -> Callable[[World], None]:
    def edit(world: World) -> None:
        world.chart = replace(world.chart, **change)

    return edit


def _client_writes(modules: list[Obj]) -> Callable[[World], None]:
    """A client between user and API that fills in kernelModules for pools with cards."""

    def rewrite(admission: Admission) -> Obj:
        asked = admission.obj
        if admission.resource.kind != "KubernetesNodes" or admission.subresource:
            return asked
        spec = asked.get("spec") or {}
        if admission.verb == "DELETE" or not spec.get("gpus") or "kernelModules" in spec:
            return asked
        written = copy.deepcopy(asked)
        written["spec"]["kernelModules"] = copy.deepcopy(modules)
        return written

    return lambda world: world.management.admission.append(rewrite)


FAULTS = (
    Fault(
        id="no-modules-block",
        sentence="The released chart predates kernelModules: nothing renders a module list.",
        seen="VMI Running with its card and PCI_RESOURCE_*; no machine.kernel in the config; the "
        "10de device unbound in the guest; Node Ready; no error in any log",
        wrong_diagnosis="passthrough is broken",
        breaks=frozenset({"render-modules", "modules-live", "driver-sees-gpu"}),
        blinds=NOTHING_DECLARED | NOTHING_LOADED,
        where=GPU_POOLS,
        edit=_chart(kernel_modules=False),
        source="S-KM",
    ),
    Fault(
        id="modules-empty-list-materialised",
        sentence="A client sends kernelModules: [] where the user wrote nothing.",
        seen="the HelmRelease's values hold []; the label gpu=on is still there",
        wrong_diagnosis="a bug of the chart",
        breaks=frozenset({"spec-read-back", "render-modules", "modules-live", "driver-sees-gpu"}),
        blinds=NOTHING_DECLARED | NOTHING_LOADED,
        where=GPU_POOLS,
        edit=_client_writes([]),
        source="S-KM",
    ),
    Fault(
        id="modules-list-replaces-auto",
        sentence="A list with one module of the user's own replaces the automatic NVIDIA set.",
        seen="nf_tables is loaded, nvidia is not",
        wrong_diagnosis="the list adds to the automatic one",
        breaks=frozenset({"spec-read-back", "render-modules", "modules-live", "driver-sees-gpu"}),
        blinds=NOTHING_DECLARED | NOTHING_LOADED,
        where=GPU_POOLS,
        edit=_client_writes([{"name": "nf_tables"}]),
        source="S-KM",
    ),
    Fault(
        id="modules-indented-wrong",
        sentence="The module list is rendered one level too far out: valid YAML, loads nothing.",
        seen="the config's text contains all four names; machine.kernel.modules does not exist",
        wrong_diagnosis="none: a search in the text passes",
        breaks=frozenset({"render-modules", "modules-live", "driver-sees-gpu"}),
        blinds=NOTHING_DECLARED | NOTHING_LOADED,
        where=GPU_POOLS,
        edit=_chart(indent_modules=False),
        source="S-KM",
    ),
    Fault(
        id="modules-declared-out-of-order",
        sentence="The chart declares the modules in another order. Talos loads them as before.",
        seen="machine.kernel.modules starts with nvidia_drm; the kernel's order is right",
        wrong_diagnosis="the kernel loads in the order declared",
        breaks=frozenset({"render-module-order"}),
        where=GPU_POOLS,
        edit=lambda world: _reverse_modules(world),
        source="S-KM; gpu_path section 2 (inferred)",
    ),
    Fault(
        id="module-parameters-dropped",
        sentence="The chart rebuilds the module list from the names and forgets the parameters.",
        seen="nvidia is declared and Live; NvLinkDisable is 0",
        wrong_diagnosis="/sys/module/nvidia/parameters is empty, so the default applies",
        breaks=frozenset({"render-module-params", "nvlink-param"}),
        where=GPU_POOLS,
        edit=_chart(drop_parameters=True),
        source="S-KM (inferred)",
    ),
    Fault(
        id="kernel-block-without-card",
        sentence="A pool without any card renders an empty machine.kernel block.",
        seen="machine.kernel is there and empty: the config is not what it was before the feature",
        wrong_diagnosis="harmless; it rolls every such pool on upgrade",
        breaks=frozenset({"render-no-kernel-block"}),
        where=("plain",),
        edit=_chart(kernel_block_always=True),
        source="S-KM (inferred)",
    ),
    Fault(
        id="boot-install-schematic-drift",
        sentence="The installer image names another schematic than the disk boots from.",
        seen="everything works until the next upgrade or reinstall",
        wrong_diagnosis="works today",
        breaks=frozenset({"schematic-consistent"}),
        where=GPU_POOLS,
        edit=_chart(installer_schematic=VANILLA),
        source="S-DOC",
    ),
)


def _reverse_modules(world: World) -> None:
    world.chart = replace(world.chart, modules=tuple(reversed(world.chart.modules)))
