"""Facts in, verdicts out: pure functions, one module per family of claims."""

from __future__ import annotations

from harness.judge.driver import driver_sees_gpu, fabric_state, module_flavour
from harness.judge.hidden import no_hidden_helper
from harness.judge.injection import cdi_injection, cdi_spec, cuda_runs, early_pod_unserved
from harness.judge.joining import node_joins
from harness.judge.kernel import kernel_module_order, modules_live, nvlink_param
from harness.judge.modules_field import kernel_modules_refused, kernel_modules_verbatim
from harness.judge.operator import (
    gpu_advertised,
    host_driver_accepted,
    operator_default,
    operator_live,
)
from harness.judge.passthrough import passthrough, vfio_bound
from harness.judge.rendering import (
    render_module_order,
    render_module_params,
    render_modules,
    render_no_kernel_block,
    schematic_consistent,
    spec_read_back,
)
from harness.judge.rolling import no_roll, rollout, unchanged_since
from harness.judge.uptime import missing_uptime, uptime

__all__ = [
    "cdi_injection",
    "cdi_spec",
    "cuda_runs",
    "driver_sees_gpu",
    "early_pod_unserved",
    "fabric_state",
    "gpu_advertised",
    "host_driver_accepted",
    "kernel_module_order",
    "kernel_modules_refused",
    "kernel_modules_verbatim",
    "missing_uptime",
    "module_flavour",
    "modules_live",
    "no_hidden_helper",
    "no_roll",
    "node_joins",
    "nvlink_param",
    "operator_default",
    "operator_live",
    "passthrough",
    "render_module_order",
    "render_module_params",
    "render_modules",
    "render_no_kernel_block",
    "rollout",
    "schematic_consistent",
    "spec_read_back",
    "unchanged_since",
    "uptime",
    "vfio_bound",
]
