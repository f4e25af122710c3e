"""Ask what became of a pool that was only to be rendered, and return facts.

Raises reach's LabError where the management cluster cannot be asked. ``now`` gives the lab's time
in epoch seconds.
"""

from __future__ import annotations

from harness.facts import trials
from harness.facts.fact import Origin, Unread
from harness.facts.objects import Obj, mapped, name_of, text_at
from harness.facts.trials import RenderTrial
from harness.observe.pool import (
    CAPI,
    DATA_VOLUMES,
    DEPLOYMENT_LABEL,
    HELM,
    INFRASTRUCTURE,
    KUBEVIRT,
    Now,
    bootstrap_template,
    reconcile_jobs,
    release_name,
)
from harness.reach.kube import Kube

BOOTSTRAP = "bootstrap.cluster.x-k8s.io/v1alpha3"
_BASE_NAMED = (
    (CAPI, "MachineDeployment"),
    (CAPI, "MachineHealthCheck"),
    (INFRASTRUCTURE, "KubevirtMachineTemplate"),
    (BOOTSTRAP, "TalosConfigTemplate"),
)
_LABELLED = (
    (CAPI, "MachineSet"),
    (CAPI, "Machine"),
    (INFRASTRUCTURE, "KubevirtMachine"),
    (KUBEVIRT, "VirtualMachine"),
)


def render_trial(
    kube: Kube, namespace: str, cluster: str, pool: str, written: str, *, now: Now
) -> RenderTrial | Unread:
    """What became of a trial pool. ``written`` is the JSON (`facts.trials.as_json`) of what was
    sent under kernelModules, "" where the key was left out."""
    name = release_name(cluster, pool)
    release = kube.get(HELM, "HelmRelease", namespace, name)
    if release is None:
        what = f"HelmRelease {namespace}/{name}"
        return Unread(Origin(now(), f"{kube.name} {what}", ""), what, "it is not there")
    template = bootstrap_template(kube, namespace, cluster, pool, now=now)
    return trials.render_trial(
        release,
        written,
        pool=pool,
        events=events_of(kube, namespace, name),
        template=None if isinstance(template, Unread) else template,
        created=created(kube, namespace, cluster, pool),
        at=now(),
        cluster=kube.name,
    )


def events_of(kube: Kube, namespace: str, name: str) -> list[Obj]:
    """The Events of a HelmRelease, oldest first."""
    found = kube.list("v1", "Event", namespace, fields=f"involvedObject.name={name}")
    ours = [one for one in found if text_at(one, "involvedObject", "kind") == "HelmRelease"]
    return sorted(ours, key=lambda one: text_at(one, "lastTimestamp"))


def created(kube: Kube, namespace: str, cluster: str, pool: str) -> list[Obj]:
    """Every object that belongs to a scratch pool beside its release.

    Disks are told by the beginning of their names, which is sound for scratch pools alone: no other
    pool's name begins like theirs.
    """
    base = f"kubernetes-{cluster}-{pool}"
    named = [
        one
        for version, kind in _BASE_NAMED
        for one in kube.list(version, kind, namespace)
        if _is_of(name_of(one), base)
    ]
    labelled = [
        one
        for version, kind in _LABELLED
        for one in kube.list(version, kind, namespace)
        if mapped(one, "metadata", "labels").get(DEPLOYMENT_LABEL) == base
    ]
    disks = [
        one
        for one in kube.list(DATA_VOLUMES, "DataVolume", namespace)
        if name_of(one).startswith(f"{base}-")
    ]
    return [*named, *labelled, *disks, *reconcile_jobs(kube, namespace, cluster, pool)]


def _is_of(name: str, base: str) -> bool:
    """The pool's own name, bare or with six hex digits of its content."""
    beyond = name.removeprefix(base)
    bare = name == base
    return bare or (name != beyond and len(beyond) == 7 and beyond.startswith("-"))
