"""Facts in, verdicts out: pure functions, one module per family of claims."""

from __future__ import annotations

from harness.judge.drbd_disks import drbd_disk_loss, drbd_io_policy, drbd_quorum, drbd_verify
from harness.judge.drbd_trials import (
    drbd_failover,
    drbd_link_loss,
    drbd_outdated_refused,
    drbd_primary_loss,
    drbd_replica_loss,
    drbd_split_brain,
)
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
from harness.judge.reboots import reboots_told
from harness.judge.rendering import (
    render_module_order,
    render_module_params,
    render_modules,
    render_no_kernel_block,
    schematic_consistent,
    spec_read_back,
)
from harness.judge.rolling import no_roll, rollout, unchanged_since
from harness.judge.splitbrain import Standing, split_brain
from harness.judge.storage import storage_ok
from harness.judge.uptime import missing_uptime, uptime

__all__ = [
    "Standing",
    "cdi_injection",
    "cdi_spec",
    "cuda_runs",
    "drbd_disk_loss",
    "drbd_failover",
    "drbd_io_policy",
    "drbd_link_loss",
    "drbd_outdated_refused",
    "drbd_primary_loss",
    "drbd_quorum",
    "drbd_replica_loss",
    "drbd_split_brain",
    "drbd_verify",
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
    "reboots_told",
    "render_module_order",
    "render_module_params",
    "render_modules",
    "render_no_kernel_block",
    "rollout",
    "schematic_consistent",
    "spec_read_back",
    "split_brain",
    "storage_ok",
    "unchanged_since",
    "uptime",
    "vfio_bound",
]
