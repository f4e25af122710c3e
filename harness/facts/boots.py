"""One look at how long a worker has been on its boot, and whether it is still the same worker."""

from __future__ import annotations

from dataclasses import dataclass

from harness.facts.fact import Fact, Origin, Unread
from harness.facts.guest import BootId, Uptime


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


def boot_sample(
    node: str,
    boot: BootId | Unread,
    uptime: Uptime | Unread,
    *,
    vmi_uid: str,
    node_uid: str,
    node_ready: bool,
) -> BootSample | Unread:
    """One sample from the two files; the first that could not be read stands for both."""
    if isinstance(boot, Unread):
        return boot
    if isinstance(uptime, Unread):
        return uptime
    raw = f"{boot.origin.raw.strip()}\n{uptime.origin.raw.strip()}\n"
    origin = Origin(uptime.origin.at, f"guest {node}: boot id and uptime", raw)
    return BootSample(origin, node, boot.boot_id, uptime.seconds, vmi_uid, node_uid, node_ready)
