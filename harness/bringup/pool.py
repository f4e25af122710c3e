"""A pool that is held: what scenarios see of it, as facts."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from harness.bringup.connect import ConnectedLab
from harness.bringup.errors import PoolNotReady
from harness.bringup.watched import WatchedPool
from harness.facts.fact import Origin, Unread
from harness.facts.joining import JoinTrack, Stage
from harness.facts.machineconfig import DeclaredModule, InstallImage, RenderedModules
from harness.facts.modules import ModuleTable
from harness.facts.nvidia import NvidiaParams, ParamsAbsent, SmiCards, SmiFailed
from harness.facts.pci import PciCards
from harness.facts.pool import BootSource, PoolRequest, RequestedModules
from harness.facts.vmi import LauncherGpu, VmiGpus, VmiRefusal
from harness.inventory.models import Gpu, Pool
from harness.observe import guest
from harness.observe import pool as observe
from harness.reach.kube import Kube
from harness.reach.lease import PoolLease
from harness.reach.nodeshell import NodeShell, PodShell

SHELL_BUDGET = 300.0
"""Seconds that a node may take to pull the shell's image and start its pod."""
SHELL_NAMESPACE = "hil-shell"


@dataclass(slots=True)
class Worker:
    """One worker of a pool: its Node, and a shell on it once somebody asks.

    ``absent`` is why it has no Ready node to ask, "" for one that has.
    """

    name: str
    machine: str
    _pool: HeldPool
    absent: str = ""
    _shell: PodShell | None = field(default=None)

    @property
    def shell(self) -> NodeShell:
        """The one way to the worker's operating system; its pod is made on first use.

        Raises PoolNotReady for a worker that has not joined.
        """
        if self.absent:
            raise PoolNotReady(self.absent)
        if self._shell is None:
            self._shell = self._pool.open_shell(self.name)
        return self._shell

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"node {self.name}"

    def modules(self) -> ModuleTable | Unread:
        """The loaded kernel modules, newest first."""
        return guest.modules(self.shell)

    def nvidia_params(self) -> NvidiaParams | ParamsAbsent | Unread:
        """The NVIDIA driver's parameters in effect."""
        return guest.nvidia_params(self.shell)

    def smi_cards(self) -> SmiCards | SmiFailed | Unread:
        """The cards that `nvidia-smi -L` lists in the host's root."""
        return guest.smi_list(self.shell)

    def pci_cards(self) -> PciCards | Unread:
        """NVIDIA's functions on the worker's PCI bus."""
        return guest.pci_cards(self.shell)

    def close(self) -> None:
        """Delete the shell's pod, if there is one."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a pool, joined or not: its card as each side shows it."""

    name: str
    vmi_gpus: VmiGpus | VmiRefusal | Unread
    launcher_gpu: LauncherGpu | Unread
    pci_cards: PciCards | Unread

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"machine {self.name}"


