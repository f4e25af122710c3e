"""A day with kr8s, the way its guide shows: objects that know how to do things."""

from __future__ import annotations

from typing import Any

import kr8s
from kr8s.objects import ConfigMap, Node, Pod, new_class
from surroundings import MANAGEMENT, POOL, POOLS, TENANT, Obj, Surroundings, drive

Pools = new_class(
    kind="KubernetesNodes",
    version="apps.cozystack.io/v1alpha1",
    plural="kubernetesnodeses",
    namespaced=True,
)
Machines = new_class(
    kind="MachineDeployment",
    version="cluster.x-k8s.io/v1beta1",
    plural="machinedeployments",
    namespaced=True,
    scalable=True,
)


def connect(at: Surroundings, context: str = MANAGEMENT) -> Any:
    return kr8s.api(kubeconfig=at.kubeconfig, context=context, namespace=at.namespace)


def refusal(call: Any, *arguments: object, **options: object) -> Obj:
    """What a call that must fail raises."""
    try:
        call(*arguments, **options)
    except kr8s.NotFoundError as absent:
        return {"raised": "NotFoundError", "message": str(absent)}
    except kr8s.ServerError as refused:
        told = refused.response.json()
        return {"status": told["code"], "reason": told["reason"], "message": told["message"]}
    return {"status": 0}


def version(at: Surroundings) -> Obj:
    api = connect(at)
    return {
        "client": kr8s.__version__,
        "server": api.version()["gitVersion"],
        "kinds": len(list(api.api_resources())),
        "who": api.whoami(),
    }


def reading(at: Surroundings) -> Obj:
    api = connect(at)
    nodes = list(api.get("nodes"))
    launcher = list(api.get("pods", namespace=POOLS, label_selector="kubevirt.io=virt-launcher"))
    return {
        "nodes": sorted(node.name for node in nodes),
        "kubelet": nodes[0].status.nodeInfo.kubeletVersion,
        "launcher": [pod.status.phase for pod in launcher],
        "ready": [pod.ready() for pod in launcher],
        "one": Node.get("hv-2", api=api).name,
        "everywhere": len(list(api.get("pods", namespace=kr8s.ALL))),
        "short": [vmi.status.phase for vmi in api.get("vmi", namespace=POOLS)],
        "missing": refusal(ConfigMap.get, "none", namespace=at.namespace, api=api),
    }


def writing(at: Surroundings) -> Obj:
    api = connect(at)
    one = ConfigMap(at.config_map("written", a="1", b="2"), api=api)
    one.create()
    again = refusal(ConfigMap(at.config_map("written"), api=api).create)
    one.patch({"data": {"a": "3"}})
    one.patch([{"op": "remove", "path": "/data/b"}], type="json")
    one.label({"colour": "red"})
    one.annotate(note="seen")
    labelled = list(api.get("configmaps", namespace=at.namespace, label_selector="colour=red"))
    saw = {
        "data": dict(one.data),
        "labels": dict(one.labels),
        "annotations": dict(one.annotations),
        "found": [found.name for found in labelled],
        "again": again,
    }
    one.remove_label("colour")
    one.delete()
    return saw | {"left": dict(one.labels), "exists": one.exists()}


def custom(at: Surroundings) -> Obj:
    api = connect(at)
    pool = Pools.get(POOL, namespace=POOLS, api=api)
    pool.annotate({at.namespace: "seen"})
    machines = Machines.get(f"kubernetes-{POOL}", namespace=POOLS, api=api)
    return {
        "cluster": pool.spec.cluster,
        "noted": pool.annotations[at.namespace],
        "replicas": machines.replicas,
        "discovered": [found.name for found in api.get("kubernetesnodeses", namespace=POOLS)],
    }


def watching(at: Surroundings) -> Obj:
    api, seen = connect(at), []
    first = ConfigMap(at.config_map("watched", a="1"), api=api)
    first.create()

    def change() -> None:
        other = connect(at)  # an object of kr8s belongs to the thread that made it
        mine = ConfigMap.get("watched", namespace=at.namespace, api=other)
        mine.patch({"data": {"a": "2"}})
        mine.delete()

    with at.beside(MANAGEMENT, "ConfigMap", change):
        for kind, found in api.watch("configmaps", namespace=at.namespace):
            seen.append([kind, found.data["a"]])
            if kind == "DELETED":
                break
    return {"events": seen}


def running(at: Surroundings) -> Obj:
    api = connect(at, TENANT)
    pod = Pod(at.pod("sleeper"), api=api)
    pod.create()
    with at.beside(TENANT, "Pod", lambda: at.advance(60)):
        pod.wait("condition=Ready", timeout=50)
    done = pod.exec(["cat", "/proc/modules"])
    failed = pod.exec(["cat", "/none"], check=False, capture_output=True)
    saw = {
        "phase": pod.status.phase,
        "modules": done.stdout.decode(),
        "code": done.returncode,
        "failed": [failed.returncode, failed.stderr.decode()],
        "log": list(pod.logs()),
    }
    pod.delete()
    with at.beside(TENANT, "Pod", lambda: at.advance(60)):
        pod.wait("delete", timeout=50)
    return saw | {"exists": pod.exists()}


if __name__ == "__main__":
    drive(version, reading, writing, custom, watching, running)
