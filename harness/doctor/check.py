"""One thing that a doctor looked at: how it stands, what it said, what would change it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a thing stands."""

    OK = "ok"
    MISSING = "missing"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at. ``do`` is what would change it; ``needed`` whether the lab needs it."""

    subject: str
    state: State
    said: str
    do: str = ""
    needed: bool = True

    @property
    def fails(self) -> bool:
        """Whether the lab does not work for it."""
        return self.needed and self.state is State.MISSING
