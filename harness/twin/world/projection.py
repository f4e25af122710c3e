"""The aggregated API apps.cozystack.io: each kind a view of HelmReleases (objects.md section 2)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass

from harness.twin.apiserver.resources import Column, Projection, Resource
from harness.twin.world import conditions
from harness.twin.world.conditions import Condition
from harness.twin.world.objects import APPS, HELM, Obj, deep, labels_of, parse_rfc3339

GROUP = "apps.cozystack.io"
APPLICATION = f"{GROUP}/application"
_HR_LABEL_PREFIX = f"{APPLICATION}."
Monitors = Callable[[str, str, str], list[Obj]]
"""Workload monitors of one application: (namespace, kind, name) to objects."""


@dataclass(frozen=True, slots=True)
class Application:
    """One kind of the API: its names, its release prefix, its chart, its time-out."""

    kind: str
    plural: str
    prefix: str
    chart: str
    timeout: str

    def release(self, name: str) -> str:
        """Name of the HelmRelease behind an application."""
        return f"{self.prefix}{name}"


KUBERNETES = Application("Kubernetes", "kuberneteses", "kubernetes-", "kubernetes", "20m")
NODES = Application(
    "KubernetesNodes", "kubernetesnodeses", "kubernetes-nodes-", "kubernetes-nodes", "15m"
)
TENANT = Application("Tenant", "tenants", "tenant-", "tenant", "10m")
APPLICATIONS = (KUBERNETES, NODES, TENANT)


def resources(monitors: Monitors) -> tuple[Resource, ...]:
    """The kinds to serve; ``monitors`` finds what WorkloadsReady is made of."""
    return tuple(_resource(application, monitors) for application in APPLICATIONS)


def _resource(application: Application, monitors: Monitors) -> Resource:
    group, _, version = APPS.rpartition("/")
    return Resource(
        group=group,
        version=version,
        kind=application.kind,
        plural=application.plural,
        singular=application.kind.lower(),
        status=True,
        columns=(
            Column("Ready", lambda obj: conditions.find(obj, "Ready").get("status", "")),
            Column("Age", "metadata.creationTimestamp", type="date"),
            Column("Version", "status.version"),
        ),
        projection=Projection(
            source=(HELM, "HelmRelease"),
            show=lambda stored: show(application, stored, monitors),
            keep=lambda shown, stored: keep(application, shown, stored),
            stored_name=application.release,
        ),
    )


def show(application: Application, stored: Obj, monitors: Monitors) -> Obj | None:
    """A HelmRelease as its application, or None where it belongs to another kind."""
    labels = labels_of(stored)
    if labels.get(f"{APPLICATION}.kind") != application.kind:
        return None
    metadata = stored["metadata"]
    name = labels.get(f"{APPLICATION}.name") or metadata["name"].removeprefix(application.prefix)
    own = {
        key: value
        for key, value in labels.items()
        if not key.startswith((_HR_LABEL_PREFIX, "sharding.fluxcd.io/"))
    }
    shown_metadata = {"name": name, "namespace": metadata.get("namespace", "")}
    if own:
        shown_metadata["labels"] = own
    if metadata.get("annotations"):
        shown_metadata["annotations"] = metadata["annotations"]
    values = deep(stored, "spec", "values") or {}
    return {
        "apiVersion": APPS,
        "kind": application.kind,
        "metadata": shown_metadata,
        "spec": {key: value for key, value in values.items() if not key.startswith("_")},
        "status": _status(application, stored, name, monitors),
    }


def _status(application: Application, stored: Obj, name: str, monitors: Monitors) -> Obj:
    status: Obj = {}
    version = deep(stored, "status", "lastAttemptedRevision")
    if version:
        status["version"] = version
    shown: Obj = {"metadata": stored["metadata"], "status": {"conditions": []}}
    for kind in ("Ready", "Released"):
        found = conditions.find(stored, kind)
        if found:
            shown["status"]["conditions"].append(found)
    namespace = stored["metadata"].get("namespace", "")
    workloads = _workloads(monitors(namespace, application.kind, name))
    if workloads is not None and shown["status"]["conditions"]:
        moment = shown["status"]["conditions"][0]["lastTransitionTime"]
        conditions.write(shown, parse_rfc3339(moment), workloads, metav1=True)
    return status | ({"conditions": found} if (found := shown["status"]["conditions"]) else {})


def _workloads(monitors: list[Obj]) -> Condition | None:
    """WorkloadsReady; an application that monitors nothing has no such condition."""
    if not monitors:
        return None
    states = [(m["metadata"]["name"], deep(m, "status", "operational")) for m in monitors]
    waiting = [name for name, state in states if state is None]
    down = [name for name, state in states if state is False]
    if down:
        text = f"workload monitors not operational: {', '.join(down)}"
        return conditions.false("WorkloadsReady", "WorkloadMonitorCheck", text)
    if waiting:
        text = f"workload monitors without a status: {', '.join(waiting)}"
        return conditions.unknown("WorkloadsReady", "Pending", text)
    return conditions.true("WorkloadsReady", "WorkloadMonitorCheck", "all workloads operational")


def keep(application: Application, shown: Obj, stored: Obj | None) -> Obj:
    """The HelmRelease of an application: a new one, or the stored one with other values.

    What the platform put into the values (keys beginning with ``_``) stays.
    """
    release = copy.deepcopy(stored) if stored else _new(application, shown)
    before = deep(release, "spec", "values") or {}
    private = {key: value for key, value in before.items() if key.startswith("_")}
    release["spec"]["values"] = {**copy.deepcopy(shown.get("spec") or {}), **private}
    metadata, wanted = release["metadata"], shown["metadata"]
    ours = {k: v for k, v in labels_of(release).items() if k not in labels_of(shown)}
    kept = {k: v for k, v in ours.items() if k.startswith((_HR_LABEL_PREFIX, "sharding."))}
    metadata["labels"] = {**(wanted.get("labels") or {}), **kept}
    metadata["annotations"] = dict(wanted.get("annotations") or {})
    if wanted.get("resourceVersion"):
        metadata["resourceVersion"] = wanted["resourceVersion"]
    return release


def _new(application: Application, shown: Obj) -> Obj:
    name, namespace = shown["metadata"]["name"], shown["metadata"].get("namespace", "")
    # objects.md section 2, "HR synthesised for an app"
    action = {
        "disableWait": True,
        "strategy": {"name": "RetryOnFailure", "retryInterval": "30s"},
    }
    return {
        "apiVersion": HELM,
        "kind": "HelmRelease",
        "metadata": {
            "name": application.release(name),
            "namespace": namespace,
            "labels": {
                f"{APPLICATION}.group": GROUP,
                f"{APPLICATION}.kind": application.kind,
                f"{APPLICATION}.name": name,
                "sharding.fluxcd.io/key": "tenants",
            },
        },
        "spec": {
            "interval": "5m",
            "timeout": application.timeout,
            "chartRef": {
                "kind": "ExternalArtifact",
                "name": f"cozystack-{application.chart}",
                "namespace": "cozy-system",
            },
            "install": dict(action),
            "upgrade": dict(action),
            "valuesFrom": [{"kind": "Secret", "name": "cozystack-values"}],
        },
    }
