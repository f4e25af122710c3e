"""What a pool's request calls for: the three states of kernelModules (S-KM; gpu_path 1)."""

from __future__ import annotations

from collections.abc import Sequence

from harness.facts.machineconfig import DeclaredModule
from harness.facts.pool import RequestedModules

NVIDIA_PREFIX = "nvidia.com/"
NVLINK_DISABLED = "NVreg_NvLinkDisable=1"
NVIDIA_MODULES = ("nvidia", "nvidia_uvm", "nvidia_drm", "nvidia_modeset")
"""The chart's own choice for a pool with an NVIDIA device, in the order it declares them."""


def has_nvidia(gpus: Sequence[str]) -> bool:
    """Whether a pool holds an NVIDIA device: told by the resource name's prefix alone."""
    return any(name.startswith(NVIDIA_PREFIX) for name in gpus)


def expected_modules(
    requested: RequestedModules, gpus: Sequence[str]
) -> tuple[DeclaredModule, ...]:
    """The modules that a pool's configuration must declare, in order.

    A list, the empty one too, replaces the chart's choice; ``gpus`` are resource names.
    """
    if requested.listed is not None:
        return requested.listed
    if not has_nvidia(gpus):
        return ()
    first, *rest = NVIDIA_MODULES
    return (DeclaredModule(first, (NVLINK_DISABLED,)), *map(DeclaredModule, rest))
