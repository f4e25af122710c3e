"""Scratch pools on which a request for kernel modules is only rendered: no machine is ever made.

The hostile values do no harm should a chart let one through: a shell that expands them runs `true`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harness.bringup.scratch_pools import TRIAL_OF, Made, ScratchPools, Variant, scratch_object
from harness.facts.fact import Unread
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.objects import name_of
from harness.facts.pool import RequestedModules
from harness.facts.poolstate import PoolState
from harness.facts.trials import RenderTrial, as_json
from harness.observe import pool as observe
from harness.observe import trials
from harness.reach.history import Obj

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

__all__ = ["ABSENT", "HOSTILE", "TRIAL_OF", "VALID", "Request", "Rollout", "Trials", "scratch_pool"]

ROLLOUT_BUDGET = 300.0
"""Seconds after which a changed list that has not arrived is taken not to arrive."""
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
        scratch = self._scratch
        with self._standing([_BEFORE]) as (made,):
            self._await_rendered([made])
            before = scratch.state(made)
            refused = made.refused or self._change(made, _AFTER)
            if refused is None:
                self._await_change(made, before)
            rendered = observe.rendered_modules(*scratch.place(made), now=scratch.now)
            after = refused or scratch.state(made)
            return Rollout(before, after, rendered, _requested(_AFTER))

    def clear(self) -> None:
        """Delete every scratch pool of this pool, whoever left it. Raises TakeDownIncomplete."""
        self._scratch.clear()

    # -- one after the other

    def _rendered(self, kind: str, requests: Sequence[Request]) -> list[RenderTrial | Unread]:
        if kind not in self._seen:
            with self._standing(requests) as made:
                self._await_rendered(made)
                looked = zip(made, requests, strict=True)
                self._seen[kind] = [self._look(one, request) for one, request in looked]
        return self._seen[kind]

    @contextmanager
    def _standing(self, requests: Sequence[Request]) -> Iterator[list[Made]]:
        with self._scratch.standing([_variant(one) for one in requests]) as made:
            yield made

    def _await_rendered(self, made: Sequence[Made]) -> None:
        self._scratch.await_rendered(made)

    def _change(self, made: Made, request: Request) -> Unread | None:
        return self._scratch.edit(made, {"kernelModules": request.modules})

    def _await_change(self, made: Made, before: PoolState | Unread) -> None:
        """Wait for the release's verdict, and for another template than before to be in use."""
        known = before.bootstrap if isinstance(before, PoolState) else None

        def arrived() -> bool:
            template = self._scratch.template(made)
            same = known is not None and name_of(template) == known.name
            return self._scratch.decided(made) == "False" or (bool(template) and not same)

        self.pool.wait(arrived, ROLLOUT_BUDGET, f"the changed list of {made.name} to arrive")

    def _look(self, made: Made, request: Request) -> RenderTrial | Unread:
        if made.refused:
            return made.refused
        written = "" if request.modules == ABSENT else as_json(request.modules)
        return trials.render_trial(*self._scratch.place(made), written, now=self._scratch.now)

    @property
    def _scratch(self) -> ScratchPools:
        return ScratchPools(self.pool)


def scratch_pool(pool: HeldPool, name: str, request: Request) -> Obj:
    """The pool's own object under another name, without machines, and with this request.

    kernelModules is there only where the request writes it: absent and ``[]`` are two requests.
    """
    return scratch_object(pool, name, _variant(request))


def _variant(request: Request) -> Variant:
    merge: dict[str, Any] = {}
    if request.modules != ABSENT:
        merge["kernelModules"] = request.modules
    if request.device:
        merge["gpus"] = [{"name": request.device}]
    return Variant(merge, drop=("kernelModules",))


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
