"""Edits that several faults are made of: somebody between a user and the API, and overrides."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.twin.apiserver.resources import Obj
from harness.twin.apiserver.store import Admission
from harness.twin.faults.model import Edit
from harness.twin.world.objects import APPS, deep
from harness.twin.world.world import LAB, TENANT_PREFIX

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

TENANT = f"{TENANT_PREFIX}{LAB[0]}"
MANAGER = "fault"


def chart(**change: Any) -> Edit:
    """The chart of worker pools is another revision than it should be."""

    def edit(world: World) -> None:
        world.chart = replace(world.chart, **change)

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
    """Write another schematic into a pool's spec, wherever it names one."""

    def change(spec: Obj) -> None:
        spec.setdefault("talos", {})["schematicID"] = identity
        for image in (spec.get("osImage") or {}).values():
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


def asks_for_card(pod: Obj) -> bool:
    """Whether a pod's limits name nvidia.com/gpu."""
    containers = pod["spec"].get("containers") or ()
    return any("nvidia.com/gpu" in (deep(one, "resources", "limits") or {}) for one in containers)
