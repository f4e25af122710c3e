"""What a run asks of a pool beside what the inventory says."""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.poolstate import PoolState


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run asks of a pool beside what the inventory says.

    ``soak`` is how old each worker's boot must get, in seconds, 0 where its lane has no such
    window; ``save``: the state of a pool that stands already is to be recorded; ``recorded`` is
    the state that an earlier run recorded, None where there is nothing to compare with.
    """

    soak: float = 0.0
    save: bool = False
    recorded: PoolState | None = None


NO_TERMS = Terms()
