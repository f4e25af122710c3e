"""Which Kubernetes a Talos release runs, and how a pool's version compares with its parent's.

The matrix: siderolabs/talos ``pkg/machinery/compatibility/talos1NN`` (the lowest and the highest
minor). A Talos minor that is not listed passes, as in the chart (clone_path.md section 3, R10).
"""

from __future__ import annotations

import re

_MINOR = re.compile(r"^v?(\d+)\.(\d+)")
_SPANS: dict[tuple[int, int], tuple[int, int]] = {
    (1, 9): (27, 32),
    (1, 10): (28, 33),
    (1, 11): (29, 34),
    (1, 12): (30, 35),
    (1, 13): (31, 36),
}


def minor(version: str) -> tuple[int, int] | None:
    """(major, minor) of ``v1.13.6``, ``v1.13`` or ``1.13``; None for what is no version."""
    found = _MINOR.match(version)
    return (int(found[1]), int(found[2])) if found else None


def unsupported(kubernetes: str, talos: str) -> str:
    """Why a pair is refused, worded as R10; "" where it passes."""
    wanted, running = minor(kubernetes), minor(talos)
    span = _SPANS.get(running) if running is not None else None
    if span is None or wanted is None or (wanted[0] == 1 and span[0] <= wanted[1] <= span[1]):
        return ""
    listed = ", ".join(f"v1.{one}" for one in range(span[0], span[1] + 1))
    return (
        f"Kubernetes {kubernetes} is not supported by Talos {talos}. Supported versions: {listed}"
    )


def is_ahead(kubernetes: str, parent: str) -> bool:
    """Whether a pool's minor is newer than its parent's; False where either cannot be told."""
    pool, cluster = minor(kubernetes), minor(parent)
    return pool is not None and cluster is not None and pool > cluster
