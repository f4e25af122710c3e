"""A lab that can be reached: its clock, its clusters, and one watch per kind."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from pathlib import Path

from harness.clock import Clock, HttpTimeSource, VirtualClock, WallClock
from harness.inventory.models import Lab
from harness.inventory.naming import cluster_name
from harness.inventory.secrets import SecretUnavailableError
from harness.reach.access import client_from_file, client_from_text
from harness.reach.errors import KubeconfigMissing, LabError
from harness.reach.kube import Kube
from harness.reach.watch import Observatory

ADMIN_KEY = "super-admin.conf"
"""Key of the tenant's admin Secret that holds the kubeconfig with the external address
(objects.md section 4)."""


@dataclass(frozen=True, slots=True)
class Reachable:
    """How to reach a lab: a kubeconfig (or its text), a context, and a clock to move if any."""

    kubeconfig: Path | str
    context: str
    clock_url: str = ""


def reachable(lab: Lab) -> Reachable:
    """How the inventory says its lab is reached. Raises LabError when it does not say."""
    if lab.management is None:
        raise LabError(
            f"reach the lab {lab.name}",
            "an inventory without `management`",
            "name its kubeconfig and context",
        )
    access = lab.management
    where = access.kubeconfig.where
    try:
        text = access.kubeconfig.document()
    except SecretUnavailableError as missing:
        raise KubeconfigMissing(f"read the kubeconfig {where}", str(missing), "set it") from missing
    return Reachable(text, access.context, str(access.clock_url or ""))


@dataclass(slots=True)
class ConnectedLab:
    """A lab within reach. Close it when done."""

    inventory: Lab
    clock: Clock
    management: Kube
    observatory: Observatory
    run_id: str
    _tenant: Kube | None = field(default=None)

    @property
    def tenant(self) -> Kube:
        """The tenant cluster, reached with the kubeconfig that its own Secret holds."""
        if self._tenant is None:
            self._tenant = self._connect_tenant()
        return self._tenant

    def close(self) -> None:
        """Stop watching."""
        self.observatory.close()

    def _connect_tenant(self) -> Kube:
        place = self.inventory.tenant
        secret_name = f"{cluster_name(place.cluster)}-admin-kubeconfig"
        tried = f"read Secret {place.namespace}/{secret_name} for the tenant's kubeconfig"
        secret = self.management.get("v1", "Secret", place.namespace, secret_name)
        if secret is None:
            raise LabError(tried, "no such Secret", f"is the tenant cluster {place.cluster} there?")
        held = (secret.get("data") or {}).get(ADMIN_KEY)
        if not held:
            raise LabError(tried, f"no key {ADMIN_KEY} in it", "wait for its control plane")
        client = client_from_text(base64.b64decode(held).decode(), source=secret_name)
        return Kube(f"tenant {place.cluster}", client, self.clock)


def connect(lab: Lab, way: Reachable, run_id: str) -> ConnectedLab:
    """Connect to a lab. Nothing is written; an unreachable API is found out here."""
    if isinstance(way.kubeconfig, Path):
        client = client_from_file(way.kubeconfig, way.context)
    else:
        client = client_from_text(way.kubeconfig, way.context)
    clock: Clock = VirtualClock(HttpTimeSource(way.clock_url)) if way.clock_url else WallClock()
    management = Kube("management", client, clock)
    management.get("v1", "Namespace", "", lab.tenant.namespace)
    return ConnectedLab(lab, clock, management, Observatory(clock), run_id)
