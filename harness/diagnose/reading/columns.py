"""Which field of an object each column of ``kubectl get`` shows.

Columns as the API server prints the built-in kinds and as the projects' definitions name them. A
row becomes an object with the fields that it shows, and nothing more is known of it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.diagnose.reading import cells
from harness.diagnose.reading.kinds import Known, by_kind

Obj = dict[str, Any]
Path = tuple[str, ...]
Fill = Callable[[str, Obj], tuple[Path, ...]]
"""Puts what a cell says into an object; gives the paths that are then known to be whole."""

_ABSENT = frozenset({"", "<none>", "<unset>", "<nil>"})
_UNTOLD = frozenset({"<unknown>", "<invalid>"})


def _field(path: str, read: Callable[[str], Any] = str) -> Fill:
    steps = tuple(path.split("."))

    def fill(cell: str, obj: Obj) -> tuple[Path, ...]:
        if cell in _UNTOLD:
            return ()
        value = None if cell in _ABSENT else read(cell)
        if value is not None:
            cells.put(obj, steps, value)
        elif cell not in _ABSENT:
            return ()
        return (steps,)

    return fill


def _condition(kind: str) -> Fill:
    def fill(cell: str, obj: Obj) -> tuple[Path, ...]:
        if cell in ("True", "False", "Unknown"):
            cells.condition(obj, kind)["status"] = cell
        return ()

    return fill


def _message(kind: str) -> Fill:
    def fill(cell: str, obj: Obj) -> tuple[Path, ...]:
        if cell not in _ABSENT:
            cells.condition(obj, kind)["message"] = cell
        return ()

    return fill


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns of one kind. ``needed`` are those by which its heading is known."""

    kind: str
    needed: tuple[str, ...]
    fills: Mapping[str, Fill]
    usual: tuple[str, ...] = ()


def _layout(kind: str, usual: str) -> Callable[..., Layout]:
    names = tuple(usual.split("|"))

    def made(needed: str = "", **fills: Fill) -> Layout:
        known = {_COLUMN.get(key, key.replace("_", " ")): fill for key, fill in fills.items()}
        asked = tuple(needed.split("|")) if needed else names[1:]
        return Layout(kind, asked, known, names)

    return made


_COLUMN = {
    "UP_TO_DATE": "UP-TO-DATE",
    "PORTS": "PORT(S)",
    "CLUSTER_IP": "CLUSTER-IP",
    "INTERNAL_IP": "INTERNAL-IP",
    "OS_IMAGE": "OS-IMAGE",
    "KERNEL_VERSION": "KERNEL-VERSION",
    "LIVE_MIGRATABLE": "LIVE-MIGRATABLE",
}

_WIDE_COLUMNS = (
    "NAME|NAMESPACE|LABELS|AGE|VERSION|IP|NODE|NOMINATED NODE|READINESS GATES|INTERNAL-IP"
    "|EXTERNAL-IP|OS-IMAGE|KERNEL-VERSION|CONTAINER-RUNTIME|SELECTOR|CONTAINERS|IMAGES|VOLUMEMODE"
    "|VOLUMEATTRIBUTESCLASS|SUBOBJECT|SOURCE|FIRST SEEN|COUNT|LIVE-MIGRATABLE|PAUSED|DESIRED|REASON"
    "|REQUESTEDDURATION|ENDPOINT|INSTALLED VERSION|CONTROL-PLANE ENDPOINT|KUBECONFIG|DATASTORE"
    "|AVAILABLE|REPLICAS|UP-TO-DATE|PHASE"
)
_WIDE = frozenset(_WIDE_COLUMNS.split("|"))
"""Columns that ``-o wide``, ``-A``, ``--show-labels`` or another release adds."""

_number = cells.number

