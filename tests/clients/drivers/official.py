"""A day with the official client: `kubernetes`, before and since its models are strict (37)."""

from __future__ import annotations

import json
from typing import Any

import kubernetes
from kubernetes import client, config, dynamic, utils
from kubernetes.client.exceptions import ApiException
from kubernetes.stream import stream  # noqa: TID251 - it is driven here, it does not drive
from kubernetes.watch import Watch  # noqa: TID251 - as above
from surroundings import MANAGEMENT, POOL, POOLS, TENANT, Obj, Surroundings, drive

KIND = ("apps.cozystack.io", "v1alpha1", POOLS, "kubernetesnodeses")
APPLY = "application/apply-patch+yaml"


def connect(at: Surroundings, context: str = MANAGEMENT) -> Any:
    return config.new_client_from_config(at.kubeconfig, context)


def core(at: Surroundings, context: str = MANAGEMENT) -> Any:
    return client.CoreV1Api(connect(at, context))


def refusal(call: Any, *arguments: object, **options: object) -> Obj:
    """The Status that a call which must fail was answered with."""
    try:
        call(*arguments, **options)
    except ApiException as refused:
        told: Obj = json.loads(refused.body)
        return {"status": refused.status, "reason": told["reason"], "message": told["message"]}
    return {"status": 0}


def plain(answer: object) -> Obj:
    """As JSON has it: what a deletion is answered with is no model any more since 37."""
    told: Obj = client.ApiClient().sanitize_for_serialization(answer)
    return told


def version(at: Surroundings) -> Obj:
    told = client.VersionApi(connect(at)).get_code()
    groups = client.ApisApi(connect(at)).get_api_versions().groups
    return {
        "client": kubernetes.__version__,
        "server": told.git_version,
        "groups": [group.name for group in groups],
    }


def typed(at: Surroundings) -> Obj:
    """Every kind that has a model is read through it, in both clusters."""
    return {context: lists(connect(at, context)) for context in (MANAGEMENT, TENANT)}


def lists(api: Any) -> dict[str, int]:
    made: dict[str, int] = {}
    for group in (
        client.CoreV1Api,
        client.AppsV1Api,
        client.BatchV1Api,
        client.CoordinationV1Api,
        client.NodeV1Api,
        client.RbacAuthorizationV1Api,
        client.StorageV1Api,
        client.ApiextensionsV1Api,
    ):
        for name in dir(group):
            served = name.startswith("list_") and name.endswith("_for_all_namespaces")
            if served or name in ("list_node", "list_namespace", "list_storage_class"):
                made |= one_list(group(api), name)
    return made


def one_list(group: Any, name: str) -> dict[str, int]:
    try:
        return {name.removeprefix("list_"): len(getattr(group, name)().items)}
    except ApiException as refused:
        if refused.status != 404:
            raise
        return {}  # a kind that the twin does not have


def reading(at: Surroundings) -> Obj:
    api = core(at)
    nodes = api.list_node().items
    chosen = api.list_namespaced_pod(POOLS, label_selector="kubevirt.io=virt-launcher").items
    first = api.list_node(limit=2)
    rest = api.list_node(limit=2, _continue=first.metadata._continue)
    ready = [c.status for node in nodes for c in node.status.conditions if c.type == "Ready"]
    return {
        "nodes": [node.metadata.name for node in nodes],
        "ready": ready,
        "memory": [str(utils.parse_quantity(n.status.allocatable["memory"])) for n in nodes],
        "launcher": [pod.status.phase for pod in chosen],
        "born": nodes[0].metadata.creation_timestamp.isoformat(),
        "pages": [len(first.items), len(rest.items)],
        "left": first.metadata.remaining_item_count,
    }


