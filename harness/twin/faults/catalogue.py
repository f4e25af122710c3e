"""All faults, by id."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from harness.twin.faults import (
    addons,
    boots,
    clones,
    disks,
    evidence,
    goldens,
    guards,
    images,
    joining,
    leaks,
    operator,
    placement,
    planted,
    rendering,
    rolling,
    space,
    storage,
)
from harness.twin.faults.model import Fault

if TYPE_CHECKING:
    from harness.twin.world.world import World

FAULTS: dict[str, Fault] = {
    fault.id: fault
    for family in (
        placement,
        rendering,
        images,
        boots,
        joining,
        rolling,
        operator,
        evidence,
        goldens,
        clones,
        disks,
        guards,
        space,
        storage,
        addons,
        leaks,
        planted,
    )
    for fault in family.FAULTS
}


class UnknownFault(KeyError):
    """No such fault; the message names the nearest."""

    def __init__(self, name: str) -> None:
        near = difflib.get_close_matches(name, FAULTS, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else "`hil faults` lists them"
        super().__init__(f"no fault {name!r} in the catalogue: {hint}")

    def __str__(self) -> str:
        return str(self.args[0])


def find(name: str) -> Fault:
    """The fault of this id. Raises UnknownFault."""
    if name not in FAULTS:
        raise UnknownFault(name)
    return FAULTS[name]


def plant(world: World, name: str) -> None:
    """Make the fault's edit to a world. Raises UnknownFault."""
    find(name).edit(world)
    world.planted.append(name)
