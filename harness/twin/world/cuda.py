"""NVIDIA's vectorAdd sample in a container: what it writes, and how it ends.

Its lines are the sample's own (cuda-samples 12.5, ``vectorAdd.cu``); the errors are the CUDA
runtime's names for 35, 100, 802 and 999. 802 is what an SXM card gives whose fabric never comes up
(gpu_path.md section 4). That it takes /dev/nvidia-uvm, and 999 without, is inferred.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.twin.apiserver.execresult import ExecResult

INSUFFICIENT_DRIVER = "CUDA driver version is insufficient for CUDA runtime version"
NO_DEVICE = "no CUDA-capable device is detected"
NOT_READY = "system not yet initialized"
UNKNOWN = "unknown error"
_PASSED = (
    "[Vector addition of 50000 elements]",
    "Copy input data from the host memory to the CUDA device",
    "CUDA kernel launch with 196 blocks of 256 threads",
    "Copy output data from the CUDA device to the host memory",
    "Test PASSED",
    "Done",
)


@dataclass(frozen=True, slots=True)
class Reach:
    """What a CUDA program finds: the driver's library, cards, uvm, a card without its fabric."""

    library: bool
    cards: int
    uvm: bool
    fabric_missing: bool


def problem(reach: Reach) -> str:
    """The error of the first call, in CUDA's words; "" where a context comes up."""
    if not reach.library:
        return INSUFFICIENT_DRIVER
    if not reach.cards:
        return NO_DEVICE
    if not reach.uvm:
        return UNKNOWN
    return NOT_READY if reach.fabric_missing else ""


def vector_add(reach: Reach) -> ExecResult:
    """Run the sample."""
    error = problem(reach)
    if not error:
        return ExecResult("".join(f"{line}\n" for line in _PASSED).encode(), b"", 0)
    complaint = f"Failed to allocate device vector A (error code {error})!\n"
    return ExecResult(f"{_PASSED[0]}\n".encode(), complaint.encode(), 1)
