"""What a run asks of each cluster's API, as permissions: a line for each, with what it is for.

An access review answers for the credentials at hand, and writes nothing. The table is held to what
a run really asks by a test.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

READ = ("get", "list", "watch")
MAKE = ("create", "delete")


@dataclass(frozen=True, slots=True)
class Permission:
    """Verbs on a resource. ``where`` is "tenant" for the tenant's namespace, another namespace's
    name, or "" for the whole cluster; ``why`` is what does not work without it.
    """

    group: str
    resource: str
    verbs: tuple[str, ...]
    where: str
    why: str
    subresource: str = ""
    needed: bool = True

    @property
    def named(self) -> str:
        """The resource as RBAC writes it, with its group."""
        whole = f"{self.resource}/{self.subresource}" if self.subresource else self.resource
        return f"{whole}.{self.group}" if self.group else whole


@dataclass(frozen=True, slots=True)
class Extent:
    """What of the table a lane needs."""

    cards: bool = False
    clones: bool = False
    platform: bool = False
    disruption: bool = False
    console: bool = True


TENANT = "tenant"
_NOT_FOLLOWED = ("jobs", "kubevirtmachinetemplates", "machinehealthchecks")
GOLDENS = "cozy-public"


def of_management(extent: Extent) -> Iterator[Permission]:
    """What is asked of the management cluster."""
    pools = (*READ, *MAKE, "patch")
    yield Permission("", "namespaces", ("get",), "", "find the tenant")
    yield Permission("", "secrets", ("get",), TENANT, "read the tenant's kubeconfig")
    yield Permission(
        "coordination.k8s.io", "leases", (*READ, "create", "update"), TENANT, "hold a pool"
    )
    yield Permission("apps.cozystack.io", "kubernetesnodeses", pools, TENANT, "ask for a pool")
    watched = (
        ("cluster.x-k8s.io", "machines"),
        ("cluster.x-k8s.io", "machinesets"),
        ("cluster.x-k8s.io", "machinedeployments"),
        ("infrastructure.cluster.x-k8s.io", "kubevirtmachines"),
        ("infrastructure.cluster.x-k8s.io", "kubevirtmachinetemplates"),
        ("bootstrap.cluster.x-k8s.io", "talosconfigtemplates"),
        ("kubevirt.io", "virtualmachines"),
        ("kubevirt.io", "virtualmachineinstances"),
        ("cdi.kubevirt.io", "datavolumes"),
        ("helm.toolkit.fluxcd.io", "helmreleases"),
        ("cluster.x-k8s.io", "machinehealthchecks"),
        ("batch", "jobs"),
        ("", "pods"),
        ("", "persistentvolumeclaims"),
        ("", "events"),
    )
    for group, resource in watched:
        verbs = ("get", "list") if resource in _NOT_FOLLOWED else READ
        yield Permission(group, resource, verbs, TENANT, "follow a pool's workers and disks")
    yield Permission(
        "", "persistentvolumeclaims", MAKE, TENANT, "put a scratch volume to a trial", needed=False
    )
    yield Permission(
        "cluster.x-k8s.io", "machinedeployments", ("patch",), TENANT, "clear trials away"
    )
    yield Permission(
        "bootstrap.cluster.x-k8s.io", "talosconfigtemplates", ("delete",), TENANT, "clear trials"
    )
    yield Permission(
        "helm.toolkit.fluxcd.io", "helmreleases", ("patch",), TENANT, "reconcile by force"
    )
    yield Permission("", "pods", ("create",), TENANT, "look into a launcher", "exec", needed=False)
    yield Permission("", "nodes", ("get", "list"), "", "see the hosts and their cards")
    yield Permission("", "pods", ("list",), "", "see who has the cards", needed=extent.cards)
    yield Permission("storage.k8s.io", "storageclasses", ("get", "list"), "", "find disks' classes")
    yield Permission("", "persistentvolumes", ("get", "list"), "", "see what is left behind")
    yield Permission("", "resourcequotas", ("list",), TENANT, "see whether disks fit")
    yield Permission(
        "instancetype.kubevirt.io",
        "virtualmachineclusterinstancetypes",
        ("get", "list"),
        "",
        "find the workers' size",
    )
    yield Permission("", "pods", ("list",), "cozy-linstor", "find the storage nodes")
    yield Permission("", "pods", ("create",), "cozy-linstor", "ask the kernels of DRBD", "exec")
    for group, resource in (
        ("apps", "deployments"),
        ("source.toolkit.fluxcd.io", "ocirepositories"),
    ):
        why = "read which platform is installed"
        yield Permission(group, resource, ("get",), "cozy-system", why, needed=False)
    if extent.console:
        yield Permission(
            "subresources.kubevirt.io",
            "virtualmachineinstances",
            ("get",),
            TENANT,
            "read serial consoles",
            "console",
        )
    if extent.clones:
        yield Permission("cdi.kubevirt.io", "datavolumes", READ, GOLDENS, "find golden images")
    if extent.platform:
        yield Permission("cozystack.io", "packages", ("get", "patch"), "", "edit the catalogue")
        made = ("list", "create", "delete")
        why = "make goldens of its own, and undo it"
        yield Permission("cdi.kubevirt.io", "datavolumes", made, GOLDENS, why)
        yield Permission("", "persistentvolumeclaims", made, GOLDENS, why)


def of_tenant(extent: Extent) -> Iterator[Permission]:
    """What is asked of the tenant cluster."""
    yield Permission("", "nodes", READ, "", "see workers join")
    yield Permission(
        "", "namespaces", ("get", "create", "patch"), "", "make the probes' namespaces"
    )
    yield Permission("", "pods", (*READ, *MAKE), "hil-shell", "open a shell on a worker")
    yield Permission("", "pods", ("create",), "hil-shell", "ask a worker", "exec")
    yield Permission("", "pods", (*READ, *MAKE), "hil-probe", "try a card")
    yield Permission("", "pods", ("get",), "hil-probe", "read what a probe wrote", "log")
    yield Permission("", "pods", ("create",), "hil-probe", "look into a probe", "exec")
    yield Permission("apps", "daemonsets", ("list",), "", "see who brings drivers")
    yield Permission("storage.k8s.io", "storageclasses", ("list",), "", "try the CSI addon")
    if extent.cards:
        yield Permission("nvidia.com", "clusterpolicies", ("get",), "", "ask the GPU operator")
