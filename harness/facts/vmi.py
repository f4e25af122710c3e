"""A worker's cards on the virtualisation side: what the VMI asks for and what its pod was given."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.facts.fact import Fact, Unread
from harness.facts.objects import condition, listed, mapped, name_of, origin_of, text_at
from harness.facts.reply import Output, unfinished

PREFIX = "PCI_RESOURCE_"


@dataclass(frozen=True, slots=True)
class VmiGpus(Fact):
    """The device names of a VMI's gpus, in its order, and its phase."""

    vmi: str
    gpus: tuple[str, ...]
    phase: str


@dataclass(frozen=True, slots=True)
class VmiRefusal(Fact):
    """virt-controller won't start the VMI: Synchronized is False, with this reason and message.

    This is how a card that permittedHostDevices does not list shows: the VMI stays Pending, the
    webhook lets it pass (KV pkg/virt-controller/services/renderresources.go).
    """

    vmi: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class LauncherGpu(Fact):
    """What a virt-launcher pod got.

    ``pci_env`` are the PCI_RESOURCE_* variables of its compute container, each with its PCI
    addresses; ``limits`` that container's limits; ``unscheduled`` the scheduler's message while
    the pod has no host, "" otherwise. Then ``offered`` is what the hosts' Nodes offer of devices
    of the same vendors, (host, resource, amount) each: the scheduler says the same of cards that
    are all in use and of a name that no host has.
    """

    pod: str
    pci_env: dict[str, tuple[str, ...]] = field(hash=False)
    limits: dict[str, str] = field(hash=False)
    unscheduled: str = ""
    offered: tuple[tuple[str, str, str], ...] = ()


def offers(nodes: Sequence[Any], limits: Mapping[str, str]) -> tuple[tuple[str, str, str], ...]:
    """(host, resource, amount) of every allocatable of a vendor that ``limits`` name devices of."""
    vendors = {name.partition("/")[0] for name in limits if "/" in name}
    return tuple(
        (name_of(node), resource, str(amount))
        for node in nodes
        for resource, amount in sorted(mapped(node, "status", "allocatable").items())
        if resource.partition("/")[0] in vendors and "/" in resource
    )


def variable_of(resource: str) -> str:
    """The variable that carries a resource's PCI addresses (KV pkg/util/util.go)."""
    return PREFIX + re.sub(r"[/.]", "_", resource.upper())


def vmi_gpus(vmi: Any, *, at: float, cluster: str) -> VmiGpus | VmiRefusal:
    """Read a VMI's cards, or that it was refused."""
    origin = origin_of(vmi, at, cluster)
    synchronized = condition(vmi, "Synchronized")
    if text_at(synchronized, "status") == "False":
        reason, message = text_at(synchronized, "reason"), text_at(synchronized, "message")
        return VmiRefusal(origin, name_of(vmi), reason, message)
    gpus = listed(vmi, "spec", "domain", "devices", "gpus")
    names = tuple(text_at(gpu, "deviceName") for gpu in gpus)
    return VmiGpus(origin, name_of(vmi), names, text_at(vmi, "status", "phase"))


def compute_container(pod: Any) -> dict[str, Any]:
    """The container that runs the guest, empty where the pod has none."""
    for one in listed(pod, "spec", "containers"):
        if text_at(one, "name") == "compute":
            return dict(one)
    return {}


def declared_env(pod: Any) -> dict[str, str]:
    """The compute container's variables as far as the pod's spec shows them."""
    return {text_at(one, "name"): text_at(one, "value") for one in listed(
        compute_container(pod), "env"
    )}  # fmt: skip


def read_env(output: Output, *, at: float, source: str) -> dict[str, str] | Unread:
    """Variables from the reply of ``env``; lines of a value that spans several are let pass."""
    refused = unfinished(output, "env", output.origin(at, source))
    if refused is not None:
        return refused
    pairs = (line.partition("=") for line in output.stdout.splitlines())
    return {key: value for key, equals, value in pairs if equals}


def launcher_gpu(
    pod: Any, env: dict[str, str], *, at: float, cluster: str, hosts: Sequence[Any] = ()
) -> LauncherGpu:
    """Read a virt-launcher pod; ``env`` are its compute container's variables, ``hosts`` the
    Nodes that could take it, asked for while it has none.
    """
    scheduled = condition(pod, "PodScheduled")
    waiting = text_at(scheduled, "status") == "False"
    limits = mapped(compute_container(pod), "resources", "limits")
    return LauncherGpu(
        origin=origin_of(pod, at, cluster),
        pod=name_of(pod),
        pci_env={
            key: tuple(one for one in value.split(",") if one)
            for key, value in sorted(env.items())
            if key.startswith(PREFIX)
        },
        limits={key: str(value) for key, value in limits.items()},
        unscheduled=text_at(scheduled, "message") if waiting else "",
        offered=offers(hosts, limits) if waiting else (),
    )
