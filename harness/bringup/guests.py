"""A set of QEMU guests that a run holds: what scenarios see of it, as facts.

It is held by the run's own keeper process, hence by no Lease. Each scenario but the first starts
from a roll-back to the moment after boot, so that one may break what it likes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from harness.bringup.boots import Log as KernelLogs
from harness.bringup.boots import Sample
from harness.bringup.guest_containers import GuestContainers
from harness.bringup.machine_boots import MachineBoots, guest_boots
from harness.bringup.terms import NO_TERMS, Terms
from harness.facts.bootledger import BootLedger, boot_ledger
from harness.facts.fact import Fact, Origin, Unread
from harness.observe import guest
from harness.observe.drbd import drbd_status, standalone_logs
from harness.observe.memory import meminfo
from harness.reach.errors import LabError

if TYPE_CHECKING:
    from harness.bringup.drbd.volume import Volume
    from harness.clock import Clock
    from harness.facts.cdi import CdiAbsent, CdiSpec
    from harness.facts.drbd import DrbdAbsent, DrbdLog, DrbdStatus
    from harness.facts.drbdlooks import Answer as DrbdAnswer
    from harness.facts.modules import ModuleTable
    from harness.facts.nvidia import NvidiaParams, ParamsAbsent, SmiCards, SmiFailed
    from harness.facts.probes import Control, EarlyPod, Injected
    from harness.facts.reboots import Reboots
    from harness.inventory.models import Guests, Lab
    from harness.reach.power import Link, Power
    from harness.reach.serial import SerialConsole
    from harness.reach.ssh import SshShell

_F = TypeVar("_F")

RESOURCE = "r0"
"""The DRBD resource that the guests replicate."""
DEVICE = "/dev/drbd0"
BACKING = "/dev/vdb"
"""The disk below it: a guest's second."""

Log = Callable[[str, str], None]


class GuestHost(Protocol):
    """What runs the guests: `harness.qemulab.lab.MiniLab` is one.

    Its verbs raise LabError where it cannot do as it is told.
    """

    @property
    def names(self) -> Sequence[str]:
        """The guests, by name."""

    def shell(self, guest: str, clock: Clock) -> SshShell:
        """A new login."""

    def console(self, guest: str, clock: Clock) -> SerialConsole:
        """Attach to a guest's serial console."""

    def printed(self, guest: str, most: int) -> bytes:
        """The last bytes that its console has printed, whoever is attached."""

    def power(self, guest: str) -> Power:
        """Its power button."""

    def link(self) -> Link:
        """The wire between the guests."""

    def rollback(self, name: str = ...) -> None:
        """All guests as they were after their boot."""


def _no_fault(name: str) -> None:
    raise ValueError(f"nobody here plants faults such as {name}")


@dataclass(frozen=True, slots=True)
class GuestLab:
    """A mini-lab that runs: its inventory, its time, what runs its guests.

    ``faults`` are planted before each scenario, by ``plant`` and their names.
    """

    inventory: Lab
    clock: Clock
    host: GuestHost
    run_id: str
    faults: Sequence[str] = ()
    plant: Callable[[str], None] = _no_fault


@contextmanager
def hold(lab: GuestLab, name: str, log: Log, terms: Terms = NO_TERMS) -> Iterator[GuestPool]:
    """The guests of a set, for as long as their scenarios run."""
    pool = GuestPool(lab, name, log, terms)
    try:
        yield pool
    finally:
        pool.close()


