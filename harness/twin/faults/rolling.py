"""Faults of change: one that is meant and does not arrive, and one that nobody meant."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.twin.faults.model import GPU_POOLS, Fault
from harness.twin.faults.requests import chart
from harness.twin.world.objects import HELM, annotations_of
from harness.twin.world.pool_chart import RELEASE_PREFIX

if TYPE_CHECKING:
    from harness.twin.apiserver.store import Change
    from harness.twin.world.world import World

FORCED = "reconcile.fluxcd.io/forceAt"
UPGRADED = "1.8.0"


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


FAULTS = (
    Fault(
        id="immutable-tct-refused",
        sentence="The release names a Talos template by its pool alone, and its spec is immutable.",
        seen="the reconcile Job's log: denied by the webhook; the HelmRelease is Ready; running "
        "workers and new ones have the old configuration",
        wrong_diagnosis="a new worker will fix it",
        breaks=frozenset({"rollout"}),
        where=GPU_POOLS,
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
)
