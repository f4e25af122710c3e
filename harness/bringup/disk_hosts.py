"""Which storage nodes may be taken away beneath a worker, and why the others may not.

Pure: from who stands where to a plan. What it forbids would take more than the worker's disk: a
machine of somebody else, a majority of the control planes, the way to the API itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.facts.diskfailover import FAIL, SUSPEND, StorageHosts

POWER, WIRES = "power", "wires"


@dataclass(frozen=True, slots=True)
class Means:
    """What a lab lets one do: switch its machines off, cut the wires between them."""

    power: bool
    link: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """What is tried on one worker's disk.

    ``victim`` is the storage node to be lost, "" where none may, with ``why``. ``how`` is the way
    in which the worker's own is parted from all ``others``, "" where it is not, with ``why_not``.
    """

    own: str
    victim: str
    why: str
    others: tuple[str, ...]
    how: str
    why_not: str

    @property
    def rank(self) -> int:
        """How much of it can be tried."""
        return 2 * bool(self.victim) + bool(self.how)


def plan(
    hosts: StorageHosts,
    own: str,
    replicas: Sequence[str],
    policy: str,
    means: Means,
    ours: Sequence[str],
) -> Plan:
    """What may be tried where a worker's disk is Primary on ``own`` and ``replicas`` have a disk.

    ``ours`` are the pool's machines as `StorageHost` names them.
    """
    others = tuple(one for one in replicas if one != own)
    refused = {one: forbids(hosts, [one]) for one in others}
    victim = next((one for one, reason in refused.items() if not reason), "")
    why = "; ".join(refused.values()) or "no other node holds a replica"
    if not means.power:
        victim, why = "", "this lab cannot switch its machines off"
    how, why_not = _parting(hosts, own, others, policy, means, ours)
    return Plan(own, victim, "" if victim else why, others, how, why_not)


def forbids(hosts: StorageHosts, lost: Sequence[str]) -> str:
    """Why these nodes may not be switched off together, "" where they may."""
    for name in lost:
        host = hosts.of(name)
        if host is None:
            return f"the management cluster has no Node {name}"
        if not host.ready:
            return f"{name} is not Ready"
        if host.machines:
            return f"{name} runs {', '.join(host.machines)}"
        if host.answers:
            return f"the management API is reached at {name} itself"
    control = [one for one in hosts.hosts if one.control]
    staying = [one for one in control if one.ready and one.name not in lost]
    if any(one.name in lost for one in control) and 2 * len(staying) <= len(control):
        left = f"{len(staying)} of {len(control)} control plane nodes"
        return f"without {' and '.join(lost)} there are {left}, no majority"
    tenant = {one.name for one in hosts.hosts if one.tenant}
    if tenant and tenant <= set(lost):
        return f"{' and '.join(sorted(tenant))} runs the tenant's only control plane"
    return ""


def _parting(
    hosts: StorageHosts,
    own: str,
    others: Sequence[str],
    policy: str,
    means: Means,
    ours: Sequence[str],
) -> tuple[str, str]:
    """How the worker's node is parted from the majority, or why it is not."""
    if policy == FAIL:
        return "", f"its class asks for {FAIL}, and an error would end the worker's file system"
    if policy != SUSPEND:
        return "", f"its class asks for {policy or 'nothing'} without a quorum"
    if len(others) < 2:
        return "", f"{len(others) + 1} replicas make no quorum"
    refused = forbids(hosts, others) if means.power else "this lab cannot switch its machines off"
    if not refused:
        return POWER, ""
    if not means.link:
        return "", f"{refused}; and this lab cannot cut the wires"
    host = hosts.of(own)
    strange = sorted(set(host.machines) - set(ours)) if host is not None else []
    if host is None or strange:
        told = f"{own} runs {', '.join(strange)} too" if strange else f"there is no Node {own}"
        return "", f"{refused}; and with its wires cut, {told}"
    return WIRES, ""
