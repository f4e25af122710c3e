"""Goldens that fail or go, tried on ones of this run's own: what becomes of pools that want them.

The rows are R7, its exemption, and the class of a pool that has cloned, in clone_path 3. A golden
that was there before is never touched, and one that is somebody's source is not deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.bringup.breaches import Breach
from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.open_catalogue import (
    GONE_BUDGET,
    IMPORT_BUDGET,
    RELEASE,
    RESTARTS,
    OpenCatalogue,
)
from harness.bringup.scratch_pools import Made, ScratchPools, Variant
from harness.facts import catalogue as facts
from harness.facts.applied import Allowed
from harness.facts.catalogue import GoldenVolume, Outlived
from harness.facts.clones import POOL, SUCCEEDED
from harness.facts.fact import Unread
from harness.facts.goldenname import GOLDENS
from harness.facts.goldens import SCHEMATIC, VERSION
from harness.facts.objects import name_of, text_at, uid_of
from harness.facts.refusals import RefusalTrial
from harness.inventory.naming import deployment_name
from harness.observe.pool import DATA_VOLUMES
from harness.reach.history import Obj

NO_IMAGE = "hil-no-such-image"
"""A schematic that no factory has: its golden is asked for and never imported."""
CLONE_BUDGET = 900.0
"""Seconds for a worker's disk to be cloned; 43 s for two were measured (clone_path 6)."""
CLONED_BEFORE = "a pool that has cloned before its golden went"
CLASSLESS = "a pool that has cloned, its class left empty, where the default is another"


