"""One worker as its cluster knows it: the machine, its kubelet, and what that has in hand."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from harness.twin.world.device_manager import DeviceManager
from harness.twin.world.heartbeats import Heartbeat
from harness.twin.world.objects import Obj

if TYPE_CHECKING:
    from harness.twin.world.guest import Guest


@dataclass(slots=True)
class Worker:
    """One machine's kubelet: ``up`` in this boot, ``network`` once the CNI is there."""

    guest: Guest
    instance: Obj
    identity: tuple[str, str]
    heartbeat: Heartbeat
    up: bool = False
    network: bool = False
    images: dict[str, None] = field(default_factory=dict)
    addresses: int = 0
    devices: DeviceManager = field(default_factory=DeviceManager)

    @property
    def name(self) -> str:
        """The Node's name."""
        return self.guest.hostname
