"""The DaemonSets of a tenant cluster: who made them, what their containers get and mount."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.facts.containers import Container, containers, host_paths
from harness.facts.fact import Fact, Origin
from harness.facts.objects import at_path, listed, mapped, name_of, text_at

_MADE_BY = ("helm.toolkit.fluxcd.io/name", "helm.sh/chart", "app.kubernetes.io/managed-by")


@dataclass(frozen=True, slots=True)
class DaemonSet:
    """One DaemonSet.

    ``owner`` is "Kind name" of its controlling owner, else of its first, "" for none; ``manager``
    is the label that says who deploys it ("helm.sh/chart=..."), "" where it has none of Helm's or
    Flux's; ``host_paths`` are its volumes' paths on the host; ``desired`` and ``ready`` count
    pods; ``host_pid``: its pods see the host's processes.
    """

    namespace: str
    name: str
    owner: str
    manager: str
    containers: tuple[Container, ...]
    host_paths: tuple[str, ...]
    desired: int
    ready: int
    host_pid: bool

    @property
    def privileged(self) -> bool:
        """Whether any of its containers is privileged."""
        return any(one.privileged for one in self.containers)

    def container(self, name: str) -> Container | None:
        """The container of this name, whether it initialises or not."""
        return next((one for one in self.containers if one.name == name), None)

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class DaemonSets(Fact):
    """Every DaemonSet of a cluster, by namespace and name."""

    sets: tuple[DaemonSet, ...]

    def find(self, namespace: str, name: str) -> DaemonSet | None:
        """The DaemonSet of this name, None where the cluster has none such."""
        wanted = (namespace, name)
        return next((one for one in self.sets if (one.namespace, one.name) == wanted), None)


def daemonsets(objects: Sequence[Any], *, at: float, cluster: str) -> DaemonSets:
    """Read a whole list of DaemonSets, of all namespaces."""
    raw = json.dumps(objects, indent=1, sort_keys=True, default=str)
    read = sorted(map(_daemonset, objects), key=lambda one: (one.namespace, one.name))
    return DaemonSets(Origin(at, f"{cluster} DaemonSets of all namespaces", raw), tuple(read))


def _daemonset(obj: Any) -> DaemonSet:
    spec = mapped(obj, "spec", "template", "spec")
    return DaemonSet(
        namespace=text_at(obj, "metadata", "namespace"),
        name=name_of(obj),
        owner=_owner(obj),
        manager=_manager(mapped(obj, "metadata", "labels")),
        containers=containers(spec),
        host_paths=host_paths(spec),
        desired=_count(obj, "desiredNumberScheduled"),
        ready=_count(obj, "numberReady"),
        host_pid=spec.get("hostPID") is True,
    )


def _owner(obj: Any) -> str:
    owners = listed(obj, "metadata", "ownerReferences")
    first = next((one for one in owners if at_path(one, "controller") is True), None)
    owner = first or (owners[0] if owners else {})
    return " ".join(part for part in (text_at(owner, "kind"), text_at(owner, "name")) if part)


def _manager(labels: dict[str, Any]) -> str:
    """The first label of a deployer's; managed-by counts where it says Helm."""
    for key in _MADE_BY:
        value = labels.get(key)
        if value and (key != "app.kubernetes.io/managed-by" or value == "Helm"):
            return f"{key}={value}"
    return ""


def _count(obj: Any, key: str) -> int:
    found = at_path(obj, "status", key)
    return found if isinstance(found, int) else 0
