"""The way to LINSTOR's controller that the inventory names, and looks at a pool's disks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import PoolNotReady
from harness.facts.linstorlooks import LinstorLook, compared
from harness.inventory.secrets import SecretRef, SecretUnavailableError
from harness.observe.linstor import look
from harness.observe.satellites import satellites
from harness.reach.errors import KeyUnusable
from harness.reach.linstor import Keys, Linstor

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

LOOKS = 3
"""Looks that are taken at most, until LINSTOR and the kernels say the same."""
PAUSE = 10.0
"""Seconds of the lab's time between them: a satellite reports a change within a second or two."""


@contextmanager
def linstor_of(lab: ConnectedLab) -> Iterator[Linstor | None]:
    """The controller, asked over TLS with the inventory's certificate; None where it names none.

    Raises LabError where what it names cannot be used.
    """
    named = lab.inventory.linstor
    if named is None:
        yield None
        return
    url = str(named.url)
    keys = Keys(_secret(named.ca, url), _secret(named.certificate, url), _secret(named.key, url))
    with Linstor(url, keys, lab.clock) as linstor:
        yield linstor


def looks(pool: HeldPool) -> tuple[LinstorLook, ...]:
    """LINSTOR beside the kernels, until they say the same of the pool's disks, `LOOKS` at most.

    Raises PoolNotReady where the lab names no controller, or the pool has no disk yet.
    """
    disks, kube, now = pool.disks(), pool.lab.management, pool.lab.clock.now
    with linstor_of(pool.lab) as linstor:
        if linstor is None:
            raise PoolNotReady("the lab says nothing of LINSTOR's controller")
        seen = [look(linstor, satellites(kube), now=now)]
        while len(seen) < LOOKS and not all(one.agrees for one in compared(seen[-1], disks)):
            pool.pause(PAUSE, f"LINSTOR to catch up with the kernels below pool {pool.name}")
            seen.append(look(linstor, satellites(kube), now=now))
    return tuple(seen)


def _secret(named: SecretRef, url: str) -> str:
    try:
        return named.document()
    except SecretUnavailableError as missing:
        saw, _, do = str(missing).rpartition(": ")
        raise KeyUnusable(f"ask LINSTOR at {url}", saw, f"{do} (`linstor` names it)") from missing
