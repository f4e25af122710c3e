"""A pool that nobody changed stays as it is: across a reconcile, and across a platform upgrade."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("unchanged-since")
def test_pool_is_as_it_was_recorded(pool: Pool, record: Record) -> None:
    """Templates, machines, disks and boots are those that an earlier run recorded."""
    record(judge.unchanged_since(pool.recorded_state(), pool.state(), pool.subject))


@pytest.mark.claims("no-roll")
def test_reconcile_by_force_rolls_nothing(pool: Pool, record: Record) -> None:
    """Rendered and applied once more, the pool's templates, machines, disks and boots stay."""
    before, after = pool.forced_reconcile()
    record(judge.no_roll(before, after, pool.subject))
