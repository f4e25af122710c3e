"""`python -m bench.reports`: `hil report` over 50 runs of 200 claims, killed at their last line."""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.figures import figure
from harness.claims.catalogue import load
from harness.clock import WallClock
from harness.facts.fact import Fact, Origin
from harness.judge.verdict import Outcome, Verdict
from harness.report.ledger import Ledger
from harness.report.rundir import RunDirectory, RunInfo

RUNS = 50
CLAIMS = 200
POOLS = 4
LIMIT = 10.0
START = 1767225600.0
CLOCK = WallClock()


@dataclass(frozen=True, slots=True)
class Looked(Fact):
    """Stands for what a scenario reads: a table of forty rows, as long as a real one."""

    rows: tuple[dict[str, str], ...]


def main() -> None:
    """Make the runs, measure, print; 1 where it took longer than it may."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=RUNS)
    options.add_argument("--claims", type=int, default=CLAIMS)
    chosen = options.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        out = Path(scratch)
        names = [make(out, number, chosen.claims) for number in range(chosen.runs)]
        size = sum(path.stat().st_size for path in out.rglob("*.jsonl")) / 1e6
        print(f"{chosen.runs} runs of {chosen.claims} claims, {size:.0f} MB of ledgers")
        first = _timed(out, names)
        print(figure("hil report over all of them, killed", [first], "s", f"below {LIMIT:.0f}"))
        again = _timed(out, names)
        print(figure("hil report over all of them, again", [again], "s", f"below {LIMIT:.0f}"))
    sys.exit(int(max(first, again) > LIMIT))


def make(out: Path, number: int, claims: int) -> str:
    """A run of that many claims in ``out``, killed in its last scenario; gives its id."""
    run_id = f"bench-{number:03d}"
    directory = RunDirectory(out, run_id).create()
    info = RunInfo(run_id, "bench", "nightly", START + 3600.0 * number, kind="twin")
    info.write(directory.run_json)
    asked = _asked(claims)
    with Ledger(directory.path, "plan") as plan:
        for scenario, pool, claim in asked:
            plan.planned(
                scenario, pool, [claim], hardware="L40S", title=f"The title of {scenario}."
            )
    for pool in dict.fromkeys(pool for _, pool, _ in asked):
        with Ledger(directory.path, f"pool-{pool}") as shard:
            mine = [(scenario, claim) for scenario, other, claim in asked if other == pool]
            for place, (scenario, claim) in enumerate(mine):
                _scenario(shard, scenario, pool, claim, START + 60.0 * place)
                if (scenario, pool, claim) != asked[-1]:
                    shard.end(scenario, "passed", pool=pool, at=START + 60.0 * place + 30)
    return run_id


def _asked(claims: int) -> list[tuple[str, str, str]]:
    known = list(load())
    return [
        (f"test_{number // POOLS}", f"pool-{number % POOLS}", known[number % len(known)])
        for number in range(claims)
    ]


def _scenario(shard: Ledger, scenario: str, pool: str, claim: str, at: float) -> None:
    shard.begin(scenario, pool, at=at)
    shard.wait(f"{scenario} to settle", scenario=scenario, pool=pool, since=at, until=at + 20)
    rows = tuple({"name": f"module_{n}", "state": "Live", "of": scenario} for n in range(40))
    raw = "".join(f"module_{n} 16384 {n} - Live 0x0 of {scenario}\n" for n in range(40))
    fact = Looked(Origin(at + 25, f"guest {pool}-{scenario}:/proc/modules", raw), rows)
    verdict = Verdict(claim, f"node {pool}-1", Outcome.HOLDS, "forty of forty are live", (fact,))
    shard.verdict(verdict, scenario=scenario, pool=pool, at=at + 25)


def _timed(out: Path, names: list[str]) -> float:
    began = CLOCK.monotonic()
    argv = [sys.executable, "-m", "harness.cli", "report", "--quiet", "--out", str(out), *names]
    subprocess.run(argv, check=True)
    return CLOCK.monotonic() - began


if __name__ == "__main__":
    main()
