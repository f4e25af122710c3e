"""What a run asks of a pool beside what the inventory says."""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.poolstate import PoolState

TALOS_LIMIT = 4200.0
"""Seconds after which Talos gives up a boot (TAL pkg/machinery/constants)."""


@dataclass(frozen=True, slots=True)
class Terms:
    """What a run asks of a pool beside what the inventory says.

    ``soak`` is how old each worker's boot must get, in seconds, 0 where its lane has no such
    window; ``limit`` the uptime in seconds at which a boot that does not end is given up; ``save``:
    the state of a pool that stands already is to be recorded; ``recorded`` is the state that an
    earlier run recorded, None where there is nothing to compare with; ``beside`` names the pools
    of this run that share the lab's storage; ``wait`` is how long a run that holds the pool is
    waited for, in seconds of the lab's time; ``disruption``: the run itself may take hosts away;
    ``leaks``: what is left behind is to be asked.
    """

    soak: float = 0.0
    limit: float = TALOS_LIMIT
    save: bool = False
    recorded: PoolState | None = None
    beside: tuple[str, ...] = ()
    wait: float = 0.0
    disruption: bool = False
    leaks: bool = False


NO_TERMS = Terms()
