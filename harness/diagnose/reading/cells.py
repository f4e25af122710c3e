"""What single cells of ``kubectl get`` mean, where they show more or less than one field."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from harness.diagnose.reading.kinds import by_word

Obj = dict[str, Any]
Path = tuple[str, ...]

PHASES = frozenset({"Pending", "Running", "Succeeded", "Failed", "Unknown"})
_DONE = {"Completed": "Succeeded", "Error": "", "OOMKilled": "", "Evicted": "Failed"}
_REFUSED = frozenset(
    {"Evicted", "NodeLost", "UnexpectedAdmissionError", "NodeAffinity", "Shutdown"}
)
_STARTING = frozenset({"ContainerCreating", "PodInitializing"})
_RESTARTS = re.compile(r"(?P<count>\d{1,9})(?: \(.*\))?")
_RATIO = re.compile(r"(?P<part>\d{1,9})/(?P<of>\d{1,9})")
_PORT = re.compile(r"(?P<port>\d{1,5})(?::(?P<node>\d{1,5}))?/(?P<protocol>TCP|UDP|SCTP)")
_MODES = {
    "RWO": "ReadWriteOnce",
    "ROX": "ReadOnlyMany",
    "RWX": "ReadWriteMany",
    "RWOP": "ReadWriteOncePod",
}


def put(obj: Obj, path: Path, value: Any) -> None:
    """Put a value at a path, making what is missing on the way."""
    for step in path[:-1]:
        obj = obj.setdefault(step, {})
    obj[path[-1]] = value


def number(cell: str) -> int | None:
    """A count, None where it is none."""
    return int(cell) if cell.isascii() and cell.isdecimal() and len(cell) < 18 else None


def flag(cell: str) -> bool | None:
    """``true`` or ``false``, None for anything else."""
    return {"true": True, "false": False}.get(cell)


def condition(obj: Obj, kind: str) -> Obj:
    """The condition of this type, made where there is none yet."""
    conditions: list[Obj] = obj.setdefault("status", {}).setdefault("conditions", [])
    for one in conditions:
        if one["type"] == kind:
            return one
    made = {"type": kind}
    conditions.append(made)
    return made


def _containers(obj: Obj) -> list[Obj]:
    found: list[Obj] = obj.setdefault("status", {}).setdefault("containerStatuses", [])
    return found


def pod_ready(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``1/2``: containers that are ready, and all of them."""
    found = _RATIO.fullmatch(cell)
    if found is None or int(found["of"]) > 100:
        return ()
    ready, count = int(found["part"]), int(found["of"])
    statuses = _containers(obj)
    statuses += [{} for _ in range(count)]
    if ready in (0, count):
        for one in statuses:
            one["ready"] = ready == count
    return ()


def pod_status(cell: str, obj: Obj) -> tuple[Path, ...]:
    """A phase, or the reason of a container that is not running (printers.go of Kubernetes)."""
    status: Obj = obj.setdefault("status", {})
    if cell in PHASES:
        status["phase"] = cell
        return (("status", "phase"),)
    init, colon, reason = cell.partition(":")
    if colon and init == "Init":
        status["phase"] = "Pending"
        if not _RATIO.fullmatch(reason):
            status["initContainerStatuses"] = [{"state": _state(reason)}]
    elif cell in _STARTING:
        status["phase"] = "Pending"
    elif cell in _REFUSED:
        status.update(phase="Failed", reason=cell)
    elif _DONE.get(cell):
        status["phase"] = _DONE[cell]
    statuses = status.get("containerStatuses", [])
    if len(statuses) == 1 and not colon and cell not in _REFUSED and cell != "Terminating":
        statuses[0]["state"] = _state(cell)
    return (("status", "phase"),) if "phase" in status else ()


def _state(reason: str) -> Obj:
    ended = reason in ("Completed", "Error", "OOMKilled")
    return {"terminated" if ended else "waiting": {"reason": reason}}


