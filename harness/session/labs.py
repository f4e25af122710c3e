"""Which lab a pool is driven on: a twin of its own, a running twin, or the inventory's cluster."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from harness.bringup.connect import ConnectedLab, Reachable, connect, reachable
from harness.bringup.terms import Terms
from harness.facts.poolstate import PoolState
from harness.inventory.models import Host, Lab
from harness.inventory.secrets import SecretRef
from harness.twin.process import Endpoint, TwinProcess

MANAGEMENT = "management"
"""The twin's context for the management cluster."""


@dataclass(frozen=True, slots=True)
class LabChoice:
    """How a run reaches its lab. ``attach`` is the directory of a twin that is already up.

    ``soak`` is the lane's window in seconds, 0 for none; ``save``: standing pools' states are to
    be recorded; ``against`` are those that an earlier run recorded.
    """

    inventory: Lab
    run_id: str
    directory: Path
    seed: int = 1
    faults: Sequence[str] = ()
    attach: Path | None = None
    soak: float = 0.0
    save: bool = False
    against: Mapping[str, PoolState] = field(default_factory=dict)

    def terms(self, pool: str) -> Terms:
        """What the run asks of a pool beside what the inventory says."""
        return Terms(self.soak, self.save, self.against.get(pool))

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
                with self._connected(_way(twin.endpoint), twin.endpoint) as lab:
                    yield lab
            finally:
                twin.close()
            return
        endpoint = Endpoint.load(self.attach) if self.attach is not None else None
        with self._connected(self.way(), endpoint) as lab:
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
    def _connected(self, way: Reachable, twin: Endpoint | None) -> Iterator[ConnectedLab]:
        inventory = self.inventory if twin is None else _with_hosts(self.inventory, twin)
        lab = connect(inventory, way, self.run_id)
        try:
            with lab.clock.actor("scenarios"):
                yield lab
        finally:
            lab.close()


def _way(endpoint: Endpoint) -> Reachable:
    return Reachable(endpoint.kubeconfig, MANAGEMENT, endpoint.clock_url)


def _with_hosts(inventory: Lab, twin: Endpoint) -> Lab:
    """The inventory with a twin's hypervisors: where they answer is known once it runs."""
    hosts = tuple(
        Host(
            name=name,
            address=access.address,
            port=access.port,
            user=access.user,
            ssh=SecretRef(file=str(access.key.resolve())),
            host_key=access.host_key,
        )
        for name, access in twin.hosts.items()
    )
    return inventory.model_copy(update={"hosts": hosts})
