"""The GPU operator with a driver of the operating system: as rendered, as running, as it ended.

A green ClusterPolicy is written down beside what proves something and decides nothing: it is ready
on a cluster without any GPU.
"""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import MachinePool, Pool, Record


@pytest.mark.claims("operator-default")
def test_chart_default_leaves_the_driver_to_the_system(pool: Pool, record: Record) -> None:
    """The chart's own values turn driver and toolkit off, and nobody overrides them."""
    record(judge.operator_default(pool.operator_values(), pool.addons(), pool.subject))


@pytest.mark.claims("operator-live")
def test_running_operator_has_the_rendered_values(pool: Pool, record: Record) -> None:
    """The running DaemonSets have every variable that was rendered, and none brings a driver."""
    record(
        judge.operator_live(pool.operator_values(), pool.daemonsets(), pool.addons(), pool.subject)
    )


@pytest.mark.claims("host-driver-accepted")
def test_validator_accepts_the_systems_driver(pool: Pool, record: Record) -> None:
    """Every stage of the validator passed without a restart, on the driver of the host."""
    for worker in pool.workers:
        record(
            judge.host_driver_accepted(
                worker.validator(),
                worker.driver_ready(),
                worker.cuda_validation(),
                pool.policy(),
                pool.addons(),
                worker.subject,
            )
        )


@pytest.mark.claims("cdi-spec")
def test_cdi_file_names_every_card(pool: MachinePool, record: Record) -> None:
    """The file from which a container runtime takes a card's libraries names every card."""
    for worker in pool.workers:
        record(judge.cdi_spec(worker.cdi_spec(), pool.cards, worker.subject))


@pytest.mark.claims("gpu-advertised")
def test_node_offers_every_card(pool: Pool, record: Record) -> None:
    """Each Node's allocatable nvidia.com/gpu is the number of its cards."""
    for worker in pool.workers:
        record(
            judge.gpu_advertised(
                worker.gpu_node(), pool.request.cards, pool.policy(), pool.addons(), worker.subject
            )
        )


@pytest.mark.claims("no-hidden-helper")
def test_nothing_helps_in_secret(pool: Pool, record: Record) -> None:
    """No DaemonSet beside the platform's could bring a driver or change the container runtime."""
    record(judge.no_hidden_helper(pool.daemonsets(), pool.subject))
