"""Scratch pools on which a request for kernel modules is only rendered: no machine is ever made.

With minReplicas and maxReplicas 0 the MachineDeployment has nothing to make, and the autoscaler
passes over a group that cannot grow; a card that is named consumes nothing. The hostile values do
no harm should a chart let one through: a shell that expands them runs `true`.

Whoever holds a pool's Lease may delete its scratch pools, so that a run that was killed leaves
nothing that the next does not find.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harness.bringup.errors import TakeDownIncomplete
from harness.bringup.ownership import OWNER_LABELS
from harness.facts.fact import Origin, Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.objects import condition, mapped, name_of, text_at
from harness.facts.pool import RequestedModules
from harness.facts.poolstate import PoolState
from harness.facts.trials import RenderTrial, as_json
from harness.inventory.manifest import API_VERSION, KIND, kubernetes_nodes
from harness.inventory.naming import deployment_name, nodes_name, release_name, trial_name
from harness.observe import pool as observe
from harness.observe import trials
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
ROLLOUT_BUDGET = 300.0
"""Seconds after which a changed list that has not arrived is taken not to arrive."""
GONE_BUDGET = 600.0
"""Seconds for the scratch pools to go."""
OTHER_VENDOR = "amd.com/MI300X"
"""The resource of a card that is not NVIDIA's; none is needed to render it."""

Absent = Literal["absent"]
ABSENT: Absent = "absent"
"""kernelModules is left out: the chart chooses. Never the same as an empty list (S-KM)."""


@dataclass(frozen=True, slots=True)
class Request:
    """What a trial writes under kernelModules, and for which device: the pool's own, or another."""

    modules: list[dict[str, Any]] | Absent
    device: str = ""


def _hostile_name(name: str) -> Request:
    return Request([{"name": name}])


def _hostile_parameter(parameter: str) -> Request:
    return Request([{"name": "nvidia", "parameters": [parameter]}])


HOSTILE: tuple[Request, ...] = (
    _hostile_name("nvidia$(true)"),
    _hostile_name("nvidia uvm"),
    _hostile_name("Nvidia"),
    _hostile_parameter("NVreg_NvLinkDisable=$(true)"),
    _hostile_parameter("NVreg_NvLinkDisable=`true`"),
    _hostile_parameter("NVreg_NvLinkDisable=1\\n"),
    _hostile_parameter("NVreg_NvLinkDisable='1'"),
    _hostile_parameter('NVreg_NvLinkDisable="1"'),
    _hostile_parameter("NVreg_NvLinkDisable=1 modeset=1"),
    _hostile_parameter("NVreg_NvLinkDisable=1\u2028modeset=1"),
    _hostile_parameter("NVreg_NvLinkDisable=1\u2029modeset=1"),
)
"""Each must be refused at render, with the field's own words (gpu_path 1.1; S-KM)."""
VALID: tuple[Request, ...] = (
    Request(
        [
            {"name": "nvidia", "parameters": ["NVreg_RegistryDwords=RMNvLinkEnable=0;RMBar=1"]},
            {"name": "nvidia_uvm", "comment": "a key that the field does not have"},
        ]
    ),
    Request([{"name": "zram", "parameters": ["num_devices=2"]}]),
    Request([]),
    Request(ABSENT),
    Request(ABSENT, OTHER_VENDOR),
)
"""Parameters with a semicolon beside an unknown key; a list that drops the chart's own; the way
out; nothing at all; nothing at all for another vendor's card."""
_FIRST = {"name": "nvidia", "parameters": ["NVreg_NvLinkDisable=1"]}
_BEFORE, _AFTER = Request([_FIRST]), Request([_FIRST, {"name": "nvidia_uvm"}])


@dataclass(frozen=True, slots=True)
class Rollout:
    """A changed list on a scratch pool: before, after, and what the template in use declares."""

    before: PoolState | Unread
    after: PoolState | Unread
    rendered: RenderedModules | Unread
    wanted: RequestedModules


