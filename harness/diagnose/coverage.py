"""What causes are told by that captures do not hold: nothing follows from it, and a person should
know it before they take `nothing is found` for `nothing is wrong`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harness.diagnose.case import MANAGEMENT, TENANT, UNKNOWN, Case, Kind, Unused

WHY = "not among the captures"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Things of one purpose. ``objects`` are kinds of ``cluster``; ``texts`` are kinds of text, any
    of which will do. ``how`` says how they are captured."""

    title: str
    how: str
    cluster: str = ""
    objects: tuple[str, ...] = ()
    texts: tuple[Kind, ...] = ()


WANTED = (
    Wanted(
        "pools and their machines",
        "kubectl -n <tenant> get helmreleases,machinedeployments,machines,kubevirtmachines,vmi -o "
        "yaml",
        MANAGEMENT,
        (
            "HelmRelease",
            "MachineDeployment",
            "Machine",
            "KubevirtMachine",
            "VirtualMachineInstance",
        ),
    ),
    Wanted(
        "what pools are made from",
        "kubectl -n <tenant> get kubevirtmachinetemplates,talosconfigtemplates -o yaml",
        MANAGEMENT,
        ("KubevirtMachineTemplate", "TalosConfigTemplate"),
    ),
    Wanted(
        "the control plane's Service",
        "kubectl -n <tenant> get services -o yaml",
        MANAGEMENT,
        ("Service",),
    ),
    Wanted(
        "disks, goldens and classes",
        "kubectl get datavolumes,persistentvolumeclaims -A -o yaml; kubectl get storageclasses -o "
        "yaml",
        MANAGEMENT,
        ("DataVolume", "PersistentVolumeClaim", "StorageClass"),
    ),
    Wanted("the hosts", "kubectl get nodes -o yaml", MANAGEMENT, ("Node",)),
    Wanted(
        "Events of the management cluster",
        "kubectl -n <tenant> get events -o yaml, within the hour that they are kept",
        MANAGEMENT,
        ("Event",),
    ),
    Wanted(
        "the tenant's Nodes, pods and DaemonSets",
        "kubectl get nodes,pods,daemonsets -A -o yaml, with the tenant's kubeconfig",
        TENANT,
        ("Node", "Pod", "DaemonSet"),
    ),
    Wanted(
        "a worker's kernel log or console",
        "talosctl -n <node> dmesg, or virtctl console",
        texts=(Kind.DMESG, Kind.CONSOLE),
    ),
    Wanted(
        "a worker's modules",
        "talosctl -n <node> read /proc/modules",
        texts=(Kind.MODULES,),
    ),
    Wanted(
        "a worker's services",
        "talosctl -n <node> services",
        texts=(Kind.TALOS_SERVICES,),
    ),
    Wanted(
        "DRBD as the hosts' kernels have it",
        "drbdsetup status --verbose, on each host",
        texts=(Kind.DRBD, Kind.PROC_DRBD),
    ),
    Wanted(
        "LINSTOR's nodes, pools and resources",
        "linstor -m node list; linstor -m storage-pool list; linstor -m resource list",
        texts=(Kind.LINSTOR,),
    ),
)
"""In the order in which a person would look."""


def missing(case: Case) -> Iterator[Unused]:
    """What a case holds nothing of, or only part of, each with how to capture it."""
    for one in WANTED:
        lacking = [kind for kind in one.objects if not _holds(case, kind, one.cluster)]
        if one.objects and lacking:
            part = "" if len(lacking) == len(one.objects) else f" (no {', '.join(lacking)})"
            yield Unused(one.title + part, f"{WHY}: {one.how}")
        elif one.texts and not case.of(*one.texts):
            yield Unused(one.title, f"{WHY}: {one.how}")


def _holds(case: Case, kind: str, cluster: str) -> bool:
    """Whether an object of a kind is there, or a list of them: an empty one tells as well."""
    seen = any(one.kind == kind and one.cluster in (cluster, UNKNOWN) for one in case.objects)
    listed = (one for one in case.listings if one.kind == kind)
    return seen or any(one.cluster in (cluster, UNKNOWN) for one in listed)
