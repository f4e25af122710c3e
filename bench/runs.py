"""`python -m bench.runs`: wall time of a run and of a proof, and what a wait costs in requests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

from bench.figures import figure
from harness.clock import WallClock
from harness.twin.process import TwinProcess

RUNS = 5
CLOCK = WallClock()


def main() -> None:
    """Measure and print."""
    print(f"{os.cpu_count()} processors, Python {sys.version.split()[0]}")
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        runs = [_timed("run", "--quiet", "--out", str(out)) for _ in range(2 * RUNS)]
        print(figure("hil run, embedded lab, four pools, soak", runs, "s", "below 20"))
        ledgers = {path.read_bytes() for path in out.glob("2*/ledger.jsonl")}
        print(f"{2 * RUNS} runs of one seed left {len(ledgers)} distinct ledger(s)")
        for lane, name in (("quick", "without a soak"), ("soak", "with one")):
            used = [_processor("run", "--quiet", "--lane", lane, "--out", scratch) for _ in "123"]
            print(figure(f"  processor time of all pools, {name}", used, "s"))
        proofs = [_timed("prove", "--out", str(out / "prove"))]
        print(figure("hil prove, every fault", proofs, "s", "below 90"))
        print(figure("hil --help", [_timed("--help") for _ in range(RUNS)], "s", "below 0.2"))
        for budget in ("29m", "10h"):
            print(_requests(out / budget, budget))


def _timed(*arguments: str) -> float:
    began = CLOCK.monotonic()
    subprocess.run(
        [sys.executable, "-m", "harness.cli", *arguments],
        stdout=subprocess.DEVNULL,
        check=True,
    )
    return CLOCK.monotonic() - began


def _processor(*arguments: str) -> float:
    """Seconds of processor time of a run with all its processes."""
    before = os.times()
    _timed(*arguments)
    after = os.times()
    return sum(after[2:4]) - sum(before[2:4])


def _requests(directory: Path, budget: str) -> str:
    """Lists and watches of a bring-up that waits for its whole budget in vain."""
    directory.mkdir()
    inventory = directory / "lab.yaml"
    text = (Path(__file__).parent.parent / "inventory" / "twin.yaml").read_text()
    inventory.write_text(text.replace("joinBudget: 29m", f"joinBudget: {budget}"))
    twin = TwinProcess(directory / "twin", seed=1, faults=["hr-ready-no-workers"])
    try:
        subprocess.run(
            [sys.executable, "-m", "harness.cli", "run", "--quiet", "--lab", str(inventory),
             "--attach", str(directory / "twin"), "--pool", "plain", "--claim", "node-joins",
             "--out", str(directory / "out"), "--evidence", "0"],
            stdout=subprocess.DEVNULL, check=False,
        )  # fmt: skip
        with urllib.request.urlopen(f"{twin.endpoint.clock_url}/requests") as answer:
            told = json.load(answer)
    finally:
        twin.close()
    verbs = told["verbs"]
    return (
        f"a wait of {budget} in vain: {verbs['list']} lists and {verbs['watch']} watches, "
        f"{verbs['update']} renewals of the lease, {told['total']} requests in all"
    )


if __name__ == "__main__":
    main()
