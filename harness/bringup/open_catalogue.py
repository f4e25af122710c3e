"""The golden catalogue while it is this run's: an entry put in, looked at, and taken out again.

Only what this project put in is ever changed or taken out: an entry or a golden of somebody else's
is not touched.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.package_images import NotRestored, PackageImages
from harness.bringup.scratch_pools import ScratchPools, Variant, await_warning, verdict_of
from harness.facts import catalogue as facts
from harness.facts.applied import Allowed
from harness.facts.catalogue import (
    CatalogueRelease,
    Dropped,
    Entry,
    GoldenImport,
    GoldenVolume,
    Imported,
)
from harness.facts.fact import Origin, Unread
from harness.facts.goldenname import GOLDENS, PREFIX
from harness.facts.objects import condition, listed, name_of, text_at, uid_of
from harness.facts.refusals import RefusalTrial, refusal_trial, refused_by_api, standing
from harness.facts.trials import as_json
from harness.observe.pool import DATA_VOLUMES, HELM, INFRASTRUCTURE
from harness.observe.trials import events_of
from harness.reach.errors import ApiRefused, LabError
from harness.reach.history import Obj
from harness.reach.lease import PoolLease
from harness.reach.watch import Feed

if TYPE_CHECKING:
    from harness.bringup.class_trials import ClassTrials
    from harness.bringup.golden_trials import GoldenTrials
    from harness.bringup.pool import HeldPool

NAMESPACE, RELEASE = "cozy-system", "kubernetes-worker-image"
"""Where the catalogue's HelmRelease is (objects 2.3)."""
RELEASE_BUDGET = 900.0
"""Seconds for an edited Package to reach the catalogue's release and be judged there: two releases
look again every 5 m, and one of them waits up to 10 m for goldens (objects 2; S-OSI)."""
IMPORT_BUDGET = 900.0
"""Seconds for a golden to be imported; upstream's own tests wait up to 12 m (clone_path 6)."""
GONE_BUDGET = 300.0
RESTARTS = 3
"""Restarts of an importer after which it is not waited for any longer (clone_path 3, R7)."""
LARGER = "7Gi"
"""The size that an entry is changed to when its golden is there."""


