"""A pool is its workers: green releases and running machines say nothing of them."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("node-joins")
def test_workers_join(pool: Pool, record: Record) -> None:
    """Every worker becomes a Ready node within the pool's join budget."""
    record(judge.node_joins(pool.join, pool.request.replicas, pool.subject))


@pytest.mark.claims("spec-read-back")
def test_request_is_kept_as_written(pool: Pool, record: Record) -> None:
    """The release holds kernelModules as they were written: left out stays left out."""
    record(judge.spec_read_back(pool.stored_request(), pool.written_modules, pool.subject))
