"""A pool as the KubernetesNodes object that asks for it (objects.md section 2.1)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.inventory.models import KernelModule, Lab, Pool
from harness.inventory.naming import nodes_name

API_VERSION = "apps.cozystack.io/v1alpha1"
KIND = "KubernetesNodes"


def kubernetes_nodes(
    lab: Lab,
    pool: str,
    *,
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The KubernetesNodes object of the pool of this name, as a fresh dict.

    ``labels`` and ``annotations`` mark who owns it. ``kernelModules`` is there only if the
    inventory has it: absent, ``[]`` and a list are three requests (S-KM). KeyError when the lab
    has no such pool.
    """
    metadata: dict[str, Any] = {
        "name": nodes_name(lab.tenant.cluster, pool),
        "namespace": lab.tenant.namespace,
    }
    for key, marks in (("labels", labels), ("annotations", annotations)):
        if marks:
            metadata[key] = dict(marks)
    spec = _spec(lab, pool)
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _spec(lab: Lab, name: str) -> dict[str, Any]:
    pool, schematic = lab.pools[name], lab.schematic_of(name).id
    spec: dict[str, Any] = {
        "cluster": lab.tenant.cluster,
        # As many as at least: the autoscaler must not take a card that another pool holds.
        "minReplicas": pool.replicas,
        "maxReplicas": pool.replicas,
        "instanceType": pool.instance_type,
        "diskSize": str(pool.disk_size),
        "storageClass": pool.storage_class,
        "version": pool.kubernetes_version,
        "talos": {"version": pool.talos_version, "schematicID": schematic},
    }
    return {**spec, **_gpus(lab, name), **_os_image(pool, schematic), **_modules(pool)}


def _gpus(lab: Lab, name: str) -> dict[str, Any]:
    card = lab.card(name)
    if card is None:
        return {}
    return {"gpus": [{"name": card.resource_name} for _ in range(lab.pools[name].cards)]}


def _os_image(pool: Pool, schematic: str) -> dict[str, Any]:
    # talos.* stays beside it with the same values: boot source and installer must agree (S-OSI).
    if pool.os_image is None:
        return {}
    image = {"schematicID": schematic, "version": pool.talos_version}
    return {"osImage": {pool.os_image: image}}


def _modules(pool: Pool) -> dict[str, Any]:
    if pool.kernel_modules is None:
        return {}
    return {"kernelModules": [_module(module) for module in pool.kernel_modules]}


def _module(module: KernelModule) -> dict[str, Any]:
    parameters = module.parameters
    listed = {} if parameters is None else {"parameters": list(parameters)}
    return {"name": module.name, **listed}