@dataclass(frozen=True, slots=True)
class GoldenTrials:
    """Trials that need goldens of their own, in a catalogue that is open."""

    catalogue: OpenCatalogue

    def failing(self) -> RefusalTrial | Unread:
        """R7: a pool that asks for a golden whose importer was restarted again and again."""
        entry = {"schematicID": NO_IMAGE, "version": self.catalogue.pool.request.talos_version}
        name = facts.golden_name(entry)
        if self.catalogue.volumes.object(name) is not None:
            return self.catalogue.unread("R7", f"there is a golden {GOLDENS}/{name} already")
        refused = self.catalogue.add(entry, name)
        if refused is not None:
            return self.catalogue.unread("R7", refused.reason)
        try:
            if not self._wait(lambda: self._is_failing(name), f"golden {name} to keep failing"):
                why = f"{GOLDENS}/{name} has not failed {RESTARTS} times in {IMPORT_BUDGET:.0f} s"
                return self.catalogue.unread("R7", why)
            return self._asked_of_a_pool(entry, name)
        finally:
            self.catalogue.withdraw(entry, name)

    def outlived(self) -> Outlived:
        """A pool with one worker that cloned from this run's golden; then its class is taken out,
        and put back, and then it is without its golden.

        The entry has to be out of the catalogue. The golden is deleted, the pool's release made to
        render anew; the pool is gone at the end with its disk. Raises TakeDownIncomplete.
        """
        note = self.catalogue.images.note()
        name = note.golden if note is not None else ""
        golden = self._golden(name)
        if golden is None or golden.phase != SUCCEEDED:
            return self._untried("no golden of this run's own came about")
        scratch = ScratchPools(self.catalogue.pool)
        with scratch.standing([_with_a_worker(golden)]) as (made,):
            seen = self._on_its_own(scratch, made, golden)
        if not self._wait(
            lambda: not self._disks(made), f"disks of {made.name} to go", GONE_BUDGET
        ):
            left = ", ".join(map(name_of, self._disks(made)))
            raise TakeDownIncomplete(f"disks cloned for a trial are still there: {left}")
        return seen

    # -- step by step

    def _asked_of_a_pool(self, entry: Obj, name: str) -> RefusalTrial | Unread:
        listed = facts.resolved(entry, self.catalogue.releases.object(RELEASE) or {})
        merge = {"osImage": {"builtin": entry}, "storageClass": listed.storage_class}
        breach = Breach("R7", Variant(merge, drop=("osImage",)), (name,))
        (trial,) = self.catalogue.pool.refusals.driven([breach])
        return trial

    def _on_its_own(self, scratch: ScratchPools, made: Made, golden: GoldenVolume) -> Outlived:
        """The pool's disk is cloned; then what becomes of it without class, and without golden."""
        if made.refused is not None:
            return Outlived(made.refused, made.refused, made.refused)
        if not self._wait(lambda: self._has_cloned(made), f"{made.name} to clone", CLONE_BUDGET):
            return self._untried(f"no disk was cloned from {golden.name} in {CLONE_BUDGET:.0f} s")
        before = scratch.applied(made)
        classless = self._classless(scratch, made, golden)
        return Outlived(before, classless, self._without_it(scratch, made, golden))

    def _classless(
        self, scratch: ScratchPools, made: Made, golden: GoldenVolume
    ) -> Allowed | Unread:
        """The pool's class taken out, looked at, and put back.

        Its chart then finds what it would find had the default been moved away after the clone: no
        class in the pool, another in the cluster, and the disk's own.
        """
        default, mine = self.catalogue.pool.refusals.default_class(), golden.storage_class
        if not mine or default in ("", mine):
            why = f"the default class is {default or 'not known'}, the disk's {mine or 'not told'}"
            return self.catalogue.unread(CLASSLESS, f"{why}, and a cluster's default is not moved")
        refused = scratch.edit(made, {"storageClass": ""})
        if refused is not None:
            return refused
        scratch.await_generation(made)
        seen = scratch.applied(made)
        refused = scratch.edit(made, {"storageClass": mine})
        if refused is not None:
            return refused
        scratch.await_generation(made)
        return Allowed(CLASSLESS, "pvc", f"{GOLDENS}/{golden.name}", mine, seen)

    def _without_it(
        self, scratch: ScratchPools, made: Made, golden: GoldenVolume
    ) -> Allowed | Unread:
        """The golden taken away, and the pool's release made to render anew."""
        name, kube = golden.name, self.catalogue.pool.lab.management
        own = set(map(uid_of, self._disks(made)))
        volumes = kube.list(DATA_VOLUMES, "DataVolume")
        others = facts.users_of(name, [one for one in volumes if uid_of(one) not in own])
        if others:
            why = f"golden {name} stays, since it is used by {', '.join(others)}"
            return self.catalogue.unread(CLONED_BEFORE, why)
        kube.delete(DATA_VOLUMES, "DataVolume", GOLDENS, name, uid=golden.uid)
        if not self._wait(lambda: self._golden(name) is None, f"golden {name} to go", GONE_BUDGET):
            return self.catalogue.unread(CLONED_BEFORE, f"golden {name} does not go")
        # a bound of its size is nothing that a worker is made from: nothing rolls
        refused = scratch.edit(made, {"maxReplicas": 2})
        if refused is not None:
            return refused
        scratch.await_generation(made)
        applied = scratch.applied(made)
        address = f"{GOLDENS}/{name}"
        return Allowed(CLONED_BEFORE, "pvc", address, golden.storage_class, applied)

    def _untried(self, why: str) -> Outlived:
        unread = self.catalogue.unread
        lost = unread(CLASSLESS, why)
        return Outlived(lost, lost, unread(CLONED_BEFORE, why))

    # -- what is there

    def _wait(self, look: Callable[[], bool], what: str, seconds: float = IMPORT_BUDGET) -> bool:
        return self.catalogue.wait(look, seconds, what)

    def _golden(self, name: str) -> GoldenVolume | None:
        found = self.catalogue.volumes.object(name) if name else None
        if found is None:
            return None
        lab = self.catalogue.pool.lab
        return facts.golden_volume(found, at=self.catalogue.now(), cluster=lab.management.name)

    def _is_failing(self, name: str) -> bool:
        golden = self._golden(name)
        return (
            golden is not None
            and golden.restarts >= RESTARTS
            and golden.running.startswith("False")
        )

    def _disks(self, made: Made) -> list[Obj]:
        """A scratch pool's own disks, as the chart marks them."""
        mine = deployment_name(self.catalogue.pool.lab.inventory.tenant.cluster, made.name)
        volumes = self.catalogue.pool.watched.feeds["data_volumes"].objects()
        return [one for one in volumes if text_at(one, "metadata", "annotations", POOL) == mine]

    def _has_cloned(self, made: Made) -> bool:
        return any(text_at(one, "status", "phase") == SUCCEEDED for one in self._disks(made))


def _with_a_worker(golden: GoldenVolume) -> Variant:
    """One worker, without a card, whose disk is cloned from a golden."""
    image = {
        "schematicID": golden.marks.get(SCHEMATIC, ""),
        "version": golden.marks.get(VERSION, ""),
    }
    merge = {
        "osImage": {"builtin": image},
        "storageClass": golden.storage_class,
        "minReplicas": 1,
        "maxReplicas": 1,
    }
    return Variant(merge, drop=("osImage", "gpus"))
