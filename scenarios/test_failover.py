"""Storage nodes that are lost while a worker runs on its replicated disk.

The disk is the worker's own: what it writes goes on, or stands still as its class says, and is all
there afterwards. Every node is switched on again, whatever happens meanwhile.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("disk-failover")
def test_worker_outlives_a_storage_node(pool: Pool, record: Record) -> None:
    """It writes on without one storage node, stands still without a quorum, and loses nothing."""
    record(judge.disk_failover(pool.disk_failover(), pool.subject))
