"""Whether a reboot is told from what only looks like one, however it came about."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Record


@pytest.mark.claims("reboots-told")
def test_every_reboot_is_told(pool: MachinePool, record: Record) -> None:
    """A worker that is made to boot anew, in every way that the lab has, shows another boot id each
    time, while its console stays attached; its log printed on the console shows none.
    """
    worker = pool.workers[0]
    record(judge.reboots_told(worker.reboots(), worker.subject))
