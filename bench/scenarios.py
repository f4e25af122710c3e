"""`python -m bench.scenarios`: time and API requests of each scenario on a pool with a card.

The first scenario of a pool has the bring-up before it, which is not counted to it. Requests are
those of the run's own clients to both clusters, lists and watches of shared feeds included.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from bench.figures import figure
from harness.clock import WallClock

ROOT = Path(__file__).resolve().parent.parent
RUNS = 5
POOL = "gpu-l40s"
CLOCK = WallClock()


class Meter:
    """Looks at the clock and at the clients before and after each scenario."""

    def __init__(self) -> None:
        self.rows: list[tuple[str, float, int]] = []

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, Any, Any]:
        """One scenario, its fixtures made."""
        lab = item.funcargs["pool"].lab  # type: ignore[attr-defined]  # a scenario is a function
        clients = (lab.management, lab.tenant)
        before, began = sum(len(one.calls) for one in clients), CLOCK.monotonic()
        try:
            return (yield)
        finally:
            requests = sum(len(one.calls) for one in clients) - before
            name = item.name.partition("[")[0]
            self.rows.append((name, CLOCK.monotonic() - began, requests))


def _run_one(out: str) -> int:
    """One run in this process, its rows as JSON on the last line."""
    meter = Meter()
    inventory = ROOT / "inventory" / "twin.yaml"
    argv = [str(ROOT / "scenarios"), f"--rootdir={ROOT}", f"--confcutdir={ROOT}"]
    argv += [f"--lab={inventory}", "--lane=hardware", f"--pool={POOL}", "--seed=1"]
    argv += [f"--out={out}", "-p", "no:cacheprovider", "-q"]
    status = pytest.main(argv, plugins=[meter])
    print(json.dumps(meter.rows))
    return int(status)


def main() -> None:
    """Measure and print."""
    print(
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, pool {POOL}, lane hardware"
    )
    seconds: dict[str, list[float]] = defaultdict(list)
    requests: dict[str, list[int]] = defaultdict(list)
    whole = []
    with tempfile.TemporaryDirectory() as scratch:
        for _ in range(RUNS):
            began = CLOCK.monotonic()
            argv = [sys.executable, "-m", "bench.scenarios", "--one", scratch]
            ran = subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=True)
            whole.append(CLOCK.monotonic() - began)
            for name, took, asked in json.loads(ran.stdout.splitlines()[-1]):
                seconds[name].append(took)
                requests[name].append(asked)
    for name, times in seconds.items():
        print(f"{figure(name[:44], times, 's')}   {statistics.median(requests[name]):.0f} requests")
    print(figure("all of them, bring-up and reports too", whole, "s", "below 15"))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--one"]:
        sys.exit(_run_one(sys.argv[2]))
    main()
