"""What the harness' own pods on a tenant cluster, or containers on a machine, saw of a card.

A probe's image ships no driver and asks for a card by its limit alone, so that whatever it finds
was put into it. Annotations of a Pod are never looked at: the device plugin's answer goes to the
container runtime and shows on no Pod, neither where it works nor where it does not (S-GPO; NDP
internal/plugin/server.go).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from harness.facts.cdifiles import CdiFiles
from harness.facts.containers import Container, containers, host_paths
from harness.facts.fact import Fact, Unread
from harness.facts.gpunode import RESOURCE
from harness.facts.nvidia import SmiCards, SmiFailed, read_smi_list
from harness.facts.objects import (
    condition,
    epoch,
    listed,
    mapped,
    name_of,
    text_at,
)
from harness.facts.reply import Output

CONTAINER = "probe"
ARGV = ("nvidia-smi", "-L")
LOG_KEPT = 64 * 1024
"""Bytes of a probe's log that are asked for."""

CDI_REFUSALS = ("CDIUnresolved", "CDINodeMissing", "CDISourceMissing")
"""The reasons of a container without a kubelet above it that CDI keeps from starting: no valid file
defines the device, the machine has no such device node, nor such a file to mount."""

_NOT_STARTED = (None, 126, 127)
_NO_TOOL = re.compile(r"executable file\b.{0,80}\bnot found")
_NO_FILE = re.compile(r"nvidia-smi\W.{0,80}(?:not found|no such file or directory)", re.IGNORECASE)
_BY_ENV = ("NVIDIA_", "LD_")


@dataclass(frozen=True, slots=True)
class NoTool(Fact):
    """The container has no nvidia-smi: it could not even be started."""

    said: str


Seen = SmiCards | SmiFailed | NoTool | Unread
"""What ``nvidia-smi -L`` in a container comes to."""


@dataclass(frozen=True, slots=True)
class PodAsStored:
    """A probe pod as the API server holds it, after every admission.

    ``phase``, ``reason`` and ``message`` say how it stands: the reason is the pod's own, else that
    of the container that does not start, else the scheduler's. ``created`` in epoch seconds;
    ``requested`` is its limit of nvidia.com/gpu, 0 for none. ``aids`` are whatever in it could
    bring a driver by another way than the device plugin: a runtime class, a host path, privileges,
    a variable that the NVIDIA runtime obeys, a claim, a container that initialises.

    A container that an engine runs without a cluster is one too: ``requested`` is then the number
    of CDI devices that it asks for, ``asked`` their names; ``phase`` is the engine's state.
    """

    pod: str
    node: str
    phase: str
    reason: str
    message: str
    created: float | None
    runtime_class: str
    requested: int
    image: str
    aids: tuple[str, ...]
    asked: tuple[str, ...] = ()

    def __str__(self) -> str:
        why = ": ".join(part for part in (self.reason, self.message) if part)
        return f"{self.pod} is {self.phase or 'without a phase'}" + (f" ({why})" if why else "")


@dataclass(frozen=True, slots=True)
class Injected(Fact):
    """A fresh pod that asked for a card, and what it sees.

    ``files`` are the machine's CDI files at that moment, where they were looked at.
    """

    stored: PodAsStored
    smi: Seen
    files: CdiFiles | Unread | None = None


@dataclass(frozen=True, slots=True)
class Control(Fact):
    """A pod of the same image that asked for no card; ``said`` is nvidia-smi's answer in it."""

    stored: PodAsStored
    found_driver: bool
    said: str


@dataclass(frozen=True, slots=True)
class CudaRun(Fact):
    """A pod that runs one CUDA program and ends; ``log`` None where it could not be read."""

    stored: PodAsStored
    exit_code: int | None
    log: str | None


