"""`python -m bench.waits`: how tools wait for Kubernetes state, measured beside each other.

Every tool waits for the same pods on servers of its own, on loopback, while the pods change at
seeded moments. Measured: which phases are seen, how late, at what cost, and what is answered when
something goes wrong. Tools that are not there are left out by name; `python -m bench.peers` makes
their environments, and kubectl is found on the PATH or named in HIL_KUBECTL.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from bench.waits.faults import BY_NAME as FAULT_NAMES
from bench.waits.faults import FAULTS
from bench.waits.gates import Gate, gates
from bench.waits.measure import Bench, Found, write_rows
from bench.waits.plan import BY_NAME, FULL, QUICK, SUBJECTS, Subject
from bench.waits.server import MeteringLoop
from bench.waits.table import gate_table, tables, versions

OUT = Path("reports/out/bench")
MISSED = 1
BUSY = 1.0
"""Load for each processor, of others, above which a machine's lags are not held against ours."""

_EXAMPLES = """\
examples:
  python -m bench.waits                                  everything: 5 minutes on an idle machine
  python -m bench.waits --quick                          a third of it, in one to two minutes
  python -m bench.waits --subject ours --subject kr8s --fault closed --fault silent
"""


def main() -> int:
    """Measure, print, and say whether ours holds what it must: 0, or 1 where a gate is missed."""
    parser = argparse.ArgumentParser(
        prog="python -m bench.waits",
        description=__doc__,
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--quick", action="store_true", help="fewer waits, one try of each fault")
    add("--subject", action="append", choices=list(BY_NAME), help="only this tool; may be repeated")
    add(
        "--fault",
        action="append",
        choices=list(FAULT_NAMES),
        help="only this fault, and nothing else",
    )
    add("--markdown", action="store_true", help="tables for docs/performance.md")
    add("--out", type=Path, default=OUT, help=f"folder of the raw rows (default {OUT})")
    add("--seed", type=int, default=1, help="of the moments of change (default 1)")
    options = parser.parse_args()
    # a client that goes away in the middle of an answer is what many of the faults are about
    logging.getLogger("aiohttp.server").setLevel(logging.CRITICAL)
    subjects = [s for s in SUBJECTS if not options.subject or s.name in options.subject]
    faults = [f for f in FAULTS if not options.fault or f.name in options.fault]
    extent = QUICK if options.quick else FULL
    before = os.getloadavg()[0]
    options.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        bench = Bench(subjects, extent, Path(scratch), options.out, seed=options.seed)
        with asyncio.Runner(loop_factory=MeteringLoop) as runner:
            if not options.fault:
                runner.run(bench.healthy())
            runner.run(bench.faulty(faults))
    write_rows(bench.found.rows, options.out / "waits.ndjson")
    truths = {fault.name: fault.truth for fault in FAULTS}
    busy = before > BUSY * (os.cpu_count() or 1)
    judged = gates(bench.found, truths, busy=busy)
    print(_told(bench.found, subjects, judged, markdown=options.markdown, load=before))
    return MISSED if any(gate.judged and not gate.holds for gate in judged) else 0


def _told(
    found: Found,
    subjects: Sequence[Subject],
    judged: Sequence[Gate],
    *,
    markdown: bool,
    load: float,
) -> str:
    made = tables(found, subjects, FAULTS)
    if judged:
        made.append(gate_table(judged))
    machine = (
        f"{os.cpu_count()} processors, Python {sys.version.split()[0]}, "
        f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after"
    )
    listed = [f"* {line}" if markdown else line for line in versions(found, subjects)]
    parts = [machine, "\n".join(listed)]
    parts += [table.markdown() if markdown else table.text() for table in made]
    return "\n\n".join(parts)


if __name__ == "__main__":
    sys.exit(main())
