"""Manifests of workloads as charts render them: a DaemonSet, a Deployment."""

from __future__ import annotations

from harness.twin.world.objects import Obj, meta


def daemonset(name: str, namespace: str, labels: dict[str, str], spec: Obj) -> Obj:
    """A DaemonSet whose pods carry ``labels``."""
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": meta(name, namespace, labels=labels),
        "spec": {
            "selector": {"matchLabels": labels},
            "updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}},
            "template": {"metadata": {"labels": labels}, "spec": spec},
        },
    }


def deployment(
    name: str, namespace: str, labels: dict[str, str], container: Obj, *, replicas: int = 1
) -> Obj:
    """A Deployment of pods with one container, which carry ``labels``."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta(name, namespace, labels=labels),
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }
