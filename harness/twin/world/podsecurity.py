"""PodSecurity admission of a tenant cluster: privileged pods need a namespace that allows them."""

from __future__ import annotations

from collections.abc import Callable

from harness.twin.apiserver.errors import ApiError
from harness.twin.apiserver.store import Admission
from harness.twin.world.objects import Obj, deep, labels_of

ENFORCE = "pod-security.kubernetes.io/enforce"
DEFAULT = "baseline"
_EXEMPT = ("kube-system",)
_HOST = ("hostNetwork", "hostPID", "hostIPC")


def admission(namespace_of: Callable[[str], Obj | None]) -> Callable[[Admission], Obj]:
    """The hook; ``namespace_of`` finds a Namespace by name. Refuses with 403 Forbidden."""

    def check(question: Admission) -> Obj:
        if question.verb != "CREATE" or question.resource.kind != "Pod":
            return question.obj
        name = question.obj["metadata"].get("namespace", "")
        level = labels_of(namespace_of(name) or {"metadata": {}}).get(ENFORCE, DEFAULT)
        broken = [] if level == "privileged" or name in _EXEMPT else violations(question.obj)
        if broken:
            pod = question.obj["metadata"].get("name", "")
            raise ApiError(
                403,
                f'pods "{pod}" is forbidden: violates PodSecurity "{level}:latest": '
                + ", ".join(broken),
                details={"name": pod, "kind": "pods"},
            )
        return question.obj

    return check


def violations(pod: Obj) -> list[str]:
    """What a pod does that the baseline level forbids, in the words of the API."""
    spec = pod["spec"]
    found = []
    host = [f"{field}=true" for field in _HOST if spec.get(field)]
    if host:
        found.append(f"host namespaces ({', '.join(host)})")
    paths = [f'"{v["name"]}"' for v in spec.get("volumes") or () if "hostPath" in v]
    if paths:
        word = "volume" if len(paths) == 1 else "volumes"
        found.append(f"hostPath volumes ({word} {', '.join(paths)})")
    containers = [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]
    bad = [f'"{c["name"]}"' for c in containers if deep(c, "securityContext", "privileged")]
    if bad:
        word = "container" if len(bad) == 1 else "containers"
        text = f"{word} {', '.join(bad)} must not set securityContext.privileged=true"
        found.append(f"privileged ({text})")
    return found