@dataclass(slots=True)
class HeldPool:
    """A pool this run holds. ``since`` is when it was asked for, by the lab's time.

    ``stood``: it was there before this run looked. Its nodes may then have been Ready earlier than
    the last time they became so, hence a late one says nothing of how long joining took.
    """

    lab: ConnectedLab
    name: str
    watched: WatchedPool
    lease: PoolLease
    since: float
    stood: bool = False
    _workers: list[Worker] = field(default_factory=list)

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
    def devices(self) -> tuple[str, ...]:
        """The resource name of each card that a worker gets, one for each card."""
        card = self.card
        return (card.resource_name,) * self.request.cards if card is not None else ()

    @property
    def pci_id(self) -> str:
        """Vendor and device of the pool's card ("10de:26b9"), empty without one."""
        return self.card.pci_id if self.card is not None else ""

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
            Machine(one.name, vmi, launcher, self._pci_cards(one.node))
            for one, vmi, launcher in zip(found, asked, given, strict=True)
        ]

    def stored_request(self) -> PoolRequest | Unread:
        """What the pool's HelmRelease holds."""
        return observe.request_read_back(*self._place, now=self.lab.clock.now)

    def rendered_modules(self) -> RenderedModules | Unread:
        """The modules that the machine config in use declares."""
        return observe.rendered_modules(*self._place, now=self.lab.clock.now)

    def boot_source(self) -> BootSource | Unread:
        """Where the pool's system disks come from."""
        return observe.boot_source(*self._place, now=self.lab.clock.now)

    def install_image(self) -> InstallImage | Unread:
        """The installer that the machine config in use names."""
        return observe.install_image(*self._place, now=self.lab.clock.now)

    @property
    def join(self) -> tuple[JoinTrack, ...]:
        """How far each worker got."""
        tracks = self.watched.tracks(self.since)
        return tuple(map(_undated, tracks)) if self.stood else tracks

    @property
    def workers(self) -> list[Worker]:
        """The workers that are Ready, at least one. Raises PoolNotReady, saying what is stuck.

        Where fewer are Ready than were asked for, one that cannot be asked stands at the end: what
        is said of every worker is not established by some of them. Holding on to the pool is
        renewed here, before each look at a worker.
        """
        self.lease.renew_if_due(self.lab.clock)
        if not self._workers:
            ready = [track for track in self.join if track.stage is Stage.READY]
            self._workers = [Worker(track.node, track.machine, self) for track in ready]
        if not self._workers:
            raise PoolNotReady(self._why_not())
        if len(self._workers) < self.request.replicas:
            return [*self._workers, Worker("", "", self, absent=self._why_not())]
        return self._workers

    def open_shell(self, node: str) -> PodShell:
        """A privileged pod on a node, running."""
        return PodShell.open(
            self.lab.tenant,
            node,
            run=self.lab.run_id,
            image=self.request.shell_image,
            wait_running=self._wait_running,
            namespace=SHELL_NAMESPACE,
        )

    def close_shells(self) -> None:
        """Delete every shell's pod."""
        for worker in self._workers:
            worker.close()

    @property
    def _place(self) -> tuple[Kube, str, str, str]:
        tenant = self.lab.inventory.tenant
        return self.lab.management, tenant.namespace, tenant.cluster, self.name

    def _pci_cards(self, node: str) -> PciCards | Unread:
        """The guest's side of a machine; one that has not joined cannot be asked."""
        ready = {track.node for track in self.join if track.stage is Stage.READY}
        if node not in ready:
            origin = Origin(self.lab.clock.now(), f"guest {node or '(no node)'}", "")
            return Unread(origin, "the guest's PCI bus", "the machine has no Ready node to ask")
        worker = next(one for one in self.workers if one.name == node)
        return worker.pci_cards()

    def _wait_running(self, kube: Kube, namespace: str, name: str) -> None:
        feed = self.lab.observatory.feed(kube, "v1", "Pod", namespace)
        seen = feed.wait(
            lambda r: (
                r.key == (namespace, name) and r.obj.get("status", {}).get("phase") == "Running"
            ),
            self.lab.clock.deadline(SHELL_BUDGET),
            f"pod {namespace}/{name} to run",
        )
        if seen is None:
            last = feed.object(name) or {}
            status = last.get("status", {})
            raise PoolNotReady(
                f"no shell on the node: pod {namespace}/{name} is {status.get('phase', 'gone')} "
                f"after {SHELL_BUDGET:.0f} s ({status.get('conditions', [])!r:.300})"
            )

    def _why_not(self) -> str:
        tracks = self.join
        stuck = [
            f"{track.machine or 'no Machine'} stands at {track.stuck_kind} {track.stuck_name}: "
            f"{track.why}"
            for track in tracks
            if track.stage is not Stage.READY
        ]
        joined = len(tracks) - len(stuck)
        some = f"{joined} of {self.request.replicas} workers" if joined else "no worker"
        return f"{some} joined: " + ("; ".join(stuck) or "the others have no Machine")


def _undated(track: JoinTrack) -> JoinTrack:
    """A track whose Ready is not dated where the date is no proof of a join in time."""
    in_time = track.seconds is not None and track.seconds <= track.budget
    return track if in_time else replace(track, seconds=None)
