"""Which lab a pool is driven on: a twin of its own, a running one, guests, or a real cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from harness.bringup.connect import ConnectedLab, Reachable, connect, reachable
from harness.bringup.skew import refuse_far_apart
from harness.bringup.terms import Terms
from harness.clock import Clock, ClockStuck, WallClock
from harness.facts.poolstate import PoolState
from harness.inventory.models import Host, Lab
from harness.inventory.secrets import SecretRef
from harness.inventory.services import Linstor, Prometheus
from harness.reach.errors import LabError
from harness.session.attaching import embedded
from harness.twin.process import Endpoint, TwinLink, TwinPower, TwinProcess

if TYPE_CHECKING:
    from harness.bringup.guests import GuestPool
    from harness.bringup.pool import HeldPool

Log = Callable[[str, str], None]
Timed = Callable[[Clock], None]
Refused = Callable[[ConnectedLab, Exception], None]
"""Told of a pool that cannot be had, while its lab is still connected."""

MANAGEMENT = "management"
"""The twin's context for the management cluster."""


@dataclass(frozen=True, slots=True)
class LabChoice:
    """How a run reaches its lab. ``attach`` is the directory of a twin that is already up.

    ``soak`` is the lane's window in seconds, 0 for none; ``save``: standing pools' states are to
    be recorded; ``against`` are those that an earlier run recorded; ``pools`` are all that the run
    drives; ``hand`` is which of several processes this is that have guests of a set each, "" for
    the only one.
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
    pools: tuple[str, ...] = ()
    hand: str = ""
    disruption: bool = False
    """Whether the run's lane lets it take machines away."""
    wait: float = 0.0
    """How long a run that holds a pool is waited for, in seconds of the lab's time."""

    def terms(self, pool: str) -> Terms:
        """What the run asks of a pool beside what the inventory says."""
        # in the embedded lab each pool has a storage of its own
        beside = () if self.embedded else self.pools
        terms = Terms(self.soak, save=self.save, recorded=self.against.get(pool), beside=beside)
        if self.inventory.kind != "qemu":
            return replace(terms, wait=self.wait, leaks=True, disruption=self.disruption)
        return replace(terms, limit=self.inventory.guests[pool].boot_limit.seconds)

    @contextmanager
    def hold(
        self, pool: str, log: Log, timed: Timed, refused: Refused = lambda _lab, _why: None
    ) -> Iterator[HeldPool | GuestPool]:
        """A pool, held until its last scenario; ``timed`` is told the lab's clock before that.

        Raises LabError, ClockStuck or TwinFailed where it cannot be had.
        """
        if self.inventory.kind == "qemu":
            with self._guests(pool, log, timed) as guests:
                yield guests
            return
        from harness.bringup.keeper import hold

        with self.open(pool, seat=f"pool {pool} of run {self.run_id}") as lab:
            timed(lab.clock)
            had = False
            try:
                with hold(lab, pool, log, self.terms(pool)) as held:
                    had = True
                    yield held
            except (LabError, ClockStuck) as why:
                if not had:
                    refused(lab, why)
                raise

    @contextmanager
    def _guests(self, pool: str, log: Log, timed: Timed) -> Iterator[GuestPool]:
        """The mini-lab's guests: those that run already, or some of their own."""
        from harness.bringup.guests import GuestLab, hold
        from harness.qemulab.faults.catalogue import plant
        from harness.qemulab.lab import MiniLab
        from harness.session.minilab import wants

        clock = WallClock()
        timed(clock)

        def say(text: str) -> None:
            log("bring-up", text)

        if self.attach is not None:
            mini = MiniLab.attach(self.attach)
            mini.rollback()
        else:
            asked = self.inventory.guests[pool]
            own = f"{pool}.{self.hand}" if self.hand else pool
            mini = MiniLab.start(self.directory / "qemu" / own, wants(asked), say=say)
        lab = GuestLab(
            self.inventory, clock, mini, self.run_id, tuple(self.faults), partial(plant, mini)
        )
        try:
            with hold(lab, pool, log, self.terms(pool)) as held:
                yield held
        finally:
            mini.close()

    @property
    def embedded(self) -> bool:
        """Whether each pool gets a twin of its own, started here."""
        return embedded(self.inventory, attached=self.attach is not None)

    @contextmanager
    def open(self, pool: str, *, seat: str = "") -> Iterator[ConnectedLab]:
        """The lab, connected, for driving one pool; ``seat`` as in `connect`.

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
                _forget_keys(self.directory / "twin" / pool)
            return
        endpoint = Endpoint.load(self.attach) if self.attach is not None else None
        with self._connected(self.way(), endpoint, seat) as lab:
            yield lab

    def see(self) -> None:
        """See that a lab which is there already answers.

        Raises LabError, TwinFailed or ClockStuck.
        """
        if self.inventory.kind == "qemu":
            self._see_guests()
        elif not self.embedded:
            lab = connect(self.inventory, self.way(), self.run_id)
            try:
                refuse_far_apart(lab)
            finally:
                lab.close()

    def _see_guests(self) -> None:
        """See that the guests which are to be used run, or that this machine could run some."""
        from harness.qemulab.accel import check_installed
        from harness.qemulab.lab import MiniLab

        if self.attach is not None:
            from harness.session.minilab import wants

            mini = MiniLab.attach(self.attach)
            for pool in self.pools:
                mini.refuse_other_than(wants(self.inventory.guests[pool]))
        else:
            check_installed()

    def way(self) -> Reachable:
        """How the lab that already exists is reached. Raises LabError or TwinFailed."""
        if self.attach is not None:
            return _way(Endpoint.load(self.attach))
        return reachable(self.inventory)

    @contextmanager
    def _connected(
        self, way: Reachable, twin: Endpoint | None, seat: str = ""
    ) -> Iterator[ConnectedLab]:
        inventory = self.inventory if twin is None else _with_hosts(self.inventory, twin)
        lab = connect(inventory, way, self.run_id, seat=seat)
        if twin is not None:
            lab.power = partial(TwinPower, twin.clock_url, refusal=LabError)
            lab.link = TwinLink(twin.clock_url, LabError)
        try:
            with lab.clock.actor("scenarios"):
                yield lab
        finally:
            lab.close()


def _forget_keys(folder: Path) -> None:
    """Take what let one into a twin that is gone out of the run's folder, which is kept."""
    for path in folder.iterdir():
        if path.suffix != ".log" and path.is_file():
            path.unlink()


def _way(endpoint: Endpoint) -> Reachable:
    return Reachable(endpoint.kubeconfig, MANAGEMENT, endpoint.clock_url)


def _with_hosts(inventory: Lab, twin: Endpoint) -> Lab:
    """The inventory with a twin's hypervisors, LINSTOR and Prometheus, whose addresses it says once
    it runs."""
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
    linstor = _linstor(twin) if twin.linstor is not None else inventory.linstor
    prometheus = _prometheus(twin) or inventory.prometheus
    services = {"linstor": linstor, "prometheus": prometheus}
    return inventory.model_copy(update={"hosts": hosts, **services})


def _linstor(twin: Endpoint) -> Linstor:
    named = twin.linstor
    assert named is not None, "asked only of a twin that has it"
    files = (named.ca, named.certificate, named.key)
    ca, certificate, key = (SecretRef(file=str(path.resolve())) for path in files)
    return Linstor(url=named.url, ca=ca, certificate=certificate, key=key)


def _prometheus(twin: Endpoint) -> Prometheus | None:
    named = twin.prometheus
    if named is None:
        return None
    return Prometheus(url=named.url, token=SecretRef(file=str(named.token.resolve())))
