"""What decides whether a pool's boots can come to an end, before any of them had the time to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.facts.apid import ControlPlanePorts
from harness.facts.extensions import Extensions
from harness.facts.fact import Unread
from harness.facts.joining import Stage
from harness.facts.machineconfig import InstallImage
from harness.facts.pool import BootSource
from harness.observe import pool as observe

if TYPE_CHECKING:
    from harness.bringup.pool import HeldPool


@dataclass(frozen=True, slots=True)
class Booting:
    """The image that a pool boots, installs and runs, and what its services depend on."""

    pool: HeldPool

    def source(self) -> BootSource | Unread:
        """Where the pool's system disks come from."""
        lab, tenant = self.pool.lab, self.pool.lab.inventory.tenant
        place = (lab.management, tenant.namespace, tenant.cluster, self.pool.name)
        return observe.boot_source(*place, now=lab.clock.now)

    def installer(self) -> InstallImage | Unread:
        """The installer that the machine config in use names."""
        lab, tenant = self.pool.lab, self.pool.lab.inventory.tenant
        place = (lab.management, tenant.namespace, tenant.cluster, self.pool.name)
        return observe.install_image(*place, now=lab.clock.now)

    def running(self) -> tuple[Extensions | Unread, ...]:
        """What each worker that has joined runs; empty while there is none to ask."""
        ready = any(track.stage is Stage.READY for track in self.pool.join)
        workers = self.pool.workers if ready else ()
        return tuple(one.extensions() for one in workers if not one.absent)

    def control_plane(self) -> ControlPlanePorts | Unread:
        """The ports of the Service before the tenant's control plane."""
        lab, tenant = self.pool.lab, self.pool.lab.inventory.tenant
        place = (lab.management, tenant.namespace, tenant.cluster)
        return observe.control_plane_ports(*place, now=lab.clock.now)

    @property
    def control_plane_subject(self) -> str:
        """How a verdict names that Service."""
        tenant = self.pool.lab.inventory.tenant
        return f"Service {tenant.namespace}/kubernetes-{tenant.cluster}"

    @property
    def known(self) -> dict[str, tuple[str, ...]]:
        """The extensions of each schematic that the inventory lists, by its id."""
        schematics = self.pool.lab.inventory.schematics.values()
        return {one.id: tuple(one.extensions) for one in schematics}
