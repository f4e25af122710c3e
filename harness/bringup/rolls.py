"""Having a pool's release reconciled by force, to see that nothing of the pool rolls.

An annotation alone has Flux look again and do nothing where nothing changed; with ``forceAt`` of
the same value the chart is rendered and applied once more (objects 3; Flux docs).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.facts.fact import Unread
from harness.facts.objects import condition, text_at
from harness.facts.poolstate import PoolState
from harness.inventory.naming import release_name
from harness.observe.pool import HELM
from harness.reach.lease import micro_time

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

RECONCILE_BUDGET = 600.0
"""Seconds for Flux to have done what it was told to; its own interval for these releases is 5 m."""
SETTLE = 120.0
"""Seconds after which a roll would show: Cluster API makes a new Machine within seconds."""

_ASKED = ("reconcile.fluxcd.io/requestedAt", "reconcile.fluxcd.io/forceAt")


def forced_reconcile(pool: HeldPool) -> tuple[PoolState | Unread, PoolState | Unread]:
    """The pool's state before its release was reconciled by force, and after it settled.

    Where Flux does not answer within the budget, the second state shows that.
    """
    place = pool.lab.inventory.tenant
    name = release_name(place.cluster, pool.name)
    before = pool.state()
    asked = micro_time(pool.lab.clock.now())
    pool.lab.management.merge(
        HELM,
        "HelmRelease",
        place.namespace,
        name,
        {"metadata": {"annotations": dict.fromkeys(_ASKED, asked)}},
    )
    feed = pool.watched.feeds["helm_releases"]

    def handled() -> bool:
        release = feed.object(name) or {}
        done = text_at(release, "status", "lastHandledReconcileAt") == asked
        return done and text_at(condition(release, "Ready"), "status") in ("True", "False")

    if pool.wait(handled, RECONCILE_BUDGET, f"HelmRelease {name} to be reconciled by force"):
        pool.pause(SETTLE, f"pool {pool.name} to settle after it")
    return before, pool.state()