@dataclass(frozen=True, slots=True)
class EarlyPod(Fact):
    """A pod bound to its node before that offered a card.

    ``advertised`` is the Node's allocatable nvidia.com/gpu as read when the pod was made, None
    for none; ``smi`` what the pod sees now, None where no container of it runs.

    Without a cluster ``advertised`` is the CDI file that named the device then. A container engine
    runs nothing that it cannot serve, as a kubelet refuses a pod whose resource it knows. What a
    kubelet starts that does not know the resource yet is a container that asks the engine for
    nothing: ``older`` is such a one, which runs since before the device was there (gpu_path 6).
    """

    stored: PodAsStored
    advertised: str | None
    smi: Seen | None
    older: Control | Unread | None = None


def stored(pod: Any) -> PodAsStored:
    """Read a pod."""
    spec = mapped(pod, "spec")
    mine = _probe(containers(spec))
    reason, message = _standing(pod)
    return PodAsStored(
        pod=name_of(pod),
        node=text_at(spec, "nodeName"),
        phase=text_at(pod, "status", "phase"),
        reason=reason,
        message=message,
        created=epoch(text_at(pod, "metadata", "creationTimestamp")),
        runtime_class=text_at(spec, "runtimeClassName"),
        requested=_requested(spec),
        image=mine.image if mine else "",
        aids=tuple(_aids(spec)),
    )


def read_seen(output: Output, *, at: float, source: str) -> Seen:
    """Read the reply of ``nvidia-smi -L`` in a container.

    That there is no such program is told by the runtime, in a message without an exit status or
    with 126 or 127.
    """
    told = f"{output.problem} {output.stderr} {output.stdout}".strip()
    missing = _NO_TOOL.search(told) or (output.exit_code is not None and _NO_FILE.search(told))
    if output.exit_code in _NOT_STARTED and missing:
        return NoTool(output.origin(at, source), told)
    return read_smi_list(output, at=at, source=source)


def exit_code(pod: Any) -> int | None:
    """The exit status of the probe's container, None while it has none."""
    for status in listed(pod, "status", "containerStatuses"):
        code = mapped(status, "state", "terminated").get("exitCode")
        if isinstance(code, int):
            return code
    return None


def runs(pod: Any) -> bool:
    """Whether the probe's container runs now, so that a command can be run in it."""
    statuses = listed(pod, "status", "containerStatuses")
    return any(isinstance(mapped(one, "state").get("running"), dict) for one in statuses)


def _probe(found: tuple[Container, ...]) -> Container | None:
    named = [one for one in found if one.name == CONTAINER]
    return next(iter(named or [one for one in found if not one.init]), None)


def _standing(pod: Any) -> tuple[str, str]:
    """Reason and message of where a pod stands, empty where nothing is said."""
    own = text_at(pod, "status", "reason"), text_at(pod, "status", "message")
    if any(own):
        return own
    for status in listed(pod, "status", "containerStatuses"):
        for kind in ("waiting", "terminated"):
            said = mapped(status, "state", kind)
            if text_at(said, "reason") not in ("", "Completed"):
                return text_at(said, "reason"), text_at(said, "message")
    scheduled = condition(pod, "PodScheduled")
    if text_at(scheduled, "status") == "False":
        return text_at(scheduled, "reason"), text_at(scheduled, "message")
    return "", ""


def _requested(spec: dict[str, Any]) -> int:
    total = 0
    for one in listed(spec, "containers"):
        limit = str(mapped(one, "resources", "limits").get(RESOURCE, "0"))
        total += int(limit) if limit.isascii() and limit.isdigit() else 0
    return total


def _aids(spec: dict[str, Any]) -> Iterator[str]:
    runtime = text_at(spec, "runtimeClassName")
    if runtime:
        yield f"runtimeClassName {runtime}"
    for path in host_paths(spec):
        yield f"host path {path}"
    for one in listed(spec, "resourceClaims"):
        yield f"resource claim {text_at(one, 'name')}"
    for container in containers(spec):
        if container.init:
            yield f"init container {container.name}"
        if container.privileged:
            yield f"privileged container {container.name}"
        for name in container.variables:
            if name.startswith(_BY_ENV):
                yield f"variable {name}"
