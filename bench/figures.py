"""How a figure is printed: name, median, smallest and largest, and the number of runs."""

from __future__ import annotations

import statistics
from collections.abc import Sequence


def figure(name: str, values: Sequence[float], unit: str, target: str = "") -> str:
    """One line of a table of figures."""
    middle = statistics.median(values)
    spread = f"{min(values):.2f} to {max(values):.2f}"
    wanted = f"   target {target}" if target else ""
    return f"{name:<44} {middle:>10.2f} {unit:<6} ({spread}, n={len(values)}){wanted}"
