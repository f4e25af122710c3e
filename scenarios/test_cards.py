"""The card, from the host's PCI bus to the driver on the worker."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Pool, Record


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
def test_driver_lists_every_card(pool: MachinePool, record: Record) -> None:
    """`nvidia-smi -L` on the host root lists every card with its model and UUID."""
    for worker in pool.workers:
        record(judge.driver_sees_gpu(worker.smi_cards(), pool.cards, worker.subject))


@pytest.mark.claims("vfio-bound")
def test_host_gives_the_card_away(pool: Pool, record: Record) -> None:
    """On each machine's host, vfio-pci holds every function with the card's id."""
    for machine in pool.machines:
        record(judge.vfio_bound(machine.host_drivers(), pool.pci_id, machine.subject))


@pytest.mark.claims("module-flavour")
def test_module_flavour_drives_the_card(pool: Pool, record: Record) -> None:
    """The loaded modules are open or proprietary as the card needs and the inventory says."""
    for worker in pool.workers:
        record(
            judge.module_flavour(worker.driver_version(), pool.pci_id, pool.flavour, worker.subject)
        )


@pytest.mark.claims("fabric-state")
def test_no_card_waits_for_a_fabric(pool: Pool, record: Record) -> None:
    """No card waits for an NVLink fabric that is not there, which would stop every CUDA call."""
    for worker in pool.workers:
        record(judge.fabric_state(worker.fabric(), pool.request.cards, worker.subject))
