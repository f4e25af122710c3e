"""`hil prove`: the scenarios under every fault. What cannot fail proves nothing.

Each fault runs in a process of its own, here on the embedded lab, in `harness.prove_guests` on the
mini-lab's guests. A fault that breaks nothing, or
something that it does not declare, fails the proof, and so does a claim that no fault can break.
The processes are forked from one that has imported what every run imports, and does nothing else:
that saves each a second of processor time.

A trial is as small as shows both: one pool that the fault concerns, and one that it does not, which
stays as it was. With ``thorough`` it is every pool, each past the 70 minutes of its boot; without,
only the faults that break the uptime are watched for so long.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Protocol

from harness.claims.catalogue import load as load_claims
from harness.clock import WallClock
from harness.report.ledger import read
from harness.report.outcome import Standing, Summary, summarise
from harness.report.records import LedgerError
from harness.twin.faults.catalogue import FAULTS, UnknownFault, find
from harness.twin.faults.model import ALL_POOLS, GPU_POOLS, Fault

Cell = tuple[str, str]
"""(claim, pool)."""

NOTHING = "no fault"
LANES: Mapping[frozenset[str], str] = {
    frozenset(): "quick",
    frozenset({"soak"}): "soak",
    frozenset({"disruption"}): "storage",
    frozenset({"platform"}): "clones",
    frozenset({"soak", "disruption", "platform"}): "everything",
}
"""The embedded lab's lanes by what each allows: that workers grow old, that machines are broken,
that the platform's catalogue is edited. The first that allows enough is taken."""
ROUGH, EDITED = ("plain",), ("cloned",)
"""The pools of the lanes in which machines break, and the catalogue is edited."""
LEFT_OUT: Mapping[str, str] = {
    "unchanged-since": "it is asked only with the record of an earlier run of a pool that still "
    "stands (--against), and no pool of the embedded lab outlives a run",
    "drbd-split-brain": "every volume of the embedded lab has three replicas, and quorum keeps two "
    "from going on apart; the mini-lab's pair shows it",
}
"""Claims that no run of the embedded lab can ask, and why."""
ENDED = {0, 1}
"""Exit statuses of a run that came to its end."""
REFUSED = 3
"""That of a lab that is unfit; where a claim is broken (`headroom`), that is why."""
_SHARED = [
    "pytest",
    "_pytest.assertion.rewrite",
    "_pytest.fixtures",
    "_pytest.main",
    "_pytest.python",
    "_pytest.terminal",
    "kubernetes.client",
    "harness.session.command",
    "harness.bringup.keeper",
    "harness.judge",
    "harness.report.signoff",
    "harness.prove",
]
"""What every trial imports. None of it may start a thread: it would be missing after the fork."""
_OWN_END, _TOLD_END = 1.0, 20.0
"""Seconds for an interrupted trial to end by itself, and once it was told to."""
_MARKS = {Standing.BROKEN: "B", Standing.UNKNOWN: "u", Standing.HOLDS: "."}


class Declared(Protocol):
    """What a fault says of itself, of whichever lab it is."""

    @property
    def id(self) -> str:
        """Its name."""

    @property
    def breaks(self) -> Collection[str]:
        """Claims that come out broken."""

    @property
    def blinds(self) -> Collection[str]:
        """Claims that come out unknown."""

    @property
    def where(self) -> Sequence[str]:
        """The pools on which it shows."""

    @property
    def harmless(self) -> bool:
        """Whether it changes no claim."""


