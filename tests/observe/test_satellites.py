from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.observe.satellites import bound_volume, satellites

Obj = dict[str, Any]
LABELS = {"app.kubernetes.io/component": "linstor-satellite"}


def pod(name: str, node: str, phase: str = "Running", **metadata: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "cozy-linstor", "labels": LABELS, **metadata},
        "spec": {"nodeName": node},
        "status": {"phase": phase},
    }


def claim(phase: str, **spec: Any) -> Obj:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "disk", "namespace": "tenant-hil"},
        "spec": spec,
        "status": {"phase": phase},
    }


def test_a_shell_for_each_node_whose_satellite_runs(cluster: Callable[..., Any]) -> None:
    other = pod("controller", "hv-4")
    other["metadata"]["labels"] = {}
    kube = cluster(
        pod("b", "hv-2"),
        pod("a", "hv-1"),
        pod("old", "hv-1", deletionTimestamp="2026-01-01T00:00:00Z"),
        pod("c", "hv-3", "Pending"),
        other,
    )
    found = satellites(kube)
    assert list(found) == ["hv-1", "hv-2"]
    assert (found["hv-1"].pod, found["hv-1"].container) == ("a", "linstor-satellite")
    assert found["hv-1"].where == "storage node hv-1"


def test_no_satellite_is_no_node(cluster: Callable[..., Any]) -> None:
    assert satellites(cluster()) == {}


def test_only_a_bound_claim_has_a_volume(cluster: Callable[..., Any]) -> None:
    bound = cluster(claim("Bound", volumeName="pvc-1"))
    assert bound_volume(bound, "tenant-hil", "disk") == "pvc-1"
    assert bound_volume(cluster(claim("Pending", volumeName="pvc-1")), "tenant-hil", "disk") == ""
    assert bound_volume(cluster(), "tenant-hil", "disk") == ""
