"""Past the 70 minutes after which a Talos boot that does not end is given up, Ready or not."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("uptime")
def test_workers_stay_on_one_boot(pool: Pool, record: Record) -> None:
    """Every worker is on the boot that it was on, and that boot is older than 70 minutes.

    It runs last of a pool and waits only for what is missing of the lane's window.
    """
    for worker in pool.workers:
        record(judge.uptime(worker.boots(), pool.terms.soak, worker.subject))