@dataclass(frozen=True, slots=True)
class Extent:
    """How much a trial asks: on which pools, whether also what needs a soak, what breaks machines
    and what edits the platform, and which claims of those there are; None for all.
    """

    pools: tuple[str, ...] = ALL_POOLS
    soak: bool = True
    claims: frozenset[str] | None = None
    disruption: bool = True
    platform: bool = True

    @property
    def allows(self) -> frozenset[str]:
        """The needs of claims that not every lane meets, and this one does."""
        given = {"soak": self.soak, "disruption": self.disruption, "platform": self.platform}
        return frozenset(need for need, allowed in given.items() if allowed)

    def asks(self, cell: Cell) -> bool:
        """Whether such a trial puts this claim to this pool, if anybody does."""
        claim, pool = cell
        needs = load_claims()[claim].needs
        chosen = self.claims is None or claim in self.claims
        denied = WHOLE.allows - self.allows
        return chosen and pool in self.pools and denied.isdisjoint(needs)


WHOLE = Extent()


@dataclass(frozen=True, slots=True)
class Trial:
    """The scenarios under one fault: how each claim came out on each pool, and what was said."""

    fault: str
    outcomes: Mapping[Cell, Standing]
    failure: str = ""
    extent: Extent = WHOLE
    said: Mapping[Cell, tuple[str, ...]] = field(default_factory=dict)

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
    trials = _trials({NOTHING: WHOLE, **extents}, max(1, jobs), out / series)
    by_name = {trial.fault: trial for trial in trials}
    objections = objections_to(faults, by_name, whole=not names)
    sys.stdout.write(matrix(trials, list(load_claims())) + "\n")
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
    comes by all of them. The control is the first pool that it does not concern: one that has cards
    as well or has none either where there is one, for that has the same claims. A fault of every
    pool has none, and is
    tried on two. One that shows when machines break, or in the platform's catalogue, is tried where
    they may be broken, or it may be edited.
    """
    shown_by = fault.breaks or fault.blinds
    needs = {need for one in shown_by for need in load_claims()[one].needs}
    if "disruption" in needs:
        return Extent(ROUGH, soak="soak" in needs, platform="soak" in needs)
    if "platform" in needs:
        return Extent(EDITED, soak=False, disruption=False)
    first = fault.where[zlib.crc32(fault.id.encode()) % len(fault.where)]
    others = [pool for pool in ALL_POOLS if pool not in fault.where]
    alike = [pool for pool in others if (pool in GPU_POOLS) is (first in GPU_POOLS)]
    rest = alike or others or [pool for pool in reversed(fault.where) if pool != first]
    chosen = {first, *rest[:1]}
    pools = tuple(pool for pool in ALL_POOLS if pool in chosen)
    return Extent(pools, "soak" in needs, disruption=False, platform=False)


def _trials(wanted: Mapping[str, Extent], jobs: int, out: Path) -> list[Trial]:
    """A trial of each fault, ``jobs`` at once, in the order of ``wanted``."""
    commands = {fault: _arguments(fault, extent, out) for fault, extent in wanted.items()}
    ended = run_each(commands, jobs, out)
    return [trial_of(fault, extent, out, *ended[fault]) for fault, extent in wanted.items()]


def run_each(
    commands: Mapping[str, Sequence[str]], jobs: int, out: Path
) -> dict[str, tuple[int, str]]:
    """Run `hil` with each of these arguments in a process of its own, ``jobs`` at once.

    Gives under each name the exit status, negative after a signal, and what was said, which is also
    in ``NAME.log`` in ``out``. One thread begins and ends them all: two that ask after one process
    can take each other's answer. Interrupted, it ends those that run.
    """
    forks = multiprocessing.get_context("forkserver")
    forks.set_forkserver_preload(_SHARED)
    waiting = list(commands.items())[::-1]
    running: dict[int, tuple[str, ForkServerProcess]] = {}
    ended: dict[str, tuple[int, str]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                name, argv = waiting.pop()
                child = forks.Process(target=_as_hil, args=(list(argv), out / f"{name}.log"))
                child.start()
                running[child.sentinel] = name, child
            for sentinel in wait(list(running)):
                assert isinstance(sentinel, int)
                name, child = running.pop(sentinel)
                child.join()
                ended[name] = child.exitcode or 0, _said(out / f"{name}.log")
    except KeyboardInterrupt:
        _end([child for _, child in running.values()])
        raise
    return ended


def _end(children: Sequence[ForkServerProcess]) -> None:
    """Have trials end: those that a terminal has told already are let do so by themselves."""
    for child in children:
        child.join(_OWN_END)
    for child in children:
        if child.is_alive():
            child.terminate()
    for child in children:
        child.join(_TOLD_END)
        if child.is_alive():
            child.kill()
            child.join()


def _as_hil(argv: list[str], log: Path) -> None:
    """Be `hil` in this process, all that it says going to a file."""
    from harness.cli import main

    with log.open("wb") as file:
        for stream in (sys.stdout, sys.stderr):
            os.dup2(file.fileno(), stream.fileno())
    sys.exit(main(argv))


def _said(log: Path) -> str:
    return log.read_text(encoding="utf-8", errors="replace").strip() if log.exists() else ""


def _arguments(fault: str, extent: Extent, out: Path) -> list[str]:
    argv = ["run", "--quiet", "--workers", "0", "--out", str(out), "--run-id", run_id(fault)]
    argv += [f"--pool={pool}" for pool in extent.pools]
    lane = next(lane for allowed, lane in LANES.items() if extent.allows <= allowed)
    argv += ["--lane", lane] if lane else []
    argv += ["--fault", fault] if fault != NOTHING else []
    return argv


def run_id(fault: str) -> str:
    """How the run of a fault's trial is called."""
    return fault.replace(" ", "-")


