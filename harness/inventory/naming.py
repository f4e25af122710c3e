"""Names that Cozystack derives from a cluster's and a pool's (objects.md section 1)."""

from __future__ import annotations

HELM_LIMIT = 53
"""Longest release name that Helm takes, in characters."""


def nodes_name(cluster: str, pool: str) -> str:
    """Name of the KubernetesNodes CR: it must be ``<cluster>-<pool>`` (step 4)."""
    return f"{cluster}-{pool}"


def release_name(cluster: str, pool: str) -> str:
    """Name of the pool's HelmRelease (step 5)."""
    return f"kubernetes-nodes-{cluster}-{pool}"


def cluster_name(cluster: str) -> str:
    """Name of the tenant's HelmRelease, Cluster API Cluster and control plane (steps 2, 3)."""
    return f"kubernetes-{cluster}"


def deployment_name(cluster: str, pool: str) -> str:
    """Name of the pool's MachineDeployment and MachineHealthCheck (step 6)."""
    return f"kubernetes-{cluster}-{pool}"
