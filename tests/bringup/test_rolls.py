"""A reconcile by force, as Flux answers it or does not."""

from __future__ import annotations

import pytest

from harness.bringup.pool import HeldPool
from harness.bringup.rolls import RECONCILE_BUDGET, SETTLE, forced_reconcile
from harness.bringup.terms import Terms
from harness.facts.fact import Unread
from harness.facts.poolstate import PoolState
from harness.judge import no_roll

RELEASE = ("helm.toolkit.fluxcd.io/v2", "HelmRelease", "tenant-hil")
NAME = "kubernetes-nodes-lab-gpu-l40s"


def states(pool: HeldPool) -> tuple[PoolState, PoolState, float]:
    since = pool.lab.clock.now()
    before, after = forced_reconcile(pool)
    assert isinstance(before, PoolState) and isinstance(after, PoolState)
    return before, after, pool.lab.clock.now() - since


def test_the_release_is_rendered_once_more_and_the_pool_is_looked_at_after_it_settled(
    gpu_pool: HeldPool,
) -> None:
    before, after, took = states(gpu_pool)
    assert after.release.handled not in ("", before.release.handled)
    assert after.release.revision == before.release.revision + 1
    assert SETTLE < took < SETTLE + 60
    assert no_roll(before, after, "pool").outcome == "holds"


def test_both_annotations_ask_with_one_value(gpu_pool: HeldPool) -> None:
    states(gpu_pool)
    release = gpu_pool.lab.management.get(*RELEASE, NAME)
    assert release is not None
    notes = release["metadata"]["annotations"]
    asked = notes["reconcile.fluxcd.io/requestedAt"]
    assert notes["reconcile.fluxcd.io/forceAt"] == asked


def test_a_release_that_flux_does_not_look_at_shows_that(gpu_pool: HeldPool) -> None:
    kube = gpu_pool.lab.management
    kube.merge(*RELEASE, NAME, {"spec": {"suspend": True}})
    before, after, took = states(gpu_pool)
    kube.merge(*RELEASE, NAME, {"spec": {"suspend": None}})
    assert after.release.handled == before.release.handled
    assert RECONCILE_BUDGET <= took < RECONCILE_BUDGET + 10
    assert no_roll(before, after, "pool").outcome == "unknown"


def test_a_pool_without_a_record_has_nothing_to_be_compared_with(gpu_pool: HeldPool) -> None:
    recorded = gpu_pool.recorded_state()
    assert isinstance(recorded, Unread) and recorded.reason == "there is none"


@pytest.mark.parametrize("stood", [True, False])
def test_a_record_is_of_the_pool_that_stood_and_of_none_that_was_made_since(
    gpu_pool: HeldPool, *, stood: bool
) -> None:
    state = gpu_pool.state()
    assert isinstance(state, PoolState)
    again = HeldPool(
        *(gpu_pool.lab, "gpu-l40s", gpu_pool.watched, gpu_pool.lease, gpu_pool.since),
        stood=stood,
        terms=Terms(recorded=state),
    )
    recorded = again.recorded_state()
    if stood:
        assert recorded is state
    else:
        assert isinstance(recorded, Unread) and "this run made another" in recorded.reason