def writing(at: Surroundings) -> Obj:
    api, here = core(at), ("patched", at.namespace)
    made = api.create_namespaced_config_map(at.namespace, at.config_map("patched", a="1", b="2"))
    api.patch_namespaced_config_map(*here, {"data": {"a": "3"}})  # strategic
    api.patch_namespaced_config_map(*here, [{"op": "add", "path": "/data/c", "value": "4"}])
    merge = {"_content_type": "application/merge-patch+json"}
    last = api.patch_namespaced_config_map(*here, {"data": {"b": None}}, **merge)
    made.data = {"late": "1"}  # with the resourceVersion of before the patches
    stale = refusal(api.replace_namespaced_config_map, *here, made)
    patched, last.data = last.data, {"replaced": "1"}
    replaced = api.replace_namespaced_config_map(*here, last)
    gone = api.delete_namespaced_config_map(*here)
    return {
        "patched": patched,
        "stale": stale,
        "replaced": replaced.data,
        "deleted": plain(gone)["status"],
        "absent": refusal(api.read_namespaced_config_map, *here),
        "again": refusal(api.create_namespace, {"metadata": {"name": at.namespace}}),
        "forbidden": refusal(core_of_nobody(at).list_namespaced_pod, at.namespace),
    }


def core_of_nobody(at: Surroundings) -> Any:
    """The API as an account that has been granted nothing."""
    api = core(at)
    api.create_namespaced_service_account(at.namespace, {"metadata": {"name": "bot"}})
    asked = {"spec": {"audiences": [], "expirationSeconds": None}}
    token = api.create_namespaced_service_account_token("bot", at.namespace, asked).status.token
    settings = client.Configuration()
    config.load_kube_config(at.kubeconfig, MANAGEMENT, client_configuration=settings)
    settings.cert_file = settings.key_file = None
    settings.api_key = {"authorization": f"Bearer {token}"}
    return client.CoreV1Api(client.ApiClient(settings))


def applying(at: Surroundings) -> Obj:
    patch = core(at).patch_namespaced_config_map
    here = ("applied", at.namespace)
    first = patch(*here, at.config_map("applied", a="1"), _content_type=APPLY, field_manager="me")
    other = {"_content_type": APPLY, "field_manager": "other"}
    refused = refusal(patch, *here, at.config_map("applied", a="2"), **other)
    forced = patch(*here, at.config_map("applied", a="2"), force=True, **other)
    return {
        "managers": [entry.manager for entry in first.metadata.managed_fields],
        "conflict": refused,
        "forced": forced.data,
    }


def custom(at: Surroundings) -> Obj:
    api = client.CustomObjectsApi(connect(at))
    group, number, namespace, plural = KIND
    listed = api.list_namespaced_custom_object(*KIND)["items"]
    one = api.get_namespaced_custom_object(*KIND, POOL)
    note = {"metadata": {"annotations": {at.namespace: "seen"}}}
    patched = api.patch_namespaced_custom_object(*KIND, POOL, note)
    everywhere = api.list_cluster_custom_object(group, number, plural)["items"]
    machines = ("cluster.x-k8s.io", "v1beta1", namespace, "machinedeployments")
    scale = api.get_namespaced_custom_object_scale(*machines, f"kubernetes-{POOL}")
    return {
        "listed": [item["metadata"]["name"] for item in listed],
        "everywhere": len(everywhere),
        "cluster": one["spec"]["cluster"],
        "patched": patched["metadata"]["annotations"][at.namespace],
        "scale": scale["spec"]["replicas"],
        # the client sends both as a merge patch, whatever they look like
        "operations": refusal(
            api.patch_namespaced_custom_object,
            *KIND,
            POOL,
            [{"op": "add", "path": "/metadata/labels", "value": {}}],
        ),
    }


