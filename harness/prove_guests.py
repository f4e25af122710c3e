"""`hil prove --lab` of a mini-lab: the scenarios under every fault of real guests.

The guests are booted once. Each trial is a run attached to them, one after the other: it begins
with a roll-back, has its fault planted before each scenario, and asks what the fault breaks, what
it blinds and its controls. The first one has no fault and asks all of that.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from harness.claims.catalogue import load as load_claims
from harness.clock import WallClock
from harness.prove import (
    NOTHING,
    Cell,
    Extent,
    Trial,
    matrix,
    objections_to,
    run_each,
    run_id,
    trial_of,
)
from harness.qemulab.faults.catalogue import FAULTS, LEFT_OUT, UnknownFault, find
from harness.qemulab.faults.model import Fault
from harness.qemulab.rundir import DirectoryUnfit
from harness.reach.errors import LabError
from harness.report.outcome import Standing
from harness.session.choice import Choice, choose
from harness.session.mistake import UserMistake

if TYPE_CHECKING:
    from harness.qemulab.lab import MiniLab

USER_MISTAKE = 2
LAB_UNFIT = 3


@dataclass(frozen=True, slots=True)
class OnGuests:
    """A fault of the mini-lab, on the guests of one inventory. A `harness.prove.Declared`."""

    fault: Fault
    where: tuple[str, ...]

    @property
    def id(self) -> str:
        """Its name."""
        return self.fault.id

    @property
    def breaks(self) -> frozenset[str]:
        """Claims that come out broken."""
        return self.fault.breaks

    @property
    def blinds(self) -> frozenset[str]:
        """Claims that come out unknown."""
        return self.fault.blinds

    @property
    def harmless(self) -> bool:
        """Whether it changes no claim."""
        return self.fault.harmless


@dataclass(slots=True)
class Proof:
    """The trials of one inventory's guests, kept in ``out``, each told as it ends."""

    inventory: Path
    choice: Choice
    out: Path
    faults: Sequence[Fault]
    clock: WallClock = field(default_factory=WallClock)

    @property
    def pool(self) -> str:
        """The set of guests that is tried: the inventory's first."""
        return self.choice.pools[0]

    @property
    def lane(self) -> str:
        """The lane that watches a boot for longest, in which faults of boots show; "" for none."""
        lanes = self.choice.inventory.lanes
        long = {name: one.soak.seconds for name, one in lanes.items() if one.soak is not None}
        return max(long, key=lambda name: long[name], default="")

    @property
    def askable(self) -> tuple[str, ...]:
        """The claims that a run on these guests can establish."""
        lane = self.lane
        asking = Choice(self.choice.inventory, "", lane, (self.pool,), ())
        claims = load_claims().values()
        return tuple(
            one.id for one in claims if asking.asks(one.id) and not asking.missing([one], self.pool)
        )

    @property
    def extents(self) -> dict[str, Extent]:
        """What each trial asks, the one without a fault first."""
        able = frozenset(self.askable)
        each = {fault.id: self._extent(fault.asks & able) for fault in self.faults}
        everything = frozenset().union(*(one.claims or frozenset() for one in each.values()))
        return {NOTHING: self._extent(everything), **each}

    def _extent(self, claims: frozenset[str]) -> Extent:
        soak = any("soak" in load_claims()[claim].needs for claim in claims)
        return Extent((self.pool,), soak, claims)

    def trials(self, directory: Path) -> Iterator[Trial]:
        """Each trial as it ends, on the guests that are up in a directory."""
        extents = self.extents
        for number, (name, extent) in enumerate(extents.items()):
            began = self.clock.monotonic()
            ended = run_each({name: self._arguments(name, extent, directory)}, 1, self.out)
            trial = trial_of(name, extent, self.out, *ended[name])
            took = self.clock.monotonic() - began
            _say(f"{number:>3}/{len(extents) - 1}  {name:<28} {took:6.1f} s  {_brief(trial)}")
            yield trial

    def objections(self, trials: Sequence[Trial], *, whole: bool) -> list[str]:
        """Why the trials do not prove what the faults declare."""
        by_name = {trial.fault: trial for trial in trials}
        declared = [OnGuests(fault, (self.pool,)) for fault in self.faults]
        breakable = [claim for claim in self.askable if claim not in LEFT_OUT]
        found = objections_to(declared, by_name, whole=whole, breakable=breakable)
        for fault in self.faults:
            found += _unsaid(fault, by_name[fault.id], self.pool)
        return found

    def _arguments(self, name: str, extent: Extent, directory: Path) -> list[str]:
        argv = ["run", "--quiet", "--lab", str(self.inventory), "--attach", str(directory)]
        argv += ["--out", str(self.out), "--run-id", run_id(name), f"--pool={self.pool}"]
        argv += [f"--claim={claim}" for claim in sorted(extent.claims or ())]
        argv += ["--lane", self.lane] if extent.soak else []
        return argv + ([f"--fault={name}"] if name != NOTHING else [])


