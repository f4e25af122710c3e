"""What the mini-lab is to run, as the inventory says it."""

from __future__ import annotations

from pathlib import Path

from harness.inventory.models import Guests
from harness.qemulab.lab import Wants

PROBE_IMAGE = ("hil-probe-image",)
"""The guest's own command that gives podman the image of the containers which look for a card."""


def wants(guests: Guests) -> Wants:
    """The guests of one set."""
    return Wants(
        guests=guests.replicas,
        memory=guests.memory.bytes,
        disk=guests.disk.bytes,
        modules=tuple((one.name, tuple(one.parameters or ())) for one in guests.kernel_modules),
        prepare=(PROBE_IMAGE,) if guests.has_nvidia and guests.talos is None else (),
        image=(Path(guests.talos.path), guests.talos.sha256) if guests.talos else None,
    )
