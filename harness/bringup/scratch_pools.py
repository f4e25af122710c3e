"""Scratch pools: a pool's request under another name, changed at will, that never gets a machine.

With minReplicas and maxReplicas 0 the MachineDeployment has nothing to make, and the autoscaler
passes over a group that cannot grow; a card that is named consumes nothing.

Whoever holds a pool's Lease may delete its scratch pools, so that a run that was killed leaves
nothing that the next does not find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.ownership import OWNER_LABELS
from harness.facts.applied import AppliedPool
from harness.facts.fact import Origin, Unread
from harness.facts.objects import at_path, condition, mapped, name_of, text_at, uid_of
from harness.facts.poolstate import PoolState
from harness.facts.refusals import chart_text
from harness.inventory.manifest import API_VERSION, KIND, kubernetes_nodes
from harness.inventory.naming import deployment_name, nodes_name, release_name, trial_name
from harness.observe import pool as observe
from harness.observe.refusals import applied_pool
from harness.observe.trials import BOOTSTRAP
from harness.reach.errors import ApiRefused
from harness.reach.history import Obj
from harness.reach.kube import Kube
from harness.reach.watch import Feed

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

TRIAL_OF = "hil.dev/trial-of"
"""Label of a scratch pool: the pool it was made for."""
RENDER_BUDGET = 600.0
"""Seconds for the chart to be rendered and its Job to apply the machine configuration: the Job
itself waits up to 600 s for what it needs (objects 5)."""
GONE_BUDGET = 600.0
"""Seconds for the scratch pools to go."""
WARNING_BUDGET = 60.0
"""Seconds for the Event of a refusal to be there once its condition is."""
BEGINNING = 60
"""Characters by which an Event is known to tell what a condition tells; either may be cut."""
RELEASE_OF = "meta.helm.sh/release-name"
"""Annotation by which Helm knows the release that an object belongs to."""

_NOT_YET = ("ArtifactFailed", "DependencyNotReady", "SourceNotReady", "HealthCheckCanceled")
"""Reasons of a release that is not Ready and whose chart nobody has rendered (objects 3)."""


@dataclass(frozen=True, slots=True)
class Variant:
    """How a scratch pool's request differs from its pool's own.

    ``drop``: keys of spec that it does not have, whatever the pool's own say; ``merge``: then a
    JSON merge patch of spec (RFC 7386): a mapping is merged, None removes, all else replaces.
    ``name``: what it is called, where that matters; "" for a number.
    """

    merge: Mapping[str, Any] = field(default_factory=dict)
    drop: tuple[str, ...] = ()
    name: str = ""


@dataclass(frozen=True, slots=True)
class Made:
    """A scratch pool that was asked for, and why the API would not have it if so."""

    name: str
    refused: Unread | None = None


@dataclass(frozen=True, slots=True)
class ScratchPools:
    """The scratch pools of one held pool: made, changed, waited for and taken away."""

    pool: HeldPool

    def name(self, number: int) -> str:
        """The name of the scratch pool with this number."""
        return trial_name(self.pool.lab.inventory.tenant.cluster, self.pool.name, number)

    @contextmanager
    def standing(self, variants: Sequence[Variant]) -> Iterator[list[Made]]:
        """Scratch pools with these requests, gone at the end whatever happens in between.

        Raises TakeDownIncomplete where one does not go, and LeaseLost where another run has the
        pool: it has cleared them away, and what bears their names may be its own.
        """
        names = [one.name or self.name(number) for number, one in enumerate(variants, 1)]
        try:
            yield [self.make(one, name) for one, name in zip(variants, names, strict=True)]
        finally:
            try:
                self.pool.lease.renew(self.pool.lab.clock)
                self.remove(names)
            except KeyboardInterrupt as cut:
                cut.add_note(
                    f"trials of pool {self.pool.name} may be left ({', '.join(names)}): the next "
                    "run that holds the pool deletes them"
                )
                raise

    def make(self, variant: Variant, name: str) -> Made:
        """Ask for one; an API that will not have it is told, not raised."""
        wanted = scratch_object(self.pool, name, variant)
        try:
            self._await_anothers(name)
            self.pool.lab.management.create(wanted)
        except ApiRefused as refused:
            return Made(name, self._refusal(name, refused))
        return Made(name)

    def _await_anothers(self, name: str) -> None:
        """Wait until a trial of that name is gone which another pool has made meanwhile."""
        kube, place = self.pool.lab.management, self.pool.lab.inventory.tenant
        found = kube.get(API_VERSION, KIND, place.namespace, nodes_name(place.cluster, name))
        if _trial_of(found or {}) in ("", self.pool.name):
            return
        feed = self.pool.watched.feeds["helm_releases"]
        release = release_name(place.cluster, name)
        what = f"trial {name} of pool {_trial_of(found or {})} to be gone"
        self.pool.wait(lambda: feed.object(release) is None, RENDER_BUDGET + GONE_BUDGET, what)

    def edit(self, made: Made, merge: Mapping[str, Any]) -> Unread | None:
        """Merge into a scratch pool's spec; why the API would not have it, None where it did."""
        place = self.pool.lab.inventory.tenant
        name = nodes_name(place.cluster, made.name)
        try:
            self.pool.lab.management.merge(
                API_VERSION, KIND, place.namespace, name, {"spec": dict(merge)}
            )
        except ApiRefused as refused:
            return self._refusal(made.name, refused)
        return None

    # -- what became of one

    def decided(self, made: Made) -> str:
        """Ready as it is said of the release's present generation, "" before that."""
        return text_at(condition(self.verdict(made), "Ready"), "status")

    def verdict(self, made: Made) -> Obj:
        """The release as it was when its present generation last came to an end, {} before that."""
        name = release_name(self.pool.lab.inventory.tenant.cluster, made.name)
        return verdict_of(self.pool.watched.feeds["helm_releases"], name)

    def await_verdicts(self, made: Sequence[Made]) -> bool:
        """Wait until every release came to an end, one way or the other; whether all did."""
        asked = [one for one in made if not one.refused]
        what = f"{len(asked)} scratch pools to be rendered or refused"
        return self.pool.wait(lambda: all(map(self.decided, asked)), RENDER_BUDGET, what)

    def await_generation(self, made: Made) -> bool:
        """Wait until the release has a verdict on what its object says by now; whether it has."""
        place = self.pool.lab.inventory.tenant
        name = release_name(place.cluster, made.name)
        asked = self.pool.lab.management.get(observe.HELM, "HelmRelease", place.namespace, name)
        wanted = at_path(asked, "metadata", "generation")

        def judged() -> bool:
            found = self.verdict(made)
            return bool(found) and at_path(found, "metadata", "generation") == wanted

        return self.pool.wait(judged, RENDER_BUDGET, f"release {name} to be judged")

    def template(self, made: Made) -> Obj:
        """The machine config that the MachineDeployment refers to, {} while it is not there."""
        reference = mapped(
            self.deployment(made), "spec", "template", "spec", "bootstrap", "configRef"
        )
        return self._templates().object(text_at(reference, "name")) or {}

    def is_rendered(self, made: Made) -> bool:
        """Whether the release was refused, or its machine configuration is there."""
        ready = self.decided(made)
        return ready == "False" or (ready == "True" and bool(self.template(made)))

    def await_rendered(self, made: Sequence[Made]) -> bool:
        """Wait until each is rendered with its machine configuration, or refused."""
        asked = [one for one in made if not one.refused]
        what = f"{len(asked)} trials to be rendered"
        return self.pool.wait(lambda: all(map(self.is_rendered, asked)), RENDER_BUDGET, what)

    def deployment(self, made: Made) -> Obj:
        """Its MachineDeployment as last seen, {} where there is none."""
        name = deployment_name(self.pool.lab.inventory.tenant.cluster, made.name)
        return self.pool.watched.feeds["machine_deployments"].object(name) or {}

    def state(self, made: Made) -> PoolState | Unread:
        """What it consists of now."""
        lab, place = self.pool.lab, self.pool.lab.inventory.tenant
        if made.refused:
            return made.refused
        return observe.pool_state(
            lab.management, lab.tenant, place.namespace, place.cluster, made.name, now=self.now
        )

    # -- taking down

    def clear(self) -> None:
        """Delete every scratch pool of this pool, whoever left it. Raises TakeDownIncomplete."""
        place = self.pool.lab.inventory.tenant
        left = self.pool.lab.management.list(
            API_VERSION, KIND, place.namespace, labels=f"{TRIAL_OF}={self.pool.name}"
        )
        self.remove([name_of(one).removeprefix(f"{place.cluster}-") for one in left])

    def remove(self, names: Sequence[str]) -> None:
        """Delete scratch pools and see all of them go, with what no release counts as its own.

        What bears such a name and is none of this pool's stays. Raises TakeDownIncomplete.
        """
        lab, place = self.pool.lab, self.pool.lab.inventory.tenant
        found = lab.management.list(API_VERSION, KIND, place.namespace)
        strange = {name_of(one) for one in found if _trial_of(one) != self.pool.name}
        names = [name for name in names if nodes_name(place.cluster, name) not in strange]
        for name in names:
            self.own(Made(name))
            lab.management.delete(
                API_VERSION, KIND, place.namespace, nodes_name(place.cluster, name)
            )
        releases = {release_name(place.cluster, name) for name in names}
        feed = self.pool.watched.feeds["helm_releases"]

        def gone() -> bool:
            return not releases & {name_of(one) for one in feed.objects()}

        if names and not self.pool.wait(gone, GONE_BUDGET, f"{len(names)} trials to be gone"):
            left = ", ".join(sorted(releases & {name_of(one) for one in feed.objects()}))
            raise TakeDownIncomplete(f"trials of pool {self.pool.name} are still there: {left}")
        for name in names:
            self._remove_templates(deployment_name(place.cluster, name))

    def own(self, made: Made, release: str = "") -> None:
        """See that the MachineDeployment says it is this release's, by default its very own."""
        place = self.pool.lab.inventory.tenant
        wanted = release or release_name(place.cluster, made.name)
        found = self.deployment(made)
        if not found or mapped(found, "metadata", "annotations").get(RELEASE_OF) == wanted:
            return
        change = {"metadata": {"annotations": {RELEASE_OF: wanted}}}
        kube = self.pool.lab.management
        kube.merge(observe.CAPI, "MachineDeployment", place.namespace, name_of(found), change)

    def _remove_templates(self, base: str) -> None:
        """The Job's own templates: it applies them itself, and Helm does not know of them."""
        for template in self._templates().objects():
            if re.fullmatch(f"{re.escape(base)}(-[0-9a-f]{{6}})?", name_of(template)):
                self.pool.lab.management.delete(
                    BOOTSTRAP,
                    "TalosConfigTemplate",
                    self.pool.lab.inventory.tenant.namespace,
                    name_of(template),
                )

    # -- where

    def place(self, made: Made) -> tuple[Kube, str, str, str]:
        """Management cluster, namespace, tenant cluster and pool, as observers want them."""
        place = self.pool.lab.inventory.tenant
        return self.pool.lab.management, place.namespace, place.cluster, made.name

    def applied(self, made: Made) -> AppliedPool | Unread:
        """What its chart made of it, beside the release as it was at its last verdict; what the
        API refused stays refused.
        """
        if made.refused is not None:
            return made.refused
        release = self.verdict(made) or None
        return applied_pool(*self.place(made), release=release, now=self.now)

    def now(self) -> float:
        """The lab's time in epoch seconds."""
        return self.pool.lab.clock.now()

    def _templates(self) -> Feed:
        lab = self.pool.lab
        namespace = lab.inventory.tenant.namespace
        return lab.observatory.feed(lab.management, BOOTSTRAP, "TalosConfigTemplate", namespace)

    def _refusal(self, name: str, refused: ApiRefused) -> Unread:
        place = self.pool.lab.inventory.tenant
        what = f"{KIND} {place.namespace}/{nodes_name(place.cluster, name)}"
        origin = Origin(self.now(), f"{self.pool.lab.management.name} {what}", "")
        return Unread(origin, what, f"the API refused it: {refused}")


