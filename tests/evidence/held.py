"""A pool of a twin with faults, held as a run holds it, its evidence taken as a run takes it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.diagnosis import INVENTORY
from harness.diagnose.command import look
from harness.diagnose.ranking import diagnose
from harness.evidence.cluster import ClusterPlan
from harness.evidence.keeping import Keeper
from harness.evidence.manifest import Manifest
from harness.evidence.taking import Budget, PoolEvidence
from harness.inventory.loading import load
from harness.reach.errors import LabError
from harness.session.labs import LabChoice


@dataclass(frozen=True)
class Both:
    """Causes that are named: by the evidence, and by a look at the same lab in the same moment."""

    by_evidence: tuple[str, ...]
    by_look: tuple[str, ...]
    manifest: dict[str, Any]
    folder: Path


def both(tmp: Path, faults: tuple[str, ...], pool: str, seconds: float = 0.0) -> Both:
    """Hold the pool, or see it refused; take its evidence; look at the lab."""
    inventory = load(INVENTORY)
    choice = LabChoice(inventory, "evidence", tmp, faults=faults)
    found: list[Both] = []

    def taken(lab: Any, held: Any) -> None:
        if seconds:
            held.pause(seconds, "boots")
        known = {one.id: tuple(one.extensions) for one in inventory.schematics.values()}
        taking = PoolEvidence(tmp / "evidence", lab.clock, Budget())
        keeper = Keeper(taking, ClusterPlan(lab, pool, held), known)
        manifest = Manifest("it", pool, lab.clock.now(), "it fails", 90.0)
        kept = keeper.take(manifest, anew=False, done=lambda _: None)
        again = Manifest("again", pool, lab.clock.now(), "it fails too", 90.0)
        keeper.take(again, anew=False, done=lambda _: None)
        seen = diagnose(look(lab, 120.0))
        folder = tmp / "evidence" / kept.folder
        written = json.loads((folder / "manifest.json").read_text())
        named = tuple(one.cause.id for one in seen.named if not one.root)
        found.append(Both(kept.brief.causes, named, written, folder))

    try:
        with choice.hold(
            pool, lambda *_: None, lambda _: None, lambda lab, _: taken(lab, None)
        ) as held:
            taken(held.lab, held)
    except LabError:
        if not found:
            raise
    return found[0]
