"""A day with lightkube: models throughout, server-side apply, generic resources for the rest."""

from __future__ import annotations

from importlib.metadata import version as installed
from typing import Any

from lightkube import ApiError, Client, KubeConfig
from lightkube.generic_resource import create_namespaced_resource
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import ConfigMap, Namespace, Node, Pod
from lightkube.types import PatchType
from surroundings import MANAGEMENT, POOL, POOLS, TENANT, Obj, Surroundings, drive

Pools = create_namespaced_resource(
    "apps.cozystack.io", "v1alpha1", "KubernetesNodes", "kubernetesnodeses"
)
Machines = create_namespaced_resource(
    "cluster.x-k8s.io", "v1beta1", "MachineDeployment", "machinedeployments"
)


def connect(at: Surroundings, context: str = MANAGEMENT, manager: str = "driver") -> Any:
    config = KubeConfig.from_file(at.kubeconfig).get(context_name=context)
    return Client(config=config, namespace=at.namespace, field_manager=manager)


def refusal(call: Any, *arguments: object, **options: object) -> Obj:
    """The Status that a call which must fail was answered with."""
    try:
        call(*arguments, **options)
    except ApiError as refused:
        told = refused.status
        return {"status": told.code, "reason": told.reason, "message": told.message}
    return {"status": 0}


def config_map(at: Surroundings, name: str, **data: str) -> Any:
    return ConfigMap(metadata=ObjectMeta(name=name, namespace=at.namespace), data=data)


def reading(at: Surroundings) -> Obj:
    client = connect(at)
    nodes = list(client.list(Node))
    chosen = list(client.list(Pod, namespace=POOLS, labels={"kubevirt.io": "virt-launcher"}))
    return {
        "client": installed("lightkube"),
        "nodes": [node.metadata.name for node in nodes],
        "kubelet": nodes[0].status.nodeInfo.kubeletVersion,
        "pages": len(list(client.list(Node, chunk_size=2))),
        "launcher": [pod.status.phase for pod in chosen],
        "everywhere": len(list(client.list(Pod, namespace="*"))),
        "missing": refusal(client.get, ConfigMap, "none"),
    }


def writing(at: Surroundings) -> Obj:
    client, other = connect(at), connect(at, manager="other")
    client.apply(config_map(at, "written", a="1", b="2"))
    conflict = refusal(other.apply, config_map(at, "written", a="2"))
    forced = other.apply(config_map(at, "written", a="2"), force=True)
    merged = client.patch(ConfigMap, "written", {"data": {"b": None}}, patch_type=PatchType.MERGE)
    operations = [{"op": "add", "path": "/data/c", "value": "3"}]
    client.patch(ConfigMap, "written", operations, patch_type=PatchType.JSON)
    labels = {"metadata": {"labels": {"colour": "red"}}}
    strategic = client.patch(ConfigMap, "written", labels)
    client.replace(strategic)  # nothing changes, and the version is the newest
    stale = refusal(client.replace, merged)
    created = refusal(client.create, config_map(at, "written"))
    client.delete(ConfigMap, "written", dry_run=True)
    still = client.get(ConfigMap, "written").data
    client.delete(ConfigMap, "written")
    return {
        "conflict": conflict,
        "forced": forced.data,
        "data": strategic.data,
        "labels": strategic.metadata.labels,
        "stale": stale,
        "created": created,
        "dry": still,
        "gone": refusal(client.get, ConfigMap, "written"),
    }


def custom(at: Surroundings) -> Obj:
    client = connect(at)
    pool = client.get(Pools, POOL, namespace=POOLS)
    noted = client.set(Pools, POOL, namespace=POOLS, annotations={at.namespace: "seen"})
    scale = client.get(Machines.Scale, f"kubernetes-{POOL}", namespace=POOLS)
    ready = client.wait(Pools, POOL, namespace=POOLS, for_conditions=["Ready"])
    return {
        "cluster": pool["spec"]["cluster"],
        "noted": noted.metadata.annotations[at.namespace] if noted else None,
        "replicas": scale.spec.replicas,
        "ready": [c["status"] for c in ready["status"]["conditions"] if c["type"] == "Ready"],
    }


def watching(at: Surroundings) -> Obj:
    client, seen = connect(at), []

    def change() -> None:
        other = connect(at)
        other.create(config_map(at, "watched", a="1"))
        other.patch(ConfigMap, "watched", {"data": {"a": "2"}})
        other.delete(ConfigMap, "watched")

    listed = client.list(ConfigMap)
    list(listed)  # only then it knows the version
    since = listed.resourceVersion
    with at.beside(MANAGEMENT, "ConfigMap", change):
        for kind, found in client.watch(ConfigMap, resource_version=since, server_timeout=30):
            seen.append([kind, found.data["a"]])
            if kind == "DELETED":
                break
    return {"events": seen}


def running(at: Surroundings) -> Obj:
    client = connect(at, TENANT)
    client.create(Pod.from_dict(at.pod("sleeper")))
    with at.beside(TENANT, "Pod", lambda: at.advance(60)):
        ready = client.wait(Pod, "sleeper", for_conditions=["Ready"])
    # a stdin lightkube ends when the program may have ended already, and fails then
    told: Obj = {"stdout": True, "stderr": True, "timeout": 30}
    done = client.exec("sleeper", command=["cat", "/proc/modules"], **told)
    failed = client.exec("sleeper", command=["cat", "/none"], **told)
    saw = {
        "phase": ready.status.phase,
        "modules": done.stdout,
        "code": done.exit_code,
        "failed": [failed.exit_code, failed.stderr],
        "log": list(client.log("sleeper", tail_lines=5)),
        "namespace": client.get(Namespace, at.namespace).status.phase,
    }
    client.delete(Pod, "sleeper")
    at.advance(60)
    return saw | {"gone": refusal(client.get, Pod, "sleeper")}


if __name__ == "__main__":
    drive(reading, writing, custom, watching, running)
