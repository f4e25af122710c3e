"""The card, from the host's PCI bus to the driver on the worker."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("passthrough")
def test_card_is_passed_through(pool: Pool, record: Record) -> None:
    """The virtual machine, its launcher and the guest's PCI bus all hold the card."""
    for machine in pool.machines:
        record(
            judge.passthrough(
                machine.vmi_gpus,
                machine.launcher_gpu,
                machine.pci_cards,
                pool.devices,
                pool.pci_id,
                machine.subject,
            )
        )


@pytest.mark.claims("driver-sees-gpu")
def test_driver_lists_every_card(pool: Pool, record: Record) -> None:
    """`nvidia-smi -L` on the host root lists every card with its model and UUID."""
    for worker in pool.workers:
        record(judge.driver_sees_gpu(worker.smi_cards(), pool.request.cards, worker.subject))