@dataclass(slots=True)
class GuestPool:
    """A set of guests. A `harness.bringup.machines.MachinePool`."""

    lab: GuestLab
    name: str
    log: Log
    terms: Terms = NO_TERMS
    _workers: list[GuestWorker] = field(default_factory=list)
    _used: bool = False

    @property
    def request(self) -> Guests:
        """What the inventory asks for."""
        return self.lab.inventory.guests[self.name]

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"pool {self.name}"

    @property
    def cards(self) -> int:
        """Cards that each guest has: one, a stub's, or none."""
        return 1 if self.request.has_nvidia else 0

    @property
    def expected_modules(self) -> tuple[str, ...]:
        """The kernel modules to be live: those that the inventory lists."""
        return tuple(one.name for one in self.request.kernel_modules)

    @property
    def replicas(self) -> int:
        """Copies of the replicated disk: one on each guest."""
        return len(self.lab.host.names)

    @property
    def workers(self) -> list[GuestWorker]:
        """The guests."""
        if not self._workers:
            self._workers = [GuestWorker(name, self) for name in self.lab.host.names]
        if self.terms.soak:
            for worker in self._workers:
                worker.follow_boot()
        return self._workers

    def addons(self) -> None:
        """There is no cluster."""

    def daemonsets(self) -> None:
        """There is no cluster."""

    def disks(self) -> tuple[str, ...]:
        """The one resource that the guests replicate."""
        return (RESOURCE,)

    def drbd(self) -> tuple[DrbdStatus | DrbdAbsent | Unread, ...]:
        """The replicated disk, as each guest's kernel tells it; a guest that cannot be asked does
        not silence the others.
        """
        return tuple(self._drbd_on(worker) for worker in self.workers)

    def drbd_logs(self, statuses: Sequence[DrbdAnswer]) -> tuple[DrbdLog | Unread, ...]:
        """The kernel log of each guest that tells of a StandAlone connection."""
        shells = {worker.name: worker.shell for worker in self.workers}
        return standalone_logs(shells, statuses, self.lab.clock.now)

    def _drbd_on(self, worker: GuestWorker) -> DrbdStatus | DrbdAbsent | Unread:
        try:
            return drbd_status(worker.shell, RESOURCE)
        except LabError as error:
            origin = Origin(self.lab.clock.now(), worker.subject, "")
            return Unread(origin, f"drbdsetup status {RESOURCE}", str(error))

    def volume(self) -> Volume:
        """The replicated disk: all of it may be written to."""
        from harness.bringup.drbd.volume import Replica, Volume

        host = self.lab.host
        return Volume(
            resource=RESOURCE,
            device=DEVICE,
            replicas=tuple(
                Replica(
                    worker.name,
                    worker.shell,
                    host.power(worker.name),
                    reopen=worker.log_in_anew,
                    backing=BACKING,
                )
                for worker in self.workers
            ),
            link=host.link(),
            clock=self.lab.clock,
            size=self.request.disk.bytes,
        )

    def renew(self) -> None:
        """Roll back, if a scenario had the guests before; plant what the run is to meet."""
        if self._used:
            self.close()
            began = self.lab.clock.monotonic()
            self.lab.host.rollback()
            self.log("roll-back", f"rolled back in {self.lab.clock.monotonic() - began:.1f} s")
        self._used = True
        for fault in self.lab.faults:
            self.lab.plant(fault)
            self.log("fault", f"planted {fault}")

    def at_once(self, asker: GuestWorker, ask: Callable[[GuestContainers], _F]) -> _F:
        """What ``asker``'s containers come to, while every other guest makes the same of its own:
        each of them is slow, and none needs another.
        """
        for worker in self.workers:
            worker.set_about(ask)
        return asker.set_about(ask).result()

    def close(self) -> None:
        """Let go of shells and consoles."""
        while self._workers:
            self._workers.pop().close()


