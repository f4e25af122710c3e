"""The tenant cluster's own addons on the workers of a pool: what they do, not what Helm says."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("addons-up")
def test_addons_work_on_every_worker(pool: Pool, record: Record) -> None:
    """Network, names, disks and metrics are there, as a pod and the API find them."""
    record(judge.addons_up(pool.tenant_addons(), pool.subject))
