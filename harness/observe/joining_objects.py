"""What to collect of a worker that does not join from APIs alone: objects, logs, LINSTOR."""

from __future__ import annotations

from harness.facts import chain
from harness.facts.goldenname import GOLDENS
from harness.facts.objects import Obj, condition, listed, mapped, name_of, text_at
from harness.observe.joining_context import (
    CONSOLE_LOG,
    KIB,
    Collector,
    JoinContext,
    as_list,
    log_tail,
    table,
)
from harness.observe.pool import CAPI, DATA_VOLUMES, HELM

_IMPORTERS = "cdi.kubevirt.io=importer"
_SIGNER = "talos-csr-signer"
_CERTIFICATES = "certificates.k8s.io/v1"
_WEDGED = frozenset({"CrashLoopBackOff", "Error", "ImagePullBackOff", "ErrImagePull"})


# -- what the management cluster shows


def _wedged(context: JoinContext) -> str:
    found = [one.launcher for one in context.workers() if one.launcher]
    return "".join(map(_wedge, found)) or "no launcher pod: nothing can be wedged\n"


def _wedge(pod: Obj) -> str:
    statuses = [
        one
        for key in ("initContainerStatuses", "containerStatuses")
        for one in listed(pod, "status", key)
        if text_at(one, "name") == CONSOLE_LOG
    ]
    phase = text_at(pod, "status", "phase") or "without a phase"
    if not statuses:
        return f"{name_of(pod)}: {phase}, has no {CONSOLE_LOG}: not wedged by it\n"
    return f"{name_of(pod)}: {phase}, {_state_in_words(mapped(statuses[0], 'state'))}\n"


def _state_in_words(state: Obj) -> str:
    if "running" in state:
        return f"{CONSOLE_LOG} runs: not wedged"
    why = text_at(state, "waiting", "reason") or text_at(state, "terminated", "reason")
    if why == "Completed":
        return f"{CONSOLE_LOG} Completed: a pod that another took the place of"
    if why in _WEDGED:
        return f"{CONSOLE_LOG} {why}: WEDGED (kubevirt#15989), the machine waits for it"
    return f"{CONSOLE_LOG} {why or 'in no state'}: not decided"


def _machines(context: JoinContext) -> str:
    found = context.workers()
    kinds = ((one.machine, one.virtual_machine, one.vmi, one.launcher) for one in found)
    objects = [one for worker in kinds for one in worker if one]
    checks = context.management.list(CAPI, "MachineHealthCheck", context.namespace)
    return as_list((*objects, *checks))


def _disks(context: JoinContext) -> str:
    kube, space = context.management, context.namespace
    volumes = kube.list(DATA_VOLUMES, "DataVolume", space)
    mine = [
        disk
        for worker in context.workers()
        for disk in chain.disks_of(worker.virtual_machine, volumes)
    ]
    names = {name_of(one) for one in mine}
    claims = kube.list("v1", "PersistentVolumeClaim", space)
    return as_list((*mine, *(one for one in claims if name_of(one) in names)))


def _importers(context: JoinContext) -> str:
    kube = context.management
    found = [
        pod
        for space in (context.namespace, GOLDENS)
        for pod in kube.list("v1", "Pod", space, labels=_IMPORTERS)
    ]
    if not found:
        return (
            "no importer pod: nothing is downloaded now, which is healthy for a disk that is cloned"
            " and for one that is there already\n"
        )
    return "".join(log_tail(kube, pod, "importer") for pod in found)


def _signer(context: JoinContext) -> str:
    kube = context.management
    pods = kube.list("v1", "Pod", context.namespace)
    found = [
        log_tail(kube, pod, _SIGNER)
        for pod in pods
        if any(text_at(one, "name") == _SIGNER for one in listed(pod, "spec", "containers"))
    ]
    return "".join(found) or f"no pod of {context.namespace} has a container {_SIGNER}\n"


