"""The chain from a card in a host to CUDA in a pod, link by link, as a reference run found it.

A link's proof is of that link alone (gpu_path, first lines). A run is a reference run of a pool
when it asked all of the chain there, the window of uptime included.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.report.outcome import Row, Summary

LINKS = (
    "vfio-bound",
    "passthrough",
    "modules-live",
    "nvlink-param",
    "module-flavour",
    "driver-sees-gpu",
    "fabric-state",
    "cdi-spec",
    "operator-default",
    "operator-live",
    "host-driver-accepted",
    "gpu-advertised",
    "early-pod-unserved",
    "cdi-injection",
    "cuda-runs",
    "no-hidden-helper",
    "uptime",
)
"""The claims that are its links, from the host outwards; the last two are of the whole of it."""
_ASKED = {"cdi-injection", "cuda-runs", "uptime"}
"""What makes a run a reference run: its end and its window."""


@dataclass(frozen=True, slots=True)
class Chain:
    """One pool's chain: its links in order, those that the run asked or could not establish."""

    pool: str
    hardware: str
    links: tuple[Row, ...]


def chains(summary: Summary) -> tuple[Chain, ...]:
    """The chain of each pool of which the run is a reference run."""
    asked = {pool: _asked(summary, pool) for pool, _ in summary.pools if pool}
    return tuple(
        Chain(pool, hardware, _links(summary, pool))
        for pool, hardware in summary.pools
        if pool and hardware and asked[pool] >= _ASKED
    )


def _asked(summary: Summary, pool: str) -> set[str]:
    return {row.claim for row in summary.rows if row.pool == pool}


def _links(summary: Summary, pool: str) -> tuple[Row, ...]:
    """What no pool can establish has a row without a pool, which stands for this one too."""
    found = (summary.row(claim, pool) or summary.row(claim, "") for claim in LINKS)
    return tuple(row for row in found if row is not None)
