"""Ask the harness' own pods on a tenant cluster what they see, and return facts.

Each function takes the pod as it is stored now, after every admission, and raises reach's LabError
where the cluster or the pod's runtime cannot be asked. ``now`` gives the lab's time in epoch
seconds; ``execute`` runs a command in the probe's container.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from harness.facts import probes
from harness.facts.fact import Origin, Unread
from harness.facts.nvidia import SmiCards, SmiFailed
from harness.facts.objects import Obj, name_of, origin_of
from harness.facts.probes import Control, CudaRun, EarlyPod, Injected, NoTool, Seen
from harness.observe.guest import output_of
from harness.observe.operator import NO_LOG
from harness.reach.errors import ApiRefused
from harness.reach.execs import Reply, run_in_pod
from harness.reach.kube import Kube

Now = Callable[[], float]
Execute = Callable[[Kube, str, str, Sequence[str]], Reply]


def injected(
    tenant: Kube, namespace: str, pod: str, *, now: Now, execute: Execute | None = None
) -> Injected | Unread:
    """What a fresh pod sees that asked for a card."""
    found = tenant.get("v1", "Pod", namespace, pod)
    if found is None:
        return _absent(tenant, now, namespace, pod)
    seen = _seen(tenant, namespace, found, now, execute)
    return Injected(origin_of(found, now(), tenant.name), probes.stored(found), seen)


def control(
    tenant: Kube, namespace: str, pod: str, *, now: Now, execute: Execute | None = None
) -> Control | Unread:
    """Whether a pod that asked for no card finds a driver all the same."""
    found = tenant.get("v1", "Pod", namespace, pod)
    if found is None:
        return _absent(tenant, now, namespace, pod)
    seen = _seen(tenant, namespace, found, now, execute)
    if isinstance(seen, Unread):
        return seen
    told = seen.said if isinstance(seen, NoTool) else seen.origin.raw
    has_tool = isinstance(seen, SmiCards | SmiFailed)
    origin = origin_of(found, now(), tenant.name)
    return Control(origin, probes.stored(found), has_tool, told)


def cuda_run(tenant: Kube, namespace: str, pod: str, *, now: Now) -> CudaRun | Unread:
    """How a pod ended that runs one CUDA program, and what it wrote."""
    found = tenant.get("v1", "Pod", namespace, pod)
    if found is None:
        return _absent(tenant, now, namespace, pod)
    code = probes.exit_code(found)
    log = None if code is None else _log(tenant, namespace, pod)
    return CudaRun(origin_of(found, now(), tenant.name), probes.stored(found), code, log)


def early_pod(
    tenant: Kube,
    namespace: str,
    pod: str,
    advertised: str | None,
    *,
    now: Now,
    execute: Execute | None = None,
) -> EarlyPod | Unread:
    """How a pod stands that was bound to its node before that offered a card.

    ``advertised`` is the Node's allocatable nvidia.com/gpu when the pod was made, None for none.
    """
    found = tenant.get("v1", "Pod", namespace, pod)
    if found is None:
        return _absent(tenant, now, namespace, pod)
    seen = _seen(tenant, namespace, found, now, execute) if probes.runs(found) else None
    origin = origin_of(found, now(), tenant.name)
    return EarlyPod(origin, probes.stored(found), advertised, seen)


def _seen(tenant: Kube, namespace: str, pod: Obj, now: Now, execute: Execute | None) -> Seen:
    asked = " ".join(probes.ARGV)
    source = f"{tenant.name} Pod {namespace}/{name_of(pod)}:{asked}"
    if not probes.runs(pod):
        return Unread(Origin(now(), source, ""), asked, f"pod {probes.stored(pod)}")
    reply = (execute or _in_probe)(tenant, namespace, name_of(pod), probes.ARGV)
    return probes.read_seen(output_of(reply), at=reply.ended, source=source)


def _log(tenant: Kube, namespace: str, pod: str) -> str | None:
    """A probe's log, None where the API gives none."""
    try:
        said = tenant.logs(namespace, pod, probes.CONTAINER, limit_bytes=probes.LOG_KEPT)
    except ApiRefused as refused:
        if refused.code not in NO_LOG:
            raise
        return None
    return said.decode("utf-8", "backslashreplace")


def _in_probe(kube: Kube, namespace: str, pod: str, argv: Sequence[str]) -> Reply:
    return run_in_pod(kube, namespace, pod, argv, container=probes.CONTAINER)


def _absent(kube: Kube, now: Now, namespace: str, pod: str) -> Unread:
    what = f"Pod {namespace}/{pod}"
    return Unread(Origin(now(), f"{kube.name} {what}", ""), what, "it is not there")
