"""What somebody notices first: where a runbook begins, and what a diagnosis has to explain."""

from __future__ import annotations

from collections.abc import Iterator

from harness.diagnose.case import MANAGEMENT, TENANT, Kind
from harness.diagnose.causes.clones import disks, subject_of
from harness.diagnose.causes.drbd import degraded
from harness.diagnose.causes.joining import JOINING
from harness.diagnose.causes.rendering import failed, subject
from harness.diagnose.causes.uptime import at_timer, given_up
from harness.diagnose.findings import Seen, Symptom
from harness.diagnose.things import age, dead, ready, said
from harness.diagnose.view import View
from harness.facts.objects import condition, listed, mapped, text_at

MAKING = 900.0
"""Seconds that a disk may take."""


def _reboots_at_timer(view: View) -> Iterator[Seen]:
    for node, boots in at_timer(view):
        yield Seen(f"{node.name}: {boots.told}", node.source, f"node {node.name}")
    for text, line in given_up(view):
        yield Seen(f"a boot was given up: {line!r}", text.source, f"node {text.node}")


def _reboots(view: View) -> Iterator[Seen]:
    for node in view.tenant_nodes:
        boots = view.boots[node.name]
        if boots.irregular:
            yield Seen(f"{node.name}: {boots.told}", node.source, f"node {node.name}")


