"""What a fault is: one edit to the world, and what it must do to the claims."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.twin.world.world import World

GPU_POOLS = ("gpu-l40s", "gpu-gb202")
CARDLESS = ("plain", "cloned")
ALL_POOLS = (*GPU_POOLS, *CARDLESS)
"""The pools of inventory/twin.yaml, by which a fault says where it shows."""

Edit = Callable[["World"], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the catalogue.

    ``breaks`` are the claims that come out broken, ``blinds`` those that come out unknown
    because of it, each on every pool of ``where`` on which it is asked at all. ``edit`` changes
    the world before anything is brought up, or arranges for the change at a defined point; it
    never touches a scenario or a judge.

    ``harmless`` is for what only looks like a fault: it must leave every claim as it is, so that a
    harness which takes it for one is found out.
    """

    id: str
    sentence: str
    seen: str
    wrong_diagnosis: str
    breaks: frozenset[str]
    where: tuple[str, ...]
    edit: Edit
    blinds: frozenset[str] = frozenset()
    source: str = ""
    harmless: bool = False

    def __post_init__(self) -> None:
        changed = sorted(self.breaks | self.blinds)
        if self.harmless and changed:
            raise ValueError(f"{self.id} is declared harmless and changes {', '.join(changed)}")
        if self.breaks & self.blinds:
            both = ", ".join(sorted(self.breaks & self.blinds))
            raise ValueError(f"{self.id} cannot both break and blind {both}")
