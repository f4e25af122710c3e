"""Names that Cozystack derives from a cluster's and a pool's (objects.md section 1)."""

from __future__ import annotations

import hashlib
import re

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


_TRIAL = re.compile(r"hil[0-9]+(-|$)")


def trial_name(cluster: str, pool: str, number: int) -> str:
    """Name of the scratch pool on which a request of ``pool`` is only rendered.

    It begins as no inventory's pool may (`is_trial_name`), so that neither is the beginning of the
    other; a pool whose name leaves no room for that stands in it as a digest.
    """
    name = f"hil{number}-{pool}"
    if len(release_name(cluster, name)) <= HELM_LIMIT:
        return name
    return f"hil{number}-{hashlib.sha256(pool.encode()).hexdigest()[:8]}"


def is_trial_name(pool: str) -> bool:
    """Whether a pool's name is one that trials keep for themselves."""
    return _TRIAL.match(pool) is not None