@dataclass(frozen=True, slots=True)
class OpenCatalogue:
    """The catalogue while it is this run's. ``well``: its release was Ready before any trial."""

    pool: HeldPool
    lease: PoolLease
    images: PackageImages
    releases: Feed
    volumes: Feed
    well: bool = True

    @property
    def goldens(self) -> GoldenTrials:
        """Trials that need goldens of this run's own."""
        from harness.bringup.golden_trials import GoldenTrials

        return GoldenTrials(self)

    @property
    def classes(self) -> ClassTrials:
        """Trials of classes that are left empty."""
        from harness.bringup.class_trials import ClassTrials

        return ClassTrials(self)

    # -- trials

    def bad_entries(self) -> list[RefusalTrial | Unread]:
        """Entries that the catalogue must refuse, one after the other, each out again at once."""
        listed_now = self._images(self.releases.object(RELEASE) or {})
        version, gone = self.pool.request.talos_version, "hil-no-such-golden"
        bad: list[tuple[str, Obj, tuple[str, ...]]] = [
            ("schematic", {"schematicID": "Vanilla_1", "version": version}, ("Vanilla_1",)),
            ("version", {"schematicID": gone, "version": "1.13.6"}, ("1.13.6",)),
            (
                "url",
                {"schematicID": gone, "version": version, "imageFactoryURL": "ftp://x.invalid"},
                ("ftp://x.invalid",),
            ),
        ]
        if listed_now:
            first = listed_now[0]
            bad.insert(0, ("duplicate", first, (facts.golden_name(first),)))
        tried: list[RefusalTrial | Unread] = [self._bad(*one) for one in bad]
        why = "the catalogue's release lists no image that could be there twice"
        return tried if listed_now else [self.unread("duplicate", why), *tried]

    def imported(self) -> Imported:
        """A new entry: its golden is watched from before the Package is edited."""
        entry, since = self._spare(), self.now()
        if isinstance(entry, Unread):
            return Imported(entry, entry, entry, entry, entry)
        name = facts.golden_name(entry)
        refused = self.add(entry, name)
        if refused is not None:
            return Imported(refused, refused, refused, refused, refused)

        def begun() -> bool:
            return self.volumes.object(name) is not None or self._is_refused(entry)

        self.wait(begun, RELEASE_BUDGET, f"golden {name} to be there")
        wanted = facts.resolved(entry, self.releases.object(RELEASE) or {})
        meanwhile = self._meanwhile(wanted)
        self.wait(lambda: self._is_over(name), IMPORT_BUDGET, f"golden {name} to be imported")
        self._await_release(lambda found: entry in found)
        return Imported(
            entry=wanted,
            release=self._release(),
            golden=self._golden(name),
            history=self._history(name, since),
            meanwhile=meanwhile,
        )

    def changed(self) -> RefusalTrial | Unread:
        """The entry that was put in, with another size than its golden's: refused, and undone."""
        note = self.images.note()
        golden = self.volumes.object(note.golden) if note and note.golden else None
        done = text_at(golden, "status", "phase") == "Succeeded"
        if note is None or note.entry is None or not done:
            return self.unread("changed", "no golden of this run's own came about")
        entry = {**note.entry, "storage": LARGER}
        before = self._standing()
        try:
            self.images.change(entry)
            return self._looked("changed", entry, (note.golden, LARGER), before)
        except ApiRefused as refused:
            return self._by_api("changed", entry, (note.golden, LARGER), refused)
        finally:
            self.images.change(note.entry)
            self.await_back(lambda found: note.entry in found)

    def dropped(self) -> Dropped:
        """The entry that was put in is taken out; its golden and the release before and after."""
        note = self.images.note()
        if note is None or note.entry is None or not note.golden:
            nothing = self.unread("a golden of this run's own", "none came about")
            return Dropped(nothing, nothing, nothing, nothing)
        before, release = self._golden(note.golden), self._release()
        self.images.take_out()
        self.await_back(lambda found: note.entry not in found)
        return Dropped(before, release, self._golden(note.golden), self._release())

    # -- undoing

    def is_ready(self) -> bool:
        """Whether the catalogue's release is Ready."""
        return text_at(condition(verdict_of(self.releases, RELEASE), "Ready"), "status") == "True"

    def undo(self) -> None:
        """Take out what is noted on the Package, see the release well without it, and remove the
        golden that came of it unless somebody uses it. Raises TakeDownIncomplete with what stays.
        """
        try:
            self.lease.renew(self.pool.lab.clock)  # another run's entry is not ours to take out
            left = [*self.classes.clear(), *self._undone()]
        except (LabError, NotRestored) as failed:
            left = [str(failed)]
        if left:
            raise TakeDownIncomplete(
                f"the platform's catalogue is not as it was: {'; '.join(left)}"
            )

    def _undone(self) -> list[str]:
        note = self.images.note()
        if note is None:
            return []
        self.images.take_out()
        entry, left = note.entry, []
        if not self.await_back(lambda found: entry is None or entry not in found):
            said = text_at(condition(self.releases.object(RELEASE) or {}, "Ready"), "message")
            left.append(f"release {NAMESPACE}/{RELEASE} is not Ready again ({said})")
        if note.golden:
            left += self.remove_golden(note.golden)
        if not left:
            self.images.forget()
        return left

    def remove_golden(self, name: str) -> list[str]:
        """Remove a golden that this project had made, once no disk and no pool names it."""
        kube = self.pool.lab.management
        found = self.volumes.object(name)
        if found is None:
            return []
        users = facts.users_of(name, kube.list(DATA_VOLUMES, "DataVolume"))
        pools = self._pools_of(name)
        listed_still = name in map(facts.golden_name, self._images(self.releases.object(RELEASE)))
        if users or pools or listed_still:
            by = ", ".join([*users, *pools, *(["the catalogue"] if listed_still else [])])
            return [f"golden {GOLDENS}/{name} stays, since it is used by {by}"]
        kube.delete(DATA_VOLUMES, "DataVolume", GOLDENS, name, uid=uid_of(found))

        def gone() -> bool:
            return self.volumes.object(name) is None

        self.wait(gone, GONE_BUDGET, f"golden {name} to be gone")
        return [] if gone() else [f"golden {GOLDENS}/{name} was deleted and is still there"]

    def _pools_of(self, golden: str) -> list[str]:
        """The machine templates that clone from a golden, in every tenant."""
        kube = self.pool.lab.management
        templates = kube.list(INFRASTRUCTURE, "KubevirtMachineTemplate")
        return [
            f"{text_at(one, 'metadata', 'namespace')}/{name_of(one)}"
            for one in templates
            if golden in facts.sources_of(one)
        ]

    # -- step by step

    def _bad(self, row: str, entry: Obj, wrong: tuple[str, ...]) -> RefusalTrial | Unread:
        """What became of an entry that must be refused; it is out again, and its golden too."""
        before, golden = self._standing(), facts.golden_name(entry)
        already = self._images(self.releases.object(RELEASE)).count(entry)
        own = "" if already or self.volumes.object(golden) is not None else golden
        refused = self.add(entry, own)
        if refused is not None:
            return self._by_api(row, entry, wrong, refused)
        try:
            return self._looked(row, entry, wrong, before, times=already + 1)
        finally:
            self.withdraw(entry, own, already)

    def withdraw(self, entry: Obj, golden: str, already: int = 0) -> None:
        """Take an entry out again, of which as many are to stay, and the golden that came of it."""
        self.images.take_out()
        self.await_back(lambda found: found.count(entry) == already)
        if not golden or not self.remove_golden(golden):
            self.images.forget()

    def _looked(
        self,
        row: str,
        entry: Obj,
        wrong: tuple[str, ...],
        before: Mapping[str, str],
        *,
        times: int = 1,
    ) -> RefusalTrial | Unread:
        self._await_release(lambda found: found.count(entry) >= times)
        release, lab = verdict_of(self.releases, RELEASE), self.pool.lab
        if self._images(release).count(entry) < times:
            return self.unread(row, f"the entry did not reach release {NAMESPACE}/{RELEASE}")
        kube = lab.management
        await_warning(self.pool, lab.observatory.feed(kube, "v1", "Event", NAMESPACE), release)
        return refusal_trial(
            release,
            row=row,
            name=RELEASE,
            asked=as_json(entry),
            wrong=wrong,
            written={},
            events=events_of(kube, NAMESPACE, RELEASE),
            before=before,
            after=self._standing(),
            at=self.now(),
            cluster=kube.name,
        )

    def _by_api(
        self, row: str, entry: Obj, wrong: Sequence[str], refused: Unread | ApiRefused
    ) -> RefusalTrial:
        said = refused.reason if isinstance(refused, Unread) else str(refused)
        now, cluster = self.now(), self.pool.lab.management.name
        asked = as_json(entry)
        return refused_by_api(
            said, row=row, name=RELEASE, asked=asked, wrong=wrong, at=now, cluster=cluster
        )

    def add(self, entry: Obj, golden: str) -> Unread | None:
        """Put an entry in; why the API would not have that, None where it did."""
        names = self._images(self.releases.object(RELEASE))
        try:
            self.images.add(entry, golden=golden, standing=names)
        except ApiRefused as refused:
            return self.unread("an entry for the catalogue", f"the API refused it: {refused}")
        return None

    def _spare(self) -> Obj | Unread:
        """An entry of the inventory's schematics that nobody has: neither listed nor a golden."""
        release = self.releases.object(RELEASE)
        if release is None:
            why = f"HelmRelease {NAMESPACE}/{RELEASE} is not there: the catalogue is not enabled"
            return self.unread("a new entry", why)
        taken = set(map(facts.golden_name, self._images(release)))
        taken |= {name_of(one) for one in self.volumes.objects()}
        version = self.pool.request.talos_version
        for one in self.pool.lab.inventory.schematics.values():
            entry = {"schematicID": one.id, "version": version}
            if facts.golden_name(entry) not in taken:
                return entry
        why = f"every schematic of the inventory has a golden of {version}, or an entry"
        return self.unread("a new entry", why)

    def _meanwhile(self, entry: Entry) -> Allowed | Unread:
        """A scratch pool that asks for a golden which is being imported."""
        what, scratch = "a golden in the middle of its import", ScratchPools(self.pool)
        image = {"schematicID": entry.schematic, "version": entry.version}
        merge = {"osImage": {"builtin": image}, "storageClass": entry.storage_class}
        if self.volumes.object(entry.golden) is None:
            return self.unread(what, "the golden did not come about")
        with scratch.standing([Variant(merge, drop=("osImage",))]) as (made,):
            scratch.await_rendered([made])
            phase = text_at(self.volumes.object(entry.golden), "status", "phase")
            seen = scratch.applied(made)
        if phase == "Succeeded":
            return self.unread(what, "the import was over before a pool could ask")
        return Allowed(what, "pvc", f"{GOLDENS}/{entry.golden}", entry.storage_class, seen)

    def _await_release(self, holds: Callable[[list[Any]], bool]) -> bool:
        """Wait until the release was judged with a list that ``holds``; whether it was."""

        def judged() -> bool:
            release = verdict_of(self.releases, RELEASE)
            return bool(release) and holds(self._images(release))

        return self.wait(judged, RELEASE_BUDGET, f"release {RELEASE} to be judged")

    def await_back(self, holds: Callable[[list[Any]], bool]) -> bool:
        """Wait until the release is well again with a list that ``holds``; whether it was.

        One that was not well before has to be told that list, and no more.
        """

        def back() -> bool:
            told = self._images(self.releases.object(RELEASE))
            return (self.is_ready() or not self.well) and holds(told)

        return self.wait(back, RELEASE_BUDGET, f"release {RELEASE} to be as it was")

    def _is_refused(self, entry: Obj) -> bool:
        release = verdict_of(self.releases, RELEASE)
        return (
            entry in self._images(release)
            and text_at(condition(release, "Ready"), "status") == "False"
        )

    def _is_over(self, name: str) -> bool:
        """Whether nothing more is to be waited for: Failed never comes (clone_path 4)."""
        found = self.volumes.object(name)
        if found is None:
            return False
        golden = facts.golden_volume(found, at=0.0, cluster="")
        failing = golden.restarts >= RESTARTS and golden.running.startswith("False")
        return golden.phase == "Succeeded" or failing

    def wait(self, look: Callable[[], bool], seconds: float, what: str) -> bool:
        """Wait on the lab's time. Raises LeaseLost where another run has the catalogue."""
        self.lease.renew_if_due(self.pool.lab.clock)
        return self.pool.wait(look, seconds, what)

    # -- what is there

    def _images(self, release: Obj | None) -> list[Any]:
        return listed(release, "spec", "values", "images")

    def _standing(self) -> dict[str, str]:
        """Every golden by name, with its UID and a digest of its spec."""
        found = self.pool.lab.management.list(DATA_VOLUMES, "DataVolume", GOLDENS)
        return standing(one for one in found if name_of(one).startswith(PREFIX))

    def _golden(self, name: str) -> GoldenVolume | Unread:
        kube = self.pool.lab.management
        found = kube.get(DATA_VOLUMES, "DataVolume", GOLDENS, name)
        if found is None:
            return self.unread(f"golden {GOLDENS}/{name}", "it is not there")
        return facts.golden_volume(found, at=self.now(), cluster=kube.name)

    def _release(self) -> CatalogueRelease | Unread:
        kube = self.pool.lab.management
        found = kube.get(HELM, "HelmRelease", NAMESPACE, RELEASE)
        if found is None:
            return self.unread(f"HelmRelease {NAMESPACE}/{RELEASE}", "it is not there")
        return facts.catalogue_release(found, at=self.now(), cluster=kube.name)

    def _history(self, name: str, since: float) -> GoldenImport:
        uid = uid_of(self.volumes.object(name))
        seen = self.volumes.history.revisions(name, GOLDENS)
        versions = [one for one in seen if one.uid == uid]
        gaps = self.volumes.history.gaps((GOLDENS, name))
        return facts.golden_import(
            name,
            [(one.arrived, one.obj) for one in versions],
            since=since,
            doubt=gaps[0].reason if gaps else "",
            at=self.now(),
            cluster=self.pool.lab.management.name,
        )

    def unread(self, what: str, why: str) -> Unread:
        """What could not be seen of the catalogue, and why."""
        source = f"{self.pool.lab.management.name} {NAMESPACE}/{RELEASE}"
        return Unread(Origin(self.now(), source, ""), what, why)

    def now(self) -> float:
        """The lab's time in epoch seconds."""
        return self.pool.lab.clock.now()