def prove(inventory: Path, names: Sequence[str], *, out: Path, attach: Path | None = None) -> int:
    """Run the trials and print the matrix; 0 when everything is as declared.

    ``attach`` is the directory of guests that are up already; None: they are booted here, and end
    with this, however it ends.
    """
    try:
        faults = [find(name) for name in names] or list(FAULTS.values())
        choice = choose(inventory, "", (), ())
    except (UnknownFault, UserMistake) as mistake:
        return _mistaken(str(mistake))
    if choice.inventory.kind != "qemu":
        return _mistaken(f"{inventory} is no mini-lab, and faults are planted in no other real lab")
    series = out / f"{int(WallClock().now()):x}"
    try:
        series.mkdir(parents=True, exist_ok=True)
    except OSError as refused:
        return _mistaken(f"--out {out}: cannot write there ({refused.strerror})")
    proof = Proof(inventory, choice, series, faults)
    try:
        return _conduct(proof, attach, whole=not names)
    except DirectoryUnfit as mistake:
        return _mistaken(str(mistake))
    except LabError as unfit:
        sys.stderr.write(f"hil: {unfit}\n")
        return LAB_UNFIT


def _conduct(proof: Proof, attach: Path | None, *, whole: bool) -> int:
    began = proof.clock.monotonic()
    trials: list[Trial] = []
    with _lab(proof, attach) as lab:
        for trial in proof.trials(lab.directory):
            trials.append(trial)
            if trial.fault == NOTHING and trial.failure:
                proof.faults = ()  # guests on which nothing runs show nothing
                break
    found = proof.objections(trials, whole=whole and bool(proof.faults))
    lines = ["", matrix(trials, proof.askable)]
    lines += [f"left out: {one}: {why}" for one, why in LEFT_OUT.items() if one in proof.askable]
    lines += [f"NOT PROVED: {objection}" for objection in found]
    took = proof.clock.monotonic() - began
    lines += ["", f"{len(proof.faults)} faults, {len(found)} objections, {took:.1f} s; "]
    _say("\n".join(lines) + f"runs in {proof.out}")
    return 1 if found else 0


@contextmanager
def _lab(proof: Proof, attach: Path | None) -> Iterator[MiniLab]:
    from harness.qemulab.lab import MiniLab
    from harness.session.minilab import wants

    if attach is not None:
        yield MiniLab.attach(attach)
        return
    asked = proof.choice.inventory.guests[proof.pool]
    lab = MiniLab.start(proof.out / "qemu", wants(asked), say=_say)
    try:
        yield lab
    finally:
        lab.close()


def _unsaid(fault: Fault, trial: Trial, pool: str) -> Iterator[str]:
    """Where a verdict does not say what the fault is to be told by."""
    if trial.failure:
        return
    for claim, words in fault.says.items():
        told = trial.said.get((claim, pool), ())
        if told and not any(words in one for one in told):
            yield f"under {fault.id} {claim} does not say {words!r}: {'; '.join(told)}"


def _brief(trial: Trial) -> str:
    if trial.failure:
        return f"failed: {trial.failure.splitlines()[0][:60]}"
    told: Mapping[str, set[Cell]] = {
        "breaks": trial.cells(Standing.BROKEN),
        "blinds": trial.cells(Standing.UNKNOWN),
        "not run:": trial.cells(Standing.NOT_RUN),
    }
    parts = [f"{what} {', '.join(sorted(c for c, _ in one))}" for what, one in told.items() if one]
    return "; ".join(parts) or f"all {len(trial.outcomes)} hold"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def _mistaken(sentence: str) -> int:
    sys.stderr.write(f"hil: {sentence}\n")
    return USER_MISTAKE
