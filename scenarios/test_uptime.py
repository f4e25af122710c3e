"""Past the time after which a boot that does not end is given up, Ready or not."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Record


@pytest.mark.claims("uptime")
def test_workers_stay_on_one_boot(pool: MachinePool, record: Record) -> None:
    """Every worker is on the boot that it was on, and that boot is older than the limit: Talos'
    70 minutes, unless the inventory names a shorter one.

    It runs late in a pool and waits only for what is missing of the lane's window.
    """
    terms = pool.terms
    for worker in pool.workers:
        boots = worker.boots()
        record(
            judge.uptime(
                boots,
                terms.soak,
                worker.subject,
                limit=terms.limit,
                logs=worker.kernel_logs(),
                ledger=worker.boot_ledger(),
                restarts=worker.pod_restarts(),
                memory=worker.memory(boots),
            )
        )
