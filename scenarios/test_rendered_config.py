"""What the chart rendered for the pool. It says what was asked of a worker, not what it did."""

from __future__ import annotations

import pytest

from harness import judge
from harness.scenario import Pool, Record


@pytest.mark.claims("render-modules")
def test_module_list(pool: Pool, record: Record) -> None:
    """The machine config declares the modules that the request calls for, at the exact path."""
    record(
        judge.render_modules(
            pool.rendered_modules(), pool.written_modules, pool.devices, pool.subject
        )
    )


@pytest.mark.claims("render-module-order")
def test_declared_order(pool: Pool, record: Record) -> None:
    """The machine config declares nvidia before the three that depend on it."""
    record(judge.render_module_order(pool.rendered_modules(), pool.subject))


@pytest.mark.claims("render-module-params")
def test_declared_parameters(pool: Pool, record: Record) -> None:
    """The machine config gives nvidia NVreg_NvLinkDisable=1."""
    record(judge.render_module_params(pool.rendered_modules(), pool.subject))


@pytest.mark.claims("render-no-kernel-block")
def test_no_kernel_block_without_a_card(pool: Pool, record: Record) -> None:
    """A pool without an NVIDIA device renders no machine.kernel block at all."""
    record(
        judge.render_no_kernel_block(
            pool.rendered_modules(), pool.written_modules, pool.devices, pool.subject
        )
    )


@pytest.mark.claims("schematic-consistent")
def test_one_schematic(pool: Pool, record: Record) -> None:
    """The disk's boot source, the installer image and each worker name one schematic."""
    booting = pool.booting
    record(
        judge.schematic_consistent(
            booting.source(), booting.installer(), pool.subject, booting.running()
        )
    )