LAYOUTS: tuple[Layout, ...] = (
    _layout("Pod", "NAME|READY|STATUS|RESTARTS|AGE")(
        READY=cells.pod_ready,
        STATUS=cells.pod_status,
        RESTARTS=cells.pod_restarts,
        IP=_field("status.podIP"),
        NODE=_field("spec.nodeName"),
    ),
    _layout("Node", "NAME|STATUS|ROLES|AGE|VERSION")(
        STATUS=cells.node_status,
        VERSION=_field("status.nodeInfo.kubeletVersion"),
        INTERNAL_IP=cells.node_address,
        OS_IMAGE=_field("status.nodeInfo.osImage"),
        KERNEL_VERSION=_field("status.nodeInfo.kernelVersion"),
    ),
    _layout("Service", "NAME|TYPE|CLUSTER-IP|EXTERNAL-IP|PORT(S)|AGE")(
        needed="TYPE|CLUSTER-IP|PORT(S)",
        TYPE=_field("spec.type"),
        CLUSTER_IP=_field("spec.clusterIP"),
        PORTS=cells.service_ports,
    ),
    _layout("Deployment", "NAME|READY|UP-TO-DATE|AVAILABLE|AGE")(
        READY=cells.replicas,
        UP_TO_DATE=_field("status.updatedReplicas", _number),
        AVAILABLE=_field("status.availableReplicas", _number),
    ),
    _layout("DaemonSet", "NAME|DESIRED|CURRENT|READY|UP-TO-DATE|AVAILABLE|NODE SELECTOR|AGE")(
        DESIRED=_field("status.desiredNumberScheduled", _number),
        CURRENT=_field("status.currentNumberScheduled", _number),
        READY=_field("status.numberReady", _number),
        UP_TO_DATE=_field("status.updatedNumberScheduled", _number),
        AVAILABLE=_field("status.numberAvailable", _number),
    ),
    _layout("ReplicaSet", "NAME|DESIRED|CURRENT|READY|AGE")(
        DESIRED=_field("spec.replicas", _number),
        CURRENT=_field("status.replicas", _number),
        READY=_field("status.readyReplicas", _number),
    ),
    _layout("StatefulSet", "NAME|READY|AGE")(READY=cells.replicas),
    _layout("Job", "NAME|STATUS|COMPLETIONS|DURATION|AGE")(
        needed="COMPLETIONS|DURATION|AGE",
        STATUS=cells.job_status,
        COMPLETIONS=cells.job_completions,
    ),
    _layout("Namespace", "NAME|STATUS|AGE")(STATUS=_field("status.phase")),
    _layout("ConfigMap", "NAME|DATA|AGE")(),
    _layout("Secret", "NAME|TYPE|DATA|AGE")(TYPE=_field("type")),
    _layout("PersistentVolumeClaim", "NAME|STATUS|VOLUME|CAPACITY|ACCESS MODES|STORAGECLASS|AGE")(
        needed="STATUS|VOLUME|CAPACITY|ACCESS MODES|STORAGECLASS|AGE",
        STATUS=_field("status.phase"),
        VOLUME=_field("spec.volumeName"),
        CAPACITY=_field("status.capacity.storage"),
        ACCESS_MODES=cells.access_modes("status"),
        STORAGECLASS=_field("spec.storageClassName"),
        VOLUMEMODE=_field("spec.volumeMode"),
    ),
    _layout(
        "PersistentVolume",
        "NAME|CAPACITY|ACCESS MODES|RECLAIM POLICY|STATUS|CLAIM|STORAGECLASS|AGE",
    )(
        needed="CAPACITY|ACCESS MODES|RECLAIM POLICY|STATUS|CLAIM",
        CAPACITY=_field("spec.capacity.storage"),
        ACCESS_MODES=cells.access_modes("spec"),
        STATUS=_field("status.phase"),
        CLAIM=cells.claim,
        STORAGECLASS=_field("spec.storageClassName"),
    ),
    _layout("StorageClass", "NAME|PROVISIONER|RECLAIMPOLICY|VOLUMEBINDINGMODE|AGE")(
        needed="PROVISIONER|RECLAIMPOLICY|VOLUMEBINDINGMODE",
        PROVISIONER=_field("provisioner"),
        RECLAIMPOLICY=_field("reclaimPolicy"),
        VOLUMEBINDINGMODE=_field("volumeBindingMode"),
        ALLOWVOLUMEEXPANSION=_field("allowVolumeExpansion", cells.flag),
    ),
    _layout("RuntimeClass", "NAME|HANDLER|AGE")(HANDLER=_field("handler")),
    _layout("CertificateSigningRequest", "NAME|AGE|SIGNERNAME|REQUESTOR|CONDITION")(
        needed="SIGNERNAME|REQUESTOR|CONDITION",
        SIGNERNAME=_field("spec.signerName"),
        REQUESTOR=_field("spec.username"),
        CONDITION=cells.csr_condition,
    ),
    _layout("HelmRelease", "NAME|AGE|READY|STATUS")(
        READY=_condition("Ready"), STATUS=_message("Ready")
    ),
    _layout("Kubernetes", "NAME|READY|AGE|VERSION")(
        READY=_condition("Ready"), VERSION=_field("status.version")
    ),
    _layout("KubernetesNodes", "NAME|READY|AGE|VERSION")(
        READY=_condition("Ready"), VERSION=_field("status.version")
    ),
    _layout("Package", "NAME|VARIANT|READY|STATUS")(
        needed="VARIANT|READY",
        VARIANT=_field("spec.variant"),
        READY=_condition("Ready"),
        STATUS=_message("Ready"),
    ),
    _layout("DataVolume", "NAME|PHASE|PROGRESS|RESTARTS|AGE")(
        PHASE=_field("status.phase"),
        PROGRESS=_field("status.progress"),
        RESTARTS=_field("status.restartCount", _number),
    ),
    _layout("VirtualMachine", "NAME|AGE|STATUS|READY")(
        STATUS=_field("status.printableStatus"), READY=_condition("Ready")
    ),
    _layout("VirtualMachineInstance", "NAME|AGE|PHASE|IP|NODENAME|READY")(
        PHASE=_field("status.phase"),
        NODENAME=_field("status.nodeName"),
        READY=_condition("Ready"),
        LIVE_MIGRATABLE=_condition("LiveMigratable"),
    ),
    _layout("Machine", "NAME|CLUSTER|NODENAME|PROVIDERID|PHASE|AGE|VERSION")(
        needed="CLUSTER|NODENAME|PROVIDERID|PHASE",
        CLUSTER=_field("spec.clusterName"),
        NODENAME=_field("status.nodeRef.name"),
        PROVIDERID=_field("spec.providerID"),
        PHASE=_field("status.phase"),
        VERSION=_field("spec.version"),
    ),
    _layout("MachineSet", "NAME|CLUSTER|REPLICAS|READY|AVAILABLE|AGE|VERSION")(
        needed="CLUSTER|REPLICAS|READY",
        CLUSTER=_field("spec.clusterName"),
        REPLICAS=_field("status.replicas", _number),
        READY=_field("status.readyReplicas", _number),
        AVAILABLE=_field("status.availableReplicas", _number),
    ),
    _layout("MachineDeployment", "NAME|CLUSTER|REPLICAS|READY|UPDATED|UNAVAILABLE|PHASE|AGE")(
        needed="CLUSTER|REPLICAS|READY|UPDATED|UNAVAILABLE|PHASE",
        CLUSTER=_field("spec.clusterName"),
        REPLICAS=_field("status.replicas", _number),
        READY=_field("status.readyReplicas", _number),
        UPDATED=_field("status.updatedReplicas", _number),
        UNAVAILABLE=_field("status.unavailableReplicas", _number),
        PHASE=_field("status.phase"),
    ),
    _layout("MachineHealthCheck", "NAME|CLUSTER|EXPECTEDMACHINES|MAXUNHEALTHY|CURRENTHEALTHY|AGE")(
        needed="EXPECTEDMACHINES|MAXUNHEALTHY|CURRENTHEALTHY",
        CLUSTER=_field("spec.clusterName"),
        EXPECTEDMACHINES=_field("status.expectedMachines", _number),
        MAXUNHEALTHY=_field("spec.maxUnhealthy"),
        CURRENTHEALTHY=_field("status.currentHealthy", _number),
    ),
    _layout("Cluster", "NAME|CLUSTERCLASS|PHASE|AGE|VERSION")(
        needed="CLUSTERCLASS|PHASE", PHASE=_field("status.phase")
    ),
    _layout("TenantControlPlane", "NAME|VERSION|STATUS|CONTROL-PLANE ENDPOINT|KUBECONFIG|AGE")(
        needed="VERSION|STATUS|DATASTORE",
        VERSION=_field("spec.kubernetes.version"),
        STATUS=_field("status.kubernetesResources.version.status"),
    ),
    _layout("ClusterPolicy", "NAME|STATUS|AGE")(STATUS=_field("status.state")),
    _layout("KubeVirt", "NAME|AGE|PHASE")(PHASE=_field("status.phase")),
    _layout("Event", "LAST SEEN|TYPE|REASON|OBJECT|MESSAGE")(
        needed="LAST SEEN|TYPE|REASON|OBJECT|MESSAGE",
        TYPE=_field("type"),
        REASON=_field("reason"),
        OBJECT=cells.event_object,
        MESSAGE=_field("message"),
        COUNT=_field("count", _number),
    ),
)


