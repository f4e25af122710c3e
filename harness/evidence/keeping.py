"""The evidence of one pool's failures, from the first to the last: taken, diagnosed, written."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from harness.evidence import diagnosing
from harness.evidence.diagnosing import NO_DIAGNOSIS, Brief
from harness.evidence.manifest import Item, Manifest, Status
from harness.evidence.taking import Part, PoolEvidence, Took


class Plan(Protocol):
    """What is planned of a pool, made anew for each failure."""

    def parts(self) -> list[Part]:
        """In the order in which it is to be taken."""

    def close(self) -> None:
        """Let go of what was opened for it."""


@dataclass(frozen=True, slots=True)
class Taken:
    """What a failure left: its manifest, the name of its folder, its diagnosis in short."""

    manifest: Manifest
    folder: str
    brief: Brief


@dataclass(slots=True)
class Keeper:
    """Takes the evidence of one pool. ``schematics``: those of which the inventory tells."""

    taking: PoolEvidence
    plan: Plan
    schematics: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    _last: Taken | None = None

    def take(self, manifest: Manifest, *, anew: bool, done: Callable[[Taken], None]) -> Taken:
        """Take a failure's evidence and diagnose it; ``done`` is told in any case, an interrupted
        one too. Raises OSError where the disk refuses.
        """
        folder = folder_of(manifest.scenario, manifest.pool)
        taken = Taken(manifest, folder, NO_DIAGNOSIS)
        try:
            took = self.taking.take(manifest, folder, self.plan.parts(), anew=anew)
            taken = self._diagnosed(taken, took)
        finally:
            self.plan.close()
            done(taken)
        return taken

    def _diagnosed(self, taken: Taken, took: Took) -> Taken:
        """With a diagnosis: that of an earlier failure, where nothing was asked since."""
        manifest, folder = taken.manifest, taken.folder
        if self._last is not None and not took.asked:
            return _with(self.taking.root, taken, self._last)
        subject = f"pool {manifest.pool}"
        found, brief = diagnosing.diagnosed(took.case, self.schematics, subject)
        place = self.taking.root / folder
        diagnosing.write(place, found, subject)
        manifest.diagnosis = {**brief.plain(), "file": diagnosing.TEXT}
        manifest.write(place)
        self._last = replace(taken, brief=brief)
        return self._last


def same_as(root: Path, had: Taken, manifest: Manifest) -> Taken:
    """Another failure of a pool that could not be had: what was taken then is all there is."""
    taken = Taken(manifest, folder_of(manifest.scenario, manifest.pool), NO_DIAGNOSIS)
    manifest.items = [
        replace(one, file=one.file and f"../{had.folder}/{one.file}") for one in had.manifest.items
    ]
    return _with(root, taken, had)


def nothing_of(root: Path, manifest: Manifest) -> Taken:
    """A failure whose lab was never reached, or is gone."""
    taken = Taken(manifest, folder_of(manifest.scenario, manifest.pool), NO_DIAGNOSIS)
    manifest.items = [Item("the lab", status=Status.FAILED, why="it is not connected")]
    manifest.write(root / taken.folder)
    return taken


def _with(root: Path, taken: Taken, earlier: Taken) -> Taken:
    """With an earlier failure's diagnosis, referred to."""
    manifest = taken.manifest
    if earlier.brief is not NO_DIAGNOSIS:
        file = f"../{earlier.folder}/{diagnosing.TEXT}"
        manifest.diagnosis = {**earlier.brief.plain(), "file": file}
    manifest.write(root / taken.folder)
    return replace(taken, brief=earlier.brief)


def folder_of(scenario: str, pool: str) -> str:
    """The folder of a failure, below the run's ``evidence``."""
    return "--".join(re.sub(r"[^A-Za-z0-9._-]+", "-", one) or "-" for one in (scenario, pool))
