"""What scenarios that need no cluster see of a pool: its machines, whatever stands beneath them.

A worker pool of a cluster, real or simulated, and a set of QEMU guests both are one. Which of the
two a scenario was given it cannot tell, and need not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from harness.bringup.boots import Log, Sample
    from harness.bringup.drbd.volume import Volume
    from harness.bringup.terms import Terms
    from harness.facts.bootledger import BootLedger, PodRestarts
    from harness.facts.cdi import CdiAbsent, CdiSpec
    from harness.facts.daemonsets import DaemonSets
    from harness.facts.drbd import DrbdAbsent, DrbdLog, DrbdStatus
    from harness.facts.drbdlooks import Answer as DrbdAnswer
    from harness.facts.fact import Fact, Unread
    from harness.facts.modules import ModuleTable
    from harness.facts.nvidia import NvidiaParams, ParamsAbsent, SmiCards, SmiFailed
    from harness.facts.operator import Addons
    from harness.facts.probes import Control, EarlyPod, Injected
    from harness.facts.reboots import Reboots


class MachineWorker(Protocol):
    """One machine of a pool."""

    @property
    def name(self) -> str:
        """Its own name."""

    @property
    def subject(self) -> str:
        """How a verdict names it."""

    def modules(self) -> ModuleTable | Unread:
        """The loaded kernel modules, newest first."""

    def nvidia_params(self) -> NvidiaParams | ParamsAbsent | Unread:
        """The NVIDIA driver's parameters in effect."""

    def smi_cards(self) -> SmiCards | SmiFailed | Unread:
        """The cards that `nvidia-smi -L` lists on the machine."""

    def cdi_spec(self) -> CdiSpec | CdiAbsent | Unread:
        """The CDI file that the operating system's service wrote."""

    def boots(self) -> tuple[Sample, ...]:
        """Each look at its boot, once it is as old as the run's lane wants it."""

    def kernel_logs(self) -> tuple[Log, ...]:
        """What kernels said while `boots` waited, and the running one's log."""

    def memory(self, boots: Sequence[Sample]) -> tuple[Fact, ...]:
        """Its memory since the first of these looks' boot began, and now; or why it is unknown."""

    def boot_ledger(self) -> BootLedger | None:
        """What is known of its boots since it was brought up; None without a window."""

    def pod_restarts(self) -> PodRestarts | None:
        """The pods on it and each time that one was started again; None where there is none."""

    def reboots(self) -> Reboots:
        """It is made to boot anew in every way that there is, and what was seen of each."""

    def fresh_pod(self) -> Injected | Unread:
        """A new container that asked for a card, and what it sees."""

    def control_pod(self) -> Control | Unread:
        """The same without a card."""

    def early_pod(self) -> EarlyPod | Unread:
        """A container from before the machine offered a card, once it does."""


class MachinePool(Protocol):
    """The machines of one pool. ``terms``: what the run asks of them beside the inventory."""

    @property
    def name(self) -> str:
        """The pool's name in the inventory."""

    @property
    def subject(self) -> str:
        """How a verdict names it."""

    @property
    def terms(self) -> Terms:
        """What the run asks of it beside what the inventory says."""

    @property
    def cards(self) -> int:
        """Cards that each machine has; a stub of one counts."""

    @property
    def expected_modules(self) -> tuple[str, ...]:
        """The kernel modules to be live."""

    @property
    def replicas(self) -> int:
        """Copies that DRBD is to keep of each of its disks."""

    @property
    def workers(self) -> Sequence[MachineWorker]:
        """Its machines, at least one. Raises PoolNotReady."""

    def addons(self) -> Addons | Unread | None:
        """What the cluster asks of the addons that touch cards; None where there is no cluster."""

    def daemonsets(self) -> DaemonSets | None:
        """Every DaemonSet of the cluster; None where there is no cluster."""

    def drbd(self) -> tuple[DrbdStatus | DrbdAbsent | Unread, ...]:
        """Its disks' DRBD, as the kernel of each machine that keeps a copy tells it."""

    def drbd_logs(self, statuses: Sequence[DrbdAnswer]) -> tuple[DrbdLog | Unread, ...]:
        """The kernel log of each machine that tells of a StandAlone connection."""

    def disks(self) -> tuple[str, ...]:
        """The DRBD resources of its disks, by name. Raises PoolNotReady where it has none yet."""

    def volume(self) -> Volume:
        """A replicated volume to do with as one likes. Raises PoolNotReady."""

    def renew(self) -> None:
        """Before each scenario: see that the pool is still ours, and as a scenario may expect it.

        A set of guests is rolled back to where it was after its boot; a cluster's pool goes on.
        """
