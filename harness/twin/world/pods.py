"""Pods on nodes: what a kubelet writes about them. Shared by hypervisors and tenant workers."""

from __future__ import annotations

import hashlib
from typing import Any

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.records import Admission
from harness.twin.world import conditions
from harness.twin.world.objects import Obj, deep, digest, quantity, rfc3339

_STAGES = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")


def image_id(image: str) -> str:
    """The digest form under which a runtime reports an image."""
    name = image.partition("@")[0]
    return f"{name}@sha256:{hashlib.sha256(name.encode()).hexdigest()}"


def accepted(question: Admission) -> Obj:
    """The admission hook: a new pod is Pending, of its class, before anybody has seen it.

    What an API server writes itself (kubernetes/pkg/registry/core/pod/strategy.go). Clients count
    on it: the official one's users read ``pod.status.phase`` in the first watch event.
    """
    pod = question.obj
    if question.verb != "CREATE" or question.resource.kind != "Pod":
        return pod
    _check_containers(pod)
    return {**pod, "status": {"phase": "Pending", "qosClass": qos(pod), **pod.get("status", {})}}


def _check_containers(pod: Obj) -> None:
    """Refuse containers without a name, and counts of extended resources that are none or have
    no limit.

    kubernetes/pkg/apis/core/validation: ValidateContainerResourceRequirements.
    """
    name = pod["metadata"].get("name") or pod["metadata"].get("generateName", "")
    listed = pod["spec"].get("containers")
    if not isinstance(listed, list) or not listed:
        raise ApiError(422, f'Pod "{name}" is invalid: spec.containers: Required value')
    for index, container in enumerate(listed):
        if not deep(container, "name"):
            path = f"spec.containers[{index}].name"
            raise ApiError(422, f'Pod "{name}" is invalid: {path}: Required value')
        limits, requested = (deep(container, "resources", k) or {} for k in ("limits", "requests"))
        path = f'Pod "{name}" is invalid: spec.containers[{index}].resources'
        for kind, amounts in (("limits", limits), ("requests", requested)):
            for resource, count in amounts.items():
                if "/" in resource and not _is_count(count):
                    where = f"{path}.{kind}[{resource}]"
                    raise ApiError(422, f'{where}: Invalid value: "{count}": must be an integer')
        lacking = [one for one in requested if "/" in one and one not in limits]
        if lacking:
            text = "Limit must be set for non overcommitable resources"
            raise ApiError(422, f"{path}.limits: Required value: {text}")


def _is_count(value: Any) -> bool:
    try:
        count = quantity(value)
    except ValueError:
        return False
    return count >= 0 and "m" not in str(value) and "." not in str(value)


def bind(pod: Obj, node: str, now: float) -> None:
    """The scheduler's decision."""
    pod["spec"]["nodeName"] = node
    scheduled(pod, now)


def scheduled(pod: Obj, now: float) -> None:
    """Pending, with a node."""
    pod.setdefault("status", {}).setdefault("phase", "Pending")
    conditions.write(pod, now, conditions.true("PodScheduled"))


def creating(pod: Obj, host_ip: str, now: float) -> None:
    """A kubelet has seen the pod and is pulling its images."""
    status = pod.setdefault("status", {})
    status |= {
        "phase": "Pending",
        "hostIP": host_ip,
        "hostIPs": [{"ip": host_ip}],
        "startTime": rfc3339(now),
        "qosClass": qos(pod),
    }
    waiting = {"waiting": {"reason": "ContainerCreating"}}
    status["containerStatuses"] = [
        _container(container, waiting, ready=False) for container in pod["spec"]["containers"]
    ]
    names = ", ".join(container["name"] for container in pod["spec"]["containers"])
    not_ready = f"containers with unready status: [{names}]"
    conditions.write(
        pod,
        now,
        conditions.true("PodScheduled"),
        conditions.false("Ready", "ContainersNotReady", not_ready),
        conditions.false("ContainersReady", "ContainersNotReady", not_ready),
        conditions.true("Initialized"),
    )


def running(pod: Obj, ip: str, now: float) -> None:
    """Every container runs; one that ran before has been restarted."""
    status = pod["status"]
    before = {c["name"]: c for c in status.get("containerStatuses") or ()}
    status["phase"] = "Running"
    status["podIP"], status["podIPs"] = ip, [{"ip": ip}]
    state = {"running": {"startedAt": rfc3339(now)}}
    status["containerStatuses"] = [
        _container(container, state, ready=True, before=before.get(container["name"]))
        for container in pod["spec"]["containers"]
    ]
    conditions.write(pod, now, *(conditions.true(stage) for stage in _STAGES))


def interrupted(pod: Obj, now: float) -> None:
    """The node went down under the pod and is back: its containers are to start again."""
    for container in pod["status"].get("containerStatuses") or ():
        if "running" not in container.get("state", {}):
            continue
        ended = {
            "exitCode": 255,
            "reason": "Unknown",
            "startedAt": container["state"]["running"]["startedAt"],
            "finishedAt": rfc3339(now),
            "containerID": container["containerID"],
        }
        container |= {
            "ready": False,
            "started": False,
            "lastState": {"terminated": ended},
            "state": {"waiting": {"reason": "ContainerCreating"}},
            "restartCount": container["restartCount"] + 1,
        }
    text = "containers are being started again"
    conditions.write(
        pod,
        now,
        conditions.false("Ready", "ContainersNotReady", text),
        conditions.false("ContainersReady", "ContainersNotReady", text),
    )


def ended(pod: Obj, now: float, *, exit_code: int = 0) -> None:
    """Every container has ended by itself."""
    status = pod["status"]
    status["phase"] = "Failed" if exit_code else "Succeeded"
    reason = "Error" if exit_code else "Completed"
    for container in status.get("containerStatuses") or ():
        started = container.get("state", {}).get("running", {}).get("startedAt", rfc3339(now))
        outcome = {
            "exitCode": exit_code,
            "reason": reason,
            "startedAt": started,
            "finishedAt": rfc3339(now),
        }
        container |= {"ready": False, "started": False, "state": {"terminated": outcome}}
    conditions.write(
        pod,
        now,
        conditions.false("Ready", "PodCompleted"),
        conditions.false("ContainersReady", "PodCompleted"),
    )


def _container(
    container: Obj, state: Obj, *, ready: bool, before: Obj | None = None
) -> dict[str, Any]:
    count = before["restartCount"] if before else 0
    found: dict[str, Any] = {
        "name": container["name"],
        "image": container.get("image", ""),
        "imageID": image_id(container.get("image", "")) if ready else "",
        "ready": ready,
        "started": ready,
        "restartCount": count,
        "state": state,
        "lastState": before["lastState"] if before else {},
    }
    if ready:
        found["containerID"] = f"containerd://{digest([container, state, count])}"
    return found


def qos(pod: Obj) -> str:
    """The pod's quality-of-service class."""
    resources = [container.get("resources") or {} for container in pod["spec"]["containers"]]
    if not any(resources):
        return "BestEffort"
    full = all(
        {"cpu", "memory"} <= (r.get("limits") or {}).keys()
        and (r.get("requests") or r["limits"]).items() >= r["limits"].items()
        for r in resources
    )
    return "Guaranteed" if full else "Burstable"


def requests(pod: Obj) -> dict[str, int]:
    """Extended resources (those with a domain in the name) that a pod asks for, in all."""
    total: dict[str, int] = {}
    for container in pod["spec"].get("containers") or ():
        resources = container.get("resources") or {}
        asked = {**(resources.get("requests") or {}), **(resources.get("limits") or {})}
        for name, count in asked.items():
            if "/" in name:
                total[name] = total.get(name, 0) + quantity(count)
    return total


def finished(pod: Obj) -> bool:
    """Whether a pod has ended and holds nothing any more."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
