"""A pool's object beside what is rendered for it: what was accepted, and what is in use.

The API of these objects is a view of HelmRelease values (objects 2), so it takes an edit whatever
the release is up to; what workers are made from are the templates that the MachineDeployment
refers to.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.facts import machineconfig
from harness.facts.fact import Fact, Unread
from harness.facts.machineconfig import InstallImage
from harness.facts.objects import (
    at_path,
    condition,
    listed,
    mapped,
    name_of,
    origin_of,
    text_at,
)
from harness.facts.pool import BootSource, boot_source
from harness.facts.refusals import shows

_SIZE = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-{}-size"
"""Annotations of a MachineDeployment that carry the bounds of its size (objects 5)."""


@dataclass(frozen=True, slots=True)
class PoolShape:
    """What a pool consists of, as its object asks for it or as its templates have it.

    Texts as they are written, "" for what is not said. ``form`` is "http" or "pvc", where the
    system disk comes from; ``minimum`` and ``maximum`` are the bounds of its number of workers.
    """

    instance_type: str
    disk_size: str
    storage_class: str
    minimum: str
    maximum: str
    schematic: str
    version: str
    form: str


@dataclass(frozen=True, slots=True)
class AppliedPool(Fact):
    """A pool's object, its release and what is rendered.

    ``asked`` is by the object, ``rendered`` by the MachineDeployment and the templates in use, None
    where there are none; ``installer`` is "schematic:version" of the machine configuration in use,
    "" where there is none; ``address`` where the disk comes from (a URL, or namespace/name).
    ``unequal`` are the keys whose value in the release is not what the object shows; what the API
    fills in for an object beside that is none. ``generation`` is the release's, ``observed`` the
    one that its controller looked at or tried last; ``ready`` and ``released`` are the conditions'
    states as said of ``generation``, "" before that, ``reason`` and ``message`` Ready's.
    ``history`` are its revisions with their status ("3 deployed"), newest first.
    ``machine_template`` and ``bootstrap_template`` are the names in use.
    """

    name: str
    asked: PoolShape
    rendered: PoolShape | None
    installer: str
    address: str
    unequal: tuple[str, ...]
    generation: int
    observed: int
    ready: str
    released: str
    reason: str
    message: str
    history: tuple[str, ...]
    machine_template: str
    bootstrap_template: str

    @property
    def settled(self) -> bool:
        """Whether the release has a verdict on what its object says now."""
        return self.observed == self.generation and self.ready in ("True", "False")


@dataclass(frozen=True, slots=True)
class Allowed:
    """A request that only looks wrong, and what became of it: ``what`` says which.

    Expected of its disk: ``form`` "http" or "pvc", ``address`` (namespace/name of a golden, ""
    where any will do) and ``storage_class``, "" where the chart leaves the choice to the cluster.
    """

    what: str
    form: str
    address: str
    storage_class: str
    seen: AppliedPool | Unread


def applied_pool(
    nodes: Any,
    release: Any,
    deployment: Any,
    machine: Any,
    bootstrap: Any,
    *,
    pool: str,
    at: float,
    cluster: str,
) -> AppliedPool:
    """Put a pool's objects side by side; each of the last three may be {} where it is not there."""
    spec, values = mapped(nodes, "spec"), mapped(release, "spec", "values")
    generation = _number(at_path(release, "metadata", "generation"))
    looked = [
        _number(at_path(release, "status", key))
        for key in ("observedGeneration", "lastAttemptedGeneration")
    ]
    ready, released = _current(release, "Ready"), _current(release, "Released")
    source = boot_source(machine, at=at, cluster=cluster) if machine else None
    return AppliedPool(
        origin=origin_of(release, at, cluster),
        name=pool,
        asked=asked_shape(spec),
        rendered=_rendered(deployment, machine, source) if deployment and machine else None,
        installer=_installer(bootstrap, at),
        address=source.address if isinstance(source, BootSource) else "",
        unequal=_unequal(spec, values),
        generation=generation,
        observed=generation if generation in looked else looked[0],
        ready=text_at(ready, "status"),
        released=text_at(released, "status"),
        reason=text_at(ready, "reason"),
        message=text_at(ready, "message"),
        history=tuple(
            f"{at_path(one, 'version')} {text_at(one, 'status')}"
            for one in listed(release, "status", "history")
        ),
        machine_template=name_of(machine),
        bootstrap_template=name_of(bootstrap),
    )


def asked_shape(spec: dict[str, Any]) -> PoolShape:
    """What a KubernetesNodes spec asks for.

    A form of osImage counts by its key alone, and what it leaves out is talos' (clone_path 1).
    """
    image = mapped(spec, "osImage")
    form = "builtin" if "builtin" in image else "factory" if "factory" in image else ""
    own, talos = mapped(image, form) if form else {}, mapped(spec, "talos")
    return PoolShape(
        instance_type="" if mapped(spec, "resources") else text_at(spec, "instanceType"),
        disk_size=_text(spec.get("diskSize")),
        storage_class=text_at(spec, "storageClass"),
        minimum=_text(spec.get("minReplicas")),
        maximum=_text(spec.get("maxReplicas")),
        schematic=text_at(own, "schematicID") or text_at(talos, "schematicID"),
        version=text_at(own, "version") or text_at(talos, "version"),
        form="pvc" if form == "builtin" else "http",
    )


def _rendered(deployment: Any, machine: Any, source: BootSource | Unread | None) -> PoolShape:
    marks = mapped(deployment, "metadata", "annotations")
    vm = mapped(machine, "spec", "template", "spec", "virtualMachineTemplate", "spec")
    storage = mapped(vm, "dataVolumeTemplates", 0, "spec", "storage")
    known = source if isinstance(source, BootSource) else None
    return PoolShape(
        instance_type=text_at(vm, "instancetype", "name"),
        disk_size=_text(at_path(storage, "resources", "requests", "storage")),
        storage_class=text_at(storage, "storageClassName"),
        minimum=_text(marks.get(_SIZE.format("min"))),
        maximum=_text(marks.get(_SIZE.format("max"))),
        schematic=known.schematic if known else "",
        version=known.version if known else "",
        form=known.form if known else "",
    )


def _installer(bootstrap: Any, at: float) -> str:
    data = text_at(bootstrap, "spec", "template", "spec", "data")
    found = machineconfig.install_image(data, at=at, source="") if data else None
    return f"{found.schematic}:{found.version}" if isinstance(found, InstallImage) else ""


def _unequal(spec: dict[str, Any], values: dict[str, Any]) -> tuple[str, ...]:
    """Keys whose values the object does not show; those that begin with ``_`` it never does."""
    keys = sorted(key for key in values if not key.startswith("_"))
    return tuple(key for key in keys if key not in spec or not shows(spec[key], values[key]))


def _current(release: Any, kind: str) -> dict[str, Any]:
    """A condition as it is said of the release's present generation, {} before that."""
    said = condition(release, kind)
    now = at_path(release, "metadata", "generation")
    return said if said.get("observedGeneration") == now else {}


def _number(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(value: Any) -> str:
    return "" if value is None else str(value)