@dataclass(slots=True)
class Trials:
    """The trials of one pool, each made once; what they came to is kept."""

    pool: HeldPool
    _seen: dict[str, list[RenderTrial | Unread]] = field(default_factory=dict)

    def hostile(self) -> list[RenderTrial | Unread]:
        """What became of each hostile value."""
        return self._rendered("hostile", HOSTILE)

    def valid(self) -> list[RenderTrial | Unread]:
        """What became of each request that the field must carry word for word."""
        return self._rendered("valid", VALID)

    def rollout(self) -> Rollout:
        """A list, then another: what the MachineDeployment refers to afterwards."""
        with self._standing([_BEFORE]) as (made,):
            self._await_rendered([made])
            before = self._state(made)
            if not made.refused:
                self._change(made, _AFTER)
                self._await_change(made, before)
            rendered = observe.rendered_modules(*self._place(made), now=self._now)
            return Rollout(before, self._state(made), rendered, _requested(_AFTER))

    def clear(self) -> None:
        """Delete every scratch pool of this pool, whoever left it. Raises TakeDownIncomplete."""
        place = self.pool.lab.inventory.tenant
        left = self.pool.lab.management.list(
            API_VERSION, KIND, place.namespace, labels=f"{TRIAL_OF}={self.pool.name}"
        )
        self._remove([name_of(one).removeprefix(f"{place.cluster}-") for one in left])

    # -- one after the other

    def _rendered(self, kind: str, requests: Sequence[Request]) -> list[RenderTrial | Unread]:
        if kind not in self._seen:
            with self._standing(requests) as made:
                self._await_rendered(made)
                self._seen[kind] = [self._look(one) for one in made]
        return self._seen[kind]

    @contextmanager
    def _standing(self, requests: Sequence[Request]) -> Iterator[list[_Made]]:
        """Scratch pools with these requests, gone at the end whatever happens in between."""
        names = [self._name(number) for number in range(1, len(requests) + 1)]
        try:
            yield [self._make(one, name) for one, name in zip(requests, names, strict=True)]
        finally:
            self._remove(names)

    def _name(self, number: int) -> str:
        return trial_name(self.pool.lab.inventory.tenant.cluster, self.pool.name, number)

    def _make(self, request: Request, name: str) -> _Made:
        wanted = scratch_pool(self.pool, name, request)
        try:
            self.pool.lab.management.create(wanted)
        except ApiRefused as refused:
            what = f"{KIND} {wanted['metadata']['namespace']}/{wanted['metadata']['name']}"
            origin = Origin(self._now(), f"{self.pool.lab.management.name} {what}", "")
            return _Made(name, request, Unread(origin, what, f"the API refused it: {refused}"))
        return _Made(name, request)

    def _await_rendered(self, made: Sequence[_Made]) -> None:
        asked = [one for one in made if not one.refused]

        def rendered() -> bool:
            return all(map(self._is_rendered, asked))

        self.pool.wait(rendered, RENDER_BUDGET, f"{len(asked)} trials to be rendered")

    def _is_rendered(self, made: _Made) -> bool:
        """Whether the release was refused, or its machine configuration is there."""
        ready = self._decided(made)
        return ready == "False" or (ready == "True" and bool(self._template(made)))

    def _decided(self, made: _Made) -> str:
        """Ready as it is said of the release's present generation, "" before that."""
        name = release_name(self.pool.lab.inventory.tenant.cluster, made.name)
        release = self.pool.watched.feeds["helm_releases"].object(name) or {}
        said = condition(release, "Ready")
        current = release.get("metadata", {}).get("generation")
        mine = said.get("observedGeneration") == current
        observed = mapped(release, "status").get("observedGeneration") == current
        status = text_at(said, "status")
        return status if mine and observed and status in ("True", "False") else ""

    def _template(self, made: _Made) -> Obj:
        """The machine config that the MachineDeployment refers to, {} while it is not there."""
        place = self.pool.lab.inventory.tenant
        deployments = self.pool.watched.feeds["machine_deployments"]
        deployment = deployments.object(deployment_name(place.cluster, made.name)) or {}
        reference = mapped(deployment, "spec", "template", "spec", "bootstrap", "configRef")
        return self._templates().object(text_at(reference, "name")) or {}

    def _change(self, made: _Made, request: Request) -> None:
        place = self.pool.lab.inventory.tenant
        name = nodes_name(place.cluster, made.name)
        change = {"spec": {"kernelModules": request.modules}}
        self.pool.lab.management.merge(API_VERSION, KIND, place.namespace, name, change)

    def _await_change(self, made: _Made, before: PoolState | Unread) -> None:
        """Wait for the release's verdict, and for another template than before to be in use."""
        known = before.bootstrap if isinstance(before, PoolState) else None

        def arrived() -> bool:
            template = self._template(made)
            same = known is not None and name_of(template) == known.name
            return self._decided(made) == "False" or (bool(template) and not same)

        self.pool.wait(arrived, ROLLOUT_BUDGET, f"the changed list of {made.name} to arrive")

    def _look(self, made: _Made) -> RenderTrial | Unread:
        if made.refused:
            return made.refused
        written = "" if made.request.modules == ABSENT else as_json(made.request.modules)
        return trials.render_trial(*self._place(made), written, now=self._now)

    def _state(self, made: _Made) -> PoolState | Unread:
        lab, place = self.pool.lab, self.pool.lab.inventory.tenant
        if made.refused:
            return made.refused
        return observe.pool_state(
            lab.management, lab.tenant, place.namespace, place.cluster, made.name, now=self._now
        )

    # -- taking down

    def _remove(self, names: Sequence[str]) -> None:
        """Delete scratch pools and see all of them go, with what no release counts as its own."""
        lab, place = self.pool.lab, self.pool.lab.inventory.tenant
        for name in names:
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

    def _templates(self) -> Feed:
        lab = self.pool.lab
        namespace = lab.inventory.tenant.namespace
        return lab.observatory.feed(lab.management, BOOTSTRAP, "TalosConfigTemplate", namespace)

    def _place(self, made: _Made) -> tuple[Kube, str, str, str]:
        place = self.pool.lab.inventory.tenant
        return self.pool.lab.management, place.namespace, place.cluster, made.name

    def _now(self) -> float:
        return self.pool.lab.clock.now()


@dataclass(frozen=True, slots=True)
class _Made:
    """A scratch pool that was asked for, and why the API would not have it if so."""

    name: str
    request: Request
    refused: Unread | None = None


def scratch_pool(pool: HeldPool, name: str, request: Request) -> Obj:
    """The pool's own object under another name, without machines, and with this request.

    kernelModules is there only where the request writes it: absent and ``[]`` are two requests.
    """
    labels = {**OWNER_LABELS, TRIAL_OF: pool.name}
    wanted = kubernetes_nodes(pool.lab.inventory, pool.name, labels=labels)
    wanted["metadata"]["name"] = nodes_name(pool.lab.inventory.tenant.cluster, name)
    spec = wanted["spec"]
    spec |= {"minReplicas": 0, "maxReplicas": 0}
    spec.pop("kernelModules", None)
    if request.modules != ABSENT:
        spec["kernelModules"] = request.modules
    if request.device:
        spec["gpus"] = [{"name": request.device}]
    return wanted


def _requested(request: Request) -> RequestedModules:
    if request.modules == ABSENT:
        return RequestedModules(None)
    return RequestedModules(
        tuple(
            DeclaredModule(one["name"], tuple(one.get("parameters", ())))
            for one in request.modules
            if isinstance(one, dict)
        )
    )
