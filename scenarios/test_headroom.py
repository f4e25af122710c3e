"""Room for a pool's disks: what was free before it was asked for, against all that it may take."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("headroom")
def test_storage_has_room_for_the_peak(pool: Pool, record: Record) -> None:
    """A roll and the disks in the making fit beside the pool's own, on every node that must."""
    record(judge.headroom(pool.measured, pool.subject))
