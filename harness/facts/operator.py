"""NVIDIA's GPU operator as the platform renders it: its values, an override, what it says itself.

The chart merges ``addons.gpuOperator.valuesOverride`` of the tenant cluster's release over its
own values; lists are replaced whole (S-GPO; CZ
packages/apps/kubernetes/templates/helmreleases/gpu-operator.yaml).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.facts.containers import Variable, variable
from harness.facts.fact import Fact, Unread
from harness.facts.objects import at_path, listed, name_of, origin_of, text_at
from harness.facts.reply import quote

CHART = "gpu-operator"
"""The top key of the rendered values."""


@dataclass(frozen=True, slots=True)
class OperatorValues(Fact):
    """What the HelmRelease of the GPU operator gives its chart; absent is None.

    ``values_from`` are further sources of values, which are not read ("Secret name").
    """

    release: str
    driver_enabled: bool | None
    toolkit_enabled: bool | None
    plugin_enabled: bool | None
    validator_env: tuple[Variable, ...] | None
    plugin_env: tuple[Variable, ...] | None
    values_from: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Addons(Fact):
    """What the tenant cluster's own release asks of the addons that touch its cards.

    ``override`` are the dotted keys that ``addons.gpuOperator.valuesOverride`` sets, none for an
    empty one; ``hami`` is ``addons.hami.enabled``, ``hami_release`` whether HAMi's HelmRelease
    exists. A switch that is not written is None.
    """

    release: str
    operator: bool | None
    hami: bool | None
    override: tuple[str, ...]
    hami_release: bool = False

    @property
    def hami_on(self) -> bool:
        """Whether HAMi deals out the cards instead of the operator's own plugin."""
        return self.hami is True or self.hami_release


@dataclass(frozen=True, slots=True)
class Said:
    """One condition of an object, in its own words."""

    type: str
    status: str
    reason: str
    message: str

    def __str__(self) -> str:
        return f"{self.type}={self.status} {self.reason}".rstrip()


@dataclass(frozen=True, slots=True)
class OperatorPolicy(Fact):
    """The ClusterPolicy: its state (ready, notReady, ignored, disabled) and its conditions.

    It is ready where there is no GPU node at all, with the reasons NoGPUNodes and NFDLabelsMissing
    (GPO controllers/clusterpolicy_controller.go), and proves nothing of any node.
    """

    name: str
    state: str
    conditions: tuple[Said, ...]

    def __str__(self) -> str:
        told = ", ".join(map(str, self.conditions)) or "no condition"
        return f"ClusterPolicy {self.name} is {self.state or 'without a state'} ({told})"


def operator_values(release: Any, *, at: float, cluster: str) -> OperatorValues | Unread:
    """Read the GPU operator's HelmRelease; what is not of its shape is Unread, with the text."""
    origin = origin_of(release, at, cluster)
    values = at_path(release, "spec", "values", CHART)
    if not isinstance(values, dict | None):
        return Unread(origin, f"spec.values.{CHART}", f"no mapping: {quote(repr(values))}")
    try:
        return OperatorValues(
            origin=origin,
            release=name_of(release),
            driver_enabled=_switch(values, "driver", "enabled"),
            toolkit_enabled=_switch(values, "toolkit", "enabled"),
            plugin_enabled=_switch(values, "devicePlugin", "enabled"),
            validator_env=_env(values, "validator", "driver", "env"),
            plugin_env=_env(values, "devicePlugin", "env"),
            values_from=tuple(
                f"{text_at(one, 'kind')} {text_at(one, 'name')}"
                for one in listed(release, "spec", "valuesFrom")
            ),
        )
    except ValueError as wrong:
        return Unread(origin, f"spec.values.{CHART}", str(wrong))


def addons(release: Any, *, hami_release: bool, at: float, cluster: str) -> Addons | Unread:
    """Read the tenant cluster's HelmRelease; ``hami_release``: HAMi's own release exists."""
    origin = origin_of(release, at, cluster)
    values = at_path(release, "spec", "values")
    override = at_path(values, "addons", "gpuOperator", "valuesOverride")
    if not isinstance(values, dict):
        return Unread(origin, "spec.values", f"no mapping: {quote(repr(values))}")
    if not isinstance(override, dict | None):
        return Unread(origin, "valuesOverride", f"no mapping: {quote(repr(override))}")
    try:
        return Addons(
            origin=origin,
            release=name_of(release),
            operator=_switch(values, "addons", "gpuOperator", "enabled"),
            hami=_switch(values, "addons", "hami", "enabled"),
            override=tuple(_leaves(override or {})),
            hami_release=hami_release,
        )
    except ValueError as wrong:
        return Unread(origin, "spec.values.addons", str(wrong))


def operator_policy(policy: Any, *, at: float, cluster: str) -> OperatorPolicy:
    """Read a ClusterPolicy (nvidia.com/v1)."""
    return OperatorPolicy(
        origin=origin_of(policy, at, cluster),
        name=name_of(policy),
        state=text_at(policy, "status", "state"),
        conditions=tuple(
            Said(*(text_at(one, key) for key in ("type", "status", "reason", "message")))
            for one in listed(policy, "status", "conditions")
        ),
    )


def _switch(values: dict[str, Any] | None, *path: str) -> bool | None:
    """A switch; None where it is not written. Raises ValueError for what is neither."""
    found = at_path(values, *path)
    if found is None or isinstance(found, bool):
        return found
    raise ValueError(f"{'.'.join(path)} is neither true nor false: {quote(repr(found))}")


def _env(values: dict[str, Any] | None, *path: str) -> tuple[Variable, ...] | None:
    found = at_path(values, *path)
    if found is None:
        return None
    if not isinstance(found, list):
        raise ValueError(f"{'.'.join(path)} is no list: {quote(repr(found))}")
    return tuple(map(variable, found))


def _leaves(tree: dict[str, Any], above: str = "") -> Iterator[str]:
    """The dotted keys of everything that a tree of values sets."""
    waiting = [(above, tree)]
    while waiting:
        path, branch = waiting.pop()
        for key in sorted(branch, key=str):
            below = branch[key]
            if isinstance(below, dict) and below:
                waiting.append((f"{path}{key}.", below))
            else:
                yield f"{path}{key}"
