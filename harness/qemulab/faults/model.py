"""What a fault of the mini-lab is: one edit to the real guests, and what it does to the claims."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.qemulab.faults.bench import Bench

Edit = Callable[["Bench"], None]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of the mini-lab.

    ``edit`` changes the guests, as an administrator could: by a login, the power button, the wire.
    It never touches a scenario or a judge. ``breaks`` are the claims that come out broken because
    of it, ``blinds`` those that come out unknown, and ``controls`` claims of the same family that
    hold under it all the same: whoever finds those broken takes the fault for more than it is.
    ``says`` has, for some of these claims, words that the verdict's sentence must hold.

    ``harmless`` is for what only looks like a fault: it breaks and blinds nothing.
    """

    id: str
    sentence: str
    seen: str
    wrong_diagnosis: str
    edit: Edit
    controls: frozenset[str]
    breaks: frozenset[str] = frozenset()
    blinds: frozenset[str] = frozenset()
    says: Mapping[str, str] = field(default_factory=dict)
    source: str = "lab/qemu_drbd.md"
    harmless: bool = False

    def __post_init__(self) -> None:
        changed = sorted(self.breaks | self.blinds)
        if self.harmless and changed:
            raise ValueError(f"{self.id} is declared harmless and changes {', '.join(changed)}")
        for one, other in (
            (self.breaks, self.blinds),
            (self.breaks, self.controls),
            (self.blinds, self.controls),
        ):
            if one & other:
                raise ValueError(f"{self.id} declares {', '.join(sorted(one & other))} twice")
        if not set(self.says) <= self.asks:
            raise ValueError(f"{self.id} has words of a claim that it does not ask")

    @property
    def asks(self) -> frozenset[str]:
        """The claims that a trial of it puts to the guests."""
        return self.breaks | self.blinds | self.controls