def dynamically(at: Surroundings) -> Obj:
    dyn = dynamic.DynamicClient(connect(at), cache_file=f"{at.home}/discovery")
    maps = dyn.resources.get(api_version="v1", kind="ConfigMap")
    pools = dyn.resources.get(api_version="apps.cozystack.io/v1alpha1", kind="KubernetesNodes")
    machines = dyn.resources.get(kind="VirtualMachineInstance")
    maps.create(body=at.config_map("dynamic", a="1"), namespace=at.namespace)
    body = at.config_map("dynamic", b="2")
    applied = maps.server_side_apply(
        body=body, name="dynamic", namespace=at.namespace, field_manager="dynamic"
    )
    strategic = {"body": {"metadata": {"labels": {"x": "y"}}}, "name": POOL, "namespace": POOLS}
    return {
        "data": dict(applied.data),
        "phases": [vmi.status.phase for vmi in machines.get(namespace=POOLS).items],
        "strategic": refusal(pools.patch, **strategic),  # what it sends unless told otherwise
        "missing": refusal(maps.get, name="none", namespace=at.namespace),
    }


def watching(at: Surroundings) -> Obj:
    api, space = core(at), at.namespace
    since = api.list_namespaced_config_map(space).metadata.resource_version

    def change() -> None:
        api.create_namespaced_config_map(space, at.config_map("watched", a="1"))
        api.patch_namespaced_config_map("watched", space, {"data": {"a": "2"}})
        api.delete_namespaced_config_map("watched", space)

    seen, watch = [], Watch()
    with at.beside(MANAGEMENT, "ConfigMap", change):
        args = {"resource_version": since, "timeout_seconds": 30}
        for event in watch.stream(core(at).list_namespaced_config_map, space, **args):
            seen.append([event["type"], event["object"].data["a"]])
            if event["type"] == "DELETED":
                watch.stop()
    return {"events": seen}


def running(at: Surroundings) -> Obj:
    """A pod on the worker: made, waited for, exec'd into, its log read, deleted."""
    api, here = core(at, TENANT), ("sleeper", at.namespace)
    api.create_namespaced_pod(at.namespace, at.pod("sleeper"))
    phases, watch = [], Watch()
    select = {"field_selector": "metadata.name=sleeper", "timeout_seconds": 30}
    with at.beside(TENANT, "Pod", lambda: at.advance(60)):
        listing = core(at, TENANT).list_namespaced_pod
        for event in watch.stream(listing, at.namespace, **select):
            phases.append(event["object"].status.phase)
            if phases[-1] == "Running":
                watch.stop()
    saw = {
        "phases": phases,
        "modules": execute(at, "cat", "/proc/modules"),
        "failed": execute(at, "cat", "/none"),
        # 36 makes "b''" of the text, hence not preloaded
        "log": api.read_namespaced_pod_log(*here, _preload_content=False).data.decode(),
    }
    going = api.delete_namespaced_pod(*here)
    at.advance(60)
    return saw | {
        "deleted": going.metadata.deletion_timestamp is not None,
        "absent": refusal(api.read_namespaced_pod, *here),
    }


def execute(at: Surroundings, *command: str) -> Obj:
    where = {"command": list(command), "stdout": True, "stderr": True, "stdin": False, "tty": False}
    call = core(at, TENANT).connect_get_namespaced_pod_exec
    running = stream(call, "sleeper", at.namespace, _preload_content=False, **where)
    running.run_forever(timeout=30)
    return {
        "out": running.read_stdout(timeout=0) if running.peek_stdout() else "",
        "err": running.read_stderr(timeout=0) if running.peek_stderr() else "",
        "code": running.returncode,
    }


def handed_back(at: Surroundings) -> Obj:
    """A few kinds are answered with the object itself when it goes; the models insist on it."""
    api = core(at, TENANT)
    api.create_namespaced_pod(at.namespace, at.pod("forced"))
    pod = api.delete_namespaced_pod("forced", at.namespace, grace_period_seconds=0)
    api.create_namespaced_service_account(at.namespace, {"metadata": {"name": "gone"}})
    account = api.delete_namespaced_service_account("gone", at.namespace)
    return {"pod": pod.metadata.name, "account": account.metadata.name}


if __name__ == "__main__":
    drive(
        version,
        typed,
        reading,
        writing,
        applying,
        custom,
        dynamically,
        watching,
        running,
        handed_back,
    )
