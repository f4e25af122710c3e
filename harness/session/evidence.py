"""Evidence of a run's failures: taken at the first verdict of a scenario that does not hold.

All that it rests on still stands then. A failure costs its budget at most, and never changes a
verdict: what goes wrong here is told in the manifest, or as a note.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from harness.session.shard import Refusals, Shard

if TYPE_CHECKING:
    from harness.bringup.connect import ConnectedLab
    from harness.bringup.guests import GuestPool
    from harness.bringup.pool import HeldPool
    from harness.clock import Clock
    from harness.evidence.keeping import Keeper, Plan, Taken
    from harness.evidence.taking import Budget
    from harness.inventory.models import Lab
    from harness.judge.verdict import Verdict
    from harness.session.plan import Planned

BRING_UP = "bring-up"
"""Stands for the scenario where a pool could not be had."""
DISRUPTIVE = frozenset({"disruption", "platform"})
"""Needs of claims whose scenarios change what an earlier failure saw."""


class Evidence:
    """One process's share of it. ``seconds``: what one failure may take; 0 takes none."""

    def __init__(
        self,
        root: Path,
        inventory: Lab,
        ledger: Callable[[str], Shard],
        say: Callable[[float, str], None],
        refusals: Refusals,
        seconds: float,
    ) -> None:
        self._root = root
        self._inventory = inventory
        self._ledger = ledger
        self._say = say
        self._refusals = refusals
        self._seconds = seconds
        self._keeper: Keeper | None = None
        self._clock: Clock | None = None
        self._refused: dict[str, Taken] = {}

    def holds(self, pool: HeldPool | GuestPool) -> None:
        """From now on failures are this pool's."""
        if self._seconds <= 0:
            return
        from harness.bringup.guests import GuestPool
        from harness.evidence.cluster import ClusterPlan
        from harness.evidence.guests import GuestPlan

        plan: Plan
        if isinstance(pool, GuestPool):
            plan = GuestPlan(pool)
        else:
            plan = ClusterPlan(pool.lab, pool.name, pool)
        self._keeper, self._clock = self._new(plan, pool.lab.clock), pool.lab.clock

    def lets_go(self) -> None:
        """The pool goes: what fails from now on has nothing to look at."""
        self._keeper = self._clock = None

    def refused(self, name: str, lab: ConnectedLab, why: Exception) -> None:
        """A pool cannot be had: look at its lab as long as it is connected."""
        if self._seconds <= 0:
            return
        from harness.evidence.cluster import ClusterPlan

        self._keeper, self._clock = self._new(ClusterPlan(lab, name), lab.clock), lab.clock
        self._take(BRING_UP, name, f"the pool could not be had: {why}", anew=True)
        self.lets_go()

    def failing(self, planned: Planned, verdict: Verdict) -> None:
        """A scenario has its first verdict that does not hold."""
        if self._seconds <= 0:
            return
        from harness.claims.catalogue import get as claim_of

        needs = {need for claim in planned.claims for need in claim_of(claim).needs}
        reason = f"{verdict.claim} {verdict.outcome}: {verdict.because} [{verdict.subject}]"
        self._take(planned.scenario, planned.pool, reason, anew=bool(needs & DISRUPTIVE))

    def _new(self, plan: Plan, clock: Clock) -> Keeper:
        from harness.evidence.keeping import Keeper
        from harness.evidence.taking import PoolEvidence

        schematics = self._inventory.schematics.values()
        known = {one.id: tuple(one.extensions) for one in schematics}
        return Keeper(PoolEvidence(self._root, clock, self._budget()), plan, known)

    def _budget(self) -> Budget:
        from harness.evidence.taking import Budget

        return Budget(seconds=self._seconds)

    def _take(self, scenario: str, pool: str, reason: str, *, anew: bool) -> None:
        from harness.evidence.keeping import nothing_of, same_as
        from harness.evidence.manifest import Manifest

        at = self._clock.now() if self._clock is not None else 0.0
        manifest = Manifest(scenario, pool, at, reason, self._seconds)
        with self._refusals.noted(self._root):
            try:
                if self._keeper is not None:
                    taken = self._keeper.take(manifest, anew=anew, done=self._keep)
                    if scenario == BRING_UP:
                        self._refused[pool] = taken
                elif pool in self._refused:
                    self._keep(same_as(self._root, self._refused[pool], manifest))
                else:
                    self._keep(nothing_of(self._root, manifest))
            except OSError:
                raise
            except Exception:  # noqa: BLE001 - a fault of this room's own becomes no verdict
                told = f"evidence of {scenario}: the harness failed\n{traceback.format_exc()}"
                self._ledger(pool).note("traceback", told, at=at)

    def _keep(self, taken: Taken) -> None:
        """Write down what was had; also of a taking that was broken off."""
        manifest, brief = taken.manifest, taken.brief
        score = manifest.score
        if manifest.scenario != BRING_UP:
            self._ledger(manifest.pool).evidence(
                manifest.scenario,
                manifest.pool,
                at=manifest.at,
                folder=f"{self._root.name}/{taken.folder}",
                score=score.plain(),
                status=brief.status.value,
                causes=brief.causes,
                diagnosis=brief.line,
            )
        had = score.taken + score.truncated + score.empty
        told = f"evidence of {manifest.scenario}: {had} of {score.planned} parts; {brief.line}"
        self._say(manifest.at, told[:300])
