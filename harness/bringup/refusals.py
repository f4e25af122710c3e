"""Requests that a pool's chart must refuse, or must not, driven on scratch pools without machines.

Rows are those of clone_path 3. Every trial is taken away when it has been looked at, whatever comes
in between; no value does harm should a chart let it through, since nothing is ever made of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.bringup.breaches import (
    ANOTHER,
    Breach,
    Golden,
    allowed_requests,
    golden_breaches,
    os_image_breaches,
)
from harness.bringup.rolls import SETTLE
from harness.bringup.scratch_pools import Made, ScratchPools, Variant, await_warning
from harness.facts.access import AccessAnswer, CloneBinding, clone_questions
from harness.facts.applied import Allowed, AppliedPool
from harness.facts.defaultclass import default_class
from harness.facts.fact import Origin, Unread
from harness.facts.goldenname import GOLDENS, name_of_golden
from harness.facts.objects import mapped, name_of, text_at
from harness.facts.refusals import RefusalTrial, refused_by_api
from harness.facts.surroundings import Surroundings
from harness.facts.trials import as_json
from harness.inventory.naming import deployment_name, release_name
from harness.observe import access
from harness.observe import refusals as observe
from harness.observe.pool import DATA_VOLUMES
from harness.reach.errors import ApiRefused

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

CLONE_BINDING = "cdi-clone-dv"
"""The RoleBinding that lets tenants clone from goldens (objects 7)."""
_ELSEWHERE = ("default", "kube-system")
"""Namespaces of every cluster from which no tenant may clone."""
GROWN = "30Gi"
"""The size of disk that an unrelated edit asks for."""

Trial = RefusalTrial | Unread


@dataclass(frozen=True, slots=True)
class Hazard:
    """An edit while a release fails (clone_path 10): step by step, on one scratch pool.

    A valid request, then a Talos version without its patch, then an unrelated edit, then the
    version mended, to another than at first: both templates have to follow. ``refused`` and
    ``edited`` carry the pool's objects, ``shown`` what its object says and what is in use after the
    edit; ``old`` and ``new`` are the edited field's values.
    """

    valid: AppliedPool | Unread
    refused: Trial
    edited: Trial
    shown: AppliedPool | Unread
    mended: AppliedPool | Unread
    old: str
    new: str


@dataclass(frozen=True, slots=True)
class Adoption:
    """A scratch pool that adopts osImage.builtin, and every pool beside it before and after.

    ``held`` is the name of the held pool's MachineDeployment.
    """

    before: AppliedPool | Unread
    after: AppliedPool | Unread
    around_before: Surroundings
    around_after: Surroundings
    held: str


@dataclass(frozen=True, slots=True)
class Refusals:
    """The trials of one pool."""

    pool: HeldPool

    def os_image(self) -> list[Trial]:
        """R1 to R4 and R10 to R12: what needs no golden."""
        return [*self.driven(os_image_breaches(self.pool, self._parent())), self._foreign()]

    def golden(self) -> list[Trial]:
        """R5, R8 and R9 against the pool's golden as it is; R6 and R7 are told as not tried."""
        found, default = self.golden_of_pool(), self.default_class()
        return self.driven(golden_breaches(self.pool, found, default, self.classes()))

    def allowed(self) -> tuple[list[Allowed], list[Unread]]:
        """Requests that must be rendered, and those that cannot be tried here, each with why."""
        wanted = allowed_requests(self.pool, self.golden_of_pool(), self.default_class())
        tried = [one for one in wanted if isinstance(one, tuple)]
        untried = [one for one in wanted if isinstance(one, Unread)]
        with self._scratch.standing([variant for variant, _ in tried]) as made:
            self._scratch.await_rendered(made)
            pairs = zip(made, tried, strict=True)
            return [self._allowed(one, expected) for one, (_, expected) in pairs], untried

    def applied(self) -> AppliedPool | Unread:
        """The held pool's own object beside what is rendered for it."""
        return self._scratch.applied(Made(self.pool.name))

    def hazard(self) -> Hazard:
        """An unrelated edit while a release fails, from a valid pool to a mended one."""
        old, good = str(self.pool.request.disk_size), self.pool.request.talos_version
        minor, _, patch = good.rpartition(".")
        mended = f"{minor}.{1 if patch == '0' else 0}"
        new = GROWN if old != GROWN else "31Gi"
        with self._scratch.standing([Variant(drop=("osImage",))]) as (made,):
            self._scratch.await_rendered([made])
            valid = self._scratch.applied(made)
            before = self._objects(made)
            breach = Breach("R3", Variant({"talos": {"version": minor}}), (minor,))
            refused = self._edited(made, breach, before)
            later = Breach("R3", Variant({"diskSize": new}), (minor,))
            edited = self._edited(made, later, before)
            shown = self._scratch.applied(made)
            self._edited(made, Breach("", Variant({"talos": {"version": mended}}), ()), before)
            self._scratch.await_rendered([made])
            return Hazard(valid, refused, edited, shown, self._scratch.applied(made), old, new)

    def adoption(self) -> Adoption:
        """A scratch pool that adopts osImage.builtin, and what became of the pools around it."""
        lab, place = self.pool.lab, self.pool.lab.inventory.tenant
        held = deployment_name(place.cluster, self.pool.name)
        image = {"schematicID": self._schematic, "version": self.pool.request.talos_version}
        with self._scratch.standing([Variant(drop=("osImage",))]) as (made,):
            self._scratch.await_rendered([made])
            scratch = deployment_name(place.cluster, made.name)

            def around() -> Surroundings:
                return observe.surroundings(
                    lab.management,
                    lab.tenant,
                    place.namespace,
                    leaving_out=scratch,
                    now=self._now,
                )

            before, seen = self._scratch.applied(made), around()
            change = {"osImage": {"builtin": image}}
            self._edited(made, Breach("", Variant(change), ()), {})
            self._scratch.await_rendered([made])
            self.pool.pause(SETTLE, f"pools beside {made.name} to settle after it")
            return Adoption(before, self._scratch.applied(made), seen, around(), held)

    def clone_access(self) -> tuple[list[AccessAnswer | Unread], CloneBinding | Unread]:
        """What the tenant's service account may do where the goldens are, and by which binding."""
        kube, home = self.pool.lab.management, self.pool.lab.inventory.tenant.namespace
        others = [one for one in _ELSEWHERE if one != home]
        answers = [
            access.access_answer(kube, home, one, now=self._now) for one in clone_questions(others)
        ]
        binding = access.clone_binding(kube, GOLDENS, CLONE_BINDING, now=self._now)
        return answers, binding

    # -- what is there

    def golden_of_pool(self) -> Golden | Unread:
        """The golden that the pool's schematic and version name."""
        return self.golden_named(self._schematic, self.pool.request.talos_version)

    def golden_named(self, schematic: str, version: str) -> Golden | Unread:
        """A golden by schematic and version; its class is its claim's where it names none."""
        kube, name = self.pool.lab.management, name_of_golden(schematic, version)
        found = kube.get(DATA_VOLUMES, "DataVolume", GOLDENS, name)
        claim = kube.get("v1", "PersistentVolumeClaim", GOLDENS, name)
        if found is None:
            what = f"golden {GOLDENS}/{name}"
            why = "its claim is there without it" if claim else "it is not there"
            return Unread(Origin(self._now(), f"{kube.name} {what}", ""), what, why)
        storage = mapped(found, "spec", "storage")
        return Golden(
            name=name,
            storage_class=text_at(storage, "storageClassName")
            or text_at(claim or {}, "spec", "storageClassName"),
            size=str(mapped(storage, "resources", "requests").get("storage", "")),
            phase=text_at(found, "status", "phase"),
        )

    def default_class(self) -> str:
        """What an empty StorageClass stands for on the management cluster, "" if nobody knows."""
        return default_class(self.pool.lab.management.list(*observe.STORAGE_CLASS))

    def classes(self) -> list[str]:
        """The management cluster's StorageClasses, by name."""
        return sorted(map(name_of, self.pool.lab.management.list(*observe.STORAGE_CLASS)))

    def _parent(self) -> str:
        place = self.pool.lab.inventory.tenant
        return observe.parent_version(self.pool.lab.management, place.namespace, place.cluster)

    # -- one after the other

    def driven(self, breaches: Sequence[Breach | Unread]) -> list[Trial]:
        """Each breach on a scratch pool of its own, all at a time; in the order given."""
        asked = [one for one in breaches if isinstance(one, Breach)]
        with self._scratch.standing([one.variant for one in asked]) as made:
            self._scratch.await_verdicts(made)
            pairs = zip(made, asked, strict=True)
            seen: Iterator[Trial] = iter([self._looked(m, breach, {}) for m, breach in pairs])
            return [next(seen) if isinstance(one, Breach) else one for one in breaches]

    def _foreign(self) -> Trial:
        """R12: a scratch pool that stands, and whose MachineDeployment says it is another's."""
        place = self.pool.lab.inventory.tenant
        with self._scratch.standing([Variant(drop=("osImage",))]) as (made,):
            self._scratch.await_rendered([made])
            deployment = deployment_name(place.cluster, made.name)
            breach = Breach("R12", Variant({"diskSize": GROWN}), (ANOTHER, deployment))
            if made.refused or self._scratch.decided(made) != "True":
                return self._untried("R12", "the pool that was to be another's was not made")
            try:
                self._scratch.own(made, ANOTHER)
                return self._edited(made, breach, self._objects(made))
            except ApiRefused as refused:
                return self._untried("R12", f"no MachineDeployment could be marked: {refused}")
            finally:
                self._scratch.own(made)

    def _edited(self, made: Made, breach: Breach, before: Mapping[str, str]) -> Trial:
        """What became of an edit on a pool that stands."""
        refused = made.refused or self._scratch.edit(made, breach.variant.merge)
        if refused is not None:
            return self._by_api(made, breach, refused)
        self._scratch.await_generation(made)
        return self._looked(made, breach, before)

    def _looked(self, made: Made, breach: Breach, before: Mapping[str, str]) -> Trial:
        if made.refused is not None:
            return self._by_api(made, breach, made.refused)
        release = self._scratch.verdict(made)
        await_warning(self.pool, self.pool.watched.feeds["events"], release)
        return observe.refusal_trial(
            *self._scratch.place(made),
            row=breach.row,
            written=breach.variant.merge,
            wrong=breach.wrong,
            release=release,
            before=before,
            now=self._now,
        )

    def _by_api(self, made: Made, breach: Breach, refused: Unread) -> RefusalTrial:
        return refused_by_api(
            refused.reason,
            row=breach.row,
            name=made.name,
            asked=as_json(breach.variant.merge),
            wrong=breach.wrong,
            at=self._now(),
            cluster=self.pool.lab.management.name,
        )

    def _allowed(self, made: Made, expected: Allowed) -> Allowed:
        seen = self._scratch.applied(made)
        return Allowed(expected.what, expected.form, expected.address, expected.storage_class, seen)

    def _objects(self, made: Made) -> dict[str, str]:
        return observe.pool_objects(*self._scratch.place(made))

    def _untried(self, row: str, why: str) -> Unread:
        place = self.pool.lab.inventory.tenant
        source = f"{self.pool.lab.management.name} {release_name(place.cluster, self.pool.name)}"
        return Unread(Origin(self._now(), source, ""), row, why)

    @property
    def _scratch(self) -> ScratchPools:
        return ScratchPools(self.pool)

    @property
    def _schematic(self) -> str:
        return self.pool.lab.inventory.schematic_of(self.pool.name).id

    def _now(self) -> float:
        return self.pool.lab.clock.now()
