"""One worker of a held pool: its machine, its node, the pods that try its card; all as facts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, TypeVar

from harness.bringup.boot_ledger import ledger_of
from harness.bringup.boots import Log, Sample
from harness.bringup.errors import PoolNotReady
from harness.bringup.machine_boots import MachineBoots
from harness.bringup.node_boots import node_boots
from harness.bringup.operator import OperatorWait
from harness.bringup.probes import NAMESPACE, Made
from harness.facts.apid import Listening
from harness.facts.bootledger import BootLedger, PodRestarts
from harness.facts.cdi import CdiAbsent, CdiSpec
from harness.facts.cdifiles import RUN_ONLY
from harness.facts.driver import DriverAbsent, DriverVersion
from harness.facts.extensions import Extensions
from harness.facts.fabric import FabricStates
from harness.facts.fact import Fact, Origin, Unread
from harness.facts.gpunode import GpuNode
from harness.facts.lspci import PciDrivers
from harness.facts.modules import ModuleTable
from harness.facts.nvidia import NvidiaParams, ParamsAbsent, SmiCards, SmiFailed
from harness.facts.pci import PciCards
from harness.facts.probes import Control, CudaRun, EarlyPod, Injected
from harness.facts.reboots import Reboots
from harness.facts.validator import (
    CudaValidation,
    DriverReady,
    DriverReadyAbsent,
    ValidatorAbsent,
    ValidatorPod,
)
from harness.facts.vmi import LauncherGpu, VmiGpus, VmiRefusal
from harness.observe import containers, guest, operator, probes
from harness.reach.kube import Kube
from harness.reach.nodeshell import NodeShell, PodShell

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool

_F = TypeVar("_F")


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
    _boots: MachineBoots | None = field(default=None)
    _operator: OperatorWait | None = field(default=None)
    _tried: dict[str, object] = field(default_factory=dict)

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

    # -- its operating system

    def modules(self) -> ModuleTable | Unread:
        """The loaded kernel modules, newest first."""
        return guest.modules(self.shell)

    def nvidia_params(self) -> NvidiaParams | ParamsAbsent | Unread:
        """The NVIDIA driver's parameters in effect."""
        return guest.nvidia_params(self.shell)

    def driver_version(self) -> DriverVersion | DriverAbsent | Unread:
        """The loaded driver's release, and whether its modules are the open ones."""
        return guest.driver_version(self.shell)

    def smi_cards(self) -> SmiCards | SmiFailed | Unread:
        """The cards that `nvidia-smi -L` lists in the host's root."""
        return guest.smi_list(self.shell)

    def fabric(self) -> FabricStates | SmiFailed | Unread:
        """How each card stands with an NVLink fabric."""
        return guest.fabric_states(self.shell)

    def pci_cards(self) -> PciCards | Unread:
        """NVIDIA's functions on the worker's PCI bus."""
        return guest.pci_cards(self.shell)

    def extensions(self) -> Extensions | Unread:
        """The schematic that it runs, and its extensions."""
        return guest.running_extensions(self.shell, self.name)

    def listening(self) -> Listening | Unread:
        """The TCP ports on which somebody listens on it."""
        return guest.listening(self.shell, self.name)

    def boots(self) -> tuple[Sample, ...]:
        """Each look at its boot, once it is as old as the run's lane wants it: this waits for it,
        and no longer than is missing. Where it rebooted, the last look is at the next boot.
        """
        return self._boots_of().stay_up(self._pool.terms.soak)

    def follow_boot(self) -> None:
        """Look at its boot until there is a baseline, and every now and then after it."""
        self._boots_of().follow()

    def kernel_logs(self) -> tuple[Log, ...]:
        """What its kernel said, as `boots` left it."""
        return self._boots_of().kernel_logs()

    def memory(self, boots: Sequence[Sample]) -> tuple[Fact, ...]:
        """Its memory since the first of these looks' boot began, as scraped, and as it is now."""
        from harness.bringup.prometheus import memory_of

        return memory_of(self, boots)

    def boot_ledger(self) -> BootLedger | None:
        """What is known of its boots since the pool was asked for; None without a window."""
        if self.absent or not self._pool.terms.soak:
            return None
        return ledger_of(self, self._boots_of().log)

    def pod_restarts(self) -> PodRestarts | None:
        """The pods on it and each time that one was started again; None where none was watched."""
        books = self._pool.books
        if self.absent or books is None:
            return None
        books.take()
        return books.restarts(self.name, self._now())

    def reboots(self) -> Reboots:
        """It is made to boot anew in every way that there is, and what was seen of each."""
        found = self._boots_of().reboots()
        self._operator = None  # the operator comes up anew with it
        return found

    # -- the GPU operator on it: asked once it is through, or its budget over

    def gpu_node(self) -> GpuNode | Unread:
        """What its Node offers of cards."""
        self.await_operator()
        return operator.gpu_node(self._pool.lab.tenant, self.name, now=self._now)

    def validator(self) -> ValidatorPod | ValidatorAbsent:
        """How far the operator's validator got."""
        self.await_operator()
        return operator.validator_pod(self._pool.lab.tenant, self.name, now=self._now)

    def driver_ready(self) -> DriverReady | DriverReadyAbsent | Unread:
        """What the validator's driver stage left on the node."""
        self.await_operator()
        return guest.driver_ready(self.shell)

    def cuda_validation(self) -> CudaValidation | Unread:
        """The pod in which the validator had a CUDA program run."""
        self.await_operator()
        return operator.cuda_validation(self._pool.lab.tenant, self.name, now=self._now)

    def cdi_spec(self) -> CdiSpec | CdiAbsent | Unread:
        """The CDI file that the operating system's service wrote."""
        self.await_operator()
        return guest.cdi_spec(self.shell)

    # -- pods that try its card, each made once and gone when it has been looked at

    def fresh_pod(self) -> Injected | Unread:
        """A new pod with one card as its limit, and what it sees."""
        return self._once("fresh", self._fresh_pod)

    def control_pod(self) -> Control | Unread:
        """The same without a card."""
        return self._once("control", self._control_pod)

    def cuda_pod(self) -> CudaRun | Unread:
        """A new pod with one card that runs one CUDA program."""
        return self._once("cuda", self._cuda_pod)

    def early_pod(self) -> EarlyPod | Unread:
        """The pod that was made before the node offered a card, once it does.

        It is deleted then. For the scheduler it has a card, served or not, so no other pod would
        get that one: it has to be made anew.
        """
        return self._once("early", self._early_pod)

    def close(self) -> None:
        """Delete the shell's pod, if there is one."""
        if self._shell is not None:
            self._shell.close()
            self._shell = None

    @property
    def pool(self) -> HeldPool:
        """The pool that it is of."""
        return self._pool

    def _boots_of(self) -> MachineBoots:
        if self._boots is None:
            self._boots = node_boots(self)
        return self._boots

    def await_operator(self) -> None:
        """Return when the GPU operator is through with the node, or its time is over.

        Raises PoolNotReady for a worker that has not joined.
        """
        if self.absent:
            raise PoolNotReady(self.absent)
        if self._operator is None:
            self._operator = OperatorWait(self._pool, self.name)
        self._operator()

    def _once(self, kind: str, look: Callable[[], _F]) -> _F:
        if self.absent:
            raise PoolNotReady(self.absent)
        if kind not in self._tried:
            self._tried[kind] = look()
        seen: _F = self._tried[kind]  # type: ignore[assignment]  # kept under its own kind
        return seen

    def _fresh_pod(self) -> Injected | Unread:
        self._free_the_card()
        made = self._pool.probes.fresh(self.name)
        return self._look(made, lambda: self._with_files(made))

    def _with_files(self, made: Made) -> Injected | Unread:
        """What a fresh pod sees; where its runtime resolves no device, the files it resolved from.

        Talos' containerd reads /run/cdi alone (gpu_path 6).
        """
        seen = probes.injected(*self._probe(made), now=self._now)
        if isinstance(seen, Injected) and "CDI" in seen.stored.message:
            return replace(seen, files=containers.cdi_files(self.shell, "", RUN_ONLY))
        return seen

    def _control_pod(self) -> Control | Unread:
        self.await_operator()
        made = self._pool.probes.control(self.name)
        return self._look(made, lambda: probes.control(*self._probe(made), now=self._now))

    def _cuda_pod(self) -> CudaRun | Unread:
        self._free_the_card()
        made = self._pool.probes.cuda(self.name)
        return self._look(made, lambda: probes.cuda_run(*self._probe(made), now=self._now))

    def _early_pod(self) -> EarlyPod | Unread:
        made = self._pool.probes.early.get(self.name)
        if made is None:
            return self._not_early()
        self.await_operator()
        kube, space, pod = self._probe(made)
        return self._look(
            made, lambda: probes.early_pod(kube, space, pod, made.advertised, now=self._now)
        )

    def _free_the_card(self) -> None:
        """The early pod is looked at and goes before another is to have the card."""
        self.await_operator()
        self.early_pod()

    def _look(self, made: Made, look: Callable[[], _F]) -> _F | Unread:
        if made.refused is not None:
            return made.refused
        seen = look()
        self._pool.probes.delete(made)
        return seen

    def _not_early(self) -> Unread:
        why = "the node was there already when this run came, so no pod is older than its driver"
        what = f"a pod on {self.name} from before it offered a card"
        return Unread(Origin(self._now(), f"{self._pool.lab.tenant.name} {what}", ""), what, why)

    def _probe(self, made: Made) -> tuple[Kube, str, str]:
        return self._pool.lab.tenant, NAMESPACE, made.pod

    def _now(self) -> float:
        return self._pool.lab.clock.now()


@dataclass(frozen=True, slots=True)
class Machine:
    """One machine of a pool, joined or not: its card as each side shows it.

    ``host`` is the hypervisor host that it runs on, "" while it runs on none.
    """

    name: str
    vmi_gpus: VmiGpus | VmiRefusal | Unread
    launcher_gpu: LauncherGpu | Unread
    pci_cards: PciCards | Unread
    host: str
    _pool: HeldPool

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"machine {self.name}"

    def host_drivers(self) -> PciDrivers | Unread:
        """Which driver holds each NVIDIA function of the machine's hypervisor host."""
        return self._pool.host_drivers(self.host)
