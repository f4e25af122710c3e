"""The platform's golden catalogue for one run at a time, by a Lease of its own.

What a killed run left in it is taken out by the next that opens it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.bringup.open_catalogue import NAMESPACE, OpenCatalogue
from harness.bringup.package_images import LEFT, PackageImages
from harness.facts.goldenname import GOLDENS
from harness.observe.pool import DATA_VOLUMES, HELM
from harness.reach.errors import LeaseHeld
from harness.reach.lease import PoolLease

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

LEASE, LEASE_SECONDS = "hil-catalogue", 3600
"""Beside the release: the catalogue is one for all tenants. Renewed before each wait."""
TURN = 60.0
"""Seconds between two looks at whether another run is through with the catalogue."""
PATIENCE = 3600.0
"""Seconds to wait for that."""


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The catalogue, as one pool's scenario may try it."""

    pool: HeldPool

    @contextmanager
    def opened(self) -> Iterator[OpenCatalogue]:
        """The catalogue, this run's alone; what was put in is out again at the end.

        Raises LeaseHeld where another run keeps it, and TakeDownIncomplete with all that could not
        be undone.
        """
        lab = self.pool.lab
        lease = PoolLease(lab.management, NAMESPACE, LEASE, duration=LEASE_SECONDS)
        self._acquire(lease)
        opened = OpenCatalogue(
            pool=self.pool,
            lease=lease,
            images=PackageImages(lab.management),
            releases=lab.observatory.feed(lab.management, HELM, "HelmRelease", NAMESPACE),
            volumes=lab.observatory.feed(lab.management, DATA_VOLUMES, "DataVolume", GOLDENS),
        )
        try:
            opened.undo()
            # what was not well before need not be well again
            opened = replace(opened, well=opened.is_ready())
            yield opened
        finally:
            try:
                opened.undo()
            except KeyboardInterrupt as cut:
                cut.add_note(LEFT)
                raise
            finally:
                lease.release()

    def _acquire(self, lease: PoolLease) -> None:
        clock = self.pool.lab.clock
        deadline = clock.deadline(PATIENCE)
        told = ""
        while True:
            try:
                return lease.acquire(f"{self.pool.lab.run_id}-{self.pool.name}", clock)
            except LeaseHeld as held:
                if deadline.expired:
                    raise
                if held.holder != told:
                    told = held.holder
                    waits = f"pool {self.pool.name} waits for the platform's golden catalogue"
                    self.pool.note("lease", f"{waits}, which {told} has")
            self.pool.pause(TURN, "another run to be through with the catalogue")