def pod_restarts(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``26 (5m ago)``: those of all containers together, so of each only where there is one."""
    found = _RESTARTS.fullmatch(cell)
    statuses = _containers(obj)
    if found is not None and (len(statuses) == 1 or found["count"] == "0"):
        for one in statuses:
            one["restartCount"] = int(found["count"])
    return ()


def node_status(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``Ready,SchedulingDisabled``."""
    words = cell.split(",")
    if words[0] == "Ready":
        condition(obj, "Ready")["status"] = "True"
    elif words[0] == "NotReady":  # False or Unknown: both look so
        condition(obj, "Ready")["reason"] = words[0]
    if "SchedulingDisabled" in words:
        put(obj, ("spec", "unschedulable"), True)
    return (("spec", "unschedulable"),)


def node_address(cell: str, obj: Obj) -> tuple[Path, ...]:
    """The address inside the cluster."""
    if not cell.startswith("<"):
        put(obj, ("status", "addresses"), [{"type": "InternalIP", "address": cell}])
    return ()


def service_ports(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``6443:31234/TCP,8132/TCP``: all ports of the Service, without their names."""
    if cell == "<none>":
        return (("spec", "ports"),)
    parts = [_PORT.fullmatch(part) for part in cell.split(",")]
    known = [part for part in parts if part is not None]
    ports = [{"port": int(one["port"]), "protocol": one["protocol"]} for one in known]
    for port, one in zip(ports, known, strict=True):
        if one["node"]:
            port["nodePort"] = int(one["node"])
    if ports:
        put(obj, ("spec", "ports"), ports)
    return (("spec", "ports"),) if len(known) == len(parts) else ()


def replicas(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``1/2`` of a Deployment or StatefulSet: ready, and wanted."""
    found = _RATIO.fullmatch(cell)
    if found is None:
        return ()
    put(obj, ("status", "readyReplicas"), int(found["part"]))
    put(obj, ("spec", "replicas"), int(found["of"]))
    return (("status", "readyReplicas"), ("spec", "replicas"))


def job_status(cell: str, obj: Obj) -> tuple[Path, ...]:
    """Complete, Failed, Suspended, Running."""
    if cell in ("Complete", "Failed"):
        condition(obj, cell)["status"] = "True"
    return ()


def job_completions(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``0/1``: ended well, and wanted."""
    found = _RATIO.fullmatch(cell)
    if found is None:
        return ()
    put(obj, ("status", "succeeded"), int(found["part"]))
    put(obj, ("spec", "completions"), int(found["of"]))
    return (("status", "succeeded"), ("spec", "completions"))


def access_modes(where: str) -> Callable[[str, Obj], tuple[Path, ...]]:
    """``RWO,RWX`` of a claim's status or a volume's spec."""
    path = (where, "accessModes")

    def fill(cell: str, obj: Obj) -> tuple[Path, ...]:
        modes = [_MODES.get(one, "") for one in cell.split(",")]
        if not all(modes):
            return ()
        put(obj, path, modes)
        return (path,)

    return fill


def claim(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``namespace/name`` of the claim that holds a volume."""
    namespace, slash, name = cell.partition("/")
    if slash:
        put(obj, ("spec", "claimRef"), {"namespace": namespace, "name": name})
    return ()


def csr_condition(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``Approved,Issued``."""
    for word in cell.split(","):
        if word in ("Approved", "Denied", "Failed"):
            condition(obj, word)["status"] = "True"
    return ()


def event_object(cell: str, obj: Obj) -> tuple[Path, ...]:
    """``pod/virt-launcher-x``: what an Event is about, its kind in small letters."""
    word, slash, name = cell.partition("/")
    known = by_word(word)
    if slash:
        kind = known.kind if known else word
        obj["involvedObject"] = {"kind": kind, "name": name}
        if known:
            obj["involvedObject"]["apiVersion"] = known.api_version
    return ()