@dataclass(slots=True)
class GuestWorker:
    """One guest. A `harness.bringup.machines.MachineWorker`."""

    name: str
    _pool: GuestPool
    _shell: SshShell | None = field(default=None)
    _boots: MachineBoots | None = field(default=None)
    _containers: GuestContainers | None = field(default=None)
    _hands: ThreadPoolExecutor | None = field(default=None)
    _tasks: dict[object, Future[Any]] = field(default_factory=dict)

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"guest {self.name}"

    @property
    def shell(self) -> SshShell:
        """A login, made on first use."""
        if self._shell is None:
            lab = self._pool.lab
            self._shell = lab.host.shell(self.name, lab.clock)
        return self._shell

    def log_in_anew(self) -> SshShell:
        """A login that is good after the guest went down. Raises LabError while there is none."""
        self.close()
        return self.shell

    # -- its operating system

    def modules(self) -> ModuleTable | Unread:
        """The loaded kernel modules, newest first."""
        return guest.modules(self.shell)

    def nvidia_params(self) -> NvidiaParams | ParamsAbsent | Unread:
        """The driver stub's parameters in effect."""
        return guest.nvidia_params(self.shell)

    def smi_cards(self) -> SmiCards | SmiFailed | Unread:
        """The cards that `nvidia-smi -L` lists on the guest."""
        return guest.smi_list(self.shell)

    # -- its boots

    def follow_boot(self) -> None:
        """Look at its boot until there is a baseline, and every now and then after it."""
        self._boot_log().follow()

    def boots(self) -> tuple[Sample, ...]:
        """Each look at its boot, once it is as old as the run's lane wants it."""
        return self._boot_log().stay_up(self._pool.terms.soak)

    def kernel_logs(self) -> tuple[KernelLogs, ...]:
        """What kernels said while `boots` waited, and the running one's log."""
        return self._boot_log().kernel_logs()

    def memory(self, _boots: Sequence[Sample]) -> tuple[Fact, ...]:
        """Its memory now: nothing scrapes a guest."""
        return (meminfo(self.shell, self.name),)

    def boot_ledger(self) -> BootLedger | None:
        """What is known of its boots since this roll-back; None without a window."""
        pool = self._pool
        if not pool.terms.soak:
            return None
        log, now = self._boot_log().log, pool.lab.clock.now()
        looks = log.all_looks
        return boot_ledger(
            self.name,
            "",
            since=looks[0].origin.at if looks else now,
            until=now,
            limit=pool.terms.limit,
            soak=pool.terms.soak,
            samples=looks,
            logs=log.heard,
        )

    def pod_restarts(self) -> None:
        """There is no cluster."""

    def reboots(self) -> Reboots:
        """It is made to boot anew in every way that there is, and what was seen of each."""
        return self._boot_log().reboots()

    # -- containers on it

    def cdi_spec(self) -> CdiSpec | CdiAbsent | Unread:
        """The CDI file that the guest's own generator wrote."""
        return self._pool.at_once(self, GuestContainers.cdi_spec)

    def fresh_pod(self) -> Injected | Unread:
        """A new container that asked for a card."""
        return self._pool.at_once(self, GuestContainers.fresh_pod)

    def control_pod(self) -> Control | Unread:
        """The same without a card."""
        return self._pool.at_once(self, GuestContainers.control_pod)

    def early_pod(self) -> EarlyPod | Unread:
        """A container from before there was a CDI file."""
        return self._pool.at_once(self, GuestContainers.early_pod)

    def set_about(self, ask: Callable[[GuestContainers], _F]) -> Future[_F]:
        """Have its containers looked at by this guest's own thread, one thing after another."""
        if self._hands is None:
            self._hands = ThreadPoolExecutor(1, f"containers of {self.name}")
        if ask not in self._tasks:
            self._tasks[ask] = self._hands.submit(lambda: ask(self._run()))
        return self._tasks[ask]

    def close(self) -> None:
        """Log out. What was started on the guest goes with its roll-back."""
        if self._hands is not None:
            self._hands.shutdown(cancel_futures=True)
            self._hands = None
            self._tasks.clear()
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    def _boot_log(self) -> MachineBoots:
        if self._boots is None:
            lab = self._pool.lab
            self._boots = guest_boots(
                self.name,
                lab.clock,
                login=lambda: self.shell,
                console=lambda: lab.host.console(self.name, lab.clock),
                power=lambda: lab.host.power(self.name),
            )
        return self._boots

    def _run(self) -> GuestContainers:
        if self._containers is None:
            lab = self._pool.lab
            self._containers = GuestContainers(self.shell, node=self.name, run=lab.run_id)
        return self._containers
