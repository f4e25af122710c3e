"""A replicated volume that trials may do with as they like, wherever its replicas live.

It knows of no lab. Who builds one says how each machine is asked, how it is switched off, and how
the wire between two is cut; what a lab cannot do is None, and trials that need it are not made.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.clock import Clock
from harness.reach.nodeshell import NodeShell
from harness.reach.power import Link, Power

if TYPE_CHECKING:
    from harness.bringup.drbd.trials import DrbdTrials


@dataclass(slots=True)
class Replica:
    """One replica: the machine that has it, by the name that its peers and the link call it.

    ``shell`` runs drbdadm and dd beside the replica (a guest, or the satellite's pod on a Node).
    ``reopen`` gives a shell once the machine is back from being switched off, and raises LabError
    while it is not; without it, the shell is taken to find its machine again by itself.
    ``backing`` is the disk below ("/dev/vdb"), "" where trials are to leave it alone.
    """

    node: str
    shell: NodeShell
    power: Power | None = None
    reopen: Callable[[], NodeShell] | None = None
    backing: str = ""


@dataclass(slots=True)
class Volume:
    """A DRBD resource with one volume, and all that trials need to put it to the test.

    ``device`` is its block device, the same on every node; ``size`` is in bytes. ``renew`` is
    called now and then while a trial waits, for whoever holds the volume by a lease. Everything on
    it is overwritten.
    """

    resource: str
    device: str
    replicas: Sequence[Replica]
    clock: Clock
    size: int
    link: Link | None = None
    renew: Callable[[], object] = lambda: None
    _trials: DrbdTrials | None = field(default=None)

    @property
    def subject(self) -> str:
        """How a verdict names it."""
        return f"volume {self.resource}"

    @property
    def trials(self) -> DrbdTrials:
        """What it can be put to; each trial is made once."""
        if self._trials is None:
            from harness.bringup.drbd.trials import DrbdTrials

            self._trials = DrbdTrials(self)
        return self._trials

    def replica(self, node: str) -> Replica:
        """The replica on a node. KeyError where it has none."""
        for one in self.replicas:
            if one.node == node:
                return one
        raise KeyError(node)

    def others(self, node: str) -> tuple[str, ...]:
        """The nodes of the other replicas."""
        return tuple(one.node for one in self.replicas if one.node != node)
