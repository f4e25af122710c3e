"""A pool that is held: what scenarios see of it, as facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.bringup import hosts, rolls
from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import PoolNotReady, TakeDownIncomplete
from harness.bringup.joined import undated, why_not
from harness.bringup.probes import ProbePods
from harness.bringup.terms import NO_TERMS, Terms
from harness.bringup.trials import Trials
from harness.bringup.watched import WatchedPool
from harness.bringup.worker import Machine, Worker
from harness.clock import Look
from harness.facts.daemonsets import DaemonSets
from harness.facts.fact import Origin, Unread
from harness.facts.joining import JoinTrack, Stage
from harness.facts.lspci import PciDrivers
from harness.facts.machineconfig import DeclaredModule, RenderedModules
from harness.facts.objects import text_at, uid_of
from harness.facts.operator import Addons, OperatorPolicy, OperatorValues
from harness.facts.pci import PciCards
from harness.facts.pool import PoolRequest, RequestedModules
from harness.facts.poolstate import PoolState
from harness.inventory.models import Gpu, Pool
from harness.observe import operator
from harness.observe import pool as observe
from harness.observe.host import pci_drivers
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease
from harness.reach.nodeshell import PodShell
from harness.reach.ssh import SshShell

if TYPE_CHECKING:
    from harness.bringup.boot_ledger import BootBooks
    from harness.bringup.booting import Booting
    from harness.bringup.catalogue import Catalogue
    from harness.bringup.clones import Clones
    from harness.bringup.drbd.volume import Volume
    from harness.bringup.leaving import Departure
    from harness.bringup.refusals import Refusals
    from harness.bringup.scratch_volume import ScratchVolume
    from harness.facts.addons import TenantAddons
    from harness.facts.diskfailover import DiskFailover
    from harness.facts.drbd import DrbdAbsent, DrbdLog, DrbdStatus
    from harness.facts.drbdlooks import Answer as DrbdAnswer
    from harness.facts.headroom import Headroom
    from harness.facts.linstorlooks import LinstorLook
    from harness.facts.remains import Remains

RENEW_EVERY = 240.0
"""The longest a wait goes on without renewing the lease, in seconds of the lab's time."""


