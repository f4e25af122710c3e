"""`hil faults`: the catalogue of whichever lab was named."""

from __future__ import annotations

import sys
from pathlib import Path

from harness.claims.catalogue import load as load_claims
from harness.inventory.loading import load
from harness.inventory.problems import InventoryError

USER_MISTAKE = 2


def show(name: str, inventory: Path | None) -> int:
    """Print the faults of a mini-lab's guests where its inventory is named, else the twin's; or one
    of them whole. 2 for a fault that is not there, and for a lab in which none is planted.
    """
    kind = "twin"
    if inventory is not None:
        try:
            kind = load(inventory, claims=load_claims()).kind
        except InventoryError as wrong:
            return _mistaken(str(wrong))
    if kind == "cluster":
        return _mistaken(f"{inventory} is a cluster, in which no fault is planted")
    if kind == "qemu":
        from harness.qemulab.faults.listing import show as of_guests

        return of_guests(name)
    from harness.twin.faults.listing import show as of_twin

    return of_twin(name)


def _mistaken(sentence: str) -> int:
    sys.stderr.write(f"hil: {sentence}\n")
    return USER_MISTAKE
