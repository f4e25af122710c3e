"""What a tenant's pod gets of a card, seen from inside: the only proof that injection works.

A card is handed over when a pod is admitted. So a pod made before the node worked gets nothing and
must be made anew, and a fresh pod gets its card; nothing of this is to be read off a Pod object.
On a machine without a cluster a pod is a container that asks the machine's own engine for a card.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Pool, Record


@pytest.mark.claims("early-pod-unserved")
def test_pod_from_before_must_be_made_anew(pool: MachinePool, record: Record) -> None:
    """A pod made before the node offered a card has none even now; a fresh one has."""
    for worker in pool.workers:
        record(
            judge.early_pod_unserved(
                worker.early_pod(), worker.fresh_pod(), pool.addons(), worker.subject
            )
        )


@pytest.mark.claims("cdi-injection")
def test_fresh_pod_gets_its_card(pool: MachinePool, record: Record) -> None:
    """A pod that ships no driver lists the card it asked for; one that asked for none has none."""
    for worker in pool.workers:
        record(
            judge.cdi_injection(
                worker.fresh_pod(),
                worker.control_pod(),
                worker.smi_cards(),
                pool.addons(),
                pool.daemonsets(),
                worker.subject,
            )
        )


@pytest.mark.claims("cuda-runs")
def test_cuda_kernel_runs(pool: Pool, record: Record) -> None:
    """A pod with one card runs a CUDA program to its right result."""
    for worker in pool.workers:
        record(
            judge.cuda_runs(
                worker.cuda_pod(),
                pool.cuda_success,
                pool.addons(),
                pool.daemonsets(),
                worker.subject,
            )
        )