def layout_of(columns: tuple[str, ...], asked: tuple[Known, ...] = ()) -> Layout | None:
    """The kind whose heading this is, None where none or several could be.

    ``asked`` are the kinds that the command line names: one of those then. Headings of two columns
    say too little by themselves.
    """
    fitting = [one for one in LAYOUTS if _fits(columns, one)]
    if asked:
        fitting = [one for one in fitting if any(one.kind == known.kind for known in asked)]
    else:
        fitting = [one for one in fitting if len(one.needed) > 2]
    most = max((len(one.needed) for one in fitting), default=0)
    best = [one for one in fitting if len(one.needed) == most]
    return best[0] if len(best) == 1 else None


def _fits(columns: tuple[str, ...], layout: Layout) -> bool:
    """Whether a heading has what is needed, in the usual order, and nothing foreign."""
    known = {*layout.usual, *layout.needed, *layout.fills, *_WIDE}
    shown = [name for name in columns if name in layout.needed]
    return set(columns).issubset(known) and shown == [
        name for name in layout.usual if name in layout.needed
    ]


def usual_columns(known: Known) -> tuple[str, ...]:
    """The columns that ``kubectl get`` shows of a kind without ``-o wide``, none if not known."""
    return next((one.usual for one in LAYOUTS if one.kind == known.kind), ())


def known_of(layout: Layout) -> Known:
    """The kind of a layout."""
    known = by_kind(layout.kind)
    assert known is not None, layout.kind
    return known
