"""How long a worker has been on its boot, and whether it is still the same worker."""

from __future__ import annotations

from dataclasses import dataclass, replace

from harness.facts import guest
from harness.facts.fact import Fact, Unread
from harness.facts.reply import Output

LOOK = ("cat", guest.BOOT_ID, guest.UPTIME)
"""Asks for both in one command: between two the machine might boot."""


@dataclass(frozen=True, slots=True)
class BootLook:
    """A machine's boot at one moment: ``at`` in epoch seconds, ``uptime`` in seconds."""

    at: float
    boot_id: str
    uptime: float

    @property
    def began(self) -> float:
        """When the boot began, in epoch seconds."""
        return self.at - self.uptime


@dataclass(frozen=True, slots=True)
class BootSample(Fact):
    """A node at one moment, which ``origin.at`` tells.

    ``uptime`` in seconds from the guest's boot; ``vmi_uid`` and ``node_uid`` tell a reboot from a
    worker that was replaced; ``node_ready`` is recorded and proves nothing: a node stays Ready
    through a cycle of reboots (S-DOC).
    """

    node: str
    boot_id: str
    uptime: float
    vmi_uid: str
    node_uid: str
    node_ready: bool

    @property
    def began(self) -> float:
        """When its boot began, in epoch seconds."""
        return self.origin.at - self.uptime


@dataclass(frozen=True, slots=True)
class WorkerGone(Fact):
    """A worker that cannot be asked, because it is no more: ``gone`` names the kinds of objects
    that are not there any more, are on their way out, or are others now ("Node", "VMI").

    ``taken`` says that the whole pool was taken away meanwhile, a clause; "" where it is there.
    """

    node: str
    gone: tuple[str, ...]
    taken: str = ""


def age_at_end(before: BootSample, after: BootSample) -> float:
    """Seconds of uptime at which the boot of ``before`` had ended at the latest.

    It is the moment at which the next one began: going down and firmware are counted in.
    """
    return before.uptime + max(0.0, after.began - before.origin.at)


def read_look(output: Output, *, at: float, source: str) -> BootLook | Unread:
    """Read the reply of `LOOK`: a line with the boot id, one with the uptime."""
    first, _, rest = output.stdout.partition("\n")
    boot = guest.read_boot_id(replace(output, stdout=first), at=at, source=source)
    if isinstance(boot, Unread):
        return boot
    uptime = guest.read_uptime(replace(output, stdout=rest), at=at, source=source)
    if isinstance(uptime, Unread):
        return uptime
    return BootLook(at, boot.boot_id, uptime.seconds)


def read_sample(
    node: str,
    output: Output,
    *,
    at: float,
    vmi_uid: str = "",
    node_uid: str = "",
    node_ready: bool = True,
) -> BootSample | Unread:
    """One sample from the reply of `LOOK`; a machine of no cluster has no UIDs, and is ready."""
    source = f"guest {node}: boot id and uptime"
    look = read_look(output, at=at, source=source)
    if isinstance(look, Unread):
        return look
    origin = output.origin(at, source)
    return BootSample(origin, node, look.boot_id, look.uptime, vmi_uid, node_uid, node_ready)
