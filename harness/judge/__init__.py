"""Facts in, verdicts out: pure functions, one module per family of claims."""

from __future__ import annotations

from harness.judge.access import clone_rbac
from harness.judge.addons import addons_up
from harness.judge.adoption import os_image_rolls
from harness.judge.application import spec_applied, spec_applied_while_refused
from harness.judge.catalogue import (
    catalogue_import,
    catalogue_kept,
    catalogue_refused,
    golden_lost,
)
from harness.judge.classes import class_resolved
from harness.judge.clone_phases import disk_phases
from harness.judge.clones import csi_clone
from harness.judge.cycles import apid_serves, image_fits
from harness.judge.disk_failover import disk_failover
from harness.judge.disk_shape import disk_shape
from harness.judge.disk_source import disk_source
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
from harness.judge.goldens import golden_ready
from harness.judge.headroom import headroom
from harness.judge.hidden import no_hidden_helper
from harness.judge.injection import cdi_injection, cdi_spec, cuda_runs, early_pod_unserved
from harness.judge.joining import node_joins
from harness.judge.kernel import kernel_module_order, modules_live, nvlink_param
from harness.judge.linstor import linstor_agrees
from harness.judge.modules_field import kernel_modules_refused, kernel_modules_verbatim
from harness.judge.operator import (
    gpu_advertised,
    host_driver_accepted,
    operator_default,
    operator_live,
)
from harness.judge.passthrough import passthrough, vfio_bound
from harness.judge.reboots import reboots_told
from harness.judge.refusals import golden_refused, os_image_allowed, os_image_refused
from harness.judge.remains import nothing_left
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
    "addons_up",
    "apid_serves",
    "catalogue_import",
    "catalogue_kept",
    "catalogue_refused",
    "cdi_injection",
    "cdi_spec",
    "class_resolved",
    "clone_rbac",
    "csi_clone",
    "cuda_runs",
    "disk_failover",
    "disk_phases",
    "disk_shape",
    "disk_source",
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
    "golden_lost",
    "golden_ready",
    "golden_refused",
    "gpu_advertised",
    "headroom",
    "host_driver_accepted",
    "image_fits",
    "kernel_module_order",
    "kernel_modules_refused",
    "kernel_modules_verbatim",
    "linstor_agrees",
    "missing_uptime",
    "module_flavour",
    "modules_live",
    "no_hidden_helper",
    "no_roll",
    "node_joins",
    "nothing_left",
    "nvlink_param",
    "operator_default",
    "operator_live",
    "os_image_allowed",
    "os_image_refused",
    "os_image_rolls",
    "passthrough",
    "reboots_told",
    "render_module_order",
    "render_module_params",
    "render_modules",
    "render_no_kernel_block",
    "rollout",
    "schematic_consistent",
    "spec_applied",
    "spec_applied_while_refused",
    "spec_read_back",
    "split_brain",
    "storage_ok",
    "unchanged_since",
    "uptime",
    "vfio_bound",
]
