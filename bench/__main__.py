"""`python -m bench`: every figure of docs/performance.md, one command after the other."""

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
    "bench.waits",
    "bench.clones",
)

if __name__ == "__main__":
    for command in COMMANDS:
        print(f"\n== python -m {command}", flush=True)
        subprocess.run([sys.executable, "-m", command], check=True)
