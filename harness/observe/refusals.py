"""Ask what became of a request that a chart must refuse, or must not, and return facts.

Raises reach's LabError where the cluster cannot be asked. ``now`` gives the lab's time in epoch
seconds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.facts import applied as applied_facts
from harness.facts import refusals
from harness.facts import surroundings as around
from harness.facts.applied import AppliedPool
from harness.facts.fact import Origin, Unread
from harness.facts.objects import Obj, mapped, text_at
from harness.facts.refusals import RefusalTrial
from harness.facts.surroundings import Surroundings
from harness.facts.trials import as_json
from harness.observe import trials
from harness.observe.pool import (
    CAPI,
    DATA_VOLUMES,
    HELM,
    INFRASTRUCTURE,
    KUBEVIRT,
    Now,
    bootstrap_template,
    release_name,
)
from harness.observe.trials import BOOTSTRAP
from harness.reach.kube import Kube

NODES, NODES_KIND = "apps.cozystack.io/v1alpha1", "KubernetesNodes"
CONTROL_PLANE = ("controlplane.cluster.x-k8s.io/v1alpha1", "KamajiControlPlane")
STORAGE_CLASS = ("storage.k8s.io/v1", "StorageClass")


def pool_objects(kube: Kube, namespace: str, cluster: str, pool: str) -> dict[str, str]:
    """Every object of a scratch pool beside its release, by kind and name (`refusals.standing`).

    MachineSets are left out: Cluster API makes them of the MachineDeployment in its own time.
    """
    found = trials.created(kube, namespace, cluster, pool)
    return refusals.standing(one for one in found if text_at(one, "kind") != "MachineSet")


def refusal_trial(
    kube: Kube,
    namespace: str,
    cluster: str,
    pool: str,
    *,
    row: str,
    written: Mapping[str, Any],
    wrong: Sequence[str],
    release: Obj,
    before: Mapping[str, str],
    now: Now,
) -> RefusalTrial | Unread:
    """What became of a request, ``written`` into the pool's spec.

    ``release`` is the HelmRelease as it was when it judged that.
    """
    name = release_name(cluster, pool)
    if not release:
        what = f"HelmRelease {namespace}/{name}"
        return Unread(Origin(now(), f"{kube.name} {what}", ""), row, f"{what} has no verdict on it")
    return refusals.refusal_trial(
        release,
        row=row,
        name=pool,
        asked=as_json(written),
        wrong=wrong,
        written=written,
        events=trials.events_of(kube, namespace, name),
        before=before,
        after=pool_objects(kube, namespace, cluster, pool),
        at=now(),
        cluster=kube.name,
    )


def applied_pool(
    kube: Kube, namespace: str, cluster: str, pool: str, *, release: Obj | None = None, now: Now
) -> AppliedPool | Unread:
    """A pool's object beside its release and the templates that its MachineDeployment refers to.

    ``release`` is the HelmRelease as it was when it came to its verdict, where that was seen.
    """
    nodes = kube.get(NODES, NODES_KIND, namespace, f"{cluster}-{pool}")
    release = release or kube.get(HELM, "HelmRelease", namespace, release_name(cluster, pool))
    if nodes is None or release is None:
        kind = NODES_KIND if nodes is None else "HelmRelease"
        what = f"{kind} of pool {pool} in {namespace}"
        return Unread(Origin(now(), f"{kube.name} {what}", ""), what, "it is not there")
    deployment = kube.get(CAPI, "MachineDeployment", namespace, f"kubernetes-{cluster}-{pool}")
    bootstrap = bootstrap_template(kube, namespace, cluster, pool, now=now)
    return applied_facts.applied_pool(
        nodes,
        release,
        deployment or {},
        _machine_template(kube, namespace, deployment or {}),
        {} if isinstance(bootstrap, Unread) else bootstrap,
        pool=pool,
        at=now(),
        cluster=kube.name,
    )


def parent_version(kube: Kube, namespace: str, cluster: str) -> str:
    """The Kubernetes release of the tenant's control plane ("v1.35.0"), "" where none says so."""
    found = kube.get(*CONTROL_PLANE, namespace, f"kubernetes-{cluster}")
    return text_at(found, "spec", "version") if found else ""


def surroundings(
    management: Kube, tenant: Kube, namespace: str, *, leaving_out: str, now: Now
) -> Surroundings:
    """Every pool of the tenant's namespace but one, by what it consists of.

    ``leaving_out`` is the name of the MachineDeployment whose pool is not looked at.
    """
    return around.surroundings(
        deployments=management.list(CAPI, "MachineDeployment", namespace),
        releases=management.list(HELM, "HelmRelease", namespace),
        templates=[
            *management.list(INFRASTRUCTURE, "KubevirtMachineTemplate", namespace),
            *management.list(BOOTSTRAP, "TalosConfigTemplate", namespace),
        ],
        machines=management.list(CAPI, "Machine", namespace),
        vmis=management.list(KUBEVIRT, "VirtualMachineInstance", namespace),
        data_volumes=management.list(DATA_VOLUMES, "DataVolume", namespace),
        nodes=tenant.list("v1", "Node"),
        leaving_out=leaving_out,
        at=now(),
        where=management.name,
    )


def _machine_template(kube: Kube, namespace: str, deployment: Obj) -> Obj:
    reference = mapped(deployment, "spec", "template", "spec", "infrastructureRef")
    version, kind, name = (text_at(reference, key) for key in ("apiVersion", "kind", "name"))
    return (kube.get(version, kind, namespace, name) if version and kind and name else None) or {}
