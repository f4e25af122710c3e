"""Facts in, verdicts out: pure functions, one module per family of claims."""

from __future__ import annotations

from harness.judge.driver import driver_sees_gpu
from harness.judge.joining import node_joins
from harness.judge.kernel import kernel_module_order, modules_live, nvlink_param
from harness.judge.passthrough import passthrough
from harness.judge.rendering import (
    render_module_order,
    render_module_params,
    render_modules,
    render_no_kernel_block,
    schematic_consistent,
    spec_read_back,
)

__all__ = [
    "driver_sees_gpu",
    "kernel_module_order",
    "modules_live",
    "node_joins",
    "nvlink_param",
    "passthrough",
    "render_module_order",
    "render_module_params",
    "render_modules",
    "render_no_kernel_block",
    "schematic_consistent",
    "spec_read_back",
]
