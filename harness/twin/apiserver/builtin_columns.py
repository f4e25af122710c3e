"""What `kubectl get` prints of the built-in kinds, one function for each cell that is computed.

The columns and their order are those of kubectl's documented output.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.twin.apiserver.resources import Column, Obj

AGE = Column("Age", "metadata.creationTimestamp", type="date")


def _spec(obj: Obj) -> Obj:
    return obj.get("spec") or {}


def _status(obj: Obj) -> Obj:
    return obj.get("status") or {}


def _joined(values: Any, otherwise: str = "<none>") -> str:
    return ",".join(str(value) for value in values) or otherwise


def _containers(obj: Obj) -> list[Obj]:
    return list(_status(obj).get("containerStatuses") or ())


def pod_ready(obj: Obj) -> str:
    """``ready/all`` containers."""
    ready = sum(1 for status in _containers(obj) if status.get("ready"))
    return f"{ready}/{len(_spec(obj).get('containers') or ())}"


def pod_status(obj: Obj) -> str:
    """The phase, or the more telling reason of a container, a failure or a deletion."""
    status = _status(obj)
    text = status.get("reason") or status.get("phase") or "Pending"
    for container in _containers(obj):
        state = container.get("state") or {}
        waiting, ended = state.get("waiting") or {}, state.get("terminated") or {}
        text = waiting.get("reason") or ended.get("reason") or text
    return "Terminating" if obj["metadata"].get("deletionTimestamp") else str(text)


def pod_restarts(obj: Obj) -> str:
    """Restarts of all containers together."""
    return str(sum(int(status.get("restartCount", 0)) for status in _containers(obj)))


def node_status(obj: Obj) -> str:
    """Ready, NotReady or Unknown, and whether scheduling is disabled."""
    ready = [c for c in _status(obj).get("conditions") or () if c.get("type") == "Ready"]
    text = "Unknown"
    if ready:
        text = "Ready" if ready[0].get("status") == "True" else "NotReady"
    return text + (",SchedulingDisabled" if _spec(obj).get("unschedulable") else "")


def node_roles(obj: Obj) -> str:
    """Roles from the node's labels."""
    prefix = "node-role.kubernetes.io/"
    labels = obj["metadata"].get("labels") or {}
    return _joined(sorted(key[len(prefix) :] for key in labels if key.startswith(prefix)))


def _address(kind: str) -> Callable[[Obj], str]:
    def found(obj: Obj) -> str:
        addresses = _status(obj).get("addresses") or ()
        return _joined([a.get("address") for a in addresses if a.get("type") == kind])

    return found


def _info(key: str) -> Callable[[Obj], str]:
    return lambda obj: (_status(obj).get("nodeInfo") or {}).get(key, "<unknown>")


def service_ports(obj: Obj) -> str:
    """``port[:nodePort]/protocol`` of each port."""
    ports = _spec(obj).get("ports") or ()
    return _joined(
        f"{port.get('port')}{':' + str(port['nodePort']) if port.get('nodePort') else ''}"
        f"/{port.get('protocol', 'TCP')}"
        for port in ports
    )


def service_external(obj: Obj) -> str:
    """Addresses by which the outside reaches a service."""
    ingress = (_status(obj).get("loadBalancer") or {}).get("ingress") or ()
    found = [entry.get("ip") or entry.get("hostname") for entry in ingress]
    pending = "<pending>" if _spec(obj).get("type") == "LoadBalancer" else "<none>"
    return _joined(found or _spec(obj).get("externalIPs") or (), pending)


def _ratio(obj: Obj) -> str:
    return f"{_status(obj).get('readyReplicas') or 0}/{_spec(obj).get('replicas', 1)}"


def _images(obj: Obj) -> str:
    return _joined(c.get("image") for c in _template(obj).get("containers") or ())


def _template(obj: Obj) -> Obj:
    return (_spec(obj).get("template") or {}).get("spec") or {}


def _labels(values: Any) -> str:
    return _joined((f"{key}={value}" for key, value in (values or {}).items()))


def _node_selector(obj: Obj) -> str:
    return _labels(_template(obj).get("nodeSelector"))


def _counted(field: str, *, of: str) -> Callable[[Obj], int]:
    return lambda obj: int(((_status if of == "status" else _spec)(obj)).get(field) or 0)


def _size(field: str) -> Callable[[Obj], int]:
    return lambda obj: len(obj.get(field) or ())


def secret_type(obj: Obj) -> str:
    """A Secret's type, Opaque by default."""
    return str(obj.get("type") or "Opaque")


def claim_modes(obj: Obj) -> str:
    """Access modes by their short names."""
    short = {
        "ReadWriteOnce": "RWO",
        "ReadOnlyMany": "ROX",
        "ReadWriteMany": "RWX",
        "ReadWriteOncePod": "RWOP",
    }
    modes = _status(obj).get("accessModes") or _spec(obj).get("accessModes") or ()
    return _joined((short.get(mode, mode) for mode in modes), "")


def _claim_capacity(obj: Obj) -> str:
    return str((_status(obj).get("capacity") or {}).get("storage", ""))


def _volume_claim(obj: Obj) -> str:
    claim = _spec(obj).get("claimRef") or {}
    return f"{claim.get('namespace')}/{claim.get('name')}" if claim else ""


def job_status(obj: Obj) -> str:
    """Complete, Failed or Running."""
    for condition in _status(obj).get("conditions") or ():
        if condition.get("type") in ("Complete", "Failed") and condition.get("status") == "True":
            return str(condition["type"])
    return "Running"


def job_completions(obj: Obj) -> str:
    """``succeeded/wanted``."""
    return f"{_status(obj).get('succeeded') or 0}/{_spec(obj).get('completions', 1)}"


