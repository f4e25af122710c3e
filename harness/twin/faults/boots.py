"""Faults of a worker's boots: memory that runs out, and a boot that cannot be told from another."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.twin.faults.model import ALL_POOLS, Fault
from harness.twin.faults.requests import guests

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest

EXHAUSTED_AT = (1310.0, 2875.0, 640.0, 1990.0, 1120.0, 2410.0, 890.0)
"""Seconds of uptime at which memory is out, boot after boot: as irregular as load is."""


def _repeat(guest: Guest) -> None:
    guest.repeats_boot_id = True


FAULTS = (
    Fault(
        id="real-oom",
        sentence="Something on each worker eats all memory, until the kernel gives up.",
        seen="MemAvailable near zero, oom-kill lines in the kernel's log, then a panic: deadlocked "
        "on memory; another boot id after another time each",
        wrong_diagnosis="the timer of a boot that does not finish",
        breaks=frozenset({"uptime"}),
        where=ALL_POOLS,
        edit=guests(lambda guest: guest.run_out_of_memory(EXHAUSTED_AT)),
        source="S-DOC",
    ),
    Fault(
        id="boot-id-repeats",
        sentence="A worker's random numbers begin alike at each boot, and its boot id with them.",
        seen="the same boot id before and after a reboot; /proc/uptime begins anew",
        wrong_diagnosis="the machine was never down",
        breaks=frozenset({"reboots-told"}),
        where=ALL_POOLS,
        edit=guests(_repeat),
        source="lab/qemu_drbd.md, Snapshots (inferred for a worker)",
    ),
)
