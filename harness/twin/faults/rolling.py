"""Faults of change: one that is meant and does not arrive, and one that nobody meant."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from harness.twin.apiserver.resources import Obj
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Edit, Fault
from harness.twin.faults.requests import chart
from harness.twin.world.objects import APPS, HELM, annotations_of
from harness.twin.world.pool_chart import PARENT_PREFIX, RELEASE_PREFIX
from harness.twin.world.world import LAB

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.guest import Guest
    from harness.twin.world.world import World

FORCED = "reconcile.fluxcd.io/forceAt"
UPGRADED, MINOR = "1.8.0", "v1.13"
TOO_OLD = "v1.30"
"""Kubernetes that the pools' Talos release does not run."""
SETTLED, LATER = 5.0, 20.0
"""Seconds after a worker is Ready at which somebody edits its pool, and does so again."""
NO_REFERENCE = frozenset({"no-roll"})
"""Unknown where a pool's release fails: what a reconcile of it would leave cannot be tried."""


def _upgrade_when_forced(world: World) -> None:
    """The platform is upgraded the moment a pool's release is to be reconciled by force.

    The new chart renders another configuration for pools with cards, by the order of its modules:
    as an upgrade does that brings the modules and the names by content at once (S-KM).
    """

    def upgrade() -> None:
        first, *rest = world.chart.modules
        modules = (first, *reversed(rest))
        world.chart = replace(world.chart, version=UPGRADED, modules=modules)

    def hear(change: Change) -> None:
        name = change.obj["metadata"]["name"]
        asked = FORCED in annotations_of(change.obj) and name.startswith(RELEASE_PREFIX)
        if change.type != "DELETED" and asked and world.chart.version != UPGRADED:
            world.engine.after(0.0, upgrade, "the platform is upgraded")

    world.cluster.on(HELM, "HelmRelease", hear)


def edited_when_joined(*changes: tuple[float, Callable[[Obj], None]]) -> Edit:
    """Somebody edits a pool's spec, so many seconds after each of its workers is Ready."""

    def edit(world: World) -> None:
        def ready(node: str, _: Guest) -> None:
            for pool in world.management.all(APPS, "KubernetesNodes", LAB[1]):
                name = str(pool["metadata"]["name"])
                if node.startswith(f"{PARENT_PREFIX}{name}-"):
                    for delay, change in changes:
                        write = partial(_edit_pool, world, name, change)
                        world.engine.after(delay, write, f"somebody edits {name}")

        for workers in world.workers.values():
            workers.on_up.append(ready)

    return edit


def _edit_pool(world: World, name: str, change: Callable[[Obj], None]) -> None:
    if world.management.find(APPS, "KubernetesNodes", LAB[1], name) is not None:
        world.management.edit(
            APPS,
            "KubernetesNodes",
            LAB[1],
            name,
            lambda pool: change(pool["spec"]),
            manager="kubectl-edit",
        )


def _minor_version(spec: Obj) -> None:
    spec.setdefault("talos", {})["version"] = MINOR


def _old_kubernetes(spec: Obj) -> None:
    spec["version"] = TOO_OLD


def _larger_disks(spec: Obj) -> None:
    spec["diskSize"] = "30Gi"


FAULTS = (
    Fault(
        id="immutable-tct-refused",
        sentence="The release names a Talos template by its pool alone, and its spec is immutable.",
        seen="the reconcile Job's log: denied by the webhook; the HelmRelease is Ready; running "
        "workers and new ones have the old configuration",
        wrong_diagnosis="a new worker will fix it",
        breaks=frozenset({"rollout", "spec-applied"}),
        where=ALL_POOLS,
        edit=chart(content_named=False),
        source="S-KM",
    ),
    Fault(
        id="unexpected-pool-roll",
        sentence="A platform upgrade renders another configuration for pools with cards.",
        seen="templates of other names, Machines replaced: the worker whose boot was watched is no "
        "more",
        wrong_diagnosis="a regression of how disks are made",
        breaks=frozenset({"no-roll", "uptime"}),
        blinds=frozenset({"reboots-told"}),
        where=GPU_POOLS,
        edit=_upgrade_when_forced,
        source="S-KM",
    ),
    Fault(
        id="minor-talos-version",
        sentence="Somebody sets the Talos version of a pool that runs to its minor.",
        seen="UpgradeFailed, is not a vMAJOR.MINOR.PATCH release; the machines run on as they are",
        wrong_diagnosis="a regression of how disks are cloned",
        breaks=frozenset({"spec-applied"}),
        blinds=NO_REFERENCE,
        where=ALL_POOLS,
        edit=edited_when_joined((SETTLED, _minor_version)),
        source="S-OSI",
    ),
    Fault(
        id="accepted-not-applied",
        sentence="Somebody asks for larger disks while the pool's release fails for its version.",
        seen="30Gi in the object and in the release's values; 20Gi in the templates in use, and "
        "the history's newest revision is of before",
        wrong_diagnosis="the API accepted it",
        breaks=frozenset({"spec-applied"}),
        blinds=NO_REFERENCE,
        where=ALL_POOLS,
        edit=edited_when_joined((SETTLED, _old_kubernetes), (LATER, _larger_disks)),
        source="S-OSI",
    ),
)
