"""`hil prove`: the scenarios under every fault. What cannot fail proves nothing.

Each fault runs in a process of its own on the embedded lab. A fault that breaks nothing, or
something that it does not declare, fails the proof, and so does a claim that no fault can break.

A trial is as small as shows both: one pool that the fault concerns, and one that it does not, which
stays as it was. With ``thorough`` it is every pool, each past the 70 minutes of its boot; without,
only the faults that break the uptime are watched for so long.
"""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.claims.catalogue import load as load_claims
from harness.clock import WallClock
from harness.report.ledger import read
from harness.report.outcome import Standing, Summary, summarise
from harness.report.records import LedgerError
from harness.twin.faults.catalogue import FAULTS, UnknownFault, find
from harness.twin.faults.model import ALL_POOLS, Fault

Cell = tuple[str, str]
"""(claim, pool)."""

NOTHING = "no fault"
LANE = "soak"
"""The lane of the embedded lab in which workers grow old enough for claims that need a soak."""
LEFT_OUT: Mapping[str, str] = {
    "unchanged-since": "it is asked only with the record of an earlier run of a pool that still "
    "stands (--against), and no pool of the embedded lab outlives a run",
}
"""Claims that no run of the embedded lab can ask, and why."""
ENDED = {0, 1}
"""Exit statuses of a run that came to its end."""
_MARKS = {Standing.BROKEN: "B", Standing.UNKNOWN: "u", Standing.HOLDS: "."}


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a trial asks: on which pools, and whether also what needs a soak."""

    pools: tuple[str, ...] = ALL_POOLS
    soak: bool = True

    def asks(self, cell: Cell) -> bool:
        """Whether such a trial puts this claim to this pool, if anybody does."""
        claim, pool = cell
        needs = load_claims()[claim].needs
        return pool in self.pools and (self.soak or "soak" not in needs)


WHOLE = Extent()


@dataclass(frozen=True, slots=True)
class Trial:
    """The scenarios under one fault: how each claim came out on each pool."""

    fault: str
    outcomes: Mapping[Cell, Standing]
    failure: str = ""
    extent: Extent = WHOLE

    def cells(self, standing: Standing) -> set[Cell]:
        """Where claims came out like that."""
        return {cell for cell, found in self.outcomes.items() if found is standing}


def prove(names: Sequence[str], *, jobs: int, out: Path, thorough: bool = False) -> int:
    """Run the trials and print the matrix; 0 when everything is as declared."""
    try:
        faults = [find(name) for name in names] or list(FAULTS.values())
    except UnknownFault as unknown:
        sys.stderr.write(f"hil: {unknown}\n")
        return 2
    clock = WallClock()
    began = clock.monotonic()
    series = f"{int(clock.now()):x}"
    try:
        (out / series).mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        sys.stderr.write(f"hil: --out {out}: cannot write there ({refused.strerror})\n")
        return 2
    extents = {fault.id: WHOLE if thorough else extent_of(fault) for fault in faults}
    with ThreadPoolExecutor(max_workers=max(1, jobs)) as workers:
        wanted = [(NOTHING, WHOLE), *extents.items()]
        trials = list(workers.map(lambda one: _try(one[0], one[1], out / series), wanted))
    by_name = {trial.fault: trial for trial in trials}
    objections = objections_to(faults, by_name, whole=not names)
    sys.stdout.write(_matrix(trials) + "\n")
    sys.stdout.write("" if thorough or not faults else f"{_SMALL}\n")
    for claim, why in LEFT_OUT.items():
        sys.stdout.write(f"left out: {claim}: {why}\n")
    for objection in objections:
        sys.stdout.write(f"NOT PROVED: {objection}\n")
    took = clock.monotonic() - began
    sys.stdout.write(
        f"\n{len(faults)} faults, {len(objections)} objections, {took:.1f} s; "
        f"runs in {out / series}\n"
    )
    return 1 if objections else 0


_SMALL = (
    "each fault on one pool that it concerns and one that it does not, past 70 minutes where it "
    "breaks the uptime; --thorough tries every pool for so long"
)


def extent_of(fault: Fault) -> Extent:
    """The smallest trial that shows what a fault does and what it leaves alone.

    Of pools that it concerns alike it is tried on one, told by its name, so that the catalogue
    comes by all of them. The control is the first pool that it does not concern: another with
    cards where there is one, for that has the same claims. A fault of every pool has none, and is
    tried on two.
    """
    first = fault.where[zlib.crc32(fault.id.encode()) % len(fault.where)]
    others = [pool for pool in ALL_POOLS if pool not in fault.where]
    rest = others or [pool for pool in reversed(fault.where) if pool != first]
    soak = any("soak" in load_claims()[claim].needs for claim in fault.breaks)
    chosen = {first, *rest[:1]}
    return Extent(tuple(pool for pool in ALL_POOLS if pool in chosen), soak)


def _try(fault: str, extent: Extent, out: Path) -> Trial:
    run_id = fault.replace(" ", "-")
    argv = [sys.executable, "-m", "harness.cli", "run", "--quiet", "--workers", "0"]
    argv += ["--out", str(out), "--run-id", run_id]
    argv += [f"--pool={pool}" for pool in extent.pools]
    argv += ["--lane", LANE] if extent.soak else []
    argv += ["--fault", fault] if fault != NOTHING else []
    ended = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said = (ended.stdout + ended.stderr).decode(errors="replace").strip()
    if ended.returncode not in ENDED:
        return Trial(fault, {}, f"the run ended with {ended.returncode}: {said[-600:]}", extent)
    try:
        summary = summarise(read(out / run_id))
    except LedgerError as unreadable:
        return Trial(fault, {}, f"{unreadable}; the run said: {said[-600:]}", extent)
    return Trial(fault, _outcomes(summary), extent=extent)


def _outcomes(summary: Summary) -> dict[Cell, Standing]:
    return {
        (row.claim, row.pool): row.outcome
        for row in summary.rows
        if row.outcome is not Standing.NOT_ESTABLISHED
    }


def objections_to(
    faults: Sequence[Fault], trials: Mapping[str, Trial], *, whole: bool
) -> list[str]:
    """Why the trials do not prove what the faults declare, a sentence each; none: they do.

    ``trials`` has one for each fault and one for `NOTHING`. ``whole`` says that these are all the
    faults there are, so that a claim which none of them breaks counts too.
    """
    free = trials[NOTHING]
    found = [f"{trial.fault}: {trial.failure}" for trial in trials.values() if trial.failure]
    if not free.outcomes and not free.failure:
        found.append("without any fault nothing was asked")
    for cell, standing in sorted(free.outcomes.items()):
        if standing is not Standing.HOLDS:
            found.append(f"without any fault {_name(cell)} is {standing}")
    for fault in faults:
        trial = trials[fault.id]
        if not trial.failure:
            found += _deviations(fault, trial, set(filter(trial.extent.asks, free.outcomes)))
    if whole:
        broken = {claim for trial in trials.values() for claim, _ in trial.cells(Standing.BROKEN)}
        asked = {claim for claim, _ in free.outcomes}
        for claim in [one for one in load_claims() if one not in broken and one not in LEFT_OUT]:
            why = "" if claim in asked else ": no run of the embedded lab asks it"
            found.append(f"no fault breaks {claim}{why}")
    return found


def _deviations(fault: Fault, trial: Trial, asked: set[Cell]) -> list[str]:
    """Where a trial is not what the fault declares."""
    found = []
    for what, claims, standing in (
        ("break", fault.breaks, Standing.BROKEN),
        ("blind", fault.blinds, Standing.UNKNOWN),
    ):
        declared = {(c, p) for c, p in asked if c in claims and p in fault.where}
        seen = trial.cells(standing)
        found += [
            f"{fault.id} should {what} {_name(c)} and does not" for c in sorted(declared - seen)
        ]
        found += [
            f"{fault.id} should not {what} {_name(c)} and does" for c in sorted(seen - declared)
        ]
    for cell in sorted(asked - set(trial.outcomes)):
        found.append(f"under {fault.id} {_name(cell)} is not reported at all")
    found += [f"under {fault.id} {_name(c)} was not run" for c in trial.cells(Standing.NOT_RUN)]
    if fault.breaks and not trial.cells(Standing.BROKEN):
        found.append(f"{fault.id} breaks nothing")
    elif not fault.harmless and not trial.cells(Standing.BROKEN) | trial.cells(Standing.UNKNOWN):
        found.append(f"{fault.id} changes nothing, and does not say that it is harmless")
    return found


def _matrix(trials: Sequence[Trial]) -> str:
    """Fault by claim; a cell has the worst outcome over the pools. B broken, u unknown."""
    claims = list(load_claims())
    width = max(len(trial.fault) for trial in trials)
    lines = [f"{'':<{width}}  " + " ".join(f"{n:>2}" for n in range(1, len(claims) + 1))]
    for trial in trials:
        marks = [_mark(s for (c, _), s in trial.outcomes.items() if c == claim) for claim in claims]
        lines.append(f"{trial.fault:<{width}}  " + " ".join(f"{mark:>2}" for mark in marks))
    lines += ["", "B broken, u unknown, . holds, - not asked", ""]
    lines += [f"{number:>2}  {claim}" for number, claim in enumerate(claims, 1)]
    return "\n".join(lines)


def _mark(standings: Iterable[Standing]) -> str:
    seen = set(standings)
    for standing in (Standing.BROKEN, Standing.UNKNOWN, Standing.NOT_RUN, Standing.HOLDS):
        if standing in seen:
            return _MARKS.get(standing, "!")
    return "-"


def _name(cell: Cell) -> str:
    return f"{cell[0]} on {cell[1]}"
