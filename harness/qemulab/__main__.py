"""`python -m harness.qemulab RUN`: keep a lab; see `harness.qemulab.keeper`. Not for people."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from harness.qemulab.keeper import run

if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(run(Path(sys.argv[1])))
