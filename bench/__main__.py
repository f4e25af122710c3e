"""`python -m bench`: every figure of docs/performance.md, one command after the other.

``python -m bench night`` is ``python -m bench.night``: one of them, with options of its own.
"""

from __future__ import annotations

import subprocess
import sys

COMMANDS = (
    "bench.runs",
    "bench.scenarios",
    "bench.twin_http",
    "bench.twin_clock",
    "bench.execs",
    "bench.watching",
    "bench.boot_ledger",
    "bench.waits",
    "bench.clones",
    "bench.reports",
    "bench.live",
    "bench.night",
)

if __name__ == "__main__":
    named, options = sys.argv[1:2], sys.argv[2:]
    for command in [f"bench.{name}" for name in named] or COMMANDS:
        print(f"\n== python -m {command}", flush=True)
        subprocess.run([sys.executable, "-m", command, *options], check=True)