def _trial_of(pool: Obj) -> str:
    return text_at(mapped(pool, "metadata", "labels"), TRIAL_OF)


def scratch_object(pool: HeldPool, name: str, variant: Variant) -> Obj:
    """The pool's own object under another name, without machines, and with this variant's spec."""
    labels = {**OWNER_LABELS, TRIAL_OF: pool.name}
    wanted = kubernetes_nodes(pool.lab.inventory, pool.name, labels=labels)
    wanted["metadata"]["name"] = nodes_name(pool.lab.inventory.tenant.cluster, name)
    spec = wanted["spec"] | {"minReplicas": 0, "maxReplicas": 0}
    kept = {key: value for key, value in spec.items() if key not in variant.drop}
    wanted["spec"] = merged(kept, variant.merge)
    return wanted


def verdict_of(releases: Feed, name: str) -> Obj:
    """A HelmRelease as it was when its present generation last came to an end, {} before that.

    A refused release is tried again after a while, and has no verdict meanwhile: the one that it
    had counts.
    """
    current = releases.object(name) or {}
    if not current or _is_verdict(current):
        return current
    revisions = releases.history.revisions(name, text_at(current, "metadata", "namespace"))
    seen = [one.obj for one in revisions if one.uid == uid_of(current)]
    wanted = at_path(current, "metadata", "generation")
    own = [one for one in seen if at_path(one, "metadata", "generation") == wanted]
    return next((one for one in reversed(own) if _is_verdict(one)), {})


