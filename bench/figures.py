"""How a figure is printed, with its spread; and what this process has used."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Sequence


def figure(name: str, values: Sequence[float], unit: str, target: str = "") -> str:
    """One line of a table of figures."""
    middle = statistics.median(values)
    spread = f"{min(values):.2f} to {max(values):.2f}"
    wanted = f"   target {target}" if target else ""
    return f"{name:<44} {middle:>10.2f} {unit:<6} ({spread}, n={len(values)}){wanted}"


def own_memory() -> float:
    """The most megabytes that this process has held so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def own_cpu() -> float:
    """Seconds of user and system time of this process so far."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime
