"""What a kubelet writes about each container of a pod: starts, ends, waits, and what follows.

Phases and conditions: kubernetes ``pkg/kubelet/kubelet_pods.go`` (getPhase) and ``status/
generate.go``. Every function changes a pod that is being edited, and `settle` comes last.
"""

from __future__ import annotations

from harness.twin.world import conditions, pods
from harness.twin.world.objects import Obj, digest, rfc3339

NO_TIME = "1970-01-01T00:00:00Z"
"""When a container started that never did, as containerd reports it."""
START_ERROR = 128


def refused(pod: Obj, reason: str, message: str, now: float) -> None:
    """The kubelet does not admit the pod: Failed, for good; what ran of it is not found again."""
    status = pod.setdefault("status", {})
    status |= {
        "phase": "Failed",
        "reason": reason,
        "message": f"Pod was rejected: {message}",
        "startTime": status.get("startTime") or rfc3339(now),
        "qosClass": pods.qos(pod),
    }
    text = "The container could not be located when the pod was terminated"
    for one in status.get("containerStatuses") or ():
        if "terminated" not in one["state"]:
            gone = {"exitCode": 137, "reason": "ContainerStatusUnknown", "message": text}
            one["state"] = {"terminated": {**gone, "startedAt": None, "finishedAt": None}}
            one["ready"] = one["started"] = False
    if status.get("containerStatuses"):
        _unready(pod, now, "PodFailed")


def lost(pod: Obj, now: float) -> None:
    """The node went down under the pod and nothing of it is to be started again."""
    for one in pod["status"].get("containerStatuses") or ():
        if "terminated" not in one["state"]:
            ended(pod, one["name"], now, 255)
            one["state"]["terminated"]["reason"] = "Unknown"
    settle(pod, now)


def waiting(pod: Obj, name: str, reason: str, message: str = "") -> None:
    """A container is to be started and is not."""
    one = status_of(pod, name)
    if "terminated" in one["state"]:
        one["lastState"] = dict(one["state"])
    state = {"reason": reason} | ({"message": message} if message else {})
    one |= {"state": {"waiting": state}, "ready": False, "started": False}


def running(pod: Obj, name: str, now: float) -> None:
    """A container's process runs."""
    one = status_of(pod, name)
    if "terminated" in one["state"]:
        one["lastState"] = dict(one["state"])
    one |= {
        "state": {"running": {"startedAt": rfc3339(now)}},
        "imageID": pods.image_id(one["image"]),
        "containerID": identity(pod, name, now),
        "ready": True,
        "started": True,
    }


def again(pod: Obj, name: str) -> None:
    """A container is about to be made once more."""
    status_of(pod, name)["restartCount"] += 1


def ended(pod: Obj, name: str, now: float, exit_code: int) -> None:
    """A container's process has ended by itself."""
    one = status_of(pod, name)
    started = one["state"].get("running", {}).get("startedAt", NO_TIME)
    terminated = {
        "containerID": one.get("containerID", ""),
        "exitCode": exit_code,
        "reason": "Error" if exit_code else "Completed",
        "startedAt": started,
        "finishedAt": rfc3339(now),
    }
    one |= {"state": {"terminated": terminated}, "ready": False, "started": False}


def not_started(pod: Obj, name: str, now: float, message: str) -> None:
    """A container's process could not be started."""
    one = status_of(pod, name)
    one["containerID"] = identity(pod, name, now)
    terminated = {
        "containerID": one["containerID"],
        "exitCode": START_ERROR,
        "reason": "StartError",
        "message": message,
        "startedAt": NO_TIME,
        "finishedAt": rfc3339(now),
    }
    one |= {"state": {"terminated": terminated}, "ready": False, "started": False}


def settle(pod: Obj, now: float) -> None:
    """Phase and conditions, as they follow from the containers and the restart policy."""
    status = pod["status"]
    found = status.get("containerStatuses") or []
    status["phase"] = _phase(pod["spec"].get("restartPolicy") or "Always", found)
    if status["phase"] in ("Succeeded", "Failed"):
        _unready(pod, now, "PodCompleted" if status["phase"] == "Succeeded" else "PodFailed")
        return
    idle = [one["name"] for one in found if not one["ready"]]
    if idle:
        text = f"containers with unready status: [{' '.join(idle)}]"
        _unready(pod, now, "ContainersNotReady", text)
    else:
        pods_ready = ("Ready", "ContainersReady")
        conditions.write(pod, now, *(conditions.true(kind) for kind in pods_ready))
    begun = ("PodReadyToStartContainers", "Initialized", "PodScheduled")
    conditions.write(pod, now, *(conditions.true(kind) for kind in begun))


def _phase(policy: str, found: list[Obj]) -> str:
    states = [one["state"] for one in found]
    if any("waiting" in one["state"] and not one["lastState"] for one in found):
        return "Pending"
    if any("running" in state for state in states) or policy == "Always":
        return "Running"
    if any("waiting" in state for state in states):
        return "Running"
    codes = [state["terminated"]["exitCode"] for state in states]
    if not any(codes):
        return "Succeeded"
    return "Failed" if policy == "Never" else "Running"


def _unready(pod: Obj, now: float, reason: str, message: str = "") -> None:
    kinds = ("Ready", "ContainersReady")
    conditions.write(pod, now, *(conditions.false(kind, reason, message) for kind in kinds))


def status_of(pod: Obj, name: str) -> Obj:
    """The status of a container by name."""
    found: Obj = next(c for c in pod["status"]["containerStatuses"] if c["name"] == name)
    return found


def identity(pod: Obj, name: str, now: float) -> str:
    """The id of the container that is made at this moment."""
    count = status_of(pod, name)["restartCount"]
    return f"containerd://{digest([pod['metadata']['uid'], name, count, now])}"