def await_warning(pool: HeldPool, events: Feed, release: Obj) -> bool:
    """Wait for the Warning Event of a release that was refused; whether one came.

    It is known by the release's UID and by how the condition's text begins. None in time is for a
    judge to say.
    """
    said = condition(release, "Ready")
    if text_at(said, "status") != "False":
        return False
    begins = chart_text(text_at(said, "message")).text[:BEGINNING]

    def warned() -> bool:
        return any(
            text_at(one, "involvedObject", "uid") == uid_of(release)
            and text_at(one, "type") == "Warning"
            and chart_text(text_at(one, "message")).text.startswith(begins)
            for one in events.objects()
        )

    return pool.wait(warned, WARNING_BUDGET, f"a Warning Event of {name_of(release)}")


def merged(target: Any, patch: Any) -> Any:
    """A value after a JSON merge patch (RFC 7386)."""
    if not isinstance(patch, Mapping):
        return patch
    result = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merged(result.get(key), value)
    return result


def _is_verdict(release: Obj) -> bool:
    """Whether a release's present generation came to an end in this version of it.

    While a release fails, Flux may keep the generation that it was through with last, and names the
    one that it tried (FLX internal/controller/helmrelease_controller.go).
    """
    said, status = condition(release, "Ready"), mapped(release, "status")
    current = at_path(release, "metadata", "generation")
    mine = said.get("observedGeneration") == current
    observed = current in (status.get("observedGeneration"), status.get("lastAttemptedGeneration"))
    over = text_at(said, "status") in ("True", "False") and text_at(said, "reason") not in _NOT_YET
    return mine and observed and over