@dataclass(slots=True)
class HeldPool:
    """A pool this run holds. ``since`` is when it was asked for, by the lab's time.

    ``stood``: it was there before this run looked. Its nodes may then have been Ready earlier than
    the last time they became so, hence a late one says nothing of how long joining took.
    ``measured``: what room its storage had then, None where LINSTOR could not be asked. ``note``
    writes into the ledger what bring-up does; ``before`` is what was there before it was asked for,
    None where nobody wants to know; ``at_end`` is done first when it is taken down, as it stands.
    ``books`` are kept of its boots where the run has a window for them.
    """

    lab: ConnectedLab
    name: str
    watched: WatchedPool
    lease: PoolLease
    since: float
    stood: bool = False
    terms: Terms = NO_TERMS
    measured: Headroom | None = None
    note: Callable[[str, str], None] = lambda *_: None
    before: Remains | None = None
    ending: Callable[[], None] | None = None
    at_end: list[Callable[[], None]] = field(default_factory=list)
    books: BootBooks | None = None
    _workers: list[Worker] = field(default_factory=list)
    _probes: ProbePods | None = field(default=None)
    _trials: Trials | None = field(default=None)
    _hosts: dict[str, SshShell] = field(default_factory=dict)
    _scratch: ScratchVolume | None = field(default=None)

    @property
    def request(self) -> Pool:
        """What the inventory asks for."""
        return self.lab.inventory.pools[self.name]

    @property
    def card(self) -> Gpu | None:
        """The card its workers get, None in a pool without one."""
        return self.lab.inventory.card(self.name)

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"pool {self.name}"

    @property
    def cards(self) -> int:
        """Cards that each worker has."""
        return self.request.cards

    @property
    def replicas(self) -> int:
        """Copies that DRBD is to keep of each of its disks, 0 where it keeps none."""
        storage = self.lab.inventory.storage_classes[self.request.storage_class]
        return storage.replicas if storage.drbd else 0

    @property
    def devices(self) -> tuple[str, ...]:
        """The resource name of each card that a worker gets, one for each card."""
        card = self.card
        return (card.resource_name,) * self.request.cards if card is not None else ()

    @property
    def pci_id(self) -> str:
        """Vendor and device of the pool's card ("10de:26b9"), empty without one."""
        return self.card.pci_id if self.card is not None else ""

    @property
    def flavour(self) -> str:
        """The flavour of kernel modules that the inventory names for its card, "" without one."""
        return self.card.flavour if self.card is not None else ""

    @property
    def cuda_success(self) -> str:
        """What the CUDA program writes when its kernel ran to the right result."""
        return self.lab.inventory.probes(self.name).cuda_success

    @property
    def expected_modules(self) -> tuple[str, ...]:
        """The kernel modules to be live: what the pool's card needs, and what the request lists."""
        needed = self.card.modules if self.card is not None else ()
        listed = (one.name for one in self.request.kernel_modules or ())
        return tuple(dict.fromkeys((*needed, *listed)))

    @property
    def written_modules(self) -> RequestedModules:
        """kernelModules as this run wrote it: absent, or exactly this list."""
        written = self.request.kernel_modules
        if written is None:
            return RequestedModules(None)
        return RequestedModules(
            tuple(DeclaredModule(one.name, tuple(one.parameters or ())) for one in written)
        )

    @property
    def machines(self) -> list[Machine]:
        """The pool's machines, at least one, with their cards. Raises PoolNotReady."""
        found = observe.workers(*self._place)
        if not found:
            raise PoolNotReady(self._why_not())
        now = self.lab.clock.now
        asked = observe.vmi_gpus(*self._place, now=now)
        given = observe.launcher_gpus(*self._place, now=now)
        return [
            Machine(
                one.name,
                vmi,
                launcher,
                self._pci_cards(one.node),
                text_at(one.vmi, "status", "nodeName"),
                self,
            )
            for one, vmi, launcher in zip(found, asked, given, strict=True)
        ]

    def stored_request(self) -> PoolRequest | Unread:
        """What the pool's HelmRelease holds."""
        return observe.request_read_back(*self._place, now=self.lab.clock.now)

    def rendered_modules(self) -> RenderedModules | Unread:
        """The modules that the machine config in use declares."""
        return observe.rendered_modules(*self._place, now=self.lab.clock.now)

    @property
    def booting(self) -> Booting:
        """The image that it boots, installs and runs, and what that depends on."""
        from harness.bringup.booting import Booting

        return Booting(self)

    @property
    def join(self) -> tuple[JoinTrack, ...]:
        """How far each worker got."""
        tracks = self.watched.tracks(self.since)
        return tuple(map(undated, tracks)) if self.stood else tracks

    @property
    def workers(self) -> list[Worker]:
        """The workers that are Ready, at least one. Raises PoolNotReady, saying what is stuck.

        Where fewer are Ready than were asked for, one that cannot be asked stands at the end: what
        is said of every worker is not established by some of them. Holding on to the pool is
        renewed here, before each look at a worker, and where the run's lane has a window, so is
        the look at its boot: following it costs no scenario of its own.
        """
        self.lease.renew_if_due(self.lab.clock)
        if not self._workers:
            ready = [track for track in self.join if track.stage is Stage.READY]
            self._workers = [Worker(track.node, track.machine, self) for track in ready]
        if not self._workers:
            raise PoolNotReady(self._why_not())
        if self.books is not None:
            self.books.follow(self._workers)
        if len(self._workers) < self.request.replicas:
            return [*self._workers, Worker("", "", self, absent=self._why_not())]
        return self._workers

    # -- what concerns all its workers

    def operator_values(self) -> OperatorValues | Unread:
        """What the platform renders for the tenant's GPU operator."""
        return operator.operator_values(*self._cluster, now=self.lab.clock.now)

    def addons(self) -> Addons | Unread:
        """What the tenant cluster's own release asks of the addons that touch cards."""
        return operator.addons(*self._cluster, now=self.lab.clock.now)

    def policy(self) -> OperatorPolicy | Unread:
        """What the operator says of itself, which proves nothing."""
        return operator.policy(self.lab.tenant, now=self.lab.clock.now)

    def daemonsets(self) -> DaemonSets:
        """Every DaemonSet of the tenant cluster, once the GPU operator is through with the workers.

        Raises PoolNotReady where one has not joined: the operator acts on nodes that have cards.
        """
        for worker in self.workers:
            worker.await_operator()
        return operator.daemonsets(self.lab.tenant, now=self.lab.clock.now)

    def state(self) -> PoolState | Unread:
        """What the pool consists of now."""
        tenant = self.lab.inventory.tenant
        return observe.pool_state(
            self.lab.management,
            self.lab.tenant,
            tenant.namespace,
            tenant.cluster,
            self.name,
            now=self.lab.clock.now,
        )

    def recorded_state(self) -> PoolState | Unread:
        """What the pool consisted of when an earlier run recorded it."""
        recorded, what = self.terms.recorded, f"the recorded state of pool {self.name}"
        if recorded is None:
            return Unread(Origin(self.lab.clock.now(), what, ""), what, "there is none")
        if not self.stood:
            why = "the pool of that record was gone, and this run made another"
            return Unread(recorded.origin, what, why)
        return recorded

    def forced_reconcile(self) -> tuple[PoolState | Unread, PoolState | Unread]:
        """The pool before its release was reconciled by force, and once it has settled after."""
        return rolls.forced_reconcile(self)

    @property
    def probes(self) -> ProbePods:
        """The pods that try its cards."""
        if self._probes is None:
            self._probes = ProbePods(self)
        return self._probes

    @property
    def trials(self) -> Trials:
        """Scratch pools on which its request for modules is varied and only rendered."""
        if self._trials is None:
            self._trials = Trials(self)
        return self._trials

    @property
    def refusals(self) -> Refusals:
        """Requests that its chart must refuse, or must not, tried on scratch pools."""
        from harness.bringup.refusals import Refusals

        return Refusals(self)

    @property
    def catalogue(self) -> Catalogue:
        """The platform's golden catalogue, for trials that edit it and undo that."""
        from harness.bringup.catalogue import Catalogue

        return Catalogue(self)

    def host_drivers(self, host: str) -> PciDrivers | Unread:
        """Which driver holds each NVIDIA function of a hypervisor host, asked over SSH."""
        named = next((one for one in self.lab.inventory.hosts if one.name == host), None)
        if named is None or named.ssh is None:
            what = f"lspci on host {host or '(none)'}"
            why = "the inventory names no key to log in there with" if host else "it runs nowhere"
            return Unread(Origin(self.lab.clock.now(), what, ""), what, why)
        if host not in self._hosts:
            self._hosts[host] = hosts.log_in(named, self.lab.clock)
        return pci_drivers(self._hosts[host])

    def vmi_uid(self, machine: str) -> str:
        """The UID of the VMI that a Machine runs in now, "" where there is none."""
        owner = self.watched.feeds["machines"].object(machine) or {}
        name = text_at(owner, "spec", "infrastructureRef", "name")
        return uid_of(self.watched.feeds["vmis"].object(name) or {})

    # -- its storage

    def disks(self) -> tuple[str, ...]:
        """The DRBD resources of its workers' system disks, at least one. Raises PoolNotReady."""
        from harness.observe.satellites import pool_disks

        found = pool_disks(*self._place)
        if not found:
            raise PoolNotReady(f"the pool has no disk yet: {self._why_not()}")
        return found

    def drbd(self) -> tuple[DrbdStatus | DrbdAbsent | Unread, ...]:
        """What the kernel of each storage node says of DRBD."""
        from harness.observe.drbd import drbd_statuses
        from harness.observe.satellites import satellites

        return drbd_statuses(satellites(self.lab.management), self.lab.clock.now)

    def drbd_logs(self, statuses: Sequence[DrbdAnswer]) -> tuple[DrbdLog | Unread, ...]:
        """The kernel log of each storage node that tells of a StandAlone connection."""
        from harness.observe.drbd import standalone_logs
        from harness.observe.satellites import satellites

        return standalone_logs(satellites(self.lab.management), statuses, self.lab.clock.now)

    def linstor_looks(self) -> tuple[LinstorLook, ...]:
        """LINSTOR's view of its disks beside what each kernel says. Raises PoolNotReady."""
        from harness.bringup.linstor import looks

        return looks(self)

    @property
    def clones(self) -> Clones:
        """A look at its workers' disks and the golden that they come from, as of now."""
        from harness.bringup.clones import Clones

        return Clones(self)

    def volume(self) -> Volume:
        """A scratch volume of its class, made on first use. Raises PoolNotReady."""
        from harness.bringup.scratch_volume import ScratchVolume

        if self._scratch is None:
            self._scratch = ScratchVolume(self)
        return self._scratch.get()

    def tenant_addons(self) -> TenantAddons:
        """The tenant's addons on its workers, once up or out of time. Raises PoolNotReady."""
        from harness.bringup.addon_trials import tenant_addon_facts

        return tenant_addon_facts(self)

    def disk_failover(self) -> DiskFailover | Unread:
        """Storage nodes lost beneath one of its workers, and all mended. Raises PoolNotReady."""
        from harness.bringup.disk_failover import disk_failover

        return disk_failover(self)

    def clear_scratch_volume(self) -> None:
        """Delete the scratch volume, if one was made."""
        if self._scratch is not None:
            self._scratch.clear()

    def end(self) -> None:
        """Take down what this run made, once. Raises TakeDownIncomplete when something stays."""
        if self.ending is None:
            return
        try:
            self.ending()
        except TakeDownIncomplete:
            self.ending = None
            raise
        self.ending = None

    def departure(self) -> Departure:
        """The pool taken down, with what was there before and after. Raises LabError."""
        from harness.bringup.leaving import depart

        return depart(self)

    # -- waiting while the pool stays ours

    def renew(self) -> None:
        """Before each scenario: go on holding it."""
        self.lease.renew_if_due(self.lab.clock)

    def wait(self, look: Look, seconds: float, what: str) -> bool:
        """Wait on the lab's time, renewing the lease; False when the time is over."""
        clock = self.lab.clock
        deadline = clock.deadline(seconds)
        while not deadline.expired:
            if clock.wait(look, clock.deadline(min(RENEW_EVERY, deadline.remaining())), what):
                return True
            self.lease.renew_if_due(clock)
        return False

    def pause(self, seconds: float, what: str) -> None:
        """Let the lab's time pass, renewing the lease."""
        self.wait(lambda: False, seconds, what)

    def open_shell(self, node: str) -> PodShell:
        """A privileged pod on a node, running."""
        from harness.bringup.shells import open_shell

        return open_shell(self.lab, self.request.shell_image, node)

    def close_shells(self) -> None:
        """Delete every shell's pod, and log out of hosts."""
        while self._hosts:
            self._hosts.popitem()[1].close()
        for worker in self._workers:
            worker.close()

    @property
    def _place(self) -> tuple[Kube, str, str, str]:
        tenant = self.lab.inventory.tenant
        return self.lab.management, tenant.namespace, tenant.cluster, self.name

    @property
    def _cluster(self) -> tuple[Kube, str, str]:
        tenant = self.lab.inventory.tenant
        return self.lab.management, tenant.namespace, tenant.cluster

    def _pci_cards(self, node: str) -> PciCards | Unread:
        """The guest's side of a machine; one that has not joined cannot be asked."""
        ready = {track.node for track in self.join if track.stage is Stage.READY}
        if node not in ready:
            origin = Origin(self.lab.clock.now(), f"guest {node or '(no node)'}", "")
            return Unread(origin, "the guest's PCI bus", "the machine has no Ready node to ask")
        worker = next(one for one in self.workers if one.name == node)
        return worker.pci_cards()

    def _why_not(self) -> str:
        return why_not(self.join, self.request.replicas)
