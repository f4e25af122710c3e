"""What a kubelet writes about a pod with init containers, from one to the next."""

from __future__ import annotations

from harness.twin.world import conditions, nodefit, pods
from harness.twin.world.objects import Obj, digest, rfc3339

_INITIALIZING = {"waiting": {"reason": "PodInitializing"}}


def accepted(pod: Obj, host_ip: str, now: float) -> None:
    """The kubelet has the pod, for the first time or after its node was down."""
    status = pod.setdefault("status", {})
    again = bool(status.get("startTime"))
    if not again:
        pods.creating(pod, host_ip, now)
    status["phase"] = "Pending"
    before = {one["name"]: one for one in status.get("initContainerStatuses") or ()}
    found = [_fresh(one, before.get(one["name"])) for one in init_containers(pod)]
    if found:
        status["initContainerStatuses"] = found
        text = f"containers with incomplete status: [{' '.join(one['name'] for one in found)}]"
        undone = conditions.false("Initialized", "ContainersNotInitialized", text)
        conditions.write(pod, now, undone)
    for one in status.get("containerStatuses") or ():
        if found and "waiting" in one.get("state", {}):
            one["state"] = dict(_INITIALIZING)


def init_containers(pod: Obj) -> list[Obj]:
    """A pod's init containers, those that have a name."""
    return [one for one in nodefit.listed(pod["spec"].get("initContainers")) if one.get("name")]


def _fresh(container: Obj, before: Obj | None) -> Obj:
    """Not started in this life of the pod; one that was started in an earlier one counts on."""
    ran = before is not None and "waiting" not in before["state"]
    count = before["restartCount"] + int(ran) if before is not None else 0
    image = container.get("image", "")
    return {
        "name": container["name"],
        "image": image,
        "imageID": "",
        "ready": False,
        "started": False,
        "restartCount": count,
        "state": dict(_INITIALIZING),
        "lastState": {},
    }


def running(pod: Obj, name: str, now: float) -> None:
    """An init container runs."""
    one = _status_of(pod, name)
    if "terminated" in one["state"]:
        one["lastState"] = dict(one["state"])
    one["imageID"] = pods.image_id(one["image"])
    one["state"] = {"running": {"startedAt": rfc3339(now)}}
    one["started"] = True
    one["containerID"] = f"containerd://{digest([one['name'], one['restartCount'], now])}"


def ended(pod: Obj, name: str, now: float, exit_code: int = 0) -> None:
    """An init container has ended."""
    one = _status_of(pod, name)
    started = one["state"].get("running", {}).get("startedAt", rfc3339(now))
    one["state"] = {
        "terminated": {
            "containerID": one.get("containerID", ""),
            "exitCode": exit_code,
            "reason": "Error" if exit_code else "Completed",
            "startedAt": started,
            "finishedAt": rfc3339(now),
        }
    }
    one["ready"], one["started"] = exit_code == 0, False
    if all(each["ready"] for each in pod["status"].get("initContainerStatuses") or ()):
        conditions.write(pod, now, conditions.true("Initialized"))


def crashed(pod: Obj, name: str, now: float, exit_code: int) -> None:
    """A container of the pod proper has ended badly: the pod does not serve."""
    ended(pod, name, now, exit_code)
    text = f"containers with unready status: [{name}]"
    for kind in ("Ready", "ContainersReady"):
        conditions.write(pod, now, conditions.false(kind, "ContainersNotReady", text))


def backed_off(pod: Obj, name: str, seconds: float) -> None:
    """A container that failed waits before it is started again."""
    one = _status_of(pod, name)
    one["lastState"] = dict(one["state"])
    metadata = pod["metadata"]
    text = (
        f"back-off {seconds:.0f}s restarting failed container={name} "
        f"pod={metadata['name']}_{metadata['namespace']}({metadata['uid']})"
    )
    one["state"] = {"waiting": {"reason": "CrashLoopBackOff", "message": text}}


def beside(pod: Obj, name: str, now: float) -> None:
    """An init container that goes on beside the others (restartPolicy Always) has started."""
    running(pod, name, now)
    _status_of(pod, name)["ready"] = True
    if all(each["ready"] for each in pod["status"].get("initContainerStatuses") or ()):
        conditions.write(pod, now, conditions.true("Initialized"))


def fell_back(pod: Obj, name: str, seconds: float, now: float) -> None:
    """One that was started, failed at once, and is waited with: once more than before."""
    if _status_of(pod, name)["lastState"]:
        restarted(pod, name)
    running(pod, name, now)
    ended(pod, name, now, 1)
    backed_off(pod, name, seconds)


def restarted(pod: Obj, name: str) -> None:
    """A container is about to be started once more."""
    _status_of(pod, name)["restartCount"] += 1


def _status_of(pod: Obj, name: str) -> Obj:
    kinds = ("initContainerStatuses", "containerStatuses")
    listed = [one for kind in kinds for one in pod["status"].get(kind) or ()]
    return next(one for one in listed if one["name"] == name)