def event_object(obj: Obj) -> str:
    """``kind/name`` of what an event is about."""
    about = obj.get("involvedObject") or obj.get("regarding") or {}
    return f"{str(about.get('kind', '')).lower()}/{about.get('name', '')}"


def storage_class_name(obj: Obj) -> str:
    """The name, and whether it is the default."""
    annotations = obj["metadata"].get("annotations") or {}
    default = annotations.get("storageclass.kubernetes.io/is-default-class") == "true"
    return str(obj["metadata"]["name"]) + (" (default)" if default else "")


def _role(obj: Obj) -> str:
    reference = obj.get("roleRef") or {}
    return f"{reference.get('kind')}/{reference.get('name')}"


PODS = (
    Column("Ready", pod_ready),
    Column("Status", pod_status),
    Column("Restarts", pod_restarts),
    AGE,
    Column("IP", lambda obj: _status(obj).get("podIP", "<none>"), priority=1),
    Column("Node", lambda obj: _spec(obj).get("nodeName", "<none>"), priority=1),
)
NODES = (
    Column("Status", node_status),
    Column("Roles", node_roles),
    AGE,
    Column("Version", _info("kubeletVersion")),
    Column("Internal-IP", _address("InternalIP"), priority=1),
    Column("External-IP", _address("ExternalIP"), priority=1),
    Column("OS-Image", _info("osImage"), priority=1),
    Column("Kernel-Version", _info("kernelVersion"), priority=1),
    Column("Container-Runtime", _info("containerRuntimeVersion"), priority=1),
)
NAMESPACES = (Column("Status", "status.phase"), AGE)
SERVICES = (
    Column("Type", lambda obj: _spec(obj).get("type", "ClusterIP")),
    Column("Cluster-IP", lambda obj: _spec(obj).get("clusterIP", "<none>")),
    Column("External-IP", service_external),
    Column("Port(s)", service_ports),
    AGE,
    Column("Selector", lambda obj: _labels(_spec(obj).get("selector")), priority=1),
)
SECRETS = (Column("Type", secret_type), Column("Data", _size("data"), type="integer"), AGE)
CONFIGMAPS = (Column("Data", _size("data"), type="integer"), AGE)
ACCOUNTS = (Column("Secrets", _size("secrets"), type="integer"), AGE)
EVENTS = (
    Column("Last Seen", "lastTimestamp", type="date"),
    Column("Type", "type"),
    Column("Reason", "reason"),
    Column("Object", event_object),
    Column("Message", lambda obj: str(obj.get("message") or obj.get("note") or "").strip()),
    Column("First Seen", "firstTimestamp", type="date", priority=1),
    Column("Count", "count", type="integer", priority=1),
    Column("Name", "metadata.name", priority=1),
)
CLAIMS = (
    Column("Status", "status.phase"),
    Column("Volume", "spec.volumeName"),
    Column("Capacity", _claim_capacity),
    Column("Access Modes", claim_modes),
    Column("StorageClass", "spec.storageClassName"),
    AGE,
    Column("VolumeMode", "spec.volumeMode", priority=1),
)
VOLUMES = (
    Column("Capacity", lambda obj: (_spec(obj).get("capacity") or {}).get("storage", "")),
    Column("Access Modes", claim_modes),
    Column("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
    Column("Status", "status.phase"),
    Column("Claim", _volume_claim),
    Column("StorageClass", "spec.storageClassName"),
    Column("Reason", "status.reason"),
    AGE,
)
QUOTAS = (AGE, Column("Request", lambda obj: _labels(_status(obj).get("used"))))
DEPLOYMENTS = (
    Column("Ready", _ratio),
    Column("Up-to-date", _counted("updatedReplicas", of="status"), type="integer"),
    Column("Available", _counted("availableReplicas", of="status"), type="integer"),
    AGE,
    Column("Images", _images, priority=1),
)
DAEMONSETS = (
    Column("Desired", _counted("desiredNumberScheduled", of="status"), type="integer"),
    Column("Current", _counted("currentNumberScheduled", of="status"), type="integer"),
    Column("Ready", _counted("numberReady", of="status"), type="integer"),
    Column("Up-to-date", _counted("updatedNumberScheduled", of="status"), type="integer"),
    Column("Available", _counted("numberAvailable", of="status"), type="integer"),
    Column("Node Selector", _node_selector),
    AGE,
    Column("Images", _images, priority=1),
)
REPLICASETS = (
    Column("Desired", _counted("replicas", of="spec"), type="integer"),
    Column("Current", _counted("replicas", of="status"), type="integer"),
    Column("Ready", _counted("readyReplicas", of="status"), type="integer"),
    AGE,
    Column("Images", _images, priority=1),
)
STATEFULSETS = (Column("Ready", _ratio), AGE, Column("Images", _images, priority=1))
JOBS = (
    Column("Status", job_status),
    Column("Completions", job_completions),
    AGE,
    Column("Images", _images, priority=1),
)
LEASES = (Column("Holder", "spec.holderIdentity"), AGE)
BINDINGS = (Column("Role", _role), AGE)
STORAGE_CLASSES = (
    Column("Name", storage_class_name),
    Column("Provisioner", "provisioner"),
    Column("ReclaimPolicy", "reclaimPolicy"),
    Column("VolumeBindingMode", "volumeBindingMode"),
    Column("AllowVolumeExpansion", lambda obj: bool(obj.get("allowVolumeExpansion")), "boolean"),
    AGE,
)
RUNTIME_CLASSES = (Column("Handler", "handler"), AGE)
DEFINITIONS = (Column("Created At", "metadata.creationTimestamp"),)
