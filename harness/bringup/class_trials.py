"""What a class that is left empty stands for, tried on goldens that this run makes of its own.

The rows are "Empty-class resolution" of clone_path 3. A golden without a class has that of its
claim, which CDI chose when it was imported; so a claim is made first, with its class, and the
golden takes it over (CDI, claim adoption). Nothing is imported, and the cluster's default stays.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.bringup.breaches import Breach
from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.ownership import MANAGED, selector
from harness.bringup.scratch_pools import ScratchPools, Variant
from harness.facts.applied import Allowed
from harness.facts.catalogue import Resolved, users_of
from harness.facts.fact import Unread
from harness.facts.goldenname import GOLDENS, name_of_golden
from harness.facts.goldens import SCHEMATIC, VERSION
from harness.facts.objects import name_of, uid_of
from harness.observe.pool import DATA_VOLUMES
from harness.reach.errors import ApiRefused
from harness.reach.history import Obj

if TYPE_CHECKING:
    from harness.bringup.open_catalogue import OpenCatalogue

TRIAL_GOLDEN = "hil.dev/trial-golden"
"""Label of a golden, and of its claim, that is only looked at. Whoever has the catalogue's Lease
may delete it."""
_LABELS = {**MANAGED, TRIAL_GOLDEN: "held-by-lease"}
_OTHER, _DEFAULT = "hil-class-of-its-claim", "hil-class-of-default"
"""Schematics that no factory has, for goldens that nobody boots."""
SIZE = "1Gi"
"""A size that no pool's disk is smaller than."""
NAMED = "a golden without a class, of whose claim's the pool is"
BOTH = "no class on either side, where the default is that of the golden's claim"
OTHERWISE = "R8"
"""No class on either side, where the default is not that of the golden's claim."""
GONE_BUDGET = 300.0
_KINDS = (DATA_VOLUMES, "DataVolume"), ("v1", "PersistentVolumeClaim")


@dataclass(frozen=True, slots=True)
class ClassTrials:
    """Trials of empty classes, in a catalogue that is open."""

    catalogue: OpenCatalogue

    def resolved(self) -> Resolved:
        """Pools with and without a class, of goldens without one. Raises TakeDownIncomplete."""
        default, other = self.catalogue.pool.refusals.default_class(), self._other()
        if not default:
            return self._untried("it is not known which class the cluster's default is")
        if not other:
            return self._untried(f"there is no class beside the default, {default}")
        try:
            with self._goldens({_OTHER: other, _DEFAULT: default}):
                return self._asked(default, other)
        except ApiRefused as refused:
            return self._untried(f"no golden without a class could be made: {refused}")

    def clear(self) -> list[str]:
        """Delete every golden of these trials, whoever left it; what stays, and why."""
        kube = self.catalogue.pool.lab.management
        names = sorted(map(name_of, self._left(*_KINDS[0])))
        disks = kube.list(DATA_VOLUMES, "DataVolume") if names else []
        used = [f"{name} by {user}" for name in names for user in users_of(name, disks)]
        if used:
            return [f"goldens of trials are in use: {', '.join(used)}"]
        for api, kind in _KINDS:
            for one in self._left(api, kind):
                kube.delete(api, kind, GOLDENS, name_of(one), uid=uid_of(one))
        if self._is_clear() or self.catalogue.wait(
            self._is_clear, GONE_BUDGET, "goldens of trials to go"
        ):
            return []
        return [f"goldens of trials were deleted and are still there, in {GOLDENS}"]

    # -- step by step

    def _other(self) -> str:
        """A class that is not the default: the pool's golden's, if that is one, else any."""
        refusals = self.catalogue.pool.refusals
        default, golden = refusals.default_class(), refusals.golden_of_pool()
        mine = "" if isinstance(golden, Unread) else golden.storage_class
        others = [one for one in [mine, *refusals.classes()] if one and one != default]
        return others[0] if others else ""

    def _asked(self, default: str, other: str) -> Resolved:
        """Three pools of the two goldens; what was rendered of two, how the third was refused."""
        version = self.catalogue.pool.request.talos_version
        kept, same = name_of_golden(_OTHER, version), name_of_golden(_DEFAULT, version)
        scratch = ScratchPools(self.catalogue.pool)
        variants = [self._variant(_OTHER, other), self._variant(_DEFAULT, "")]
        with scratch.standing(variants) as made:
            scratch.await_rendered(made)
            seen = [scratch.applied(one) for one in made]
        named = Allowed(NAMED, "pvc", f"{GOLDENS}/{kept}", other, seen[0])
        both = Allowed(BOTH, "pvc", f"{GOLDENS}/{same}", default, seen[1])
        breach = Breach(OTHERWISE, self._variant(_OTHER, ""), (default, other))
        (refused,) = self.catalogue.pool.refusals.driven([breach])
        return Resolved((named, both), refused)

    def _variant(self, schematic: str, storage_class: str) -> Variant:
        image = {"schematicID": schematic, "version": self.catalogue.pool.request.talos_version}
        merge = {"osImage": {"builtin": image}, "storageClass": storage_class}
        return Variant(merge, drop=("osImage",))

    @contextmanager
    def _goldens(self, classes: dict[str, str]) -> Iterator[None]:
        """Goldens without a class of these schematics, each with a claim that has this one."""
        kube = self.catalogue.pool.lab.management
        version = self.catalogue.pool.request.talos_version
        try:
            for schematic, storage_class in classes.items():
                kube.create(_claim(schematic, version, storage_class))
                kube.create(_golden(schematic, version))
            yield
        finally:
            left = self.clear()
            if left:
                raise TakeDownIncomplete("; ".join(left))

    # -- what is there

    def _left(self, api: str, kind: str) -> list[Obj]:
        kube = self.catalogue.pool.lab.management
        return kube.list(api, kind, GOLDENS, labels=selector(_LABELS))

    def _is_clear(self) -> bool:
        return not any(self._left(api, kind) for api, kind in _KINDS)

    def _untried(self, why: str) -> Resolved:
        unread = self.catalogue.unread
        return Resolved((unread(NAMED, why), unread(BOTH, why)), unread(OTHERWISE, why))


def _claim(schematic: str, version: str, storage_class: str) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": _metadata(schematic, version, {}),
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "volumeMode": "Block",
            "resources": {"requests": {"storage": SIZE}},
            "storageClassName": storage_class,
        },
    }


def _golden(schematic: str, version: str) -> Obj:
    notes = {
        "cdi.kubevirt.io/allowClaimAdoption": "true",
        SCHEMATIC: schematic,
        VERSION: version,
    }
    return {
        "apiVersion": DATA_VOLUMES,
        "kind": "DataVolume",
        "metadata": _metadata(schematic, version, notes),
        "spec": {
            "contentType": "kubevirt",
            "source": {"blank": {}},
            "storage": {"resources": {"requests": {"storage": SIZE}}},
        },
    }


def _metadata(schematic: str, version: str, notes: dict[str, str]) -> Obj:
    return {
        "name": name_of_golden(schematic, version),
        "namespace": GOLDENS,
        "labels": dict(_LABELS),
        **({"annotations": notes} if notes else {}),
    }
