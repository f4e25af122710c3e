"""Which lab a pool is driven on: a twin of its own, a running twin, or the inventory's cluster."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from harness.bringup.connect import ConnectedLab, Reachable, connect, reachable
from harness.inventory.models import Lab
from harness.twin.process import Endpoint, TwinProcess

MANAGEMENT = "management"
"""The twin's context for the management cluster."""


@dataclass(frozen=True, slots=True)
class LabChoice:
    """How a run reaches its lab. ``attach`` is the directory of a twin that is already up."""

    inventory: Lab
    run_id: str
    directory: Path
    seed: int = 1
    faults: Sequence[str] = ()
    attach: Path | None = None

    @property
    def embedded(self) -> bool:
        """Whether each pool gets a twin of its own, started here."""
        lab = self.inventory
        return lab.kind == "twin" and lab.management is None and self.attach is None

    @contextmanager
    def open(self, pool: str) -> Iterator[ConnectedLab]:
        """The lab, connected, for driving one pool.

        In the embedded lab each pool has a twin of its own, so that what a pool sees does not
        depend on which worker drove which pool before it.
        """
        if self.embedded:
            twin = TwinProcess(self.directory / "twin" / pool, seed=self.seed, faults=self.faults)
            try:
                with self._connected(_way(twin.endpoint)) as lab:
                    yield lab
            finally:
                twin.close()
            return
        with self._connected(self.way()) as lab:
            yield lab

    def see(self) -> None:
        """See that a lab which is there already answers.

        Raises LabError, TwinFailed or ClockStuck.
        """
        if not self.embedded:
            connect(self.inventory, self.way(), self.run_id).close()

    def way(self) -> Reachable:
        """How the lab that already exists is reached. Raises LabError or TwinFailed."""
        if self.attach is not None:
            return _way(Endpoint.load(self.attach))
        return reachable(self.inventory)

    @contextmanager
    def _connected(self, way: Reachable) -> Iterator[ConnectedLab]:
        lab = connect(self.inventory, way, self.run_id)
        try:
            with lab.clock.actor("scenarios"):
                yield lab
        finally:
            lab.close()


def _way(endpoint: Endpoint) -> Reachable:
    return Reachable(endpoint.kubeconfig, MANAGEMENT, endpoint.clock_url)