def _addons(context: JoinContext) -> str:
    prefix = f"kubernetes-{context.cluster}-"
    found = [
        one
        for one in context.management.list(HELM, "HelmRelease", context.namespace)
        if name_of(one).startswith(prefix)
    ]
    rows = ((name_of(one), *_ready(one)) for one in found)
    return table(("RELEASE", "READY", "REASON", "MESSAGE"), rows)


def _ready(obj: Obj) -> tuple[str, str, str]:
    found = condition(obj, "Ready")
    status, reason, message = (text_at(found, key) for key in ("status", "reason", "message"))
    return status, reason, " ".join(message.split())


# -- what the tenant cluster shows


def _requests(context: JoinContext) -> str:
    found = context.tenant().list(_CERTIFICATES, "CertificateSigningRequest")
    if not found:
        return "no CertificateSigningRequest: no kubelet has asked (bootstrap token), or all are "\
               "older than their hour\n"  # fmt: skip
    rows = (
        (
            name_of(one),
            text_at(one, "metadata", "creationTimestamp"),
            text_at(one, "spec", "signerName"),
            text_at(one, "spec", "username"),
            ",".join(text_at(kind, "type") for kind in listed(one, "status", "conditions"))
            or "Pending",
            "yes" if text_at(one, "status", "certificate") else "no",
        )
        for one in found
    )
    return table(("NAME", "CREATED", "SIGNER", "REQUESTOR", "CONDITION", "ISSUED"), rows)


def _nodes(context: JoinContext) -> str:
    found = context.tenant().list("v1", "Node")
    if not found:
        return "no Node: nothing has joined\n"
    rows = (
        (
            name_of(one),
            *_ready(one)[:2],
            ",".join(
                f"{text_at(taint, 'key')}:{text_at(taint, 'effect')}"
                for taint in listed(one, "spec", "taints")
            ),
            text_at(one, "metadata", "creationTimestamp"),
            text_at(one, "status", "nodeInfo", "bootID"),
            _ready(one)[2],
        )
        for one in found
    )
    return table(("NAME", "READY", "REASON", "TAINTS", "CREATED", "BOOT", "MESSAGE"), rows)


# -- what LINSTOR shows


def _resources(context: JoinContext) -> str:
    linstor = context.linstor()
    if linstor is None:
        return "the inventory names no controller of LINSTOR's\n"
    return linstor.get("/v1/view/resources").text


FIRST: tuple[Collector, ...] = (
    Collector(
        "console wedge",
        "console-wedge.txt",
        f"a launcher that waits for {CONSOLE_LOG} (kubevirt#15989) from one that does not",
        2,
        16 * KIB,
        _wedged,
    ),
    Collector(
        "machines",
        "machines.json",
        "a machine that never booted from one that booted and did not join",
        3,
        512 * KIB,
        _machines,
    ),
    Collector(
        "disks",
        "disks.json",
        "a disk that is still being filled from one that is there",
        3,
        256 * KIB,
        _disks,
    ),
    Collector(
        "tenant nodes",
        "tenant-nodes.txt",
        "no Node from one that joined and takes no pods",
        2,
        64 * KIB,
        _nodes,
    ),
    Collector(
        "addons",
        "addons.txt",
        "a network plugin that was not installed from a worker that did not come up",
        2,
        64 * KIB,
        _addons,
    ),
    Collector(
        "certificate requests",
        "tenant-csrs.txt",
        "a kubelet that did not ask (bootstrap token) from one whose request was not signed",
        2,
        64 * KIB,
        _requests,
    ),
    Collector(
        "importers",
        "importers.log",
        "an import that is retried from one that goes on; none is healthy for a clone",
        4,
        256 * KIB,
        _importers,
    ),
    Collector(
        "certificate signer",
        "talos-csr-signer.log",
        "certificates of apid that are refused from ones that are never asked for",
        4,
        128 * KIB,
        _signer,
    ),
    Collector(
        "LINSTOR resources",
        "linstor-resources.json",
        "a disk read over the network (SyncTarget, Inconsistent, Diskless) from a local one",
        5,
        1024 * KIB,
        _resources,
    ),
)
"""Those that ask APIs alone, cheapest first."""
