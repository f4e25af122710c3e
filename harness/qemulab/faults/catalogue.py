"""All faults of the mini-lab, by id."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from harness.clock import WallClock
from harness.qemulab.faults import boots, containers, drbd, modules, replication
from harness.qemulab.faults.bench import Bench
from harness.qemulab.faults.model import Fault

if TYPE_CHECKING:
    from harness.qemulab.lab import MiniLab

FAULTS: dict[str, Fault] = {
    fault.id: fault
    for family in (modules, boots, containers, drbd, replication)
    for fault in family.FAULTS
}

LEFT_OUT: Mapping[str, str] = {
    "kernel-module-order": "the kernel enforces it: it loads no module before one that it depends "
    "on, and the twin's kernel does not have to",
    "early-pod-unserved": "podman starts no container whose device it cannot resolve, and one that "
    "it can resolve had its CDI file: a card that came to an early container cannot be brought "
    "about",
    "drbd-io-policy": "a disk that goes takes DRBD's own records with it, and then 8.4 lets it go "
    "whatever the policy says; the twin's quorum breaks it",
}
"""Claims that no real edit breaks, and why."""


class UnknownFault(KeyError):
    """No fault of this name in the mini-lab's catalogue; the message names the nearest."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, FAULTS, n=1, cutoff=0.5)
        meant = f"did you mean {near[0]!r}?" if near else "`hil faults --lab FILE` lists them"
        super().__init__(f"no fault {name!r} of the mini-lab: {meant}")

    def __str__(self) -> str:
        return str(self.args[0])


def find(name: str) -> Fault:
    """The fault of this id. Raises UnknownFault."""
    if name not in FAULTS:
        raise UnknownFault(name)
    return FAULTS[name]


def plant(lab: MiniLab, name: str) -> None:
    """Plant a fault. Raises UnknownFault, or LabError where the guests will not have it."""
    bench = Bench(lab, WallClock())
    try:
        find(name).edit(bench)
    finally:
        bench.close()
