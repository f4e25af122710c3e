"""What a run leaves behind, once its pool is gone."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("nothing-left")
def test_nothing_is_left(pool: Pool, record: Record) -> None:
    """No object, volume, DRBD resource, byte or card of the pool stays once it is taken down.

    The last of its pool: it takes the pool down, and waits until volumes and space are given back.
    """
    gone = pool.departure()
    record(judge.nothing_left(gone.before, gone.after, pool.subject, kept=gone.kept))