def _not_joined(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            late = (age(worker.machine) or 0.0) > JOINING
            if (
                worker.machine.name
                and late
                and not worker.node.name
                and _no_node(view, worker.name)
            ):
                phase = text_at(worker.machine.obj, "status", "phase")
                yield Seen(f"Machine {worker.machine.name} is {phase or 'there'}, without a Node",
                           worker.machine.where, pool.subject)  # fmt: skip
        asked = mapped(pool.deployment.obj, "spec").get("replicas")
        late = (age(pool.deployment) or 0.0) > JOINING
        if asked and late and not pool.workers and view.lacks("Machine", MANAGEMENT):
            yield Seen(f"{pool.subject} asks for {asked} workers, and has no Machine",
                       pool.deployment.where, pool.subject)  # fmt: skip


def _no_node(view: View, name: str) -> bool:
    """Whether there is no Node of a worker: its Machine refers to none, or none is listed."""
    machine = view.find("Machine", name, MANAGEMENT)
    refers = text_at(machine.obj, "status", "nodeRef", "name")
    return not refers or view.lacks("Node", TENANT)


def _not_ready(view: View) -> Iterator[Seen]:
    for node in view.things("Node"):
        found = condition(node.obj, "Ready")
        row = not text_at(found, "status") and text_at(found, "reason") == "NotReady"
        if node.cluster != MANAGEMENT and (row or ready(node) in ("False", "Unknown")):
            yield Seen(f"{node.name}: {said(node, 'Ready')}", node.source, f"node {node.name}")


def _no_gpu(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for node in pool.nodes:
            if pool.has_nvidia and dead(node):
                yield Seen(f"{node.name} has a card and offers no nvidia.com/gpu", node.source,
                           pool.subject)  # fmt: skip


def _cuda(view: View) -> Iterator[Seen]:
    for pod in view.pods("nvidia-cuda-validator"):
        for status in listed(pod.obj, "status", "initContainerStatuses"):
            why = text_at(status, "state", "waiting", "reason")
            if why == "CrashLoopBackOff":
                yield Seen(f"{pod.name}: {why}", pod.where)


def _release_failed(view: View) -> Iterator[Seen]:
    for one, words in failed(view):
        yield Seen(f"{one.name or one.source}: {words[:200]}", one.source, subject(one))


def _disk_stuck(view: View) -> Iterator[Seen]:
    for volume in view.things("DataVolume", MANAGEMENT):
        phase = text_at(volume.obj, "status", "phase")
        late = (age(volume) or 0.0) > MAKING
        if phase and phase != "Succeeded" and late:
            yield Seen(f"{volume.namespace}/{volume.name} is {phase}", volume.where, volume.name)
    for machine in view.things("KubevirtMachine", MANAGEMENT):
        found = condition(machine.obj, "VMProvisioned")
        if text_at(found, "reason") == "VMCreateFailed":
            yield Seen(f"{machine.name}: {said(machine, 'VMProvisioned')}", machine.where)


def _copied(view: View) -> Iterator[Seen]:
    for pool, volume, claim in disks(view):
        kind = mapped(claim.obj, "metadata", "annotations").get("cdi.kubevirt.io/cloneType")
        if kind in ("copy", "snapshot"):
            yield Seen(f"{claim.name}: cloneType {kind}", claim.where, subject_of(pool, volume))


def _frozen(view: View) -> Iterator[Seen]:
    for pool in view.pools:
        for worker in pool.workers:
            running = text_at(worker.vmi.obj, "status", "phase") == "Running"
            if running and ready(worker.node) == "Unknown":
                yield Seen(f"VMI {worker.name} runs, and its Node is silent", worker.vmi.where,
                           pool.subject)  # fmt: skip


def _degraded(view: View) -> Iterator[Seen]:
    yield from degraded(view)


def _pods(view: View) -> Iterator[Seen]:
    for pod in view.things("Pod"):
        for key in ("initContainerStatuses", "containerStatuses"):
            for status in listed(pod.obj, "status", key):
                why = text_at(status, "state", "waiting", "reason")
                if why in ("ImagePullBackOff", "ErrImagePull", "InvalidImageName"):
                    yield Seen(f"{pod.namespace}/{pod.name}: {why}", pod.where)


def _smi(view: View) -> Iterator[Seen]:
    for text in view.texts(Kind.SMI_LIST):
        if "No devices" in text.text or "failed" in text.text:
            yield Seen(f"nvidia-smi: {text.text.strip()[:120]!r}", text.source)


SYMPTOMS: tuple[Symptom, ...] = (
    Symptom(
        "reboots-at-timer",
        "Workers reboot about every 70 minutes, at one uptime (4206 s)",
        "restart counts of a node's pods, which are all alike; how long their last runs lasted; "
        "the Node's boot id; the console at minute 70",
        _reboots_at_timer,
        note="the period is that of Talos' limit for a boot: it names the timer, not the cause. "
        "Any service that never comes up gives the same period. A Node that is Ready says nothing.",
    ),
    Symptom(
        "reboots",
        "Workers reboot, or are replaced, at no fixed uptime",
        "the Node's boot id, how long the last runs of its containers lasted, UIDs of VMI and Node",
        _reboots,
        note="one reboot right after installation is normal.",
    ),
    Symptom(
        "node-not-joined",
        "A worker was asked for and has no Node",
        "MachineDeployment, Machine, KubevirtMachine, VM, DataVolume, VMI, virt-launcher: the "
        "first of them that is not there or not ready",
        _not_joined,
        note="a HelmRelease that is Ready says nothing of workers.",
    ),
    Symptom(
        "node-not-ready",
        "A worker's Node is not Ready",
        "the Node's condition Ready: False (kubelet says why) or Unknown (kubelet is silent)",
        _not_ready,
    ),
    Symptom(
        "guest-frozen",
        "A guest stands still: its VMI runs, its kubelet is silent, no error anywhere",
        "drbdsetup status on the worker's host before the guest itself",
        _frozen,
    ),
    Symptom(
        "no-gpu-offered",
        "A worker with a card offers no nvidia.com/gpu",
        "the Node's allocatable (not its labels, which come without a driver)",
        _no_gpu,
    ),
    Symptom("cuda-fails", "CUDA programs fail", "the log of nvidia-cuda-validator", _cuda),
    Symptom(
        "pod-without-gpu",
        "nvidia.com/gpu is offered, and a pod that asks for it has no card or no libraries",
        "nvidia-smi -L in a new pod, of an image without a driver, without runtimeClassName",
        lambda _: (),
        note="that CDI annotations are missing on the Pod object means nothing: they are on the "
        "container only.",
    ),
    Symptom(
        "release-failed",
        "A HelmRelease is not Ready",
        "its condition Ready and its message: the chart's own words",
        _release_failed,
    ),
    Symptom(
        "change-not-applied",
        "A change was accepted and does not show",
        "Ready of the HelmRelease: False or True decides between two causes",
        lambda _: (),
    ),
    Symptom(
        "disk-not-made",
        "A worker's disk, or a golden, is not made",
        "DataVolume: phase, restartCount and condition Running; the claim's Events",
        _disk_stuck,
        note="an import that fails never becomes Failed.",
    ),
    Symptom(
        "disk-copied",
        "A disk that should be cloned on the storage was copied",
        "annotation cloneType of its claim",
        _copied,
    ),
    Symptom(
        "disk-degraded",
        "A disk's replicas are not all connected and UpToDate",
        "drbdsetup status on every host; LINSTOR's view may be old",
        _degraded,
    ),
    Symptom(
        "disk-too-small",
        "A worker's disk is smaller than asked for; DiskPressure later",
        "capacity of the claim, /dev/vda in the guest",
        lambda _: (),
    ),
    Symptom(
        "not-migratable",
        "A worker without a card cannot be migrated",
        "the reason of the VMI's condition LiveMigratable",
        lambda _: (),
    ),
    Symptom(
        "pod-not-running",
        "A pod waits for its image",
        "the waiting container's reason and message",
        _pods,
    ),
)
