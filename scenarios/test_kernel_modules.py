"""What the worker's kernel did. Declared is not loaded, and loaded is not configured."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Record


@pytest.mark.claims("modules-live")
def test_modules_are_live(pool: MachinePool, record: Record) -> None:
    """Every module that the pool calls for is Live in the kernel."""
    for worker in pool.workers:
        record(judge.modules_live(worker.modules(), pool.expected_modules, worker.subject))


@pytest.mark.claims("kernel-module-order")
def test_load_order(pool: MachinePool, record: Record) -> None:
    """nvidia is older than what depends on it, and so is every dependency."""
    for worker in pool.workers:
        record(judge.kernel_module_order(worker.modules(), worker.subject))


@pytest.mark.claims("nvlink-param")
def test_nvlink_parameter_is_in_effect(pool: MachinePool, record: Record) -> None:
    """The loaded driver has NvLinkDisable 1, read where it can be read."""
    for worker in pool.workers:
        record(judge.nvlink_param(worker.nvidia_params(), worker.subject))
