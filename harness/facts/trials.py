"""What became of a request for kernel modules that was only rendered, on a pool without machines.

A refusal of the chart shows as Released and Ready False on the HelmRelease, and the same text in
a warning Event (objects 3; FLX internal/reconcile/install.go). A template alone is no proof that
nothing else was made, so everything made is named.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.facts import machineconfig
from harness.facts.fact import Fact, Unread
from harness.facts.machineconfig import NodeLabels, RenderedModules
from harness.facts.objects import (
    Obj,
    at_path,
    condition,
    listed,
    name_of,
    origin_of,
    text_at,
)

_EXECUTION = "execution error at ("
"""How Helm begins a template's own refusal; file and place follow, then the text (objects 3)."""


@dataclass(frozen=True, slots=True)
class RenderTrial(Fact):
    """One trial.

    ``name`` is the pool's; ``written`` and ``stored`` the JSON of kernelModules as it was written
    and as the HelmRelease holds it, "" where the key is absent; ``gpus`` the resource names asked
    for. ``ready``, ``reason`` and ``message`` are the HelmRelease's Ready condition; ``events``
    its warnings, oldest first. ``rendered`` and ``labels`` come from the TalosConfigTemplate, None
    where there is none. ``created`` names every object made for the pool ("Kind name").
    """

    name: str
    written: str
    stored: str
    gpus: tuple[str, ...]
    ready: str
    reason: str
    message: str
    events: tuple[str, ...]
    rendered: RenderedModules | Unread | None
    labels: dict[str, str] | None = field(hash=False)
    created: tuple[str, ...] = ()

    @property
    def settled(self) -> bool:
        """Whether the release came to an end, one way or the other."""
        return self.ready in ("True", "False")

    @property
    def refusals(self) -> tuple[str, ...]:
        """What was said against it, condition and events, each without the place in the chart."""
        return tuple(dict.fromkeys(map(_refusal, (self.message, *self.events))))


def render_trial(
    release: Any,
    written: str,
    *,
    pool: str,
    events: Sequence[Obj],
    template: Obj | None,
    created: Sequence[Obj],
    at: float,
    cluster: str,
) -> RenderTrial:
    """Read a trial; ``written`` is kernelModules as it was sent (`as_json`), "" for left out.

    ``events`` are those of the HelmRelease, ``template`` the TalosConfigTemplate that the pool
    would use, ``created`` all objects that belong to the pool, the release left out.
    """
    values = at_path(release, "spec", "values")
    said = condition(release, "Ready")
    config = text_at(template, "spec", "template", "spec", "data") if template else ""
    source = f"{cluster} TalosConfigTemplate {name_of(template)}"
    labels = machineconfig.node_labels(config, at=at, source=source)
    return RenderTrial(
        origin=origin_of(release, at, cluster),
        name=pool,
        written=written,
        stored=as_json(values["kernelModules"]) if _has_key(values) else "",
        gpus=tuple(text_at(one, "name") for one in listed(values, "gpus")),
        ready=text_at(said, "status"),
        reason=text_at(said, "reason"),
        message=text_at(said, "message"),
        events=tuple(text_at(one, "message") for one in events if _is_warning(one)),
        rendered=machineconfig.rendered_modules(config, at=at, source=source) if template else None,
        labels=labels.labels if isinstance(labels, NodeLabels) else None,
        created=tuple(f"{text_at(one, 'kind')} {name_of(one)}" for one in created),
    )


def as_json(value: Any) -> str:
    """A value as trials keep it: JSON, its text escaped where it is not ASCII."""
    return json.dumps(value, sort_keys=True, default=str)


def _has_key(values: Any) -> bool:
    return isinstance(values, dict) and "kernelModules" in values


def _is_warning(event: Obj) -> bool:
    return text_at(event, "type") == "Warning"


def _refusal(message: str) -> str:
    """The chart's own text in a message of Helm's: what follows "execution error at (...): "."""
    _, found, rest = message.partition(_EXECUTION)
    place, colon, text = rest.partition("): ")
    return text if found and colon and "\n" not in place else message