def trial_of(fault: str, extent: Extent, out: Path, status: int, said: str) -> Trial:
    """What a run in ``out`` amounts to, that ended with this status and said this."""
    failure = "" if status in ENDED else f"the run ended with {status}: {said[-600:]}"
    if failure and status != REFUSED:
        return Trial(fault, {}, failure, extent)
    try:
        summary = summarise(read(out / run_id(fault)))
    except LedgerError as unreadable:
        told = failure or f"{unreadable}; the run said: {said[-600:]}"
        return Trial(fault, {}, told, extent)
    if failure and all(row.outcome is not Standing.BROKEN for row in summary.rows):
        return Trial(fault, {}, failure, extent)
    sentences = {
        (row.claim, row.pool): tuple(one.because for one in row.findings) for row in summary.rows
    }
    return Trial(fault, _outcomes(summary), extent=extent, said=sentences)


def _outcomes(summary: Summary) -> dict[Cell, Standing]:
    return {
        (row.claim, row.pool): row.outcome
        for row in summary.rows
        if row.outcome is not Standing.NOT_ESTABLISHED
    }


def objections_to(
    faults: Sequence[Declared],
    trials: Mapping[str, Trial],
    *,
    whole: bool,
    breakable: Collection[str] | None = None,
) -> list[str]:
    """Why the trials do not prove what the faults declare, a sentence each; none: they do.

    ``trials`` has one for each fault and one for `NOTHING`. ``whole`` says that these are all the
    faults there are, so that a claim which none of them breaks counts too, if it is one of those
    ``breakable``; None: of all but those that the embedded lab leaves out.
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
        if not trial.failure and not free.failure:  # else there is nothing to compare with
            found += _deviations(fault, trial, set(filter(trial.extent.asks, free.outcomes)))
    if whole:
        broken = {claim for trial in trials.values() for claim, _ in trial.cells(Standing.BROKEN)}
        asked = {claim for claim, _ in free.outcomes}
        if breakable is None:
            breakable = [one for one in load_claims() if one not in LEFT_OUT]
        for claim in [one for one in breakable if one not in broken]:
            why = "" if claim in asked else ": no run of the embedded lab asks it"
            found.append(f"no fault breaks {claim}{why}")
    return found


def _deviations(fault: Declared, trial: Trial, asked: set[Cell]) -> list[str]:
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


def matrix(trials: Sequence[Trial], claims: Sequence[str]) -> str:
    """Fault by claim; a cell has the worst outcome over the pools. B broken, u unknown."""
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
