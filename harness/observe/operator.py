"""Ask both clusters about the GPU operator, and return facts.

Its request is on the management cluster, in the tenant's namespace; all that lives is on the
tenant cluster. Both have a namespace cozy-gpu-operator (objects 6), so every function takes the
cluster that it is meant for. Each raises reach's LabError where that cluster cannot be asked.
``now`` gives the lab's time in epoch seconds.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from harness.facts import daemonsets as sets
from harness.facts import gpunode, validator
from harness.facts import operator as operator_facts
from harness.facts.daemonsets import DaemonSets
from harness.facts.fact import Origin, Unread
from harness.facts.gpunode import GpuNode
from harness.facts.objects import Obj, listed, name_of, text_at
from harness.facts.operator import Addons, OperatorPolicy, OperatorValues
from harness.facts.validator import CudaValidation, ValidatorAbsent, ValidatorPod
from harness.reach.errors import ApiRefused
from harness.reach.kube import Kube

Now = Callable[[], float]

HELM = "helm.toolkit.fluxcd.io/v2"
NVIDIA = "nvidia.com/v1"
POLICY = "cluster-policy"
NAMESPACE = "cozy-gpu-operator"
LINES = 20
"""Lines asked for of a log whose last one is wanted."""
NO_LOG = (400, 404)
"""What the API answers for a container that has not started, and for a pod that is gone."""


def operator_values(
    management: Kube, namespace: str, cluster: str, *, now: Now
) -> OperatorValues | Unread:
    """The values that the platform renders for the GPU operator of a tenant cluster."""
    name = f"kubernetes-{cluster}-gpu-operator"
    release = management.get(HELM, "HelmRelease", namespace, name)
    if release is None:
        return _absent(management, now, f"HelmRelease {namespace}/{name}")
    return operator_facts.operator_values(release, at=now(), cluster=management.name)


def addons(management: Kube, namespace: str, cluster: str, *, now: Now) -> Addons | Unread:
    """What the tenant cluster's own release asks of its addons: an override, and HAMi."""
    name = f"kubernetes-{cluster}"
    release = management.get(HELM, "HelmRelease", namespace, name)
    if release is None:
        return _absent(management, now, f"HelmRelease {namespace}/{name}")
    hami = management.get(HELM, "HelmRelease", namespace, f"{name}-hami") is not None
    return operator_facts.addons(release, hami_release=hami, at=now(), cluster=management.name)


def policy(tenant: Kube, *, now: Now) -> OperatorPolicy | Unread:
    """The operator's ClusterPolicy. It proves nothing; it is recorded beside what does."""
    found = tenant.get(NVIDIA, "ClusterPolicy", "", POLICY)
    if found is None:
        return _absent(tenant, now, f"ClusterPolicy {POLICY}")
    return operator_facts.operator_policy(found, at=now(), cluster=tenant.name)


def daemonsets(tenant: Kube, *, now: Now) -> DaemonSets:
    """Every DaemonSet of the tenant cluster, of all namespaces."""
    found = tenant.list("apps/v1", "DaemonSet")
    return sets.daemonsets(found, at=now(), cluster=tenant.name)


def validator_pod(tenant: Kube, node: str, *, now: Now) -> ValidatorPod | ValidatorAbsent:
    """The validator's newest pod on a node; of the stage it is stuck in, the log's last line."""
    pod = _pod_on(tenant, node, validator.VALIDATOR)
    if pod is None:
        source = f"{tenant.name} pods of {validator.VALIDATOR} on {node}"
        return ValidatorAbsent(Origin(now(), source, ""), node)
    found = validator.validator_pod(pod, at=now(), cluster=tenant.name)
    stage = found.stuck
    if stage is None:
        return found
    log = _log(tenant, found.pod, stage.name)
    return validator.with_last_line(found, stage.name, log) if log else found


def cuda_validation(tenant: Kube, node: str, *, now: Now) -> CudaValidation | Unread:
    """The newest pod by which the validator had a CUDA program run on a node."""
    pod = _pod_on(tenant, node, validator.CUDA)
    if pod is None:
        return _absent(tenant, now, f"pod {validator.CUDA} on {node}")
    found = validator.cuda_validation(pod, at=now(), cluster=tenant.name)
    if not found.exit_code:
        return found
    names = [text_at(one, "name") for one in listed(pod, "spec", "initContainers")]
    log = _log(tenant, found.pod, names[0]) if names else ""
    return replace(found, last_line=validator.last_line(log))


def gpu_node(tenant: Kube, node: str, *, now: Now) -> GpuNode | Unread:
    """What a Node says of its cards."""
    found = tenant.get("v1", "Node", "", node)
    if found is None:
        return _absent(tenant, now, f"Node {node}")
    return gpunode.gpu_node(found, at=now(), cluster=tenant.name)


def _pod_on(tenant: Kube, node: str, app: str) -> Obj | None:
    """The newest pod of this app on the node that is not being deleted."""
    pods = tenant.list("v1", "Pod", NAMESPACE, labels=f"app={app}")
    here = [
        one
        for one in pods
        if text_at(one, "spec", "nodeName") == node
        and not text_at(one, "metadata", "deletionTimestamp")
    ]
    return max(here, key=_age, default=None)


def _age(pod: Obj) -> tuple[str, str]:
    return text_at(pod, "metadata", "creationTimestamp"), name_of(pod)


def _log(tenant: Kube, pod: str, container: str) -> str:
    """The end of a container's log, "" where the API gives none: it may not have started yet."""
    try:
        said = tenant.logs(NAMESPACE, pod, container, tail=LINES)
    except ApiRefused as refused:
        if refused.code not in NO_LOG:
            raise
        return ""
    return said.decode("utf-8", "backslashreplace")


def _absent(kube: Kube, now: Now, what: str) -> Unread:
    return Unread(Origin(now(), f"{kube.name} {what}", ""), what, "it is not there")
