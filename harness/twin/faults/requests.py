"""Edits that several faults are made of: somebody between a user and the API, and overrides."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission
from harness.twin.faults.model import Edit
from harness.twin.world.objects import APPS, STORAGE, deep
from harness.twin.world.world import LAB, TENANT_PREFIX

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

TENANT = f"{TENANT_PREFIX}{LAB[0]}"
MANAGER = "fault"
_SCHEMATIC = re.compile("[0-9a-f]{64}")
REPLICATED = "replicated"
"""The StorageClass of the lab's pools."""


def chart(**change: Any) -> Edit:
    """The chart of worker pools is another revision than it should be."""

    def edit(world: World) -> None:
        world.chart = replace(world.chart, **change)

    return edit


def disk_rules(**change: Any) -> Edit:
    """The pool chart has other rules for system disks than it should have."""

    def edit(world: World) -> None:
        world.chart = replace(world.chart, disks=replace(world.chart.disks, **change))

    return edit


def catalogue_chart(**change: Any) -> Edit:
    """The chart of golden images is another revision than it should be."""

    def edit(world: World) -> None:
        world.catalogue_chart = replace(world.catalogue_chart, **change)

    return edit


def class_changed(name: str = REPLICATED, **change: Any) -> Edit:
    """A StorageClass says something else at its top level."""

    def edit(world: World) -> None:
        world.management.edit(
            STORAGE, "StorageClass", "", name, lambda found: found.update(change), manager=MANAGER
        )

    return edit


def both(*edits: Edit) -> Edit:
    """Several edits at once."""

    def edit(world: World) -> None:
        for each in edits:
            each(world)

    return edit


def pools_written(change: Callable[[Obj], None], *, of: Callable[[Obj], bool]) -> Edit:
    """A client between user and API changes the spec of each KubernetesNodes that ``of`` takes."""

    def rewrite(admission: Admission) -> Obj:
        asked = admission.obj
        if admission.resource.kind != "KubernetesNodes" or admission.subresource:
            return asked
        if admission.verb == "DELETE" or not of(asked.get("spec") or {}):
            return asked
        written = copy.deepcopy(asked)
        change(written["spec"])
        return written

    return lambda world: world.management.admission.append(rewrite)


def pods_written(
    change: Callable[[Obj], None], *, of: Callable[[Obj], bool] = lambda _: True
) -> Edit:
    """An admission webhook of the tenant cluster changes each Pod that ``of`` takes."""

    def rewrite(admission: Admission) -> Obj:
        asked = admission.obj
        taken = admission.resource.kind == "Pod" and admission.verb in ("CREATE", "UPDATE")
        if not taken or admission.subresource or not of(asked):
            return asked
        written = copy.deepcopy(asked)
        change(written)
        return written

    return lambda world: world.tenants[LAB[0]].admission.append(rewrite)


def schematic(identity: str) -> Callable[[Obj], None]:
    """Write another schematic into a pool's spec, wherever it names one or none, not over what is
    no schematic at all: that is the chart's to refuse.
    """

    def change(spec: Obj) -> None:
        for image in (spec.setdefault("talos", {}), *(spec.get("osImage") or {}).values()):
            if _SCHEMATIC.fullmatch(image.get("schematicID", identity)):
                image["schematicID"] = identity

    return change


def addons(**change: Obj) -> Edit:
    """Whoever owns the tenant cluster sets addons of it."""

    def write(cluster: Obj) -> None:
        held = cluster["spec"].setdefault("addons", {})
        for name, values in change.items():
            held[name] = {**(held.get(name) or {}), **values}

    return lambda world: _edit_cluster(world, write)


def _edit_cluster(world: World, write: Callable[[Obj], None]) -> None:
    name, space = LAB
    world.management.edit(APPS, "Kubernetes", space, name, write, manager=MANAGER)


def guests(hook: Callable[[Guest], None]) -> Edit:
    """Something is wrong with every worker's machine before it is powered on."""

    def ask(guest: Guest, instance: Obj) -> None:
        del instance
        hook(guest)

    return lambda world: world.on_guest.append(ask)


def has_cards(spec: Obj) -> bool:
    """Whether a pool's spec asks for cards."""
    return bool(spec.get("gpus"))


def downloads(spec: Obj) -> bool:
    """Whether a pool's disks are downloaded, not cloned from a golden image."""
    return "builtin" not in (spec.get("osImage") or {})


def asks_for_card(pod: Obj) -> bool:
    """Whether a pod's limits name nvidia.com/gpu."""
    containers = pod["spec"].get("containers") or ()
    return any("nvidia.com/gpu" in (deep(one, "resources", "limits") or {}) for one in containers)
